"""Literals of predicates: their Python types (see `tree`), conversions into them, and their SQL text.

Conversions never round: a value without an exact form is rejected.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from ..errors import PredicateError
from ..hashing.coerce import find_zone, parse_date, parse_time, parse_timestamp
from ..hashing.column_type import ColumnType, Kind
from ..util.arrow_values import AnyArray
from ..util.messages import show_value

_Plain: TypeAlias = (
    bool
    | int
    | float
    | decimal.Decimal
    | str
    | bytes
    | uuid.UUID
    | dt.date
    | dt.time
    | dt.datetime
    | dt.timedelta
    | None
)
Literal: TypeAlias = _Plain | pa.Scalar

_EPOCH = dt.datetime(1970, 1, 1)
_NANOS = {"W": 604_800 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6}
_NANOS |= {"us": 1_000, "ns": 1}
_INT64 = 1 << 63

# Types all of whose values are literals, and types of which only some are.
_ALL_VALUES_VALID = frozenset({type(None), bool, int, float, str, bytes, uuid.UUID, dt.date, dt.datetime, dt.timedelta})
_PLAIN = _ALL_VALUES_VALID | {decimal.Decimal, dt.time}


def check(column: object, values: tuple[object, ...]) -> None:
    """Raise PredicateError unless the parts of a leaf are a column and literals."""
    if type(column) is not str:
        raise PredicateError(f"a column name must be a dotted path, got {column!r}")
    if _ALL_VALUES_VALID.issuperset(map(type, values)):
        return
    for value in values:
        if type(value) in _PLAIN:
            _check_plain(value)
        elif not (isinstance(value, pa.Scalar) and value.is_valid and _in_nanos(value.type)):
            raise PredicateError(f"{show_value(value, _SHOWN)} ({type(value).__name__}) cannot be a literal")


def _check_plain(value: object) -> None:
    if isinstance(value, decimal.Decimal) and not value.is_finite():
        raise PredicateError(f"{value} is not a decimal number; write NaN and the infinities as floats")
    if isinstance(value, dt.time) and value.tzinfo is not None:
        raise PredicateError(f"a time with a zone ({value}) has no counterpart in Parquet")


def _in_nanos(arrow_type: pa.DataType) -> bool:
    types = pa.types
    has_unit = types.is_timestamp(arrow_type) or types.is_time64(arrow_type) or types.is_duration(arrow_type)
    return bool(has_unit and arrow_type.unit == "ns")


def key(value: Literal) -> tuple[object, ...]:
    """Return the identity of a literal, which includes its type, for in Python True == 1 == 1.0.

    Of a time with a zone it includes the offset: before and after a clock change Python takes two for the same.
    """
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return type(value), value, value.utcoffset()
    return (float, "nan") if isinstance(value, float) and math.isnan(value) else (type(value), value)


class _Nanos(NamedTuple):
    """Picklable form of an Arrow scalar of nanoseconds, which cannot be pickled without pandas."""

    value: int
    arrow_type: pa.DataType


def pack(values: tuple[Literal, ...]) -> tuple[object, ...]:
    """Convert literals to a picklable form; see `unpack`."""
    if _ALL_VALUES_VALID.issuperset(map(type, values)):
        return values
    return tuple(_Nanos(v.value, v.type) if isinstance(v, pa.Scalar) else v for v in values)


def unpack(values: tuple[Any, ...]) -> tuple[Literal, ...]:
    """Convert the result of `pack` back to literals."""
    if _ALL_VALUES_VALID.issuperset(map(type, values)):
        return values
    return tuple(pa.scalar(*value) if isinstance(value, _Nanos) else value for value in values)


_SHOWN = 60  # characters of a value in a message


# ------------------------------------------------------------------------------- from Python, numpy, pandas and Arrow


def from_python(value: object) -> Literal:
    """Convert a Python, numpy, pandas or Arrow scalar to a literal.

    Raises
    ------
    PredicateError
        The value is not a scalar, or has no exact form.
    """
    if type(value) in _PLAIN:
        _check_plain(value)
        return cast(_Plain, value)
    if isinstance(value, pa.Scalar):
        return _from_arrow(value)
    if isinstance(value, np.datetime64):
        return _from_datetime64(value)
    if isinstance(value, np.timedelta64):
        return _from_timedelta64(value)
    if isinstance(value, np.generic | np.ndarray):
        return _from_numpy(value)
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' NULLs
        return None
    if isinstance(value, dt.datetime):
        return _from_datetime(value)
    if isinstance(value, dt.date):
        return dt.date(value.year, value.month, value.day)
    if isinstance(value, dt.timedelta):
        return _make_duration(_count_duration(value))
    if isinstance(value, uuid.UUID):  # database drivers have subclasses
        return uuid.UUID(int=value.int)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    # Subclasses (enums, tagged strings) become values of the plain type.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes.__getitem__(value, slice(None))
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise PredicateError(f"{show_value(value, _SHOWN)} ({type(value).__name__}) cannot be a literal")


def from_collection(values: Any) -> tuple[Literal, ...]:
    """Convert any collection to literals: list, set, range, numpy array, pandas or polars Series, Arrow array."""
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping | pa.Scalar) or not _is_iterable(values):
        raise PredicateError(
            f"'in' takes a collection of literals, not {show_value(values, _SHOWN)} ({type(values).__name__})"
        )
    if hasattr(values, "__arrow_c_array__") and not isinstance(values, pa.Array):
        values = pa.array(values)
    elif hasattr(values, "__arrow_c_stream__") and not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array(values)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise PredicateError(f"'in' takes an array of one dimension, not of {values.ndim}")
        # tolist() is exact for these types, and far faster than one scalar at a time.
        values = values.tolist() if values.dtype.char in "?bBhHiIlLqQefdUS" else list(values)
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist() if _has_exact_python_values(values.type) else list(values)
    items = tuple(values)
    return items if _ALL_VALUES_VALID.issuperset(map(type, items)) else tuple(map(from_python, items))


def _is_iterable(values: object) -> bool:
    has_items = isinstance(values, Iterable) or hasattr(type(values), "__getitem__")
    return has_items and getattr(values, "ndim", 1) != 0  # an array without dimensions is a single value


def _has_exact_python_values(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(arrow_type)
        or types.is_floating(arrow_type)
        or types.is_boolean(arrow_type)
        or types.is_decimal(arrow_type)
        or types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_binary(arrow_type)
        or types.is_large_binary(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
    )


def _from_numpy(value: np.generic | AnyArray) -> Literal:
    if value.ndim:
        raise PredicateError(
            f"{show_value(value, _SHOWN)}: an array is not a single literal; use 'in' for a collection"
        )
    if isinstance(value, np.ndarray):
        return from_python(value[()])
    plain = value.item()
    if isinstance(value, np.longdouble):
        plain = float(value)
        if value == value and np.longdouble(plain) != value:
            raise PredicateError(f"{show_value(value, _SHOWN)} has more digits than a double")
    if type(plain) not in _PLAIN:
        raise PredicateError(f"{show_value(value, _SHOWN)} ({type(value).__name__}) cannot be a literal")
    return from_python(plain)


def _from_timedelta64(value: np.timedelta64) -> Literal:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    if unit not in _NANOS:
        raise PredicateError(f"{show_value(value, _SHOWN)} has no exact form in nanoseconds")
    return _make_duration(int(value.astype(np.int64)) * step * _NANOS[unit])


def _from_datetime64(value: np.datetime64) -> Literal:
    if np.isnat(value):
        return None
    unit, step = np.datetime_data(value.dtype)
    count = int(value.astype(np.int64)) * step
    if unit in ("Y", "M"):
        months = count * (12 if unit == "Y" else 1)
        year, month = divmod(months, 12)
        try:
            return dt.date(1970 + year, month + 1, 1)
        except ValueError:
            raise PredicateError(f"{show_value(value, _SHOWN)} lies outside of the years 1 to 9999") from None
    if unit in ("W", "D"):
        return _make_date(count * (7 if unit == "W" else 1))
    if unit in _NANOS:
        return _make_timestamp(count * _NANOS[unit], zoned=False)
    per_nano = {"ps": 10**3, "fs": 10**6, "as": 10**9}.get(unit)
    if per_nano is None or count % per_nano:
        raise PredicateError(f"{show_value(value, _SHOWN)} has no exact form in nanoseconds")
    return _make_timestamp(count // per_nano, zoned=False)


def _from_datetime(value: dt.datetime) -> Literal:
    """Convert an instance of a subclass of datetime; the one of pandas has nanoseconds."""
    try:
        plain = dt.datetime(
            *(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond),
            tzinfo=value.tzinfo,
            fold=value.fold,
        )
    except ValueError:
        raise PredicateError(f"{show_value(value, _SHOWN)} lies outside of the years 1 to 9999") from None
    below = getattr(value, "nanosecond", 0)
    if not below:
        return plain
    zoned = plain.utcoffset() is not None
    return _make_timestamp(_count_nanos(plain) + below, zoned)


def _from_arrow(value: pa.Scalar) -> Literal:
    if not value.is_valid:
        return None
    arrow_type = value.type
    if isinstance(arrow_type, pa.UuidType):
        return uuid.UUID(bytes=value.value.as_py())
    is_encoded = pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type)
    if is_encoded or isinstance(arrow_type, pa.BaseExtensionType):
        return _from_arrow(value.value)
    if pa.types.is_timestamp(arrow_type):
        return _make_timestamp(value.value * _NANOS[arrow_type.unit], arrow_type.tz is not None)
    if pa.types.is_time(arrow_type):
        return _make_time(value.value * _NANOS[arrow_type.unit])
    if pa.types.is_duration(arrow_type):
        return _make_duration(value.value * _NANOS[arrow_type.unit])
    if pa.types.is_date32(arrow_type):
        return _make_date(value.value)
    if pa.types.is_date64(arrow_type) and value.value % 86_400_000 == 0:
        return _make_date(value.value // 86_400_000)
    plain = value.as_py() if not (pa.types.is_nested(arrow_type) or pa.types.is_temporal(arrow_type)) else None
    if type(plain) not in _PLAIN or plain is None:
        raise PredicateError(f"{show_value(value, _SHOWN)} ({arrow_type}) cannot be a literal")
    return from_python(plain)


# --------------------------------------------------------------------------------- dates and times, counted exactly


def _make_date(days: int) -> dt.date:
    try:
        return dt.date.fromordinal(_EPOCH.toordinal() + days)
    except (ValueError, OverflowError):
        raise PredicateError(f"the date {days} days from 1970-01-01 lies outside of the years 1 to 9999") from None


def _make_time(nanos: int) -> Literal:
    if not 0 <= nanos < _NANOS["D"]:
        raise PredicateError(f"{nanos} nanoseconds after midnight is not a time of day")
    if nanos % 1_000:
        return pa.scalar(nanos, pa.time64("ns"))
    return (_EPOCH + dt.timedelta(microseconds=nanos // 1_000)).time()


def _count_nanos(moment: dt.datetime) -> int:
    """Return the nanoseconds since 1970 of an instant or a wall clock time."""
    offset = moment.utcoffset() or dt.timedelta()
    passed = moment.replace(tzinfo=None) - _EPOCH - offset
    return (passed // dt.timedelta(microseconds=1)) * 1_000


def _count_duration(value: dt.timedelta) -> int:
    """Return the nanoseconds of a duration; pandas' subclass has some below microseconds."""
    return value // dt.timedelta(microseconds=1) * 1_000 + int(getattr(value, "nanoseconds", 0))


