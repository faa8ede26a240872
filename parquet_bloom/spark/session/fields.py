"""Columns of a Spark schema, by the dotted names that predicates use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from ...metadata.footer import Leaf
from .fallback import CannotPush

CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # metadata of a CHAR or VARCHAR column, whose type is else a string
DEFAULT = "EXISTS_DEFAULT"  # metadata of a column with a default value for files written before it was added


@dataclass(frozen=True)
class Field:
    """A column of a schema, or a leaf of structs.

    Attributes
    ----------
    path : names from the root to the column, as the schema spells them.
    type : type of the column.
    """

    path: tuple[str, ...]
    type: DataType

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The name quoted for SQL."""
        return ".".join(map(quote, self.path))


def quote(name: str) -> str:
    """Quote a name with backticks."""
    return "`" + name.replace("`", "``") + "`"


def select_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Select columns of a DataFrame; return it unchanged if these are all of its columns."""
    return frame if frame.columns == list(names) else frame.select(*map(quote, names))


def fold_case(name: str, ignore_case: bool) -> str:
    """Return the form of a name by which names are compared."""
    return name.lower() if ignore_case else name


def find_field(schema: StructType, name: str, ignore_case: bool) -> Field | None:
    """Find the column that a dotted name refers to; return None if there is none.

    Raises
    ------
    CannotPush
        The name matches several columns, or a CHAR or VARCHAR column.
    """
    matches = list(_find_matches(schema, fold_case(name, ignore_case), ignore_case))
    if len(matches) > 1:
        raise CannotPush(f"'{name}' matches {len(matches)} columns")
    if not matches:
        return None
    (fields,) = matches
    if any(CHAR in field.metadata for field in fields):
        raise CannotPush(f"'{name}' is a CHAR or VARCHAR column, whose texts Spark pads")
    return Field(tuple(field.name for field in fields), fields[-1].dataType)


def _find_matches(struct: StructType, name: str, ignore_case: bool) -> Iterator[list[StructField]]:
    """Iterate over all ways to read a dotted name; the name of a column may itself have dots."""
    for field in struct.fields:
        field_name = fold_case(field.name, ignore_case)
        if field_name == name:
            yield [field]
        if name.startswith(field_name + ".") and isinstance(field.dataType, StructType):
            for children in _find_matches(field.dataType, name[len(field_name) + 1 :], ignore_case):
                yield [field, *children]


def find_leaves(leaves: list[Leaf], field: Field, ignore_case: bool) -> list[Leaf]:
    """Find the leaves of a file that Spark may read for a column: those of its exact path, or below it."""
    path = [fold_case(part, ignore_case) for part in field.path]
    return [leaf for leaf in leaves if [fold_case(part, ignore_case) for part in leaf.path[: len(path)]] == path]


def iter_types(data_type: DataType) -> Iterator[Any]:
    """Iterate over a type and all types within it."""
    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from iter_types(field.dataType)
    for name in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, name):
            yield from iter_types(getattr(data_type, name))
