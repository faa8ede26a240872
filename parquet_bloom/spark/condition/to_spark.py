"""A predicate tree for Spark, as SQL text or as a Column: what Spark makes of it is exactly what the tree says."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from ...errors import PredicateError
from ...predicate import tree
from ...predicate.tree import (
    And,
    Compare,
    Connective,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    Or,
)
from ..session.fields import Field
from .comparison import Comparison, Literal
from .terms import Spelling, join_spellings, negated

# Texts that mean themselves under every setting of Spark's parser: no quotes, backslashes or ${variables}.
_PLAIN = re.compile(r"[^'\"\\$\x00-\x1f\x7f]*")
_LONG = 1 << 63
_DIGITS = 10**38


def spell(node: Node, fields: Mapping[str, Field], *, naive: str | None = None) -> Spelling:
    """What a predicate says, for Spark.

    Parameters
    ----------
    fields : the column that each name of the predicate means.
    naive : how datetimes without a zone are written, TIMESTAMP_LTZ or TIMESTAMP_NTZ; None for what suits the column.

    Raises
    ------
    PredicateError
        A literal has no counterpart in Spark.
    """

    def leaf(item: Leaf) -> Spelling:
        field = fields[item.column]
        try:
            return _leaf(item, field, _stamp(field, naive))
        except PredicateError as error:
            raise PredicateError(error.problem, column=item.column) from None

    return tree.fold(node, leaf, lambda item, parts: join_spellings(parts, And if isinstance(item, And) else Or))


def spellings(node: Node, fields: Mapping[str, Field], *, naive: str | None = None) -> Iterator[Spelling]:
    """What one comparison says, in each form that Spark's parser gives to such a text.

    `a <=> 5`, `a BETWEEN 5 AND 6` and their opposites are several leaves in a tree, and one expression in Spark.
    """
    for is_opposite in (False, True) if isinstance(node, Connective) else ():
        item = tree.negation(node) if is_opposite else node
        children = item.children if isinstance(item, And) and len(item.children) == 2 else ()
        if len({child.column for child in children if isinstance(child, Leaf)}) == 1:
            found = _single(children, fields, naive)
            if found is not None:
                yield negated(found) if is_opposite else found
    yield spell(node, fields, naive=naive)


def _stamp(field: Field, naive: str | None) -> str:
    return naive or ("TIMESTAMP_NTZ" if isinstance(field.type, TimestampNTZType) else "TIMESTAMP_LTZ")


def _single(leaves: Sequence[Any], fields: Mapping[str, Field], naive: str | None) -> Spelling | None:
    """`<=>` or BETWEEN for two leaves of one column; None for others."""
    one, other = leaves
    field = fields[one.column]
    literals = [Literal(_literal(value, _stamp(field, naive))) for value in (*one.literals, *other.literals)]
    if isinstance(one, IsNotNull) and isinstance(other, Equal):
        return Comparison("<=>", field.name, literals).spelled(field)
    if [getattr(leaf, "operator", "") for leaf in leaves] == [">=", "<="]:
        return Comparison("between", field.name, literals).spelled(field)
    return None


_OPERATORS: dict[type[Leaf], str] = {
    Equal: "=",
    In: "in",
    Contains: "contains",
    IsNull: "null",
    IsNotNull: "notnull",
}


def _leaf(item: Leaf, field: Field, stamp: str) -> Spelling:
    if isinstance(item, NotIn | NotEqual | NotContains):
        opposite = tree.negation(item)
        assert isinstance(opposite, Leaf)
        return negated(_leaf(opposite, field, stamp))
    literals = [Literal(_literal(value, stamp)) for value in item.literals]
    sign = item.operator if isinstance(item, Compare) else _OPERATORS[type(item)]
    return Comparison(sign, field.name, literals).spelled(field)


def _literal(value: Any, stamp: str) -> Spelling:
    text = literal_sql(value, stamp)
    return F.lit(value) if text is None else text


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
