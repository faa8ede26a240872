"""Arrow data -> the plain-encoded keys that the kernels hash.

*Storage* arrays hold stored values as they are: int32, int64, float, double, binary (any width of offsets, or views)
and fixed-size binary. `to_storage` turns any other Arrow array into one, copying only where the encoding differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import FilterTypeError, ParquetBloomError, UnsupportedTypeError, first_line
from ..util.arrow_values import from_numpy, make_array, to_numpy
from .column_type import JULIAN_EPOCH_DAY, ColumnType, Kind, encode, from_arrow

if TYPE_CHECKING:
    from ..util.given_types import ArrowScalar, Values


def chunks_of(values: object, arrow_type: pa.DataType | None = None) -> Iterator[pa.Array]:
    """Yield values of any supported kind as Arrow arrays.

    Parameters
    ----------
    values : pyarrow Array, ChunkedArray, Scalar; NumPy array; anything with `__arrow_c_array__` or `__arrow_c_stream__`
        (polars, DuckDB, pandas) that holds one column; list or tuple of Python values.
    arrow_type : type of Python values and NumPy arrays; None to infer it.
    """
    try:
        yield from _iter_chunks(values, arrow_type)
    except ParquetBloomError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        problem = f"the values cannot be taken as Arrow data of one type: {first_line(error)}"
        raise FilterTypeError(problem) from error


def _iter_chunks(values: object, arrow_type: pa.DataType | None) -> Iterator[pa.Array]:
    if isinstance(values, pa.Array):
        yield values
    elif isinstance(values, pa.ChunkedArray):
        yield from values.chunks
    elif isinstance(values, pa.Scalar):
        yield pa.repeat(values, 1)
    elif isinstance(values, pa.Table | pa.RecordBatch):
        yield from _only_column(values)
    elif hasattr(values, "__arrow_c_array__"):
        imported = pa.array(values)
        yield from _only_column(pa.RecordBatch.from_struct_array(imported)) if _is_table(imported) else (imported,)
    elif hasattr(values, "__arrow_c_stream__"):
        # Both tables and columns speak this protocol: a table's stream is one of structs.
        stream = pa.chunked_array(values)
        if _is_table(stream):
            stream = pa.chunked_array([_column_of_struct(chunk) for chunk in stream.chunks], stream.type.field(0).type)
        yield from stream.chunks
    elif type(values).__module__.startswith("pandas."):  # before pandas 3 a Series does not speak the protocol
        array = pa.array(values)
        yield from array.chunks if isinstance(array, pa.ChunkedArray) else (array,)
    elif isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise FilterTypeError(f"values must be one-dimensional, not of shape {values.shape}")
        # Arrow has no arrays of foreign byte order.
        yield pa.array(values.astype(values.dtype.newbyteorder("="), copy=False), arrow_type)
    elif isinstance(values, list | tuple):
        array = pa.array(values, arrow_type)
        if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) for value in values):
            array = pa.array(values, pa.timestamp("ns", array.type.tz))  # of pandas: Arrow infers microseconds
        yield array
    else:
        raise FilterTypeError(f"values of type {type(values).__name__} are not Arrow data, NumPy arrays or lists")


def _is_table(data: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pa.types.is_struct(data.type))


def _column_of_struct(array: pa.StructArray) -> pa.Array:
    if array.type.num_fields != 1:
        raise FilterTypeError(f"expected one column of values, not {array.type.num_fields}")
    return array.flatten()[0]


def _only_column(table: pa.Table | pa.RecordBatch) -> Iterator[pa.Array]:
    if table.num_columns != 1:
        raise FilterTypeError(f"expected one column of values, not {table.num_columns}")
    column = table.column(0)
    yield from column.chunks if isinstance(column, pa.ChunkedArray) else (column,)


def plain(array: pa.Array) -> pa.Array:
    """Return the array without dictionary, run-end or extension wrapping."""
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = _long(array.dictionary).take(array.indices)
        elif isinstance(array, pa.RunEndEncodedArray):
            array = _long(array.values).take(_run_of_each(array))
        else:
            return array


def _long(array: pa.Array) -> pa.Array:
    """Cast texts and bytes to 64-bit offsets, so that `take` cannot overflow; pyarrow cannot take from views at all."""
    types = pa.types
    if types.is_string(array.type) or types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if types.is_binary(array.type) or types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _run_of_each(array: pa.RunEndEncodedArray) -> pa.Array:
    """Return the run number of each position of a run-end encoded array, which may be a slice."""
    ends = to_numpy(array.run_ends)
    return from_numpy(np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), side="right"))


def to_storage(array: pa.Array, column_type: ColumnType) -> pa.Array:
    """Convert an Arrow array to the stored values of a column of `column_type`.

    Raises
    ------
    FilterTypeError
        The values are of another kind, or some cannot be stored in that type unchanged.
    """
    if isinstance(array, pa.ExtensionArray) and from_arrow(array.type).kind is not column_type.kind:
        raise FilterTypeError(f"values of {array.type} are not those of a column of {column_type}")
    source = from_arrow(array.type)
    array = plain(array)
    try:
        return _to_storage(array, source, column_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FilterTypeError(f"values of {array.type} do not fit a column of {column_type}: {error}") from error


_SAME_BYTES = {Kind.STRING, Kind.BYTES, Kind.UUID, Kind.UNKNOWN}


def _to_storage(array: pa.Array, source: ColumnType, target: ColumnType) -> pa.Array:
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int32())
    if pa.types.is_boolean(array.type) or target.physical == "BOOLEAN":
        raise UnsupportedTypeError("BOOLEAN columns get no filter: there are two values to find")
    if target.kind in _SAME_BYTES and target.physical.endswith("BYTE_ARRAY"):
        texts = source.kind is Kind.STRING and target.kind is Kind.UUID  # a UUID's text is not its bytes
        if source.kind in _SAME_BYTES and source.physical.endswith("BYTE_ARRAY") and not texts:
            return _binary(array, target)
    elif source.kind is not target.kind:
        if target.kind is Kind.UNKNOWN and source.physical == target.physical and source.kind is Kind.INTEGER:
            return _to_storage(array, source, source)
    elif target.physical == "INT96":
        return _int96(array)
    elif source.kind is Kind.TIMESTAMP and source.utc != target.utc:
        pass
    elif source.kind is Kind.DECIMAL:
        return _decimal(array, target)
    elif source.kind is Kind.FLOAT:
        return _float(array, target)
    else:
        exact = array.cast(_arrow_integers(target))
        return _reinterpret(exact, pa.int32() if target.physical == "INT32" else pa.int64())
    raise FilterTypeError(f"values of {array.type} are not those of a column of {target}")


def _arrow_integers(target: ColumnType) -> pa.DataType:
    """Return the Arrow type of the values of an integer, date, time or timestamp column."""
    if target.kind is Kind.DATE:
        return pa.date32()
    if target.kind is Kind.TIME:
        return pa.time32("ms") if target.unit == "ms" else pa.time64(target.unit)
    if target.kind is Kind.TIMESTAMP:
        return pa.timestamp(target.unit, "UTC" if target.utc else None)
    return {
        (8, True): pa.int8(),
        (16, True): pa.int16(),
        (32, True): pa.int32(),
        (64, True): pa.int64(),
        (8, False): pa.uint8(),
        (16, False): pa.uint16(),
        (32, False): pa.uint32(),
        (64, False): pa.uint64(),
    }[target.bits or 64, target.signed]


def _reinterpret(array: pa.Array, storage: pa.DataType) -> pa.Array:
    """Widen narrow integers (sign or zero extended), and view full-width ones as signed."""
    if array.type.bit_width < storage.bit_width:
        return array.cast(storage)
    return array.view(storage)


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap, with the array's first value at bit 0; None when nothing is null."""
    return array.is_valid().buffers()[1] if array.null_count else None


