"""Predicates: one tree (`tree`), three notations (`sql`, `dnf`, `arrow_expression`), a row filter (`evaluate`)."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from ..errors import PredicateError
from .parse.arrow import parse_expression
from .parse.dnf import parse_dnf
from .parse.sql.parser import parse_sql
from .tree import And, Equal, In, Node, Or, columns

__all__ = ["And", "Equal", "In", "Node", "Or", "columns", "parse", "parse_dnf", "parse_expression", "parse_sql"]


def parse(where: Any, dialect: str | None = None) -> Node:
    """The predicate tree of a condition in any notation.

    Parameters
    ----------
    where : SQL text, pyarrow's `filters=` form, a pyarrow expression, or a tree, which is returned as it is.
    dialect : of SQL text; see `parse_sql`.

    Raises
    ------
    PredicateError
        It is none of them, or not understood.
    """
    if isinstance(where, Node):
        return where
    if isinstance(where, str):
        return parse_sql(where, dialect)
    if isinstance(where, list | tuple):
        return parse_dnf(where)
    if isinstance(where, pc.Expression):
        return parse_expression(where)
    forms = "SQL text, a list of (column, op, value) tuples or a pyarrow expression"
    raise PredicateError(f"a condition is {forms}, not {type(where).__name__}")
