"""Where a dataset shows a column as other values than a file stores: the file's evidence does not apply there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pyarrow as pa

from ..errors import UnsupportedTypeError
from ..file.bloom_file import BloomFile
from ..file.file_columns import AnyLeaf, find_evidence_leaves, find_leaves, type_of
from ..hashing.column_type import ColumnType, Kind, from_arrow
from ..predicate.map_lookup import find_map, is_key
from ..predicate.necessary import find_arrow_type
from ..predicate.variant_names import parse_evidence, to_arrow_type
from ..variant.variant_type import is_variant, may_be_variant

if TYPE_CHECKING:
    from ..orc import OrcFile

_TEXT = (Kind.STRING, Kind.BYTES)
_VARIANT: Final = "variant"
_METADATA = "metadata"  # which every Variant has, and nothing else of these names
_Shown: TypeAlias = ColumnType | Literal["variant"] | None


@dataclass(frozen=True)
class DatasetCompatibility:
    """`file.statistics.ColumnCompatibility` of a dataset with one schema, which pyarrow casts each file's columns to.

    Attributes
    ----------
    columns : (dotted name, type in the dataset), sorted by name; None for a type that Parquet cannot store. A Variant
        is asked for what is at a path of it, and whether it is null, which is alike however a file shreds it.
    """

    columns: tuple[tuple[str, _Shown], ...]

    @classmethod
    def of(cls, schema: pa.Schema, names: Iterable[str]) -> DatasetCompatibility:
        """Return the compatibility of some columns of a dataset, or of the evidence about them."""
        return cls(tuple((name, _find_type(schema, name)) for name in sorted(names)))

    @property
    def by_schema(self) -> bool:
        return True

    def doubts(self, file: BloomFile) -> dict[str, str]:
        return self._find_doubts(type_of, partial(find_evidence_leaves, file.leaves))

    def orc_doubts(self, file: OrcFile) -> dict[str, str]:
        """Return the `doubts` of an ORC file."""
        return self._find_doubts(lambda leaf: leaf.column_type, partial(find_leaves, file.leaves))

    def is_same(self, column: str, stored: ColumnType) -> bool:
        """Return whether a column of a stored type shows the stored values, for `lake.select.IndexPruner`."""
        expected = dict(self.columns).get(column)
        return isinstance(expected, ColumnType) and _shows_stored(stored, expected)

    def _find_doubts(
        self, find_type: Callable[[AnyLeaf], ColumnType], find_evidence: Callable[[str], list[AnyLeaf]]
    ) -> dict[str, str]:
        doubts = {}
        for name, expected in self.columns:
            matches, path = find_evidence(name), tuple(find_map(name).split("."))
            if any(tuple(leaf.path[: len(path)]) != path for leaf in matches):
                doubts[name] = "the file has a column with a dot in its name"
                continue
            if expected == _VARIANT and any(leaf.path == (*path, _METADATA) for leaf in matches):
                continue
            types = [find_type(leaf) for leaf in matches]
            is_single = len(types) == 1
            if types and not (is_single and isinstance(expected, ColumnType) and _shows_stored(types[0], expected)):
                shown = "the dataset's type" if expected is None else str(expected)
                doubts[name] = f"{types[0]} in the file is read as {shown}"
        return doubts


def _find_type(schema: pa.Schema, name: str) -> _Shown:
    """Return the type that a column of the dataset would be stored as, or what a Variant has at a path."""
    container = find_map(name)
    arrow_type = find_arrow_type(schema, container.split("."))
    of_variant = parse_evidence(name)
    if of_variant is not None:
        shown = find_arrow_type(schema, of_variant.column.split("."))
        if shown is not None:  # where a column has the very name, nobody knows which of the two is meant
            is_path = arrow_type is None and name not in schema.names and may_be_variant(shown)
            return from_arrow(to_arrow_type(of_variant.target)) if is_path else None
    if arrow_type is None:
        return None
    if is_variant(arrow_type):
        return _VARIANT
    if container != name:
        if not pa.types.is_map(arrow_type):
            return None
        arrow_type = arrow_type.key_type if is_key(name) else arrow_type.item_type
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
    inexact = (pa.types.is_duration, pa.types.is_date64, pa.types.is_float16, pa.types.is_null)
    if any(is_kind(arrow_type) for is_kind in inexact) or getattr(arrow_type, "unit", None) == "s":
        return None
    try:
        return from_arrow(arrow_type)
    except UnsupportedTypeError:
        return None


def _shows_stored(stored: ColumnType, expected: ColumnType) -> bool:
    """Return whether a value is shown as it is stored, in a dataset's column of a type."""
    if stored.kind is not expected.kind:
        return stored.kind in _TEXT and expected.kind in _TEXT and stored.physical == expected.physical
    if stored.kind is Kind.INTEGER:
        return True  # a cast that does not fit is an error
    if stored.kind is Kind.FLOAT:
        return stored.physical == expected.physical
    if stored.kind is Kind.DECIMAL:
        return stored.scale == expected.scale
    if stored.kind is Kind.TIMESTAMP:
        return stored.physical != "INT96" and (stored.unit, stored.utc) == (expected.unit, expected.utc)
    return (stored.unit, stored.length) == (expected.unit, expected.length)
