"""Chosen columns of an ORC file: their schema, and how pyarrow is asked for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from ...errors import UnknownColumnError


def picked(schema: pa.Schema, names: Collection[str], path: str | None = None) -> pa.Schema:
    """The schema of chosen columns, in the file's order.

    Parameters
    ----------
    schema : of all columns.
    names : top-level columns, or dotted leaves of structs; what is below a list or map stands for all of it.
    path : of the file, to have a name that stands for nothing be an error; None to leave it out.

    Raises
    ------
    UnknownColumnError
    """
    if path is not None:
        for name in names:
            if name not in schema.names and name.split(".")[0] not in schema.names:
                raise UnknownColumnError("no such column", path=path, column=name)
    whole = not _distinct(schema)
    found = (_narrowed(field, field.name, names, whole) for field in schema)
    return pa.schema([field for field in found if field is not None], schema.metadata)


def _narrowed(field: pa.Field, path: str, names: Collection[str], whole: bool) -> pa.Field | None:
    if path in names:
        return field
    if not any(name.startswith(path + ".") for name in names):
        return None
    if whole or not pa.types.is_struct(field.type):
        return field
    children = (_narrowed(child, f"{path}.{child.name}", names, whole) for child in field.type)
    kept = [child for child in children if child is not None]
    return field.with_type(pa.struct(kept)) if kept else None


def names_within(whole: pa.Schema, schema: pa.Schema) -> list[str] | None:
    """The names that pyarrow is to be given to read what `picked` chose; None for all columns."""
    if schema.equals(whole) or not _distinct(whole):
        return None
    return [name for field in schema for name in _names(whole.field(field.name), field, field.name)]


def _names(whole: pa.Field, field: pa.Field, path: str) -> Iterable[str]:
    if field.type == whole.type:
        return [path]
    children = {child.name: child for child in whole.type}
    return [name for child in field.type for name in _names(children[child.name], child, f"{path}.{child.name}")]


def positions(whole: pa.Schema, schema: pa.Schema) -> list[int]:
    """Where the columns of a chosen schema stand among those that were read, both in the file's order."""
    found, start = [], 0
    for field in schema:
        start = whole.names.index(field.name, start)
        found.append(start)
        start += 1
    return found


def _distinct(schema: pa.Schema) -> bool:
    """Whether every dotted name means one column, so that columns can be asked for by name."""

    def is_plain(fields: Collection[pa.Field]) -> bool:
        names = [field.name for field in fields]
        plain = len({*names}) == len(names) and all(name and "." not in name and "`" not in name for name in names)
        return plain and all(is_plain(list(field.type)) for field in fields if pa.types.is_struct(field.type))

    return is_plain(list(schema))
