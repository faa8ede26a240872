"""Predicates: SQL text of each dialect, and pyarrow's lists made of odd values.

An input whose first byte is odd is SQL text (the dialect by its next byte); else a recipe for lists. A tree that comes
out is evaluated on a file and on its rows: no row that matches may lie in a row group that is not selected.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices
from scratch import folder, one_line

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import row_mask

ALLOWED = (ParquetBloomError,)
SLICE = 150

DIALECTS = (None, "spark", "duckdb", "postgres", "mysql", "bigquery", "snowflake", "clickhouse", "tsql")

_WORDS = (
    "i", "s", "f", "d", "t", "b", "l", "n.x", '"i"', "`s`", "nope", "=", "<>", "!=", "<", "<=", ">", ">=", "<=>",
    "AND", "OR", "NOT", "IN", "(", ")", ",", "NULL", "IS", "BETWEEN", "LIKE", "TRUE", "FALSE", "1", "0", "-1", "7",
    "1.5", "1e400", "-0.0", "99999999999999999999999", "'v1'", "'v10'", "''", "'%'", "'2020-01-01'", "DATE",
    "TIMESTAMP", "CAST", "AS", "INT", "x'00ff'", "'\\u0000'", "array_contains", "contains", "EXISTS", "SELECT", "--",
    "/*", ";", "+", "*", "||", "'a''b'", "$$", "CASE", "WHEN", "INTERVAL", "::", ".", "[", "]", "\u00e4", "\U0001f600",
)  # fmt: skip

_ROWS = pa.table(
    {
        "i": pa.array([*range(30), None, None], pa.int64()),
        "s": [f"v{number}" for number in range(31)] + [None],
        "f": [number / 4 for number in range(29)] + [None, math.nan, -0.0],
        "d": pa.array([dt.date(2020, 1, 1 + number % 28) for number in range(32)]),
        "t": pa.array([dt.datetime(2020, 1, 1, number % 24) for number in range(32)], pa.timestamp("us", "UTC")),
        "b": [bytes([number]) for number in range(32)],
        "m": pa.array([decimal.Decimal(number) / 100 for number in range(32)], pa.decimal128(9, 2)),
        "o": [number % 3 == 0 for number in range(32)],
        "l": [[number, number + 1] for number in range(32)],
        "n": [{"x": number} for number in range(32)],
    }
)
_GROUP = 8


def _file() -> str:
    path = folder() / "predicates.parquet"
    if not path.exists():
        names = {name: {"ndv": 16, "fpp": 0.01} for name in ("i", "s", "f", "d", "b")}
        pq.write_table(_ROWS, path, row_group_size=_GROUP, bloom_filter_options=names)
    return str(path)


def seeds() -> list[bytes]:
    texts = [
        "i = 13 AND s IN ('v1', 'v13')", "f < 1.5 OR f IS NULL", "d BETWEEN DATE '2020-01-03' AND '2020-01-05'",
        "NOT (i = 3 OR s <> 'v4')", "b = x'05'", "s LIKE 'v1%'", "t >= TIMESTAMP '2020-01-01 05:00:00'", "i IN (1,2)",
        "n.x = 4", "array_contains(l, 3)", "i <=> NULL", "m = 0.05", "o = TRUE",
        "((((((i = 1))))))", "i = 1 -- c", "i = CAST('5' AS INT)", 's = "i"', "`s` = 'v3'", "-(-1) = i",
    ]  # fmt: skip
    created = [bytes([1, number % 9]) + text.encode() for number, text in enumerate(texts)]
    return [*created, b"\x00\x03" + bytes(range(40)), b"\x02" + bytes(range(0, 80, 2)), b"\x03" + bytes(range(60))]


def run(data: bytes) -> None:
    choices = Choices(data)
    how = choices.byte() % 4
    where: Any
    dialect = None
    if how == 1:
        dialect = choices.pick(DIALECTS)
        where = choices.rest.decode("utf-8", "surrogateescape")
    elif how == 3:
        dialect = choices.pick(DIALECTS)
        where = " ".join(choices.pick(_WORDS) for _ in range(1 + choices.below(24)))
    else:
        where = _filters(choices)
    try:
        node = parse(where, dialect)
    except PredicateError as error:
        one_line(error)
        return
    assert hash(node) == hash(parse(where, dialect))
    str(node)
    try:
        report = parquet_bloom.prune(_file(), node)
    except ParquetBloomError as error:
        one_line(error)
        return
    selected = {number for groups in report.selected.values() for number in groups}
    if len(selected) * _GROUP >= len(_ROWS):
        return
    try:
        found_by = row_mask(_ROWS, node)
    except ParquetBloomError:
        return
    result = np.flatnonzero(np.array([value is True for value in found_by.to_pylist()]))
    lost = [row for row in result.tolist() if row // _GROUP not in selected]
    assert not lost, f"{node}: rows {lost} are lost"


def _filters(choices: Choices) -> Any:
    if choices.below(8) == 0:
        return _value(choices, 0)
    terms = [[_condition(choices) for _ in range(1 + choices.below(3))] for _ in range(1 + choices.below(2))]
    return terms if choices.below(2) else terms[0]


def _condition(choices: Choices) -> Any:
    if choices.below(16) == 0:
        return _value(choices, 0)
    operators = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "IN", "~", 3)
    column = choices.pick(("i", "s", "f", "d", "t", "b", "m", "o", "l", "n.x", "n", "", "nope", "l.list.element"))
    operator = choices.pick(operators)
    value = _value(choices, 0)
    if operator in ("in", "not in") and choices.below(4):
        value = [_value(choices, 1) for _ in range(choices.below(4))]
    return (column, operator, value)


def _value(choices: Choices, depth: int) -> Any:
    kind = choices.below(24)
    number = choices.odd_number()
    if kind < 4:
        return number
    if kind < 7:
        return f"v{number}" if kind < 6 else choices.take(choices.below(12)).decode("latin-1")
    if kind == 7:
        return choices.pick((math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324, 0.25, float(number)))
    if kind == 8:
        return choices.take(choices.below(12))
    if kind == 9:
        return choices.pick((None, True, False, ...))
    if kind == 10:
        signs = "0123456789.E-+NaInfs"
        try:
            return decimal.Decimal("".join(signs[byte % len(signs)] for byte in choices.take(choices.below(9))) or "1")
        except decimal.InvalidOperation:
            return decimal.Decimal((number < 0, (1, 2, 3), max(-(10**6), min(number, 10**6))))
    if kind == 11:
        return dt.date.fromordinal(1 + abs(number) % dt.date.max.toordinal())
    if kind == 12:
        zone = choices.pick((None, dt.UTC, dt.timezone(dt.timedelta(hours=14))))
        return dt.datetime(1 + abs(number) % 9999, 1 + choices.below(12), 1 + choices.below(28), tzinfo=zone)
    if kind == 13:
        return dt.time(choices.below(24), choices.below(60), microsecond=choices.below(10**6))
    if kind == 14:
        return uuid.UUID(int=abs(number))
    if kind == 15:
        code = choices.pick(("b", "B", "h", "i", "l", "L", "e", "f", "d", "?", "M8[ns]", "M8[D]", "m8[s]", "U", "S"))
        try:
            return np.array([choices.below(100)]).astype(code)[0]
        except (ValueError, TypeError):
            return np.int64(3)
    if kind == 16:
        types = (pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.string(), pa.timestamp("ns"), pa.null())
        try:
            return pa.scalar(choices.below(100), pa.int64()).cast(choices.pick(types))
        except pa.ArrowException:
            return pa.scalar(None)
    if kind == 17:
        return dt.timedelta(choices.below(100))
    if kind == 18:
        return "\ud800" if choices.below(2) else "a\x00b\n"
    if depth < 3 and kind < 22:
        inner = [_value(choices, depth + 1) for _ in range(choices.below(4))]
        return choices.pick((inner, tuple(inner), {"x": 1}, pa.array([1, None, 3]), np.array([1.5, 2.5])))
    return number
