"""Select columns of an ORC file: their schema, and the names that pyarrow takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from ...errors import UnknownColumnError


def select_columns(schema: pa.Schema, names: Collection[str], path: str | None = None) -> pa.Schema:
    """Return the schema of some columns, in the file's order.

    Parameters
    ----------
    schema : of all columns.
    names : top-level columns, or dotted leaves of structs; a name inside a list or map selects all of it.
    path : of the file, to raise an error for a name that selects nothing; None to ignore such names.

    Raises
    ------
    UnknownColumnError
        A name selects no column.
    """
    if path is not None:
        for name in names:
            if name not in schema.names and name.split(".")[0] not in schema.names:
                raise UnknownColumnError("no such column", path=path, column=name)
    keep_structs = not _has_unique_names(schema)
    selected = (_select_field(field, field.name, names, keep_structs) for field in schema)
    return pa.schema([field for field in selected if field is not None], schema.metadata)


def _select_field(field: pa.Field, path: str, names: Collection[str], keep_structs: bool) -> pa.Field | None:
    if path in names:
        return field
    if not any(name.startswith(path + ".") for name in names):
        return None
    if keep_structs or not pa.types.is_struct(field.type):
        return field
    children = (_select_field(child, f"{path}.{child.name}", names, keep_structs) for child in field.type)
    selected = [child for child in children if child is not None]
    return field.with_type(pa.struct(selected)) if selected else None


def names_to_read(file_schema: pa.Schema, schema: pa.Schema) -> list[str] | None:
    """Return the names to give to pyarrow to read a schema by `select_columns`; None for all columns."""
    if schema.equals(file_schema) or not _has_unique_names(file_schema):
        return None
    return [name for field in schema for name in _leaf_names(file_schema.field(field.name), field, field.name)]


def _leaf_names(file_field: pa.Field, field: pa.Field, path: str) -> Iterable[str]:
    if field.type == file_field.type:
        return [path]
    children = {child.name: child for child in file_field.type}
    return [name for child in field.type for name in _leaf_names(children[child.name], child, f"{path}.{child.name}")]


def column_positions(read_schema: pa.Schema, schema: pa.Schema) -> list[int]:
    """Return the positions of a schema's columns among those that were read, both in the file's order."""
    positions, start = [], 0
    for field in schema:
        start = read_schema.names.index(field.name, start)
        positions.append(start)
        start += 1
    return positions


def _has_unique_names(schema: pa.Schema) -> bool:
    """Return whether every dotted name means one column, so that columns can be read by name."""

    def is_plain(fields: Collection[pa.Field]) -> bool:
        names = [field.name for field in fields]
        plain = len({*names}) == len(names) and all(name and "." not in name and "`" not in name for name in names)
        return plain and all(is_plain(list(field.type)) for field in fields if pa.types.is_struct(field.type))

    return is_plain(list(schema))
