"""`RowGroupPages`: the rows of one row group that can be taken out of their pages, and the pages' statistics.

Anything unusual about a column is not an error here: the caller then reads the column whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...errors import MalformedFooterError, UnusualPageError
from ...metadata.footer import Leaf
from ...metadata.page_index import CachedPageIndex
from ...metadata.page_match import Targets
from ...util.arrow_select import has_kernels, take
from ...util.arrow_values import from_numpy
from ..reader import BloomFile
from .lookup import PageLookup
from .plan import FlatColumn, RowPositions
from .plan import find_flat_columns as find_flat_columns
from .plan import find_list_columns as find_list_columns
from .sparse import RowGroupBatch, RowsOfGroups

SPARSE_FACTOR = 16
"""If at most one in so many of the rows is requested, these rows are taken out of their pages."""

_AT_ONCE = 1 << 14  # rows that are taken
_RUN_FACTOR = 2  # and one in so many if they are adjacent, as those of a zone are


class RowGroupPages:
    """Reads pages of one row group's columns.

    Parameters
    ----------
    file : the file.
    schema : its Arrow schema, as pyarrow reads it.
    row_group : number of the row group.
    """

    def __init__(self, file: BloomFile, schema: pa.Schema, row_group: int):
        self._file = file
        self._schema = schema
        self._row_group = row_group
        self._lookup = PageLookup(file, row_group)

    def bounds(self, leaves: Iterable[Leaf]) -> dict[int, CachedPageIndex]:
        """Return the page indexes with `bounds` of those leaves of which both indexes are usable, by leaf index."""
        indexes = self._lookup.find(leaves, bounds=True)
        return self._lookup.confirm({leaf: index for leaf, index in indexes.items() if index.bounds is not None})

    def give_up(self, leaf: Leaf, problem: str) -> None:
        """Stop using the page index of a column, and log the problem."""
        self._lookup.give_up(leaf.index, problem)

    @cached_property
    def _flat(self) -> dict[str, FlatColumn]:
        return find_flat_columns(self._file, self._schema)

    @cached_property
    def _batch(self) -> RowGroupBatch | None:
        """The row group, if the footer is not unusual."""
        try:
            return RowGroupBatch.of_file(self._file, self._schema, [self._row_group])
        except MalformedFooterError:  # reading it whole reports what is wrong, if anything is
            return None

    def is_flat(self, name: str) -> bool:
        """Return whether the schema allows reading a column by pages."""
        return name in self._flat

    def _has_few(self, rows: RowPositions) -> bool:
        """Return whether rows of a local file are taken out of their pages in less time than these are decoded."""
        is_run = len(rows) > 0 and int(rows[-1] - rows[0]) + 1 == len(rows)
        factor = _RUN_FACTOR if is_run else SPARSE_FACTOR
        return self._file.source.path is None or len(rows) * factor <= self._file.footer.num_rows_of(self._row_group)

    def read(self, names: Iterable[str], rows: RowPositions) -> dict[str, pa.ChunkedArray]:
        """Read the values of some columns in some rows.

        Parameters
        ----------
        names : top-level columns; others are ignored.
        rows : rows of the row group, ascending, at least one.

        Returns
        -------
        One value per row for each column that can be read by pages and where that is worthwhile. The caller has to read
        the others whole.

        Raises
        ------
        StorageError, TruncatedFileError, UnreadableColumnError
        """
        flat = [name for name in dict.fromkeys(names) if name in self._flat]
        if not flat or not len(rows) or not self._has_few(rows) or self._batch is None:
            return {}
        untakable, result = self._batch.find_untakable(flat), {}
        for name in self._batch.fetch_pages([name for name in flat if name not in untakable], _of_group(rows)):
            try:
                parts = [
                    self._batch.read([name], _of_group(rows[start : start + _AT_ONCE]), fetched=True)[name]
                    for start in range(0, len(rows), _AT_ONCE)
                ]
            except MalformedFooterError:  # pyarrow reports what is wrong, if anything is
                continue
            result[name] = pa.chunked_array(parts)
        self._remember()
        return result

    def read_equal(
        self, name: str, rows: RowPositions, wanted: list[bytes]
    ) -> tuple[RowPositions, pa.ChunkedArray] | None:
        """Read the rows whose value is one of some others, and these values; None where bytes cannot be compared.

        Parameters
        ----------
        name, rows : as in `read`.
        wanted : stored values; for columns whose equal values have equal bytes.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        column = self._flat.get(name)
        if column is None or not column.same or not len(rows) or not self._has_few(rows) or self._batch is None:
            return None
        targets = Targets([*dict.fromkeys(wanted)])
        if self._batch.find_untakable([name]) or not self._batch.fetch_pages([name], _of_group(rows)):
            return None
        starts = np.flatnonzero(np.diff(rows, prepend=-2) > 1)
        ends = np.append(starts[1:], len(rows)) - 1
        ranges = list(zip(rows[starts].tolist(), (rows[ends] + 1).tolist(), strict=True))
        most = self._file.footer.num_rows_of(self._row_group)
        try:
            found = self._batch.search(name, targets, most, [ranges], fetched=True)
        except UnusualPageError:
            return None
        finally:
            self._remember()
        assert found is not None
        inside = np.isin(found[0].rows, rows)
        values = self._batch.make_array(name, targets, found[1][inside])
        return found[0].rows[inside], pa.chunked_array([values])

    def _remember(self) -> None:
        if self._batch is not None and self._batch.grown:
            self._file.remember()
            self._batch.grown.clear()


def _of_group(rows: RowPositions) -> RowsOfGroups:
    return RowsOfGroups(np.array([len(rows)], np.int64), rows)


def take_rows(data: pa.Table | pa.ChunkedArray, rows: RowPositions) -> pa.Table | pa.ChunkedArray:
    """Take rows of a table or column by ascending positions; works for every type."""
    if isinstance(data, pa.Table):
        columns = [take_rows(column, rows) for column in data.columns]
        return pa.Table.from_arrays(columns, schema=data.schema) if columns else data.slice(0, len(rows))
    if len(rows) == len(data):
        return data
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(rows) * SPARSE_FACTOR > len(data):
        return data.slice(int(rows[0]), len(rows))
    ends = np.cumsum([len(chunk) for chunk in data.chunks])
    parts = np.split(rows, np.searchsorted(rows, ends[:-1])) if data.num_chunks else []
    # Chunk by chunk: `take` would concatenate them first.
    chunks = [
        _take_from_chunk(chunk, part - (end - len(chunk)))
        for chunk, part, end in zip(data.chunks, parts, ends, strict=True)
        if len(part)
    ]
    return pa.chunked_array(chunks, data.type)


def _take_from_chunk(chunk: pa.Array, rows: RowPositions) -> pa.Array:
    if len(rows) * SPARSE_FACTOR <= len(chunk) or not has_kernels(chunk.type):
        return take(chunk, rows)
    mask = np.zeros(len(chunk), bool)
    mask[rows] = True
    return chunk.filter(from_numpy(mask))
