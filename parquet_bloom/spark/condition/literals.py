"""What Spark compares: literals as values of a column's type, where that can be told exactly.

Spark coerces both sides of a comparison to a common type, and with it rounds, pads, or reads texts in the session's
zone. Pruning looks for single values. So a literal is taken only where the rows that Spark finds are those that hold
one of the values given here; everything else is a doubt.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from ...hashing.coerce import parse_date, parse_timestamp
from ..session.fallback import CannotPush
from ..session.settings import setting

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_PRECISION = 38
_INTEGER_DIGITS: dict[type[DataType], int] = {
    ByteType: 3,
    ShortType: 5,
    IntegerType: 10,
    LongType: 20,
}  # as Spark turns them into decimals
_UTC = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "+00:00", "UTC+00:00", "GMT+00:00"})

Values = Sequence[Any]


class Zone:
    """The session's time zone, by Spark's own rules: Python's may be of another year.

    Parameters
    ----------
    spark : the session.
    """

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self.is_utc = setting(spark, "spark.sql.session.timeZone") in _UTC

    def instants(self, values: Values, stamp: str) -> list[dt.datetime]:
        """What Spark makes of wall clocks and days where it needs instants.

        Parameters
        ----------
        values : dates, and datetimes without a zone.
        stamp : how the datetimes are written: TIMESTAMP_LTZ, TIMESTAMP_NTZ, or empty for a text that Spark casts.
        """
        if self.is_utc:
            return [_wall_clock(value).replace(tzinfo=dt.UTC) for value in values]
        casts = ", ".join(f"unix_micros(CAST({_sql(value, stamp)} AS TIMESTAMP_LTZ))" for value in values)
        row = self._spark.sql(f"SELECT array({casts}) AS micros").first()
        if row is None or None in row["micros"]:
            raise CannotPush("Spark makes no timestamp of a literal")
        try:
            return [_EPOCH + dt.timedelta(microseconds=micros) for micros in row["micros"]]
        except OverflowError:
            raise CannotPush("a timestamp lies outside of the years 1 to 9999") from None


def _wall_clock(value: dt.datetime | dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _sql(value: dt.datetime | dt.date, stamp: str) -> str:
    if isinstance(value, dt.datetime):
        return f"{stamp} '{value.isoformat(' ')}'"
    return f"DATE '{value.isoformat()}'"


def exact_values(values: Values, data_type: DataType, zone: Zone, *, stamp: str, is_list: bool) -> Values:
    """Literals as values that rows hold if, and only if, Spark finds them equal; a few more are allowed.

    Parameters
    ----------
    values : the literals of one comparison; NULLs are passed through, as no row equals them.
    data_type : the column's type in Spark.
    stamp : what datetimes without a zone are in Spark: TIMESTAMP_LTZ or TIMESTAMP_NTZ.
    is_list : whether Spark sees them as an IN list, which it coerces as a whole.

    Raises
    ------
    Doubt
    """
    given = [value for value in values if value is not None]
    handler = _HANDLERS.get(type(data_type))
    if handler is None:
        raise CannotPush(f"nothing is skipped for columns of type {data_type.simpleString()}")
    if not given:
        return values
    found = handler(given, data_type, zone, stamp, is_list)
    if found is None:
        kinds = " and ".join(sorted({type(value).__name__ for value in given}))
        raise CannotPush(f"Spark compares {data_type.simpleString()} with {kinds} in a way of its own")
    return [*found, *([None] if len(given) < len(values) else [])]


def _only(values: Values, *kinds: type) -> bool:
    """Whether all values are of these very types (a datetime is no date, a bool no int)."""
    return all(type(value) in kinds for value in values)


def _digits(value: int | decimal.Decimal) -> tuple[int, int]:
    """Digits before and behind the point that Spark gives a literal's type, at most."""
    if isinstance(value, int):
        return max(10 if -(1 << 31) <= value < 1 << 31 else 20, len(str(abs(value)))), 0
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return max(0, len(digits) + int(exponent)), scale


def _fits_decimal(values: Values, whole: int, scale: int) -> bool:
    """Whether the common decimal type of a column and literals holds all of them unrounded."""
    parts = [(whole, scale), *map(_digits, values)]
    return max(part[0] for part in parts) + max(part[1] for part in parts) <= _MAX_PRECISION


def _integer(values: Values, data_type: DataType, *_: Any) -> Values | None:
    if _only(values, int, decimal.Decimal):
        return values if _fits_decimal(values, _INTEGER_DIGITS[type(data_type)], 0) else None
    return values if _only(values, float) else None


def _floating(values: Values, *_: Any) -> Values | None:
    return values if _only(values, int, decimal.Decimal, float) else None


def _decimal(values: Values, data_type: Any, *_: Any) -> Values | None:
    if _only(values, int, decimal.Decimal):
        return values if _fits_decimal(values, data_type.precision - data_type.scale, data_type.scale) else None
    return values if _only(values, float) else None


def _string(values: Values, data_type: Any, *_: Any) -> Values | None:
    if getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise CannotPush(f"under the collation {data_type.collation} different texts are equal")
    return values if _only(values, str) else None


def _date(values: Values, data_type: DataType, zone: Zone, *_: Any) -> Values | None:
    # Not datetimes: the midnight that a day is cast to may not exist in the session's zone.
    return values if _only(values, dt.date) else _parsed(values, parse_date)


