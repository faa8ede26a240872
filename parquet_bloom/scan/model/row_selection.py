"""Selections of the rows of a row group: their forms, and the conversions between these.

Rows are counted from the first row of their row group. Ranges are half-open, [start, stop), ascend, and do not touch.
A plan holds a `RowSelection`, which is hashable. Selections are computed as `RowRanges`, and rows are taken out of
columns by `RowPositions`. Callers of `parquet_bloom.row_ranges` get `RowRangesByGroup`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.pages.page_columns import RowPositions as RowPositions
from ...storage.paths import as_utf8
from ...util.arrow_values import from_numpy

RowSelection = tuple[tuple[int, int], ...]
"""Ranges [start, stop) of the rows of a row group, as a plan holds them."""

RowGroupSelections = Sequence[tuple[int, RowSelection | None]]
"""Row groups, each with its selected rows; None for all of them."""

RowRanges = NDArray[np.int64]
"""(n, 2): ranges [start, stop) of the rows of a row group, to compute with."""

RowRangesByGroup = dict[int, list[tuple[int, int]]]
"""{row group: [(start, stop), ...]}, the result of `row_ranges`."""


def count_rows(selection: Sequence[tuple[int, int]]) -> int:
    """Return the number of rows in some ranges."""
    return sum(stop - start for start, stop in selection)


def to_row_ranges(selection: Sequence[tuple[int, int]]) -> RowRanges:
    """Return ranges as an array."""
    return np.array(selection, np.int64).reshape(-1, 2)


def to_row_selection(ranges: RowRanges) -> RowSelection:
    """Return an array of ranges as a plan holds them."""
    return tuple((start, stop) for start, stop in ranges.tolist())


def to_range_list(ranges: RowRanges) -> list[tuple[int, int]]:
    """Return an array of ranges as `row_ranges` gives them."""
    return [(start, stop) for start, stop in ranges.tolist()]


def to_positions(ranges: RowRanges) -> RowPositions:
    """Return the single rows of some ranges, ascending."""
    return np.concatenate([np.arange(0), *(np.arange(start, stop) for start, stop in ranges.tolist())])


def slice_rows(rows: RowPositions, start: int, stop: int) -> RowPositions:
    """Return those of some rows, ascending, that are in a range."""
    first, last = np.searchsorted(rows, (start, stop))
    return rows[first:last]


def find_runs(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the ranges [start, stop) in which a mask is true: (n, 2)."""
    padded = np.zeros(len(mask) + 2, np.int8)
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def intersect_ranges(first: RowRanges | None, second: RowRanges | None) -> RowRanges | None:
    """Return the rows that are in both selections; None is all rows."""
    if first is None or second is None:
        return second if first is None else first
    borders = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    # The rows after a border are in a range if one more range has begun than has ended.
    inside = [
        np.searchsorted(ranges[:, 0], borders, "right") > np.searchsorted(ranges[:, 1], borders, "right")
        for ranges in (first, second)
    ]
    return borders[find_runs(inside[0] & inside[1])]


def mask_to_flags(mask: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return for each row whether a mask is true, and not null."""
    parts = [np.zeros(0, np.bool_)]
    for chunk in mask.chunks:
        if not len(chunk):
            continue
        validity, values = chunk.buffers()
        first, end = chunk.offset // 8, -(-(chunk.offset + len(chunk)) // 8)
        bits = np.frombuffer(values, np.uint8)[first:end]
        if validity is not None:
            bits = bits & np.frombuffer(validity, np.uint8)[first:end]
        padding = chunk.offset % 8
        parts.append(np.unpackbits(bits, count=padding + len(chunk), bitorder="little")[padding:].view(np.bool_))
    return np.concatenate(parts)


PATH, ROW_GROUP, ROW = "parquet_bloom:path", "parquet_bloom:row_group", "parquet_bloom:row"
"""Names that no column of a file is expected to have."""

POSITION_FIELDS = (
    pa.field(PATH, pa.string(), nullable=False),
    pa.field(ROW_GROUP, pa.int32(), nullable=False),
    pa.field(ROW, pa.int64(), nullable=False),
)


def add_positions(
    table: pa.Table, paths: Sequence[str], row_groups: Sequence[int], counts: Sequence[int], rows: RowPositions | range
) -> pa.Table:
    """Append path, row group and row to rows of row groups.

    Parameters
    ----------
    paths, row_groups, counts : of each row group: its file, which is named by `as_utf8`, its ordinal in that, and how
        many rows are of it.
    rows : positions of all these rows in their files.
    """
    numbers = np.repeat(np.arange(len(paths)), counts)
    files = pa.array(map(as_utf8, paths), pa.string()).take(from_numpy(numbers))
    groups = from_numpy(np.array(row_groups, np.int32)[numbers])
    for field, column in zip(POSITION_FIELDS, (files, groups, from_numpy(np.asarray(rows, np.int64))), strict=True):
        table = table.append_column(field, column)
    return table


def with_positions(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows to which `add_positions` has appended."""
    for field in POSITION_FIELDS:
        schema = schema.append(field)
    return schema