def _make_duration(nanos: int) -> Literal:
    """Make a timedelta, or an Arrow scalar where a timedelta cannot represent the duration."""
    if nanos % 1_000 and -_INT64 <= nanos < _INT64:
        return pa.scalar(nanos, pa.duration("ns"))
    try:
        if nanos % 1_000 == 0:
            return dt.timedelta(microseconds=nanos // 1_000)
    except OverflowError:
        pass
    raise PredicateError(f"the duration of {nanos} nanoseconds cannot be represented exactly")


def count_units(value: Literal, unit: str) -> Literal:
    """Return how many units (an Arrow unit, such as "ms") a duration has, exactly; other literals as they are."""
    if isinstance(value, dt.timedelta):
        nanos = _count_duration(value)
    elif isinstance(value, pa.Scalar) and pa.types.is_duration(value.type):
        nanos = value.value
    else:
        return value
    count, rest = divmod(nanos, _NANOS[unit])
    return count if not rest else decimal.Decimal(nanos).scaleb(-_DIGITS[unit], _EXACT)


_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _make_timestamp(nanos: int, zoned: bool) -> Literal:
    """Make a datetime, or an Arrow scalar where a datetime cannot represent the timestamp."""
    if nanos % 1_000 == 0:
        try:
            moment = _EPOCH + dt.timedelta(microseconds=nanos // 1_000)
            return moment.replace(tzinfo=dt.UTC) if zoned else moment
        except OverflowError:
            pass
    elif -_INT64 <= nanos < _INT64:
        return pa.scalar(nanos, pa.timestamp("ns", tz="UTC" if zoned else None))
    raise PredicateError(f"the timestamp {nanos} nanoseconds from 1970 cannot be represented exactly")


# ------------------------------------------------------------------------------------------------ from SQL text

_INTEGER = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"[0-9]+\.[0-9]*|\.[0-9]+")
_FLOAT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+")
_NONZERO = re.compile(r"[0.]*[1-9]")
_DOUBLE = re.compile(r"([+-]?)(?:(nan)|(inf(?:inity)?)|([0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CLOCK = re.compile(r"([0-9]{2}:[0-9]{2}:[0-9]{2})\.([0-9]+)")
_STAMP = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T](?P<clock>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:(?<=:[0-9]{2}:[0-9]{2})\.(?P<fraction>[0-9]+))?"
    r"(?: ?(?P<offset>Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)| (?P<zone>[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+))?)?"
)


