"""Hashes of values in zones: the bytes of each value in its native width, as in Lance.

Parquet's filters hash an 8-bit integer as the 32 bits that it is stored in; here it is one byte. The hashed bytes,
little-endian:

- integers, dates, times, timestamps: as many bytes as the type has bits (INT_8: 1, DATE: 4, TIMESTAMP: 8);
- floats: their bits, of 2, 4 or 8 bytes; both zeros and all NaNs as they are;
- strings and binary values, UUIDs, INT96: the bytes themselves.

FLOAT16, UUID and other values of fixed length, INT96 and decimals have no counterpart in Lance. Decimals are hashed as
their unscaled integers, in 16 bytes (32 for more than 38 digits, or if 16 do not suffice), so that the hash does not
depend on how a file stores them. BOOLEAN is not hashed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import UnsupportedTypeError
from ..hashing.arrow_keys import keys_of, plain, rows_of, to_storage
from ..hashing.coerce import hash_all
from ..hashing.column_type import ColumnType, Domain, Kind, from_arrow

HASHING = "native"
"""Name of this way of hashing in indexes."""

_NARROW: dict[tuple[int, bool], tuple[pa.DataType, np.dtype[np.integer]]] = {
    (8, True): (pa.int8(), np.dtype("<i1")),
    (16, True): (pa.int16(), np.dtype("<i2")),
    (8, False): (pa.uint8(), np.dtype("<u1")),
    (16, False): (pa.uint16(), np.dtype("<u2")),
}
_DECIMAL128_DIGITS = 38


def find_column_type(arrow_type: pa.DataType) -> ColumnType:
    """Return the column type of an Arrow type; unlike Parquet's types it may have seconds and 64-bit dates.

    Raises
    ------
    UnsupportedTypeError
        BOOLEAN, and nested types.
    """
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType) and not isinstance(arrow_type, pa.UuidType):
        return find_column_type(arrow_type.storage_type)
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return find_column_type(arrow_type.value_type)
    if types.is_boolean(arrow_type):
        raise UnsupportedTypeError("BOOLEAN columns have no zones: they have only two values")
    if types.is_date64(arrow_type):
        return ColumnType("INT64", Kind.TIMESTAMP, 8, unit="ms", utc=False, name="DATE64")
    if types.is_timestamp(arrow_type):
        utc = arrow_type.tz is not None
        name = f"TIMESTAMP({arrow_type.unit}{',UTC' if utc else ''})"
        return ColumnType("INT64", Kind.TIMESTAMP, 8, unit=arrow_type.unit, utc=utc, name=name)
    if types.is_time(arrow_type):
        physical = "INT32" if arrow_type.bit_width == 32 else "INT64"
        name = f"TIME({arrow_type.unit})"
        return ColumnType(physical, Kind.TIME, arrow_type.bit_width // 8, unit=arrow_type.unit, utc=False, name=name)
    return from_arrow(arrow_type)


def hash_values(values: Sequence[Domain], column_type: ColumnType) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of all forms of values in zones; the counterpart of `hashing.coerce.hash_all`.

    Parameters
    ----------
    values : domain values, ascending and distinct.
    column_type : the column's type.

    Returns
    -------
    hashes : uint64, in the order of the values: two for a floating-point zero, one for other values.
    first_hash : intp, one more than there are values; `hashes[first_hash[i]:first_hash[i + 1]]` belong to `values[i]`.
    """
    narrow = _NARROW.get((column_type.bits or 0, column_type.signed))
    if column_type.kind is Kind.INTEGER and narrow is not None:
        stored = np.array(values, np.int64).astype(narrow[1])
        hashes = hash_keys(Keys.fixed(stored, stored.itemsize, len(stored)))
    elif column_type.kind is Kind.DECIMAL:
        forms = [_encode_decimal(int(value), column_type) for value in values]
        hashes = hash_keys(keys_of(pa.array(forms, pa.large_binary())))
    else:
        return hash_all(values, column_type)
    return hashes, np.arange(len(values) + 1, dtype=np.intp)


