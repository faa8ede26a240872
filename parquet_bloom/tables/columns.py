"""Names of a Delta or Iceberg table's columns in its data files, from the table's schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

_EPOCH = date(1970, 1, 1)

Path = tuple[str, ...]

Column = tuple[Path, Path, int | None]
"""Path in the table, path in the files, and field id."""


def map_names(columns: Iterator[Column], only_plain: bool) -> tuple[dict[str, str], dict[str, int]]:
    """Return {name: name in the files} and {name: field id}, without ambiguous names.

    `only_plain` leaves out columns with a dot in a part of their name.
    """
    by_name: dict[str, Column] = {}
    duplicates: set[str] = set()
    for column in columns:
        logical, physical, _ = column
        name = ".".join(logical)
        if name in by_name:
            duplicates.add(name)
        if not only_plain or not any("." in part for part in (*logical, *physical)):
            by_name[name] = column
    unique = {name: column for name, column in by_name.items() if name not in duplicates}
    ids = {name: number for name, (_, _, number) in unique.items() if number is not None}
    return {name: ".".join(physical) for name, (_, physical, _) in unique.items()}, ids


def delta_columns(struct: Mapping[str, Any], mode: str, above: Path, above_in_files: Path) -> Iterator[Column]:
    """Yield a Delta schema's columns and the fields of structs, but not the contents of lists and maps."""
    for column in struct["fields"]:
        in_files, number = column["name"], None
        if mode != "none":
            in_files = column["metadata"]["delta.columnMapping.physicalName"]
            number = int(column["metadata"]["delta.columnMapping.id"])
        path, path_in_files = (*above, column["name"]), (*above_in_files, in_files)
        yield path, path_in_files, number
        if isinstance(column["type"], dict) and column["type"]["type"] == "struct":
            yield from delta_columns(column["type"], mode, path, path_in_files)


def iceberg_names(schema: Any, schemas: Sequence[Any], mapping: Any) -> tuple[dict[str, str], dict[str, int]]:
    """Return the names (see `map_names`) of the columns with the same name in all schemas and in the name mapping."""
    ever: dict[int | None, set[Path]] = {}
    for each in schemas:
        for _, physical, number in _iceberg_columns(each.fields, (), ()):
            ever.setdefault(number, set()).add(physical)
    for number, path in _list_mapped_names(mapping or (), [()]):
        ever.setdefault(number, set()).add(path)
    columns = _iceberg_columns(schema.fields, (), ())
    return map_names((column for column in columns if len(ever[column[2]]) == 1), only_plain=True)


def iceberg_values(file: Any, specs: Mapping[int, Any], schema: Any) -> dict[str, Any]:
    """Return {column: value} of a data file's identity partition columns."""
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType

    values = {}
    spec = specs.get(getattr(file, "spec_id", -1))
    for number, part in enumerate(() if spec is None else spec.fields):
        column = schema.find_column_name(part.source_id)
        if column != part.name or not isinstance(part.transform, IdentityTransform):
            continue
        value = file.partition[number]
        if isinstance(schema.find_type(part.source_id), DateType) and isinstance(value, int):
            value = _EPOCH + timedelta(days=value)
        values[part.name] = value
    return values


def _iceberg_columns(fields: Any, above: Path, above_in_files: Path) -> Iterator[Column]:
    """Yield an Iceberg schema's columns and the fields of structs, but not the contents of lists and maps."""
    from pyiceberg.schema import make_compatible_name
    from pyiceberg.types import StructType

    for column in fields:
        path, in_files = (*above, column.name), (*above_in_files, make_compatible_name(column.name))
        yield path, in_files, column.field_id
        if isinstance(column.field_type, StructType):
            yield from _iceberg_columns(column.field_type.fields, path, in_files)


def _list_mapped_names(fields: Any, above: Sequence[Path]) -> Iterator[tuple[int | None, Path]]:
    """Yield (field id, path) of each name in a table's name mapping, which applies to files without field ids."""
    for each in fields:
        paths = [(*path, name) for path in above for name in each.names]
        yield from ((each.field_id, path) for path in paths)
        yield from _list_mapped_names(each.fields, paths)
