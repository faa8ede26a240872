"""Recognise the format of a data file by its last bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ...core.bloom.variants import FINAL, Variant
from ...errors import NotParquetError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...storage import Source

if TYPE_CHECKING:
    from ...orc import OrcFile


_ORC = b"ORC"


def open_any(
    source: Source, cache: MetadataCache | None, variant: Variant | Literal["detect"] = FINAL
) -> BloomFile | OrcFile:
    """Open a Parquet or ORC file; `variant` is that of a Parquet file's filters (see `BloomFile`).

    Raises
    ------
    NotParquetError
        The file has neither format.
    ParquetBloomError
        Its footer cannot be read.
    """
    try:
        return BloomFile(source, cache, variant=variant)
    except NotParquetError as error:
        # Not at the top: most lakes have no ORC files. The end of the file is still in memory.
        from ...orc import OrcFile, is_orc

        if is_orc(source):
            return OrcFile(source)
        if source.size >= len(_ORC) and source.read_at(0, len(_ORC)) == _ORC:
            problem = "not an ORC file, or one cut off: it begins with ORC, but does not end as one"
            raise NotParquetError(problem, path=error.path) from None
        raise
