"""Decode the bounds of columns in Iceberg metadata, by the single-value serialization of its specification.

Bounds may be of the type that a column had when its file was written: their length tells. What does not fit the
column's type in one of these ways is taken for unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...hashing.column_type import ColumnType, Kind

_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_LONGEST_DECIMAL = 16  # bytes
_UUID = 16


def can_decode(iceberg_type: Any, column_type: ColumnType) -> bool:
    """Return whether bounds of an Iceberg type bound a column's domain values.

    Bounds of geometries, for one, are corners of boxes.
    """
    from pyiceberg import types

    known: tuple[type, ...] = (
        types.BooleanType, types.IntegerType, types.LongType, types.FloatType, types.DoubleType, types.DecimalType,
        types.DateType, types.TimeType, types.TimestampType, types.TimestamptzType, types.TimestampNanoType,
        types.TimestamptzNanoType, types.StringType, types.UUIDType, types.FixedType, types.BinaryType,
    )  # fmt: skip
    return isinstance(iceberg_type, known) and column_type.kind is not Kind.UNKNOWN


def decode_bounds(stored: pa.Array, column_type: ColumnType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return domain values, as `make_domain_array` represents them, and which are known.

    Parameters
    ----------
    stored : serialized values (binary, or null where there is none).
    column_type : of the column as the table has it.
    """
    kind = column_type.kind
    lengths = pc.fill_null(pc.binary_length(stored), -1).to_numpy(zero_copy_only=False)
    if kind is Kind.FLOAT:
        return _decode_floats(stored, lengths, column_type.length or 8)
    if column_type.physical in ("INT32", "INT64"):
        return _decode_integers(stored, lengths, column_type)
    if kind is Kind.BOOLEAN:
        known = lengths == 1
        return _to_objects(stored, known, lambda value: value != b"\0"), known
    if kind is Kind.DECIMAL:
        known = (lengths >= 1) & (lengths <= _LONGEST_DECIMAL)
        return _to_objects(stored, known, lambda value: int.from_bytes(value, "big", signed=True)), known
    known = lengths == _UUID if kind is Kind.UUID else lengths >= 0
    return _to_objects(stored, known, None), known


def _decode_integers(
    stored: pa.Array, lengths: NDArray[Any], column_type: ColumnType
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values, known = np.zeros(len(stored), np.int64), np.zeros(len(stored), np.bool_)
    width = column_type.length or 0
    whole = lengths == width
    values[whole], known[whole] = _view(stored, whole, f"<i{width}"), True
    short = lengths == 4
    if width == 8 and column_type.kind is Kind.INTEGER:
        values[short], known[short] = _view(stored, short, "<i4"), True
    elif column_type.kind is Kind.TIMESTAMP and column_type.utc is False and short.any():  # the column was a date
        day = _DAY[column_type.unit or "us"]
        days = np.zeros(len(stored), np.int64)
        days[short] = _view(stored, short, "<i4")
        fits = short & (np.abs(days) < np.iinfo(np.int64).max // day)
        values[fits], known[fits] = days[fits] * day, True
    return values, known


def _decode_floats(stored: pa.Array, lengths: NDArray[Any], width: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    values, known = np.zeros(len(stored), np.float64), np.zeros(len(stored), np.bool_)
    for length in (4, 8) if width == 8 else (4,):
        chosen = lengths == length
        values[chosen], known[chosen] = _view(stored, chosen, f"<f{length}"), True
    known &= ~np.isnan(values)
    return values, known


def _view(stored: pa.Array, chosen: NDArray[np.bool_], dtype: str) -> NDArray[Any]:
    """Return some entries, all of one length, as numbers."""
    packed = stored.take(pa.array(np.flatnonzero(chosen)))
    if not len(packed):
        return np.empty(0, dtype)
    return np.frombuffer(b"".join(packed.to_pylist()), dtype)


def _to_objects(stored: pa.Array, known: NDArray[np.bool_], convert: Any) -> NDArray[Any]:
    objects = np.empty(len(stored), object)
    values = stored.to_pylist()
    for i in np.flatnonzero(known).tolist():
        objects[i] = values[i] if convert is None else convert(values[i])
    return objects
