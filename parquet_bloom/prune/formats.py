"""Which format a file is of: decided in one place, by its last bytes, whatever it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..core.variants import FINAL, Variant
from ..errors import NotParquetError
from ..file.cache.memory import MetadataCache
from ..file.reader import BloomFile
from ..storage import Entry, Source, entry_of, open_source
from .parquet_data import ParquetData

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ..orc import OrcFile
    from .orc_data import OrcData


_ORC = b"ORC"


def recognized(
    source: Source, cache: MetadataCache | None, variant: Variant | Literal["detect"] = FINAL
) -> BloomFile | OrcFile:
    """An opened file of whichever format; `variant` is of a Parquet file's filters (see `BloomFile`).

    Raises
    ------
    NotParquetError
        It is of neither.
    ParquetBloomError
        Its footer cannot be read.
    """
    try:
        return BloomFile(source, cache, variant=variant)
    except NotParquetError as error:
        # Not at the top: a lake without ORC files does without. The file's end is still in memory.
        from ..orc import OrcFile, is_orc

        if is_orc(source):
            return OrcFile(source)
        if source.size >= len(_ORC) and source.read_at(0, len(_ORC)) == _ORC:
            problem = "not an ORC file, or one cut off: it begins with ORC, but does not end as one"
            raise NotParquetError(problem, path=error.path) from None
        raise


def open_file(path: str, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """Open a file to read its rows.

    Parameters
    ----------
    path, filesystem : as `open_source` takes them.
    cache : footers of Parquet files that need not be read again, and where this one is put; None for none.

    Raises
    ------
    ParquetBloomError
        As `recognized`, and if it cannot be opened.
    """
    return _data(open_source(path, filesystem), cache)


def open_entry(entry: Entry, filesystem: Any, cache: MetadataCache | None) -> ParquetData | OrcData:
    """The same for a file of a listing, which may have told what opening would ask."""
    return _data(open_source(entry.path, filesystem, entry), cache)


def open_version(path: str, filesystem: Any, cache: MetadataCache | None, identity: Hashable) -> ParquetData | OrcData:
    """Open a file that was opened before, of object stores without asking whether it is the same version.

    Reading another version raises ConcurrentChangeError there; elsewhere `source.identity` tells.
    """
    return _data(open_source(path, filesystem, entry_of(path, filesystem, identity)), cache)


def _data(source: Source, cache: MetadataCache | None) -> ParquetData | OrcData:
    try:
        file = recognized(source, cache)
        if isinstance(file, BloomFile):
            return ParquetData(file)
        from .orc_data import OrcData

        return OrcData(file)
    except BaseException:
        source.close()
        raise
