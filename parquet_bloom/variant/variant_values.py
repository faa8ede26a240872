"""The values at a path of a Variant column, cast to a type as Spark's `variant_get` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..core.decode.variant_decode import TYPES
from ..errors import UnsupportedTypeError
from ..util.lazy import late_module
from .variant_layout import chunks_of, concatenate, describe_leaf, make_text_array, open_variant
from .variant_path import VariantPath

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


def extract(
    column: pa.Array | pa.ChunkedArray,
    path: VariantPath,
    target: pa.DataType,
    *,
    try_cast: bool,
    name: str | None = None,
    first_row: int = 0,
) -> pa.Array:
    """Return the value at a path for each row, cast to a type.

    Parameters
    ----------
    column : a struct or extension array of `metadata`, `value` and, where it is shredded, `typed_value`.
    path : where the value is.
    target : boolean, int8 to int64, float, double, decimal128, string, binary, date32, timestamp of microseconds with
        a zone (UTC) or without; also time64 of microseconds, timestamps of nanoseconds and 16 bytes (UUID), of
        values of this very type.
    try_cast : a value that cannot be cast is null.
    name, first_row : of the column, for errors.

    Returns
    -------
    an array of the type: null for SQL's NULL, a Variant null, and where nothing is at the path.

    Raises
    ------
    VariantCastError
        A value cannot be cast, or, also for `try_cast`, what it is cast to depends on the settings of a session.
    MalformedVariantError
        A row, or the column's type, does not conform to the format.
    UnsupportedTypeError
        Values cannot be cast to the type.
    """
    leaf = describe_leaf(target)
    if leaf is None:
        raise UnsupportedTypeError(f"values of a Variant cannot be cast to {target}", column=name)
    kind, width, scale = leaf
    if kind == "decimal" and width < 16:
        raise UnsupportedTypeError(f"values of a Variant are cast to decimal128, not to {target}", column=name)
    precision = target.precision if kind == "decimal" else 0
    as_target = (TYPES[kind], width * 8, precision, scale, max(width, 1) if kind == "boolean" else width, str(target))
    chunks = []
    for start, chunk in chunks_of(column):
        array = _find_leaf(chunk, path, target)
        if array is None:
            parts = open_variant(chunk, name).extract(path.steps, as_target, try_cast, first_row + start)
            array = _make_array(len(chunk), *parts, kind, target)
        chunks.append(array)
    return concatenate(chunks, target)


def _make_array(length: int, valid: object, ends: object, values: object, kind: str, target: pa.DataType) -> pa.Array:
    if kind in ("string", "binary"):
        made = make_text_array(
            length, valid, ends, values, pa.large_string() if kind == "string" else pa.large_binary()
        )
        return made if made.type == target else made.cast(target)
    buffers = [pa.py_buffer(valid), pa.py_buffer(values)]
    if kind == "boolean":
        flags = pa.Array.from_buffers(pa.uint8(), length, buffers)
        return flags.cast(target)
    return pa.Array.from_buffers(target, length, buffers)


def _find_leaf(array: pa.StructArray, path: VariantPath, target: pa.DataType) -> pa.Array | None:
    """Return the column that the path is shredded to, if it has the type and holds all values; None otherwise.

    Where it is null, the value may be in what is beside it or beside one of its parents, unless that is null as well.
    """
    group = array.type
    way: list[int] = []
    values: list[list[int]] = []
    for part in (*path.parts, None):
        if isinstance(part, int) or not pa.types.is_struct(group):
            return None
        if (value := group.get_field_index("value")) >= 0:
            values.append([*way, value])
        typed = group.get_field_index("typed_value")
        if typed < 0:
            return None
        way.append(typed)
        group = group[typed].type
        if part is not None:
            number = group.get_field_index(part) if pa.types.is_struct(group) else -1
            if number < 0:
                return None
            way.append(number)
            group = group[number].type
    if group != target or (len(values) and values[-1][:-1] == way[:-1] and _has_values(array, values[-1])):
        return None
    leaf = pc.struct_field(array, way)
    return leaf if not leaf.null_count or not any(_has_values(array, each) for each in values) else None


def _has_values(array: pa.StructArray, way: list[int]) -> bool:
    return bool(pc.struct_field(array, way).null_count < len(array))
