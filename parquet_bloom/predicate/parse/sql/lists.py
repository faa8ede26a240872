"""Functions and operators over list columns in sqlglot's trees."""

from __future__ import annotations

from typing import Any, NamedTuple

# By sqlglot's name, or by the SQL name where sqlglot does not know the function. ARRAY_CONTAINS of Snowflake, which
# takes the list last, and `contains` of DuckDB, which also takes strings, are not supported.
_ONE = frozenset({"ArrayContains", "list_contains", "list_has", "array_has"})
_ANY = frozenset({"ArrayOverlaps", "list_has_any", "array_has_any", "arrays_overlap"})
_ALL = frozenset({"ArrayContainsAll", "list_has_all", "array_has_all"})


class ListComparison(NamedTuple):
    """A comparison of a list column with literals.

    Attributes
    ----------
    column, literals : sqlglot's nodes.
    is_any : whether one of the literals suffices; otherwise the list must contain all of them.
    """

    column: Any
    literals: list[Any]
    is_any: bool


def find_list_comparison(node: Any, exp: Any) -> ListComparison | None:
    """Return the list comparison of a node of sqlglot; None for other nodes."""
    name, operands = type(node).__name__, _find_operands(node, exp)
    if name == "Anonymous":
        name = str(node.this).lower()
    if name == "EQ" and type(node.expression) is exp.Any:  # literal = ANY(column)
        column = node.expression.this.unnest()
        return ListComparison(column, [node.this], True) if type(column) in (exp.Column, exp.Dot) else None
    if operands is None:
        return None
    column, values = operands
    if name in _ONE:
        return ListComparison(column, [values], True)
    if name in _ANY | _ALL and type(values) is exp.Array:
        return ListComparison(column, list(values.expressions), name in _ANY)
    return None


def _find_operands(node: Any, exp: Any) -> list[Any] | None:
    """Return the operands of a function or operator that has exactly two arguments; else None."""
    if type(node) is exp.Anonymous:
        return list(node.expressions) if len(node.expressions) == 2 else None
    if any(value for name, value in node.args.items() if name not in ("this", "expression")):
        return None
    operands = [node.args.get("this"), node.args.get("expression")]
    return None if None in operands else operands
