"""Convert rows of a data file to the types of its table, nested ones by the names of their fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ...errors import UnreadableColumnError, first_line


def fit_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; columns and fields that they lack are null, others are left out.

    Raises
    ------
    UnreadableColumnError
        Values of a column do not fit into the table's type.
    """
    if not len(schema):
        return rows.select([])  # of so many rows
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    columns = []
    for field in schema:
        i = rows.schema.get_field_index(field.name)
        try:
            column = pa.nulls(rows.num_rows, field.type) if i < 0 else fit_column(rows.column(i), field.type)
        except pa.ArrowException as error:
            stored = rows.schema.field(i).type
            problem = f"its {stored} values do not fit into the table's {field.type}: {first_line(error)}"
            raise UnreadableColumnError(problem, column=field.name) from error
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def fit_column(column: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column as another type."""
    if column.type.equals(arrow_type):
        return column
    return pa.chunked_array([_fit(chunk, arrow_type) for chunk in column.chunks], arrow_type)


def _fit(array: Any, arrow_type: pa.DataType) -> Any:
    types, stored = pa.types, array.type
    if stored.equals(arrow_type):
        return array
    if types.is_dictionary(stored):
        return _fit(array.dictionary_decode(), arrow_type)
    if types.is_struct(arrow_type) and types.is_struct(stored):
        return _fit_struct(array, arrow_type)
    if types.is_map(arrow_type) and types.is_map(stored):
        keys, items = _fit(array.keys, arrow_type.key_type), _fit(array.items, arrow_type.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[arrow_type.key_field, arrow_type.item_field])
        return _replace_values(array, arrow_type, entries)
    if _is_list(arrow_type) and _is_list(stored):
        if types.is_large_list(arrow_type) != types.is_large_list(stored):
            wide = types.is_large_list(arrow_type)
            array = array.cast(pa.large_list(stored.value_field) if wide else pa.list_(stored.value_field))
        return _replace_values(array, arrow_type, _fit(array.values, arrow_type.value_type))
    return array.cast(arrow_type)


def _is_list(arrow_type: pa.DataType) -> bool:
    return pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)


def _fit_struct(array: pa.StructArray, arrow_type: pa.StructType) -> pa.StructArray:
    fields, members = [*arrow_type], array.flatten()
    arrays = []
    for field in fields:
        i = array.type.get_field_index(field.name)
        arrays.append(pa.nulls(len(array), field.type) if i < 0 else _fit(members[i], field.type))
    if not fields:
        return array.cast(arrow_type)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())


def _replace_values(array: Any, arrow_type: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or map array with other values at the same positions."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(arrow_type, len(array), [validity, offsets], -1, array.offset, [values])
