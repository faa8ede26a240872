"""Format predicate trees for Spark, as SQL text or as a Column of exactly the same meaning."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from ...errors import PredicateError
from ...predicate import tree
from ...predicate.tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Connective,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    MapLookup,
    Matches,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    NotLike,
    NotMatches,
    Or,
    VariantLookup,
    call_text,
)
from ...variant.variant_path import parse_path
from ..session.session_settings import SparkField
from .literals import find_target_type
from .spark_comparison import Comparison, Literal, Spelling, as_column, join_spellings, negate

# Texts that need no escapes under any setting of Spark's parser: no quotes, backslashes or ${variables}.
_PLAIN = re.compile(r"[^'\"\\$\x00-\x1f\x7f]*")
_DIGITS = 10**38


def spell(node: Node, fields: Mapping[str, SparkField], *, naive: str | None = None) -> Spelling:
    """Format a predicate for Spark.

    Parameters
    ----------
    fields : the column of each name in the predicate.
    naive : type of datetimes without a time zone, TIMESTAMP_LTZ or TIMESTAMP_NTZ; None for the type of the column.

    Raises
    ------
    PredicateError
        A literal has no counterpart in Spark.
    """

    def leaf(item: Leaf) -> Spelling:
        field = fields[item.column]
        try:
            return _spell_leaf(item, field, _timestamp_type(field, naive))
        except PredicateError as error:
            raise PredicateError(error.problem, column=item.column) from None

    return tree.fold(node, leaf, lambda item, parts: join_spellings(parts, And if isinstance(item, And) else Or))


def iter_spellings(node: Node, fields: Mapping[str, SparkField], *, naive: str | None = None) -> Iterator[Spelling]:
    """Iterate over the forms in which Spark's parser may represent one comparison.

    `a <=> 5`, `a BETWEEN 5 AND 6` and their negations are two leaves in a tree, but one expression in Spark.
    """
    if isinstance(node, CallIn | CallNotIn) and len(node.values) == 1:  # `=`, or an IN with one value
        item = tree.negation(node) if isinstance(node, CallNotIn) else node
        assert isinstance(item, CallIn)
        equality = _spell_call(item, fields[item.column], "=")
        yield equality if item is node else negate(equality)
    lookup = _find_only_part(node)
    if lookup is not None:
        within = tree.find_residual(node, lambda leaf: leaf.condition if isinstance(leaf, VariantLookup) else leaf)
        assert isinstance(within, Node)
        for part in iter_parts(lookup, fields[lookup.column]):
            yield from iter_spellings(within, {lookup.column: part}, naive=naive)
        return
    for is_opposite in (False, True) if isinstance(node, Connective) else ():
        item = tree.negation(node) if is_opposite else node
        children = item.children if isinstance(item, And) and len(item.children) == 2 else ()
        if len({child.column for child in children if isinstance(child, Leaf)}) == 1:
            spelling = _spell_pair(children, fields, naive)
            if spelling is not None:
                yield negate(spelling) if is_opposite else spelling
    yield spell(node, fields, naive=naive)


def _timestamp_type(field: SparkField, naive: str | None) -> str:
    return naive or ("TIMESTAMP_NTZ" if isinstance(field.type, TimestampNTZType) else "TIMESTAMP_LTZ")


def _spell_pair(leaves: Sequence[Any], fields: Mapping[str, SparkField], naive: str | None) -> Spelling | None:
    """Format two leaves of one column as `<=>` or BETWEEN; return None for other leaves."""
    first, second = leaves
    field = fields[first.column]
    timestamp_type = _timestamp_type(field, naive)
    literals = [Literal(_spell_literal(value, timestamp_type)) for value in (*first.literals, *second.literals)]
    if isinstance(first, IsNotNull) and isinstance(second, Equal):
        return Comparison("<=>", field.name, literals).spell(field)
    if [getattr(leaf, "operator", "") for leaf in leaves] == [">=", "<="]:
        return Comparison("between", field.name, literals).spell(field)
    return None


_OPERATORS: dict[type[Leaf], str] = {
    Equal: "=",
    In: "in",
    Contains: "contains",
    IsNull: "null",
    IsNotNull: "notnull",
}


def _spell_leaf(item: Leaf, field: SparkField, stamp: str) -> Spelling:
    if isinstance(item, NotIn | NotEqual | NotContains | CallNotIn | NotLike | NotMatches):
        opposite = tree.negation(item)
        assert isinstance(opposite, Leaf)
        return negate(_spell_leaf(opposite, field, stamp))
    if isinstance(item, Matches):
        raise PredicateError(f"{item} is not supported: Spark's regular expressions are Java's, not RE2's")
    if isinstance(item, Like):
        subject = F.expr(call_text(item.function, field.sql)) if item.function else field.expression
        return subject.like(item.pattern)
    if isinstance(item, MapLookup):
        return _spell_leaf(item.condition, _MapValue(field.path, field.type, _spell_key(item)), stamp)
    if isinstance(item, VariantLookup):
        return _spell_leaf(item.condition, next(iter_parts(item, field)), stamp)
    literals = [Literal(_spell_literal(value, stamp)) for value in item.literals]
    if isinstance(item, CallIn):
        return _spell_call(item, field, "in")
    operator = item.operator if isinstance(item, Compare) else _OPERATORS.get(type(item))
    if operator is None:
        raise PredicateError(f"{item} is not supported")
    return Comparison(operator, field.name, literals).spell(field)


@dataclass(frozen=True)
class _MapValue(SparkField):
    """What a map has under a key, given as SQL."""

    key: str

    @property
    def sql(self) -> str:
        return f"{super().sql}[{self.key}]"


@dataclass(frozen=True)
class _VariantPart(SparkField):
    """What a Variant has at a path, as a type.

    Attributes
    ----------
    at : the path, as text.
    target : the type's canonical name.
    is_try : whether what cannot be cast is null.
    is_cast : whether the Variant at the path is cast, as in `v:a::bigint`, not by `variant_get` itself.
    """

    at: str
    target: str
    is_try: bool
    is_cast: bool

    @property
    def sql(self) -> str:
        if not self.is_plain:
            raise PredicateError("the text of its path depends on settings of Spark", column=self.name)
        if not self.is_cast:
            return f"{'try_' if self.is_try else ''}variant_get({super().sql}, '{self.at}', '{self.target}')"
        found = super().sql if self.at == "$" else f"variant_get({super().sql}, '{self.at}', 'variant')"
        return f"{'TRY_CAST' if self.is_try else 'CAST'}({found} AS {self.target})"

    @property
    def is_plain(self) -> bool:
        return "$" not in super().sql and _PLAIN.fullmatch(self.at.removeprefix("$")) is not None

    @property
    def expression(self) -> Column:
        variant = F.expr(super().sql)
        if not self.is_cast:
            return (F.try_variant_get if self.is_try else F.variant_get)(variant, self.at, self.target)
        found = variant if self.at == "$" else F.variant_get(variant, self.at, "variant")
        return found.try_cast(self.target) if self.is_try else found.cast(self.target)


def iter_parts(item: VariantLookup, field: SparkField) -> Iterator[SparkField]:
    """Iterate over the forms in which Spark's parser may represent what a Variant has at a path.

    The texts of a path that mean the same are different ones for Spark, which compares plans.
    """
    parts = item.path.parts
    forms = [str(item.path)]
    for opening, closing in ((".", ""), ("['", "']"), ('["', '"]')):
        steps = (f"[{part}]" if isinstance(part, int) else f"{opening}{part}{closing}" for part in parts)
        forms.append("$" + "".join(steps))
    known = [form for form in dict.fromkeys(forms) if _means(form, parts)]
    data_type = find_target_type(item.target)
    for form, is_cast in product(known, (False, True)):
        yield _VariantPart(field.path, data_type, form, item.target, item.is_try, is_cast)


def _means(form: str, parts: Sequence[str | int]) -> bool:
    """Return whether a text is that of a path."""
    try:
        return parse_path(form).parts == parts
    except PredicateError:
        return False


def _find_only_part(node: Node) -> VariantLookup | None:
    """Return a lookup of the part of a Variant that all leaves are conditions on; None if there is not one such."""
    first, *others = tree.leaves(node)
    if not isinstance(first, VariantLookup):
        return None
    part = (first.column, first.path, first.target, first.is_try)
    is_only = all(
        isinstance(leaf, VariantLookup) and (leaf.column, leaf.path, leaf.target, leaf.is_try) == part
        for leaf in others
    )
    return first if is_only else None


def _spell_key(item: MapLookup) -> str:
    text = format_literal(item.key, "TIMESTAMP_LTZ")
    if text is None:
        raise PredicateError(f"{item} is not supported: the text of its key depends on settings of Spark")
    return text


def _spell_call(item: CallIn, field: SparkField, operator: str) -> Spelling:
    """Format a comparison of a function of a column; its values are texts, whose spelling depends on no setting."""
    subject = call_text(item.function, field.sql)
    spellings = [_spell_literal(value, "TIMESTAMP_LTZ") for value in item.literals]
    texts = [spelling for spelling in spellings if isinstance(spelling, str)]
    if texts and len(texts) == len(spellings) and "$" not in subject:
        return f"{subject} IN ({', '.join(texts)})" if operator == "in" else f"{subject} = {texts[0]}"
    values = [as_column(spelling) for spelling in spellings]
    return F.expr(subject).isin(*values) if operator == "in" else F.expr(subject) == values[0]


def _spell_literal(value: Any, stamp: str) -> Spelling:
    text = format_literal(value, stamp)
    return F.lit(value) if text is None else text


def format_literal(value: Any, stamp: str) -> str | None:
    """Format a literal as SQL of the very type that Spark's parser gives it; None if only `lit` can represent it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        if abs(value) >= _DIGITS:
            raise PredicateError("Spark has no integers of more than 38 digits")
        return str(value)
    if isinstance(value, decimal.Decimal):
        return _format_decimal(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else None
    if isinstance(value, str):
        return f"'{value}'" if _PLAIN.fullmatch(value) else None
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return _format_datetime(value, stamp)
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise PredicateError(f"Spark has no literal for {_describe_type(value)}")


def _format_decimal(value: decimal.Decimal) -> str:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > 38:
        raise PredicateError("Spark has no decimals of more than 38 digits")
    text = f"{value:f}"
    return text if "." in text else text + "."


def _format_datetime(value: dt.datetime, stamp: str) -> str:
    if value.tzinfo is None:
        return f"{stamp} '{value.isoformat(' ')}'"
    try:
        return f"TIMESTAMP_LTZ '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(' ')}Z'"
    except OverflowError:
        raise PredicateError(f"{_describe_type(value)} lies outside of the years 1 to 9999") from None


def _describe_type(value: Any) -> str:
    kind = f"Arrow's {value.type}" if isinstance(value, pa.Scalar) else type(value).__name__
    return f"values of type {kind}"
