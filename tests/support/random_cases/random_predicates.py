"""Random predicates over ranked columns: as a tree, as the rows that they select, and as SQL for DuckDB."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pyarrow as pa

from parquet_bloom.predicate import And, Node, Or, parse, tree
from support.oracle.ranked import Answer, Ranked, key, scaled
from support.writers import peers
from support.writers.peers import VALUES


@dataclass(frozen=True)
class Drawn:
    """A predicate.

    Attributes
    ----------
    node : its tree.
    answer : its rows.
    sql : the same for DuckDB; None where a literal is of another type than its column, for which DuckDB has rules of
        its own.
    point : whether it is one `=`, `IN` or `<=>` with values to look for.
    """

    node: Node
    answer: Answer
    sql: str | None
    point: bool = False


@dataclass(frozen=True)
class Literal:
    """A literal as callers write it, what it is ordered by, and how DuckDB writes it."""

    form: Any
    key: Any
    sql: str | None


NULL = Literal(None, None, "NULL")
OPERATORS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def draw_literal(rng: random.Random, column: Ranked) -> Literal:
    if rng.random() < 0.03:
        return NULL
    value = draw_value(rng, column)
    if value is None:
        return NULL
    if rng.random() < 0.15:
        other = other_type(rng, column, value)
        if other is not None:
            return Literal(other, key(other_key(column, other), column.arrow), None)
    sql = None if isinstance(value, str) and "\0" in value else peers.literal("duckdb", value, sql_type(column.arrow))
    return Literal(literal_form(rng, column.arrow, value), key(value, column.arrow), sql)


def draw_value(rng: random.Random, column: Ranked) -> Any:
    """A value that the column has, an extreme, one beside either, or any."""
    values = VALUES[column.kind]
    choice = rng.random()
    if column.values and choice < 0.4:
        return rng.choice(column.values)
    if choice < 0.5:
        return rng.choice(values.always)
    if choice < 0.6:
        return beside(rng, rng.choice(column.values or values.always), column.arrow)
    return values.draw(rng)


def beside(rng: random.Random, value: Any, arrow: pa.DataType) -> Any:
    """The next value of the same type, up or down."""
    step = rng.choice([-1, 1])
    if isinstance(value, bool) or value is None or isinstance(value, uuid.UUID | datetime.time):
        return value
    if isinstance(value, float):
        return math.nextafter(value, math.inf * step) if arrow == pa.float64() else value
    if isinstance(value, str):
        return value + "a" if step > 0 else value[:-1]
    if isinstance(value, bytes):
        return value if pa.types.is_fixed_size_binary(arrow) else value + b"\0"
    try:
        if isinstance(value, datetime.datetime):
            return value + datetime.timedelta(seconds=step)
        if isinstance(value, datetime.date):
            return value + datetime.timedelta(days=step)
    except OverflowError:
        return value
    if isinstance(value, decimal.Decimal):
        unit = decimal.Decimal((0, (1,), -arrow.scale))
        near = peers.WIDE.add(value, step * unit)
        return near if len(near.as_tuple().digits) <= arrow.precision else value
    near = value + step
    bits = arrow.bit_width
    low, high = (0, 1 << bits) if pa.types.is_unsigned_integer(arrow) else (-(1 << bits - 1), 1 << bits - 1)
    return near if low <= near < high and not pa.types.is_time(arrow) else value


def other_type(rng: random.Random, column: Ranked, value: Any) -> Any:
    """The value, or one near it, as a literal of another type; None where nothing exact can be said of one."""
    forms: list[Callable[[], Any]] = []
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and pa.types.is_integer(column.arrow):
        forms = [
            lambda: decimal.Decimal(value),
            lambda: scaled(decimal.Decimal(value), 1),
            lambda: 2**70,
            lambda: -(2**70),
        ]
        if abs(value) < 2**51:
            forms += [lambda: float(value), lambda: value + 0.5]
    elif isinstance(value, decimal.Decimal):
        forms = [lambda: int(value), lambda: scaled(value, 1), lambda: 10**40]
        if column.arrow.precision <= 15:
            forms.append(lambda: float(value))
    elif isinstance(value, float) and math.isfinite(value):
        forms = [lambda: decimal.Decimal(value), lambda: round(value)]
    elif isinstance(value, datetime.datetime):
        forms = [lambda: str(value), lambda: value.isoformat(), value.date]
        if value.tzinfo is not None and 1900 < value.year < 2100:
            east = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
            forms += [lambda: value.replace(tzinfo=None), lambda: value.astimezone(east)]
        if value.microsecond < 999_999:
            forms.append(lambda: value.replace(microsecond=value.microsecond + 1))
    elif isinstance(value, datetime.date):
        forms = [
            value.isoformat,
            lambda: datetime.datetime.combine(value, datetime.time()),
            lambda: datetime.datetime.combine(value, datetime.time(12)),
        ]
    elif isinstance(value, datetime.time):
        forms = [value.isoformat]
        if value.microsecond < 999_999:
            forms.append(lambda: value.replace(microsecond=value.microsecond + 1))
    elif isinstance(value, str):
        forms = [value.encode]
    elif isinstance(value, uuid.UUID):
        forms = [lambda: str(value), lambda: value.bytes]
    elif isinstance(value, bytes):
        forms = [lambda: value + b"x"]
        if value.isascii() and b"\\" not in value:
            forms.append(value.decode)
    return rng.choice(forms)() if forms else None


def other_key(column: Ranked, form: Any) -> Any:
    """A literal of another type as a value that `ranked.key` takes."""
    if isinstance(form, str) and pa.types.is_date(column.arrow):
        return datetime.date.fromisoformat(form)
    if isinstance(form, str) and pa.types.is_timestamp(column.arrow):
        return datetime.datetime.fromisoformat(form)
    if isinstance(form, str) and pa.types.is_time(column.arrow):
        return datetime.time.fromisoformat(form)
    if isinstance(form, str) and column.kind == "uuid":
        return uuid.UUID(form)
    if isinstance(form, float) and pa.types.is_decimal(column.arrow):
        return decimal.Decimal(repr(form))
    return form


def literal_form(rng: random.Random, arrow: pa.DataType, value: Any) -> Any:
    """Return the value as callers write it: Python's, NumPy's, Arrow's."""
    if value is None:
        return None
    if isinstance(value, int) and pa.types.is_temporal(arrow):
        return pa.scalar(value, pa.int64()).cast(arrow)
    if rng.random() < 0.3:
        if isinstance(value, uuid.UUID):
            return str(value)
        if pa.types.is_dictionary(arrow) or isinstance(arrow, pa.BaseExtensionType):
            return value
        if isinstance(value, float) and math.isnan(value):
            return np.float64(value)
        return pa.scalar(value, arrow)
    if rng.random() < 0.2 and pa.types.is_integer(arrow):
        return rng.choice([np.dtype(arrow.to_pandas_dtype()).type(value), decimal.Decimal(value)])
    return value


