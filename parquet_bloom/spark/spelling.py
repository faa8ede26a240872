"""A predicate tree as a Spark Column: what Spark makes of it is exactly what the tree says."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from ..errors import PredicateError
from ..predicate import tree
from ..predicate.tree import (
    And,
    Compare,
    Connective,
    Contains,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
)
from .fields import Field

# Texts that mean themselves under every setting of Spark's parser: no quotes, backslashes or ${variables}.
_PLAIN = re.compile(r"[^'\"\\$\x00-\x1f\x7f]*")
_LONG = 1 << 63
_DIGITS = 10**38


def spell(node: Node, fields: Mapping[str, Field], *, naive: str | None = None, split: bool = False) -> Column:
    """The Column that says what a predicate says.

    Parameters
    ----------
    fields : the column that each name of the predicate means.
    naive : how datetimes without a zone are written, TIMESTAMP_LTZ or TIMESTAMP_NTZ; None for what suits the column.
    split : write `a IN (1, 2)` as `a = 1 OR a = 2`.

    Raises
    ------
    PredicateError
        A literal has no counterpart in Spark.
    """

    def leaf(item: Leaf) -> Column:
        field = fields[item.column]
        stamp = naive or ("TIMESTAMP_NTZ" if isinstance(field.type, TimestampNTZType) else "TIMESTAMP_LTZ")
        try:
            return _leaf(item, field, stamp, split)
        except PredicateError as error:
            raise PredicateError(error.problem, column=item.column) from None

    def join(item: Connective, columns: list[Column]) -> Column:
        return functools.reduce(operator.and_ if isinstance(item, And) else operator.or_, columns)

    return tree.fold(node, leaf, join)


_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _leaf(item: Leaf, field: Field, stamp: str, split: bool) -> Column:
    column = F.col(field.sql)
    if isinstance(item, IsNull):
        return column.isNull()
    if isinstance(item, IsNotNull):
        return column.isNotNull()
    if isinstance(item, NotIn | NotEqual | NotContains):
        opposite = tree.negation(item)
        assert isinstance(opposite, Leaf)
        return ~_leaf(opposite, field, stamp, split)
    if isinstance(item, Compare):
        (value,) = _columns(item.literals, [literal_sql(item.value, stamp)])
        return _COMPARISONS[item.operator](column, value)
    texts = [literal_sql(value, stamp) for value in item.literals]
    if isinstance(item, Contains):
        return F.array_contains(column, _columns(item.literals, texts)[0])
    if isinstance(item, In) and not (split and texts):
        if not texts:
            return F.col(field.sql).isin()
        if None not in texts and "$" not in field.sql:
            return F.expr(f"{field.sql} IN ({', '.join(map(str, texts))})")  # one call, however long the list
        return F.col(field.sql).isin(*_columns(item.literals, texts))
    equalities = [F.col(field.sql) == value for value in _columns(item.literals, texts)]
    return functools.reduce(operator.or_, equalities)


def _columns(values: Sequence[Any], texts: Sequence[str | None]) -> list[Column]:
    return [F.lit(value) if text is None else F.expr(text) for value, text in zip(values, texts, strict=True)]


def literal_sql(value: Any, stamp: str) -> str | None:
    """A literal in SQL, of the very type that Spark's parser gives its usual spelling; None if `lit` has to do it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        if abs(value) >= _DIGITS:
            raise PredicateError("Spark has no whole numbers of more than 38 digits")
        return str(value)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else None
    if isinstance(value, str):
        return f"'{value}'" if _PLAIN.fullmatch(value) else None
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return _datetime(value, stamp)
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise PredicateError(f"Spark has no literal for {_shown(value)}")


def _decimal(value: decimal.Decimal) -> str:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > 38:
        raise PredicateError("Spark has no decimals of more than 38 digits")
    text = f"{value:f}"
    return text if "." in text else text + "."


def _datetime(value: dt.datetime, stamp: str) -> str:
    if value.tzinfo is None:
        return f"{stamp} '{value.isoformat(' ')}'"
    try:
        return f"TIMESTAMP_LTZ '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(' ')}Z'"
    except OverflowError:
        raise PredicateError(f"{_shown(value)} lies outside of the years 1 to 9999") from None


def _shown(value: Any) -> str:
    kind = f"Arrow's {value.type}" if isinstance(value, pa.Scalar) else type(value).__name__
    return f"values of type {kind}"
