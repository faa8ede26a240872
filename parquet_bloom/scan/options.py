"""How a scan is made: what the keywords of the public functions say, put together once and passed on whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..errors import ParquetBloomError
from ..file.statistics import ColumnCompatibility


@dataclass(frozen=True)
class ScanOptions:
    """How files are planned and read; which files, and by what evidence, is of the `ScanSource`.

    Attributes
    ----------
    timezone : zone of literals without one.
    ignore_case : match names whatever their case.
    threads, progress : as in `prune`.
    on_error : called with the error of a file, which is then left out; None to raise the first one.
    named : returns whether a column that no file has is valid all the same; None if none is.
    trust : which columns of a file are shown as other values than it stores, so that its evidence is ignored there.
    """

    timezone: str = "UTC"
    ignore_case: bool = False
    threads: int | None = None
    progress: Callable[[int, int], None] | None = None
    on_error: Callable[[ParquetBloomError], None] | None = None
    named: Callable[[str], bool] | None = None
    trust: ColumnCompatibility | None = None
