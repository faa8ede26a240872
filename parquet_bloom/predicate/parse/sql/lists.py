"""What SQL asks of list columns, in sqlglot's trees: which functions and operators are understood, and as what."""

from __future__ import annotations

from typing import Any, NamedTuple

# Each by sqlglot's name, or, where sqlglot has none in a dialect, by its own. What Snowflake calls ARRAY_CONTAINS takes
# the list last, and DuckDB's `contains` texts too: both are not among these.
_ONE = frozenset({"ArrayContains", "list_contains", "list_has", "array_has"})
_ANY = frozenset({"ArrayOverlaps", "list_has_any", "array_has_any", "arrays_overlap"})
_ALL = frozenset({"ArrayContainsAll", "list_has_all", "array_has_all"})


class ListComparison(NamedTuple):
    """A list column, and the literals that it is asked for.

    Attributes
    ----------
    column, literals : sqlglot's nodes.
    is_any : whether one of the literals is enough; else all are needed.
    """

    column: Any
    literals: list[Any]
    is_any: bool


def find_list_comparison(node: Any, exp: Any) -> ListComparison | None:
    """The comparison that a node of sqlglot's is, as far as its kind tells; None for other nodes."""
    name, operands = type(node).__name__, _find_operands(node, exp)
    if name == "Anonymous":
        name = str(node.this).lower()
    if name == "EQ" and type(node.expression) is exp.Any:  # literal = ANY(column)
        column = node.expression.this.unnest()
        return ListComparison(column, [node.this], True) if type(column) in (exp.Column, exp.Dot) else None
    if operands is None:
        return None
    column, wanted = operands
    if name in _ONE:
        return ListComparison(column, [wanted], True)
    if name in _ANY | _ALL and type(wanted) is exp.Array:
        return ListComparison(column, list(wanted.expressions), name in _ANY)
    return None


def _find_operands(node: Any, exp: Any) -> list[Any] | None:
    """Both operands of a function or operator that has two, and nothing else."""
    if type(node) is exp.Anonymous:
        return list(node.expressions) if len(node.expressions) == 2 else None
    if any(value for name, value in node.args.items() if name not in ("this", "expression")):
        return None
    operands = [node.args.get("this"), node.args.get("expression")]
    return None if None in operands else operands
