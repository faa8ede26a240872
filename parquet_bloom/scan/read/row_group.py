"""The rows of one row group that match: what of it is read, page by page where the file has a page index.

First the predicate's columns, in the rows that statistics of pages do not rule out; then the others, in the pages that
hold a match. Columns that cannot be read by pages, or of which most is wanted, are read whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...errors import UnreadableColumnError
from ...file.pages.plan import RowPositions
from ...file.pages.reader import SPARSE_FACTOR, RowGroupPages, take_rows
from ...file.reader import BloomFile
from ...predicate.pruning import PruningPredicate
from .page_selection import RowRanges, in_both, rows_left
from .whole_reader import WholeReader


class RowGroupRows:
    """The rows of a row group that a predicate can hold for.

    Parameters
    ----------
    file, schema : the file, and its Arrow schema.
    reader : reads of it what is read whole.
    row_group : which.
    decider : the predicate; None for one that pages cannot be held against.
    zoned : ranges [start, stop) of the rows that zones leave; None for all of them.

    Attributes
    ----------
    row_group : as given.
    """

    def __init__(
        self,
        file: BloomFile,
        schema: pa.Schema,
        reader: WholeReader,
        row_group: int,
        decider: PruningPredicate | None,
        zoned: Sequence[tuple[int, int]] | None = None,
    ):
        self.row_group = row_group
        self._reader = reader
        self._num_rows = file.footer.num_rows_of(row_group)
        self._pages = RowGroupPages(file, schema, row_group)
        self._held: dict[str, pa.ChunkedArray] = {}  # columns that were read for the predicate, in the rows left
        # Of few rows that are left by zones, statistics of pages would save less than they cost.
        few = zoned is not None and sum(stop - start for start, stop in zoned) * SPARSE_FACTOR <= self._num_rows
        left = left_by_both(file, row_group, self._pages, None if few else decider, zoned)
        self._rows: RowPositions | None = None  # that are left, ascending; None for all of them
        if left is not None:
            self._rows = np.concatenate([np.arange(0), *(np.arange(start, stop) for start, stop in left.tolist())])

    @property
    def num_left(self) -> int:
        """How many rows the pages leave."""
        return self._num_rows if self._rows is None else len(self._rows)

    def keep_equal(self, name: str, wanted: list[bytes]) -> bool:
        """Leave out rows whose value is none of some, where few rows are left and that can be seen from stored bytes.

        Whether that was done: all rows that are left have one of the values then.

        Parameters
        ----------
        name : a column whose equal values are stored alike.
        wanted : values as they are stored.
        """
        found = None if self._rows is None else self._pages.read_equal(name, self._rows, wanted)
        if found is None:
            return False
        self._rows, self._held[name] = found
        return True

    def of(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Of a column that was read whole, the rows that are left."""
        return column if self._rows is None else self._some_of(column, self._rows, self._num_rows)

    def _some_of(
        self, whole: pa.Table | pa.ChunkedArray, rows: RowPositions, num_rows: int
    ) -> pa.Table | pa.ChunkedArray:
        if len(whole) != num_rows:
            problem = f"cannot be read: {len(whole)} rows instead of {num_rows}"
            raise UnreadableColumnError(problem, row_group=self.row_group)
        return take_rows(whole, rows)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Some columns (or dotted leaves, as in `pyarrow.parquet`) in the rows that are left, in any order."""
        if self._rows is None:
            table = self._reader.read_row_group(self.row_group, names)
        else:
            columns = self._pages.read(names, self._rows)
            others = [name for name in names if name not in columns]
            if others:
                whole = self._reader.read_row_group(self.row_group, others)
                whole = self._some_of(whole, self._rows, self._num_rows)
                columns |= dict(zip(whole.schema.names, whole.columns, strict=True))
            table = pa.table(columns)
        self._held = {name: table.column(name) for name in names if self._pages.is_flat(name)}
        return table

    def matching(self, mask: pa.ChunkedArray | None, names: Sequence[str] | None, schema: pa.Schema) -> pa.Table:
        """The rows for which a predicate is true.

        Parameters
        ----------
        mask : its truth for each of the rows that are left; None if `keep_equal` has left those alone that match.
        names : what `pyarrow.parquet` is to read; None for all columns.
        schema : of the result, as `pyarrow.parquet` gives it for these names.
        """
        found = {name: column for name, column in self._held.items() if name in schema.names}
        rows = self._rows
        num_rows = len(mask) if rows is None and mask is not None else self._num_rows
        if mask is not None:
            chosen = true_rows(mask)
            rows = chosen if rows is None else rows[chosen]
            found = {name: take_rows(column, chosen) for name, column in found.items()}
        assert rows is not None
        if not len(rows):  # the other columns need not be read
            return schema.empty_table()
        found |= self._pages.read([name for name in schema.names if name not in found], rows)
        others = [name for name in schema.names if name not in found]
        if not others:
            return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)
        asked = others if names is None else [name for name in names if name not in found]
        whole = self._reader.read_row_group(self.row_group, asked)
        if whole.schema.names != others:  # a name stands for more than its own column
            whole = self._reader.read_row_group(self.row_group, names)
            return self._some_of(whole, rows, num_rows)
        rest = iter(self._some_of(whole, rows, num_rows).columns)
        columns = [found[name] if name in found else next(rest) for name in schema.names]
        return pa.Table.from_arrays(columns, schema=schema)


def left_by_both(
    file: BloomFile,
    row_group: int,
    pages: RowGroupPages,
    decider: PruningPredicate | None,
    zoned: Sequence[tuple[int, int]] | None,
) -> RowRanges | None:
    """The rows that pages and zones leave; None for all of them."""
    of_pages = None if decider is None else rows_left(file, row_group, pages, decider)
    return in_both(of_pages, None if zoned is None else np.array(zoned, np.int64).reshape(-1, 2))


def true_rows(mask: pa.ChunkedArray) -> RowPositions:
    """Where a mask is true, and not null. Of the many bits that are not, eight are passed over at a time."""
    found, start = [np.arange(0)], 0
    for chunk in mask.chunks:
        if not len(chunk):
            continue
        validity, values = chunk.buffers()
        first, end = chunk.offset // 8, -(-(chunk.offset + len(chunk)) // 8)
        bits = np.frombuffer(values, np.uint8)[first:end]
        if validity is not None:
            bits = bits & np.frombuffer(validity, np.uint8)[first:end]
        some = np.flatnonzero(bits)
        set_bits = np.flatnonzero(np.unpackbits(bits[some], bitorder="little"))
        rows = some[set_bits >> 3] * 8 + (set_bits & 7) - chunk.offset % 8
        found.append(rows[(rows >= 0) & (rows < len(chunk))] + start)
        start += len(chunk)
    return np.concatenate(found)
