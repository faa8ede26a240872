"""Tasks of a read: row groups of files that are alike, which one thread reads together, and their files."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from ..errors import ConcurrentChangeError, ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import CachedFooter, MetadataCache
from ..file.pages.page_columns import PageColumn
from ..file.pages.row_group_batch import RowGroupBatch, RowGroups
from ..storage import OPEN_FILE_BUDGET, ClosedSource, FileIdentity, OpenFiles, Source
from ..storage.local.local_source import LocalSource
from .decode.open_data import open_version
from .decode.parquet_data import ParquetData
from .lookup.file_kind import FileKind
from .model.data_file import DataFile
from .model.scan_plan import PARQUET, FilePlan, RowGroupPlan
from .scan_options import Limits

if TYPE_CHECKING:
    from ..util.given_types import FileSystem
    from .decode.orc_decoder import OrcData

T = TypeVar("T", bound="PlannedFiles | ParquetData | OrcData")


class TaskFiles(ABC, Generic[T]):
    """Files that tasks read: opened by the first of these, and closed at the end of the last one.

    Parameters
    ----------
    plans : of the files.
    num_tasks : after which they are closed.
    note : counts what has been read of a file, before it is closed.

    Attributes
    ----------
    kind : what is read of the files; None if that is not known before they are open.
    has_begun : whether the consumer has any of their rows.
    is_over : whether their rows are not wanted any more, since one has failed or is read in another way.
    is_again : whether the plan was made since a file had changed.
    """

    kind: FileKind | None = None
    is_again = False

    def __init__(self, plans: Sequence[FilePlan], num_tasks: int, note: Callable[[Source], None]):
        self.plans = plans
        self.has_begun = self.is_over = False
        self._remaining, self._note = num_tasks, note
        self._opened: list[ParquetData | OrcData] = []  # files by themselves
        self._idle: list[T] = []  # of these, those that tasks which have ended have read
        self._lock = threading.RLock()

    @contextmanager
    def open(self, limits: Limits) -> Iterator[T | None]:
        """Open the files for a task; None if it is not to read them.

        Raises
        ------
        ConcurrentChangeError
            They are not those of the plan, or of the other tasks, or have ceased to be where another error is raised.
        """
        try:
            opened = None if self.is_over else self._take(limits)
            try:
                yield opened
            except ParquetBloomError:
                self.require_unchanged()  # what was read may be of another version
                raise
            finally:
                if opened is not None and opened is not self:
                    self._idle.append(opened)
        finally:
            with self._lock:
                self._remaining -= 1
                if self._remaining <= 0:
                    self.close()

    @abstractmethod
    def _take(self, limits: Limits) -> T:
        """Return the open files."""

    @abstractmethod
    def require_unchanged(self) -> None:
        """Raise ConcurrentChangeError if what was read may be of another version."""

    def close(self) -> None:
        """Close the files, whatever tasks have not been read; no more are read after that."""
        for data in self._opened:
            self._close_data(data)
        self._opened.clear()
        self._idle.clear()

    def _close_data(self, data: ParquetData | OrcData) -> None:
        self._note(data.source)
        data.close()


class PlannedFiles(TaskFiles["PlannedFiles"]):
    """Local files that are alike, each the version that was planned, opened all at once.

    Parameters
    ----------
    plans, num_tasks, note : as of `TaskFiles`.
    footers : of the files.
    kind : what is read of them.
    cache : of footers; None for none.
    """

    kind: FileKind
    is_local = True

    def __init__(
        self,
        plans: Sequence[FilePlan],
        footers: Sequence[CachedFooter],
        kind: FileKind,
        num_tasks: int,
        cache: MetadataCache | None,
        note: Callable[[Source], None],
    ):
        super().__init__(plans, num_tasks, note)
        self.footers, self.kind, self._cache = footers, kind, cache
        self._identities, paths = [], []
        for plan in plans:
            assert isinstance(plan.identity, FileIdentity)
            self._identities.append(plan.identity)
            paths.append(plan.path)
        self._files = OpenFiles(paths, self._identities)
        self._are_open: bool | None = None
        self._taken = 0  # of the budget
        self._limits = Limits()
        self._shared: dict[int, ParquetData] = {}

    def _take(self, limits: Limits) -> PlannedFiles:
        with self._lock:
            if self._are_open is None:
                # Waits for other scans; more than the budget is better than to wait for what may never end.
                self._taken = len(self.plans) if OPEN_FILE_BUDGET.take(len(self.plans)) else 0
                self._are_open, self._limits = self._files.open(), limits
            if not self._are_open:
                raise self._make_error()
        return self

    def add_tasks(self, number: int) -> None:
        """Let more tasks read the files, in place of one that has ended."""
        with self._lock:
            if self._remaining <= 0:
                self._are_open = None  # they were closed
            self._remaining += number

    def require_unchanged(self) -> None:
        """See `TaskFiles.require_unchanged`."""
        if not self._files.are_unchanged():
            raise self._make_error()

    def _make_error(self) -> ConcurrentChangeError:
        path = self.plans[0].path if len(self.plans) == 1 else None
        return ConcurrentChangeError("another writer changed it meanwhile", path=path)

    @contextmanager
    def borrow(self, number: int) -> Iterator[ParquetData]:
        """Give an open file for as long as it is used; if there are few, it stays open until the last task ends."""
        if len(self.plans) > self._limits.most_shared:
            data = self._open_data(number)
            try:
                yield data
            finally:
                self._close_data(data)
            return
        with self._lock:
            if number not in self._shared:
                self._shared[number] = self._open_data(number)
                self._opened.append(self._shared[number])
        yield self._shared[number]

    def _open_data(self, number: int) -> ParquetData:
        """Open a file that is open already, whatever is at its path by now."""
        path = self.plans[number].path
        # A copy: a scan that is given up may close the files while a worker of its own still reads.
        source = LocalSource(path, (path, os.dup(self._files.descriptor(number))))
        return ParquetData(BloomFile(source, self._cache, self.footers[number]), self._limits)

    def make_pages(self, groups: RowGroups, columns: Mapping[str, PageColumn]) -> RowGroupBatch:
        """Make the decoder "pages" of row groups."""
        headers = None if self._cache is None else [cached.page_headers for cached in self.footers]
        return RowGroupBatch(groups, columns, self._files, headers)

    def remember(self, pages: RowGroupBatch) -> None:
        """Update the sizes in the cache of files whose entries have grown."""
        for number in pages.grown:
            if self._cache is not None:
                self._cache.keep(self.plans[number].path, self._identities[number], self.footers[number])

    def close(self) -> None:
        """See `TaskFiles.close`."""
        with self._lock:
            self._are_open = False
            super().close()
            self._shared.clear()
            self._files.close()
            taken, self._taken = self._taken, 0
            OPEN_FILE_BUDGET.give_back(taken)


class SharedFile(TaskFiles["ParquetData | OrcData"]):
    """One file of any kind.

    All tasks read the version that was planned, or opened first. A local Parquet file is opened once; others once for
    each task that reads at the same time: what is prefetched of an object, or kept of a stripe, is for one at a time.

    Parameters
    ----------
    plan : of the file.
    num_tasks, note : as of `TaskFiles`.
    open_data : opens it, to read rows of it.
    is_again : as of `TaskFiles`.
    """

    def __init__(
        self,
        plan: FilePlan,
        num_tasks: int,
        open_data: Callable[[FilePlan, Limits], ParquetData | OrcData],
        note: Callable[[Source], None],
        is_again: bool = False,
    ):
        super().__init__([plan], num_tasks, note)
        self.is_again, self._open_data = is_again, open_data
        self._first: ParquetData | OrcData | None = None

    def _take(self, limits: Limits) -> ParquetData | OrcData:
        plan = self.plans[0]
        with self._lock:  # the others cannot begin before the first has opened it, either
            if self._first is None:
                self._first = self._open_data(plan, limits)
                self._opened.append(self._first)
                data: ParquetData | OrcData | None = self._first
            elif self._first.format == PARQUET and self._first.is_local:
                data = self._first
            else:
                data = self._idle.pop() if self._idle else None
            identity = self._first.source.identity
        if data is None:
            data = self._open_data(plan, limits)
            with self._lock:
                self._opened.append(data)
        if not plan.is_of(data) or data.source.identity != identity:
            raise ConcurrentChangeError("another writer changed it meanwhile", path=data.path)
        return data

    def require_unchanged(self) -> None:
        """Raise ConcurrentChangeError if a local file was written to since it was opened."""
        for data in list(self._opened):
            source = data.source
            if isinstance(source, LocalSource):
                now = FileIdentity.from_stat(os.fstat(source.fileno()))
                if not now.same_bytes(source.identity):
                    raise ConcurrentChangeError("another writer changed it meanwhile", path=data.path)

    def close(self) -> None:
        """See `TaskFiles.close`."""
        super().close()
        self._first = None  # a reader of ORC keeps its descriptor as long as it lives


@dataclass(eq=False)
class Task:
    """Row groups that one thread reads together.

    Attributes
    ----------
    files : that they are of.
    row_groups : (number of a file, plan of a row group) of each.
    num_done : of how many of them, from the first one on, all rows have been given.
    is_inside : whether some rows of the next one have been given.
    is_cut : whether those that are not done are left to tasks of one file each.
    cost : requests and bytes that were read of pages.
    decoded : by each (decoder, reason) of `Decoded`, the numbers of row groups and of rows.
    """

    files: PlannedFiles | SharedFile
    row_groups: Sequence[tuple[int, RowGroupPlan]]
    num_done: int = 0
    is_inside: bool = False
    is_cut: bool = False
    cost: tuple[int, int] = (0, 0)
    decoded: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)


@dataclass(eq=False)
class TaskPlanner:
    """Puts the row groups of a plan into tasks: those of local files that are alike are read together.

    Parameters
    ----------
    filesystem, cache : of the files, and of footers.
    find_kind : returns what is read of a file; None if no row of it can match.
    note : counts what has been read of a file, before it is closed.
    limits : sizes of tasks.
    threads, is_remote : how many threads read, and whether the files are not local.
    """

    filesystem: FileSystem | None
    cache: MetadataCache | None
    find_kind: Callable[[DataFile], FileKind | None]
    note: Callable[[Source], None]
    limits: Limits
    threads: int
    is_remote: bool
    _task_rows: int = 0

    def plan(self, plans: Sequence[FilePlan], failed: Collection[str] = ()) -> list[Task]:
        """Return the tasks, in the order of the plans; none of files that have failed before, given by their paths."""
        limits, threads = self.limits, self.threads
        sizes, total = [], 0
        for plan in plans:
            if plan.path in failed:
                continue
            before = total
            for group in plan.read_groups:
                total += group.num_rows
            sizes.append((plan, total - before))
        if not self.is_remote:
            share = total // (limits.tasks_per_thread * threads)
            self._task_rows = min(max(limits.least_task_rows, share), limits.most_task_rows)
        most_files = max(OPEN_FILE_BUDGET.find_limit() // (2 * threads), 1)
        most_rows = min(max(limits.least_batch_rows, total // threads), limits.most_batch_rows)
        tasks: list[Task] = []
        alike: list[tuple[FilePlan, CachedFooter]] = []
        kind, num_rows, most = None, 0, 0
        for plan, size in sizes:
            found = self._find_alike(plan) if size and not self.is_remote else None
            is_full = len(alike) >= most_files or num_rows + size > most
            if alike and (found is None or found[0] is not kind or is_full):
                tasks += self._make_tasks(alike, kind, most)
                alike, num_rows = [], 0
            if found is None:
                tasks += self.split(plan)
                continue
            if not alike:
                kind = found[0]
                most = most_rows if kind.equalities else min(most_rows, self._count_rows_of_part(kind))
            alike.append((plan, found[1]))
            num_rows += size
        return tasks + self._make_tasks(alike, kind, most)

    def _find_alike(self, plan: FilePlan) -> tuple[FileKind, CachedFooter] | None:
        """Return the kind of a local file and its footer; None for a file that is read by itself."""
        if plan.format != PARQUET or not isinstance(plan.identity, FileIdentity):
            return None
        cached = plan.footer
        if cached is None and self.cache is not None:
            cached = self.cache.find(plan.path, plan.identity)
        try:
            if cached is None:  # evicted, or too new to be cached
                with open_version(plan.path, self.filesystem, self.cache, plan.identity) as opened:
                    self.note(opened.source)
                    if not isinstance(opened, ParquetData) or not plan.is_of(opened):
                        return None
                    cached = opened.file.cached
            kind = self.find_kind(ParquetData(BloomFile(ClosedSource(plan.path, plan.identity), cached=cached)))
        except ParquetBloomError:  # raised when the file is read, and reported of it alone
            return None
        return None if kind is None else (kind, cached)

    def _count_rows_of_part(self, kind: FileKind) -> int:
        """Return of how many rows are decoded together, by the first row group of a file."""
        assert isinstance(kind.data, ParquetData)
        footer = kind.data.file.footer
        if not footer.num_row_groups:
            return self.limits.part_bytes
        groups = RowGroups([footer], [(0, 0)])
        num_bytes = float(groups.estimate([0], kind.decoded, self.limits.widths)[0])
        width = max(int(num_bytes / max(groups.total_rows, 1)), 1)
        return max(self.limits.part_bytes // width, 1)

    def _make_tasks(
        self, alike: Sequence[tuple[FilePlan, CachedFooter]], kind: FileKind | None, most_rows: int
    ) -> list[Task]:
        """Return a task of files that are alike, or several of a single large file."""
        if kind is None or not alike:
            return []
        row_groups: list[tuple[int, RowGroupPlan]] = []
        cuts, num_rows = [0], 0
        for file, (plan, _) in enumerate(alike):
            for group in plan.read_groups:
                if len(alike) == 1 and len(row_groups) > cuts[-1] and num_rows + group.num_rows > most_rows:
                    cuts.append(len(row_groups))
                    num_rows = 0
                num_rows += group.num_rows
                row_groups.append((file, group))
        plans, footers = zip(*alike, strict=True)
        files = PlannedFiles(plans, footers, kind, len(cuts), self.cache, self.note)
        tasks = []
        for start, end in zip(cuts, [*cuts[1:], len(row_groups)], strict=True):
            tasks.append(Task(files, row_groups[start:end]))
        return tasks

    def split(self, plan: FilePlan, is_again: bool = False) -> list[Task]:
        """Return the tasks of a file that is read by itself: at least one, as a file that has changed is read anew."""
        parts: list[list[tuple[int, RowGroupPlan]]] = []
        stripe, num_rows = None, 0
        for group in plan.read_groups:
            same_stripe = group.stripe is not None and group.stripe == stripe
            if parts and (same_stripe or num_rows + group.num_rows <= self._task_rows):
                parts[-1].append((0, group))
                num_rows += group.num_rows
            else:
                parts.append([(0, group)])
                num_rows = group.num_rows
            stripe = group.stripe
        file = SharedFile(plan, max(len(parts), 1), self._open_data, self.note, is_again)
        return [Task(file, part) for part in parts or [[]]]

    def _open_data(self, plan: FilePlan, limits: Limits) -> ParquetData | OrcData:
        return open_version(plan.path, self.filesystem, self.cache, plan.identity, limits)

    def divide(self, task: Task) -> list[Task]:
        """Return tasks that read what is left of one: each file by itself, or each row group of the only one.

        So an error is of one of them alone, and the rows before it are read.
        """
        files, tasks = task.files, []
        assert isinstance(files, PlannedFiles)
        left, begun = task.row_groups[task.num_done :], {file for file, _ in task.row_groups[: task.num_done]}
        if len(files.plans) == 1:  # other tasks may read it, too: once it has failed, it has for all of them
            files.add_tasks(len(left))
            return [Task(files, [group]) for group in left]
        for number, plan in enumerate(files.plans):
            groups = [(0, group) for file, group in left if file == number]
            if groups:
                one = PlannedFiles([plan], [files.footers[number]], files.kind, 1, self.cache, self.note)
                one.has_begun = number in begun
                tasks.append(Task(one, groups))
        return tasks
