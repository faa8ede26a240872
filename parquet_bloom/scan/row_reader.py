"""Read the rows that match a predicate: tasks in several threads, in order, within a bound on memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import pyarrow as pa

from ..errors import ConcurrentChangeError, ParquetBloomError, PredicateError
from ..file.file_columns import find_leaves
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..file.pages.row_group_batch import RowGroups
from ..hashing.column_type import ColumnType
from ..metadata.footer import SchemaLeaf
from ..metadata.page_match import Targets
from ..predicate import tree
from ..predicate.row_filter import Probes, row_mask
from ..storage import Source, is_local
from ..tables.table_footers import as_table_footers
from ..tables.table_snapshot import naming_file
from ..util.arrow_values import empty_table
from ..util.lazy import late_module
from ..util.read_ahead import Need, Piece, ReadAhead, Steps
from ..util.threads import can_use_arrow_threads, processors
from .decode.open_data import open_file, open_version
from .decode.parquet_data import ParquetData
from .decode.row_group_decoder import RowGroupDecoder
from .lookup.file_kind import FileKind
from .lookup.row_batch import LocatedRows, RowBatch
from .lookup.table_rows import TableRows
from .model.column_defaults import ColumnDefaults
from .model.data_file import DataFile, FileProjection, RowFilter
from .model.file_schemas import fit_table, map_in_threads, promote_table, reading, unify_schemas
from .model.folder_partitions import FileResidualEvaluator
from .model.row_selection import ROW_GROUP, with_positions
from .model.scan_plan import Decoded, FilePlan, RowGroupPlan, ScanPlan
from .named_columns import Projection
from .read_tasks import PlannedFiles, Task, TaskPlanner
from .scan_options import Limits, ScanOptions

if TYPE_CHECKING:
    from .decode import orc_decoder
    from .decode.orc_decoder import OrcData, OrcDecoder
else:
    orc_decoder = late_module("parquet_bloom.scan.decode.orc_decoder")

R = TypeVar("R")

BATCH_ROWS = 65_536

_DEFAULTS = ScanOptions()

_NEGATIVE = (tree.NotEqual, tree.NotIn, tree.NotContains, tree.CallNotIn, tree.NotLike, tree.NotMatches)

_Use = Callable[[RowBatch, LocatedRows], tuple[R, int]]
"""Makes a result of located rows, and says how many bytes it keeps in memory."""


@dataclass(frozen=True)
class _Way:
    """How rows are read once.

    Attributes
    ----------
    max_bytes : as for `RowReader.read_batches`.
    in_order : give results in the order of files and row groups.
    is_streamed : as of `Limits`.
    reads_rows : whether columns of the result are read.
    reads_again : whether a file that has changed is read as it is now.
    progress : called after each file that is read with (done, in all).
    """

    max_bytes: int | None = None
    in_order: bool = True
    is_streamed: bool = False
    reads_rows: bool = True
    reads_again: bool = True
    progress: Callable[[int, int], None] | None = None


class RowReader:
    """Reads the rows that match the predicate of a plan; partition values answer their part of it.

    Parameters
    ----------
    plan : of the files, with its request.
    columns : top-level columns or dotted leaves of the result; None for all.
    schema : of the result; None for the unified schema of the files that are read.
    cache : of footers.
    options : how to read: its threads (None for one for each processor, or more for remote files), limits and trust;
        except by `read_table`, also its handler of errors, without which they are raised, and its progress, which is
        called after each file that is read.
    positions : append the physical position of each row to what `read_batches` gives; see `row_selection.py`.
    show : returns the schema of rows whose file has a schema; not for a `schema` that is given.
    """

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        cache: MetadataCache | None = SHARED_CACHE,
        options: ScanOptions = _DEFAULTS,
        positions: bool = False,
        show: Callable[[pa.Schema], pa.Schema] = lambda schema: schema,
    ):
        request, trust = plan.asked, options.trust
        assert request is not None, "the report is not prune's"
        self._plan = plan
        self._is_decided = plan.decided is request.node  # which row groups are certain was found out for this predicate
        self._filesystem = plan.filesystem
        self._cache = cache
        self._schema = schema
        # An engine that gives `trust` evaluates the predicate on the rows.
        defaults = ColumnDefaults(plan.table, request.timezone, decides=trust is None)
        self._projection = Projection(columns, plan.partitions, request.ignore_case, defaults)
        self._timezone = request.timezone
        self._table: TableRows | None = None
        if plan.table is not None:
            cache = self._cache = as_table_footers(cache, plan.table.columns)
            self._table = TableRows(plan.table, request.node, request.timezone, columns, plan.partitions)
        # Rows whose values the table shows in other types are filtered here, or by the engine.
        self._filters_again = self._table is not None and trust is None
        trust = self._table.trust if self._table is not None and trust is None else trust
        self._evaluator = FileResidualEvaluator(request, plan.partitions, trust, defaults=defaults)
        self._probes: Probes = {}
        self._targets: dict[tuple[int, ColumnType], Targets | None] = {}
        self._kinds: dict[Hashable, FileKind] = {}
        self._options = options
        self._fit = promote_table if plan.table is None else fit_table
        self._positions = positions
        self._show = show
        self._lock = threading.Lock()
        # The files with a row group to read; if there are none, the first file, for its schema alone.
        self._plans: list[FilePlan] = []
        paths: list[str] = []
        for file in plan.files:
            if file.read_groups:
                self._plans.append(file)
                paths.append(file.path)
        if not paths and schema is None:
            self._plans = plan.files[:1]
        self._is_remote = not is_local(plan.filesystem, paths or [file.path for file in self._plans])

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
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        """Read the rows lazily; return their schema and a generator of batches.

        Row groups are read by several threads, ahead of what is taken. Closing the generator ends the threads.

        Parameters
        ----------
        batch_size : maximum rows of a batch, which is never empty.
        in_order : give the rows in the order of files and row groups; otherwise batches as they come.
        max_bytes : bound on the decoded bytes in memory at a time; None for that of `Limits`. A row group that alone
            exceeds it is decoded a window of rows at a time, if its format allows that.
        """
        fail = _ErrorHandler(self._options.on_error)
        schema = self._find_schema(None if fail.on_error is None else fail)
        for error, plan in self._find_mistakes():
            fail(error, plan)
        if self._positions:
            schema = with_positions(schema)

        def make_batches(batch: RowBatch, located: LocatedRows) -> tuple[list[pa.RecordBatch], int]:
            rows, num_bytes = self._make_rows(batch, located)
            return self._fit(rows, schema).combine_chunks().to_batches(batch_size), num_bytes

        def read_batches() -> Generator[pa.RecordBatch, None, None]:
            way = _Way(max_bytes, in_order, is_streamed=True, progress=self._options.progress)
            with closing(self._read(self._plans, make_batches, way, fail)) as results:
                for _, batches in results:
                    yield from batches

        return schema, read_batches()

    def read_table(
        self,
        *,
        max_bytes: int | None = None,
        note: Callable[[pa.Table], None] | None = None,
    ) -> pa.Table:
        """Read all rows; the first error is raised.

        Parameters
        ----------
        max_bytes : as for `read_batches`.
        note : called with rows as they are read, before more are taken; what it raises ends the read.
        """
        if self._projection.is_ambiguous:  # the first file decides on the spelling of names
            _ = self.schema
        tables: list[tuple[str, pa.Table]] = []
        schemas: dict[str, list[pa.Schema]] = {}  # by the paths of files
        with closing(self._read(self._plans, self._make_rows, _Way(max_bytes))) as results:
            for plans, table in results:
                if note is not None:
                    note(table)
                tables.append((plans[0].path, table))
                for plan in plans:
                    schemas.setdefault(plan.path, []).append(table.schema)
        schema = self._find_schema(None, schemas)
        parts = [empty_table(schema)]
        for path, table in tables:
            with naming_file(path):
                parts.append(self._fit(table, schema))
        if not len(schema):  # tables without columns lose their number of rows when they are concatenated
            return pa.table({"": pa.nulls(sum(part.num_rows for part in parts))}).select([])
        return pa.concat_tables(parts)

    def count_rows(self, *, max_bytes: int | None = None) -> int:
        """Count the matching rows, reading the predicate's columns alone; without a predicate from footers alone."""
        plans = [plan for plan in self._plans if plan.read_groups]
        assert self._plan.asked is not None
        if self._plan.asked.node is None and not (self._plan.table and self._plan.table.deletes):
            return sum(group.num_rows for plan in plans for group in plan.read_groups)

        on_error = self._options.on_error
        # Of a file that fails, as many rows are counted as are given of it, which takes the order of its row groups.
        way = _Way(max_bytes, in_order=on_error is not None, reads_rows=False, progress=self._options.progress)
        with closing(self._read(plans, self._count, way, _ErrorHandler(on_error))) as results:
            return sum(sum(counts.values()) for _, counts in results)

    def count_matches(self, plan: FilePlan) -> dict[int, int]:
        """Count the matching rows of each selected row group of a file, reading the predicate's columns alone.

        Raises
        ------
        ConcurrentChangeError
            The file has changed since it was planned.
        """
        counts = dict.fromkeys(plan.selected, 0)
        way = _Way(reads_rows=False, reads_again=False)
        with closing(self._read([plan], self._count, way)) as results:
            for _, found in results:
                for row_group, count in found.items():
                    counts[row_group] += count
        return counts

    def _find_schema(
        self, fail: _ErrorHandler | None, known: Mapping[str, Sequence[pa.Schema]] | None = None
    ) -> pa.Schema:
        """Return the schema of the result: if it was not given, that of all files.

        Parameters
        ----------
        fail : called with the error of a file; None to raise it.
        known : schemas of rows that were read, by the path of their file; the others are opened.
        """
        if self._schema is not None:
            return self._schema

        def read_schema(plan: FilePlan) -> pa.Schema | ParquetBloomError:
            try:
                with self._open(plan) as file:
                    projection = self._projection.project(file)
            except ParquetBloomError as error:
                if fail is None:
                    raise
                return error
            schema = pa.schema([]) if projection.is_counter else projection.schema
            return add_partitions(schema) if partitions else schema  # rows that were read have them already

        def add_partitions(schema: pa.Schema) -> pa.Schema:
            return self._projection.add_partitions(empty_table(schema)).schema

        partitions = self._plan.partitions.schema.names
        others: list[FilePlan] = []
        schemas: list[pa.Schema] = []
        for plan in self._plans:
            if known is None or plan.path not in known:
                others.append(plan)
        found = iter(map_in_threads(read_schema, others, remote=self._is_remote) if others else ())
        for plan in self._plans:
            if known is not None and plan.path in known:
                schemas += known[plan.path]
                continue
            result = next(found)
            if isinstance(result, ParquetBloomError):
                assert fail is not None
                fail(result, plan)
            else:
                schemas.append(result)
        schemas += self._projection.find_elsewhere(self._plan.files, self._filesystem, self._cache, self._note)
        if not schemas:
            return pa.schema([])
        # Neither order depends on which files are read: columns come as they were asked for, partition columns last.
        if partitions:
            schemas = [_leave_last(schema, partitions) for schema in schemas]
        schema = self._projection.sort(unify_schemas(list(map(self._show, schemas))))
        return add_partitions(schema) if partitions else schema

    def _find_mistakes(self) -> list[tuple[PredicateError, FilePlan]]:
        """Return each file's error, if no file has a column that some literal can be compared with; none otherwise.

        Most likely the predicate is wrong then, so nothing is to be read for it.
        """
        node = None if self._plan.asked is None else self._plan.asked.node
        if node is None:
            return []
        found = []
        # Such a literal is a doubt of each row group, unless pruning has no use for its leaf.
        has_doubts = any(isinstance(leaf, _NEGATIVE) for leaf in tree.leaves(node))
        for plan in self._plans:
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
            try:
                predicate = self._evaluator.predicate_for(file)
            except PredicateError as error:  # of the default of a column that it lacks
                error.path = error.path or plan.path
                return error
            if isinstance(predicate, bool):
                return None
            leaves = {name: find_leaves(file.leaves, name) for name in sorted(tree.columns(predicate.node))}
            if any(
                isinstance(leaf, SchemaLeaf) and leaf.physical == "INT96" for found in leaves.values() for leaf in found
            ):
                return None  # these are compared as they are stored
            table = empty_table(file.select_schema([name for name, found in leaves.items() if found]))
            try:
                row_mask(table, predicate.node, timezone=self._timezone)
            except PredicateError as error:
                error.path = error.path or plan.path
                return error
        return None

    @contextmanager
    def _open(self, plan: FilePlan) -> Iterator[DataFile]:
        with open_version(plan.path, self._filesystem, self._cache, plan.identity) as file:
            try:
                yield file
            finally:
                self._note(file.source)

    def _note(self, source: Source) -> None:
        """Count what was read of a file that is about to be closed."""
        with self._lock:
            self._plan.data_requests += source.requests
            self._plan.data_bytes_read += source.bytes_read

    # ------------------------------------------------------------------------------------- reading by several threads

    def _read(
        self,
        plans: Sequence[FilePlan],
        use: _Use[R],
        way: _Way,
        fail: _ErrorHandler | None = None,
    ) -> Generator[tuple[Sequence[FilePlan], R], None, None]:
        """Read files in threads, and yield what is made of their rows, each result with its files.

        Parameters
        ----------
        fail : called with the error of a file; None to raise it.
        """
        fail = fail or _ErrorHandler(None)
        limits = self._options.limits
        max_bytes = limits.max_bytes if way.max_bytes is None else way.max_bytes
        limits = replace(limits, max_bytes=max_bytes, is_streamed=way.is_streamed, widths={})
        threads = self._options.threads or (limits.remote_threads if self._is_remote else processors())
        find_kind = partial(self._find_kind, way.reads_rows)
        planner = TaskPlanner(self._filesystem, self._cache, find_kind, self._note, limits, threads, self._is_remote)
        tasks = planner.plan(plans, fail.failed)
        # Row groups side by side are faster than columns side by side.
        limits = replace(limits, use_threads=threads > 1 and len(tasks) < threads and can_use_arrow_threads())
        run = partial(self._run_task, use, find_kind, limits)
        starts: list[Callable[[], Steps[R]]] = []
        for task in tasks:
            starts.append(partial(run, task))
        ahead = ReadAhead(starts, threads, limits.max_bytes or 0, way.in_order)
        done = _Progress(way.progress, len(plans), tasks) if way.progress is not None else None
        try:
            with closing(iter(ahead)) as events:
                for event in events:
                    task, files = tasks[event.task], tasks[event.task].files
                    if event.is_end:
                        more = []
                        if event.error is not None:
                            more = self._follow(task, event.error, planner, fail, way.reads_again)
                        elif task.is_cut:
                            more = planner.divide(task)
                        if more:
                            tasks += more
                            ahead.add([partial(run, one) for one in more])
                        if done is not None:
                            done.note(task, more)
                    elif not files.is_over:
                        files.has_begun = True
                        yield files.plans, cast(R, event.value)
        finally:
            self._end(tasks)

    def _end(self, tasks: Sequence[Task]) -> None:
        """Close the files of tasks, and add what reading them has cost to the plan."""
        plan, ways = self._plan, {}
        for one in plan.decoded:
            ways[one.decoder, one.reason] = one
        for task in tasks:
            task.files.close()
            plan.data_requests += task.cost[0]
            plan.data_bytes_read += task.cost[1]
            for way, (row_groups, rows) in task.decoded.items():
                before = ways.get(way, Decoded(*way, 0, 0))
                ways[way] = Decoded(*way, before.row_groups + row_groups, before.rows + rows)
        plan.decoded[:] = ways.values()

    def _follow(
        self, task: Task, error: BaseException, planner: TaskPlanner, fail: _ErrorHandler, reads_again: bool
    ) -> list[Task]:
        """Return tasks that read what is left of one that has failed, or a file that has changed from anew."""
        files, left = task.files, task.row_groups[task.num_done :]
        if not isinstance(error, ParquetBloomError):
            raise error
        if files.is_over:
            return []
        has_changed, is_together = isinstance(error, ConcurrentChangeError), isinstance(files, PlannedFiles)
        if is_together and not task.is_inside and (len(files.plans) > 1 or (len(left) > 1 and not has_changed)):
            return planner.divide(task)
        plan, files.is_over = files.plans[0], True
        if has_changed and reads_again and not (files.has_begun or files.is_again):
            try:
                again = self._plan_again(plan)
                if again is not None:
                    return planner.split(again, is_again=True)
            except ParquetBloomError as another:
                error = another
        error.path = error.path or plan.path
        fail(error, plan)
        return []

    def _plan_again(self, plan: FilePlan) -> FilePlan | None:
        """Plan to read all of a file that has changed; None if its table has deleted rows of it."""
        if self._table is not None and self._table.has_deletes(plan.path):
            return None
        with open_file(plan.path, self._filesystem, self._cache) as data:
            groups = [
                RowGroupPlan(number, True, num_rows=data.num_rows_of(number), stripe=data.find_stripe(number))
                for number in data.row_groups
            ]
            self._note(data.source)
            return FilePlan(plan.path, tuple(groups), identity=data.source.identity, format=data.format)

    def _find_kind(self, reads_rows: bool, data: DataFile) -> FileKind | None:
        """Return what is read of a file, an object that those that are alike share; None if no row of it can match."""
        predicate, table = self._evaluator.predicate_for(data), self._table
        if predicate is False:
            return None
        if table is not None:
            table.require_defined(data, counted=not reads_rows)
        is_shown = self._filters_again and table is not None and table.changes(data)
        key = reads_rows, id(predicate), id(data.schema), self._plan.partitions.find_folder(data.path), is_shown
        kind = self._kinds.get(key) if isinstance(data, ParquetData) else None
        if kind is None:
            with reading(data):
                projection = FileProjection([], [], pa.schema([]))
                if reads_rows or is_shown:
                    projection = (table.projection if is_shown and table else self._projection).project(data)
                row_filter = RowFilter(predicate, self._timezone, self._probes, self._targets)
                kind = FileKind(data, row_filter, projection, reads_rows, table, is_shown)
            if isinstance(data, ParquetData):
                kind = self._kinds.setdefault(key, kind)
        return kind

    def _run_task(
        self, use: _Use[R], find_kind: Callable[[DataFile], FileKind | None], limits: Limits, task: Task
    ) -> Iterator[Need | Piece[R]]:
        """Read a task. There is at least one result if rows may match: it says what columns there are."""
        files, has_any = task.files, False
        with files.open(limits) as opened:
            if opened is None:
                return
            kind = files.kind
            if kind is None and task.row_groups and not isinstance(opened, PlannedFiles):
                kind = find_kind(opened)
            if kind is None:
                return
            batch = _make_batch(task, opened, kind, limits, self._is_decided)
            try:
                for step in batch.locate():
                    if isinstance(step, Need):
                        yield step
                        continue
                    if step.is_cut:
                        task.num_done, task.is_inside, task.is_cut = step.num_done, False, True
                        continue
                    num_rows = len(step.rows)
                    if num_rows or not (has_any or step.has_more):
                        value, num_bytes = use(batch, step)
                        files.require_unchanged()
                        task.num_done, task.is_inside, has_any = step.num_done, step.is_inside, True
                        for way in batch.ways if num_rows else ():
                            groups, rows = task.decoded.get(way, (0, 0))
                            task.decoded[way] = groups + int(np.count_nonzero(step.rows.counts)), rows + num_rows
                        yield Piece(value, num_bytes)
                if task.num_done < len(task.row_groups):  # where nothing was found
                    files.require_unchanged()
            finally:
                task.cost = batch.decoder.finish()

    # --------------------------------------------------------------------------------------- what is made of the rows

    def _make_rows(self, batch: RowBatch, located: LocatedRows, positions: bool | None = None) -> tuple[pa.Table, int]:
        """Read located rows, with the columns that their files lack, partition columns, and positions if asked for."""
        kind, columns = batch.kind, self._projection
        if kind.is_shown and kind.table is not None:
            columns = kind.table.projection
        rows = columns.add_partitions(columns.add_absent(batch.read(located), kind.projection), batch.path)
        if self._positions if positions is None else positions:
            rows = batch.add_positions(rows, located.rows)
        if kind.is_shown and kind.table is not None:
            rows = kind.table.filter(rows)
        return rows, rows.get_total_buffer_size()

    def _count(self, batch: RowBatch, located: LocatedRows) -> tuple[dict[int, int], int]:
        """Count the rows of each row group."""
        if not batch.kind.is_shown:
            return batch.count(located.rows), 0
        return Counter(self._make_rows(batch, located, True)[0].column(ROW_GROUP).to_pylist()), 0


