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
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

AnyArray = NDArray[Any]
"""An array of numpy whose type is known only when the program runs."""

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
_NUMPY: dict[pa.DataType, np.dtype[np.generic]] = {kind: np.dtype(code) for kind, (code, _) in _FIXED.items()}
_ARROW = {dtype: kind for kind, dtype in _NUMPY.items()}


def make_array(values: Sequence[object], arrow_type: pa.DataType) -> pa.Array:
    """Make an array of Python values, as `pyarrow.array` does with the same errors.

    Parameters
    ----------
    values : values of the type's plain Python type, or None; others are left to pyarrow.
    arrow_type : type of the array.
    """
    made = _make_plain(values, arrow_type)
    return pa.array(values, arrow_type) if made is None else made


def make_scalar(value: object, arrow_type: pa.DataType) -> pa.Scalar:
    """Make a scalar of a Python value, as `pyarrow.scalar` does with the same errors."""
    if value is None:
        return pa.nulls(1, arrow_type)[0]
    made = _make_plain([value], arrow_type)
    return pa.scalar(value, arrow_type) if made is None else made[0]


def from_numpy(values: AnyArray, mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Make an array of numpy's numbers or booleans, as `pyarrow.array` does; true items of the mask are null."""
    bits = values.dtype == np.bool_
    arrow_type = pa.bool_() if bits else _ARROW.get(values.dtype)
    if arrow_type is None or values.ndim != 1:
        return pa.array(values, mask=mask)
    data = np.packbits(values, bitorder="little") if bits else np.ascontiguousarray(values)
    valid = None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(arrow_type, len(values), [valid, pa.py_buffer(data)])


def to_numpy(values: pa.Array | pa.ChunkedArray) -> AnyArray:
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
        buffers: list[object]
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


Data = TypeVar("Data", pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)

_FEW_OF = 16  # `take` is faster than `filter` if at most one in so many of the rows is requested
_WITHOUT_KERNELS = {pa.string_view().id, pa.binary_view().id, pa.run_end_encoded(pa.int32(), pa.null()).id}


def take(data: Data, rows: NDArray[np.int64]) -> Data:
    """Return rows by their positions, in any order."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        if all(map(has_kernels, data.schema.types)):
            return data.take(from_numpy(rows))
        return type(data).from_arrays([take(column, rows) for column in data.columns], schema=data.schema)
    if has_kernels(data.type):
        return data.take(from_numpy(rows))
    if isinstance(data.type, pa.BaseExtensionType):
        return _take_extension(data, rows)
    wide = _widen(data.type)
    if wide is not None:
        return data.cast(wide).take(from_numpy(rows)).cast(data.type)
    return _take_one_by_one(data, rows)


def keep(data: Data, mask: pa.Array | pa.ChunkedArray) -> Data:
    """Return the rows for which a mask is true."""
    types = data.schema.types if isinstance(data, pa.Table | pa.RecordBatch) else [data.type]
    if all(map(has_kernels, types)):
        return data.filter(mask)
    chunks = mask.chunks if isinstance(mask, pa.ChunkedArray) else [mask]
    parts: list[NDArray[np.bool_]] = [chunk.fill_null(False).to_numpy(zero_copy_only=False) for chunk in chunks]
    return take(data, np.flatnonzero(np.concatenate([np.empty(0, np.bool_), *parts])))


def take_rows(data: pa.Table | pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Table | pa.ChunkedArray:
    """Take rows of a table or column by ascending positions; works for every type."""
    if isinstance(data, pa.Table):
        columns = [take_rows(column, rows) for column in data.columns]
        return pa.Table.from_arrays(columns, schema=data.schema) if columns else data.slice(0, len(rows))
    if len(rows) == len(data):
        return data
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(rows) * _FEW_OF > len(data):
        return data.slice(int(rows[0]), len(rows))
    ends = np.cumsum([len(chunk) for chunk in data.chunks])
    parts = np.split(rows, np.searchsorted(rows, ends[:-1])) if data.num_chunks else []
    # Chunk by chunk: `take` would concatenate them first.
    chunks = [
        _take_from_chunk(chunk, part - (end - len(chunk)))
        for chunk, part, end in zip(data.chunks, parts, ends, strict=True)
        if len(part)
    ]
    return pa.chunked_array(chunks, data.type)


def _take_from_chunk(chunk: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    if len(rows) * _FEW_OF <= len(chunk) or not has_kernels(chunk.type):
        return take(chunk, rows)
    mask = np.zeros(len(chunk), bool)
    mask[rows] = True
    return chunk.filter(from_numpy(mask))


def has_kernels(arrow_type: pa.DataType) -> bool:
    """Return whether Arrow's `take` and `filter` know a type."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return has_kernels(arrow_type.storage_type)
    if arrow_type.id in _WITHOUT_KERNELS:
        return False
    # A dictionary has no fields: its indices are taken, whatever its values are.
    return all(has_kernels(arrow_type.field(i).type) for i in range(arrow_type.num_fields))


def widen(table: pa.Table) -> pa.Table:
    """Return a table whose columns are of types with kernels, where values can be cast to one."""
    for i, field in enumerate(table.schema):
        wide = _widen(field.type)
        if wide is not None and wide != field.type:
            table = table.set_column(i, field.with_type(wide), table.column(i).cast(wide))
    return table


def _widen(arrow_type: pa.DataType) -> pa.DataType | None:
    """Return a type with kernels that values can be cast to and back; None if there is none."""
    types = pa.types
    if types.is_string_view(arrow_type):
        return pa.large_string()
    if types.is_binary_view(arrow_type):
        return pa.large_binary()
    if has_kernels(arrow_type):
        return arrow_type
    if isinstance(arrow_type, pa.BaseExtensionType):
        return None  # pyarrow's cast to an extension of views loses the texts
    fields = []
    for i in range(arrow_type.num_fields):
        field = arrow_type.field(i)
        wide = _widen(field.type)
        if wide is None:
            return None
        fields.append(field.with_type(wide))
    return _with_fields(arrow_type, fields)


def decode_dictionaries(arrow_type: pa.DataType) -> pa.DataType:
    """Return a type with the values' types in place of dictionaries."""
    if pa.types.is_dictionary(arrow_type):
        return decode_dictionaries(arrow_type.value_type)
    given = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    fields = [field.with_type(decode_dictionaries(field.type)) for field in given]
    return arrow_type if fields == given else _with_fields(arrow_type, fields) or arrow_type


def _with_fields(arrow_type: pa.DataType, fields: list[pa.Field]) -> pa.DataType | None:
    """Return a nested type with other fields; None for one of a kind that is not known."""
    types = pa.types
    if types.is_struct(arrow_type):
        return pa.struct(fields)
    if types.is_map(arrow_type):
        key, item = fields[0].type
        return pa.map_(key, item, arrow_type.keys_sorted)
    if types.is_fixed_size_list(arrow_type):
        return pa.list_(fields[0], arrow_type.list_size)
    if types.is_list(arrow_type):
        return pa.list_(fields[0])
    return pa.large_list(fields[0]) if types.is_large_list(arrow_type) else None


def _take_extension(data: pa.Array | pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
    if isinstance(data, pa.Array):
        return pa.ExtensionArray.from_storage(data.type, take(data.storage, rows))
    stored = take(pa.chunked_array([chunk.storage for chunk in data.chunks], data.type.storage_type), rows)
    return pa.chunked_array([pa.ExtensionArray.from_storage(data.type, chunk) for chunk in stored.chunks], data.type)


def _take_one_by_one(data: pa.Array | pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.Array | pa.ChunkedArray:
    if isinstance(data, pa.Array):
        return pa.concat_arrays([data.slice(0, 0), *(data.slice(row, 1) for row in rows.tolist())])
    parts = [part for row in rows.tolist() for part in data.slice(row, 1).chunks]
    return pa.chunked_array([pa.concat_arrays(parts)] if parts else [], data.type)
