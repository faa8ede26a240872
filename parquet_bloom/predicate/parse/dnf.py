"""Convert the `filters=` lists of pyarrow to the predicate tree.

`[("a", "=", 1), ("b", "in", [2, 3])]` joins its conditions by AND; a list of such lists joins these by OR; a single
condition needs no list.
"""

from __future__ import annotations

from typing import Any

from ...errors import PredicateError
from .. import literal
from ..tree import (
    OPERATORS,
    Compare,
    Contains,
    Equal,
    In,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    all_of,
    any_of,
)

_ONE_LITERAL: dict[str, type[Equal | NotEqual | Contains | NotContains]] = {
    "=": Equal,
    "==": Equal,
    "!=": NotEqual,
    "<>": NotEqual,
    "contains": Contains,
    "not contains": NotContains,
}
_MANY_LITERALS = {"in": In, "not in": NotIn}

SUPPORTED = "the operators are " + ", ".join(map(repr, [*_ONE_LITERAL, *OPERATORS, *_MANY_LITERALS]))


def parse_dnf(filters: Any) -> Node:
    """Parse filters in disjunctive normal form.

    Parameters
    ----------
    filters : a condition `(column, op, value)`, a list of conditions (AND), or a list of such lists (OR of ANDs). The
        column is a dotted path; `op` is "=", "==", "!=", "<>", "<", "<=", ">", ">=", "in", "not in", "contains" or "not
        contains" (of a list: an element equals the value); the value is a Python, numpy, pandas or Arrow scalar, for
        "in" and "not in" any collection of these.

    Raises
    ------
    PredicateError
        The filters have another shape, operator or value; the message names the condition.
    """
    if _is_condition(filters):
        return _parse_condition(filters)
    terms = _require_members(filters, "the filters")
    if all(map(_is_condition, terms)):
        return all_of(map(_parse_condition, terms))
    if any(map(_is_condition, terms)):
        raise PredicateError("the filters mix conditions with lists of conditions: use one list, or a list of lists")
    return any_of([all_of(map(_parse_condition, _require_members(term, "a list of conditions"))) for term in terms])


def _is_condition(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and isinstance(item[0], str)


def _require_members(item: Any, description: str) -> list[Any]:
    if not isinstance(item, list | tuple):
        raise PredicateError(f"{_show(item)}: {description} must be a list of (column, op, value) tuples")
    if not item:
        raise PredicateError(f"{description} must not be empty: leave the filter out to read everything")
    return list(item)


def _parse_condition(item: Any) -> Leaf:
    if not _is_condition(item) or len(item) != 3:
        raise PredicateError(f"{_show(item)}: a condition is a tuple (column, op, value)")
    column, operator, value = item
    column = str.__str__(column)
    name = operator.lower() if isinstance(operator, str) else None
    if name not in _ONE_LITERAL and name not in _MANY_LITERALS and name not in OPERATORS:
        raise PredicateError(f"operator {operator!r} is not supported; {SUPPORTED}", column=column)
    try:
        if name in _MANY_LITERALS:
            return _MANY_LITERALS[name](column, literal.from_collection(value))
        if isinstance(value, list | tuple | set | frozenset):
            raise PredicateError(f"{operator!r} takes one literal, not {_show(value)}; a collection takes 'in'")
        literal_value = literal.from_python(value)
        return (
            _ONE_LITERAL[name](column, literal_value) if name in _ONE_LITERAL else Compare(column, name, literal_value)
        )
    except PredicateError as error:
        raise PredicateError(error.problem, column=column or None) from None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