def parse_number(text: str, *, negative: bool = False) -> Literal:
    """Parse an unsigned SQL numeral: an int, a Decimal (with a point) or a float (with an exponent)."""
    if _INTEGER.fullmatch(text):
        try:
            return -int(text) if negative else int(text)
        except ValueError:
            raise PredicateError(f"a whole number of {len(text):,} digits is beyond any column") from None
    if _DECIMAL.fullmatch(text):
        exact = decimal.Decimal(text)
        return exact.copy_negate() if negative else exact  # unary minus would round to the context's precision
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value) or (not value and _NONZERO.match(text)):
            raise PredicateError(f"{text} is beyond the range of a double")
        return -value if negative else value
    raise PredicateError(f"{show_value(text, _SHOWN)} is not a number")


def parse_hexadecimal(text: str) -> bytes:
    """Parse the digits of X'...' into bytes."""
    if len(text) % 2 or not re.fullmatch("[0-9a-fA-F]*", text):
        raise PredicateError(f"X'{text}' is not a sequence of pairs of hexadecimal digits")
    return bytes.fromhex(text)


def parse_interval(text: str, unit: str = "") -> Literal:
    """Parse an interval of a fixed length, such as `2 hours 1.5 seconds`, or a number of a unit that follows it."""
    parts = f"{text} {unit}".split()
    billionths = 0  # of nanoseconds
    for number, name in zip(parts[::2], parts[1::2], strict=False):
        size = _INTERVALS.get(name.lower().removesuffix("s"))
        if size is None or not _INTERVAL_NUMBER.fullmatch(number):
            break
        billionths += int(decimal.Decimal(number).scaleb(9, _EXACT)) * size
    else:
        if parts and len(parts) % 2 == 0 and billionths % 10**9 == 0:
            return _make_duration(billionths // 10**9)
    problem = "is not an interval of weeks, days, hours, minutes or seconds, such as '2 hours 1.5 seconds'"
    raise PredicateError(f"{show_value(text, _SHOWN)} {problem}")


_INTERVAL_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,9})?")
_INTERVALS = {
    "week": _NANOS["W"],
    "day": _NANOS["D"],
    "hour": _NANOS["h"],
    "minute": _NANOS["m"],
    "second": _NANOS["s"],
}
_INTERVALS |= {"millisecond": _NANOS["ms"], "microsecond": _NANOS["us"], "nanosecond": 1}