def _parsed(values: Values, parse: Callable[[str], Any]) -> Values | None:
    """Texts in ISO form, which every parser reads alike; None if any is not."""
    if not _only(values, str) or not all(value.isascii() for value in values):
        return None
    parsed = [parse(value) for value in values]
    return None if None in parsed else parsed


def _instant(values: Values, data_type: DataType, zone: Zone, stamp: str, is_list: bool) -> Values | None:
    if _only(values, str):
        # As a list Spark may compare them as texts, and where clocks are set back two instants have one text.
        parsed = None if is_list and not zone.is_utc else _parsed(values, parse_timestamp)
        if parsed is None:
            return None
        values, stamp = parsed, ""
    elif not (_only(values, dt.datetime) or _only(values, dt.date)):
        return None
    zoned = [value for value in values if getattr(value, "tzinfo", None) is not None]
    local = [value for value in values if getattr(value, "tzinfo", None) is None]
    return [*zoned, *zone.instants(local, stamp)] if local else zoned


def _wall(values: Values, data_type: DataType, zone: Zone, stamp: str, is_list: bool) -> Values | None:
    if _only(values, dt.date):
        return values
    parsed = _parsed(values, parse_timestamp) if _only(values, str) else None
    if parsed is not None:
        return parsed if all(value.tzinfo is None for value in parsed) else None
    if not _only(values, dt.datetime):
        return None
    if stamp == "TIMESTAMP_NTZ" and all(value.tzinfo is None for value in values):
        return values
    # Spark casts the column to instants: where clocks are set, one instant is two wall clocks.
    return [_in_utc(value) for value in values] if zone.is_utc else None


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


_HANDLERS: dict[type[DataType], Callable[..., Values | None]] = {
    ByteType: _integer,
    ShortType: _integer,
    IntegerType: _integer,
    LongType: _integer,
    FloatType: _floating,
    DoubleType: _floating,
    DecimalType: _decimal,
    StringType: _string,
    BinaryType: lambda values, *_: values if _only(values, bytes) else None,
    BooleanType: lambda values, *_: values if _only(values, bool) else None,
    DateType: _date,
    TimestampType: _instant,
    TimestampNTZType: _wall,
}


def typed_values(
    values: Values, types: Sequence[DataType], data_type: DataType, zone: Zone, *, is_list: bool
) -> Values:
    """The same for literals of any type, as Spark itself told it: `CAST(5 AS SMALLINT)`, or a Column's.

    Parameters
    ----------
    values, types : the literals of one comparison, and what each is in Spark.
    data_type, zone, is_list : as for `exact_values`.

    Raises
    ------
    Doubt
    """
    given = [(value, own) for value, own in zip(values, types, strict=True) if value is not None]
    if any(getattr(own, "collation", "UTF8_BINARY") != "UTF8_BINARY" for _, own in given):
        raise CannotPush("a literal has a collation")
    is_plain = all(is_usual(value, own) for value, own in given)
    # Of one type, or both of whole numbers or of floats: whatever Spark widens keeps its value.
    is_alike = all(
        own == data_type or any(isinstance(own, kind) and isinstance(data_type, kind) for kind in (_WHOLE, _FLOATS))
        for _, own in given
    )
    if not is_plain and not is_alike and not _fits_types([own for _, own in given], data_type):
        kinds = " and ".join(sorted({own.simpleString() for _, own in given}))
        raise CannotPush(f"Spark compares {data_type.simpleString()} with {kinds} in a way of its own")
    if is_plain or type(data_type) not in _HANDLERS:
        return exact_values(values, data_type, zone, stamp="TIMESTAMP_NTZ", is_list=is_list)
    return values


_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_FLOATS = (FloatType, DoubleType)


def is_usual(value: Any, own: DataType) -> bool:
    """Whether a literal is of the type that Spark's parser gives to the usual spelling of its value."""
    if type(value) is int:
        return type(own) is (IntegerType if -(1 << 31) <= value < 1 << 31 else LongType)
    if type(value) is decimal.Decimal:
        whole, scale = _digits(value)
        return isinstance(own, DecimalType) and own.precision - own.scale <= whole and own.scale <= scale
    return type(own) is _USUAL.get(_kind(value))


def _kind(value: Any) -> Any:
    return (dt.datetime, value.tzinfo is None) if isinstance(value, dt.datetime) else type(value)


_USUAL: dict[Any, type[DataType]] = {
    bool: BooleanType,
    float: DoubleType,
    str: StringType,
    bytes: BinaryType,
    dt.date: DateType,
    (dt.datetime, True): TimestampNTZType,
    (dt.datetime, False): TimestampType,
}


def _fits_types(types: Sequence[DataType], data_type: DataType) -> bool:
    """Whether whole numbers and decimals have a common type that holds all of their values unrounded."""
    parts = []
    for own in (*types, data_type):
        if isinstance(own, DecimalType):
            parts.append((own.precision - own.scale, own.scale))
        elif type(own) in _INTEGER_DIGITS:
            parts.append((_INTEGER_DIGITS[type(own)], 0))
        else:
            return False
    return max(part[0] for part in parts) + max(part[1] for part in parts) <= _MAX_PRECISION