def stored_keys(storage: pa.Array, column_type: ColumnType) -> Keys:
    """Return the keys of stored values of a Parquet column (see `hashing.arrow`)."""
    narrow = _NARROW.get((column_type.bits or 0, column_type.signed))
    if column_type.kind is Kind.INTEGER and narrow is not None:
        return keys_of(storage.cast(narrow[0]))
    if column_type.kind is Kind.DECIMAL:
        return keys_of(_encode_decimals(storage, column_type))
    return keys_of(storage)


def array_keys(array: pa.Array) -> Keys:
    """Return the keys of the values of any Arrow array, in the width of its type.

    Raises
    ------
    UnsupportedTypeError
        Booleans, and nested types.
    """
    column_type = find_column_type(array.type)
    array = plain(array)
    if pa.types.is_null(array.type):
        return keys_of(pa.nulls(len(array), pa.int32()))
    if column_type.kind is Kind.DECIMAL:
        digits, scale = array.type.precision, array.type.scale
        wide = pa.decimal256 if digits > _DECIMAL128_DIGITS else pa.decimal128
        array = array.cast(wide(digits, scale))
    elif column_type.kind in (Kind.STRING, Kind.BYTES):
        return keys_of(to_storage(array, column_type))
    validity = array.is_valid().buffers()[1] if array.null_count else None
    width = array.type.bit_width // 8
    return Keys.fixed(np.ascontiguousarray(rows_of(array, width)), width, len(array), 0, validity)


def _encode_decimal(value: int, column_type: ColumnType) -> bytes:
    narrow = (column_type.precision or 0) <= _DECIMAL128_DIGITS and -(1 << 127) <= value < 1 << 127
    return value.to_bytes(16 if narrow else 32, "little", signed=True)


def _encode_decimals(storage: pa.Array, column_type: ColumnType) -> pa.Array:
    """Convert stored decimals to the binary values that are hashed."""
    length = column_type.length or 0
    if column_type.physical == "BYTE_ARRAY" or (length > 16 and (column_type.precision or 0) <= _DECIMAL128_DIGITS):
        values: list[bytes | None] = storage.to_pylist()
        forms = [
            None if v is None else _encode_decimal(int.from_bytes(v, "big", signed=True), column_type) for v in values
        ]
        return pa.array(forms, pa.large_binary())
    width = 16 if (column_type.precision or 0) <= _DECIMAL128_DIGITS else 32
    rows = rows_of(storage, length)
    if column_type.physical == "FIXED_LEN_BYTE_ARRAY":
        rows = rows[:, ::-1]
    sign = np.where(rows[:, -1:] & 0x80, 0xFF, 0).astype(np.uint8)
    full = np.ascontiguousarray(np.concatenate([rows, np.repeat(sign, width - length, axis=1)], axis=1))
    validity = storage.is_valid().buffers()[1] if storage.null_count else None
    return pa.Array.from_buffers(pa.binary(width), len(storage), [validity, pa.py_buffer(full)])


def to_arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type for a column's values; for INT96, nanoseconds, though their range is smaller."""
    kind = column_type.kind
    if kind is Kind.INTEGER:
        return pa.type_for_alias(f"{'' if column_type.signed else 'u'}int{column_type.bits or 64}")
    if kind is Kind.FLOAT:
        return pa.type_for_alias(f"float{8 * (column_type.length or 8)}")
    if kind is Kind.DECIMAL:
        wide = pa.decimal128 if (column_type.precision or 0) <= _DECIMAL128_DIGITS else pa.decimal256
        return wide(column_type.precision, column_type.scale)
    if kind is Kind.DATE:
        return pa.date32()
    if kind is Kind.TIME:
        return pa.time32(column_type.unit) if column_type.length == 4 else pa.time64(column_type.unit)
    if kind is Kind.TIMESTAMP:
        return pa.timestamp(column_type.unit, "UTC" if column_type.utc else None)
    if kind is Kind.STRING:
        return pa.string()
    if kind is Kind.UUID:
        return pa.uuid()
    if column_type.physical in ("INT32", "INT64"):
        return pa.int32() if column_type.physical == "INT32" else pa.int64()
    return pa.binary() if column_type.length is None else pa.binary(column_type.length)
