"""Put the row groups of a plan into tasks: those of local files that are alike are read together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...predicate.pruning import PruningPredicate
from ...storage import OPEN_FILE_BUDGET, ClosedSource, FileIdentity, Source
from ..decode.columns_decoder import estimate_decoded, select_leaves
from ..decode.parquet_file import ParquetData
from ..locate.file_kind import FileKind
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile
from ..model.plan import PARQUET, FilePlan, RowGroupPlan
from ..model.schemas import reading
from .planned_files import PlannedFiles

_LEAST_ROWS, _MOST_ROWS = 1 << 16, 1 << 20  # of a batch, about
_BATCHES_PER_THREAD = 1  # more of them wait for each other's Python code
_PART_BYTES = 32 << 20  # decoded, of a batch in which nothing is searched for
_LEAST_TASK_ROWS, _MOST_TASK_ROWS = 8192, 1 << 17
_TASKS_PER_THREAD = 8


@dataclass(eq=False)
class FileTask:
    """Row groups of one file that one thread reads.

    Attributes
    ----------
    plans : of the file alone.
    row_groups : their numbers.
    is_first : whether it is the first task of the file, which reads all of it if it has changed.
    """

    plans: list[FilePlan]
    row_groups: list[int]
    is_first: bool


@dataclass(eq=False)
class BatchTask:
    """Row groups of local files that are alike, which one thread reads together.

    Attributes
    ----------
    plans, kind, footers, files : of the files.
    row_groups : (number of a file in `plans`, plan of a row group) of each.
    num_done : how many of the row groups, from the first one on, the consumer has got.
    is_inside : whether it has got some rows of the next one.
    cost : requests and bytes that were read of pages.
    """

    plans: list[FilePlan]
    row_groups: list[tuple[int, RowGroupPlan]]
    kind: FileKind
    footers: list[CachedFooter]
    files: PlannedFiles
    num_done: int = 0
    is_inside: bool = False
    cost: tuple[int, int] = (0, 0)


class BatchPlanner:
    """Puts the row groups of a plan into tasks.

    Parameters
    ----------
    cache : of footers; None for none.
    open_planned : opens the version of a file that was planned; raises ConcurrentChangeError if that is not there.
    evaluator : the predicate of each file.
    make_kind : makes the kind of a file, given its predicate.
    find_key : returns what files must have in common besides schema and predicate.
    note : notes what has been read of a file, before it is closed.
    """

    def __init__(
        self,
        cache: MetadataCache | None,
        open_planned: Callable[[FilePlan], AbstractContextManager[ParquetData]],
        evaluator: FileResidualEvaluator,
        make_kind: Callable[[ParquetData, PruningPredicate | bool], FileKind],
        find_key: Callable[[DataFile], Hashable],
        note: Callable[[Source], None],
    ):
        self._cache = cache
        self._open_planned = open_planned
        self._evaluator = evaluator
        self._make_kind = make_kind
        self._find_key = find_key
        self._note = note
        self._kinds: dict[Hashable, FileKind] = {}

    def find_kind(self, data: ParquetData) -> FileKind | None:
        """Return the kind of a file; None if no row of it can match."""
        predicate = self._evaluator.predicate_for(data)
        if predicate is False:
            return None
        key = id(predicate), id(data.schema), self._find_key(data)
        kind = self._kinds.get(key)
        if kind is None:
            with reading(data.file):
                kind = self._kinds.setdefault(key, self._make_kind(data, predicate))
        return kind

    def _find_alike(self, plan: FilePlan) -> tuple[FileKind, CachedFooter] | None:
        """Return the kind of a local file and its footer; None for a file that is read by itself."""
        if plan.format != PARQUET or not isinstance(plan.identity, FileIdentity):
            return None
        cached = plan.footer
        if cached is None and self._cache is not None:
            cached = self._cache.find(plan.path, plan.identity)
        try:
            if cached is None:  # evicted, or too new to be cached
                with self._open_planned(plan) as opened:
                    cached = opened.file.cached
            kind = self.find_kind(ParquetData(BloomFile(ClosedSource(plan.path, plan.identity), cached=cached)))
        except ParquetBloomError:  # raised when the file is read, and reported of it alone
            return None
        return None if kind is None else (kind, cached)

    def plan(self, plans: Sequence[FilePlan], threads: int, is_remote: bool) -> list[FileTask | BatchTask]:
        """Return the tasks, in the order of the plans."""
        total = sum([group.num_rows for plan in plans for group in plan.read_groups])
        # Handing a task to a thread costs as much as reading some thousand rows, and several end together.
        task_rows = min(max(_LEAST_TASK_ROWS, total // (_TASKS_PER_THREAD * threads)), _MOST_TASK_ROWS)
        most_files = max(OPEN_FILE_BUDGET.find_limit() // (2 * threads), 1)
        most_rows = min(max(_LEAST_ROWS, total // (_BATCHES_PER_THREAD * threads)), _MOST_ROWS)
        tasks: list[FileTask | BatchTask] = []
        batch: _OpenBatch | None = None
        for plan in plans:
            groups = plan.read_groups
            alike = self._find_alike(plan) if groups and not is_remote else None
            num_rows = sum([group.num_rows for group in groups])
            if batch is not None and (alike is None or not batch.takes(alike[0], num_rows, most_files, most_rows)):
                tasks += self._finish(batch, most_rows)
                batch = None
            if alike is None:
                tasks += _split_file(plan, 0 if is_remote else task_rows)
                continue
            batch = batch or _OpenBatch(alike[0])
            batch.add(plan, alike[1], groups, num_rows)
        if batch is not None:
            tasks += self._finish(batch, most_rows)
        return tasks

    def _finish(self, batch: _OpenBatch, most_rows: int) -> list[BatchTask]:
        """Return a batch, or several of a single large file."""
        cuts, num_rows, most_rows = [0], 0, min(most_rows, batch.most_rows)
        for number, (_, group) in enumerate(batch.row_groups if len(batch.plans) == 1 else ()):
            if number > cuts[-1] and num_rows + group.num_rows > most_rows:
                cuts.append(number)
                num_rows = 0
            num_rows += group.num_rows
        files = PlannedFiles(batch.plans, batch.footers, len(cuts), self._cache, self._note)
        return [
            BatchTask(batch.plans, batch.row_groups[start:end], batch.kind, batch.footers, files)
            for start, end in pairwise([*cuts, len(batch.row_groups)])
        ]

    def divide(self, task: BatchTask) -> list[BatchTask]:
        """Return tasks that read what is left of a batch: each file by itself, or each row group of the only one.

        So an error is of one of them alone, and the rows before it are read.
        """
        tasks, remaining = [], task.row_groups[task.num_done :]
        if len(task.plans) == 1:
            files = PlannedFiles(task.plans, task.footers, len(remaining), self._cache, self._note)
            return [BatchTask(task.plans, [group], task.kind, task.footers, files) for group in remaining]
        for number, plan in enumerate(task.plans):
            groups = [(0, group) for file, group in remaining if file == number]
            if groups:
                files = PlannedFiles([plan], [task.footers[number]], 1, self._cache, self._note)
                tasks.append(BatchTask([plan], groups, task.kind, [task.footers[number]], files))
        return tasks


class _OpenBatch:
    """A batch that files are added to."""

    def __init__(self, kind: FileKind):
        self.kind = kind
        self.plans: list[FilePlan] = []
        self.footers: list[CachedFooter] = []
        self.row_groups: list[tuple[int, RowGroupPlan]] = []
        self.most_rows = _MOST_ROWS if kind.equalities else max(_PART_BYTES // _estimate_row(kind), 1)
        self._num_rows = 0

    def takes(self, kind: FileKind, num_rows: int, most_files: int, most_rows: int) -> bool:
        """Return whether a file may be added."""
        num_rows += self._num_rows
        return kind is self.kind and len(self.plans) < most_files and num_rows <= min(most_rows, self.most_rows)

    def add(self, plan: FilePlan, footer: CachedFooter, row_groups: Sequence[RowGroupPlan], num_rows: int) -> None:
        """Add a file."""
        self.row_groups += [(len(self.plans), group) for group in row_groups]
        self.plans.append(plan)
        self.footers.append(footer)
        self._num_rows += num_rows


def _estimate_row(kind: FileKind) -> int:
    """Estimate the memory that a row takes once it is decoded, by the first row group of a file."""
    footer, predicate = kind.file.footer, kind.row_filter.predicate
    names = kind.find_names(predicate.node if isinstance(predicate, PruningPredicate) else None, True)
    leaves = select_leaves(footer.leaves, names)
    groups = footer.row_groups
    if not len(groups) or int(groups[0]["num_rows"]) <= 0 or int(groups[0]["num_columns"]) != len(footer.leaves):
        return 1
    records = footer.chunks[int(groups[0]["first_chunk"]) + np.array([[leaf.index] for leaf in leaves], np.intp)]
    num_rows = np.array([int(groups[0]["num_rows"])], np.int64)
    return max(int(estimate_decoded(records, leaves, num_rows, {})[0] / num_rows[0]) if leaves else 1, 1)


def _split_file(plan: FilePlan, task_rows: int) -> list[FileTask]:
    """Return the tasks of a file: at least one, which reads a file that has changed.

    Parameters
    ----------
    task_rows : small row groups are joined up to so many rows.
    """
    tasks: list[list[int]] = []
    stripe, num_rows = None, 0
    for group in plan.read_groups:
        same_stripe = group.stripe is not None and group.stripe == stripe
        if tasks and (same_stripe or num_rows + group.num_rows <= task_rows):
            tasks[-1].append(group.row_group)
            num_rows += group.num_rows
        else:
            tasks.append([group.row_group])
            num_rows = group.num_rows
        stripe = group.stripe
    return [FileTask([plan], row_groups, number == 0) for number, row_groups in enumerate(tasks or [[]])]
