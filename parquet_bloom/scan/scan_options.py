"""How much is read and decoded at once.

Each figure names the benchmark in `tools/bench/` that shows what another one costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from ..errors import ParquetBloomError
from ..file.column_statistics import ColumnCompatibility
from ..file.pages.page_lookup import PAGE_COSTS, PageCosts


@dataclass(frozen=True)
class Limits:
    """How row groups are read.

    Attributes
    ----------
    max_bytes : bound on the decoded bytes of all threads; a row group that may take more than its share is decoded a
        window of rows at a time. None for no bound.
    use_threads : whether pyarrow decodes the columns of a row group concurrently.
    is_streamed : whether the consumer may stop at any result, so that the first ones are of few row groups.
    widths : the most memory that a row of each column has taken, in bytes.
    """

    max_bytes: int | None = 96 << 20
    use_threads: bool = True
    is_streamed: bool = False
    widths: dict[str, float] = field(default_factory=dict)

    few_of: int = 16
    """Rows are few if they are one of so many: taking them out of pages is faster then (`many_rows.py`)."""

    # Tasks
    remote_threads: int = 16
    """Row groups of remote files that are read concurrently; each takes several requests (`slow_store.py`)."""
    least_batch_rows: int = 1 << 16
    most_batch_rows: int = 1 << 20
    """Of the files that a thread reads together, about: one batch for each thread, since more of them wait for each
    other's Python code (`many_rows.py`)."""
    least_task_rows: int = 1 << 13
    most_task_rows: int = 1 << 17
    tasks_per_thread: int = 8
    """Of a file that is read by itself: handing a task to a thread costs as much as reading some thousand rows, and
    several end together (`orc_lookup.py`)."""
    most_shared: int = 32
    """Files that stay open for pyarrow, each by two more descriptors (`many_rows.py`)."""

    # Locating
    search_bytes: int = 8 << 20
    """Memory that a search for few rows takes, about (`shapes.py`)."""
    part_bytes: int = 32 << 20
    """Decoded at once of several row groups (`many_rows.py`)."""
    first_rows: int = 1 << 12
    """Of which texts are decoded at first, to see how long they are (`many_rows.py`)."""
    page_costs: PageCosts = PAGE_COSTS
    """When pages are read instead of a whole column chunk."""
    tries: int = 2
    """Searches that find too many rows, after which no more are made of files that are alike (`shapes.py`)."""
    indexed_bytes: int = 1 << 20
    """Of a column chunk of a local file: decoding less takes no longer than reading its page index (`shapes.py`)."""
    together_bytes: int = 1 << 18
    together_ratio: int = 4
    """Columns of the result are decoded with those of the predicate if they take, once decoded, no more than the former
    for each file, or the latter times the predicate's bytes: another call takes longer (`many_rows.py`)."""

    # Decoding: parts of the bound that a row group, or a window of a larger one, may take (`many_rows.py`)
    whole_share: int = 2
    window_share: int = 8
    least_window_rows: int = 1024

    def note(self, table: pa.Table) -> None:
        """Note how much memory the columns of a row group took: dictionaries do not show in a footer."""
        if not table.num_rows:
            return
        for name, column in zip(table.schema.names, table.columns, strict=True):
            width = column.get_total_buffer_size() / table.num_rows
            if width > self.widths.get(name, 0.0):
                self.widths[name] = width

    @property
    def whole_bytes(self) -> int:
        """The most bytes of a row group that is decoded at once, if there is a bound."""
        return (self.max_bytes or 0) // self.whole_share

    def needs_windows(self, num_bytes: int) -> bool:
        """Return whether a row group of an estimated size is decoded a window at a time."""
        return self.max_bytes is not None and num_bytes > self.whole_bytes

    def window_bytes(self, num_bytes: int) -> int:
        """Return the bytes that are decoded at once of a row group of an estimated size."""
        if self.max_bytes is None or not self.needs_windows(num_bytes):
            return num_bytes
        return max(1, self.max_bytes // self.window_share)

    def window_rows(self, num_rows: int, num_bytes: int) -> int:
        """Return the rows that are decoded at once of a row group of an estimated size."""
        return max(self.least_window_rows, num_rows * self.window_bytes(num_bytes) // max(1, num_bytes))


LIMITS = Limits()


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
    trust : which columns of a file are shown as other values than it stores: its evidence is ignored there, and their
        comparisons are left to the engine that shows them.
    limits : how much is read and decoded at once.
    """

    timezone: str = "UTC"
    ignore_case: bool = False
    threads: int | None = None
    progress: Callable[[int, int], None] | None = None
    on_error: Callable[[ParquetBloomError], None] | None = None
    named: Callable[[str], bool] | None = None
    trust: ColumnCompatibility | None = None
    limits: Limits = LIMITS
