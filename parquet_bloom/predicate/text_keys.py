"""Keys as text, such as the lines of a file: parsed by the type of the column that they are keys of."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable

from ..errors import PredicateError, shortened
from ..hashing.column_type import ColumnType, Kind
from . import literal
from .literal import Literal, describe_expected

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_UUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEXADECIMAL = re.compile(r"[xX]'([0-9a-fA-F]*)'")
_BOOLEANS = {"true": True, "false": False}
_LONGEST = 60  # characters of a key in a message


def parse_keys(texts: Iterable[tuple[int, str]], column_type: ColumnType, unit: str = "line") -> tuple[Literal, ...]:
    """Parse keys into literals, in their order.

    Parameters
    ----------
    texts : (number for messages, text). Strings are taken as they are, and bytes as text or as X'AB'; of other types
        blanks around a key are ignored. Numbers, dates, times and timestamps are written as in SQL text, UUIDs with
        hyphens or without.
    column_type : of the column.
    unit : what the numbers count.

    Raises
    ------
    PredicateError
        A key is not a value of the type; the message has its number.
    """
    parse, expected = _PARSERS.get(column_type.kind), describe_expected(column_type)
    if parse is None:
        raise PredicateError(f"values of the type {column_type} cannot be compared")
    verbatim = column_type.kind in (Kind.STRING, Kind.BYTES)
    keys: list[Literal] = []
    for number, text in texts:
        try:
            value = parse(text if verbatim else text.strip())
        except PredicateError:
            value = None
        if value is None:
            raise PredicateError(f"{unit} {number:,}: {shortened(repr(text), _LONGEST)} is not {expected}")
        keys.append(value)
    return tuple(keys)


def _parse_integer(text: str) -> Literal:
    return int(text) if _INTEGER.fullmatch(text) else None


def _parse_decimal(text: str) -> Literal:
    return literal.parse_number(text[1:] if text[:1] in ("+", "-") else text, negative=text[:1] == "-")


def _parse_bytes(text: str) -> Literal:
    match = _HEXADECIMAL.fullmatch(text)
    return text if match is None else literal.parse_hexadecimal(match[1])


def _parse_uuid(text: str) -> Literal:
    return uuid.UUID(text) if _UUID.fullmatch(text) else None


def _parse_typed(kind: str) -> Callable[[str], Literal]:
    return lambda text: literal.parse_typed(kind, text)


_PARSERS: dict[Kind, Callable[[str], Literal]] = {
    Kind.BOOLEAN: lambda text: _BOOLEANS.get(text.lower()),
    Kind.INTEGER: _parse_integer,
    Kind.DECIMAL: _parse_decimal,
    Kind.FLOAT: _parse_typed("double"),
    Kind.DATE: _parse_typed("date"),
    Kind.TIME: _parse_typed("time"),
    Kind.TIMESTAMP: _parse_typed("timestamp"),
    Kind.STRING: lambda text: text,
    Kind.BYTES: _parse_bytes,
    Kind.UUID: _parse_uuid,
}
