"""Names of a Delta or Iceberg table's columns in its data files, from the table's schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