def sql_type(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if pa.types.is_dictionary(arrow) else arrow


def draw_leaf(rng: random.Random, columns: list[Ranked]) -> Drawn:
    column = rng.choice(columns)
    name = '"' + column.name.replace(".", '"."') + '"'
    choice = rng.random()
    if choice < 0.06:
        return Drawn(tree.IsNull(column.name), column.is_null(), f"{name} IS NULL")
    if choice < 0.12:
        return Drawn(tree.IsNotNull(column.name), ~column.is_null(), f"{name} IS NOT NULL")
    ordered = column.kind != "bool"  # TRUE and FALSE have no order
    if choice < 0.32 and ordered:
        if rng.random() < 0.3:
            return between(rng, column, name)
        return comparison(rng, column, name, rng.choice(["<", "<=", ">", ">="]))
    if choice < 0.4:
        return comparison(rng, column, name, rng.choice(["!=", "<>"]))
    if choice < 0.65:
        return comparison(rng, column, name, rng.choice(["=", "=="]))
    if choice < 0.72:
        return null_safe(rng, column, name)
    result = among(rng, column, name)
    if choice < 0.93:
        return result
    return Drawn(tree.negation(result.node), ~result.answer, result.sql and f"NOT ({result.sql})")


def comparison(rng: random.Random, column: Ranked, name: str, operator: str) -> Drawn:
    value = draw_literal(rng, column)
    node = parse([(column.name, operator, value.form)])
    sql = value.sql and f"{name} {OPERATORS[operator]} {value.sql}"
    plain = OPERATORS[operator]
    return Drawn(node, column.compare(plain, value.key), sql, point=plain == "=" and value.key is not None)


def between(rng: random.Random, column: Ranked, name: str) -> Drawn:
    both = [comparison(rng, column, name, operator) for operator in (">=", "<=")]
    return joined(both, And, and_)


def null_safe(rng: random.Random, column: Ranked, name: str) -> Drawn:
    value = draw_literal(rng, column)
    sql = value.sql and f"{name} IS NOT DISTINCT FROM {value.sql}"
    if value.key is None:
        return Drawn(tree.null_safe_equal(column.name, None), column.is_null(), sql)
    equal = parse([(column.name, "=", value.form)])
    assert isinstance(equal, tree.Equal)
    is_valid = ~column.is_null()
    return Drawn(
        tree.null_safe_equal(column.name, equal.value), is_valid & column.compare("=", value.key), sql, point=True
    )


def among(rng: random.Random, column: Ranked, name: str) -> Drawn:
    values = [draw_literal(rng, column) for _ in range(rng.choice([0, 1, 2, 2, 5, 5, 30, 150]))]
    node = parse([(column.name, "in", [value.form for value in values])])
    texts = [value.sql for value in values]
    sql = None if None in texts else f"{name} IN ({', '.join(map(str, texts))})" if texts else "FALSE"
    keys = [value.key for value in values]
    return Drawn(node, column.among(keys), sql, point=any(item is not None for item in keys))


def draw_predicate(rng: random.Random, columns: list[Ranked], depth: int = 0) -> Drawn:
    """A predicate of any shape, every other one a single comparison."""
    if rng.random() < 0.1:
        inner = draw_predicate(rng, columns, depth)
        return Drawn(tree.negation(inner.node), ~inner.answer, inner.sql and f"NOT ({inner.sql})")
    if depth == 3 or rng.random() < 0.5:
        return draw_leaf(rng, columns)
    parts = [draw_predicate(rng, columns, depth + 1) for _ in range(rng.randint(2, 3))]
    return joined(parts, And, and_) if rng.random() < 0.5 else joined(parts, Or, or_)


def joined(parts: list[Drawn], connective: Any, operator: Callable[[Answer, Answer], Answer]) -> Drawn:
    texts = [part.sql for part in parts]
    sql = None if None in texts else f" {connective.__name__} ".join(f"({text})" for text in texts)
    node = connective(tuple(part.node for part in parts))
    return Drawn(node, reduce(operator, (part.answer for part in parts)), sql)
