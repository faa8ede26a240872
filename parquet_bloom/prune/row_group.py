"""The rows of one row group that match: what of it is read, page by page where the file has a page index.

First the predicate's columns, in the rows that statistics of pages do not rule out; then the others, in the pages that
hold a match. Columns that cannot be read by pages, or of which most is wanted, are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import UnreadableColumnError
from ..file.columns import find_leaves, type_of
from ..file.facts import bounds
from ..file.pages import RowGroupPages, Rows, take_rows
from ..file.reader import BloomFile
from ..metadata.footer import Leaf
from ..metadata.page_index import ColumnIndex, OffsetIndex
from ..predicate import tree
from ..predicate.decide import Decider
from ..predicate.evidence import Evidence

MANY_LITERALS = 1000
"""A predicate with more literals is not held against pages: to prepare it again costs more than the pages do."""


class RowGroupRows:
    """The rows of a row group that a predicate can hold for.

    Parameters
    ----------
    file, reader : the file, and pyarrow's reader of it.
    row_group : which.
    decider : the predicate.

    Attributes
    ----------
    row_group : as given.
    """

    def __init__(self, file: BloomFile, reader: pq.ParquetFile, row_group: int, decider: Decider):
        self.row_group = row_group
        self._file = file
        self._reader = reader
        self._num_rows = file.footer.num_rows_of(row_group)
        self._pages = RowGroupPages(file, reader.schema_arrow, row_group)
        self._held: dict[str, pa.ChunkedArray] = {}  # columns that were read for the predicate, in the rows left
        self._rows = self._left(decider)

    def _left(self, decider: Decider) -> Rows | None:
        """The rows that pages leave, ascending; None for all of them."""
        if sum(len(leaf.literals) for leaf in tree.leaves(decider.node)) > MANY_LITERALS:
            return None
        leaves: dict[str, Leaf] = {}
        for name in decider.columns:
            found = find_leaves(self._file.leaves, name)
            if len(found) == 1:
                leaves[name] = found[0]
        indexes = self._pages.column_indexes(leaves.values())
        if not indexes:
            return None
        # Between two of these rows no column goes from one page to the next.
        borders = np.unique(np.concatenate([index.rows for index, _ in indexes.values()]))
        starts = borders[:-1]
        evidence: dict[str, list[Evidence | None]] = {}
        for name in decider.columns:
            leaf = leaves.get(name)
            if leaf is not None and leaf.index in indexes:
                index, values = indexes[leaf.index]
                pages = self._evidence(leaf, index, values)
                evidence[name] = [pages[page] for page in index.pages_of(starts).tolist()]
            else:
                evidence[name] = [None if leaf is None else Evidence(type_of(leaf))] * len(starts)
        possible = [
            decider.decide({name: told[number] for name, told in evidence.items()}).possible
            for number in range(len(starts))
        ]
        if all(possible):
            return None
        return np.flatnonzero(np.repeat(possible, np.diff(borders)))

    def _evidence(self, leaf: Leaf, index: OffsetIndex, values: ColumnIndex) -> list[Evidence | None]:
        """What the index tells of each page."""
        column_type, type_ordered = type_of(leaf), leaf.index in self._file.footer.type_ordered
        found: list[Evidence | None] = []
        for page in range(index.num_pages):
            if values.null_pages[page]:
                found.append(Evidence(column_type, has_values=False))
            else:
                found.append(Evidence(column_type, None, *bounds(values.statistics(page), column_type, type_ordered)))
        return found

    def of(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Of a column that was read whole, the rows that are left."""
        return column if self._rows is None else self._some_of(column, self._rows, self._num_rows)

    def _some_of(self, whole: pa.Table | pa.ChunkedArray, rows: Rows, num_rows: int) -> pa.Table | pa.ChunkedArray:
        if len(whole) != num_rows:
            problem = f"cannot be read: {len(whole)} rows instead of {num_rows}"
            raise UnreadableColumnError(problem, row_group=self.row_group)
        return take_rows(whole, rows)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Some columns (or dotted leaves, as in `pyarrow.parquet`) in the rows that are left, in any order."""
        if self._rows is None:
            table = self._reader.read_row_group(self.row_group, list(names))
        else:
            found = self._pages.read(names, self._rows)
            others = [name for name in names if name not in found]
            columns = dict(found)
            if others:
                whole = self._reader.read_row_group(self.row_group, others)
                whole = self._some_of(whole, self._rows, self._num_rows)
                columns |= dict(zip(whole.schema.names, whole.columns, strict=True))
            table = pa.table(columns)
        self._held = {name: table.column(name) for name in names if self._pages.is_flat(name)}
        return table

    def matching(self, mask: pa.ChunkedArray, names: Sequence[str] | None, schema: pa.Schema) -> pa.Table:
        """The rows for which a predicate is true.

        Parameters
        ----------
        mask : its truth for each of the rows that are left.
        names : what `pyarrow.parquet` is to read; None for all columns.
        schema : of the result, as `pyarrow.parquet` gives it for these names.
        """
        chosen = np.flatnonzero(pc.fill_null(mask, False).to_numpy())
        if not len(chosen):  # the other columns need not be read
            return schema.empty_table()
        rows = chosen if self._rows is None else self._rows[chosen]
        found = {name: take_rows(column, chosen) for name, column in self._held.items() if name in schema.names}
        found |= self._pages.read([name for name in schema.names if name not in found], rows)
        others = [name for name in schema.names if name not in found]
        if not others:
            return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)
        asked = others if names is None else [name for name in names if name not in found]
        num_rows = len(mask) if self._rows is None else self._num_rows
        whole = self._reader.read_row_group(self.row_group, asked)
        if whole.schema.names != others:  # a name stands for more than its own column
            whole = self._reader.read_row_group(self.row_group, None if names is None else list(names))
            return self._some_of(whole, rows, num_rows)
        rest = iter(self._some_of(whole, rows, num_rows).columns)
        columns = [found[name] if name in found else next(rest) for name in schema.names]
        return pa.Table.from_arrays(columns, schema=schema)
