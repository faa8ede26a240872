"""Read many rows of many row groups of local Parquet files, whole columns of each file by one call of pyarrow.

The predicate is evaluated on the rows of all files at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import UnusualPageError
from ...file.columns import find_leaves
from ...file.pages.plan import FlatColumn, ListColumn
from ...file.pages.reader import SPARSE_FACTOR
from ...file.pages.sparse import RowGroupBatch, RowsOfGroups
from ...file.reader import BloomFile
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import row_mask
from ...storage import OpenFiles
from ...util.arrow_select import keep
from ...util.lazy import late_module
from ..model.data_file import FileProjection, RowFilter
from ..model.plan import RowGroupPlan
from ..model.row_selection import mask_to_positions

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc = late_module("pyarrow.compute")
    pq = late_module("pyarrow.parquet")

# The other columns are read with the predicate's if they are so small that opening the files again would take longer:
_AT_ONCE_BYTES = 1 << 18  # for each file, or
_AT_ONCE_RATIO = 4  # times the bytes of the predicate's columns


class DenseColumns(NamedTuple):
    """The columns that are read.

    Attributes
    ----------
    predicate, result : names of the columns of the predicate, and of the result.
    leaves : their leaves, by name.
    """

    predicate: list[str]
    result: list[str]
    leaves: Mapping[str, Leaf]


def find_dense_columns(
    file: BloomFile,
    columns: Mapping[str, FlatColumn | ListColumn],
    row_filter: RowFilter,
    projection: FileProjection,
) -> DenseColumns | None:
    """Return the columns that are needed of files; None if Arrow might show other values of one.

    Parameters
    ----------
    file : one of the files; the others have the same schema.
    columns : its flat columns, and those of lists, by name.
    """
    if file.cached.original is not None:  # the table has other names for its columns
        return None
    names: list[str] = []
    if isinstance(row_filter.predicate, PruningPredicate):
        node = row_filter.predicate.node
        names = [name for name in sorted(tree.columns(node)) if find_leaves(file.leaves, name)]
        if not names:
            return None
    result = list(projection.schema.names)
    needed = [*dict.fromkeys([*names, *result])]
    if not needed or not all(name in columns and _is_usual(columns[name]) for name in needed):
        return None
    return DenseColumns(names, result, {name: columns[name].leaf for name in needed})


def _is_usual(column: FlatColumn | ListColumn) -> bool:
    arrow = column.arrow.value_type if isinstance(column, ListColumn) else column.arrow
    is_usual = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_decimal,
    )
    return column.leaf.physical != "INT96" and any(check(arrow) for check in is_usual)


class DenseReader:
    """Reads the rows of whole row groups that match a predicate.

    Parameters
    ----------
    files : open.
    row_groups : (number of a file in `files`, plan of a row group) of each, file after file.
    batch : the same row groups.
    columns : as `find_dense_columns` returns them for the files.
    schema : of the files' rows, as pyarrow reads them.
    row_filter : the predicate.
    use_threads : whether Arrow decodes the columns of a file side by side.

    Attributes
    ----------
    requests, num_bytes : what was read, by the sizes of column chunks.
    row_bytes : memory that a decoded row has taken at most.
    """

    def __init__(
        self,
        files: OpenFiles,
        row_groups: Sequence[tuple[int, RowGroupPlan]],
        batch: RowGroupBatch,
        columns: DenseColumns,
        schema: pa.Schema,
        row_filter: RowFilter,
        use_threads: bool,
    ):
        self._files = [
            (_path_of(files.descriptor(number)), [group.row_group for _, group in groups])
            for number, groups in groupby(row_groups, lambda one: one[0])
        ]
        self._batch = batch
        self._columns = columns
        self._schema = schema
        self._row_filter = row_filter
        self._use_threads = use_threads
        self.requests = self.num_bytes = 0
        self.row_bytes = 0.0

    def read(self, schema: pa.Schema, with_rows: bool) -> tuple[pa.Table, RowsOfGroups | None]:
        """Return the rows that match, of the columns of a schema, and which they are if `with_rows`.

        Raises
        ------
        MalformedFooterError, StorageError, OSError, pyarrow.ArrowException
            The row groups have to be read in another way.
        """
        if self._row_filter.predicate is True:
            table = self._to_table(self._read_columns(self._columns.result), schema)
            return table, self._find_rows(None) if with_rows else None
        names = self._columns.predicate
        rest = [name for name in schema.names if name not in names]
        if self._estimate(rest) <= max(_AT_ONCE_BYTES * len(self._files), _AT_ONCE_RATIO * self._estimate(names)):
            names, rest = [*names, *rest], []
        columns = self._read_columns(names)
        mask = self._evaluate(columns)
        found = {name: keep(columns[name], mask) for name in names if name in schema.names}
        if rest:
            found |= self._read_rest(rest, mask, schema)
        return self._to_table(found, schema), self._find_rows(mask) if with_rows else None

    def _read_rest(
        self, names: list[str], mask: pa.ChunkedArray, schema: pa.Schema
    ) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Read columns in the rows for which a mask is true."""
        count = pc.sum(mask, min_count=0).as_py()
        if not count:
            return {name: pa.array([], schema.field(name).type) for name in names}
        if count * SPARSE_FACTOR <= self._batch.total_rows and self._batch.supports(names):
            return self._batch.read(names, self._find_rows(mask))
        return {name: keep(column, mask) for name, column in self._read_columns(names).items()}

    def count(self) -> list[int]:
        """Return how many rows of each row group match; for errors see `read`."""
        if self._row_filter.predicate is True:
            return self._batch.num_rows.tolist()
        return self._find_rows(self._evaluate(self._read_columns(self._columns.predicate))).counts.tolist()

    def _evaluate(self, columns: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
        predicate = self._row_filter.predicate
        assert isinstance(predicate, PruningPredicate)
        table = pa.table({name: columns[name] for name in self._columns.predicate})
        return row_mask(table, predicate.node, timezone=self._row_filter.timezone, probes=self._row_filter.probes)

    def _find_rows(self, mask: pa.ChunkedArray | None) -> RowsOfGroups:
        """Return the rows of each row group for which a mask is true; None for all."""
        num_rows = self._batch.num_rows
        ends = np.cumsum(num_rows)
        positions = np.arange(self._batch.total_rows) if mask is None else mask_to_positions(mask)
        counts = np.diff(np.searchsorted(positions, ends), prepend=0)
        return RowsOfGroups(counts, positions - np.repeat(ends - num_rows, counts))

    def _read_columns(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Read columns of all rows, in the order of the files and row groups."""
        schema = pa.schema([self._schema.field(name) for name in names], None)
        tables = [_read_file(path, groups, names, self._use_threads) for path, groups in self._files]
        table = pa.concat_tables(tables).replace_schema_metadata(None)
        if table.num_rows != self._batch.total_rows or table.schema.types != schema.types:
            raise UnusualPageError("other rows, or of other types")
        self.row_bytes += table.get_total_buffer_size() / max(table.num_rows, 1)
        self.requests += len(self._files) + len(names) * len(self._batch.num_rows)
        self.num_bytes += self._batch.count_bytes(self._find_leaves(names))
        return dict(zip(names, table.columns, strict=True))

    def _find_leaves(self, names: Sequence[str]) -> list[Leaf]:
        return [self._columns.leaves[name] for name in names]

    def _estimate(self, names: Sequence[str]) -> int:
        return self._batch.estimate_bytes(self._find_leaves(names)) if names else 0

    @staticmethod
    def _to_table(columns: Mapping[str, pa.Array | pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _path_of(descriptor: int) -> str:
    """Return a path at which an open file is, whatever is at its own path by now."""
    return f"{'/proc/self/fd' if os.path.isdir('/proc/self/fd') else '/dev/fd'}/{descriptor}"


def _read_file(path: str, row_groups: list[int], names: Sequence[str], use_threads: bool) -> pa.Table:
    # Not by a dataset's scanner, which may give row groups in another order. Reading ahead takes threads that Arrow has
    # few of, and that may all wait for these rows.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return file.read_row_groups(row_groups, list(names), use_threads=use_threads).select(list(names))
