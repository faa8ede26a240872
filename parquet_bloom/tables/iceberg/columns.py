"""The columns of an Iceberg table: their types, their field ids, and their names in data files without field ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from ..snapshot import TableColumn

_Kind = Literal["value", "struct", "list", "map"]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Field:
    """A column, or a field of structs.

    Attributes
    ----------
    path : its name, after those of the structs that it is in.
    iceberg_type : pyiceberg's.
    """

    path: Path
    field_id: int
    iceberg_type: Any
    arrow_type: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def depth(self) -> int:
        return len(self.path)


def make_arrow_schema(schema: Any) -> pa.Schema:
    """Return a pyiceberg schema as the one that its scans give."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, include_field_ids=False)


def list_fields(schema: Any, arrow_schema: pa.Schema) -> list[Field]:
    """List the columns of a pyiceberg schema and the fields of its structs, but not the contents of lists and maps."""
    return list(_list_fields(schema.fields, list(arrow_schema), ()))


def _list_fields(fields: Sequence[Any], arrow_fields: Sequence[pa.Field], above: Path) -> Iterator[Field]:
    from pyiceberg.types import StructType

    for column, arrow_field in zip(fields, arrow_fields, strict=True):
        path = (*above, column.name)
        yield Field(path, column.field_id, column.field_type, arrow_field.type)
        if isinstance(column.field_type, StructType):
            yield from _list_fields(column.field_type.fields, list(arrow_field.type), path)


def list_defaults(fields: Sequence[Any], above: Path = ()) -> Iterator[str]:
    """Yield the dotted names of columns, and of their parts, that have a value in files without them."""
    for column in fields:
        path = (*above, column.name)
        if column.initial_default is not None:
            yield ".".join(path)
        yield from list_defaults(_list_parts(column.field_type), path)


def _list_parts(iceberg_type: Any) -> list[Any]:
    """Return the fields of a struct, the element of a list, or the key and the value of a map."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(iceberg_type, StructType):
        return list(iceberg_type.fields)
    if isinstance(iceberg_type, ListType):
        return [iceberg_type.element_field]
    return [iceberg_type.key_field, iceberg_type.value_field] if isinstance(iceberg_type, MapType) else []


def make_columns(schema: Any, mapping: Any) -> tuple[TableColumn, ...]:
    """Return how data files name the columns of a pyiceberg schema.

    Parameters
    ----------
    schema : the table's.
    mapping : the table's name mapping, for files without field ids; None if it has none.
    """
    names: dict[int, tuple[str, ...]] = {}
    pending = list(mapping or ())
    while pending:
        mapped = pending.pop()
        if mapped.field_id is not None:
            names[mapped.field_id] = (*names.get(mapped.field_id, ()), *mapped.names)
        pending.extend(mapped.fields)
    return tuple(_make_column(each, names) for each in schema.fields)


def _make_column(column: Any, names: Mapping[int, tuple[str, ...]]) -> TableColumn:
    from pyiceberg.types import ListType, MapType, StructType

    kinds: dict[Any, _Kind] = {StructType: "struct", ListType: "list", MapType: "map"}
    below = tuple(_make_column(part, names) for part in _list_parts(column.field_type))
    number = column.field_id
    kind = kinds.get(type(column.field_type), "value")
    return TableColumn(column.name, kind, number, names.get(number, ()), below)
