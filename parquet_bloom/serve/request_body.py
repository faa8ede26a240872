"""Read the bodies of requests within limits, and parse them strictly."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

import pyarrow as pa
from starlette.requests import Request

from ..hashing.coerce import coerce, parse_date, parse_time, parse_timestamp
from ..hashing.column_type import Kind, from_arrow
from .error_responses import ApiError
from .service_settings import Settings

MAX_DIGITS = 100

_WHOLE = re.compile(rf"-?\d{{1,{MAX_DIGITS}}}", re.ASCII)
_DECIMAL = re.compile(rf"-?\d{{1,{MAX_DIGITS}}}(\.\d{{1,{MAX_DIGITS}}})?([eE][+-]?\d{{1,3}})?", re.ASCII)
_HEX = re.compile(r"([0-9a-fA-F]{2})*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FINE = re.compile(r"(.*:\d\d)\.(\d{7,9})( ?(?:Z|[+-]\d\d(?::?\d\d)?))?", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _parse_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) <= 1 << 53:  # 1.0 is an integer in JSON
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise ValueError(f"not an integer of up to {MAX_DIGITS} digits")


def _parse_float(value: object) -> float:
    if isinstance(value, str):
        if value in ("Infinity", "-Infinity"):
            return float(value)
        if not _DECIMAL.fullmatch(value):
            raise ValueError('not a number such as 0.25 or 1e9, nor "Infinity" or "-Infinity"; NaN equals nothing')
        number = float(value)
        if number in (float("inf"), float("-inf")):
            raise ValueError("out of the range of doubles")
        return number
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > 1 << 53:
            raise ValueError("an integer that a double cannot represent exactly; use type int")
        return float(value)
    raise ValueError("not a number")


def _decimal(value: object) -> decimal.Decimal:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return decimal.Decimal(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        return decimal.Decimal(_parse_int(value))
    raise ValueError('not a decimal; write it as a string such as "12.50", as a fraction in JSON is a double')


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("not a string")


def _bytes(value: object) -> bytes:
    if isinstance(value, str) and _HEX.fullmatch(value):
        return bytes.fromhex(value)
    raise ValueError('not bytes in hexadecimal such as "00ff"')


def _uuid(value: object) -> uuid.UUID:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return uuid.UUID(value)
    raise ValueError("not a UUID")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("neither true nor false")


def _date(value: object) -> dt.date:
    date = parse_date(value) if isinstance(value, str) else None
    if date is None:
        raise ValueError('not a date such as "2026-01-31"')
    return date


def _time(value: object) -> dt.time | pa.Scalar:
    text, nanos, zone = _split_nanoseconds(value)
    time = parse_time(text)
    if time is None or zone:
        raise ValueError('not a time such as "12:30:01.25", with up to nine digits of a second')
    if nanos is None:
        return time
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return pa.scalar(seconds * 1_000_000_000 + nanos, pa.time64("ns"))


def _timestamp(value: object) -> dt.datetime | pa.Scalar:
    text, nanos, zone = _split_nanoseconds(value)
    timestamp = parse_timestamp(text + zone)
    if timestamp is None:
        raise ValueError(
            'not a timestamp such as "2026-01-31T12:30:01.25Z", with or without a zone, of up to nine digits'
        )
    if nanos is None:
        return timestamp
    zoned = timestamp.tzinfo is not None
    seconds = ((timestamp if zoned else timestamp.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(seconds=1)
    count = seconds * 1_000_000_000 + nanos
    if not -(2**63) < count < 2**63:
        raise ValueError("timestamps with nanoseconds are limited to the years 1678 to 2261")
    return pa.scalar(count, pa.timestamp("ns", "UTC" if zoned else None))


def _split_nanoseconds(value: object) -> tuple[str, int | None, str]:
    """Split a time with more than six digits of a second into (text without fraction, nanoseconds, zone)."""
    if not isinstance(value, str):
        return "", None, ""
    match = _FINE.fullmatch(value)
    return (match[1], int(match[2].ljust(9, "0")), match[3] or "") if match else (value, None, "")


_TYPES: dict[str, Callable[[object], object]] = {
    "int": _parse_int,
    "float": _parse_float,
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

_DAY = r"(?!0000)[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-9])|(?:0[13-9]|1[0-2])-30|(?:0[13578]|1[02])-31)"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_OFFSET = r"(?: ?(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?))?"
_FINE_YEARS = r"(?=16(?:7[89]|[89])|1[789]|2[01]|22[0-5]|226[01])"  # which nanoseconds in 64 bits reach
_NUMBER = r"^-?[0-9]{1,100}(?:\.[0-9]{1,100})?"
_WHOLE_FORM = {"type": "integer", "minimum": -9.99e99, "maximum": 9.99e99}

FORMS: dict[str, list[Mapping[str, object]]] = {
    "int": [_WHOLE_FORM, {"type": "string", "pattern": r"^-?[0-9]{1,100}$"}],
    "float": [
        {"type": "number", "minimum": -(2**53), "maximum": 2**53},
        {"type": "string", "pattern": rf"{_NUMBER}(?:[eE][+-]?[0-9]{{1,2}})?$|^-?Infinity$"},
    ],
    "decimal": [_WHOLE_FORM, {"type": "string", "pattern": rf"{_NUMBER}(?:[eE][+-]?[0-9]{{1,3}})?$"}],
    "string": [{"type": "string"}],
    "bytes": [{"type": "string", "pattern": "^(?:[0-9a-fA-F]{2})*$"}],
    "uuid": [{"type": "string", "pattern": "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"}],
    "boolean": [{"type": "boolean"}, {"enum": ["true", "false"]}],
    "date": [{"type": "string", "pattern": f"^{_DAY}$", "examples": ["2026-01-31"]}],
    "time": [{"type": "string", "pattern": rf"^{_CLOCK}(?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?$"}],
    "timestamp": [
        {"type": "string", "pattern": rf"^{_DAY}(?:[ T]{_CLOCK}(?::[0-5][0-9](?:\.[0-9]{{1,6}})?)?{_OFFSET})?$"},
        {"type": "string", "pattern": rf"^{_FINE_YEARS}{_DAY}[ T]{_CLOCK}:[0-5][0-9]\.[0-9]{{7,9}}{_OFFSET}$"},
    ],
}
"""The JSON forms of the values of each type, as the OpenAPI document describes them."""

MAX_TIMEZONE = 100
"""Characters."""

_TYPE_OF_KIND = {
    Kind.INTEGER: "int",
    Kind.FLOAT: "float",
    Kind.DECIMAL: "decimal",
    Kind.UUID: "uuid",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMESTAMP: "timestamp",
}


def parse_literals(values: Sequence[object], name: str = "values", part: str = "") -> list[object]:
    """Parse the values of a request.

    Parameters
    ----------
    name, part : the field that they are in, and their position in its items, for messages.

    Raises
    ------
    ApiError
        A value is invalid.
    """
    plain = (int, str, float, bool)
    return [value if type(value) in plain else _literal(value, f"{name}[{i}]{part}") for i, value in enumerate(values)]


def _literal(value: object, where: str) -> object:
    if value is None:
        raise ApiError(422, f"{where}: null cannot be looked up, as nulls are not indexed")
    if not isinstance(value, dict) or set(value) != {"type", "value"}:
        raise ApiError(422, f'{where}: neither a number, a string or a boolean, nor {{"type": ..., "value": ...}}')
    return _parse_typed(value["type"], value["value"], where)


def _parse_typed(name: object, value: object, where: str) -> object:
    if not isinstance(name, str) or name not in _TYPES:
        raise ApiError(422, f"{where}: the type must be one of {', '.join(TYPES)}")
    try:
        return _TYPES[name](value)
    except ValueError as error:
        raise ApiError(422, f"{where}: invalid value of type {name}: {error}") from None


def parse_text_literal(text: str, name: str | None, kinds: Iterable[Kind]) -> object:
    """Parse a value given as text in a URL.

    Parameters
    ----------
    text : the value.
    name : its type; None for the type in which the column is stored.
    kinds : the types in which indexed files store the column.

    Raises
    ------
    ApiError
        It is not valid for the type, or files store the column in types that parse text differently.
    """
    if name is None:
        names = {_TYPE_OF_KIND.get(kind, "string") for kind in kinds} or {"string"}
        if names == {"int", "decimal"}:
            names = {"decimal"}
        if len(names) > 1:
            raise ApiError(
                422, f"value: files store the column in different types: add &type= ({', '.join(sorted(names))})"
            )
        (name,) = names
    return _parse_typed(name, text, "value")


@lru_cache(maxsize=256)
def _is_zone(timezone: str) -> bool:
    instants = from_arrow(pa.timestamp("us", "UTC"))
    return coerce([dt.datetime(2000, 1, 1)], instants, timezone).unknown is None


def check_timezone(timezone: str) -> None:
    """Reject an unknown time zone, which would otherwise make every file a candidate."""
    if len(timezone) > MAX_TIMEZONE or not _is_zone(timezone):
        raise ApiError(422, f"timezone: {timezone[:100]!r} is not a known time zone")


MAX_KEY_COLUMNS = 16
"""Columns of a key."""

_MAX_KEYS = MAX_KEY_COLUMNS
_KEYS = "keys"  # the field whose items may be lists
_MAX_NUMBER_LENGTH = 4 * MAX_DIGITS  # characters
_BODIES_AT_A_TIME = 8
_DRAIN_SECONDS = 2.0
_JSON = re.compile(r"application/json\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)


class Budget:
    """The number of bytes that bodies in memory may take together."""

    def __init__(self, settings: Settings):
        self.remaining = _BODIES_AT_A_TIME * settings.max_body

    def take(self, count: int) -> None:
        if count > self.remaining:
            raise ApiError(429, "too many large requests at once", close=True, headers={"retry-after": "1"})
        self.remaining -= count


async def read_body(request: Request, settings: Settings, budget: Budget) -> bytes:
    """Read the body of a request.

    Raises
    ------
    ApiError
        The body is too long, is sent too slowly, or is of another type by its headers; without one it is JSON.
    """
    kind = request.headers.get("content-type")
    encoding = request.headers.get("content-encoding", "identity")
    if (kind is not None and not _JSON.fullmatch(kind.strip())) or encoding.lower() != "identity":
        what = kind if encoding.lower() == "identity" else f"encoded ({encoding})"
        problem = f"the body must be application/json in UTF-8, not {what}: send Content-Type: application/json"
        raise ApiError(415, problem, close=True)
    stated = request.headers.get("content-length", "0")
    body = bytearray()
    taken = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            if not stated.isdecimal() or int(stated[:20]) > settings.max_body:
                await _drain(request, settings)
                raise _too_long(settings)
            async for chunk in request.stream():
                if len(body) + len(chunk) > settings.max_body:
                    body.clear()
                    await _drain(request, settings)
                    raise _too_long(settings)
                budget.take(len(chunk))
                taken += len(chunk)
                body += chunk
    except TimeoutError:
        text = f"the body took longer than {settings.body_seconds:g} seconds"
        raise ApiError(408, text, close=True) from None
    finally:
        budget.remaining += taken
    return bytes(body)


def _too_long(settings: Settings) -> ApiError:
    return ApiError(413, f"the body is longer than {settings.max_body:,} bytes", close=True)


async def _drain(request: Request, settings: Settings) -> None:
    """Read and drop a limited part of the rest, as a client that is still sending could not read the response."""
    remaining = _BODIES_AT_A_TIME * settings.max_body
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while remaining > 0:
                message = await request.receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                remaining -= len(message.get("body", b""))
    except TimeoutError:
        pass


def parse_body(data: bytes, max_items: int) -> dict[str, object]:
    """Parse a body, and check limits that all requests have before anything large is made of it.

    Parameters
    ----------
    data : the body.
    max_items : maximum number of items of a list.

    Raises
    ------
    ApiError
        The body is not a JSON object, or exceeds a limit.
    """
    try:
        document = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ApiError(400, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    if not isinstance(document, dict):
        raise ApiError(422, "the body must be a JSON object")
    if len(document) > _MAX_KEYS:
        raise ApiError(422, "the body has too many fields")
    for name, value in document.items():
        if isinstance(value, list) and len(value) > max_items:
            raise ApiError(422, f"{name[:50]}: {len(value):,} items are too many; the maximum is {max_items:,}")
        for i, item in enumerate(value if isinstance(value, list) else [value]):
            is_key = name == _KEYS and isinstance(value, list) and isinstance(item, list)  # of several columns
            if is_key and len(item) <= _MAX_KEYS and all(map(_is_value, item)):
                continue
            inner = list(item.values()) if isinstance(item, dict) else ()
            if isinstance(item, list) or len(inner) > _MAX_KEYS or any(isinstance(part, list | dict) for part in inner):
                where = f"{name[:50]}[{i}]" if isinstance(value, list) else name[:50]
                raise ApiError(422, f"{where}: lists and objects are not allowed here")
    return document


def _is_value(item: object) -> bool:
    """Return whether an item is a plain value, or an object of plain values."""
    inner = item.values() if isinstance(item, dict) else [item]
    return len(inner) <= _MAX_KEYS and not any(isinstance(part, list | dict) for part in inner)


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ApiError(422, f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _MAX_NUMBER_LENGTH:
        raise ApiError(422, f"a number has more than {_MAX_NUMBER_LENGTH} characters")
    number = float(text)
    if not math.isfinite(number):
        raise ApiError(422, f"{text[:40]} is out of the range of doubles; write it as a decimal")
    return number


def _constant(name: str) -> NoReturn:
    raise ApiError(400, f"the body is not JSON: {name} is not a number")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ApiError(400, "the body has an object with the same field twice")
    return result


_DECODER = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=_constant, object_pairs_hook=_object)