def parse_typed(kind: str, text: str) -> Literal:
    """Parse the text of a typed literal, such as `DATE '2026-01-31'`.

    Parameters
    ----------
    kind : date, time, timestamp (with or without a zone in the text), wallclock (a timestamp that must not have one),
        uuid or double.
    """
    value = _TYPED[kind](text)
    if value is None:
        name = "timestamp without time zone" if kind == "wallclock" else kind
        raise PredicateError(f"{text!r} is not a {name} in ISO form")
    return value


def _parse_time(text: str) -> Literal:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return parse_time(text)
    time = parse_time(match[1])
    return (
        None
        if time is None
        else _make_time(_count_nanos(dt.datetime.combine(_EPOCH, time)) + _parse_fraction(match[2]))
    )


def _parse_wallclock(text: str) -> Literal:
    match = _STAMP.fullmatch(text)
    return None if match is None or match["offset"] or match["zone"] else _parse_timestamp(text)


def _parse_timestamp(text: str) -> Literal:
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    offset = {None: "", "z": "Z", "UTC": "Z", "GMT": "Z"}.get(match["offset"], match["offset"])
    moment = parse_timestamp(f"{match['day']} {match['clock'] or '00:00'}{offset}")
    if moment is None:
        return None
    if match["zone"]:
        moment = _localize(moment, match["zone"])
    fraction = _parse_fraction(match["fraction"] or "0")
    if fraction % 1_000:
        return _make_timestamp(_count_nanos(moment) + fraction, moment.tzinfo is not None)
    return moment.replace(microsecond=fraction // 1_000)


def _parse_fraction(digits: str) -> int:
    """Return the nanoseconds of a fraction of a second."""
    if digits[9:].strip("0"):
        raise PredicateError(f"a second's fraction of .{digits} is finer than nanoseconds")
    return int(digits[:9].ljust(9, "0"))


def _localize(moment: dt.datetime, name: str) -> dt.datetime:
    zone = find_zone(name)
    if zone is None:
        raise PredicateError(f"{name!r} is not a known time zone")
    first, second = moment.replace(tzinfo=zone), moment.replace(tzinfo=zone, fold=1)
    offset = first.utcoffset()
    if offset is None or offset != second.utcoffset():
        raise PredicateError(f"{moment} is skipped or occurs twice in {name}, because of a clock change")
    return moment.replace(tzinfo=dt.timezone(offset))


def _parse_double(text: str) -> Literal:
    match = _DOUBLE.fullmatch(text)
    value = None if match is None else float(text)
    return None if value is not None and math.isinf(value) and match and match[4] else value


_TYPED = {
    "date": lambda text: parse_date(text) if text == text.strip() else None,
    "time": lambda text: _parse_time(text) if text == text.strip() else None,
    "timestamp": _parse_timestamp,
    "wallclock": _parse_wallclock,
    "uuid": lambda text: uuid.UUID(text) if _UUID.fullmatch(text) else None,
    "double": _parse_double,
}


# --------------------------------------------------------------------------------------------------- to SQL text


def to_text(value: Literal, *, brief: bool = False) -> str:
    """Format a literal as SQL; `brief` truncates long ones and escapes what cannot be printed on one line."""
    if brief and isinstance(value, str) and not value.isprintable():
        value = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    text = _to_text(value)
    return text if not brief or len(text) <= 60 else text[:40] + "..." + text[-10:]


def _to_text(value: Literal) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        limit = sys.get_int_max_str_digits() or math.inf
        return str(value) if value.bit_length() < 3 * limit else hex(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"CAST('{'NaN' if math.isnan(value) else value}' AS DOUBLE)"
        return repr(value) if "e" in repr(value) else repr(value) + "e0"
    if isinstance(value, decimal.Decimal):
        exponent = value.as_tuple().exponent
        text = format(value, "f") if isinstance(exponent, int) and abs(exponent) < 1_000 else str(value)
        return text if "." in text or "E" in text else text + "."
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, uuid.UUID):
        return f"UUID '{value}'"
    if isinstance(value, dt.datetime):
        offset = value.utcoffset()
        if offset is not None and offset % dt.timedelta(minutes=1):
            return _timestamp_text(_count_nanos(value), zoned=True)  # local mean time
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, dt.time):
        return f"TIME '{value}'"
    if isinstance(value, dt.timedelta) or pa.types.is_duration(value.type):
        seconds = decimal.Decimal(cast(int, count_units(value, "ns"))).scaleb(-9, _EXACT)
        return f"INTERVAL '{f'{seconds:.9f}'.rstrip('0').rstrip('.')} seconds'"
    if pa.types.is_time(value.type):
        return "TIME " + _timestamp_text(value.value, zoned=False).removeprefix("TIMESTAMP ").replace("1970-01-01 ", "")
    return _timestamp_text(value.value, zoned=value.type.tz is not None)


