"""Random `pyarrow.compute` expressions over random tables: `read_table` gives the rows that pyarrow's own filter gives.

Without NaN and -0.0, where SQL has another meaning (see `predicate.arrow_expression`).
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import parquet_bloom

TABLES = 16

KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "i": (pa.int32(), lambda rng: rng.choice([rng.randint(-5, 5), rng.randint(-(2**31), 2**31 - 1)])),
    "u": (pa.uint64(), lambda rng: rng.choice([rng.randint(0, 5), rng.randint(2**63, 2**64 - 1)])),
    "f": (pa.float64(), lambda rng: rng.choice([0.0, 1.5, -2.25, rng.random() * 10])),
    "d": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randint(-999, 999)) / 100),
    "s": (pa.string(), lambda rng: rng.choice(["", "a", "aa", "b", "Z", "ä", "\U00010000"])),
    "bin": (pa.binary(), lambda rng: rng.randbytes(rng.randint(0, 2))),
    "flag": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "day": (pa.date32(), lambda rng: dt.date(2020, 1, 1) + dt.timedelta(days=rng.randint(-3, 3))),
    "ts": (pa.timestamp("us"), lambda rng: dt.datetime(2020, 1, 1) + dt.timedelta(hours=rng.randint(-30, 30))),
}


def draw_table(rng: random.Random) -> tuple[pa.Table, dict[tuple[str, ...], tuple[str, list[Any]]]]:
    """A table, and its leaves: {names from the top down: (kind, values)}."""
    count = rng.choice([1, 7, 60])
    columns: dict[str, pa.Array] = {"row": pa.array(range(count))}
    leaves: dict[tuple[str, ...], tuple[str, list[Any]]] = {}
    for kind in rng.sample(list(KINDS), rng.randint(1, 4)):
        arrow_type, draw = KINDS[kind]
        pool = [draw(rng) for _ in range(rng.choice([1, 3, count]))]
        values = [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(count)]
        array = pa.array(values, arrow_type)
        if rng.random() < 0.3:
            name: tuple[str, ...] = (f"struct {kind}", kind)
            array = pa.StructArray.from_arrays([array], [kind])
        else:
            name = (kind,)
        columns[name[0]] = array
        leaves[name] = kind, values
    return pa.table(columns), leaves


def draw_leaf(rng: random.Random, leaves: dict[tuple[str, ...], tuple[str, list[Any]]]) -> pc.Expression:
    name = rng.choice(list(leaves))
    kind, values = leaves[name]
    arrow_type, draw = KINDS[kind]
    field = pc.field(*name)

    def literal() -> Any:
        return rng.choice(values) if rng.random() < 0.5 else draw(rng)

    choice = rng.random()
    if choice < 0.15:
        return field.is_null() if rng.random() < 0.5 else field.is_valid()
    if choice < 0.4:
        values_set = pa.array([literal() for _ in range(rng.randint(0, 4))], arrow_type)
        return pc.is_in(field, values_set, skip_nulls=rng.random() < 0.5)
    if kind == "flag" and choice < 0.6:
        return field
    orders = [] if kind == "flag" else [pc.less, pc.less_equal, pc.greater, pc.greater_equal]
    compare = rng.choice([pc.equal, pc.equal, pc.not_equal, *orders])
    operands = [field, pc.scalar(pa.scalar(literal(), arrow_type))]
    rng.shuffle(operands)
    return compare(*operands)


def draw_expression(
    rng: random.Random, leaves: dict[tuple[str, ...], tuple[str, list[Any]]], depth: int = 0
) -> pc.Expression:
    if depth == 3 or rng.random() < 0.3:
        result = draw_leaf(rng, leaves)
    else:
        left, right = (draw_expression(rng, leaves, depth + 1) for _ in range(2))
        result = left & right if rng.random() < 0.5 else left | right
    return ~result if rng.random() < 0.25 else result


def test_same_rows_as_pyarrow(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    total = skipped = 0
    for seed in range(TABLES):
        rng = random.Random(seed)
        table, leaves = draw_table(rng)
        pq.write_table(table, path, row_group_size=rng.choice([5, 20]))
        parquet_bloom.embed(path, [".".join(name) for name, (kind, _) in leaves.items() if kind != "flag"] or ["row"])
        for _ in range(15):
            where = draw_expression(rng, leaves)
            expected = ds.dataset(table).to_table(filter=where)["row"].to_pylist()
            report = parquet_bloom.prune(path, where)
            total += report.total_row_groups
            skipped += report.total_row_groups - report.selected_row_groups
            assert parquet_bloom.read_table(path, where, ["row"])["row"].to_pylist() == expected, (seed, str(where))
    assert skipped > total / 5  # else nothing was shown
