"""Random predicates over ranked columns: as a tree, the rows that they select, DuckDB's SQL and Arrow's expression."""

from __future__ import annotations

import datetime
import decimal
import math
import operator
import random
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquet_bloom.predicate import And, Node, Or, parse, tree
from support.oracle.ranked import Answer, Ranked, key, scaled, text
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
    arrow : the same as pyarrow's expression; None where a literal is not a scalar of the column's type.
    point : whether it is one `=`, `IN` or `<=>` with values to look for.
    has_isin : whether `arrow` is false for nulls, where SQL's IN is null: its opposite would be another one.
    """

    node: Node
    answer: Answer
    sql: str | None
    arrow: pc.Expression | None = None
    point: bool = False
    has_isin: bool = False

    def __invert__(self) -> Drawn:
        arrow = None if self.arrow is None or self.has_isin else ~self.arrow
        return Drawn(tree.negation(self.node), ~self.answer, self.sql and f"NOT ({self.sql})", arrow)

    def spell(self, rng: random.Random) -> Any:
        """Return the predicate in one of the forms that callers write: a tree, SQL, tuples or an expression."""
        forms: list[Any] = [self.node, self.node, tree.to_text(self.node)]
        if self.arrow is not None:
            forms.append(self.arrow)
        if isinstance(self.node, tree.Equal):
            forms.append([(self.node.column, "=", self.node.value)])
        return rng.choice(forms)


def joined(parts: Sequence[Drawn], word: str) -> Drawn:
    """Combine predicates by AND or OR."""
    connective, join = (And, operator.and_) if word == "AND" else (Or, operator.or_)
    texts, arrows = [part.sql for part in parts], [part.arrow for part in parts]
    return Drawn(
        connective(tuple(part.node for part in parts)),
        reduce(join, (part.answer for part in parts)),
        None if None in texts else f" {word} ".join(f"({text})" for text in texts),
        None if any(arrow is None for arrow in arrows) else reduce(join, arrows),
        has_isin=any(part.has_isin for part in parts),
    )


@dataclass(frozen=True)
class Literal:
    """A literal as callers write it, what it is ordered by, how DuckDB writes it, and as a scalar."""

    form: Any
    key: Any
    sql: str | None
    scalar: pa.Scalar | None = None


NULL = Literal(None, None, "NULL")
_ORDERS = operator.lt, operator.le, operator.gt, operator.ge
_COMPARE = dict(zip(("=", "<>", "<", "<=", ">", ">="), (operator.eq, operator.ne, *_ORDERS), strict=True))
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
    arrow = sql_type(column.arrow)
    sql = None if isinstance(value, str) and "\0" in value else peers.literal("duckdb", value, arrow)
    return Literal(literal_form(rng, column.arrow, value), key(value, column.arrow), sql, _make_scalar(value, arrow))


def _make_scalar(value: Any, arrow: pa.DataType) -> pa.Scalar | None:
    if isinstance(arrow, pa.BaseExtensionType) or arrow == pa.float16():
        return None
    return peers.arrow_array([value], arrow)[0]


def draw_value(rng: random.Random, column: Ranked) -> Any:
    """A value that the column has, an extreme, one beside either, or any."""
    values = VALUES.get(column.kind)
    choice = rng.random()
    if column.values and (choice < 0.4 or (values is None and choice < 0.8)):
        return rng.choice(column.values)
    if values is None:
        return beside(rng, rng.choice(column.values), column.arrow) if column.values else None
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


def _name(column: Ranked) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in column.name.split("."))


def _field(column: Ranked) -> pc.Expression:
    return pc.field(*column.name.split("."))


def draw_leaf(rng: random.Random, columns: list[Ranked]) -> Drawn:
    column = rng.choice(columns)
    choice = rng.random()
    if choice < 0.12:
        is_null = Drawn(
            tree.IsNull(column.name), column.is_null(), f"{_name(column)} IS NULL", _field(column).is_null()
        )
        return is_null if choice < 0.06 else ~is_null
    if choice < 0.32 and not pa.types.is_boolean(column.arrow):  # TRUE and FALSE have no order
        if rng.random() < 0.3:  # BETWEEN
            return joined([comparison(rng, column, one) for one in (">=", "<=")], "AND")
        return comparison(rng, column, rng.choice(["<", "<=", ">", ">="]))
    if choice < 0.4:
        return comparison(rng, column, rng.choice(["!=", "<>"]))
    if choice < 0.65:
        return comparison(rng, column, rng.choice(["=", "=="]))
    if choice < 0.72:
        return null_safe(rng, column)
    return among(rng, column) if choice < 0.93 else ~among(rng, column)


def draw_point(rng: random.Random, columns: list[Ranked]) -> Drawn:
    """Draw what few rows meet: `=` or IN, and perhaps something else."""
    column = rng.choice(columns)
    for _ in range(4):
        drawn = comparison(rng, column, "=") if rng.random() < 0.6 else among(rng, column)
        if drawn.answer.true.any():  # most of those that are drawn first meet none
            break
    return joined([drawn, draw_predicate(rng, columns, 2)], "AND") if rng.random() < 0.35 else drawn


def comparison(rng: random.Random, column: Ranked, sign: str) -> Drawn:
    value, plain = draw_literal(rng, column), OPERATORS[sign]
    node, sql = parse([(column.name, sign, value.form)]), value.sql and f"{_name(column)} {plain} {value.sql}"
    arrow = None if value.scalar is None else _COMPARE[plain](_field(column), pc.scalar(value.scalar))
    return Drawn(node, column.compare(plain, value.key), sql, arrow, plain == "=" and value.key is not None)


def null_safe(rng: random.Random, column: Ranked) -> Drawn:
    value = draw_literal(rng, column)
    sql = value.sql and f"{_name(column)} IS NOT DISTINCT FROM {value.sql}"
    if value.key is None:
        return Drawn(tree.null_safe_equal(column.name, None), column.is_null(), sql)
    equal = parse([(column.name, "=", value.form)])
    assert isinstance(equal, tree.Equal)
    answer = ~column.is_null() & column.compare("=", value.key)
    return Drawn(tree.null_safe_equal(column.name, equal.value), answer, sql, point=True)


def among(rng: random.Random, column: Ranked) -> Drawn:
    values = [draw_literal(rng, column) for _ in range(rng.choice([0, 1, 2, 2, 5, 5, 30, 150]))]
    node = parse([(column.name, "in", [value.form for value in values])])
    texts, scalars = [value.sql for value in values], [value.scalar for value in values]
    sql = None if None in texts else f"{_name(column)} IN ({', '.join(map(str, texts))})" if texts else "FALSE"
    has_isin = bool(values) and all(scalar is not None for scalar in scalars)
    arrow = pc.is_in(_field(column), pa.array(scalars), skip_nulls=True) if has_isin else None
    keys = [value.key for value in values]
    return Drawn(node, column.among(keys), sql, arrow, any(one is not None for one in keys), has_isin)


def has_text(column: Ranked) -> bool:
    """Return whether engines agree on the texts of a column's values."""
    arrow = sql_type(column.arrow)
    return _is_text(arrow) or pa.types.is_integer(arrow) or pa.types.is_date32(arrow) or isinstance(arrow, pa.UuidType)


