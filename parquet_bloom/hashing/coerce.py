"""A predicate's literal -> the domain values of one column that can equal it, or a reason why they are unknown.

There are three results: values (probe them), no values (nothing in such a column equals the literal), or unknown with
a reason, so that everything is read. Engines coerce differently across types (Spark compares a string column with a
number as numbers, so that '05' equals 5), so a literal of another family is never guessed at.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.hash.xxh64 import hash_one
from .column_type import NANOS_PER_DAY, UNITS_PER_SECOND, ColumnType, Domain, Kind, encode, integer_range

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_EXACT_IN_DOUBLE = 1 << 53


@dataclass(frozen=True, slots=True)
class Coerced:
    """A literal in a column's type.

    Attributes
    ----------
    values : domain values that may equal the literal; empty when none can.
    unknown : reason why the values are unknown; None when `values` is complete.
    """

    values: tuple[Domain, ...] = ()
    unknown: str | None = None


ABSENT = Coerced()


def _make_unknown(literal: Any, column_type: ColumnType) -> Coerced:
    try:
        shown = repr(literal)
    except (ValueError, OverflowError):  # Python does not format integers of thousands of digits, nor Arrow far years
        shown = f"this {type(literal).__name__}"
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return Coerced(unknown=f"{shown} cannot be compared exactly with {column_type}")


def coerce(literal: Any, column_type: ColumnType, timezone: str = "UTC") -> Coerced:
    """Return the domain values of `column_type` that equal `literal`.

    Parameters
    ----------
    literal : None, bool, int, float, Decimal, str, bytes, date, time, datetime, UUID, or a temporal `pyarrow.Scalar`.
        None equals nothing. NaN is always unknown.
    column_type : the column's type in the file.
    timezone : zone in which a datetime without one (and text) is read where the column holds instants.
    """
    if literal is None:
        return ABSENT
    if isinstance(literal, pa.Scalar):
        return _arrow_scalar(literal, column_type, timezone)
    if isinstance(literal, float) and math.isnan(literal):
        return Coerced(unknown="NaN is not looked for in filters or ranges")
    handler = _HANDLERS.get(column_type.kind)
    result = handler(literal, column_type, timezone) if handler else None
    return _make_unknown(literal, column_type) if result is None else result


_OF_KIND: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int, float, decimal.Decimal),
    Kind.DECIMAL: (int, float, decimal.Decimal),
    Kind.FLOAT: (int, float, decimal.Decimal),
    Kind.DATE: (dt.date,),
    Kind.TIME: (dt.time,),
    Kind.TIMESTAMP: (dt.date,),
    Kind.STRING: (str, bytes, bytearray, memoryview),
    Kind.BYTES: (str, bytes, bytearray, memoryview),
    Kind.UUID: (uuid.UUID, bytes, bytearray, memoryview),
}
_BELOW_MICROSECONDS = re.compile(r"(\.\d{6})\d{1,3}(?!\d)")


def is_of_kind(literal: Any, column_type: ColumnType) -> bool:
    """Return whether a literal is of the kind of a column's values, such as a number for a column of any numbers.

    `coerce` may still not know what equals it: a number that no double holds, an instant in a column of wall clocks.
    """
    kind = column_type.kind
    if kind not in _OF_KIND:
        return True
    if isinstance(literal, pa.Scalar):
        if pa.types.is_temporal(literal.type):
            return (kind is Kind.TIME) if pa.types.is_time(literal.type) else kind in (Kind.DATE, Kind.TIMESTAMP)
        literal = literal.as_py()
    if isinstance(literal, str) and kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP):
        parse = parse_time if kind is Kind.TIME else parse_timestamp
        return parse(_BELOW_MICROSECONDS.sub(r"\1", literal)) is not None
    if isinstance(literal, str) and kind is Kind.UUID:
        return _UUID_TEXT.fullmatch(literal) is not None
    return isinstance(literal, _OF_KIND[kind]) and (kind is Kind.BOOLEAN) == isinstance(literal, bool)


def stored_forms(values: Iterable[Domain], column_type: ColumnType) -> list[bytes]:
    """Return every byte string as which one of the values may be stored in the file."""
    return [form for value in values for form in encode(value, column_type)]


def hashes(values: Iterable[Domain], column_type: ColumnType) -> np.ndarray:
    """Return the hashes (uint64) of all stored forms of the values: a filter without any of them has no such value."""
    return np.array([hash_one(form) for form in stored_forms(values, column_type)], dtype=np.uint64)


# ------------------------------------------------------------------------------------------- one handler a kind
# Each returns Coerced, or None where the values are unknown.


def _in_range(value: int, column_type: ColumnType) -> Coerced:
    low, high = integer_range(column_type)
    return Coerced((value,)) if low <= value <= high else ABSENT


def _integer(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int):
        return _in_range(literal, column_type)
    if isinstance(literal, decimal.Decimal) and literal.is_finite():
        if literal and literal.adjusted() > 40:  # far outside of any range, and too long to write out
            return ABSENT
        return _in_range(int(literal or 0), column_type) if literal == literal.to_integral_value() else ABSENT
    if isinstance(literal, float):
        if math.isinf(literal) or literal != math.floor(literal):
            return ABSENT
        # Past 2^53 an engine that compares as doubles lets several integers equal the literal.
        return _in_range(int(literal), column_type) if abs(literal) < _EXACT_IN_DOUBLE else None
    return None


def _decimal(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, float):
        # Decimals of up to 15 digits and doubles match one to one, by the shortest text; past that several decimals
        # are the same double.
        if math.isinf(literal):
            return ABSENT
        if (column_type.precision or 99) > 15:
            return None
        literal = decimal.Decimal(repr(float(literal)))  # NumPy's own repr names its type
        nearest = literal.quantize(decimal.Decimal(1).scaleb(-column_type.scale), context=_WIDE)
        if float(nearest) != float(literal):
            return ABSENT
        literal = nearest
    if isinstance(literal, int):
        return _in_range(literal * 10**column_type.scale, column_type) if column_type.scale >= 0 else None
    if isinstance(literal, decimal.Decimal) and literal.is_finite():
        if not -100 < literal.adjusted() < 100:  # far beyond any decimal's digits, and too long to write out
            return ABSENT if literal else Coerced((0,))
        unscaled = literal.scaleb(column_type.scale, _EXACT)
        return _in_range(int(unscaled), column_type) if unscaled == unscaled.to_integral_value() else ABSENT
    return None


_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_WIDE = decimal.Context(prec=800)
_FLOAT_FORMATS = {2: "<e", 4: "<f"}


def _float(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int):
        if abs(literal) > _EXACT_IN_DOUBLE:
            return None
        literal = float(literal)
    elif isinstance(literal, decimal.Decimal):
        if not literal.is_finite():
            return None
        exact, literal = literal, float(literal)  # SQL's 0.1 means the float nearest to it
        if column_type.length != 8 and math.isfinite(literal):
            # Avoid double rounding: a tie produced by the first rounding is broken by the digits that it dropped.
            rest = exact.compare(decimal.Decimal.from_float(literal), _WIDE)
            literal = math.nextafter(literal, math.inf * int(rest)) if rest else literal
    if not isinstance(literal, float):
        return None
    # In narrower floats the literal means its nearest value, as in DuckDB; an engine that widens the column instead
    # (Spark, pyarrow) finds no row there unless both are the same.
    return Coerced((_narrow(literal, column_type.length or 8),))


def _narrow(value: float, width: int) -> float:
    if width == 8:
        return value
    try:
        return float(struct.unpack(_FLOAT_FORMATS[width], struct.pack(_FLOAT_FORMATS[width], value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _string(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, str):
        return _encode_text(literal)
    return Coerced((bytes(literal),)) if isinstance(literal, bytes | bytearray | memoryview) else None


def _encode_text(text: str) -> Coerced:
    try:
        return Coerced((text.encode("utf-8"),))
    except UnicodeEncodeError:  # a lone surrogate: no UTF-8 column holds it
        return ABSENT


_ESCAPED_BYTE = re.compile(r"\\x[0-9a-fA-F]{2}")


def _bytes(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, str) and _ESCAPED_BYTE.search(literal):
        return None  # DuckDB reads it as the byte that is escaped
    coerced = _string(literal, column_type, timezone)
    if coerced is None or not coerced.values or column_type.length is None:
        return coerced
    return coerced if len(bytes(coerced.values[0])) == column_type.length else ABSENT  # type: ignore[arg-type]


_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _uuid(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, uuid.UUID):
        return Coerced((literal.bytes,))
    if isinstance(literal, str):
        return Coerced((uuid.UUID(literal).bytes,)) if _UUID_TEXT.fullmatch(literal) else None
    if isinstance(literal, bytes | bytearray | memoryview):
        return Coerced((bytes(literal),)) if len(literal) == 16 else ABSENT
    return None


def _boolean(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    return Coerced((literal,)) if isinstance(literal, bool) else None


def _date(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, str):
        literal = parse_date(literal)
    if isinstance(literal, dt.datetime):
        if literal.tzinfo is not None:
            return None  # which day an instant falls on depends on the engine's zone
        if literal.time() != dt.time():
            return ABSENT
    return Coerced((literal.toordinal() - _EPOCH_DAY,)) if isinstance(literal, dt.date) else None


def _time(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, str):
        return _unless_cut(_time(parse_time(literal), column_type, timezone))
    if not isinstance(literal, dt.time) or literal.tzinfo is not None:
        return None
    seconds = (literal.hour * 60 + literal.minute) * 60 + literal.second
    return _from_nanos((seconds * 1_000_000 + literal.microsecond) * 1_000, column_type)


def _from_nanos(nanos: int, column_type: ColumnType) -> Coerced:
    """Convert nanoseconds to the column's unit; absent where the unit is too coarse to hold them."""
    count, rest = divmod(nanos, 1_000_000_000 // UNITS_PER_SECOND[column_type.unit or "ns"])
    return ABSENT if rest else _in_range(count, column_type)


def _unless_cut(coerced: Coerced | None) -> Coerced | None:
    """Return the result for a text; None where it has digits below the column's unit, which DuckDB truncates."""
    return None if coerced is ABSENT else coerced


def _timestamp(literal: Any, column_type: ColumnType, timezone: str) -> Coerced | None:
    if isinstance(literal, str):
        return _unless_cut(_timestamp(parse_timestamp(literal), column_type, timezone))
    if isinstance(literal, dt.date) and not isinstance(literal, dt.datetime):
        literal = dt.datetime.combine(literal, dt.time())
    if not isinstance(literal, dt.datetime):
        return None
    if literal.tzinfo is not None:
        if column_type.utc is False:
            return None  # an instant against a wall clock: the engine's zone decides
    elif column_type.utc is not False:
        zoned = _in_zone(literal, timezone)
        if zoned is None:
            return None
        literal = zoned
    try:
        moment = literal if literal.tzinfo is None else literal.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        return None
    below = getattr(literal, "nanosecond", 0)  # of pandas' subclass
    return _from_nanos((moment - _EPOCH) // dt.timedelta(microseconds=1) * 1_000 + below, column_type)


def _in_zone(moment: dt.datetime, timezone: str) -> dt.datetime | None:
    """Return a wall-clock time as an instant of a zone; None where a clock change skips or repeats it."""
    if timezone in ("UTC", "Z", "+00:00"):
        return moment.replace(tzinfo=dt.UTC)
    zone = _zone(timezone)
    if zone is None:
        return None
    first, second = moment.replace(tzinfo=zone, fold=0), moment.replace(tzinfo=zone, fold=1)
    return first if first.utcoffset() == second.utcoffset() else None


_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


@lru_cache(maxsize=64)
def _zone(timezone: str) -> dt.tzinfo | None:
    if timezone == "UTC":
        return dt.UTC
    from zoneinfo import ZoneInfo

    try:
        if match := _OFFSET.fullmatch(timezone):
            offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
            return dt.timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        return None


def _arrow_scalar(literal: pa.Scalar, column_type: ColumnType, timezone: str) -> Coerced:
    """Coerce an Arrow scalar; its dates and times hold nanoseconds and years that Python's cannot."""
    kind, arrow_type = column_type.kind, literal.type
    if not literal.is_valid:
        return ABSENT
    if pa.types.is_timestamp(arrow_type):
        nanos = literal.value * (1_000_000_000 // UNITS_PER_SECOND[arrow_type.unit])
        if kind in (Kind.TIMESTAMP, Kind.DATE):
            result = _moment(nanos, arrow_type.tz is not None, column_type, timezone)
            return _make_unknown(literal, column_type) if result is None else result
    elif pa.types.is_date32(arrow_type) or (pa.types.is_date64(arrow_type) and literal.value % 86_400_000 == 0):
        day = literal.value if pa.types.is_date32(arrow_type) else literal.value // 86_400_000
        if kind in (Kind.TIMESTAMP, Kind.DATE):
            result = _moment(day * NANOS_PER_DAY, False, column_type, timezone)
            return _make_unknown(literal, column_type) if result is None else result
    elif pa.types.is_time(arrow_type):
        if kind is Kind.TIME:
            return _from_nanos(literal.value * (1_000_000_000 // UNITS_PER_SECOND[arrow_type.unit]), column_type)
    elif not pa.types.is_temporal(arrow_type):
        return coerce(literal.as_py(), column_type, timezone)
    return _make_unknown(literal, column_type)


def _moment(nanos: int, zoned: bool, column_type: ColumnType, timezone: str) -> Coerced | None:
    """Coerce nanoseconds since 1970, of an instant if `zoned`, else of a wall clock; None where unknown."""
    if column_type.kind is Kind.DATE:
        day, rest = divmod(nanos, NANOS_PER_DAY)
        return None if zoned else ABSENT if rest else _in_range(day, column_type)
    if zoned == (column_type.utc is not False):
        return _from_nanos(nanos, column_type)
    if zoned:
        return None
    micros, below = divmod(nanos, 1_000)  # a wall clock for a column of instants: shifted as a datetime is
    try:
        shifted = _timestamp(_EPOCH + dt.timedelta(microseconds=micros), _MICROS, timezone)
    except OverflowError:
        return None
    return None if shifted is None else _from_nanos(int(shifted.values[0]) * 1_000 + below, column_type)


_MICROS = ColumnType("INT64", Kind.TIMESTAMP, 8, unit="us", utc=True)

_HANDLERS = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.STRING: _string,
    Kind.BYTES: _bytes,
    Kind.UUID: _uuid,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
}

# ------------------------------------------------------------------------------------------- text to dates and times
# Only the unambiguous ISO forms are parsed.

_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
_TIME_TEXT = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_TIMESTAMP_TEXT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(Z|[+-]\d\d(?::?\d\d)?)?")


def parse_date(text: str) -> dt.date | None:
    """Parse a date such as `2026-01-31`; None for anything else."""
    try:
        return dt.date.fromisoformat(text.strip()) if _DATE_TEXT.fullmatch(text.strip()) else None
    except ValueError:
        return None


def parse_time(text: str) -> dt.time | None:
    """Parse a time such as `12:30`, `12:30:01` or `12:30:01.25`; None for anything else."""
    try:
        return dt.time.fromisoformat(text.strip()) if _TIME_TEXT.fullmatch(text.strip()) else None
    except ValueError:
        return None


def parse_timestamp(text: str) -> dt.datetime | None:
    """Parse a date, or a date and a time with or without a UTC offset; None for anything else."""
    text = text.strip()
    day = parse_date(text)
    if day is not None:
        return dt.datetime.combine(day, dt.time())
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        return None
    try:
        return dt.datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3] or ''}")
    except ValueError:
        return None
