"""Rows that several targets write."""

from __future__ import annotations

import pyarrow as pa

ROWS, GROUP = 24, 12


def table() -> pa.Table:
    """Values between extremes that every row group has, so that statistics rule out nothing."""
    keys = [number for group in range(ROWS // GROUP) for number in (0, 10**6, *range(group * 50 + 1, group * 50 + 11))]
    texts, numbers = [f"v{key:07}" for key in keys], [None if key % 7 == 3 else key for key in keys]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": texts, "n": pa.array(numbers, pa.int32())})