def _is_text(arrow: pa.DataType) -> bool:
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or arrow == pa.string_view()


def draw_text_leaf(rng: random.Random, columns: list[Ranked]) -> Drawn:
    """Draw LIKE, a regular expression, or `lower`, `upper` or CAST AS VARCHAR in a list, of columns that `has_text`."""
    column = rng.choice(columns)
    function = rng.choice(["", "lower", "upper", "string"]) if _is_text(sql_type(column.arrow)) else "string"
    change: Callable[[str], str] = {"lower": str.lower, "upper": str.upper}.get(function, str)
    sample = change(text(key(rng.choice(column.values), column.arrow), column.arrow)) if column.values else "a"
    choice = rng.random()
    if choice < 0.3 and function:
        values = [sample, rng.choice([None, "", "A", sample.swapcase()])][: rng.randint(1, 2)]
        leaf: Node = tree.CallIn(column.name, function, tuple(values))
        answer = column.matching(lambda one: change(one) in values)
        if None in values:
            answer = Answer(answer.true, np.zeros_like(answer.true))
    elif choice < 0.7:
        pattern, expected = _draw_like(rng, sample)
        leaf = tree.Like(column.name, pattern, function)
        answer = column.matching(lambda one: expected.fullmatch(change(one)) is not None)
    else:
        expected = re.compile(_draw_expression(rng, sample))
        leaf = tree.Matches(column.name, expected.pattern, function)
        answer = column.matching(lambda one: expected.search(change(one)) is not None)
    drawn = Drawn(leaf, answer, None)
    return ~drawn if rng.random() < 0.3 else drawn


