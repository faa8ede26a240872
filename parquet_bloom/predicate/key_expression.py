"""Expressions that an index has keys of: `lower(email)`, `upper(email)`, `CAST(n AS STRING)`, `(tenant, id)`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ..errors import PredicateError
from .calls import RULES
from .tree import FUNCTIONS, call_text

TUPLE = "tuple"
_TUPLE_RULE = "hash-of-hashes-1"
_MOST_COLUMNS = 16

_NAME = r'(?:"(?:[^"]|"")+"|[^\s"(),]+)'
_CALL = re.compile(rf"\s*(lower|upper)\s*\(\s*({_NAME})\s*\)\s*", re.IGNORECASE)
_CAST = re.compile(rf"\s*cast\s*\(\s*({_NAME})\s+as\s+(?:string|varchar|text)\s*\)\s*", re.IGNORECASE)
_TUPLE = re.compile(rf"\s*\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)\s*")


class KeyExpression(str):
    """An expression over columns, as its canonical text, by which an index lists it among its columns.

    A column may have that very text as its name, so whether it is an expression has to be asked by `isinstance`.

    Attributes
    ----------
    function : one of `tree.FUNCTIONS`, or `TUPLE`.
    columns : dotted names of its columns.
    rule : version of how its values are computed.
    """

    __slots__ = ("columns", "function", "rule")

    function: str
    columns: tuple[str, ...]
    rule: str

    def __new__(cls, function: str, columns: Sequence[str]) -> Self:
        names = [_quote(column) for column in columns]
        text = f"({', '.join(names)})" if function == TUPLE else call_text(function, *names)
        new = super().__new__(cls, text)
        new.function, new.columns = function, tuple(columns)
        new.rule = _TUPLE_RULE if function == TUPLE else RULES[function]
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.columns)

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest has of it."""
        return {"function": self.function, "columns": list(self.columns), "rule": self.rule}

    @classmethod
    def from_json(cls, text: str, data: Mapping[str, Any]) -> Self:
        """Read an expression back from a manifest.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is not an expression of this version.
        """
        function, columns = data["function"], data["columns"]
        is_known = function == TUPLE or function in FUNCTIONS
        if not is_known or not isinstance(columns, list) or not all(isinstance(one, str) and one for one in columns):
            raise ValueError(f"the expression {text!r} is not known to this version")
        if not (2 <= len(columns) <= _MOST_COLUMNS if function == TUPLE else len(columns) == 1):
            raise ValueError(f"the expression {text!r} has {len(columns)} columns")
        expression = cls(function, columns)
        if expression != text or expression.rule != data["rule"]:
            raise ValueError(f"this version does not know the rule {data['rule']!r} of the expression {text!r}")
        return expression


def parse_key(text: str) -> str:
    """Return a caller's column, or expression over columns, that an index is to have.

    Parameters
    ----------
    text : a column's name, or `lower(column)`, `upper(column)`, `CAST(column AS STRING)` (or VARCHAR, or TEXT), or
        `(column, column, ...)`. Columns in them may be in double quotes. A column whose own name looks like that is
        given in double quotes as a whole.

    Raises
    ------
    PredicateError
        A tuple has a column twice, or too many.
    """
    if match := _CALL.fullmatch(text):
        return KeyExpression(match[1].lower(), [_unquote(match[2])])
    if match := _CAST.fullmatch(text):
        return KeyExpression("string", [_unquote(match[1])])
    if match := _TUPLE.fullmatch(text):
        columns = [_unquote(name) for name in re.findall(_NAME, match[1])]
        if len(set(columns)) < len(columns) or len(columns) > _MOST_COLUMNS:
            raise PredicateError(f"{text} must have 2 to {_MOST_COLUMNS} different columns")
        return KeyExpression(TUPLE, columns)
    is_quoted = re.fullmatch(r'"(?:[^"]|"")+"', text) is not None
    return _unquote(text) if is_quoted and isinstance(parse_key(_unquote(text)), KeyExpression) else text


def _quote(column: str) -> str:
    return column if re.fullmatch(r'[^\s"(),]+', column) else '"' + column.replace('"', '""') + '"'


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