def _make_fixed(data: np.ndarray, array: pa.Array) -> pa.Array:
    """Make a fixed-size binary array of rows of bytes, one for each value of `array`, with its nulls."""
    stored = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(pa.binary(data.shape[1]), len(array), [validity_of(array), stored])


def rows_of(array: pa.Array, width: int) -> np.ndarray:
    """Return a fixed-width array's values as rows of bytes, uint8 of shape (n, width), including the slots of nulls."""
    if len(array) == 0:
        return np.empty((0, width), np.uint8)
    data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    return data.reshape(-1, width)


def _binary(array: pa.Array, target: ColumnType) -> pa.Array:
    if pa.types.is_string_view(array.type):
        array = array.view(pa.binary_view())
    elif pa.types.is_string(array.type):
        array = array.view(pa.binary())
    elif pa.types.is_large_string(array.type):
        array = array.view(pa.large_binary())
    if target.length is not None and array.type != pa.binary(target.length):
        return array.cast(pa.binary(target.length))
    return array


def _decimal(array: pa.Array, target: ColumnType) -> pa.Array:
    wide = pa.decimal256 if (target.precision or 0) > 38 or pa.types.is_decimal256(array.type) else pa.decimal128
    array = array.cast(wide(target.precision, target.scale))  # raises where digits would be lost
    width = array.type.bit_width // 8
    rows = rows_of(array, width)
    if target.physical in ("INT32", "INT64"):
        words = rows.view(np.int64)[:, 0]
        stored = from_numpy(words.astype(np.int32 if target.physical == "INT32" else np.int64))
        return pa.Array.from_buffers(stored.type, len(array), [validity_of(array), stored.buffers()[1]])
    if target.physical == "BYTE_ARRAY":
        unscaled = (int.from_bytes(row.tobytes(), "little", signed=True) for row in rows)
        valid = array.is_valid().to_pylist()
        return make_array(
            [encode(value, target)[0] if ok else None for value, ok in zip(unscaled, valid, strict=True)], pa.binary()
        )
    length = target.length or 0
    if length > width:
        sign = np.where(rows[:, -1:] & 0x80, 0xFF, 0).astype(np.uint8)
        rows = np.concatenate([rows, np.repeat(sign, length - width, axis=1)], axis=1)
    elif not _all_valid(rows[:, length:] == np.where(rows[:, length - 1 : length] & 0x80, 0xFF, 0), array):
        raise FilterTypeError(f"decimals do not fit the {length} bytes of a column of {target}")
    return _make_fixed(rows[:, :length][:, ::-1], array)


