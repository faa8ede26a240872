"""Physical positions of rows as columns of their own, beside those that are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...storage.paths import as_utf8
from ...util.arrow_values import from_numpy
from .row_selection import RowPositions

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
