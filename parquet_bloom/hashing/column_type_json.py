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


def type_from_json(told: Mapping[str, Any]) -> ColumnType:
    """Read a column type back from JSON; reject types that no Parquet column can have.

    Raises
    ------
    ValueError, TypeError, KeyError
        No column has such a type.
    """
    found = ColumnType(**{**told, "kind": Kind(told["kind"])})
    numbers = (found.length, found.bits, found.precision, found.scale)
    if not isinstance(found.physical, str) or not all(number is None or type(number) is int for number in numbers):
        raise ValueError("type")
    length = found.length if found.physical == "FIXED_LEN_BYTE_ARRAY" else None
    for logical in (None, *_annotations(found)):
        known = from_parquet(found.physical, length, logical=logical)
        if known == found and known.name == found.name and type(found.signed) is bool:
            return known
    raise ValueError("type")


def _annotations(told: ColumnType) -> Iterator[dict[int, Any]]:
    """Yield the LogicalTypes that the type may have come from."""
    yield from ({member: {}} for member in _ALONE)
    yield {5: {1: told.scale, 2: told.precision}}
    if isinstance(told.unit, str) and told.unit in _UNITS:
        yield from ({member: {1: told.utc, 2: {_UNITS[told.unit]: {}}}} for member in (7, 8))
    yield {10: {1: told.bits, 2: told.signed}}
    yield {-1: {}}
