"""Values as JSON has them -> literals, exactly.

Numbers, texts and booleans may stand for themselves: a whole number is exact however long, a number with a fraction or
an exponent is a double. All else, and what a client's JSON would round, is {"type": ..., "value": ...}.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ..hashing.coerce import coerce, parse_date, parse_time, parse_timestamp
from ..hashing.column_type import Kind, from_arrow
from .errors import ApiError

MOST_DIGITS = 100

_WHOLE = re.compile(rf"-?\d{{1,{MOST_DIGITS}}}", re.ASCII)
_DECIMAL = re.compile(rf"-?\d{{1,{MOST_DIGITS}}}(\.\d{{1,{MOST_DIGITS}}})?([eE][+-]?\d{{1,3}})?", re.ASCII)
_HEX = re.compile(r"([0-9a-fA-F]{2})*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FINE = re.compile(r"(.*:\d\d)\.(\d{7,9})( ?(?:Z|[+-]\d\d(?::?\d\d)?))?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError(f"no whole number of up to {MOST_DIGITS} digits")


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value in ("Infinity", "-Infinity"):
            return float(value)
        if not _DECIMAL.fullmatch(value):
            raise ValueError('no number such as 0.25 or 1e9, nor "Infinity" or "-Infinity"; NaN equals nothing')
        found = float(value)
        if found in (float("inf"), float("-inf")):
            raise ValueError("beyond the range of doubles")
        return found
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > 1 << 53:
            raise ValueError("a whole number that doubles do not tell from its neighbours; write it as an int")
        return float(value)
    raise ValueError("no number")


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return decimal.Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return decimal.Decimal(value)
    raise ValueError('no decimal; it is written as a text, such as "12.50", as a fraction in JSON is a double')


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("no text")


def _bytes(value: Any) -> bytes:
    if isinstance(value, str) and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    raise ValueError('no bytes in hexadecimal, such as "00ff"')


def _uuid(value: Any) -> uuid.UUID:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return uuid.UUID(value)
    raise ValueError("no UUID")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("neither true nor false")


def _date(value: Any) -> dt.date:
    found = parse_date(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('no date such as "2026-01-31"')
    return found


def _time(value: Any) -> Any:
    text, nanos, zone = _fine(value)
    found = parse_time(text)
    if found is None or zone:
        raise ValueError('no time such as "12:30:01.25", with up to nine digits of a second')
    if nanos is None:
        return found
    seconds = (found.hour * 60 + found.minute) * 60 + found.second
    return pa.scalar(seconds * 1_000_000_000 + nanos, pa.time64("ns"))


def _timestamp(value: Any) -> Any:
    text, nanos, zone = _fine(value)
    found = parse_timestamp(text + zone)
    if found is None:
        raise ValueError('no timestamp such as "2026-01-31T12:30:01.25Z", with or without a zone, of up to nine digits')
    if nanos is None:
        return found
    zoned = found.tzinfo is not None
    seconds = ((found if zoned else found.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(seconds=1)
    count = seconds * 1_000_000_000 + nanos
    if not -(2**63) < count < 2**63:
        raise ValueError("with nanoseconds, years are from 1678 to 2261")
    return pa.scalar(count, pa.timestamp("ns", "UTC" if zoned else None))


def _fine(value: Any) -> tuple[str, int | None, str]:
    """A text without what is below microseconds, and with that: (text, nanoseconds of its second, zone)."""
    if not isinstance(value, str):
        return "", None, ""
    match = _FINE.fullmatch(value)
    return (match[1], int(match[2].ljust(9, "0")), match[3] or "") if match else (value, None, "")


_TYPES: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": _float,
    "decimal": _decimal,
    "string": _string,
    "bytes": _bytes,
    "uuid": _uuid,
    "boolean": _boolean,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
}
TYPES = tuple(_TYPES)

_TYPE_OF_KIND = {
    Kind.INTEGER: "int",
    Kind.FLOAT: "float",
    Kind.DECIMAL: "decimal",
    Kind.UUID: "uuid",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMESTAMP: "timestamp",
}


def parse_literals(values: Sequence[Any]) -> list[Any]:
    """The literals that a request's values mean.

    Raises
    ------
    Refused
        One of them means none; it says which, and why.
    """
    plain = (int, str, float, bool)
    return [value if type(value) in plain else _literal(value, f"values[{at}]") for at, value in enumerate(values)]


def _literal(value: Any, where: str) -> Any:
    if value is None:
        raise ApiError(422, f"{where}: null is not indexed: no file is known to have one")
    if not isinstance(value, dict) or set(value) != {"type", "value"}:
        raise ApiError(422, f'{where}: neither a number, a text or a boolean, nor {{"type": ..., "value": ...}}')
    return _typed(value["type"], value["value"], where)


def _typed(name: Any, value: Any, where: str) -> Any:
    if not isinstance(name, str) or name not in _TYPES:
        raise ApiError(422, f"{where}: the type is one of {', '.join(TYPES)}")
    try:
        return _TYPES[name](value)
    except ValueError as error:
        raise ApiError(422, f"{where}: of type {name}, but {error}") from None


def parse_text_literal(text: str, name: str | None, kinds: Iterable[Kind]) -> Any:
    """The literal that a text in a URL means.

    Parameters
    ----------
    name : the type that it is said to have; None for the one in which the column is stored.
    kinds : those ways, as far as the index knows of any.

    Raises
    ------
    Refused
        It is none of that type, or the column is stored in several that texts are understood differently by.
    """
    if name is None:
        names = {_TYPE_OF_KIND.get(kind, "string") for kind in kinds} or {"string"}
        if names == {"int", "decimal"}:
            names = {"decimal"}
        if len(names) > 1:
            raise ApiError(
                422, f"value: files have the column in different types: add &type= ({', '.join(sorted(names))})"
            )
        (name,) = names
    return _typed(name, text, "value")


@lru_cache(maxsize=256)
def _is_zone(timezone: str) -> bool:
    instants = from_arrow(pa.timestamp("us", "UTC"))
    return coerce(dt.datetime(2000, 1, 1), instants, timezone).unknown is None


def check_timezone(timezone: str) -> None:
    """Refuse a mistyped zone, which would only make every file a candidate."""
    if len(timezone) > 100 or not _is_zone(timezone):
        raise ApiError(422, f"timezone: {timezone[:100]!r} is no time zone that is known here")
