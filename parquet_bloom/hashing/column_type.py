"""Column types: a column's physical and logical type determine how its values are stored, and so how they are hashed.

All other modules take types from here. A value has three representations:

- its *domain value*, what literals and statistics are compared as: an int for integers, dates, times, timestamps (in
  the column's unit) and decimals (unscaled), a float for floats, bytes for everything that is stored as bytes;
- its *stored bytes*, the format's plain encoding without length prefix: what the hash is taken of;
- its Arrow form, which `arrow_keys.py` turns into stored bytes.

Source: the Parquet format's LogicalTypes.md and Encodings.md (PLAIN).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import UnsupportedTypeError
from ..util.arrow_values import AnyArray

Domain = int | float | bytes | bool

NANOS_PER_DAY = 86_400_000_000_000
JULIAN_EPOCH_DAY = 2_440_588  # the Julian day number of 1970-01-01, which INT96 counts from
UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

# A decimal may be stored in more bytes than it needs; readers accept no more than decimal256 holds.
LONGEST_DECIMAL = 32
_LARGEST_PRECISION = 76
_DAY_LIMIT = 1 << 31  # of INT96's days


class Kind(Enum):
    """Meaning of a column's values."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"
    UNKNOWN = (
        "unknown"  # an annotation that came after this table: stored bytes are hashed, literals are not understood
    )


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column as its file stores it.

    Attributes
    ----------
    physical : INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY or BOOLEAN.
    kind : meaning of the values.
    length : bytes a value; None for BYTE_ARRAY and BOOLEAN.
    bits, signed : width and sign of integers (an INT32 may hold 8-bit values).
    precision, scale : of decimals.
    unit : "ms", "us" or "ns" of times and timestamps.
    utc : True when a timestamp is an instant, False when it is a wall clock, None for INT96, which does not say.
    name : the annotation as it is shown.
    """

    physical: str
    kind: Kind
    length: int | None = None
    bits: int | None = None
    signed: bool = True
    precision: int | None = None
    scale: int = 0
    unit: str | None = None
    utc: bool | None = None
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        width = f"({self.length})" if self.physical == "FIXED_LEN_BYTE_ARRAY" else ""
        return f"{self.physical}{width} {self.name}".rstrip()

    @property
    def hashable(self) -> bool:
        """True if the column can have a filter: all but BOOLEAN."""
        return self.physical != "BOOLEAN"

    @property
    def signed_zero(self) -> bool:
        """True if two different encodings, of +0.0 and -0.0, are equal values."""
        return self.kind is Kind.FLOAT


_WIDTH = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_UNIT_MEMBERS = {1: "ms", 2: "us", 3: "ns"}

# ConvertedType number -> the LogicalType that replaced it, as {union member: parameters}. Times and timestamps of that
# age are UTC-adjusted. INTERVAL (21) has no successor: its 12 bytes have no meaning as one value.
_CONVERTED: dict[int, dict[int, object]] = {
    0: {1: {}},
    4: {4: {}},
    6: {6: {}},
    7: {7: {1: True, 2: {1: {}}}},
    8: {7: {1: True, 2: {2: {}}}},
    9: {8: {1: True, 2: {1: {}}}},
    10: {8: {1: True, 2: {2: {}}}},
    11: {10: {1: 8, 2: False}},
    12: {10: {1: 16, 2: False}},
    13: {10: {1: 32, 2: False}},
    14: {10: {1: 64, 2: False}},
    15: {10: {1: 8, 2: True}},
    16: {10: {1: 16, 2: True}},
    17: {10: {1: 32, 2: True}},
    18: {10: {1: 64, 2: True}},
    19: {12: {}},
    20: {13: {}},
}


def from_parquet(
    physical: str,
    length: int | None = None,
    converted: int | None = None,
    logical: Mapping[int, object] | None = None,
    scale: int | None = None,
    precision: int | None = None,
) -> ColumnType:
    """Return the type of a column, from its schema element (raw annotations, see `metadata.footer.SchemaLeaf`).

    An annotation that does not fit its physical type, or that is not supported, gives `Kind.UNKNOWN`: the stored bytes
    can be hashed, but literals cannot be coerced to such a type.
    """
    length = _WIDTH.get(physical, length if physical == "FIXED_LEN_BYTE_ARRAY" else None)
    if physical == "FIXED_LEN_BYTE_ARRAY" and (length or 0) < 1:
        return ColumnType(physical, Kind.UNKNOWN, length, name="UNKNOWN")
    if not logical:
        if converted == 5:
            logical = {5: {1: scale or 0, 2: precision}}
        elif converted is not None:
            logical = _CONVERTED.get(converted, {-1: {}})
    if logical:
        member, parameters = next(iter(logical.items())) if len(logical) == 1 else (-1, {})
        parameters = parameters if isinstance(parameters, dict) else {}
        annotated = _parse_annotation(physical, length, member, parameters)
        return annotated or ColumnType(physical, Kind.UNKNOWN, length, name="UNKNOWN")
    return _make_plain(physical, length)


def _make_plain(physical: str, length: int | None) -> ColumnType:
    if physical == "INT96":
        return ColumnType(physical, Kind.TIMESTAMP, length, unit="ns")
    if physical in ("INT32", "INT64"):
        return ColumnType(physical, Kind.INTEGER, length, bits=32 if physical == "INT32" else 64)
    kinds = {"BOOLEAN": Kind.BOOLEAN, "FLOAT": Kind.FLOAT, "DOUBLE": Kind.FLOAT}
    return ColumnType(physical, kinds.get(physical, Kind.BYTES), length)


def _parse_annotation(
    physical: str, length: int | None, member: int, parameters: Mapping[int, object]
) -> ColumnType | None:
    """Return the type for a LogicalType's union member; None when it does not fit the physical type."""
    width = {"INT32": 32, "INT64": 64}.get(physical)
    if member in (1, 4, 12, 13) and physical == "BYTE_ARRAY":
        kind = Kind.BYTES if member == 13 else Kind.STRING
        return ColumnType(physical, kind, name={1: "STRING", 4: "ENUM", 12: "JSON", 13: "BSON"}[member])
    if member == 5:
        scale, precision = parameters.get(1, 0), parameters.get(2)
        if (
            physical in ("INT32", "INT64", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
            and isinstance(scale, int)
            and isinstance(precision, int)
            and 0 <= scale <= precision
            and 1 <= precision <= _LARGEST_PRECISION
            and (length or 0) <= LONGEST_DECIMAL
        ):
            name = f"DECIMAL({precision},{scale})"
            return ColumnType(physical, Kind.DECIMAL, length, precision=precision, scale=scale, name=name)
    if member == 6 and physical == "INT32":
        return ColumnType(physical, Kind.DATE, length, name="DATE")
    if member in (7, 8) and width:
        units = parameters.get(2)
        unit = next(iter(units), None) if isinstance(units, dict) else None
        if unit in _UNIT_MEMBERS and (width == 64) == (member == 8 or unit != 1):
            utc = parameters.get(1) is True
            kind = Kind.TIME if member == 7 else Kind.TIMESTAMP
            name = f"{kind.name}({_UNIT_MEMBERS[unit]}{',UTC' if utc else ''})"
            return ColumnType(physical, kind, length, unit=_UNIT_MEMBERS[unit], utc=utc, name=name)
    if member == 10 and width:
        bits, signed = parameters.get(1), parameters.get(2) is True
        if isinstance(bits, int) and bits in (8, 16, 32, 64) and bits <= width and (bits == 64) == (width == 64):
            name = f"{'' if signed else 'U'}INT_{bits}"
            return ColumnType(physical, Kind.INTEGER, length, bits=bits, signed=signed, name=name)
    if member == 11:  # UNKNOWN: every value is null
        return ColumnType(physical, Kind.UNKNOWN, length, name="NULL")
    if member == 14 and physical == "FIXED_LEN_BYTE_ARRAY" and length == 16:
        return ColumnType(physical, Kind.UUID, length, name="UUID")
    if member == 15 and physical == "FIXED_LEN_BYTE_ARRAY" and length == 2:
        return ColumnType(physical, Kind.FLOAT, length, name="FLOAT16")
    return None


def decimal_length(precision: int) -> int:
    """Return the least number of bytes of a FIXED_LEN_BYTE_ARRAY decimal of this precision."""
    return (10**precision - 1).bit_length() // 8 + 1


def from_arrow(arrow_type: pa.DataType) -> ColumnType:
    """Return the type that pyarrow's writer stores an Arrow type as, by default.

    Raises
    ------
    UnsupportedTypeError
        Parquet cannot store such values, or the type is nested (lists, maps, structs).
    """
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        if isinstance(arrow_type, pa.UuidType):
            return from_parquet("FIXED_LEN_BYTE_ARRAY", 16, logical={14: {}})
        return from_arrow(arrow_type.storage_type)
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return from_arrow(arrow_type.value_type)
    if types.is_boolean(arrow_type):
        return from_parquet("BOOLEAN")
    if types.is_integer(arrow_type):
        bits, signed = arrow_type.bit_width, types.is_signed_integer(arrow_type)
        return from_parquet("INT64" if bits == 64 else "INT32", logical={10: {1: bits, 2: signed}})
    if types.is_float16(arrow_type):
        return from_parquet("FIXED_LEN_BYTE_ARRAY", 2, logical={15: {}})
    if types.is_floating(arrow_type):
        return from_parquet("FLOAT" if arrow_type.bit_width == 32 else "DOUBLE")
    if types.is_decimal(arrow_type):
        annotation = {5: {1: arrow_type.scale, 2: arrow_type.precision}}
        if not 0 <= arrow_type.scale <= arrow_type.precision:
            raise UnsupportedTypeError(f"Parquet has no decimals of the scale of {arrow_type}")
        return from_parquet("FIXED_LEN_BYTE_ARRAY", decimal_length(arrow_type.precision), logical=annotation)
    if types.is_date(arrow_type):
        return from_parquet("INT32", logical={6: {}})
    if types.is_time(arrow_type) or types.is_timestamp(arrow_type):
        unit = {"us": 2, "ns": 3}.get(arrow_type.unit, 1)  # seconds are stored as milliseconds
        if types.is_time(arrow_type):
            return from_parquet("INT32" if unit == 1 else "INT64", logical={7: {1: False, 2: {unit: {}}}})
        return from_parquet("INT64", logical={8: {1: arrow_type.tz is not None, 2: {unit: {}}}})
    if types.is_duration(arrow_type):
        return from_parquet("INT64")
    if types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return from_parquet("BYTE_ARRAY", logical={1: {}})
    if types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_binary_view(arrow_type):
        return from_parquet("BYTE_ARRAY")
    if types.is_fixed_size_binary(arrow_type):
        return from_parquet("FIXED_LEN_BYTE_ARRAY", arrow_type.byte_width)
    if types.is_null(arrow_type):
        return from_parquet("INT32", logical={11: {}})
    raise UnsupportedTypeError(f"values of Arrow type {arrow_type} have no plain encoding")


def integer_range(column_type: ColumnType) -> tuple[int, int]:
    """Return the smallest and the largest domain value that the column's stored integers can hold."""
    if column_type.kind is Kind.INTEGER:
        bits = column_type.bits or 64
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if column_type.signed else (0, (1 << bits) - 1)
    if column_type.physical == "INT96":
        first, last = -_DAY_LIMIT - JULIAN_EPOCH_DAY, _DAY_LIMIT - JULIAN_EPOCH_DAY
        return first * NANOS_PER_DAY, last * NANOS_PER_DAY - 1
    if column_type.physical == "BYTE_ARRAY":
        return -(1 << 255), (1 << 255) - 1
    bits = 8 * (column_type.length or 0)
    return -(1 << bits - 1), (1 << bits - 1) - 1


_FLOAT_FORMAT = {2: "<e", 4: "<f", 8: "<d"}


def encode(value: Domain, column_type: ColumnType) -> list[bytes]:
    """Return all stored forms of a domain value: one, except for zero (two signs), BYTE_ARRAY decimals and INT96.

    `value` must lie in the column's range, as `coerce.coerce` guarantees.
    """
    kind, length = column_type.kind, column_type.length
    if isinstance(value, bytes):
        return [value]
    if kind is Kind.FLOAT:
        plain = struct.pack(_FLOAT_FORMAT[length or 8], value)
        return [struct.pack(_FLOAT_FORMAT[length or 8], zero) for zero in (0.0, -0.0)] if value == 0 else [plain]
    if isinstance(value, float):
        raise TypeError(f"a float is not a value of {column_type}")
    if column_type.physical == "INT96":
        days, nanos = divmod(value, NANOS_PER_DAY)
        days += JULIAN_EPOCH_DAY
        # The first is what nearly all writers store. Some get a time of day that is negative, or of the next day.
        forms = ((days, nanos), (days + 1, nanos - NANOS_PER_DAY), (days - 1, nanos + NANOS_PER_DAY))
        return [struct.pack("<qi", nanos, day) for day, nanos in forms if -_DAY_LIMIT <= day < _DAY_LIMIT]
    if kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY":
        shortest = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return [value.to_bytes(size, "big", signed=True) for size in range(shortest, LONGEST_DECIMAL + 1)]
    if kind is Kind.DECIMAL and column_type.physical == "FIXED_LEN_BYTE_ARRAY":
        return [value.to_bytes(length or 0, "big", signed=True)]
    return [(value & ((1 << 8 * (length or 0)) - 1)).to_bytes(length or 0, "little")]


def decode(stored: bytes, column_type: ColumnType) -> Domain | None:
    """Return the domain value of stored bytes (of a statistic, say); None when they are not a value of the type."""
    kind, length = column_type.kind, column_type.length
    if kind is Kind.BOOLEAN:
        return bool(stored[0]) if len(stored) == 1 else None
    if length is not None and len(stored) != length:
        return None
    if kind is Kind.FLOAT:
        return float(struct.unpack(_FLOAT_FORMAT[length or 8], stored)[0])
    if kind is Kind.DECIMAL and column_type.physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return int.from_bytes(stored, "big", signed=True) if stored else None
    if column_type.physical == "INT96":
        nanos, day = struct.unpack("<qi", stored)
        return (day - JULIAN_EPOCH_DAY) * NANOS_PER_DAY + nanos
    if column_type.physical in ("INT32", "INT64"):
        return int.from_bytes(stored, "little", signed=column_type.signed)
    return stored


def decode_bound(stored: bytes, column_type: ColumnType) -> Domain | None:
    """Return what `decode` does of a minimum or maximum; None also for one that shows that order and values differ.

    INT96 timestamps are ordered by day, then by time of day: the order of the instants if these lie within the day.
    """
    if column_type.physical == "INT96" and int.from_bytes(stored[:8], "little") >= NANOS_PER_DAY:  # or negative
        return None
    return decode(stored, column_type)


def make_domain_array(values: Sequence[Domain | None], column_type: ColumnType) -> AnyArray:
    """Return domain values of one type as an array that represents them exactly; entries for None are arbitrary."""
    if column_type.kind is Kind.FLOAT or column_type.physical in ("INT32", "INT64"):
        known = [0 if value is None else value for value in values] if None in values else values
        if column_type.kind is Kind.FLOAT:
            return np.array(known, np.float64)
        try:
            return np.array(known, np.int64)
        except OverflowError:  # unsigned, and large
            pass
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


class Order(IntEnum):
    """The order that a footer declares of a column's min_value and max_value: members of the union ColumnOrder."""

    UNDECLARED = 0
    TYPE = 1  # that of the column's type
    IEEE_754 = 2  # of floats: -0.0 before +0.0; NaN is no bound unless all values are
    INT96_TIMESTAMP = 3
    UNSUPPORTED = -1


def is_ordered(column_type: ColumnType, order: int) -> bool:
    """Return whether min_value and max_value of such a column, in the declared order, bound its domain values.

    Floats are compared as numbers, to which both orders of them come down: both zeros are equal, and NaN is no bound.
    """
    if order == Order.UNDECLARED:
        return is_legacy_ordered(column_type)
    if column_type.physical == "INT96" and column_type.kind is Kind.TIMESTAMP:
        return order == Order.INT96_TIMESTAMP
    if order == Order.IEEE_754:
        return column_type.kind is Kind.FLOAT
    return order == Order.TYPE and column_type.kind is not Kind.UNKNOWN


def is_legacy_ordered(column_type: ColumnType) -> bool:
    """Return whether the deprecated min and max, which compare signed, bound such a column's domain values."""
    numbers = ("INT32", "INT64", "FLOAT", "DOUBLE")
    return column_type.signed and column_type.physical in numbers and column_type.kind is not Kind.UNKNOWN


def may_wrap(column_type: ColumnType) -> bool:
    """Return whether files may store integers of more bits than the type has; readers show 255 as -1 then.

    Nothing that compares stored values applies there, unless it is known that all of them are within the type's range.
    """
    return column_type.kind is Kind.INTEGER and (column_type.bits or 64) < 32


def is_nan(value: Domain) -> bool:
    return isinstance(value, float) and math.isnan(value)


_UNITS = {"ms": 1, "us": 2, "ns": 3}
_ALONE = (1, 4, 6, 11, 12, 13, 14, 15)  # annotations without parameters; see `column_type`


def type_to_json(column_type: ColumnType) -> dict[str, object]:
    """Return a column type as a JSON object."""
    return {**asdict(column_type), "kind": column_type.kind.value}


def type_from_json(data: Mapping[str, Any]) -> ColumnType:
    """Read a column type back from JSON; reject types that no Parquet column can have.

    Raises
    ------
    ValueError, TypeError, KeyError
        No column has such a type.
    """
    column_type = ColumnType(**{**data, "kind": Kind(data["kind"])})
    numbers = (column_type.length, column_type.bits, column_type.precision, column_type.scale)
    if not isinstance(column_type.physical, str) or not all(
        number is None or type(number) is int for number in numbers
    ):
        raise ValueError("type")
    length = column_type.length if column_type.physical == "FIXED_LEN_BYTE_ARRAY" else None
    for logical in (None, *_annotations(column_type)):
        valid = from_parquet(column_type.physical, length, logical=logical)
        if valid == column_type and valid.name == column_type.name and type(column_type.signed) is bool:
            return valid
    raise ValueError("type")


def _annotations(data: ColumnType) -> Iterator[Mapping[int, object]]:
    """Yield the LogicalTypes that the type may have come from."""
    yield from ({member: {}} for member in _ALONE)
    yield {5: {1: data.scale, 2: data.precision}}
    if isinstance(data.unit, str) and data.unit in _UNITS:
        yield from ({member: {1: data.utc, 2: {_UNITS[data.unit]: {}}}} for member in (7, 8))
    yield {10: {1: data.bits, 2: data.signed}}
    yield {-1: {}}
