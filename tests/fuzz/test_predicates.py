"""Predicates: SQL text of each dialect, and pyarrow's lists made of odd values."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing import ODD, edited, folder, fuzz

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import row_mask

GROUP = 8
DIALECTS = st.sampled_from(
    (None, "spark", "duckdb", "postgres", "mysql", "bigquery", "snowflake", "clickhouse", "tsql")
)
WORDS = st.sampled_from(
    r"""i s f d t b l n.x "i" `s` nope = <> != < <= > >= <=> AND OR NOT IN ( ) , NULL IS BETWEEN LIKE TRUE FALSE 1 0 -1
    7 1.5 1e400 -0.0 99999999999999999999999 'v1' 'v10' '' '%' '2020-01-01' DATE TIMESTAMP CAST AS INT x'00ff'
    '\u0000' array_contains contains EXISTS SELECT -- /* ; + * || 'a''b' $$ CASE WHEN INTERVAL :: . [ ] ä 😀""".replace(
        "\n", " "
    ).split()
)
TEXTS = """i = 13 AND s IN ('v1', 'v13')|f < 1.5 OR f IS NULL|d BETWEEN DATE '2020-01-03' AND '2020-01-05'
NOT (i = 3 OR s <> 'v4')|b = x'05'|s LIKE 'v1%'|t >= TIMESTAMP '2020-01-01 05:00:00'|i IN (1,2)|n.x = 4
array_contains(l, 3)|i <=> NULL|m = 0.05|o = TRUE|((((((i = 1))))))|i = 1 -- c|i = CAST('5' AS INT)|s = "i"|`s` = 'v3'
-(-1) = i""".replace("\n", "|").split("|")
SQL = st.lists(WORDS, min_size=1, max_size=24).map(" ".join)
SQL |= edited(lambda: [text.encode() for text in TEXTS]).map(lambda data: data.decode("utf-8", "surrogateescape"))

NUMBERS = st.sampled_from(ODD) | st.integers(0, 40) | st.integers(-(1 << 64), 1 << 64)
DTYPES = ("b", "B", "h", "i", "l", "L", "e", "f", "d", "?", "M8[ns]", "M8[D]", "m8[s]", "U", "S")
TYPES = pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(), pa.timestamp("ns"), pa.null()
LEAVES = st.one_of(
    NUMBERS,
    NUMBERS.map("v{}".format),
    st.text(max_size=12) | st.sampled_from(["\ud800", "a\x00b\n"]),
    st.floats() | st.sampled_from([math.nan, math.inf, -0.0, 1e308, 5e-324, 0.25]),
    st.binary(max_size=12),
    st.sampled_from([None, True, False, ...]),
    st.decimals() | st.just(decimal.Decimal((1, (1, 2, 3), -(10**6)))),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=14))])),
    st.times(),
    st.uuids(),
    st.timedeltas(),
    st.builds(lambda number, code: np.array([number]).astype(code)[0], st.integers(0, 99), st.sampled_from(DTYPES)),
    st.builds(
        lambda number, kind: pa.scalar(number, pa.int64()).cast(kind), st.integers(0, 99), st.sampled_from(TYPES[:-1])
    ),
    st.just(pa.scalar(None)),
)
ARRAYS = st.sampled_from(({"x": 1}, pa.array([1, None, 3]), np.array([1.5, 2.5])))
VALUES = st.recursive(
    LEAVES | ARRAYS, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple), max_leaves=6
)
COLUMNS = st.sampled_from(("i", "s", "f", "d", "t", "b", "m", "o", "l", "n.x", "n", "", "nope", "l.list.element"))
OPERATORS = st.sampled_from(
    ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "IN", "~", 3)
)
CONDITIONS = st.tuples(COLUMNS, OPERATORS, VALUES) | st.tuples(
    COLUMNS, st.sampled_from(("in", "not in")), st.lists(LEAVES, max_size=3)
)
ALL = st.lists(CONDITIONS | CONDITIONS | VALUES, min_size=1, max_size=3)


@functools.cache
def file() -> tuple[pa.Table, str]:
    rows = range(32)
    table = pa.table(
        {
            "i": pa.array([*rows[:30], None, None], pa.int64()),
            "s": [*(f"v{row}" for row in rows[:31]), None],
            "f": [*(row / 4 for row in rows[:29]), None, math.nan, -0.0],
            "d": pa.array([dt.date(2020, 1, 1 + row % 28) for row in rows]),
            "t": pa.array([dt.datetime(2020, 1, 1, row % 24) for row in rows], pa.timestamp("us", "UTC")),
            "b": [bytes([row]) for row in rows],
            "m": pa.array([decimal.Decimal(row) / 100 for row in rows], pa.decimal128(9, 2)),
            "o": [row % 3 == 0 for row in rows],
            "l": [[row, row + 1] for row in rows],
            "n": [{"x": row} for row in rows],
        }
    )
    path = folder() / "predicates.parquet"
    filters = {name: {"ndv": 16, "fpp": 0.01} for name in ("i", "s", "f", "d", "b")}
    pq.write_table(table, path, row_group_size=GROUP, bloom_filter_options=filters)
    return table, str(path)


@fuzz(ParquetBloomError, where=SQL | SQL | ALL | st.lists(ALL, max_size=2) | VALUES, dialect=DIALECTS, examples=25)
def test_predicates(where: Any, dialect: str | None) -> None:
    """A tree that comes out is evaluated on a file and on its rows: none that matches is in a row group left out."""
    table, path = file()
    if not isinstance(where, str):
        dialect = None
    node = parse(where, dialect)
    assert hash(node) == hash(parse(where, dialect))
    str(node)
    report = parquet_bloom.prune(path, node)
    selected = {number for groups in report.selected.values() for number in groups}
    if len(selected) * GROUP < len(table):
        matches = [row for row, value in enumerate(row_mask(table, node).to_pylist()) if value is True]
        lost = [row for row in matches if row // GROUP not in selected]
        assert not lost, f"{node}: rows {lost} are lost"
