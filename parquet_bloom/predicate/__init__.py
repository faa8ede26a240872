"""Predicates: one tree, three notations that are parsed to it, and two evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import PredicateError
from ..util.lazy import late_module
from .sql_parser import parse_sql
from .tree import And, Equal, In, Node, Or, columns

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from . import arrow_expression
else:
    pc = late_module("pyarrow.compute")
    arrow_expression = late_module("parquet_bloom.predicate.arrow_expression")

__all__ = ["And", "Equal", "In", "Node", "Or", "columns", "parse", "parse_sql"]


def parse(where: object, dialect: str | None = None) -> Node:
    """Parse a condition in any notation into a predicate tree.

    Parameters
    ----------
    where : SQL text, pyarrow's `filters=` form, a pyarrow expression, or a tree, which is returned as it is.
    dialect : of SQL text; see `parse_sql`.

    Raises
    ------
    PredicateError
        The condition has none of these forms, or cannot be parsed.
    """
    if isinstance(where, Node):
        return where
    if isinstance(where, str):
        return parse_sql(where, dialect)
    if isinstance(where, list | tuple):
        return arrow_expression.parse_dnf(where)
    if isinstance(where, pc.Expression):
        return arrow_expression.parse_expression(where)
    forms = "SQL text, a list of (column, op, value) tuples or a pyarrow expression"
    raise PredicateError(f"a condition must be {forms}, got {type(where).__name__}")
