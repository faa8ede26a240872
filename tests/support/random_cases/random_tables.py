"""Random tables for random files: columns of all kinds, nulls, runs, few and many values, lists and structs."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from support.writers.peers import VALUES

# Nested already, or what writers cannot nest; `_ns`: old versions of the format have no nanoseconds.
UNNESTED = {"li", "ma", "ls", "st", "nothing", "dict_str", "view_str"}


def draw_table(rng: random.Random, kinds: list[str], rows: int) -> pa.Table:
    """Draw a table of some of the kinds of `peers.VALUES`."""
    columns: dict[str, pa.Array] = {}
    for name in rng.sample(kinds, rng.randint(1, min(5, len(kinds)))):
        kind = VALUES[name]
        pool = [kind.draw(rng) for _ in range(rng.choice([1, 3, 40, rows]))]
        pool += [value for value in kind.always if value is not None and rng.random() < 0.3]
        nulls = rng.choice([0, 0, 0.01, 0.5, 0.99, 1])
        run = rng.choice([1, 1, 7, 900])
        values: list[Any] = []
        while len(values) < rows:
            values += [None if rng.random() < nulls else rng.choice(pool)] * rng.randint(1, run)
        columns[name] = pa.array(values[:rows], kind.arrow)
        if name not in UNNESTED and not name.endswith("ns") and rng.random() < 0.3:
            column = rng.choice([_listed, _nested])(rng, columns[name])
            columns[name] = pa.concat_arrays([column, pa.nulls(max(0, rows - len(column)), column.type)]).slice(0, rows)
    return pa.table(columns)


def _listed(rng: random.Random, values: pa.Array) -> pa.Array:
    """Cut values into lists, some of them empty or null."""
    offsets: list[int | None] = [0]
    last = 0
    while last < len(values):
        last = min(len(values), last + rng.choice([0, 0, 1, 1, 2, 30]))
        offsets.append(last)
    starts = [None if rng.random() < 0.1 else start for start in offsets[:-1]]
    return pa.ListArray.from_arrays(pa.array([*starts, last], pa.int32()), values)


def _nested(rng: random.Random, values: pa.Array) -> pa.Array:
    """Put values into structs in structs, some of them null."""
    inner = pa.StructArray.from_arrays([values], ["a"], mask=_mask(rng, len(values)))
    return pa.StructArray.from_arrays([inner], ["b"], mask=_mask(rng, len(values)))


def _mask(rng: random.Random, length: int) -> pa.Array:
    share = rng.choice([0, 0.2])
    return pa.array([rng.random() < share for _ in range(length)], pa.bool_())
