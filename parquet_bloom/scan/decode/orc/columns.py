"""Select columns of an ORC file, and find timestamps that pyarrow cannot read.

Current releases of pyarrow raise an error for timestamps that do not fit into its nanoseconds; older ones wrap them,
and the wrong values must not be returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as po

from ....errors import UnknownColumnError
from ....hashing.column_type import Kind
from ....orc.values import fits_nanoseconds

if TYPE_CHECKING:
    from ....orc import OrcFile
    from ....orc.metadata.schema import OrcLeaf


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


@cache
def wraps_timestamps() -> bool:
    """Return whether this pyarrow wraps timestamps that nanoseconds of 64 bits cannot count."""
    new = pa.BufferOutputStream()
    po.write_table(pa.table({"t": pa.array([253_402_214_400], pa.timestamp("s"))}), new)  # 9999-12-31
    try:
        po.ORCFile(pa.BufferReader(new.getvalue())).read()
    except pa.ArrowException:
        return False
    return True


def may_overflow(file: OrcFile, leaf: OrcLeaf, stripe: int) -> bool:
    """Return whether a stripe may contain a timestamp that nanoseconds of 64 bits cannot count."""
    if leaf.column_type.kind is not Kind.TIMESTAMP or leaf.column_type.physical != "INT96":
        return False
    return not fits_nanoseconds(file.stripe_statistics(leaf)[stripe])
