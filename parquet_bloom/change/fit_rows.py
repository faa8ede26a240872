"""Rows that a caller gives, in the columns and types of a table."""

from __future__ import annotations

import pyarrow as pa

from ..errors import ParquetBloomError, UnknownColumnError, first_line
from ..hashing.arrow_keys import plain
from ..scan.model.file_schemas import replace_values
from ..util.arrow_values import keep, to_numpy


def fit(rows: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """Return rows in the columns and types of a table.

    Parameters
    ----------
    path : the table, for errors.

    Raises
    ------
    UnknownColumnError
        A column is missing, or the table has no such column.
    ParquetBloomError
        A value does not fit, or would be another one in the table.
    """
    for name in rows.column_names:
        if name not in schema.names:
            raise UnknownColumnError("the rows have this column, and the table does not", path=path, column=name)
    columns = []
    for column in schema:
        if rows.column_names.count(column.name) != 1:
            number = "lack this column" if column.name not in rows.column_names else "have several columns of this name"
            raise UnknownColumnError(f"the rows {number} of the table", path=path, column=column.name)
        # Arrow takes the nulls that a null struct hides in its fields for nulls of these.
        loose = column.with_type(_allow_nulls(column.type))
        fitted = _fit_column(_decode(rows[column.name]), loose, path)
        missing = next(filter(None, (_find_null(chunk, column, column.name) for chunk in fitted.chunks)), None)
        if missing is not None:
            raise ParquetBloomError("the rows have a null, which the table does not allow", path=path, column=missing)
        columns.append(pa.chunked_array([_disallow_nulls(chunk, column.type) for chunk in fitted.chunks], column.type))
    return pa.table(columns, schema=schema)


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionary or run-end encoding, for which Arrow has not all casts."""
    if not (pa.types.is_dictionary(column.type) or pa.types.is_run_end_encoded(column.type)):
        return column
    return pa.chunked_array([plain(chunk) for chunk in column.chunks] or [plain(pa.nulls(0, column.type))])


def _fit_column(values: pa.ChunkedArray, column: pa.Field, path: str) -> pa.ChunkedArray:
    if values.type == column.type:
        return values
    other = _find_other_field(values.type, column.type, column.name)
    if other is not None:
        raise UnknownColumnError("only one of the rows and the table has this field", path=path, column=other)
    if _loses_meaning(values.type, column.type):
        problem = f"values of the type {values.type} are not converted to its type {column.type}: convert them first"
        raise ParquetBloomError(problem, path=path, column=column.name)
    try:
        fitted = values.cast(column.type)
        is_exact = all(map(_is_exact, values.chunks, fitted.chunks))
    except (pa.ArrowException, ValueError) as error:
        problem = f"a value of the rows does not fit its type {column.type}: {first_line(error)}"
        raise ParquetBloomError(problem, path=path, column=column.name) from None
    if not is_exact:
        problem = f"a value of the rows, of the type {values.type}, would be another in its type {column.type}"
        raise ParquetBloomError(f"{problem}: round it first", path=path, column=column.name)
    return fitted


def _allow_nulls(kind: pa.DataType) -> pa.DataType:
    """Return a type whose structs may have nulls in their fields."""
    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([field.with_type(_allow_nulls(field.type)).with_nullable(True) for field in kind])


def _disallow_nulls(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type that `_allow_nulls` has made theirs of, once there is no null that it does not allow.

    Fields without nulls get some value where a null struct hides one: the writer would take it for theirs.
    """
    if pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
        parts = [_disallow_nulls(values.keys, kind.key_type), _disallow_nulls(values.items, kind.item_type)]
        return replace_values(values, kind, pa.StructArray.from_arrays(parts, fields=fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return replace_values(values, kind, _disallow_nulls(values.values, kind.value_type))
    if not pa.types.is_struct(kind):
        return values
    fields = [*kind]
    parts = [_disallow_nulls(values.field(number), field.type) for number, field in enumerate(fields)]
    parts = [part if field.nullable else _drop_nulls(part) for part, field in zip(parts, fields, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null() if values.null_count else None)


def _drop_nulls(values: pa.Array) -> pa.Array:
    """Return values with whatever lies in the place of nulls; lists and maps as they are."""
    if not values.null_count or pa.types.is_list(values.type) or pa.types.is_map(values.type):
        return values
    if pa.types.is_struct(values.type):
        parts = [values.field(number) for number in range(values.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=[*values.type])
    if isinstance(values.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(values.type, _drop_nulls(values.storage))
    return pa.Array.from_buffers(values.type, len(values), [None, *values.buffers()[1:]], 0, values.offset)


def _find_null(values: pa.Array, field: pa.Field, name: str) -> str | None:
    """Return the first field that has a null and may have none, among a column and what is nested in it."""
    if not field.nullable and values.null_count:
        return name
    if not pa.types.is_nested(values.type):
        return None
    present = keep(values, values.is_valid()) if values.null_count else values
    parts = present.flatten() if pa.types.is_struct(values.type) else [_flatten(present)]
    for number, part in enumerate(parts):
        inner = field.type.field(number)
        found = _find_null(part, inner, f"{name}.{inner.name}")
        if found is not None:
            return found
    return None


def _pair_fields(given: pa.DataType, wanted: pa.DataType) -> list[tuple[pa.Field, pa.Field]]:
    """Return the fields of two nested types that become each other: those of structs by their names."""
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        return [(field, wanted.field(field.name)) for field in given if wanted.get_field_index(field.name) >= 0]
    if given.num_fields == wanted.num_fields:  # lists, and maps
        return [(given.field(number), wanted.field(number)) for number in range(given.num_fields)]
    return []


def _find_other_field(given: pa.DataType, wanted: pa.DataType, name: str) -> str | None:
    """Return the first field of structs that only one of two types has; a cast would drop it, or make it null."""
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        for field in {field.name for field in given} ^ {field.name for field in wanted}:
            return f"{name}.{field}"
    for one, other in _pair_fields(given, wanted):
        found = _find_other_field(one.type, other.type, f"{name}.{other.name}")
        if found is not None:
            return found
    return None


def _loses_meaning(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Arrow casts between two types although values would say another thing, or reads them wrongly."""
    types = pa.types
    if types.is_boolean(wanted):
        return not (types.is_boolean(given) or types.is_null(given))
    if types.is_timestamp(given):
        return types.is_time(wanted) or (types.is_timestamp(wanted) and given.tz is not None and wanted.tz is None)
    if types.is_list_view(given) or types.is_large_list_view(given):
        return True  # pyarrow takes its offsets for those of a list
    return any(_loses_meaning(one.type, other.type) for one, other in _pair_fields(given, wanted))


def _is_exact(given: pa.Array, fitted: pa.Array) -> bool:
    """Return whether a cast has kept values where Arrow rounds them without an error."""
    types, kind, wanted = pa.types, given.type, fitted.type
    if kind == wanted:
        return True
    if types.is_struct(kind) and types.is_struct(wanted):
        parts, others = given.flatten(), fitted.flatten()
        return all(_is_exact(part, others[wanted.get_field_index(kind[i].name)]) for i, part in enumerate(parts))
    if types.is_nested(kind):
        return _is_exact(_flatten(given), _flatten(fitted))
    if types.is_floating(kind) and types.is_floating(wanted):
        one, other = (to_numpy(array.cast(pa.float64()).drop_null()) for array in (given, fitted))
        return bool(((one == other) | ((one != one) & (other != other))).all())
    is_rounded = (types.is_floating(kind) or types.is_timestamp(kind)) and not types.is_string(wanted)
    if is_rounded or (types.is_decimal(kind) and types.is_floating(wanted)):
        return bool(fitted.cast(kind).equals(given))
    return True


def _flatten(lists: pa.Array) -> pa.Array:
    """Return the items of lists, or the entries of maps, without those that null lists hide."""
    if pa.types.is_map(lists.type):  # a cast refuses nulls that null structs hide in their fields
        fields = [lists.type.key_field, lists.type.item_field]
        entries = pa.StructArray.from_arrays([lists.keys, lists.items], fields=fields)
        lists = replace_values(lists, pa.list_(entries.type), entries)
    return lists.flatten()