def _cut(rng: random.Random, sample: str) -> tuple[str, str, str]:
    """Cut a text into three, of which some may be empty."""
    first, last = sorted(rng.randint(0, min(len(sample), 9)) for _ in range(2))
    return sample[:first], sample[first:last], sample[last:]


def _draw_like(rng: random.Random, sample: str) -> tuple[str, re.Pattern[str]]:
    """Draw a pattern that a text matches, or nearly; and a regular expression for it."""
    before, middle, after = _cut(rng, sample)
    forms = [[before, "%"], ["%", after], ["%", middle, "%"], [before, "_", after], [before, "%", after], [sample]]
    parts = rng.choice([*forms, ["_", middle, "%"], ["%"], ["_"], [], ["%", "_", "_", "%"], [before, "X", "%"]])
    wild = {"%": ".*", "_": "."}
    pattern = "".join(part if part in wild else re.sub(r"([%_\\])", r"\\\1", part) for part in parts)
    return pattern, re.compile("".join(wild.get(part) or re.escape(part) for part in parts), re.DOTALL)


def _draw_expression(rng: random.Random, sample: str) -> str:
    """Draw a regular expression that a text matches, or nearly, and that RE2 and Python read alike."""
    before, middle, after = map(re.escape, _cut(rng, sample))
    forms = ["^" + before, after + "$", middle, f"^{before}.*{after}$", f"({before}|{after})X", "[a-c]{2}", "^[0-9-]+$"]
    return rng.choice([*forms, "x+1?", ".", "^$", "^.$"])


def contains(name: str, lists: Sequence[Any], value: Any, arrow: pa.DataType) -> Drawn:
    """`array_contains(name, value)`, of lists of a type of elements."""
    true = np.array([row is not None and value in row for row in lists], np.bool_)
    is_null = np.array([row is None for row in lists], np.bool_)
    sql = None if isinstance(value, bool) else f'list_contains("{name}", {peers.literal("duckdb", value, arrow)})'
    return Drawn(tree.Contains(name, value), Answer(true, ~true & ~is_null), sql)


def draw_predicate(
    rng: random.Random, columns: list[Ranked], depth: int = 0, draw: Callable[..., Drawn] = draw_leaf
) -> Drawn:
    """A predicate of any shape, every other one a single comparison; `draw` makes these."""
    if rng.random() < 0.1:
        return ~draw_predicate(rng, columns, depth, draw)
    if depth == 3 or rng.random() < 0.5:
        return draw(rng, columns)
    return joined(
        [draw_predicate(rng, columns, depth + 1, draw) for _ in range(rng.randint(2, 3))], rng.choice(["AND", "OR"])
    )


def rank_table(rows: pa.Table) -> list[Ranked]:
    """Return the columns of a table that predicates can compare, and the fields of its structs."""
    kinds = {str(kind.arrow): name for name, kind in VALUES.items() if name not in ("nothing", "json")}
    ranked = []

    def find(name: str, column: pa.ChunkedArray) -> None:
        if pa.types.is_struct(column.type):
            for field in column.type:
                find(f"{name}.{field.name}", pc.struct_field(column, field.name))
        elif not pa.types.is_nested(column.type) and not pa.types.is_null(column.type):
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            arrow, values = column.type, column
            if pa.types.is_temporal(arrow) and str(arrow).endswith(("[ns]", "[ns, tz=UTC]")):
                values = column.cast(pa.int64())  # Python's own types have no nanoseconds
            ranked.append(Ranked(name, kinds.get(str(arrow), ""), arrow, values.to_pylist(), np.arange(len(column))))

    for field, column in zip(rows.schema, rows.columns, strict=True):
        find(field.name, column)
    return ranked
