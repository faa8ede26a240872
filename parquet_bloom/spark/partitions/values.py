"""Partition values: the types that Spark infers from the texts in folders' names, and the values of those types."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
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

from ..session.fallback import CannotPush

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_JAVA_DOUBLE = re.compile(r"[\0- ]*([+-]?)(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)[\0- ]*")
_HEXADECIMAL = re.compile(r"[\0- ]*[+-]?0[xX][0-9a-fA-F.]+[pP].*", re.DOTALL)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9])?")
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_NUMBERS: set[type[DataType]] = {IntegerType, LongType, DecimalType, DoubleType}
_DIGITS: dict[type[DataType], int] = {IntegerType: 10, LongType: 20}
_MOST_DIGITS = 38
_OFFSET = re.compile(r"Z|(?:UTC|GMT|UT)?(?:([+-])([01]?[0-9])(?::([0-5][0-9]))?)?")


def infer_type(texts: Iterable[str | None], zone: str, wall_clock: bool) -> DataType:
    """Infer the type of a partition column as Spark does.

    Parameters
    ----------
    texts : the values in folders' names; None for the folder of nulls.
    zone : the session's time zone.
    wall_clock : whether timestamps are TIMESTAMP_NTZ.

    Raises
    ------
    CannotPush
        The type that Spark infers is not certain.
    """
    types = {_infer_one(text, zone, wall_clock) for text in texts if text is not None}
    return reduce(_widen, sorted(types, key=repr)) if types else NullType()


def _infer_one(text: str, zone: str, wall_clock: bool) -> DataType:
    if not text.isascii() and text and all(character.isdigit() or character in "+-." for character in text):
        raise CannotPush(f"{text!r} has digits of another script")
    if _INTEGER.fullmatch(text):
        for kind, bits in ((IntegerType, 32), (LongType, 64)):
            if -(1 << bits - 1) <= int(text) < 1 << bits - 1:
                return kind()
    if _DECIMAL.fullmatch(text):
        number = decimal.Decimal(text)
        _, digits, exponent = number.as_tuple()
        if isinstance(exponent, int) and exponent <= 0 and "." not in text and "e" not in text.lower():
            if len(digits) <= _MOST_DIGITS:
                return DecimalType(len(digits), 0)
        elif isinstance(exponent, int) and exponent >= 0:
            raise CannotPush(f"{text!r} is an integer in an uncommon form")
    if _JAVA_DOUBLE.fullmatch(text):
        return DoubleType()
    if _HEXADECIMAL.fullmatch(text):
        raise CannotPush(f"{text!r} is a number in an uncommon form")
    kinds: list[DataType] = [TimestampNTZType() if wall_clock else TimestampType(), DateType()]
    for data_type, form in zip(kinds, (_TIMESTAMP, _DAY), strict=True):
        if form.fullmatch(text) and _is_valid(text):
            if isinstance(data_type, TimestampType):
                find_zone(zone)
            return data_type
    return StringType()


def _is_valid(text: str) -> bool:
    try:
        return dt.datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _widen(first: DataType, second: DataType) -> DataType:
    """Return the type that holds the values of both types."""
    if first == second:
        return first
    kinds = {type(first), type(second)}
    if kinds <= _NUMBERS:
        if DoubleType in kinds:
            return DoubleType() if IntegerType in kinds else StringType()
        if DecimalType in kinds:
            digits = max(_DIGITS.get(type(kind), 0) or getattr(kind, "precision", 0) for kind in (first, second))
            return DecimalType(digits, 0)
        return LongType()
    if kinds <= {DateType, TimestampType} or kinds <= {DateType, TimestampNTZType}:
        return next(kind for kind in (first, second) if not isinstance(kind, DateType))
    return StringType()


def parse_value(text: str | None, data_type: DataType, zone: str) -> Any:
    """Parse a partition value as Spark casts its text to the column's type.

    Raises
    ------
    CannotPush
        The value that Spark reads is not certain.
    """
    if text is None:
        return None
    convert = _CONVERSIONS.get(type(data_type))
    value = None if convert is None else convert(text, data_type, zone)
    if value is None or getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise CannotPush(f"{text!r} is not surely a {data_type.simpleString()}")
    return value


def _parse_integer(text: str, data_type: DataType, zone: str) -> int | None:
    bits = _BITS[type(data_type)]
    fits = _INTEGER.fullmatch(text) is not None and -(1 << bits - 1) <= int(text) < 1 << bits - 1
    return int(text) if fits else None


def _parse_double(text: str, data_type: DataType, zone: str) -> float | None:
    return (
        float(text.strip("\0 \t\r\n\fdDfF")) if _DECIMAL.fullmatch(text.rstrip("dDfF")) else _parse_special_double(text)
    )


def _parse_special_double(text: str) -> float | None:
    match = _JAVA_DOUBLE.fullmatch(text)
    return float(text.strip().rstrip("dDfF") if match[3] else match[1] + match[2]) if match else None


def _parse_decimal(text: str, data_type: Any, zone: str) -> decimal.Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    _, digits, exponent = decimal.Decimal(text).as_tuple()
    if not isinstance(exponent, int) or -exponent > data_type.scale:
        return None
    integer_digits = len(digits) + exponent
    return decimal.Decimal(text) if integer_digits <= data_type.precision - data_type.scale else None


def _parse_date(text: str, data_type: DataType, zone: str) -> dt.date | None:
    return dt.date.fromisoformat(text) if _DAY.fullmatch(text) and _is_valid(text) else None


def _parse_local_time(text: str, data_type: DataType, zone: str) -> dt.datetime | None:
    is_timestamp = (_TIMESTAMP.fullmatch(text) or _DAY.fullmatch(text)) and _is_valid(text)
    return dt.datetime.fromisoformat(text) if is_timestamp else None


def _parse_instant(text: str, data_type: DataType, zone: str) -> dt.datetime | None:
    local_time = _parse_local_time(text, data_type, zone)
    return None if local_time is None else local_time.replace(tzinfo=find_zone(zone)).astimezone(dt.UTC)


def find_zone(name: str) -> dt.tzinfo:
    """Find a time zone by Spark's name of it.

    Raises
    ------
    CannotPush
        Python has no time zone of that name.
    """
    if not name:
        raise CannotPush("the session's time zone is not known; give the option 'timeZone'")
    offset = _OFFSET.fullmatch(name)
    if offset:
        difference = dt.timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        return dt.timezone(-difference if offset[1] == "-" else difference)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CannotPush(f"the time zone {name!r} is not known to Python") from None


_CONVERSIONS: dict[type[DataType], Callable[[str, Any, str], Any]] = {
    ByteType: _parse_integer,
    ShortType: _parse_integer,
    IntegerType: _parse_integer,
    LongType: _parse_integer,
    DoubleType: _parse_double,
    FloatType: lambda text, *_: None,
    DecimalType: _parse_decimal,
    StringType: lambda text, *_: text,
    BooleanType: lambda text, *_: {"true": True, "false": False}.get(text.lower()),
    DateType: _parse_date,
    TimestampType: _parse_instant,
    TimestampNTZType: _parse_local_time,
}
