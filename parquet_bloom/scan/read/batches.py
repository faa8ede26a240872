"""Batches of row groups of local Parquet files that are read together, by few calls of compiled code.

A batch has whole files, or a part of one that is large. Whatever is unusual about it is not an error here: the batch is
then declined, and its files are read one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa

from ...errors import ParquetBloomError, UnusualPageError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.pages.plan import FlatColumn, ListColumn
from ...file.pages.reader import SPARSE_FACTOR, find_flat_columns, find_list_columns
from ...file.pages.sparse import RowGroupBatch, RowsOfGroups, decoded_width, estimate_decoded_bytes
from ...file.reader import BloomFile
from ...file.statistics import shows_stored
from ...metadata.footer import Leaf
from ...predicate.pruning import PruningPredicate
from ...storage import OPEN_FILE_BUDGET, ClosedSource, FileIdentity, make_open_files, stat_files
from ...util.arrow_values import empty_table
from ..model.columns import FileResidualEvaluator
from ..model.data_file import DataFile, FileProjection, RowFilter
from ..model.plan import PARQUET, FilePlan, RowGroupPlan
from ..model.positions import add_positions
from ..model.row_selection import find_runs, to_row_selection
from ..model.schemas import arrow_schema
from .dense import DenseColumns, DenseReader, find_dense_columns
from .parquet import ParquetData
from .projection import Projection
from .sparse import Equality, Matches, SparseReader, TooManyRows, find_equalities
from .table_rows import TableRows

R = TypeVar("R")

OpenData = Callable[[FilePlan], AbstractContextManager[ParquetData]]

_LEAST_ROWS, _MOST_ROWS = 1 << 16, 1 << 20  # of a batch, about
_BATCHES_PER_THREAD = 1  # more of them wait for each other's Python code
_TRIES = 2  # batches with too many rows, after which no more are searched

_DENSE_BYTES = 32 << 20  # decoded, of a batch that is not searched
_MOST_DENSE_BYTES = 32 << 20  # of the rows of a batch
_FIRST_ROWS = 1 << 12  # of which texts are decoded, to see how long they are

BATCH_BYTES = 8 << 20
"""Memory that reading a batch takes, about."""


@dataclass(eq=False)
class FileKind:
    """What files have in common that are read together: the schema, the predicate, and the columns of the result.

    Attributes
    ----------
    file : one of them, not open.
    row_filter : the predicate.
    equalities : of the predicate, of which one is searched for; none if all rows have to be decoded.
    columns : flat columns, and those of lists.
    projection : columns of the result.
    most_rows : of a batch, about.
    row_bytes : memory that a decoded row has taken in each batch.
    too_many : how many batches have had too many rows.
    """

    file: BloomFile
    row_filter: RowFilter
    equalities: list[Equality]
    columns: Mapping[str, FlatColumn | ListColumn]
    projection: FileProjection
    most_rows: int = _MOST_ROWS
    row_bytes: list[float] = field(default_factory=list)
    too_many: list[None] = field(default_factory=list)

    @cached_property
    def dense(self) -> DenseColumns | None:
        """What is read of all rows where many match; None if that is not possible."""
        return find_dense_columns(self.file, self.columns, self.row_filter, self.projection)

    def takes(self, row_groups: Sequence[RowGroupPlan]) -> bool:
        """Return whether row groups of a file are read in a batch, of which perhaps some rows are selected."""
        if not self.equalities:
            return all(group.rows is None for group in row_groups)
        searches_lists = any(equality.leaf.repeated for equality in self.equalities)
        return not searches_lists or not any(map(_is_narrow, row_groups))

    @property
    def has_texts(self) -> bool:
        """Whether a decoded row may take any amount of memory."""
        return self.dense is not None and any(leaf.physical == "BYTE_ARRAY" for leaf in self.dense.leaves.values())


class FileVersions:
    """Files that several batches read, opened by the first of them and closed after the last one."""

    def __init__(self, plans: Sequence[FilePlan], num_batches: int):
        self._paths = [plan.path for plan in plans]
        self._identities = [plan.identity for plan in plans if isinstance(plan.identity, FileIdentity)]
        self.files = make_open_files(self._paths, self._identities)
        self._remaining = num_batches
        self._are_open: bool | None = None
        self._taken = 0  # of the budget
        self._lock = threading.Lock()

    def open(self) -> bool:
        """Return whether the files are those of the plan."""
        with self._lock:
            if self._are_open is None:
                if OPEN_FILE_BUDGET.take(len(self.files)):
                    self._taken = len(self.files)
                self._are_open = self._taken > 0 and self.files.open()
                if not self._are_open:
                    self._close()
            return self._are_open

    def release(self) -> None:
        """Note that a batch has been read."""
        with self._lock:
            self._remaining -= 1
            if self._remaining <= 0:
                self._close()

    def are_in_place(self) -> bool:
        """Return whether the files are still at their paths."""
        sources = stat_files(self._paths)
        return [None if source is None else source.identity for source in sources] == self._identities

    def close(self) -> None:
        """Close the files, whatever batches have not been read; no more are read after that."""
        with self._lock:
            self._are_open = False
            self._close()

    def _close(self) -> None:
        self.files.close()
        taken, self._taken = self._taken, 0
        OPEN_FILE_BUDGET.give_back(taken)


@dataclass(eq=False)
class RowBatch:
    """Row groups that are read together.

    Attributes
    ----------
    plans : of the files.
    row_groups : (number of a file in `plans`, plan of a row group) of each.
    kind, footers, versions : of the files.
    cache : of the footers; None for none.
    is_part : whether other batches have row groups of the same file.
    cost : requests and bytes that were read.
    """

    plans: list[FilePlan]
    row_groups: list[tuple[int, RowGroupPlan]]
    kind: FileKind
    footers: list[CachedFooter]
    versions: FileVersions
    cache: MetadataCache | None
    is_part: bool = False
    cost: tuple[int, int] = (0, 0)
    _prepared: RowGroupBatch | None = None

    def read(self, open_data: OpenData, table: TableRows | None = None) -> tuple[pa.Table, RowsOfGroups] | None:
        """Read the rows that match, of the columns in the files, and which they are; None if the batch is declined.

        Parameters
        ----------
        open_data : opens a file; raises ParquetBloomError if the version that was planned is not there.
        table : the table whose files they are, of which deleted rows are left out; None for files of no table.
        """

        def read_rows(reader: SparseReader, matches: Matches) -> tuple[pa.Table, RowsOfGroups]:
            schema = self.kind.projection.schema
            read_others = partial(self._read_others, open_data, schema, self.kind.projection.names)
            return reader.read(matches, schema, read_others), matches.rows

        return self._try(read_rows, open_data, table)

    def add_positions(self, table: pa.Table, rows: RowsOfGroups) -> pa.Table:
        """Append their physical positions to rows that `read` has returned."""
        counts = rows.counts.tolist()
        firsts = [
            int(self.footers[number].footer.row_groups["num_rows"][: group.row_group].sum()) if count else 0
            for (number, group), count in zip(self.row_groups, counts, strict=True)
        ]
        paths = [self.plans[number].path for number, _ in self.row_groups]
        positions = rows.rows + np.repeat(np.array(firsts, np.int64), counts)
        return add_positions(table, paths, [group.row_group for _, group in self.row_groups], counts, positions)

    def count(self, open_data: OpenData, table: TableRows | None = None) -> list[int] | None:
        """Count the rows that match, of each row group; None if the batch is declined; see `read`."""
        return self._try(lambda _, matches: matches.rows.counts.tolist(), open_data, table)

    def _try(self, use: Callable[[SparseReader, Matches], R], open_data: OpenData, table: TableRows | None) -> R | None:
        """Search for the rows that match, and use what is found; None if the batch is declined."""

        def search(batch: RowGroupBatch) -> R | None:
            equalities = [one for one in self.kind.equalities if self._shows_stored(one.leaf)]
            if not any(one.leaf.repeated or batch.supports([one.column]) for one in equalities):
                return None
            reader = SparseReader(batch, equalities, self.kind.row_filter)
            if self._has_page_bounds(batch, [reader.leaf], open_data):
                return None
            read_others = partial(self._read_stored, open_data)
            matches = reader.find_matches([group.rows for _, group in self.row_groups], read_others)
            if table is not None:
                matches = self._leave_deleted(reader, matches, table, open_data)
            return use(reader, matches)

        if not self.kind.equalities or len(self.kind.too_many) >= _TRIES:
            return None
        try:
            return self._run(search)
        except TooManyRows:
            self.kind.too_many.append(None)
            return None

    def _run(self, use: Callable[[RowGroupBatch], R | None]) -> R | None:
        """Use the row groups of the open files; None if they have to be read one by one."""
        try:
            if not self.versions.open():
                return None
            batch = self._prepare()
            try:
                result = use(batch)
                return result if self.versions.files.are_unchanged() else None
            finally:
                self.cost = batch.cost
                self._remember(batch.grown)
        except (ParquetBloomError, pa.ArrowException, OSError, ValueError):
            return None  # the general way reports what is wrong, if anything is

    def _prepare(self) -> RowGroupBatch:
        if self._prepared is None:
            self._prepared = self._make_batch(self.row_groups)
        return self._prepared

    def _make_batch(self, row_groups: Sequence[tuple[int, RowGroupPlan]]) -> RowGroupBatch:
        footers = [cached.footer for cached in self.footers]
        headers = None if self.cache is None else [cached.page_headers for cached in self.footers]
        numbers = [(file, group.row_group) for file, group in row_groups]
        return RowGroupBatch(footers, numbers, self.kind.columns, self.versions.files, headers)

    def estimate_bytes(self, open_data: OpenData, table: TableRows | None) -> int | None:
        """Estimate the memory that `read_dense` needs; None if the row groups are not to be read so."""
        dense = self.kind.dense
        if dense is None or any(group.rows is not None for _, group in self.row_groups):
            return None
        if table is not None and any(table.has_deletes(plan.path) for plan in self.plans):
            return None
        leaves = [dense.leaves[name] for name in dense.predicate]

        def estimate(batch: RowGroupBatch) -> int | None:
            # Where statistics of pages rule out rows of large chunks, pages are read.
            return None if self._has_page_bounds(batch, leaves, open_data) else batch.estimate_bytes(every)

        every = [*dense.leaves.values()]
        return self._run(estimate)

    def read_dense(self, use_threads: bool, with_rows: bool) -> tuple[pa.Table, RowsOfGroups | None] | None:
        """Do as `read`, decoding all rows of the predicate's columns; say which rows match only if `with_rows`."""
        schema = self.kind.projection.schema
        parts = self._use_dense(lambda reader: reader.read(schema, with_rows), use_threads)
        if parts is None or len(parts) == 1:
            return None if parts is None else parts[0]
        rows = [which for _, which in parts if which is not None]
        both = RowsOfGroups(*map(np.concatenate, zip(*rows, strict=True))) if rows else None
        return pa.concat_tables([table for table, _ in parts]), both

    def count_dense(self, use_threads: bool) -> list[int] | None:
        """Do as `count`, decoding all rows of the predicate's columns."""
        parts = self._use_dense(lambda reader: reader.count(), use_threads)
        return None if parts is None else [count for part in parts for count in part]

    def _use_dense(self, use: Callable[[DenseReader], R], use_threads: bool) -> list[R] | None:
        """Read parts of the row groups that take little memory, one after the other; None if they are declined."""
        dense, kind = self.kind.dense, self.kind
        assert dense is not None
        schema, cost = arrow_schema(kind.file), (0, 0)

        def scan(batch: RowGroupBatch) -> list[R] | None:
            nonlocal cost
            results, start, held = [], 0, 0
            while start < len(self.row_groups):
                row_groups = self._take_part(start)
                part = batch if len(row_groups) == len(self.row_groups) else self._make_batch(row_groups)
                reader = DenseReader(self.versions.files, row_groups, part, dense, schema, kind.row_filter, use_threads)
                results.append(use(reader))
                start += len(row_groups)
                kind.row_bytes.append(reader.row_bytes)
                cost = cost[0] + reader.requests, cost[1] + reader.num_bytes
                if part is not batch:  # whose cost is counted in any case
                    cost = cost[0] + part.cost[0], cost[1] + part.cost[1]
                    self._remember(part.grown)
                held += _count_bytes(results[-1])
                if held > _MOST_DENSE_BYTES:
                    raise UnusualPageError("many bytes")
            return results if self.versions.are_in_place() else None  # decoding takes long: the new ones count by then

        results = self._run(scan)
        self.cost = self.cost[0] + cost[0], self.cost[1] + cost[1]
        return results

    def _take_part(self, start: int) -> Sequence[tuple[int, RowGroupPlan]]:
        """Return the row groups from `start` on that are decoded together."""
        widths, stop, num_rows = self.kind.row_bytes, start, 0
        most_rows = _MOST_ROWS if not self.kind.has_texts else _FIRST_ROWS  # dictionaries do not show in a footer
        if widths:
            most_rows = int(_DENSE_BYTES // max(max(widths), 1.0))
        for _, group in self.row_groups[start:]:
            num_rows += group.num_rows
            if stop > start and num_rows > most_rows:
                break
            stop += 1
        return self.row_groups[start:stop]

    def _remember(self, files: Collection[int]) -> None:
        """Update the sizes in the cache of files, given by their numbers, whose entries have grown."""
        for number in files:
            plan, cached = self.plans[number], self.footers[number]
            if self.cache is not None and isinstance(plan.identity, FileIdentity):
                self.cache.keep_local(plan.path, plan.identity, cached)

    def _leave_deleted(self, reader: SparseReader, matches: Matches, table: TableRows, open_data: OpenData) -> Matches:
        """Return the matches without the rows that the table has deleted."""
        if not any(table.has_deletes(plan.path) for plan in self.plans):
            return matches
        ends = np.cumsum(matches.rows.counts).tolist()
        parts = []
        for (number, group), count, end in zip(self.row_groups, matches.rows.counts.tolist(), ends, strict=True):
            if count:
                before = self.footers[number].footer.row_groups["num_rows"][: group.row_group]
                parts.append((self.plans[number].path, matches.rows.rows[end - count : end] + int(before.sum())))

        def read_columns(columns: FileProjection) -> list[pa.Table]:
            read_others = partial(self._read_others, open_data, columns.schema, columns.names)
            return [reader.read(matches, columns.schema, read_others)]

        live = table.find_live(ParquetData(self.kind.file), parts, read_columns)
        return matches.take(np.flatnonzero(live))

    def _shows_stored(self, leaf: Leaf) -> bool:
        """Return whether the values of a column are known to be shown as stored, so that their bytes decide."""
        return all(shows_stored(self.footers[number], leaf, [group.row_group]) for number, group in self.row_groups)

    def _has_page_bounds(self, batch: RowGroupBatch, leaves: Sequence[Leaf], open_data: OpenData) -> bool:
        """Return whether statistics of pages rule out rows, so that large chunks need not be read whole."""
        numbers = {number for leaf in leaves for number in batch.find_indexed(leaf)}
        return any(self._select_by_pages(open_data, *self.row_groups[number]) for number in sorted(numbers))

    def _select_by_pages(self, open_data: OpenData, number: int, group: RowGroupPlan) -> bool:
        predicate = self.kind.row_filter.predicate
        assert isinstance(predicate, PruningPredicate)
        with open_data(self.plans[number]) as data:
            return data.select_by_pages(group.row_group, predicate)

    def _read_stored(self, open_data: OpenData, names: Sequence[str], rows: RowsOfGroups) -> dict[str, pa.ChunkedArray]:
        """Read top-level columns of some rows, of which pyarrow gives the stored values."""
        schema = arrow_schema(self.kind.file)
        changed = {leaf.path[0] for leaf in self.kind.file.leaves if leaf.physical == "INT96"}
        if any(schema.names.count(name) != 1 or name in changed for name in names):
            raise UnusualPageError("pyarrow shows other values of a column of the predicate")
        return self._read_others(open_data, schema, None, names, rows)

    def _read_others(
        self,
        open_data: OpenData,
        schema: pa.Schema,
        chosen: Sequence[str] | None,
        names: Sequence[str],
        rows: RowsOfGroups,
    ) -> dict[str, pa.ChunkedArray]:
        """Read columns of some rows that cannot be taken out of their pages.

        Parameters
        ----------
        schema, chosen : of columns that include these, and their names as `pyarrow.parquet` takes them; None for all.
        """
        schema = pa.schema([schema.field(name) for name in names])
        leaves = names if chosen is None else [name for name in chosen if name in names or name.split(".")[0] in names]
        tables = [empty_table(schema)]
        ends = np.cumsum(rows.counts).tolist()
        for (number, group), count, end in zip(self.row_groups, rows.counts.tolist(), ends, strict=True):
            if count:
                mask = np.zeros(group.num_rows, np.bool_)
                mask[rows.rows[end - count : end]] = True
                with open_data(self.plans[number]) as data:
                    table = data.read_rows(group.row_group, leaves, to_row_selection(find_runs(mask)))
                if not {*names} <= {*table.schema.names}:  # "x.y" may be a column, and a field of another one
                    raise UnusualPageError("a name is ambiguous")
                tables.append(table.select(names).replace_schema_metadata(None))
        table = pa.concat_tables(tables)
        return dict(zip(names, table.columns, strict=True))


class BatchPlanner:
    """Puts the files of a plan into batches.

    Parameters
    ----------
    cache : of footers; None for none.
    open_data : opens the version of a file that was planned; raises ParquetBloomError if that is not there.
    evaluator : the predicate of each file.
    make_filter : makes what is evaluated on rows of a predicate.
    projection : the columns of the result.
    find_key : returns what files must have in common besides that, given a path.
    """

    def __init__(
        self,
        cache: MetadataCache | None,
        open_data: OpenData,
        evaluator: FileResidualEvaluator,
        make_filter: Callable[[PruningPredicate | Literal[True]], RowFilter],
        projection: Projection,
        find_key: Callable[[DataFile], Hashable | None],
    ):
        self._cache = cache
        self._open_data = open_data
        self._evaluator = evaluator
        self._make_filter = make_filter
        self._projection = projection
        self._find_key = find_key
        self._kinds: dict[Hashable, FileKind | None] = {}

    def find_kind(self, plan: FilePlan) -> tuple[FileKind, CachedFooter] | None:
        """Return the kind of a file and its footer; None if it is not read in a batch."""
        if plan.format != PARQUET or not isinstance(plan.identity, FileIdentity):
            return None
        cached = None if self._cache is None else self._cache.find_local(plan.path, plan.identity)
        try:
            if cached is None:  # evicted, or too new to be cached
                with self._open_data(plan) as opened:
                    cached = opened.file.cached
            data = ParquetData(BloomFile(ClosedSource(plan.path, plan.identity), cached=cached))
            predicate, key = self._evaluator.predicate_for(data), self._find_key(data)
            if predicate is False or key is None:
                return None
            key = id(predicate), id(arrow_schema(data.file)), key
            if key not in self._kinds:
                self._kinds[key] = self._make_kind(data, self._make_filter(predicate))
        except (ParquetBloomError, pa.ArrowException, OSError):
            return None
        kind = self._kinds[key]
        return None if kind is None else (kind, cached)

    def _make_kind(self, data: ParquetData, row_filter: RowFilter) -> FileKind | None:
        schema = arrow_schema(data.file)
        columns = find_flat_columns(data.file, schema)
        flat = {name for name, column in columns.items() if column.layout is not None}
        equalities: list[Equality] = []
        if isinstance(row_filter.predicate, PruningPredicate):
            equalities = find_equalities(data.file, schema, row_filter)
        if not any(equality.leaf.repeated or equality.column in flat for equality in equalities):
            equalities = []
        projection = self._projection.project(data)
        if len({*projection.schema.names}) < len(projection.schema):
            return None
        supported: dict[str, FlatColumn | ListColumn] = {**columns, **find_list_columns(data.file, schema)}
        kind = FileKind(data.file, row_filter, equalities, supported, projection)
        if not equalities:
            if kind.dense is None:
                return None
            kind.most_rows = max(_DENSE_BYTES // _estimate_row(data.file, [*kind.dense.leaves.values()]), 1)
        return kind

    def plan(self, plans: Sequence[FilePlan], threads: int) -> list[FilePlan | RowBatch]:
        """Return batches, and files that are read one by one, in the order of the plans."""
        total = sum([group.num_rows for plan in plans for group in plan.read_groups])
        most_files = max(OPEN_FILE_BUDGET.find_limit() // (2 * threads), 1)
        most_rows = min(max(_LEAST_ROWS, total // (_BATCHES_PER_THREAD * threads)), _MOST_ROWS)
        parts: list[FilePlan | RowBatch] = []
        batch: _OpenBatch | None = None
        for plan in plans:
            groups = plan.read_groups
            alike = self.find_kind(plan) if groups else None
            if alike is not None and not alike[0].takes(groups):
                alike = None
            num_rows = sum([group.num_rows for group in groups])
            if batch is not None and (alike is None or not batch.takes(alike[0], num_rows, most_files, most_rows)):
                parts += batch.finish(most_rows)
                batch = None
            if alike is None:
                parts.append(plan)
                continue
            batch = batch or _OpenBatch(alike[0], self._cache)
            batch.add(plan, alike[1], groups, num_rows)
        if batch is not None:
            parts += batch.finish(most_rows)
        return parts


class _OpenBatch:
    """A batch that files are added to."""

    def __init__(self, kind: FileKind, cache: MetadataCache | None):
        self._kind = kind
        self._cache = cache
        self._plans: list[FilePlan] = []
        self._footers: list[CachedFooter] = []
        self._row_groups: list[tuple[int, RowGroupPlan]] = []
        self._num_rows = 0

    def takes(self, kind: FileKind, num_rows: int, most_files: int, most_rows: int) -> bool:
        """Return whether a file may be added."""
        num_rows += self._num_rows
        return kind is self._kind and len(self._plans) < most_files and num_rows <= min(most_rows, kind.most_rows)

    def add(self, plan: FilePlan, footer: CachedFooter, row_groups: Sequence[RowGroupPlan], num_rows: int) -> None:
        """Add a file."""
        self._row_groups += [(len(self._plans), group) for group in row_groups]
        self._plans.append(plan)
        self._footers.append(footer)
        self._num_rows += num_rows

    def finish(self, most_rows: int) -> list[RowBatch]:
        """Return a batch, or several of a single large file."""
        cuts, num_rows, most_rows = [0], 0, min(most_rows, self._kind.most_rows)
        for number, (_, group) in enumerate(self._row_groups if len(self._plans) == 1 else ()):
            if number > cuts[-1] and num_rows + group.num_rows > most_rows:
                cuts.append(number)
                num_rows = 0
            num_rows += group.num_rows
        shared = self._kind, self._footers, FileVersions(self._plans, len(cuts)), self._cache
        return [
            RowBatch(self._plans, self._row_groups[start:end], *shared, is_part=len(cuts) > 1)
            for start, end in pairwise([*cuts, len(self._row_groups)])
        ]


def _is_narrow(group: RowGroupPlan) -> bool:
    """Return whether so few rows of a row group are selected that a whole chunk, as of lists, is not searched."""
    return group.rows is not None and group.num_left * SPARSE_FACTOR <= group.num_rows


def _estimate_row(file: BloomFile, leaves: Sequence[Leaf]) -> int:
    """Estimate the memory that a row of some columns takes once it is decoded, by the first row group of a file."""
    groups, width = file.footer.row_groups, max(sum(map(decoded_width, leaves)), 1)
    if not len(groups) or int(groups[0]["num_rows"]) <= 0:
        return width
    chunks = int(groups[0]["first_chunk"]) + np.array([[leaf.index] for leaf in leaves])
    return max(estimate_decoded_bytes(file.footer.chunks[chunks], leaves) // int(groups[0]["num_rows"]), width)


def _count_bytes(result: object) -> int:
    """Return the memory of rows that were read; 0 for what is not rows."""
    return result[0].get_total_buffer_size() if isinstance(result, tuple) else 0