def _leave_last(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Leave out the last columns of a schema that have one of some names."""
    count = len(schema)
    while count and schema.field(count - 1).name in names:
        count -= 1
    return pa.schema([schema.field(number) for number in range(count)], schema.metadata)


def _make_batch(
    task: Task, opened: PlannedFiles | ParquetData | OrcData, kind: FileKind, limits: Limits, is_decided: bool
) -> RowBatch:
    plans, numbers, selections, certain = task.files.plans, [], [], []
    for file, group in task.row_groups:
        numbers.append((file, group.row_group))
        is_planned = plans[file].identity is not None
        selections.append(group.rows if is_planned else None)
        certain.append(group.certain and is_planned and is_decided)
    decoder: RowGroupDecoder | OrcDecoder
    if isinstance(opened, PlannedFiles | ParquetData):
        groups = RowGroups([cached.footer for cached in opened.footers], numbers)
        decoder = RowGroupDecoder(opened, groups, kind.columns, limits)
    else:
        decoder = orc_decoder.OrcDecoder(opened, [number for _, number in numbers], limits)
    return RowBatch(plans, selections, certain, kind, opened, decoder)


class _Progress:
    """Counts files that have been read: those of which no task is left."""

    def __init__(self, report: Callable[[int, int], None], total: int, tasks: Sequence[Task]):
        self._report, self._total = report, total
        self._left = Counter([plan.path for task in tasks for plan in task.files.plans])
        self._done = 0
        for _ in range(total - len(self._left)):  # that have failed before
            self._done += 1
            report(self._done, total)

    def note(self, task: Task, more: Sequence[Task]) -> None:
        """Note the end of a task, and that there are more."""
        self._left.update([plan.path for one in more for plan in one.files.plans])
        for plan in task.files.plans:
            self._left[plan.path] -= 1
            if not self._left[plan.path]:
                self._done += 1
                self._report(self._done, self._total)


class _ErrorHandler:
    """Notes the files that fail, and reports their errors; without `on_error` it raises them."""

    def __init__(self, on_error: Callable[[ParquetBloomError], None] | None):
        self.on_error = on_error
        self.failed: set[str] = set()  # paths

    def __call__(self, error: ParquetBloomError, plan: FilePlan) -> None:
        if self.on_error is None:
            raise error
        self.failed.add(plan.path)
        self.on_error(error)
