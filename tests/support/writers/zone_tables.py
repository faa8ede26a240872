"""Tables of zones made in plain Python, in Lance's schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from parquet_bloom import zones
from parquet_bloom.zones.zone_manifest import SCHEMA

INTS = [pa.array([1, 2, None, 4, 5, 6, 7, 8, 9], pa.int8()), pa.array([5, None], pa.int8())]


def table_of(
    arrays: Sequence[pa.Array], rows: int = 4, items: int = 8, fpp: float = 0.01
) -> tuple[pa.Table, list[pa.Array]]:
    """A zone index over arrays, each a fragment; and for each zone its values."""
    columns: list[list[Any]] = [[], [], [], [], []]
    stored = []
    for fragment, array in enumerate(arrays):
        for start in range(0, len(array), rows):
            values = array.slice(start, rows)
            row = (fragment, start, len(values), values.null_count > 0, zones.lance_filter(values, items, fpp))
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
            stored.append(values)
    metadata = {"bloomfilter_item": str(items), "bloomfilter_probability": repr(fpp)}
    return pa.table(columns, schema=SCHEMA.with_metadata(metadata)), stored


def answered(answer: pa.Table) -> list[tuple[int, int, int]]:
    """The zones of an answer: fragment, first row, rows."""
    return list(zip(*answer.to_pydict().values(), strict=True))
