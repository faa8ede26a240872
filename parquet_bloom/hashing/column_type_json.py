"""Column types as JSON in the metadata of indexes, and their validation when they are read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from .column_type import ColumnType, Kind, from_parquet

_UNITS = {"ms": 1, "us": 2, "ns": 3}
_ALONE = (1, 4, 6, 11, 12, 13, 14, 15)  # annotations without parameters; see `column_type`


def type_to_json(column_type: ColumnType) -> dict[str, Any]:
    """Return a column type as a JSON object."""
    return {**asdict(column_type), "kind": column_type.kind.value}


def type_from_json(data: Mapping[str, Any]) -> ColumnType:
    """Read a column type back from JSON; reject types that no Parquet column can have.

    Raises
    ------
    ValueError, TypeError, KeyError
        No column has such a type.
    """
    column_type = ColumnType(**{**data, "kind": Kind(data["kind"])})
    numbers = (column_type.length, column_type.bits, column_type.precision, column_type.scale)
    if not isinstance(column_type.physical, str) or not all(
        number is None or type(number) is int for number in numbers
    ):
        raise ValueError("type")
    length = column_type.length if column_type.physical == "FIXED_LEN_BYTE_ARRAY" else None
    for logical in (None, *_annotations(column_type)):
        valid = from_parquet(column_type.physical, length, logical=logical)
        if valid == column_type and valid.name == column_type.name and type(column_type.signed) is bool:
            return valid
    raise ValueError("type")


def _annotations(data: ColumnType) -> Iterator[dict[int, Any]]:
    """Yield the LogicalTypes that the type may have come from."""
    yield from ({member: {}} for member in _ALONE)
    yield {5: {1: data.scale, 2: data.precision}}
    if isinstance(data.unit, str) and data.unit in _UNITS:
        yield from ({member: {1: data.utc, 2: {_UNITS[data.unit]: {}}}} for member in (7, 8))
    yield {10: {1: data.bits, 2: data.signed}}
    yield {-1: {}}
