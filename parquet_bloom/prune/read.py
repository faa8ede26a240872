"""The rows that match a predicate: surviving row groups read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import pyarrow as pa

from ..errors import ConcurrentChangeError, ParquetBloomError, UnreadableColumnError
from ..file.columns import find_leaves
from ..file.footer_cache import FOOTERS
from ..file.reader import BloomFile, open, open_version
from ..file.values import ColumnReader, in_nanoseconds
from ..predicate import parse, tree
from ..predicate.decide import Decider
from ..predicate.evaluate import Probes, StoredColumn, mask
from ..predicate.tree import Node
from ..storage import file_system
from .partitions import Partitions, Residuals
from .plan import prune
from .report import FileDecision, PruneReport
from .row_group import RowGroupRows
from .schemas import chosen, misfit, promoted, reader_of, reading, schema_in, schemas_of, unified


def read_table(
    paths: Any,
    where: Any,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    partitioning: Literal["hive"] | None = "hive",
) -> pa.Table:
    """Read the rows that match a predicate, opening only row groups that can hold one.

    Parameters
    ----------
    paths : a file, a folder, or a list of them.
    where : SQL text, pyarrow's `filters=` lists, a `pyarrow.compute.Expression`, or a predicate tree.
    columns : top-level columns (or dotted leaves, as in `pyarrow.parquet`) of the result; None for all.
    filesystem, storage_options, timezone, dialect, progress, partitioning : as in `prune`.

    Returns
    -------
    pyarrow.Table
        Columns as `pyarrow.parquet.read_table` gives them, rows in file order. Files whose columns differ are joined as
        `pyarrow.concat_tables(promote_options="permissive")` does. Columns that stand in the names of folders come
        behind the files' own (int64, date32 or string), or in the place of a file's column of the same name.

    Raises
    ------
    PredicateError
        The predicate is not understood, or a literal cannot be compared exactly with a column.
    ParquetBloomError
        As in `prune`.
    """
    filesystem = file_system(filesystem, storage_options)
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"timezone": timezone, "progress": progress, "partitioning": partitioning}
    report = prune(paths, node, filesystem=filesystem, **options)
    return read_selected(report, node, columns, filesystem=filesystem, timezone=timezone)


def iter_batches(
    paths: Any,
    where: Any,
    columns: Sequence[str] | None = None,
    *,
    batch_size: int = 65_536,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    partitioning: Literal["hive"] | None = "hive",
) -> pa.RecordBatchReader:
    """Read the rows that match a predicate a batch at a time: no more than one row group is in memory.

    Parameters
    ----------
    paths, where, columns, filesystem, storage_options, timezone, dialect, progress, partitioning : as in `read_table`.
    batch_size : rows of a batch at most; a batch holds rows of one row group, and none is empty.

    Returns
    -------
    pyarrow.RecordBatchReader
        Iterates over record batches of one schema, that of `read_table`; engines that take Arrow's streams take it
        too. Row groups are chosen at once, and read as the batches are asked for.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `read_table`; for what is in the row groups, when they are read.
    """
    if batch_size < 1:
        raise ParquetBloomError(f"a batch of {batch_size} rows cannot be: at least 1")
    filesystem = file_system(filesystem, storage_options)
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"timezone": timezone, "progress": progress, "partitioning": partitioning}
    report = prune(paths, node, filesystem=filesystem, **options)
    decisions = _opened(report)
    if not decisions:
        return pa.RecordBatchReader.from_batches(pa.schema([]), [])
    rows = _Rows(node, columns, timezone, report.partitions)
    own = report.partitions.in_files(columns)
    schema = unified(schemas_of([decision.path for decision in decisions], filesystem, own))
    schema = report.partitions.joined(schema.empty_table(), columns=columns).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for decision in decisions:
            for table in rows.of_file(decision, filesystem):
                yield from promoted(table, schema).combine_chunks().to_batches(max_chunksize=batch_size)

    return pa.RecordBatchReader.from_batches(schema, batches())


def read_selected(
    report: PruneReport,
    node: Node,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    timezone: str = "UTC",
) -> pa.Table:
    """The matching rows of the row groups that a report has selected; see `read_table`."""
    rows = _Rows(node, columns, timezone, report.partitions)
    tables: list[pa.Table] = []
    for decision in _opened(report):
        tables.append(rows.table(decision, filesystem))
    try:
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except pa.ArrowException as error:
        raise misfit(error) from error


def _opened(report: PruneReport) -> list[FileDecision]:
    """The files to open: those with a row group to read, or else one, for its schema alone."""
    return [decision for decision in report.files if decision.selected] or report.files[:1]


class _Rows:
    """The rows that match a predicate, file by file: what the folders say is theirs, the rest is the files'."""

    def __init__(self, node: Node, columns: Sequence[str] | None, timezone: str, partitions: Partitions):
        self._columns = columns
        self._timezone = timezone
        self._partitions = partitions
        self._left: Residuals = partitions.left_of(node, timezone)
        self._deciders: dict[int, Decider] = {}
        self._probes: Probes = {}

    def table(self, decision: FileDecision, filesystem: Any) -> pa.Table:
        """The matching rows of a file, of the columns that it has."""
        tables = list(self.of_file(decision, filesystem))
        if not tables:
            with open_version(decision.path, filesystem, FOOTERS, decision.identity) as file, reading(file):
                empty = chosen(file, self._partitions.in_files(self._columns)).empty_table()
            return self._partitions.joined(empty, columns=self._columns)
        return pa.concat_tables(tables) if len(tables) > 1 else tables[0]

    def of_file(self, decision: FileDecision, filesystem: Any) -> Iterator[pa.Table]:
        """The matching rows of each row group of a file; of all of them, if it is another one than was judged."""
        begun = False
        try:
            with open_version(decision.path, filesystem, FOOTERS, decision.identity) as file:
                for table in self.matches(file, decision.selected_in(file)):
                    begun = True
                    yield table
                return
        except ConcurrentChangeError:
            if begun:
                raise
        with open(decision.path, filesystem, cache=FOOTERS) as file:
            yield from self.matches(file, decision.selected_in(file))

    def matches(self, file: BloomFile, row_groups: list[int]) -> Iterator[pa.Table]:
        """The matching rows of each row group that has any."""
        left = self._left.of(file.path)
        if left is False:
            return
        with reading(file):
            schema = schema_in(file)
            names = self._partitions.in_files(self._columns)
            if names == []:  # of partition columns alone: any column tells the number of rows
                names = schema.names[:1]
            result = chosen(file, names)
        reader = cache(lambda: reader_of(file))
        for row_group in row_groups:
            with reading(file):
                if left is True:
                    table = reader().read_row_group(row_group, names)
                else:
                    rows = RowGroupRows(file, schema, reader, row_group, self._decider(left))
                    table = rows.matching(_mask(file, rows, left, self._timezone, self._probes), names, result)
            if table.num_rows:
                yield self._partitions.joined(table, file.path, self._columns)

    def _decider(self, node: Node) -> Decider:
        """One for all files of which the folders leave the same predicate."""
        if id(node) not in self._deciders:
            self._deciders[id(node)] = Decider(node, self._timezone)
        return self._deciders[id(node)]


def _mask(file: BloomFile, rows: RowGroupRows, node: Node, timezone: str, probes: Probes) -> pa.ChunkedArray:
    """Which of the rows of a row group that can match do."""
    names = sorted(tree.columns(node))
    stored = {}
    for name in names:
        found = find_leaves(file.leaves, name)
        # pyarrow turns INT96 into nanoseconds and wraps what does not fit: compare the stored values.
        if len(found) == 1 and found[0].physical == "INT96":
            values = ColumnReader(file.source, file.footer, found[0])
            batches = pa.chunked_array(values.batches(rows.row_group), pa.binary(12))
            if not found[0].repeated:
                stored[name] = StoredColumn(rows.of(batches), values.column_type)
            elif not in_nanoseconds(batches):
                problem = "its lists have INT96 timestamps that nanoseconds of 64 bits cannot count"
                raise UnreadableColumnError(problem, path=file.path, row_group=rows.row_group, column=name)
    table = rows.read([name for name in names if name not in stored])
    return mask(table, node, timezone=timezone, stored=stored, probes=probes)
