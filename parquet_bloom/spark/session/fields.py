"""Columns of a Spark schema, by the dotted names that predicates use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from ...metadata.footer import Leaf
from .fallback import CannotPush

CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # metadata of a CHAR or VARCHAR column, which else looks like a string
DEFAULT = "EXISTS_DEFAULT"  # metadata of a column that has a value even in files written before it was added


@dataclass(frozen=True)
class Field:
    """One column, or leaf of structs, of a schema.

    Attributes
    ----------
    path : its names from the top down, as the schema spells them.
    type : its type.
    """

    path: tuple[str, ...]
    type: DataType

    @property
    def name(self) -> str:
        """The dotted name."""
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The name as SQL has it, quoted."""
        return ".".join(map(quoted, self.path))


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def select_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Some columns of a DataFrame; itself if these are its own."""
    return frame if frame.columns == list(names) else frame.select(*map(quoted, names))


def fold_case(name: str, ignore_case: bool) -> str:
    """What names are compared by."""
    return name.lower() if ignore_case else name


def find_field(schema: StructType, name: str, ignore_case: bool) -> Field | None:
    """The column that a dotted name means; None if there is none.

    Raises
    ------
    Doubt
        The name fits several, or compares in a way of its own.
    """
    found = list(_matches(schema, fold_case(name, ignore_case), ignore_case))
    if len(found) > 1:
        raise CannotPush(f"'{name}' stands for {len(found)} columns")
    if not found:
        return None
    if any(CHAR in field.metadata for field in found[0]):
        raise CannotPush(f"'{name}' is a CHAR or VARCHAR column, whose texts Spark pads")
    return Field(tuple(field.name for field in found[0]), found[0][-1].dataType)


def _matches(struct: StructType, name: str, ignore_case: bool) -> Iterator[list[StructField]]:
    """Every way to read a dotted name: a column's own name may have dots in it."""
    for field in struct.fields:
        own = fold_case(field.name, ignore_case)
        if own == name:
            yield [field]
        if name.startswith(own + ".") and isinstance(field.dataType, StructType):
            for below in _matches(field.dataType, name[len(own) + 1 :], ignore_case):
                yield [field, *below]


def find_leaves(leaves: list[Leaf], field: Field, ignore_case: bool) -> list[Leaf]:
    """The leaves of a file that Spark may read for a column: those of its very path, or below it."""
    wanted = [fold_case(part, ignore_case) for part in field.path]
    return [leaf for leaf in leaves if [fold_case(part, ignore_case) for part in leaf.path[: len(wanted)]] == wanted]


def types_of(data_type: DataType) -> Iterator[Any]:
    """A type and all types within it."""
    yield data_type
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from types_of(field.dataType)
    for name in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, name):
            yield from types_of(getattr(data_type, name))
