"""Open data files of either format."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ...file.bloom_file import BloomFile
from ...file.metadata_cache import MetadataCache
from ...storage import Entry, entry_for_identity, open_source
from ...util.lazy import late_module
from ..model.data_file import open_any
from ..scan_options import Limits
from .parquet_data import ParquetData

if TYPE_CHECKING:
    from ...util.given_types import FileSystem
    from . import orc_decoder
    from .orc_decoder import OrcData
else:
    orc_decoder = late_module("parquet_bloom.scan.decode.orc_decoder")


def open_file(
    path: str,
    filesystem: FileSystem | None,
    cache: MetadataCache | None,
    entry: Entry | None = None,
    limits: Limits | None = None,
) -> ParquetData | OrcData:
    """Open a file of either format, which its last bytes tell and not its name, to read its rows.

    Parameters
    ----------
    path, filesystem : as `open_source` takes them.
    cache : footers of Parquet files, to which this one is added; None for none.
    entry : the file in a listing, which may have given what opening would request.
    limits : how much is decoded at once.

    Raises
    ------
    ParquetBloomError
        As `open_any`, or the file cannot be opened.
    """
    source = open_source(path, filesystem, entry)
    try:
        file = open_any(source, cache)
        if isinstance(file, BloomFile):
            return ParquetData(file, limits)
        return orc_decoder.OrcData(file)
    except BaseException:
        source.close()
        raise


def open_version(
    path: str,
    filesystem: FileSystem | None,
    cache: MetadataCache | None,
    identity: Hashable,
    limits: Limits | None = None,
) -> ParquetData | OrcData:
    """Open a file that was opened before; in object stores, without a request that checks its version.

    Reading another version raises ConcurrentChangeError there; for other files compare `source.identity`.
    """
    return open_file(path, filesystem, cache, entry_for_identity(path, filesystem, identity), limits)
