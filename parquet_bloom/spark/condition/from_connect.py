"""Parse Spark Connect Columns into the terms of a condition, from the messages that Connect sends to the server."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import NullType

from ...errors import PredicateError
from ...predicate.subject import VariantPart
from ...predicate.tree import And, Or
from ...predicate.variant_names import parse_target
from ...variant.variant_path import parse_path
from ..spark_arrow import ARROW_TYPES
from .from_sql import PATTERN_NAMES, ReadComparison, ReadMatch, ReadNode, parse_sql_terms, unquote_name
from .literals import has_default_type
from .spark_comparison import Comparison, ConditionFragment, Literal, Negation, PatternMatch, Term, join_terms
from .to_spark import format_literal

_EPOCH = dt.datetime(1970, 1, 1)
_MAX_TEXT = 80
_OPERATORS = {"==": "=", "=": "=", "<=>": "<=>", "equal_null": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNARY = {"isnull": "null", "isnotnull": "notnull"}
_PARTS = {"variant_get": False, "try_variant_get": True}  # -> whether what cannot be cast is null
_VARIANT = "variant"
_NAME = re.compile(r"(?:[^`.]+|`[^`]+`)(?:\.(?:[^`.]+|`[^`]+`))*")
# Deterministic functions of literals.
_FOLDABLE = {
    *("negative", "+", "-", "*", "/", "%", "concat", "date", "to_date", "make_date"),
    *("timestamp", "to_timestamp", "timestamp_seconds", "timestamp_millis", "timestamp_micros"),
}
_TYPES = {kind.typeName(): kind() for kind in ARROW_TYPES}


def parse_connect_terms(
    column: Column, client: Any, read_node: ReadNode, read_comparison: ReadComparison, read_match: ReadMatch
) -> Term:
    """Parse a Column into terms; what is not understood becomes a fragment without readings.

    Parameters
    ----------
    column : a Column of a Connect session.
    client : the client of that session.
    read_node, read_comparison, read_match : return the readings of a comparison.
    """
    connect_column: Any = column
    return _TermReader(client, read_node, read_comparison, read_match).read(connect_column.to_plan(client))


class _TermReader:
    """Reader of the terms in a message."""

    def __init__(self, client: Any, read_node: ReadNode, read_comparison: ReadComparison, read_match: ReadMatch):
        self.client = client
        self.read_node = read_node
        self.read_comparison = read_comparison
        self.read_match = read_match

    def read(self, message: Any) -> Term:
        kind = message.WhichOneof("expr_type")
        if kind == "alias" and len(message.alias.name) == 1:
            return self.read(message.alias.expr)
        if kind == "expression_string":
            try:
                text = message.expression_string.expression
                return parse_sql_terms(text, self.read_node, self.read_comparison, self.read_match)
            except PredicateError as error:
                return ConditionFragment(make_column(message), _abbreviate(message), problem=error.problem)
        if kind == "unresolved_function":
            call = message.unresolved_function
            name, arguments = call.function_name.lower(), call.arguments
            if name in ("and", "or") and len(arguments) == 2:
                return join_terms(And if name == "and" else Or, list(self._flatten(message, name)))
            if name in ("not", "!") and len(arguments) == 1:
                return Negation(self.read(arguments[0]))
        fragment = ConditionFragment(make_column(message), _abbreviate(message), problem="not understood")
        comparison = _parse_comparison(message)
        if comparison is not None:
            fragment.readings += self.read_comparison(comparison)
        match = _parse_match(message)
        if match is not None:
            fragment.readings += self.read_match(match)
        return fragment

    def _flatten(self, message: Any, name: str) -> Iterator[Term]:
        """Split a chain `a & b & c`, which nests to the left as deeply as it is long."""
        parts, stack = [], [message]
        while stack:
            top = stack.pop()
            call = top.unresolved_function
            if top.WhichOneof("expr_type") == "unresolved_function" and call.function_name.lower() == name:
                stack.extend(reversed(call.arguments))
            else:
                parts.append(top)
        return map(self.read, parts)


def _parse_comparison(message: Any) -> Comparison | None:
    """Parse a comparison of a column with literals; return None for any other message."""
    if message.WhichOneof("expr_type") != "unresolved_function":
        return None
    call = message.unresolved_function
    function, arguments = call.function_name.lower(), list(call.arguments)
    operator = _OPERATORS.get(function)
    if operator and len(arguments) == 2 and _find_subject(arguments[0]) is None:
        operator, arguments = _SWAPPED.get(operator, operator), arguments[::-1]
    elif function in _UNARY and len(arguments) == 1:
        operator = _UNARY[function]
    elif function == "in" and arguments:
        operator = "in"
    elif function == "array_contains" and len(arguments) == 2:
        operator = "contains"
    subject = _find_subject(arguments[0]) if operator and arguments else None
    if operator is None or subject is None or not all(map(_is_foldable, arguments[1:])):
        return None
    return Comparison(operator, subject[0], [_parse_literal(argument) for argument in arguments[1:]], subject[1])


def _find_subject(message: Any) -> tuple[str, VariantPart | None] | None:
    """Return what is compared: the name of a column, and the part of it if it is a Variant; None for all else."""
    cast_type, is_try_cast = "", False
    kind = message.WhichOneof("expr_type")
    if kind == "cast":
        cast_type, is_try_cast = _find_cast_type(message.cast), message.cast.eval_mode == message.cast.EVAL_MODE_TRY
        message = message.cast.expr
        kind = message.WhichOneof("expr_type")
    call = message.unresolved_function
    if kind != "unresolved_function" or call.function_name.lower() not in _PARTS:
        name = None if cast_type else _find_name(message)
        return None if name is None else (name, None)
    name = _find_name(call.arguments[0]) if len(call.arguments) in (2, 3) else None
    is_literal = all(argument.WhichOneof("expr_type") == "literal" for argument in call.arguments[1:])
    if name is None or not is_literal:
        return None
    path, target = (*(argument.literal.string for argument in call.arguments[1:]), _VARIANT)[:2]
    is_try = _PARTS[call.function_name.lower()]
    if cast_type and target == _VARIANT:
        target, is_try = cast_type, is_try_cast
    elif cast_type:
        return None
    try:
        return name, VariantPart(parse_path(path), parse_target(target), is_try)
    except PredicateError:
        return None


def _find_cast_type(cast: Any) -> str:
    """Return the type of a cast as text."""
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    is_text = cast.WhichOneof("cast_to_type") == "type_str"
    return str(cast.type_str if is_text else proto_schema_to_pyspark_data_type(cast.type).simpleString())


def _parse_match(message: Any) -> PatternMatch | None:
    """Parse a match of a column with a literal pattern; return None for any other message."""
    call = message.unresolved_function
    if message.WhichOneof("expr_type") != "unresolved_function" or len(call.arguments) != 2:
        return None
    function = PATTERN_NAMES.get(call.function_name.lower())
    name, text = _find_name(call.arguments[0]), _parse_literal(call.arguments[1]).value
    return PatternMatch(function, name, text) if function and name and isinstance(text, str) else None


def _find_name(message: Any) -> str | None:
    """Return the dotted name of a column or struct leaf, or None for any other expression."""
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        name = message.unresolved_attribute.unparsed_identifier
        if "`" not in name:
            return str(name)
        return unquote_name(name) if _NAME.fullmatch(name) else None
    if kind == "unresolved_extract_value":
        extracted = message.unresolved_extract_value
        parent, key = _find_name(extracted.child), extracted.extraction
        is_name = key.WhichOneof("expr_type") == "literal" and key.literal.WhichOneof("literal_type") == "string"
        return f"{parent}.{key.literal.string}" if parent and is_name else None
    return None


def _is_foldable(message: Any) -> bool:
    kind = message.WhichOneof("expr_type")
    if kind == "cast":
        return _is_foldable(message.cast.expr)
    if kind == "unresolved_function":
        call = message.unresolved_function
        return call.function_name.lower() in _FOLDABLE and all(map(_is_foldable, call.arguments))
    return bool(kind == "literal")


def _iter_texts(message: Any) -> Iterator[str]:
    """Iterate over the texts in a foldable expression."""
    kind = message.WhichOneof("expr_type")
    if kind == "cast":
        yield from _iter_texts(message.cast.expr)
    elif kind == "unresolved_function":
        for argument in message.unresolved_function.arguments:
            yield from _iter_texts(argument)
    elif message.literal.WhichOneof("literal_type") in ("string", "binary"):
        yield str(message.literal.string) or "binary"


def _parse_literal(message: Any) -> Literal:
    """Parse a literal with its value, or leave it for Spark to evaluate."""
    literal = Literal(make_column(message), texts=list(_iter_texts(message)))
    kind = message.literal.WhichOneof("literal_type") if message.WhichOneof("expr_type") == "literal" else None
    if kind is None or any(descriptor.name == "data_type" for descriptor, _ in message.literal.ListFields()):
        return literal
    if kind == "null":
        literal.type = NullType()
    elif kind in _TYPES:
        value = getattr(message.literal, kind)
        try:
            if kind == "date":
                value = _EPOCH.date() + dt.timedelta(value)
            elif kind in ("timestamp", "timestamp_ntz"):
                value = _EPOCH + dt.timedelta(microseconds=value)
                value = value.replace(tzinfo=dt.UTC) if kind == "timestamp" else value
        except OverflowError:
            return literal
        literal.value, literal.type = value, _TYPES[kind]
        if has_default_type(value, literal.type):
            # A text has one meaning only, even if a user has registered functions under Spark's names.
            literal.spelling = format_literal(value, "TIMESTAMP_NTZ") or literal.spelling
    return literal


def _abbreviate(message: Any) -> str:
    """Format a part of a message for people, shortened."""
    text = _format(message)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _format(message: Any) -> str:
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_function":
        call = message.unresolved_function
        return f"{call.function_name}({', '.join(map(_format, call.arguments[:3]))})"
    if kind == "literal":
        return " ".join(str(message.literal).split())
    if kind == "cast":
        return f"CAST({_format(message.cast.expr)})"
    if kind == "expression_string":
        return str(message.expression_string.expression)
    return _find_name(message) or str(kind).replace("_", " ")


def make_column(message: Any) -> Column:
    """Convert a part of a message to a Column."""
    from pyspark.sql.connect.column import Column as ConnectColumn
    from pyspark.sql.connect.expressions import Expression

    class Part(Expression):
        def to_plan(self, session: Any) -> Any:
            return message

        def __repr__(self) -> str:
            return _abbreviate(message)

    return ConnectColumn(Part())
