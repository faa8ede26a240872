"""Arrow arrays and scalars from plain values, and back to numpy, without pandas.

`pyarrow.array`, `pyarrow.scalar`, `Array.to_numpy` and `Schema.empty_table` import pandas, if it is installed, to find
out whether a value is one of pandas': that takes longer than most scans. Where values are known to be plain, these
functions do the same by buffers; whatever they do not know is left to pyarrow.
"""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Types of a fixed width: Python's code of their items, and the type of the values that are converted here.
_FIXED: dict[pa.DataType, tuple[str, type]] = {
    pa.int8(): ("b", int),
    pa.int16(): ("h", int),
    pa.int32(): ("i", int),
    pa.int64(): ("q", int),
    pa.uint8(): ("B", int),
    pa.uint16(): ("H", int),
    pa.uint32(): ("I", int),
    pa.uint64(): ("Q", int),
    pa.float32(): ("f", float),
    pa.float64(): ("d", float),
}
# Types of variable width: the code of their offsets, and the type of the values.
_VARIABLE: dict[pa.DataType, tuple[str, type]] = {
    pa.string(): ("i", str),
    pa.large_string(): ("q", str),
    pa.binary(): ("i", bytes),
    pa.large_binary(): ("q", bytes),
}
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_NUMPY: dict[pa.DataType, np.dtype[Any]] = {kind: np.dtype(code) for kind, (code, _) in _FIXED.items()}
_ARROW = {dtype: kind for kind, dtype in _NUMPY.items()}


def make_array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Make an array of Python values, as `pyarrow.array` does with the same errors.

    Parameters
    ----------
    values : values of the type's plain Python type, or None; others are left to pyarrow.
    arrow_type : type of the array.
    """
    made = _make_plain(values, arrow_type)
    return pa.array(values, arrow_type) if made is None else made


def make_scalar(value: Any, arrow_type: pa.DataType) -> pa.Scalar:
    """Make a scalar of a Python value, as `pyarrow.scalar` does with the same errors."""
    if value is None:
        return pa.nulls(1, arrow_type)[0]
    made = _make_plain([value], arrow_type)
    return pa.scalar(value, arrow_type) if made is None else made[0]


def from_numpy(values: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Make an array of numpy's numbers or booleans, as `pyarrow.array` does; true items of the mask are null."""
    bits = values.dtype == np.bool_
    arrow_type = pa.bool_() if bits else _ARROW.get(values.dtype)
    if arrow_type is None or values.ndim != 1:
        return pa.array(values, mask=mask)
    data = np.packbits(values, bitorder="little") if bits else np.ascontiguousarray(values)
    valid = None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(arrow_type, len(values), [valid, pa.py_buffer(data)])


def to_numpy(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers or booleans without nulls as numpy's, as `to_numpy` does; it may be read-only."""
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            chunks = [to_numpy(chunk) for chunk in values.chunks]
            return np.concatenate(chunks) if chunks else to_numpy(pa.nulls(0, values.type))
        values = values.chunk(0)
    is_bool = pa.types.is_boolean(values.type)
    dtype = _NUMPY.get(values.type)
    if (dtype is None and not is_bool) or values.null_count:
        return values.to_numpy(zero_copy_only=False)
    data, offset, length = values.buffers()[1], values.offset, len(values)
    if dtype is not None:
        return np.empty(0, dtype) if not length else np.frombuffer(data, dtype, length, offset * dtype.itemsize)
    if not length:
        return np.empty(0, np.bool_)
    first = offset // 8
    octets = np.frombuffer(data, np.uint8, (offset + length + 7) // 8 - first, first)
    start = offset - first * 8
    return np.unpackbits(octets, count=start + length, bitorder="little")[start:].view(np.bool_)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Make a table without rows."""
    return pa.Table.from_batches([], schema)


def _make_plain(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Make an array of values that are all of the type's Python type, or None; None for others."""
    number = len(values)
    if arrow_type == pa.date32() and set(map(type, values)) <= {dt.date, type(None)}:
        days = make_array([None if day is None else day.toordinal() - _EPOCH_DAY for day in values], pa.int32())
        return days.view(arrow_type)
    width = arrow_type.byte_width if pa.types.is_fixed_size_binary(arrow_type) else 0
    code, kind = _FIXED.get(arrow_type) or _VARIABLE.get(arrow_type) or ("", bytes if width else bool)
    if not code and not width and arrow_type != pa.bool_():
        return None
    kinds = set(map(type, values))
    valid = None
    if not kinds <= {kind}:
        if not kinds <= {kind, type(None)}:
            return None
        valid = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
        values = [(bytes(width) if width else kind()) if value is None else value for value in values]
    if width and any(len(value) != width for value in values):
        return None
    try:
        buffers: list[Any]
        if width:
            buffers = [b"".join(values)]
        elif not code:
            buffers = [np.packbits(np.array(values, np.bool_), bitorder="little")]
        elif arrow_type in _FIXED:
            buffers = [array(code, values)]
        else:
            octets: Sequence[bytes] = [text.encode() for text in values] if kind is str else values
            buffers = [array(code, accumulate(map(len, octets), initial=0)), b"".join(octets)]
    except (OverflowError, UnicodeError):
        return None
    return pa.Array.from_buffers(arrow_type, number, [valid, *map(pa.py_buffer, buffers)])
