"""Which groups of `value` and `typed_value` a Variant column consists of, and their buffers for compiled code.

Source: parquet-format, VariantShredding.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ..core.decode.variant_decode import TYPES, VariantReader
from ..errors import MalformedVariantError
from ..util.arrow_values import make_array

_DEEPEST = 200
"""Groups within each other; a schema that is nested deeper is refused, before functions call themselves so often."""

_PLAIN: dict[pa.DataType, tuple[str, int]] = {
    pa.bool_(): ("boolean", 0),
    pa.int8(): ("integer", 1),
    pa.int16(): ("integer", 2),
    pa.int32(): ("integer", 4),
    pa.int64(): ("integer", 8),
    pa.float32(): ("float", 4),
    pa.float64(): ("double", 8),
    pa.date32(): ("date", 4),
    pa.time64("us"): ("time", 8),
    pa.string(): ("string", 0),
    pa.large_string(): ("string", 0),
    pa.binary(): ("binary", 0),
    pa.large_binary(): ("binary", 0),
    pa.binary(16): ("uuid", 16),
}
_DECIMALS = (pa.types.is_decimal32, pa.types.is_decimal64, pa.types.is_decimal128)


def describe_leaf(arrow_type: pa.DataType) -> tuple[str, int, int] | None:
    """Return what an Arrow type is called in `variant_decode.TYPES`, its bytes and its scale; None if it is none."""
    if arrow_type in _PLAIN:
        return (*_PLAIN[arrow_type], 0)
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit in ("us", "ns"):
        zone = "" if arrow_type.tz is not None else "_ntz"
        return f"timestamp{zone}{'_nanos' if arrow_type.unit == 'ns' else ''}", 8, 0
    if any(is_decimal(arrow_type) for is_decimal in _DECIMALS):
        return "decimal", arrow_type.bit_width // 8, arrow_type.scale
    return None


def storage_of(array: pa.Array) -> pa.Array:
    """Return an array without its extension type."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def is_list(arrow_type: pa.DataType) -> bool:
    return pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)


def chunks_of(column: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.StructArray]]:
    """Yield the chunks of a Variant column as structs, each with the number of its first row."""
    first_row = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        yield first_row, storage_of(chunk)
        first_row += len(chunk)


def open_variant(array: pa.StructArray, column: str | None = None) -> VariantReader:
    """Open a Variant column for compiled code.

    Parameters
    ----------
    array : a struct of `metadata`, `value` and `typed_value`, found by name. What was not read may be left out if
        nothing is looked for in it: `value` where it is known to be null, then also `metadata`.
    column : name of the column, for errors.

    Raises
    ------
    MalformedVariantError
        The column's type is not that of a Variant.
    """
    fields = _fields(array, column)
    metadata = fields.pop("metadata", None)
    nodes: list[list[Any]] = [_make_node("", array, fields, column)]
    waiting = [(nodes[0], fields.get("typed_value"), 0)]
    for node, typed, depth in waiting:
        if depth > _DEEPEST:
            raise MalformedVariantError("the Variant's columns are nested too deeply", column=column)
        children = _children(typed, column)
        node[7:] = len(nodes) if children else 0, len(children)
        for name, child in children:
            inner = _fields(child, column)
            nodes.append(_make_node(name, child, inner, column))
            waiting.append((nodes[-1], inner.get("typed_value"), depth + 1))
    described = None if metadata is None else _describe_binary(metadata, "metadata", column)
    return VariantReader([tuple(node) for node in nodes], described, column)


def _fields(group: pa.Array, column: str | None) -> dict[str, pa.Array]:
    """Return the columns of a group by name."""
    if not pa.types.is_struct(group.type):
        raise MalformedVariantError(f"a group of the Variant is {group.type}, not a struct", column=column)
    fields = {field.name: storage_of(group.field(i)) for i, field in enumerate(group.type)}
    if len(fields) < group.type.num_fields or fields.keys() - {"metadata", "value", "typed_value"}:
        raise MalformedVariantError(f"a group of the Variant has other columns: {group.type}", column=column)
    return fields


def _children(typed: pa.Array | None, column: str | None) -> list[tuple[str, pa.Array]]:
    """Return the groups below a `typed_value`, those of an object in the order that Java gives to their names."""
    if typed is None:
        return []
    if pa.types.is_struct(typed.type):
        fields = [(field.name, typed.field(i)) for i, field in enumerate(typed.type)]
        if len({name for name, _ in fields}) < len(fields):
            raise MalformedVariantError("a Variant is shredded to the same field twice", column=column)
        return sorted(fields, key=lambda field: field[0].encode("utf-16-be"))
    return [("", typed.values)] if is_list(typed.type) else []


def _make_node(name: str, group: pa.Array, fields: dict[str, pa.Array], column: str | None) -> list[Any]:
    """Return what `VariantReader` takes, but for the children."""
    validity = _first_buffer(group)
    value, typed = fields.get("value"), fields.get("typed_value")
    described = None if value is None else _describe_binary(value, "value", column)
    node = [name.encode(), (validity, None, None, group.offset, len(group), False), described]
    if typed is None:
        return [*node, TYPES["missing"], 0, 0, None, 0, 0]
    head = (_first_buffer(typed), None, None, typed.offset, len(typed), False)
    if pa.types.is_struct(typed.type):
        return [*node, TYPES["object"], 0, 0, head, 0, 0]
    wide = pa.types.is_large_list(typed.type)
    if is_list(typed.type):
        ends = typed.buffers()[1]
        return [*node, TYPES["array"], 0, 0, (head[0], ends, None, typed.offset, len(typed), wide), 0, 0]
    leaf = describe_leaf(typed.type)
    if leaf is None:
        raise MalformedVariantError(f"a Variant cannot be shredded to {typed.type}", column=column)
    kind, width, scale = leaf
    if kind in ("string", "binary"):
        return [*node, TYPES[kind], 0, 0, _describe_binary(typed, "typed_value", column), 0, 0]
    data = typed.buffers()[1]
    return [*node, TYPES[kind], width, scale, (head[0], None, data, typed.offset, len(typed), False), 0, 0]


def _first_buffer(array: pa.Array) -> pa.Buffer | None:
    return array.buffers()[0] if array.null_count else None


def _describe_binary(array: pa.Array, name: str, column: str | None) -> tuple[Any, ...]:
    if _PLAIN.get(array.type, ("",))[0] not in ("string", "binary"):
        raise MalformedVariantError(f"{name} of the Variant is {array.type}, not binary", column=column)
    _, ends, data = array.buffers()
    wide = array.type in (pa.large_string(), pa.large_binary())
    return _first_buffer(array), ends, data, array.offset, len(array), wide


def make_text_array(length: int, valid: Any, ends: Any, data: Any, arrow_type: pa.DataType) -> pa.Array:
    """Make a large string or binary array of what `VariantReader` returns."""
    buffers = [pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type, length, buffers)


def concatenate(chunks: list[pa.Array], arrow_type: pa.DataType) -> pa.Array:
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else make_array([], arrow_type)