def _timestamp_text(nanos: int, zoned: bool) -> str:
    seconds, below = divmod(nanos, 10**9)
    text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat(" ")
    return f"TIMESTAMP '{text}.{below:09}{'+00:00' if zoned else ''}'"


_EXPECTED = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "an integer",
    Kind.DECIMAL: "a number such as 1.50",
    Kind.FLOAT: "a number such as 1.5",
    Kind.DATE: "a date such as 2026-01-31",
    Kind.TIME: "a time such as 12:30:15.25",
    Kind.TIMESTAMP: "a timestamp such as 2026-01-31 12:30:15.25Z",
    Kind.STRING: "a string",
    Kind.BYTES: "bytes or a string",
    Kind.UUID: "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}


def describe_expected(column_type: ColumnType) -> str | None:
    """Return what a column can be compared with; None if nothing."""
    if column_type.kind is Kind.TIMESTAMP and column_type.utc is False:
        return "a timestamp without time zone such as 2026-01-31 12:30:15.25"
    return _EXPECTED.get(column_type.kind)


def make_mismatch_error(problem: str, column_type: ColumnType, column: str) -> PredicateError:
    """Return the error for a literal that cannot be compared with a column, with what can be."""
    expected = describe_expected(column_type)
    return PredicateError(problem if expected is None else f"{problem}; give {expected}", column=column)
