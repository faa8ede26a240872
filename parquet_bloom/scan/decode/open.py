"""Open data files of either format, which is recognised by the last bytes and not by the name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...storage import Entry, Source, entry_for_identity, open_source
from ..model.file_format import open_any
from ..model.limits import Limits
from .parquet_file import ParquetData

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .orc.data import OrcData


def open_file(path: str, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """Open a file to read its rows.

    Parameters
    ----------
    path, filesystem : as `open_source` takes them.
    cache : footers of Parquet files, to which this one is added; None for none.

    Raises
    ------
    ParquetBloomError
        As `open_any`, or the file cannot be opened.
    """
    return _open_data(open_source(path, filesystem), cache)


def open_entry(entry: Entry, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """Open a file of a listing, which may have given what opening would request; see `open_file`."""
    return _open_data(open_source(entry.path, filesystem, entry), cache)


def open_version(
    path: str, filesystem: Any, cache: MetadataCache | None, identity: Hashable, limits: Limits | None = None
) -> ParquetData | OrcData:
    """Open a file that was opened before; in object stores, without a request that checks its version.

    Reading another version raises ConcurrentChangeError there; for other files compare `source.identity`.
    """
    return _open_data(open_source(path, filesystem, entry_for_identity(path, filesystem, identity)), cache, limits)


def _open_data(source: Source, cache: MetadataCache | None, limits: Limits | None = None) -> ParquetData | OrcData:
    try:
        file = open_any(source, cache)
        if isinstance(file, BloomFile):
            return ParquetData(file, limits)
        from .orc.data import OrcData

        return OrcData(file)
    except BaseException:
        source.close()
        raise