def _all_valid(rows: np.ndarray, array: pa.Array) -> bool:
    """Return whether all rows of non-null values are true."""
    valid = to_numpy(array.is_valid())
    return bool(rows.all() or rows[valid].all())


def _float(array: pa.Array, target: ColumnType) -> pa.Array:
    width = target.length or 8
    if array.type.bit_width == 8 * width:
        return _make_fixed(rows_of(array, 2), array) if width == 2 else array
    arrow_type = {2: pa.float16(), 4: pa.float32(), 8: pa.float64()}[width]
    cast = array.cast(arrow_type)
    if array.type.bit_width > 8 * width and not _equal_floats(cast.cast(array.type), array):
        raise FilterTypeError(f"values of {array.type} are rounded in a column of {target}")
    return _float(cast, target)


def _equal_floats(left: pa.Array, right: pa.Array) -> bool:
    return bool(np.array_equal(to_numpy(left), to_numpy(right), equal_nan=True))


def _int96(array: pa.Array) -> pa.Array:
    moments = array.cast(pa.timestamp(array.type.unit))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    counts = rows_of(moments, 8).view(np.int64)[:, 0]
    days, rest = np.divmod(counts, 86_400 * per_second)
    last = 2**31 - 1 - JULIAN_EPOCH_DAY
    if not _all_valid(((days >= -(2**31) - JULIAN_EPOCH_DAY) & (days <= last))[:, np.newaxis], array):
        raise FilterTypeError(f"values of {array.type} lie beyond the days that INT96 can hold")
    stored = np.empty(len(array), dtype=np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    stored["nanos"] = rest * (10**9 // per_second)
    stored["day"] = days + JULIAN_EPOCH_DAY
    return _make_fixed(stored.view(np.uint8).reshape(len(array), 12), array)


def keys_of(storage: pa.Array | Keys) -> Keys:
    """Return the kernels' view of a storage array's memory, without copying."""
    if isinstance(storage, Keys):
        return storage
    buffers, offset, n = storage.buffers(), storage.offset, len(storage)
    validity = buffers[0] if storage.null_count else None
    if pa.types.is_binary(storage.type) or pa.types.is_large_binary(storage.type):
        wide = pa.types.is_large_binary(storage.type)
        return Keys.variable(buffers[1], buffers[2], n, offset, validity, wide)
    if pa.types.is_binary_view(storage.type):
        return Keys.views(buffers[1], buffers[2:], n, offset, validity)
    return Keys.fixed(buffers[1], storage.type.bit_width // 8, n, offset, validity)


def type_of(array: pa.Array) -> ColumnType:
    """Return the column type that pyarrow's writer would store an array as."""
    column_type = from_arrow(array.type)
    if not column_type.hashable:
        raise UnsupportedTypeError("BOOLEAN values are not hashed: BOOLEAN columns get no filter")
    return column_type


def hash_array(array: pa.Array, column_type: ColumnType | None = None) -> np.ndarray:
    """Return hashes (uint64) of an array's non-null values as `column_type` stores them (default: the array's type)."""
    return hash_keys(keys_of(to_storage(array, column_type or type_of(array))))


def hash_values(values: Values | ArrowScalar, type: pa.DataType | None = None) -> np.ndarray:
    """Return the XXH64 (seed 0) of the values' plain encoding, as Parquet's Bloom filters use it.

    Parameters
    ----------
    values : pyarrow Array, ChunkedArray or Scalar; NumPy array; object with `__arrow_c_array__` or
        `__arrow_c_stream__`; list or tuple.
    type : Arrow type of Python values; inferred when None. The Arrow type decides the encoding, as in pyarrow's
        writer: `int8` is hashed as INT32, `decimal128` as FIXED_LEN_BYTE_ARRAY, `timestamp("s")` as milliseconds.

    Returns
    -------
    uint64 array, one hash a non-null value, in order (nulls are never hashed).

    Raises
    ------
    UnsupportedTypeError
        Booleans, and nested types.
    FilterTypeError
        The values are not Arrow data, or not of one type.

    Notes
    -----
    Source: Parquet format, BloomFilter.md and Encodings.md (PLAIN, without the length in front of BYTE_ARRAY).

    Examples
    --------
    >>> from parquet_bloom import filter
    >>> filter.hash_values([1401181143]).dtype
    dtype('uint64')
    """
    hashes = [hash_array(array) for array in chunks_of(values, type)]
    if len(hashes) == 1:
        return hashes[0]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


def leaf_values(array: pa.Array) -> pa.Array:
    """Return the values of the only leaf below structs and lists; values of null parents are dropped or null."""
    while pa.types.is_nested(array.type):
        if pa.types.is_struct(array.type):
            array = array.flatten()[0]
        else:
            array = array.flatten()
    return array


def to_floats(storage: pa.Array) -> np.ndarray:
    """Return a float column's storage array as NumPy floats; the slots of nulls are undefined."""
    if pa.types.is_fixed_size_binary(storage.type):
        return rows_of(storage, 2).view(np.float16)[:, 0]
    dtype = np.float32 if pa.types.is_float32(storage.type) else np.float64
    return rows_of(storage, dtype().itemsize).view(dtype)[:, 0]
