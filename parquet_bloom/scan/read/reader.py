"""Read the rows that match a predicate: selected row groups are read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa

from ...errors import ConcurrentChangeError, ParquetBloomError, PredicateError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...file.columns import find_leaves
from ...file.pages.sparse import RowsOfGroups
from ...file.statistics import ColumnCompatibility
from ...hashing.column_type import ColumnType
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import Probes, row_mask
from ...storage import is_local
from ...tables.footers import as_table_footers
from ...util.arrow_pool import can_use_arrow_threads
from ...util.arrow_values import empty_table
from ...util.read_ahead import Need, Piece, ReadAhead
from ...util.threads import processors
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile, RowFilter
from ..model.fit import fit_table
from ..model.limits import MAX_BYTES, ReadLimits
from ..model.plan import FilePlan, RowGroupPlan, ScanPlan
from ..model.positions import add_positions, with_positions
from ..model.row_selection import RowGroupSelections
from ..model.schemas import map_in_threads, promote_table, unify_schemas
from .batches import BATCH_BYTES, BatchPlanner, FileVersions, RowBatch
from .open import open_file, open_version
from .parquet import ParquetData
from .projection import Projection
from .shared_file import CostMeter, SharedFile
from .table_rows import TableRows

R = TypeVar("R")

BATCH_ROWS = 65_536

_REMOTE_THREADS = 16  # row groups of remote files that are read concurrently; each takes several requests
_LEAST_TASK_ROWS, _MOST_TASK_ROWS = 8192, 1 << 17
_TASKS_PER_THREAD = 8

_NEGATIVE = (tree.NotEqual, tree.NotIn, tree.NotContains, tree.CallNotIn)

_DECLINED = object()  # in place of a batch's result

_Fail = Callable[[ParquetBloomError, FilePlan], None]
_ReadPart = Callable[[DataFile, RowGroupSelections, RowFilter], Iterator[Need | Piece[R]]]


class _Run(NamedTuple):
    """How files are read; see `RowReader.read_batches`.

    Attributes
    ----------
    fail : called with the error of a file.
    failed : files that have failed before.
    """

    in_order: bool
    max_bytes: int | None
    threads: int | None
    progress: Callable[[int, int], None] | None
    fail: _Fail
    failed: Collection[str] = ()


class _PartReader(Generic[R]):
    """What is read of files.

    Attributes
    ----------
    read_part : reads row groups of a file that are decoded together.
    read_batch : reads a batch; returns None if the batch is declined.
    read_dense : reads all rows of a batch, given `use_threads` as for `DenseReader`; returns the result and its bytes;
        None if the batch is declined.
    """

    def __init__(
        self,
        read_part: _ReadPart[R],
        read_batch: Callable[[RowBatch], R | None],
        read_dense: Callable[[RowBatch, bool], tuple[R, int] | None],
    ):
        self.read_part = read_part
        self.read_batch = read_batch
        self.read_dense = read_dense


class _FileTask(NamedTuple):
    """Row groups of a file that one thread reads.

    Attributes
    ----------
    is_first : whether it is the first task of the file, which reads all of it if it has changed.
    """

    file: SharedFile
    row_groups: list[int]
    is_first: bool


class _Progress:
    """Counts files that have been read."""

    def __init__(self, total: int, report: Callable[[int, int], None] | None, done: int):
        self._total, self._report, self._done = total, report, done
        if done and report:
            report(done, total)

    def add(self) -> None:
        """Count another file."""
        self._done += 1
        if self._report:
            self._report(self._done, self._total)


class _Reading(NamedTuple, Generic[R]):
    """State of a read that its tasks share.

    Attributes
    ----------
    files : by the id of their plan.
    threads, task_rows : threads, and up to how many rows small row groups are joined to a task.
    """

    files: dict[int, SharedFile]
    reader: _PartReader[R]
    run: _Run
    limits: ReadLimits
    threads: int
    task_rows: int
    done: _Progress


class RowReader:
    """Reads the rows that match the predicate of a plan; partition values answer their part of it.

    Parameters
    ----------
    plan : of the files, with its request.
    columns : top-level columns or dotted leaves of the result; None for all.
    schema : of the result; None for the unified schema of the files that are read.
    cache : of footers.
    trust : the columns that a dataset shows as other values than a file stores: their comparisons are left to its
        engine.
    positions : append the physical position of each row to what `read_batches` gives; see `positions.py`.
    """

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        cache: MetadataCache | None = SHARED_CACHE,
        trust: ColumnCompatibility | None = None,
        positions: bool = False,
    ):
        request = plan.asked
        assert request is not None, "the report is not prune's"
        self._plan = plan
        self._filesystem = plan.filesystem
        self._cache = cache
        self._schema = schema
        self._projection = Projection(columns, plan.partitions, request.ignore_case)
        self._timezone = request.timezone
        self._table: TableRows | None = None
        if plan.table is not None:
            cache = self._cache = as_table_footers(cache, plan.table.columns)
            self._table = TableRows(plan.table, request.node, request.timezone, columns, plan.partitions)
        # Rows whose values the table shows in other types are filtered here, or by the engine that gives `trust`.
        self._filters_again = self._table is not None and trust is None
        trust = self._table.trust if self._table is not None and trust is None else trust
        residuals = plan.partitions.make_residuals(request.node, request.timezone, ignore_case=request.ignore_case)
        self._evaluator = FileResidualEvaluator(residuals, request.timezone, request.ignore_case, trust)
        self._probes: Probes = {}
        self._targets: dict[tuple[int, ColumnType], Targets | None] = {}
        self._fit = promote_table if plan.table is None else fit_table
        self._meter = CostMeter(plan)
        self._positions = positions

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result. The selected files are opened for it, unless it was given."""
        return self._find_schema(None)

    def read_batches(
        self,
        batch_size: int = BATCH_ROWS,
        *,
        in_order: bool = True,
        max_bytes: int | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_error: Callable[[ParquetBloomError], None] | None = None,
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        """Read the rows lazily; return their schema and a generator of batches.

        Row groups are read by several threads, ahead of what is taken. Closing the generator ends the threads.

        Parameters
        ----------
        batch_size : maximum rows of a batch, which is never empty.
        in_order : give the rows in the order of files and row groups; otherwise batches as they come.
        max_bytes : bound on the decoded bytes in memory at a time; None for `MAX_BYTES`. A row group that alone exceeds
            it is decoded a window of rows at a time, if its format allows that.
        threads : None for one for each processor, or more for remote files.
        progress : called after each file that is read with (done, in all).
        on_error : called with the error of a file that cannot be read, whose remaining rows are then missing; without
            it, the error is raised.
        """
        failed: set[str] = set()
        fail = _make_handler(on_error, failed)
        plans = self._files_to_open()  # now, so that files that must not be read are refused before the first batch
        schema = self._find_schema(None if on_error is None else fail)
        for error, plan in self._find_mistakes(plans):
            fail(error, plan)
        if self._positions:
            schema = with_positions(schema)

        def convert(table: pa.Table) -> list[pa.RecordBatch]:
            batches: list[pa.RecordBatch] = self._fit(table, schema).combine_chunks().to_batches(batch_size)
            return batches

        def read_batches() -> Generator[pa.RecordBatch, None, None]:
            run = _Run(in_order, max_bytes, threads, progress, fail, failed)
            with closing(self._read(plans, self._make_parts(convert), run)) as results:
                for _, batches in results:
                    yield from batches

        return schema, read_batches()

    def read_table(
        self,
        *,
        max_bytes: int | None = None,
        threads: int | None = None,
        note: Callable[[pa.Table], None] | None = None,
    ) -> pa.Table:
        """Read all rows.

        Parameters
        ----------
        max_bytes, threads : as for `read_batches`.
        note : called with rows as they are read, before more are taken; what it raises ends the read.
        """
        if self._projection.is_ambiguous:  # the first file decides on the spelling of names
            _ = self.schema
        plans = self._files_to_open()
        tables: dict[str, list[pa.Table]] = {plan.path: [] for plan in plans}
        run = _Run(True, max_bytes, threads, None, _make_handler(None))
        known: set[str] = set()
        with closing(self._read(plans, self._make_parts(lambda table: table), run)) as results:
            for of_table, table in results:
                if note is not None:
                    note(table)
                tables[of_table[0].path].append(table)
                known.update(plan.path for plan in of_table)
        schema = self._schema
        if schema is None:
            empty = [plan for plan in plans if plan.path not in known]
            for plan, file_schema in zip(empty, self._map_files(self._read_schema, empty), strict=True):
                tables[plan.path].append(self._projection.add_partitions(empty_table(file_schema)))
            tables[""] = [empty_table(one) for one in self._find_elsewhere()]
            schemas = [table.schema for of_file in tables.values() for table in of_file]
            schema = unify_schemas(schemas) if schemas else pa.schema([])
        parts = [self._fit(table, schema) for of_file in tables.values() for table in of_file]
        if not len(schema):  # tables without columns lose their number of rows when they are concatenated
            return pa.table({"": pa.nulls(sum(part.num_rows for part in parts))}).select([])
        return pa.concat_tables([empty_table(schema), *parts])

    def count_rows(
        self,
        *,
        max_bytes: int | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        on_error: Callable[[ParquetBloomError], None] | None = None,
    ) -> int:
        """Count the matching rows, reading the predicate's columns alone; without a predicate from footers alone.

        For the parameters see `read_batches`.
        """
        plans = [plan for plan in self._plan.files if plan.read_groups]
        assert self._plan.asked is not None
        if self._plan.asked.node is None and not (self._plan.table and self._plan.table.deletes):
            return sum(group.num_rows for plan in plans for group in plan.read_groups)

        run = _Run(False, max_bytes, threads, progress, _make_handler(on_error))
        parts = _PartReader(self._count_part, self._count_batch, self._count_dense)
        with closing(self._read(plans, parts, run)) as results:
            return sum(sum(counts.values()) for _, counts in results)

    def count_matches(self, plan: FilePlan) -> dict[int, int]:
        """Count the matching rows of each selected row group of a file, reading the predicate's columns alone.

        Raises
        ------
        ConcurrentChangeError
            The file has changed since it was planned.
        """
        with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
            if plan.identity is not None and file.source.identity != plan.identity:
                raise ConcurrentChangeError("another writer changed it meanwhile", path=file.path)
            selections = self._select_rows(file, plan, plan.selections_in(file))
            counts = dict.fromkeys(plan.selected, 0)
            try:
                for step in self._read_parts(file, selections, self._count_part):
                    for row_group, count in step.value.items() if isinstance(step, Piece) else ():
                        counts[row_group] += count
                return counts
            finally:
                self._meter.note(file.source)

    def _files_to_open(self) -> list[FilePlan]:
        """Return the files with a row group to read; if there are none, the first file, for its schema alone."""
        selected = [plan for plan in self._plan.files if plan.read_groups]
        return selected if selected or self._schema is not None else self._plan.files[:1]

    def _find_schema(self, fail: _Fail | None) -> pa.Schema:
        if self._schema is not None:
            return self._schema
        plans = self._files_to_open()

        def read_schema(plan: FilePlan) -> pa.Schema | ParquetBloomError:
            try:
                return self._read_schema(plan)
            except ParquetBloomError as error:
                if fail is None:
                    raise
                return error

        schemas = []
        for plan, result in zip(plans, self._map_files(read_schema, plans), strict=True):
            if isinstance(result, ParquetBloomError):
                assert fail is not None
                fail(result, plan)
            else:
                schemas.append(result)
        schemas += self._find_elsewhere()
        if not schemas:
            return pa.schema([])
        return self._projection.add_partitions(empty_table(unify_schemas(schemas))).schema

    def _find_mistakes(self, plans: Sequence[FilePlan]) -> list[tuple[PredicateError, FilePlan]]:
        """Return each file's error, if no file has a column that some literal can be compared with; none otherwise.

        Most likely the predicate is wrong then, so nothing is to be read for it.
        """
        node = None if self._plan.asked is None else self._plan.asked.node
        if node is None:
            return []
        found = []
        # Such a literal is a doubt of each row group, unless pruning has no use for its leaf.
        has_doubts = any(isinstance(leaf, _NEGATIVE) for leaf in tree.leaves(node))
        for plan in plans:
            if not has_doubts and not any(group.doubts for group in plan.read_groups):
                return []
            error = self._find_mistake(plan)
            if error is None:
                return []
            found.append((error, plan))
        return found

    def _find_mistake(self, plan: FilePlan) -> PredicateError | None:
        """Return the error that evaluating the predicate on a file's rows ends with, whatever their values."""
        with self._open(plan) as file:
            predicate = self._evaluator.predicate_for(file)
            if isinstance(predicate, bool):
                return None
            leaves = {name: find_leaves(file.leaves, name) for name in sorted(tree.columns(predicate.node))}
            if any(isinstance(leaf, Leaf) and leaf.physical == "INT96" for found in leaves.values() for leaf in found):
                return None  # these are compared as they are stored
            table = empty_table(file.select_schema([name for name, found in leaves.items() if found]))
            try:
                row_mask(table, predicate.node, timezone=self._timezone)
            except PredicateError as error:
                error.path = error.path or plan.path
                return error
        return None

    def _is_local(self, plans: Sequence[FilePlan]) -> bool:
        return is_local(self._filesystem, [plan.path for plan in plans])

    def _map_files(self, function: Callable[[FilePlan], R], plans: Sequence[FilePlan]) -> list[R]:
        return map_in_threads(function, plans, remote=not self._is_local(plans))

    def _find_elsewhere(self) -> list[pa.Schema]:
        paths = [plan.path for plan in self._plan.files]
        return self._projection.find_elsewhere(paths, self._filesystem, self._cache, self._meter.note)

    def _read_schema(self, plan: FilePlan) -> pa.Schema:
        """Return the schema of the columns read of a file, without partition columns and columns that it lacks."""
        with self._open(plan) as file:
            projection = self._projection.project(file)
            return pa.schema([]) if projection.is_counter and projection.absent else projection.schema

    @contextmanager
    def _open(self, plan: FilePlan) -> Iterator[DataFile]:
        with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
            try:
                yield file
            finally:
                self._meter.note(file.source)

    # ------------------------------------------------------------------------------------- reading by several threads

    def _read(
        self, plans: Sequence[FilePlan], reader: _PartReader[R], run: _Run
    ) -> Generator[tuple[Sequence[FilePlan], R], None, None]:
        """Read files, or parts of them, in threads, and yield the results, each with its files."""
        is_remote = not self._is_local(plans)
        threads = run.threads or (_REMOTE_THREADS if is_remote else processors())
        task_rows = 0 if is_remote else _find_task_rows(plans, threads)
        remaining = [plan for plan in plans if plan.path not in run.failed]
        files: dict[int, SharedFile] = {}
        tasks: list[_FileTask | RowBatch] = []
        for part in self._split(remaining, is_remote, threads):
            if isinstance(part, RowBatch):
                tasks.append(part)
                for plan in part.plans:
                    if id(plan) in files:
                        files[id(plan)].add_tasks(1)
                    else:
                        files[id(plan)] = SharedFile(plan, self._meter)
                continue
            of_file = _split_row_groups(part.read_groups, task_rows)
            file = files[id(part)] = SharedFile(part, self._meter, len(of_file))
            tasks += [_FileTask(file, row_groups, number == 0) for number, row_groups in enumerate(of_file)]
        limits = ReadLimits(
            MAX_BYTES if run.max_bytes is None else run.max_bytes,
            # Row groups side by side are faster than columns side by side.
            use_threads=threads > 1 and len(tasks) < threads and can_use_arrow_threads(),
        )
        done = _Progress(len(plans), run.progress, len(plans) - len(remaining))
        versions = [task.versions for task in tasks if isinstance(task, RowBatch)]
        with _closing_all([*files.values(), *versions]):
            state = _Reading(files, reader, run, limits, threads, task_rows, done)
            try:
                yield from self._read_tasks(tasks, state)
            finally:
                for task in tasks:
                    if isinstance(task, RowBatch):  # read ahead, and not taken any more
                        self._note_cost(task)

    def _split(self, plans: Sequence[FilePlan], is_remote: bool, threads: int) -> Sequence[FilePlan | RowBatch]:
        """Put files into batches; those that are read one by one stay as they are."""
        request = self._plan.asked
        if is_remote or request is None:
            return plans
        make_filter, find_key = self._make_filter, self._find_key
        open_data, projection = self._open_planned, self._projection
        planner = BatchPlanner(self._cache, open_data, self._evaluator, make_filter, projection, find_key)
        return planner.plan(plans, threads)

    def _find_key(self, data: DataFile) -> Hashable | None:
        """Return what files have in common whose rows are read together; None for one that is read by itself."""
        if self._table is not None:
            self._table.require_defined(data)
            if self._find_filter(data) is not None:
                return None
        return self._plan.partitions.find_folder(data.path)

    def _make_filter(self, predicate: PruningPredicate | bool) -> RowFilter:
        return RowFilter(predicate, self._timezone, self._probes, self._targets)

    def _read_tasks(
        self, tasks: Sequence[_FileTask | RowBatch], state: _Reading[R]
    ) -> Generator[tuple[Sequence[FilePlan], R], None, None]:
        """Read tasks in threads, and yield the results, each with its files."""
        limits, run = state.limits, state.run
        functions = [partial(self._run_task, task, state) for task in tasks]
        ahead = ReadAhead(functions, state.threads, limits.max_bytes or 0, run.in_order)
        with closing(iter(ahead)) as events:
            for event in events:
                task = tasks[event.task]
                if isinstance(task, RowBatch):
                    if event.error is not None:
                        raise event.error
                    if event.value is _DECLINED:
                        yield from self._read_tasks(self._divide(task, state), state)
                    elif not event.is_end:
                        self._note_cost(task)
                        yield task.plans, cast(R, event.value)
                        self._end_batch(task, state)
                    continue
                file = task.file
                if event.error is not None and not file.is_over:
                    file.is_over = True
                    yield from self._recover(file, event.error, limits, state.reader.read_part, run)
                elif not event.is_end and not file.is_over:
                    file.has_begun = True
                    yield [file.plan], cast(R, event.value)
                file.remaining -= event.is_end
                if event.is_end and not file.remaining:
                    state.done.add()

    def _note_cost(self, batch: RowBatch) -> None:
        self._meter.add(*batch.cost)
        batch.cost = (0, 0)

    def _end_batch(self, batch: RowBatch, state: _Reading[R]) -> None:
        for plan in batch.plans:
            file = state.files[id(plan)]
            file.end_task()
            file.remaining -= 1
            if not file.remaining:
                state.done.add()

    def _divide(self, batch: RowBatch, state: _Reading[R]) -> list[_FileTask]:
        """Return the tasks that read a batch's files one by one."""
        self._note_cost(batch)
        tasks = []
        for number, plan in enumerate(batch.plans):
            file = state.files[id(plan)]
            groups = [group for i, group in batch.row_groups if i == number]
            of_file = _split_row_groups(groups, state.task_rows)
            is_first = groups[0].row_group == plan.read_groups[0].row_group
            file.add_tasks(len(of_file) - 1)
            tasks += [_FileTask(file, row_groups, is_first and part == 0) for part, row_groups in enumerate(of_file)]
        return tasks

    def _open_limited(self, plan: FilePlan, limits: ReadLimits) -> DataFile:
        file = open_version(plan.path, self._filesystem, self._cache, plan.identity)
        file.limits = limits
        return file

    @contextmanager
    def _open_planned(self, plan: FilePlan) -> Iterator[ParquetData]:
        """Open the version of a Parquet file that was planned."""
        with self._open(plan) as file:
            if not isinstance(file, ParquetData) or not plan.is_of(file):
                raise ConcurrentChangeError("another writer changed it meanwhile", path=plan.path)
            yield file

    def _run_task(self, task: _FileTask | RowBatch, state: _Reading[R]) -> Iterator[Need | Piece[R]]:
        if isinstance(task, RowBatch):
            try:
                yield from self._run_batch(task, state)
            finally:
                task.versions.release()
            return
        file = task.file
        try:
            if not file.is_over:
                with file.borrow(partial(self._open_limited, file.plan, state.limits)) as data:
                    selections = self._select_rows(data, file.plan, file.select(data, task.row_groups, task.is_first))
                    yield from self._read_parts(data, selections, state.reader.read_part)
        finally:
            file.end_task()

    def _run_batch(self, batch: RowBatch, state: _Reading[R]) -> Iterator[Need | Piece[R]]:
        """Search a batch for few rows; if it has many, read all of them."""
        yield Need(BATCH_BYTES)
        value, num_bytes = _try_to(state.reader.read_batch, batch), BATCH_BYTES
        if value is None:
            need = batch.estimate_bytes(self._open_planned, self._table)
            if need is not None and not state.limits.needs_windows(need):
                yield Need(max(need, BATCH_BYTES))
                result = _try_to(state.reader.read_dense, batch, state.limits.use_threads)
                value, num_bytes = (None, 0) if result is None else result
        if batch.is_part and value is not None and not state.files[id(batch.plans[0])].accept_part():
            value = None
        yield Piece(cast(R, _DECLINED) if value is None else value, 0 if value is None else num_bytes)

    def _select_rows(self, data: DataFile, plan: FilePlan, selections: RowGroupSelections) -> RowGroupSelections:
        """Take the rows that are deleted out of a selection."""
        if self._table is None or not selections:
            return selections
        return self._table.select_live(data, plan, selections)

    def _read_parts(
        self, data: DataFile, selections: RowGroupSelections, read_part: _ReadPart[R]
    ) -> Iterator[Need | Piece[R]]:
        predicate = self._evaluator.predicate_for(data) if selections else False
        if predicate is not False:
            row_filter = self._make_filter(predicate)
            for part in data.split(selections, row_filter):
                yield from read_part(data, part, row_filter)

    def _recover(
        self, file: SharedFile, error: BaseException, limits: ReadLimits, read_part: _ReadPart[R], run: _Run
    ) -> Iterator[tuple[Sequence[FilePlan], R]]:
        """Read all of a file that has changed since its plan, if none of it is in the result; report other errors."""
        plan = file.plan
        if isinstance(error, ConcurrentChangeError) and not file.has_begun and not file.is_partly_read:
            try:
                with open_file(plan.path, self._filesystem, self._cache) as data:
                    data.limits = limits
                    try:
                        selections = self._select_rows(data, plan, plan.selections_in(data))
                        for step in self._read_parts(data, selections, read_part):
                            if isinstance(step, Piece):
                                yield [plan], step.value
                    finally:
                        self._meter.note(data.source)
                return
            except ParquetBloomError as another:
                error = another
        if not isinstance(error, ParquetBloomError):
            raise error
        error.path = error.path or plan.path
        run.fail(error, plan)

    def _make_parts(self, convert: Callable[[pa.Table], R]) -> _PartReader[R]:
        """Return what reads rows, and converts them."""

        def read_batch(batch: RowBatch) -> R | None:
            result = batch.read(self._open_planned, self._table)
            return None if result is None else convert(add_columns(batch, *result))

        def read_dense(batch: RowBatch, use_threads: bool) -> tuple[R, int] | None:
            result = batch.read_dense(use_threads, self._positions)
            if result is None:
                return None
            rows = add_columns(batch, *result)
            return convert(rows), rows.get_total_buffer_size()

        def add_columns(batch: RowBatch, rows: pa.Table, which: RowsOfGroups | None) -> pa.Table:
            rows = self._projection.add_absent(rows, batch.kind.projection)
            rows = self._projection.add_partitions(rows, batch.plans[0].path)
            return batch.add_positions(rows, which) if self._positions and which is not None else rows

        return _PartReader(partial(self._read_rows, convert), read_batch, read_dense)

    def _count_batch(self, batch: RowBatch) -> dict[int, int] | None:
        counts = batch.count(self._open_planned, self._table)
        return None if counts is None else dict(enumerate(counts))

    @staticmethod
    def _count_dense(batch: RowBatch, use_threads: bool) -> tuple[dict[int, int], int] | None:
        counts = batch.count_dense(use_threads)
        return None if counts is None else (dict(enumerate(counts)), 0)

    def _read_rows(
        self,
        convert: Callable[[pa.Table], R],
        data: DataFile,
        selections: RowGroupSelections,
        row_filter: RowFilter,
    ) -> Iterator[Need | Piece[R]]:
        """Read the matching rows of row groups that are decoded together."""
        if self._table is not None:
            self._table.require_defined(data)
        table = self._find_filter(data)
        columns = self._projection if table is None else table.projection
        projection = columns.project(data)
        step, has_more = data.estimate_step(selections, projection.names, row_filter)
        yield Need(step)
        tables: list[pa.Table] = []
        for matches in data.read_matches(selections, row_filter, projection):
            rows = columns.add_partitions(columns.add_absent(matches.table, projection), data.path)
            if self._positions:
                in_file = np.asarray(matches.positions, np.int64) + data.first_row_of(matches.row_group)
                rows = add_positions(rows, [data.path], [matches.row_group], [rows.num_rows], in_file)
            tables.append(rows if table is None else table.filter(rows))
            if has_more:
                yield Piece(convert(tables[0]), tables.pop().get_total_buffer_size())
                yield Need(step)
        num_bytes = pa.concat_tables(tables).get_total_buffer_size() if tables else 0  # shared buffers count once
        while tables:
            value = convert(tables.pop(0))
            yield Piece(value, 0 if tables else num_bytes)

    def _find_filter(self, data: DataFile) -> TableRows | None:
        """Return what filters a file's rows once they have the types of the table; None if its own types do as well."""
        return self._table if self._filters_again and self._table is not None and self._table.changes(data) else None

    def _count_part(
        self, data: DataFile, selections: RowGroupSelections, row_filter: RowFilter
    ) -> Iterator[Need | Piece[dict[int, int]]]:
        """Count the matching rows of row groups that are decoded together, each by itself."""
        if self._table is not None:
            self._table.require_defined(data, counted=True)
        table = self._find_filter(data)
        if table is not None:
            for one in selections:
                counted = self._read_rows(lambda rows: rows.num_rows, data, [one], row_filter)
                yield from (
                    step if isinstance(step, Need) else Piece({one[0]: step.value}, step.num_bytes) for step in counted
                )
            return
        if row_filter.predicate is not True:
            yield Need(data.estimate_step(selections, [], row_filter)[0])
        yield Piece(dict(data.count_matches(selections, row_filter)), 0)


def _make_handler(on_error: Callable[[ParquetBloomError], None] | None, failed: set[str] | None = None) -> _Fail:
    """Return a handler of a file's error: it notes the file, then calls `on_error`, or raises if there is none."""

    def fail(error: ParquetBloomError, plan: FilePlan) -> None:
        if on_error is None:
            raise error
        if failed is not None:
            failed.add(plan.path)
        on_error(error)

    return fail


def _try_to(read: Callable[..., R | None], *arguments: Any) -> R | None:
    """Read a batch; None if its rows do not have the types of the result, which is reported of a single file."""
    try:
        return read(*arguments)
    except ParquetBloomError:
        return None


def _split_row_groups(row_groups: Sequence[RowGroupPlan], task_rows: int) -> list[list[int]]:
    """Return the row groups of each task of a file: at least one task, which reads a file that has changed.

    Parameters
    ----------
    row_groups : those that are read.
    task_rows : small row groups are joined up to so many rows.
    """
    tasks: list[list[int]] = []
    stripe, num_rows = None, 0
    for group in row_groups:
        same_stripe = group.stripe is not None and group.stripe == stripe
        if tasks and (same_stripe or num_rows + group.num_rows <= task_rows):
            tasks[-1].append(group.row_group)
            num_rows += group.num_rows
        else:
            tasks.append([group.row_group])
            num_rows = group.num_rows
        stripe = group.stripe
    return tasks or [[]]


def _find_task_rows(plans: Sequence[FilePlan], threads: int) -> int:
    """Return up to how many rows the row groups of a local file are joined to a task.

    Handing a task to a thread costs as much as reading some thousand rows, and several for each thread end together.
    """
    total = sum([group.num_rows for plan in plans for group in plan.read_groups])
    return min(max(_LEAST_TASK_ROWS, total // (_TASKS_PER_THREAD * threads)), _MOST_TASK_ROWS)


@contextmanager
def _closing_all(opened: Iterable[SharedFile | FileVersions]) -> Iterator[None]:
    """Close files at the end."""
    try:
        yield
    finally:
        for one in opened:
            one.close()
