"""Random conditions in SQL text over random tables: `read_table` gives the rows that DuckDB's own scan gives.

A seed decides everything, and a failure names it; `hunting` says how to go on for longer.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from support.random_cases.hunting import seeds

import parquet_bloom

TABLES = 24  # of the default suite

TEXTS = ["", "a", "aa", "b", "Z", "ä", "\U00010000"]
FLOATS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]
KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "i": (pa.int32(), lambda rng: rng.choice([rng.randint(-5, 5), rng.randint(-(2**31), 2**31 - 1)])),
    "u": (pa.uint8(), lambda rng: rng.randint(0, 255)),
    "l": (pa.int64(), lambda rng: rng.choice([rng.randint(-5, 5), rng.randint(-(2**63), 2**63 - 1)])),
    "f": (pa.float64(), lambda rng: rng.choice([*FLOATS, rng.random() * 10])),
    "d": (pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.randint(-999, 999)) / 100),
    "s": (pa.string(), lambda rng: rng.choice(TEXTS)),
    "day": (pa.date32(), lambda rng: dt.date(2020, 1, 1) + dt.timedelta(days=rng.randint(-3, 3))),
    "ts": (pa.timestamp("us"), lambda rng: dt.datetime(2020, 1, 1) + dt.timedelta(hours=rng.randint(-30, 30))),
    "tm": (pa.time64("us"), lambda rng: dt.time(rng.randint(0, 23), rng.randint(0, 59))),
}
LISTS = {f"list_{kind}": kind for kind in ("i", "l", "f", "d", "s", "day")}  # and what their elements are


def arrow_type(name: str) -> pa.DataType:
    return pa.list_(KINDS[LISTS[name]][0]) if name in LISTS else KINDS[name][0]


def draw_rows(rng: random.Random, kind: str, count: int) -> list[Any]:
    if kind in LISTS:
        elements = draw_rows(rng, LISTS[kind], max(2, count))
        lengths = [0, 0, 1, 2] if rng.random() < 0.8 else [0]
        rows = [[rng.choice(elements) for _ in range(rng.choice(lengths))] for _ in range(count)]
        return [None if rng.random() < 0.15 else row for row in rows]
    pool = [KINDS[kind][1](rng) for _ in range(rng.choice([1, 2, 5, count]))]
    return [None if rng.random() < 0.15 else rng.choice(pool) for _ in range(count)]


def draw_literal(rng: random.Random, kind: str, rows: list[Any]) -> str:
    if rng.random() < 0.05:
        return "NULL"
    value = rng.choice(rows) if rng.random() < 0.6 else None
    value = KINDS[kind][1](rng) if value is None else value
    if kind in ("i", "u", "l"):
        return rng.choice([f"{value}", f"{value}", f"{value + rng.choice([-1, 1])}", f"{value}.5"])
    if kind == "f":
        return f"{value!r}e0" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if kind == "d":
        return str(value)
    return {"day": "DATE ", "ts": "TIMESTAMP ", "tm": "TIME ", "s": ""}[kind] + f"'{value}'"


def draw_list_leaf(rng: random.Random, name: str, rows: list[Any]) -> str:
    elements = [element for row in rows for element in row or [None]]

    def literal() -> str:
        return draw_literal(rng, LISTS[name], elements)

    if rng.random() < 0.7:
        return f"{rng.choice(['', 'NOT '])}{rng.choice(['list_contains', 'array_contains'])}({name}, {literal()})"
    literals = {literal() for _ in range(rng.randint(1, 3))} - {"NULL"}
    if not literals:
        return f"list_has({name}, NULL)"
    return f"{rng.choice(['list_has_any', 'list_has_all'])}({name}, [{', '.join(sorted(literals))}])"


def draw_leaf(rng: random.Random, columns: dict[str, list[Any]]) -> str:
    kind = rng.choice(list(columns))
    if kind in LISTS:
        return draw_list_leaf(rng, kind, columns[kind])

    def literal() -> str:
        return draw_literal(rng, kind, columns[kind])

    negation = rng.choice(["", "NOT "])
    choice = rng.random()
    if choice < 0.12:
        return f"{kind} IS {negation}NULL"
    if choice < 0.3:
        return f"{kind} {negation}IN ({', '.join(literal() for _ in range(rng.randint(1, 4)))})"
    if choice < 0.42:
        return f"{kind} {negation}BETWEEN {literal()} AND {literal()}"
    if choice < 0.5:
        return f"{kind} IS {negation}DISTINCT FROM {literal()}"
    operands = [kind, literal()]
    rng.shuffle(operands)
    return f"{operands[0]} {rng.choice(['=', '=', '=', '<>', '!=', '<', '<=', '>', '>='])} {operands[1]}"


def draw_condition(rng: random.Random, columns: dict[str, list[Any]], depth: int = 0) -> str:
    if depth == 3 or rng.random() < 0.35:
        return draw_leaf(rng, columns)
    parts = [
        f"({draw_condition(rng, columns, depth + 1)})" if rng.random() < 0.7 else draw_leaf(rng, columns)
        for _ in range(rng.randint(2, 3))
    ]
    joined = rng.choice([" AND ", " OR "]).join(parts)
    return f"NOT ({joined})" if rng.random() < 0.25 else joined


def hunt(seed: int, path: Any, connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Compare one table's rows under some conditions; returns how many row groups there were, and how many skipped."""
    rng = random.Random(seed)
    count = rng.choice([1, 7, 60, 200])
    columns = {kind: draw_rows(rng, kind, count) for kind in rng.sample([*KINDS, *LISTS], rng.randint(1, 4))}
    table = pa.table({kind: pa.array(rows, arrow_type(kind)) for kind, rows in columns.items()})
    first = next(iter(columns))
    if first not in LISTS and rng.random() < 0.5:
        table = table.sort_by(first)
    table = table.add_column(0, "row", pa.array(range(count)))
    pq.write_table(table, path, row_group_size=rng.choice([5, 20, 1000]))
    if rng.random() < 0.5:
        parquet_bloom.embed(path, list(columns))
    connection.register("t", table)
    total = skipped = 0
    for _ in range(15):
        where = draw_condition(rng, columns)
        expected = [row for (row,) in connection.execute(f"SELECT row FROM t WHERE {where} ORDER BY row").fetchall()]
        report = parquet_bloom.prune(path, where)
        total += report.total_row_groups
        skipped += report.total_row_groups - report.selected_row_groups
        result = parquet_bloom.read_table(path, where, columns=["row"])["row"].to_pylist()
        assert result == expected, (seed, where, sorted(set(result) ^ set(expected))[:5])
    return total, skipped


def test_same_rows_as_duckdb(tmp_path):
    tables = total = skipped = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'; SET threads=1")
        for seed in seeds(TABLES):
            counts = hunt(seed, tmp_path / "t.parquet", connection)
            total, skipped = total + counts[0], skipped + counts[1]
            tables += 1
    print(f"{tables} tables, {skipped} of {total} row groups skipped")
    assert skipped > total / 4  # else nothing was shown
