"""Which column types are of the kinds that `HasType` names."""

from __future__ import annotations

from ..errors import PredicateError
from ..hashing.column_type import ColumnType, Kind
from .tree import COLUMN_KINDS, HasOtherType, HasType

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "double": 32, "exact": 64}


def is_of_kind(column_type: ColumnType, kind: str) -> bool:
    """Return whether a type is of one of `COLUMN_KINDS`: then the cast to it changes no value."""
    if column_type.kind is Kind.INTEGER:
        bits = (column_type.bits or 64) + (not column_type.signed and kind not in ("double", "exact"))
        return kind in _BITS and bits <= _BITS[kind]
    if column_type.kind is Kind.DECIMAL:
        return kind == "exact"
    if column_type.kind is Kind.FLOAT:
        return kind == "double" and column_type.length == 8  # a literal means the nearest one of narrower floats
    if kind == "day":
        is_wall_clock = column_type.kind is Kind.TIMESTAMP and column_type.utc is False
        return column_type.kind is Kind.DATE or is_wall_clock
    return False


def require_kind(column_type: ColumnType, leaf: HasType | HasOtherType) -> None:
    """Raise PredicateError unless a column has the type that a leaf says."""
    if not is_of_kind(column_type, leaf.kind):
        problem = f"a cast or sum is supported of {COLUMN_KINDS[leaf.kind]}, not of {column_type}"
        raise PredicateError(f"{problem}: compare the column itself", column=leaf.column)
