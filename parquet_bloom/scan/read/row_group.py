"""Read the matching rows of one row group, page by page if the file has a page index.

First the predicate's columns are read, in the rows that page statistics do not rule out; then the other columns, in the
pages that contain a match. Columns that cannot be read by pages, or of which most pages are needed, are read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ...file.pages.reader import SPARSE_FACTOR, RowGroupPages, take_rows
from ...file.reader import BloomFile
from ...metadata.page_match import Targets
from ...predicate.pruning import PruningPredicate
from ...util.arrow_values import empty_table
from ..model.row_selection import (
    RowPositions,
    RowRanges,
    count_rows,
    intersect_ranges,
    mask_to_positions,
    slice_rows,
    to_positions,
    to_row_ranges,
)
from .page_selection import select_rows_by_pages
from .row_group_reader import RowGroupReader, make_count_error

_FEW_TARGETS = 8  # that each value of selected pages is compared with


class RowGroupRows:
    """The rows of a row group for which a predicate can be true.

    Parameters
    ----------
    file, schema : the file, and its Arrow schema.
    reader : reads whole columns of the file.
    row_group : its ordinal.
    predicate : None for one that page statistics cannot answer.
    selection : ranges [start, stop) of the rows that zones leave; None for all of them.

    Attributes
    ----------
    row_group : as given.
    """

    def __init__(
        self,
        file: BloomFile,
        schema: pa.Schema,
        reader: RowGroupReader,
        row_group: int,
        predicate: PruningPredicate | None,
        selection: Sequence[tuple[int, int]] | None = None,
    ):
        self.row_group = row_group
        self._reader = reader
        self._num_rows = file.footer.num_rows_of(row_group)
        self._pages = RowGroupPages(file, schema, row_group)
        self._columns: dict[str, pa.ChunkedArray] = {}  # columns read for the predicate, in the selected rows
        # If zones leave few rows, page statistics would save less than they cost.
        few = selection is not None and count_rows(selection) * SPARSE_FACTOR <= self._num_rows
        ranges = select_rows(file, row_group, self._pages, None if few else predicate, selection)
        self._rows: RowPositions | None = None if ranges is None else to_positions(ranges)  # None for all rows

    @property
    def num_left(self) -> int:
        """Number of selected rows."""
        return self._num_rows if self._rows is None else len(self._rows)

    @property
    def is_sparse(self) -> bool:
        """Whether few rows are selected, so that reading them takes little memory."""
        return self._rows is not None and len(self._rows) * SPARSE_FACTOR <= self._num_rows

    def keep_equal(self, name: str, targets: Targets) -> bool:
        """Keep only the selected rows with one of some values, if there are few rows and stored bytes decide.

        Parameters
        ----------
        name : a column whose equal values have the same stored bytes.
        targets : the values.

        Returns
        -------
        Whether that was done; otherwise the selected rows are unchanged.
        """
        if self._rows is None or len(targets) > _FEW_TARGETS:
            return False
        matches = self._pages.read_equal(name, self._rows, [targets[number] for number in range(len(targets))])
        if matches is None:
            return False
        self._rows, self._columns[name] = matches
        return True

    @property
    def selected(self) -> RowPositions | None:
        """The selected rows; None for all."""
        return self._rows

    def take(self, column: pa.ChunkedArray, rows: RowPositions | None) -> pa.ChunkedArray:
        """Return some rows of a column that was read whole; None for all."""
        if rows is None:
            return column
        if len(column) != self._num_rows:
            raise make_count_error(self.row_group, len(column), self._num_rows)
        return take_rows(column, rows)

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read the selected rows of some columns (or dotted leaves, as in `pyarrow.parquet`), in any order."""
        if not names:  # a table without columns would not know its number of rows
            table = pa.table({"": pa.nulls(self.num_left)})
        elif self._rows is None:
            table = self._reader.read_row_group(self.row_group, names)
        else:
            columns = self._pages.read(names, self._rows)
            others = [name for name in names if name not in columns]
            if others:
                rest = self._reader.read_rows(self.row_group, others, self._rows, self._num_rows)
                columns |= dict(zip(rest.schema.names, rest.columns, strict=True))
            table = pa.table(columns)
        self._columns = {name: table.column(name) for name in names if self._pages.is_flat(name)}
        return table

    def _stream_selected(
        self, names: Sequence[str], window_rows: int
    ) -> Iterator[tuple[int, int, pa.Table, RowPositions]]:
        """Yield windows [start, stop) with selected rows: columns in these rows, and the rows."""
        # Without columns, rows are all that there is to know.
        stream = self._reader.stream(self.row_group, names) if names else None
        for start in range(0, self._num_rows, window_rows):
            stop = min(start + window_rows, self._num_rows)
            selected = np.arange(start, stop) if self._rows is None else slice_rows(self._rows, start, stop)
            if len(selected):
                table = stream.read(start, stop, selected) if stream else pa.table({"": pa.nulls(stop - start)})
                yield start, stop, take_rows(table, selected - start), selected

    def stream_matches(
        self,
        names: Sequence[str] | None,
        schema: pa.Schema,
        predicate_names: Sequence[str],
        evaluate: Callable[[pa.Table, RowPositions], pa.ChunkedArray],
        window_rows: int,
    ) -> Iterator[tuple[pa.Table, RowPositions]]:
        """Read the rows for which a predicate is true, and their positions, a window of rows at a time.

        Parameters
        ----------
        names, schema : as in `read_matches`.
        predicate_names : columns of the predicate.
        evaluate : returns the predicate's value for some rows, given its columns in them.
        window_rows : rows that are decoded at once.
        """
        known = [name for name in predicate_names if name in schema.names and self._pages.is_flat(name)]
        rest = [name for name in schema.names if name not in known]
        remaining: Sequence[str] | None = rest if names is None else [name for name in names if name not in known]
        if remaining and self._reader.select_schema(remaining).names != rest:  # as in `read_matches`
            known, rest, remaining = [], schema.names, names
        others = self._reader.stream(self.row_group, remaining) if rest else None
        for start, stop, table, selected in self._stream_selected(predicate_names, window_rows):
            matches = mask_to_positions(evaluate(table, selected))
            if not len(matches):
                continue
            rows = selected[matches]
            columns = {name: take_rows(table.column(name), matches) for name in known}
            if len(rows) * SPARSE_FACTOR <= stop - start:
                columns |= self._pages.read(rest, rows)
            unread: Iterator[pa.ChunkedArray] = iter(())
            if others is not None and not columns.keys() >= {*rest}:
                columns = {name: columns[name] for name in known}
                unread = iter(take_rows(others.read(start, stop, rows), rows - start).columns)
            arrays = [columns[name] if name in columns else next(unread) for name in schema.names]
            yield pa.Table.from_arrays(arrays, schema=schema), rows

    def count_matches(
        self,
        predicate_names: Sequence[str],
        evaluate: Callable[[pa.Table, RowPositions], pa.ChunkedArray],
        window_rows: int,
    ) -> int:
        """Count the rows for which a predicate is true, a window of rows at a time; see `stream_matches`."""
        tables = self._stream_selected(predicate_names, window_rows)
        return sum(len(mask_to_positions(evaluate(table, selected))) for _, _, table, selected in tables)

    def read_matches(
        self, mask: pa.ChunkedArray | None, names: Sequence[str] | None, schema: pa.Schema
    ) -> tuple[pa.Table, RowPositions]:
        """Read the rows for which a predicate is true; return them and their positions.

        Parameters
        ----------
        mask : the predicate's value for each selected row; None if `keep_equal` has left only the matching rows.
        names : columns to read, as `pyarrow.parquet` takes them; None for all.
        schema : of the result, as `pyarrow.parquet` gives it for these names.
        """
        columns = {name: column for name, column in self._columns.items() if name in schema.names}
        rows = self._rows
        num_rows = len(mask) if rows is None and mask is not None else self._num_rows
        if mask is not None:
            matches = mask_to_positions(mask)
            rows = matches if rows is None else rows[matches]
            columns = {name: take_rows(column, matches) for name, column in columns.items()}
        assert rows is not None
        if not len(rows):  # the other columns need not be read
            return empty_table(schema), rows
        columns |= self._pages.read([name for name in schema.names if name not in columns], rows)
        others = [name for name in schema.names if name not in columns]
        if not others:
            return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema), rows
        remaining = others if names is None else [name for name in names if name not in columns]
        table = self._reader.read_rows(self.row_group, remaining, rows, num_rows)
        if table.schema.names != others:  # a name matches other columns, too
            return self._reader.read_rows(self.row_group, names, rows, num_rows), rows
        rest = iter(table.columns)
        arrays = [columns[name] if name in columns else next(rest) for name in schema.names]
        return pa.Table.from_arrays(arrays, schema=schema), rows


def select_rows(
    file: BloomFile,
    row_group: int,
    pages: RowGroupPages,
    predicate: PruningPredicate | None,
    selection: Sequence[tuple[int, int]] | None,
) -> RowRanges | None:
    """Return the rows that page statistics and zones leave; None for all of them."""
    by_pages = None if predicate is None else select_rows_by_pages(file, row_group, pages, predicate)
    return intersect_ranges(by_pages, None if selection is None else to_row_ranges(selection))
