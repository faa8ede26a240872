"""Read the rows that match a predicate: tasks in several threads, in order, within a bound on memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa

from ...errors import ConcurrentChangeError, ParquetBloomError, PredicateError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...file.columns import find_leaves
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
from ..decode.object_pages import ObjectPages
from ..decode.open import open_file, open_version
from ..decode.parquet_file import ParquetData
from ..decode.projection import Projection
from ..locate.deleted_rows import TableRows
from ..locate.file_kind import FileKind
from ..locate.locate_rows import LocatedRows
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile, FileProjection, RowFilter
from ..model.fit import fit_table
from ..model.limits import MAX_BYTES, ReadLimits
from ..model.plan import FilePlan, ScanPlan
from ..model.positions import add_positions, with_positions
from ..model.row_selection import RowGroupSelections
from ..model.schemas import map_in_threads, promote_table, unify_schemas
from .batch_planner import BatchPlanner, BatchTask, FileTask
from .row_batch import LARGE_BYTES, RowBatch
from .shared_file import CostMeter, SharedFile

R = TypeVar("R")

BATCH_ROWS = 65_536

_REMOTE_THREADS = 16  # row groups of remote files that are read concurrently; each takes several requests

_NEGATIVE = (tree.NotEqual, tree.NotIn, tree.NotContains, tree.CallNotIn)

_Fail = Callable[[ParquetBloomError, FilePlan], None]
_Task = FileTask | BatchTask


class _Run(NamedTuple):
    """How files are read; see `RowReader.read_batches`.

    Attributes
    ----------
    fail : called with the error of a file.
    is_streamed : as in `ReadLimits`.
    failed : files that have failed before.
    """

    in_order: bool
    max_bytes: int | None
    threads: int | None
    progress: Callable[[int, int], None] | None
    fail: _Fail
    failed: Collection[str] = ()
    is_streamed: bool = False


class _Use(NamedTuple, Generic[R]):
    """What is made of the rows that match.

    Attributes
    ----------
    reads_rows : whether columns of the result are read.
    of_batch : makes a result of located rows, and says how many bytes it keeps in memory.
    of_orc : reads row groups of an ORC file that are decoded together.
    """

    reads_rows: bool
    of_batch: Callable[[RowBatch, LocatedRows], tuple[R, int]]
    of_orc: Callable[[Any, RowGroupSelections, RowFilter], Iterator[Need | Piece[R]]]


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
    """

    files: dict[int, SharedFile]
    use: _Use[R]
    run: _Run
    limits: ReadLimits
    threads: int
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
        self._evaluator = FileResidualEvaluator(request, plan.partitions, trust)
        self._probes: Probes = {}
        self._targets: dict[tuple[int, ColumnType], Targets | None] = {}
        self._planners: dict[bool, BatchPlanner] = {}
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
            run = _Run(in_order, max_bytes, threads, progress, fail, failed, is_streamed=True)
            with closing(self._read(plans, self._make_use(convert), run)) as results:
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
        with closing(self._read(plans, self._make_use(lambda table: table), run)) as results:
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
        with closing(self._read(plans, self._make_count(), run)) as results:
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
            counts = dict.fromkeys(plan.selected, 0)
            try:
                for step in self._read_file(file, plan, plan.selections_in(file), self._make_count()):
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
        self, plans: Sequence[FilePlan], use: _Use[R], run: _Run
    ) -> Generator[tuple[Sequence[FilePlan], R], None, None]:
        """Read files, or parts of them, in threads, and yield the results, each with its files."""
        is_remote = not self._is_local(plans)
        threads = run.threads or (_REMOTE_THREADS if is_remote else processors())
        remaining = [plan for plan in plans if plan.path not in run.failed]
        tasks = self._find_planner(use).plan(remaining, threads, is_remote)
        limits = ReadLimits(
            MAX_BYTES if run.max_bytes is None else run.max_bytes,
            # Row groups side by side are faster than columns side by side.
            use_threads=threads > 1 and len(tasks) < threads and can_use_arrow_threads(),
            is_streamed=run.is_streamed,
        )
        files = {id(plan): SharedFile(plan, self._meter, 0) for plan in remaining}
        done = _Progress(len(plans), run.progress, len(plans) - len(remaining))
        state = _Reading(files, use, run, limits, threads, done)
        with _closing_all(files.values()):
            yield from self._read_tasks(tasks, state)

    def _find_planner(self, use: _Use[R]) -> BatchPlanner:
        """Return what makes tasks to read rows, or to count them, which takes other columns."""
        reads_rows = use.reads_rows
        if reads_rows not in self._planners:
            make_kind = partial(self._make_kind, reads_rows)
            find_key = partial(self._find_key, reads_rows)
            planner = BatchPlanner(
                self._cache, self._open_planned, self._evaluator, make_kind, find_key, self._meter.note
            )
            self._planners.setdefault(reads_rows, planner)
        return self._planners[reads_rows]

    def _find_key(self, reads_rows: bool, data: DataFile) -> Hashable:
        """Return what files have in common whose rows are read together, besides their schema."""
        if self._table is not None:
            self._table.require_defined(data, counted=not reads_rows)
        return self._plan.partitions.find_folder(data.path), self._find_filter(data) is None

    def _make_kind(self, reads_rows: bool, data: ParquetData, predicate: PruningPredicate | bool) -> FileKind:
        shown_by = self._find_filter(data)
        if shown_by is not None:
            projection = shown_by.projection.project(data)
        else:
            projection = self._projection.project(data) if reads_rows else FileProjection([], [], pa.schema([]))
        return FileKind(data.file, self._make_filter(predicate), projection, shown_by)

    def _find_filter(self, data: DataFile) -> TableRows | None:
        """Return what filters a file's rows once they have the types of the table; None if its own types do as well."""
        return self._table if self._filters_again and self._table is not None and self._table.changes(data) else None

    def _make_filter(self, predicate: PruningPredicate | bool) -> RowFilter:
        return RowFilter(predicate, self._timezone, self._probes, self._targets)

    def _read_tasks(
        self, tasks: Sequence[_Task], state: _Reading[R]
    ) -> Generator[tuple[Sequence[FilePlan], R], None, None]:
        """Read tasks in threads, and yield the results, each with its files."""
        of_task = [[state.files[id(plan)] for plan in task.plans] for task in tasks]
        for files in of_task:
            for file in files:
                file.add_tasks(1)
        functions = [partial(self._run_task, task, state) for task in tasks]
        ahead = ReadAhead(functions, state.threads, state.limits.max_bytes or 0, state.run.in_order)
        try:
            with closing(iter(ahead)) as events:
                for event in events:
                    task, files = tasks[event.task], of_task[event.task]
                    if event.error is not None:
                        yield from self._handle_error(task, files, event.error, state)
                    elif not event.is_end and not files[0].is_over:
                        step = cast(_Part[R], event.value)
                        for number in self._note_progress(task, step):
                            files[number].has_begun = True
                        if step.value is None:
                            assert isinstance(task, BatchTask)
                            yield from self._read_tasks(self._find_planner(state.use).divide(task), state)
                            continue
                        yield task.plans, step.value
                    for file in files if event.is_end else ():
                        file.remaining -= 1
                        if not file.remaining:
                            state.done.add()
        finally:
            for task in tasks:
                if isinstance(task, BatchTask):
                    self._meter.add(*task.cost)
                    task.files.close()

    @staticmethod
    def _note_progress(task: _Task, step: _Part[R]) -> Collection[int]:
        """Note how far a task has come with a result; return the numbers of the files of which it has rows."""
        if isinstance(task, FileTask):
            return (0,)
        groups = task.row_groups[task.num_done : step.num_done + step.is_inside]
        task.num_done, task.is_inside = step.num_done, step.is_inside
        return {file for file, _ in groups}

    def _handle_error(
        self, task: _Task, files: Sequence[SharedFile], error: BaseException, state: _Reading[R]
    ) -> Iterator[tuple[Sequence[FilePlan], R]]:
        """Read what is left of a task that has failed in smaller tasks, or a file that has changed from anew."""
        if not isinstance(error, ParquetBloomError):
            raise error
        file = files[0]
        if isinstance(task, BatchTask):
            num_left = len(task.row_groups) - task.num_done
            file = files[task.row_groups[task.num_done][0]] if task.is_inside else file
            is_one = len(files) == 1 and (num_left <= 1 or isinstance(error, ConcurrentChangeError))
            if not task.is_inside and not is_one and not file.is_over:
                yield from self._read_tasks(self._find_planner(state.use).divide(task), state)
                return
        yield from self._fail_or_read_again(file, error, state)
        if isinstance(task, BatchTask) and len(files) > 1:  # the other files are not lost with it
            task.row_groups[task.num_done :] = [
                one for one in task.row_groups[task.num_done :] if files[one[0]] is not file
            ]
            yield from self._read_tasks(self._find_planner(state.use).divide(task), state)

    def _fail_or_read_again(
        self, file: SharedFile, error: ParquetBloomError, state: _Reading[R]
    ) -> Iterator[tuple[Sequence[FilePlan], R]]:
        """Read all of a file that has changed since its plan, if none of it is in the result; report other errors."""
        if file.is_over:
            return
        file.is_over = True
        plan = file.plan
        if isinstance(error, ConcurrentChangeError) and not file.has_begun:
            try:
                with open_file(plan.path, self._filesystem, self._cache) as data:
                    data.limits = state.limits
                    try:
                        for step in self._read_file(data, plan, plan.selections_in(data), state.use):
                            if isinstance(step, Piece):
                                yield [plan], step.value
                    finally:
                        self._meter.note(data.source)
                return
            except ParquetBloomError as another:
                error = another
        error.path = error.path or plan.path
        state.run.fail(error, plan)

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

    def _run_task(self, task: _Task, state: _Reading[R]) -> Iterator[Need | Piece[_Part[R]]]:
        file = state.files[id(task.plans[0])]
        try:
            if file.is_over:
                return
            if isinstance(task, BatchTask):
                yield from self._run_batch(task, state)
                return
            with file.borrow(partial(self._open_limited, file.plan, state.limits)) as data:
                selections = file.select(data, task.row_groups, task.is_first)
                for step in self._read_file(data, file.plan, selections, state.use):
                    yield Piece(_Part(step.value, 0, False), step.num_bytes) if isinstance(step, Piece) else step
        finally:
            file.end_task()

    def _run_batch(self, task: BatchTask, state: _Reading[R]) -> Iterator[Need | Piece[_Part[R]]]:
        """Read the row groups of a batch."""
        files, numbers, num_done = task.files, [(file, group.row_group) for file, group in task.row_groups], 0
        try:
            files.open()
            batch = RowBatch(
                task.plans,
                [(file, group.row_group, group.rows) for file, group in task.row_groups],
                task.kind,
                task.footers,
                partial(files.make_pages, task.footers, numbers, task.kind),
                partial(files.borrow, limits=state.limits),
                self._table,
                state.use.reads_rows,
                state.limits,
            )
            try:
                for step in self._use_batch(batch, state.use):
                    if isinstance(step, Piece):
                        files.require_unchanged()
                        num_done = step.value.num_done
                    yield step
                if num_done < len(task.row_groups):  # where nothing was found
                    files.require_unchanged()
            finally:
                task.cost = batch.decoder.cost
                batch.remember(files)
        except ParquetBloomError:
            files.require_unchanged()  # what was read may be of another version
            raise
        finally:
            files.release()

    def _use_batch(self, batch: RowBatch, use: _Use[R]) -> Iterator[Need | Piece[_Part[Any]]]:
        """Make results of the rows of a batch: at least one, which says what columns there are."""
        has_any = False
        for step in batch.locate():
            if isinstance(step, Need):
                yield step
            elif step.is_cut:
                yield Piece(_Part(None, step.num_done, False), 0)
            elif len(step.rows.rows) or not (has_any or step.has_more):
                value, num_bytes = use.of_batch(batch, step)
                yield Piece(_Part(value, step.num_done, step.is_inside), num_bytes)
                has_any = True

    def _read_file(
        self, data: ParquetData | Any, plan: FilePlan, selections: RowGroupSelections, use: _Use[R]
    ) -> Iterator[Need | Piece[R]]:
        """Read row groups of an open file."""
        if self._table is not None and selections and self._table.has_deletes(plan.path) and not plan.is_of(data):
            raise ConcurrentChangeError("another writer changed it meanwhile", path=data.path)
        if not isinstance(data, ParquetData):
            selections = selections if self._table is None else self._table.select_live(data, plan, selections)
            predicate = self._evaluator.predicate_for(data) if selections else False
            if predicate is not False:
                row_filter = self._make_filter(predicate)
                for part in data.split(selections, row_filter):
                    yield from use.of_orc(data, part, row_filter)
            return
        kind = self._find_planner(use).find_kind(data) if selections else None
        for row_group, selection in selections if kind is not None else ():
            assert kind is not None
            batch = RowBatch(
                [plan],
                [(0, row_group, selection)],
                kind,
                [data.file.cached],
                partial(ObjectPages, data.file, row_group),
                lambda _: nullcontext(data),
                self._table,
                use.reads_rows,
                data.limits,
                LARGE_BYTES if data.source.path is not None else 0,  # the price of requests decides
            )
            for step in self._use_batch(batch, use):
                yield Piece(step.value.value, step.num_bytes) if isinstance(step, Piece) else step

    # --------------------------------------------------------------------------------------- what is made of the rows

    def _make_use(self, convert: Callable[[pa.Table], R]) -> _Use[R]:
        """Return what reads rows, and converts them."""

        def read_rows(batch: RowBatch, located: LocatedRows) -> tuple[R, int]:
            kind = batch.kind
            rows = self._read_complete(batch, located)
            for decoder, reason in batch.ways if rows.num_rows else ():
                self._meter.note_decoded(decoder, reason, int(np.count_nonzero(located.rows.counts)), rows.num_rows)
            if self._positions:
                rows = batch.add_positions(rows, located.rows)
            if kind.shown_by is not None:
                rows = kind.shown_by.filter(rows)
            return convert(rows), rows.get_total_buffer_size()

        return _Use(True, read_rows, partial(self._read_orc, convert))

    def _read_complete(self, batch: RowBatch, located: LocatedRows) -> pa.Table:
        """Read located rows, with the columns that their files lack and partition columns."""
        kind = batch.kind
        columns = self._projection if kind.shown_by is None else kind.shown_by.projection
        return columns.add_partitions(columns.add_absent(batch.read(located), kind.projection), batch.path)

    def _make_count(self) -> _Use[dict[int, int]]:
        """Return what counts the rows of each row group."""

        def count(batch: RowBatch, located: LocatedRows) -> tuple[dict[int, int], int]:
            if batch.kind.shown_by is None:
                return batch.count(located.rows), 0
            rows = self._read_complete(batch, located)
            return {batch.decoder.row_groups[0][1]: batch.kind.shown_by.filter(rows).num_rows}, 0

        return _Use(False, count, self._count_orc)

    def _read_orc(
        self,
        convert: Callable[[pa.Table], R],
        data: Any,
        selections: RowGroupSelections,
        row_filter: RowFilter,
    ) -> Iterator[Need | Piece[R]]:
        """Read the matching rows of row groups of a stripe."""
        if self._table is not None:
            self._table.require_defined(data)
        table = self._find_filter(data)
        columns = self._projection if table is None else table.projection
        projection = columns.project(data)
        yield Need(data.estimate_step(selections))
        tables: list[pa.Table] = []
        for matches in data.read_matches(selections, row_filter, projection):
            rows = columns.add_partitions(columns.add_absent(matches.table, projection), data.path)
            if self._positions:
                in_file = np.asarray(matches.positions, np.int64) + data.first_row_of(matches.row_group)
                rows = add_positions(rows, [data.path], [matches.row_group], [rows.num_rows], in_file)
            tables.append(rows if table is None else table.filter(rows))
        num_bytes = pa.concat_tables(tables).get_total_buffer_size() if tables else 0  # shared buffers count once
        while tables:
            value = convert(tables.pop(0))
            yield Piece(value, 0 if tables else num_bytes)

    def _count_orc(
        self, data: Any, selections: RowGroupSelections, row_filter: RowFilter
    ) -> Iterator[Need | Piece[dict[int, int]]]:
        """Count the matching rows of row groups of a stripe, each by itself."""
        if self._table is not None:
            self._table.require_defined(data, counted=True)
        if self._find_filter(data) is not None:
            for one in selections:
                for step in self._read_orc(lambda rows: rows.num_rows, data, [one], row_filter):
                    yield Piece({one[0]: step.value}, step.num_bytes) if isinstance(step, Piece) else step
            return
        if row_filter.predicate is not True:
            yield Need(data.estimate_step(selections))
        yield Piece(dict(data.count_matches(selections, row_filter)), 0)


class _Part(NamedTuple, Generic[R]):
    """A result of a task, and how far it has come; see `BatchTask`. Without a value the rest is to be divided."""

    value: R
    num_done: int
    is_inside: bool


def _make_handler(on_error: Callable[[ParquetBloomError], None] | None, failed: set[str] | None = None) -> _Fail:
    """Return a handler of a file's error: it notes the file, then calls `on_error`, or raises if there is none."""

    def fail(error: ParquetBloomError, plan: FilePlan) -> None:
        if on_error is None:
            raise error
        if failed is not None:
            failed.add(plan.path)
        on_error(error)

    return fail


@contextmanager
def _closing_all(opened: Iterable[SharedFile]) -> Iterator[None]:
    """Close files at the end."""
    try:
        yield
    finally:
        for one in opened:
            one.close()
