"""Convert Arrow values to plain ones that JSON can hold and people can read, without loss.

Numbers, booleans, strings and nulls are themselves, structs are objects, lists are lists, and a map is a list of
{"key", "value"}. Everything else is a string: dates, times and timestamps in ISO 8601 (instants in UTC, with a Z),
decimals with all their digits, bytes in hexadecimal, UUIDs in their usual form, and "NaN", "Infinity" and "-Infinity",
which JSON does not support. Durations are integers of their unit.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .arrow_values import make_scalar, to_numpy
from .lazy import late_module

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

_Plain = Callable[[pa.Array], list[Any]]


def plain(array: pa.Array) -> list[Any]:
    """Convert the values of an array."""
    for matches, convert in _CONVERTERS:
        if matches(array.type):
            return convert(array)
    return [None if value is None else str(value) for value in array.to_pylist()]


def plain_rows(batch: pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
    """Yield the rows of a batch as tuples of converted values."""
    return zip(*map(plain, batch.columns), strict=True)


def is_number(arrow_type: pa.DataType) -> bool:
    """Return whether a type is numeric; tables align numbers to the right."""
    return pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)


def _convert_each(turn: Callable[[Any], Any]) -> _Plain:
    return lambda array: [None if value is None else turn(value) for value in array.to_pylist()]


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _short_floats(array: pa.Array) -> list[Any]:
    """Convert floats of less than 64 bits to their shortest exact digits, not those of the nearest double.

    Of 7.038531e-26, what reads these digits as a double, as JSON is read, makes another float: that one is given as
    the double that it is.
    """
    values = to_numpy(_fill_zeros(array) if pa.types.is_float32(array.type) else array)
    short = np.array([*map(str, values)], np.float64) if len(values) else np.empty(0)
    exact = np.where(short.astype(values.dtype) == values, short, values.astype(np.float64)).tolist()
    return [_float(value) if valid else None for value, valid in zip(exact, _list_valid(array), strict=True)]


def _fill_zeros(array: pa.Array) -> pa.Array:
    """Replace nulls by zeros; pyarrow's methods import pyarrow.compute, which most arrays can do without."""
    return (
        array.fill_null(make_scalar(0.0 if pa.types.is_floating(array.type) else 0, array.type))
        if array.null_count
        else array
    )


def _list_valid(array: pa.Array) -> Sequence[bool]:
    """Return which values are not null."""
    return array.is_valid().to_pylist() if array.null_count else [True] * len(array)


def _texts(array: pa.Array) -> list[Any]:
    try:
        return array.to_pylist()
    except UnicodeDecodeError:  # some writers store invalid UTF-8
        return _convert_each(lambda value: value.decode("utf-8", "backslashreplace"))(array.cast(pa.large_binary()))


def _moments(array: pa.Array) -> list[Any]:
    """Convert dates and timestamps of any year; those of Python end at year 9999."""
    arrow_type = array.type
    if pa.types.is_date(arrow_type):
        unit, integer_type = ("D", pa.int32()) if pa.types.is_date32(arrow_type) else ("ms", pa.int64())
    else:
        unit, integer_type = arrow_type.unit, pa.int64()
    numbers = to_numpy(_fill_zeros(array.view(integer_type)))
    moments = numbers.astype(f"datetime64[{unit}]")
    if pa.types.is_date(arrow_type):
        moments = moments.astype("datetime64[D]")
    end = "Z" if pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None else ""
    texts = np.datetime_as_string(moments).tolist()
    return [text + end if valid else None for text, valid in zip(texts, _list_valid(array), strict=True)]


def _structs(array: pa.Array) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    rows: Iterable[tuple[Any, ...]] = zip(*map(plain, array.flatten()), strict=True) if names else [()] * len(array)
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _lists(array: pa.Array) -> list[Any]:
    """Convert lists of any kind, without the values under null lists."""
    lengths = pc.list_value_length(array).to_pylist()
    values = iter(plain(array.flatten()))
    return [None if length is None else [next(values) for _ in range(length)] for length in lengths]


def _maps(array: pa.Array) -> list[Any]:
    """Convert maps to lists of entries, as keys may have any type, and occur twice."""
    offsets = array.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    keys = plain(array.keys.slice(first, last - first))
    items = plain(array.items.slice(first, last - first))
    entries = [{"key": key, "value": item} for key, item in zip(keys, items, strict=True)]
    return [
        entries[begin - first : end - first] if valid else None
        for begin, end, valid in zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    ]


def _extensions(array: pa.Array) -> list[Any]:
    if array.type.extension_name == "arrow.uuid":
        return _convert_each(lambda value: str(uuid.UUID(bytes=value)))(array.storage)
    return plain(array.storage)


def _is_text(arrow_type: pa.DataType) -> bool:
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)


def _is_bytes(arrow_type: pa.DataType) -> bool:
    return (
        pa.types.is_binary(arrow_type)
        or pa.types.is_large_binary(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
        or pa.types.is_binary_view(arrow_type)
    )


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], _Plain], ...] = (
    (lambda t: pa.types.is_integer(t) or pa.types.is_boolean(t) or pa.types.is_null(t), lambda a: a.to_pylist()),
    (_is_text, _texts),
    (pa.types.is_float64, _convert_each(_float)),
    (pa.types.is_floating, _short_floats),
    (lambda t: pa.types.is_date(t) or pa.types.is_timestamp(t), _moments),
    (pa.types.is_time, lambda a: a.cast(pa.string()).to_pylist()),
    (pa.types.is_duration, lambda a: a.cast(pa.int64()).to_pylist()),
    (pa.types.is_decimal, _convert_each(lambda value: format(value, "f"))),
    (_is_bytes, _convert_each(lambda value: value.hex())),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (
        lambda t: pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t),
        _lists,
    ),
    (pa.types.is_dictionary, lambda a: plain(a.dictionary_decode())),
    (lambda t: isinstance(t, pa.BaseExtensionType), _extensions),
)
