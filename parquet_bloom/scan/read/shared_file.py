"""One file that several tasks read, and the cost of what is read of files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from ...errors import ConcurrentChangeError
from ...storage import Source
from ..model.data_file import DataFile
from ..model.plan import Decoded, FilePlan, ScanPlan
from ..model.row_selection import RowGroupSelections, RowSelection


class CostMeter:
    """Adds the cost of reading to a plan."""

    def __init__(self, plan: ScanPlan):
        self._plan = plan
        self._noted: WeakKeyDictionary[Source, tuple[int, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def add(self, requests: int, num_bytes: int) -> None:
        """Add what was read otherwise."""
        with self._lock:
            self._plan.data_requests += requests
            self._plan.data_bytes_read += num_bytes

    def note_decoded(self, decoder: str, reason: str, row_groups: int, rows: int) -> None:
        """Note how columns of rows were read."""
        with self._lock:
            for number, one in enumerate(self._plan.decoded):
                if (one.decoder, one.reason) == (decoder, reason):
                    self._plan.decoded[number] = Decoded(decoder, reason, one.row_groups + row_groups, one.rows + rows)
                    return
            self._plan.decoded.append(Decoded(decoder, reason, row_groups, rows))

    def note(self, source: Source) -> None:
        """Add what was read of a file since it was opened, or noted last."""
        with self._lock:
            requests, num_bytes = self._noted.get(source, (0, 0))
            self._noted[source] = now = source.requests, source.bytes_read
            self._plan.data_requests += now[0] - requests
            self._plan.data_bytes_read += now[1] - num_bytes


class SharedFile:
    """A file of a plan, opened when the first of its tasks begins, and closed when the last one ends.

    All tasks read the version that was opened first. A local Parquet file is opened once; others once for each task
    that reads at the same time.

    Parameters
    ----------
    plan : of the file.
    meter : takes the cost.
    num_tasks : number of its tasks.

    Attributes
    ----------
    has_begun : whether the consumer has any of its rows.
    is_over : whether its rows are not wanted any more, since it failed or is read in another way.
    remaining : tasks whose end the consumer has not seen.
    """

    def __init__(self, plan: FilePlan, meter: CostMeter, num_tasks: int = 1):
        self.plan = plan
        self.has_begun = self.is_over = False
        self.remaining = self._running = num_tasks
        self._meter = meter
        self._first: DataFile | None = None
        self._by_row_group: dict[int, RowSelection | None] | None = None  # what is selected
        self._opened: list[DataFile] = []
        self._idle: list[DataFile] = []
        self._lock = threading.Lock()

    def select(self, file: DataFile, row_groups: Sequence[int], is_first: bool) -> RowGroupSelections:
        """Return what a task reads of the open file; if that has changed since it was planned, the first reads all.

        Parameters
        ----------
        row_groups : of the task.
        is_first : whether it is the first of the file.
        """
        if self._by_row_group is None:  # threads may do it twice
            self._by_row_group = dict(self.plan.selections_in(file))
        if self.plan.is_of(file):
            return [(row_group, self._by_row_group[row_group]) for row_group in row_groups]
        return [*self._by_row_group.items()] if is_first else []

    @contextmanager
    def borrow(self, open_data: Callable[[], DataFile]) -> Iterator[DataFile]:
        """Give the open file to a task; `open_data` opens it."""
        file = self._take(open_data)
        try:
            yield file
        finally:
            self._meter.note(file.source)
            if not file.is_shareable:
                with self._lock:
                    self._idle.append(file)

    def _take(self, open_data: Callable[[], DataFile]) -> DataFile:
        with self._lock:  # the others cannot begin before the first has opened it, either
            if self._first is None:
                self._first = open_data()
                self._opened.append(self._first)
                return self._first
            if self._first.is_shareable:
                return self._first
            if self._idle:
                return self._idle.pop()
        file = open_data()
        with self._lock:
            self._opened.append(file)
        if file.source.identity != self._first.source.identity:
            raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
        return file

    def add_tasks(self, count: int) -> None:
        """Note that there are more tasks."""
        with self._lock:
            self.remaining += count
            self._running += count

    def end_task(self) -> None:
        """Note the end of a task."""
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self.close()

    def close(self) -> None:
        """Close the file; no task may read it any more."""
        for file in self._opened:
            self._meter.note(file.source)
            file.close()
        self._opened.clear()
        self._idle.clear()
        self._first = None  # a reader of ORC keeps its descriptor as long as it lives
