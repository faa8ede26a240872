"""A Spark Connect Column -> the terms of a condition, from the message that Connect sends to the server."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import PredicateError
from ...predicate.tree import And, Or
from .comparison import Comparison, Literal
from .from_sql import OfComparison, OfNode, dotted, sql_terms
from .literals import is_usual
from .terms import Fragment, Negation, Term, join_terms
from .to_spark import literal_sql

_EPOCH = dt.datetime(1970, 1, 1)
_SHOWN = 80
_OPERATORS = {"==": "=", "=": "=", "<=>": "<=>", "equal_null": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNARY = {"isnull": "null", "isnotnull": "notnull"}
_NAME = re.compile(r"(?:[^`.]+|`[^`]+`)(?:\.(?:[^`.]+|`[^`]+`))*")
# Functions of literals that have one value whenever they are asked.
_FOLDABLE = {
    *("negative", "+", "-", "*", "/", "%", "concat", "date", "to_date", "make_date"),
    *("timestamp", "to_timestamp", "timestamp_seconds", "timestamp_millis", "timestamp_micros"),
}
_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "short": ShortType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
}


def connect_terms(column: Column, client: Any, of_node: OfNode, of_comparison: OfComparison) -> Term:
    """The terms of a Column; what is not understood is a piece without readings.

    Parameters
    ----------
    column : of a Connect session.
    client : the session's client.
    """
    own: Any = column
    return _Walk(client, of_node, of_comparison).term(own.to_plan(client))


class _Walk:
    def __init__(self, client: Any, of_node: OfNode, of_comparison: OfComparison):
        self.client = client
        self.of_node = of_node
        self.of_comparison = of_comparison

    def term(self, message: Any) -> Term:
        kind = message.WhichOneof("expr_type")
        if kind == "alias" and len(message.alias.name) == 1:
            return self.term(message.alias.expr)
        if kind == "expression_string":
            try:
                return sql_terms(message.expression_string.expression, self.of_node, self.of_comparison)
            except PredicateError as error:
                return Fragment(column_of(message), _text(message), problem=error.problem)
        if kind == "unresolved_function":
            call = message.unresolved_function
            name, arguments = call.function_name.lower(), call.arguments
            if name in ("and", "or") and len(arguments) == 2:
                return join_terms(And if name == "and" else Or, list(self._flat(message, name)))
            if name in ("not", "!") and len(arguments) == 1:
                return Negation(self.term(arguments[0]))
        found = Fragment(column_of(message), _text(message), problem="not understood")
        comparison = _comparison(message)
        if comparison is not None:
            found.readings += self.of_comparison(comparison)
        return found

    def _flat(self, message: Any, name: str) -> Iterator[Term]:
        """The parts of a chain `a & b & c`, which nests to the left as deeply as it is long."""
        parts, stack = [], [message]
        while stack:
            top = stack.pop()
            call = top.unresolved_function
            if top.WhichOneof("expr_type") == "unresolved_function" and call.function_name.lower() == name:
                stack.extend(reversed(call.arguments))
            else:
                parts.append(top)
        return map(self.term, parts)


def _comparison(message: Any) -> Comparison | None:
    """A column against literals; None if it is anything else."""
    if message.WhichOneof("expr_type") != "unresolved_function":
        return None
    call = message.unresolved_function
    function, arguments = call.function_name.lower(), list(call.arguments)
    operator = _OPERATORS.get(function)
    if operator and len(arguments) == 2 and _name(arguments[0]) is None:
        operator, arguments = _SWAPPED.get(operator, operator), arguments[::-1]
    elif function in _UNARY and len(arguments) == 1:
        operator = _UNARY[function]
    elif function == "in" and arguments:
        operator = "in"
    elif function == "array_contains" and len(arguments) == 2:
        operator = "contains"
    name = _name(arguments[0]) if operator and arguments else None
    if operator is None or name is None or not all(map(_is_foldable, arguments[1:])):
        return None
    return Comparison(operator, name, [_literal(argument) for argument in arguments[1:]])


def _name(message: Any) -> str | None:
    """The dotted name of a column or struct leaf; None for anything else."""
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        name = message.unresolved_attribute.unparsed_identifier
        if "`" not in name:
            return str(name)
        return dotted(name) if _NAME.fullmatch(name) else None
    if kind == "unresolved_extract_value":
        extracted = message.unresolved_extract_value
        above, key = _name(extracted.child), extracted.extraction
        is_name = key.WhichOneof("expr_type") == "literal" and key.literal.WhichOneof("literal_type") == "string"
        return f"{above}.{key.literal.string}" if above and is_name else None
    return None


def _is_foldable(message: Any) -> bool:
    kind = message.WhichOneof("expr_type")
    if kind == "cast":
        return _is_foldable(message.cast.expr)
    if kind == "unresolved_function":
        call = message.unresolved_function
        return call.function_name.lower() in _FOLDABLE and all(map(_is_foldable, call.arguments))
    return bool(kind == "literal")


def _texts(message: Any) -> Iterator[str]:
    """The texts that a foldable expression is made of."""
    kind = message.WhichOneof("expr_type")
    if kind == "cast":
        yield from _texts(message.cast.expr)
    elif kind == "unresolved_function":
        for argument in message.unresolved_function.arguments:
            yield from _texts(argument)
    elif message.literal.WhichOneof("literal_type") in ("string", "binary"):
        yield str(message.literal.string) or "binary"


def _literal(message: Any) -> Literal:
    """A literal with its value, or for Spark to evaluate."""
    found = Literal(column_of(message), texts=list(_texts(message)))
    kind = message.literal.WhichOneof("literal_type") if message.WhichOneof("expr_type") == "literal" else None
    if kind is None or any(own.name == "data_type" for own, _ in message.literal.ListFields()):
        return found
    if kind == "null":
        found.type = NullType()
    elif kind in _TYPES:
        value = getattr(message.literal, kind)
        try:
            if kind == "date":
                value = _EPOCH.date() + dt.timedelta(value)
            elif kind in ("timestamp", "timestamp_ntz"):
                value = _EPOCH + dt.timedelta(microseconds=value)
                value = value.replace(tzinfo=dt.UTC) if kind == "timestamp" else value
        except OverflowError:
            return found
        found.value, found.type = value, _TYPES[kind]
        if is_usual(value, found.type):
            # As text it means one thing only, whatever functions a user may have registered under Spark's names.
            found.spelling = literal_sql(value, "TIMESTAMP_NTZ") or found.spelling
    return found


def _text(message: Any) -> str:
    """A part of a message for people."""
    text = _shown(message)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _shown(message: Any) -> str:
    kind = message.WhichOneof("expr_type")
    if kind == "unresolved_function":
        call = message.unresolved_function
        return f"{call.function_name}({', '.join(map(_shown, call.arguments[:3]))})"
    if kind == "literal":
        return " ".join(str(message.literal).split())
    if kind == "cast":
        return f"CAST({_shown(message.cast.expr)})"
    if kind == "expression_string":
        return str(message.expression_string.expression)
    return _name(message) or str(kind).replace("_", " ")


def column_of(message: Any) -> Column:
    """A part of a message as a Column of its own."""
    from pyspark.sql.connect.column import Column as ConnectColumn
    from pyspark.sql.connect.expressions import Expression

    class Part(Expression):
        def to_plan(self, session: Any) -> Any:
            return message

        def __repr__(self) -> str:
            return _text(message)

    return ConnectColumn(Part())
