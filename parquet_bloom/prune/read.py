"""The rows that match a predicate: surviving row groups read, and filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import ParquetBloomError, UnknownColumnError, UnreadableColumnError
from ..file.columns import find_leaves
from ..file.reader import BloomFile, open
from ..file.values import ColumnReader
from ..predicate import parse, tree
from ..predicate.evaluate import StoredColumn, mask
from ..predicate.tree import Node
from .plan import prune
from .report import PruneReport


def read_table(
    paths: Any,
    where: Any,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Read the rows that match a predicate, opening only row groups that can hold one.

    Parameters
    ----------
    paths : a file, a folder, or a list of them.
    where : SQL text, pyarrow's `filters=` lists, or a predicate tree.
    columns : top-level columns (or dotted leaves, as in `pyarrow.parquet`) of the result; None for all.
    filesystem, timezone, dialect, progress : as in `prune`.

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
    node = parse(where, dialect=dialect)
    report = prune(paths, node, filesystem=filesystem, timezone=timezone, progress=progress)
    return read_selected(report, node, columns, filesystem=filesystem, timezone=timezone)


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
    for decision in report.files:
        if decision.selected or not tables:
            with open(decision.path, filesystem) as file:
                tables.append(_read_file(file, decision.selected, node, columns, timezone))
    if len(tables) > 1 and tables[0].num_rows == 0 and not report.files[0].selected:
        tables = tables[1:]  # read for its schema alone
    try:
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    except pa.ArrowException as error:
        problem = f"the files' rows do not fit into one table: {str(error).splitlines()[0]}; leave the column out"
        raise UnreadableColumnError(problem) from error


def _read_file(
    file: BloomFile, row_groups: list[int], node: Node, columns: Sequence[str] | None, timezone: str
) -> pa.Table:
    try:
        reader = pq.ParquetFile(file.source.arrow_file())
        if columns is not None:
            _check_columns(reader.schema_arrow, columns, file.path)
        names = None if columns is None else list(columns)
        selected = [reader.schema_arrow.empty_table() if names is None else reader.read_row_groups([], names)]
        for row_group in row_groups:
            matches = _mask(file, reader, row_group, node, timezone)
            if pc.any(matches).as_py():  # else the other columns need not be read
                selected.append(_filter(reader.read_row_group(row_group, names), matches))
        return pa.concat_tables(selected)
    except ParquetBloomError as error:
        error.path = error.path or file.path
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableColumnError(f"cannot be read: {str(error).splitlines()[0]}", path=file.path) from error


def _filter(table: pa.Table, matches: pa.ChunkedArray) -> pa.Table:
    try:
        return table.filter(matches)
    except pa.ArrowNotImplementedError:  # pyarrow takes no rows out of some types, views of strings among them
        rows = np.flatnonzero(pc.fill_null(matches, False).to_numpy())
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return pa.concat_tables([table.slice(int(run[0]), len(run)) for run in runs if len(run)] or [table.slice(0, 0)])


def _check_columns(schema: pa.Schema, columns: Sequence[str], path: str) -> None:
    for name in columns:
        if name not in schema.names and name.split(".")[0] not in schema.names:
            raise UnknownColumnError("no such column", path=path, column=name)


def _mask(file: BloomFile, reader: pq.ParquetFile, row_group: int, node: Node, timezone: str) -> pa.ChunkedArray:
    """Which rows of a row group match."""
    names = sorted(tree.columns(node))
    stored = {}
    for name in names:
        found = find_leaves(file.leaves, name)
        # pyarrow turns INT96 into nanoseconds and wraps what does not fit: compare the stored values.
        if len(found) == 1 and found[0].physical == "INT96" and not found[0].repeated:
            values = ColumnReader(file.source, file.footer, found[0])
            batches = pa.chunked_array(values.batches(row_group), pa.binary(12))
            stored[name] = StoredColumn(batches, values.column_type)
    table = reader.read_row_group(row_group, [name for name in names if name not in stored])
    return mask(table, node, timezone=timezone, stored=stored)
