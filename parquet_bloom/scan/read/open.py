"""Which format a file is of: decided in one place, by its last bytes, whatever it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...storage import Entry, Source, entry_for_identity, open_source
from ..model.file_format import open_any
from .parquet import ParquetData

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .orc import OrcData


def open_file(path: str, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """Open a file to read its rows.

    Parameters
    ----------
    path, filesystem : as `open_source` takes them.
    cache : footers of Parquet files that need not be read again, and where this one is put; None for none.

    Raises
    ------
    ParquetBloomError
        As `open_any`, and if it cannot be opened.
    """
    return _data(open_source(path, filesystem), cache)


def open_entry(entry: Entry, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """The same for a file of a listing, which may have told what opening would ask."""
    return _data(open_source(entry.path, filesystem, entry), cache)


def open_version(path: str, filesystem: Any, cache: MetadataCache | None, identity: Hashable) -> ParquetData | OrcData:
    """Open a file that was opened before, of object stores without asking whether it is the same version.

    Reading another version raises ConcurrentChangeError there; elsewhere `source.identity` tells.
    """
    return _data(open_source(path, filesystem, entry_for_identity(path, filesystem, identity)), cache)


def _data(source: Source, cache: MetadataCache | None) -> ParquetData | OrcData:
    try:
        file = open_any(source, cache)
        if isinstance(file, BloomFile):
            return ParquetData(file)
        from .orc import OrcData

        return OrcData(file)
    except BaseException:
        source.close()
        raise
