"""The rows that match a predicate: surviving row groups read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import ParquetBloomError, UnreadableColumnError
from ..file.columns import find_leaves
from ..file.reader import BloomFile, open
from ..file.values import ColumnReader, in_nanoseconds
from ..predicate import parse, tree
from ..predicate.decide import Decider
from ..predicate.evaluate import StoredColumn, mask
from ..predicate.tree import Node
from ..storage import file_system
from .plan import prune
from .report import FileDecision, PruneReport
from .row_group import RowGroupRows
from .schemas import chosen, misfit, promoted, reading, schemas_of, unified


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
) -> pa.Table:
    """Read the rows that match a predicate, opening only row groups that can hold one.

    Parameters
    ----------
    paths : a file, a folder, or a list of them.
    where : SQL text, pyarrow's `filters=` lists, a `pyarrow.compute.Expression`, or a predicate tree.
    columns : top-level columns (or dotted leaves, as in `pyarrow.parquet`) of the result; None for all.
    filesystem, storage_options, timezone, dialect, progress : as in `prune`.

    Returns
    -------
    pyarrow.Table
        Columns as `pyarrow.parquet.read_table` gives them, rows in file order. Files whose columns differ are joined as
        `pyarrow.concat_tables(promote_options="permissive")` does.

    Raises
    ------
    PredicateError
        The predicate is not understood, or a literal cannot be compared exactly with a column.
    ParquetBloomError
        As in `prune`.
    """
    filesystem = file_system(filesystem, storage_options)
    node = parse(where, dialect=dialect)
    report = prune(paths, node, filesystem=filesystem, timezone=timezone, progress=progress)
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
) -> pa.RecordBatchReader:
    """Read the rows that match a predicate a batch at a time: no more than one row group is in memory.

    Parameters
    ----------
    paths, where, columns, filesystem, storage_options, timezone, dialect, progress : as in `read_table`.
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
    report = prune(paths, node, filesystem=filesystem, timezone=timezone, progress=progress)
    decisions = _opened(report)
    if not decisions:
        return pa.RecordBatchReader.from_batches(pa.schema([]), [])
    schema = unified(schemas_of([decision.path for decision in decisions], filesystem, columns))

    def batches() -> Iterator[pa.RecordBatch]:
        for decision in decisions:
            with open(decision.path, filesystem) as file:
                for table in _matches(file, decision.selected, node, columns, timezone):
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
    tables: list[pa.Table] = []
    for decision in _opened(report):
        with open(decision.path, filesystem) as file:
            tables.append(_read_file(file, decision.selected, node, columns, timezone))
    try:
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except pa.ArrowException as error:
        raise misfit(error) from error


def _opened(report: PruneReport) -> list[FileDecision]:
    """The files to open: those with a row group to read, or else one, for its schema alone."""
    return [decision for decision in report.files if decision.selected] or report.files[:1]


def _read_file(
    file: BloomFile, row_groups: list[int], node: Node, columns: Sequence[str] | None, timezone: str
) -> pa.Table:
    with reading(file):
        empty = chosen(pq.ParquetFile(file.source.arrow_file()), columns, file.path).empty_table()
    return pa.concat_tables([empty, *_matches(file, row_groups, node, columns, timezone)])


def _matches(
    file: BloomFile, row_groups: list[int], node: Node, columns: Sequence[str] | None, timezone: str
) -> Iterator[pa.Table]:
    """The matching rows of each row group that has any."""
    with reading(file):
        reader = pq.ParquetFile(file.source.arrow_file())
        names = None if columns is None else list(columns)
        schema = chosen(reader, columns, file.path)
    decider = Decider(node, timezone)
    for row_group in row_groups:
        with reading(file):
            rows = RowGroupRows(file, reader, row_group, decider)
            table = rows.matching(_mask(file, rows, node, timezone), names, schema)
        if table.num_rows:
            yield table


def _mask(file: BloomFile, rows: RowGroupRows, node: Node, timezone: str) -> pa.ChunkedArray:
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
    return mask(table, node, timezone=timezone, stored=stored)
