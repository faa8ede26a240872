"""Take rows of Arrow data of any type. Arrow's own kernels lack some, above all views, whose error names no column."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrow_values import from_numpy

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
