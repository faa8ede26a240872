"""The columns of a file of which rows can be taken out of pages, and Arrow arrays made of the buffers that are taken.

Arrow stores most types as Parquet does. The others are converted: those of another width or unit, decimals,
dictionaries, views, booleans, INT96.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...hashing import int96
from ...hashing.column_type import Kind
from ...metadata.footer import SchemaLeaf
from ..bloom_file import BloomFile
from ..file_columns import WIDTHS, holds_elements, type_of

RowPositions = NDArray[np.int64]

_SAME = {
    "INT32": {pa.int32(), pa.uint32(), pa.date32()},
    "INT64": {pa.int64(), pa.uint64()},
    "FLOAT": {pa.float32()},
    "DOUBLE": {pa.float64()},
    "BYTE_ARRAY": {pa.string(), pa.binary()},
}

_NARROW = {pa.int8(), pa.int16(), pa.uint8(), pa.uint16()}  # stored in 32 bits
_OTHER_TEXTS = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
_OTHER_TEXTS |= {pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
_INT96 = pa.binary(12)
_BITS = pa.uint8()  # a byte for each boolean


class PageColumn(NamedTuple):
    """A column directly below the root, whose name is unique, with one value, or one list of single values, per row.

    Attributes
    ----------
    leaf : the column, or the elements of its lists.
    arrow : its Arrow type.
    layout : the Arrow type that has its stored values, byte for byte, see `find_layout`; of lists that of their
        elements. None if there is none, so that rows cannot be taken out of pages.
    width : bytes of a value as stored; 0 for byte arrays.
    """

    leaf: SchemaLeaf
    arrow: pa.DataType
    layout: pa.DataType | None
    width: int


def find_page_columns(file: BloomFile, schema: pa.Schema) -> dict[str, PageColumn]:
    """Return the flat columns of a file, and those of lists, by name; computed once per file and schema."""
    entry: tuple[pa.Schema, dict[str, PageColumn]] | None = file.cached.derived.get("page_columns")
    if entry is None or entry[0] is not schema:
        names, tops = Counter(schema.names), Counter([leaf.path[0] for leaf in file.leaves])
        columns = {}
        for leaf in file.leaves:
            name, width = leaf.path[0], WIDTHS.get(leaf.physical, leaf.length or None)
            if not names[name] == 1 == tops[name] or width is None:
                continue
            arrow = schema.field(name).type
            if leaf.repeated and holds_elements(leaf, name):
                columns[name] = PageColumn(leaf, arrow, _find_layout_of_lists(leaf, arrow), width)
            elif len(leaf.path) == 1 and not leaf.repeated:
                columns[name] = PageColumn(leaf, arrow, find_layout(leaf, arrow), width)
        entry = file.cached.derived["page_columns"] = schema, columns
    return entry[1]


def _find_layout_of_lists(leaf: SchemaLeaf, arrow: pa.DataType) -> pa.DataType | None:
    if not pa.types.is_list(arrow) or pa.types.is_dictionary(arrow.value_type) or leaf.physical == "INT96":
        return None
    return find_layout(leaf, arrow.value_type)


def has_arrow_layout(leaf: SchemaLeaf, arrow: pa.DataType) -> bool:
    """Return whether a column's stored values are, byte for byte, those of an Arrow type."""
    if arrow in _SAME.get(leaf.physical, ()):
        return True
    if pa.types.is_timestamp(arrow) or pa.types.is_time(arrow):
        stored = type_of(leaf)
        kind = Kind.TIMESTAMP if pa.types.is_timestamp(arrow) else Kind.TIME
        has_width = leaf.physical == ("INT64" if arrow.bit_width == 64 else "INT32")
        return has_width and stored.kind is kind and stored.unit == arrow.unit
    if pa.types.is_duration(arrow):
        return leaf.physical == "INT64" and type_of(leaf).kind is Kind.INTEGER
    is_fixed = pa.types.is_fixed_size_binary(arrow) and not pa.types.is_decimal(arrow)
    is_fixed |= pa.types.is_float16(arrow)
    return bool(is_fixed and leaf.physical == "FIXED_LEN_BYTE_ARRAY" and leaf.length == arrow.bit_width // 8)


def find_layout(leaf: SchemaLeaf, arrow: pa.DataType) -> pa.DataType | None:
    """Return an Arrow type that has the bytes of a column's stored values and that `convert` understands, if any.

    Parameters
    ----------
    arrow : type of the column as pyarrow reads it.
    """
    if has_arrow_layout(leaf, arrow):
        return arrow
    if leaf.physical == "INT32" and (arrow in _NARROW or arrow == pa.date64()):
        return pa.date32() if arrow == pa.date64() else pa.int32()
    if leaf.physical == "BYTE_ARRAY" and arrow in _OTHER_TEXTS:
        return _OTHER_TEXTS[arrow]
    if leaf.physical == "BOOLEAN" and pa.types.is_boolean(arrow):
        return _BITS
    if leaf.physical == "INT96" and pa.types.is_timestamp(arrow) and arrow.unit in int96.OUTSIDE_OF_UNIT:
        return _INT96
    if pa.types.is_dictionary(arrow) and arrow == pa.dictionary(pa.int32(), arrow.value_type):
        return find_layout(leaf, arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return find_layout(leaf, arrow.storage_type)
    if pa.types.is_decimal(arrow):
        stored = type_of(leaf)
        if stored.kind is Kind.DECIMAL and (stored.precision, stored.scale) == (arrow.precision, arrow.scale):
            if leaf.physical == "FIXED_LEN_BYTE_ARRAY" and 0 < (leaf.length or 0) <= arrow.byte_width:
                return pa.binary(leaf.length)
            return {"INT32": pa.int32(), "INT64": pa.int64()}.get(leaf.physical)
    return None


def convert(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Convert an array of the type that `find_layout` returned to the type of its column."""
    if array.type == arrow:
        return array
    if pa.types.is_dictionary(arrow):
        return convert(array, arrow.value_type).dictionary_encode()
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.wrap_array(convert(array, arrow.storage_type))
    if pa.types.is_decimal(arrow):
        return _make_decimals(array, arrow)
    if pa.types.is_boolean(arrow):
        valid, data = array.buffers()
        bits = np.packbits(np.frombuffer(data, np.uint8, len(array)), bitorder="little")
        return pa.Array.from_buffers(arrow, len(array), [valid, pa.py_buffer(bits)], array.null_count)
    if array.type == _INT96:
        return int96.to_shown(array, arrow.unit).cast(arrow)
    return array.cast(arrow, safe=False)  # pyarrow wraps integers that do not fit, too


def _make_decimals(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Make decimals of unscaled values: integers, or big-endian bytes."""
    valid, data = array.buffers()
    count, width = len(array), array.type.byte_width
    stored = np.frombuffer(data, np.uint8, count * width).reshape(count, width)
    if pa.types.is_integer(array.type):
        stored = stored[:, ::-1]
    wide = np.empty((count, arrow.byte_width), np.uint8)
    wide[:, :width] = stored[:, ::-1]
    wide[:, width:] = (stored[:, :1] >> 7) * 255
    return pa.Array.from_buffers(arrow, count, [valid, pa.py_buffer(wide)], array.null_count)


def make_array_of_buffers(
    arrow: pa.DataType,
    count: int,
    valid: NDArray[np.bool_] | None,
    ends: NDArray[np.int32] | None,
    values: NDArray[np.uint8],
) -> pa.Array:
    """Make an array of the buffers of a `RowTaker`; for types as in `has_arrow_layout`."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    nulls = 0 if valid is None else count - int(np.count_nonzero(valid))
    rest = [pa.py_buffer(values)] if ends is None else [pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.Array.from_buffers(arrow, count, [bits, *rest], nulls)


def make_array(arrow: pa.DataType, stored: list[bytes]) -> pa.Array:
    """Make an array of stored values, given without length prefixes; for types as in `has_arrow_layout`."""
    values = np.frombuffer(b"".join(stored), np.uint8)
    ends = np.cumsum([0, *map(len, stored)], dtype=np.int32) if arrow in _SAME["BYTE_ARRAY"] else None
    return make_array_of_buffers(arrow, len(stored), None, ends, values)
