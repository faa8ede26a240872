"""Schemas of Delta tables: how data files name the columns, and which features of a table are understood."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...errors import ParquetBloomError
from ..snapshot import TableColumn

Path = tuple[str, ...]

_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNanos",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Reader features that are understood."""

_VARIANT = "variant"
_VARIANT_FEATURES = frozenset({
    *("variantType", "variantType-preview", "variantShredding", "variantShredding-preview"),
})  # fmt: skip
"""Features that say how columns of variants are stored, which may be spread over columns that their type does not show.

Writers list them in tables that have no such column, deltalake as soon as any feature has to be listed.
"""

_LATEST_READER = 3
_MODES = ("none", "name", "id")


@dataclass(frozen=True)
class DeltaLeaf:
    """A column without fields, or a field of structs.

    Attributes
    ----------
    physical : its path in the files and in the log's statistics.
    arrow_type : its type in the table.
    widened : whether its type was changed, so that statistics may be of values of another type.
    """

    physical: Path
    arrow_type: pa.DataType
    widened: bool


def require_understood(protocol: Any, schema: Mapping[str, Any]) -> None:
    """Raise ParquetBloomError if a table uses reader features that are not understood.

    Parameters
    ----------
    protocol : deltalake's.
    schema : the table's, in its JSON form.
    """
    listed = set(protocol.reader_features or ())
    variant = find_variant(schema)
    unknown = sorted(listed - _FEATURES - (_VARIANT_FEATURES if variant is None else frozenset()))
    where = "" if variant is None else f" (its column '{variant}' is a variant)"
    if unknown:
        names = ", ".join(repr(name) for name in unknown)
        raise ParquetBloomError(f"the table has the feature {names}, which is not supported: it is not read{where}")
    if protocol.min_reader_version > _LATEST_READER:
        raise ParquetBloomError(f"the table needs a reader of version {protocol.min_reader_version}: it is not read")


def find_variant(schema: Mapping[str, Any]) -> str | None:
    """Return the first top-level column that is a variant or has one in it; None if there is none.

    Parameters
    ----------
    schema : in its JSON form.
    """
    return next((str(field["name"]) for field in schema["fields"] if _has_variant(field["type"])), None)


def _has_variant(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind == _VARIANT
    parts = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    parts += [field["type"] for field in kind.get("fields", ())]
    return any(_has_variant(part) for part in parts if part is not None)


def find_mapping_mode(protocol: Any, configuration: Mapping[str, Any]) -> str:
    """Return how data files name columns: "none" (as the table does), "name" or "id".

    Raises
    ------
    ParquetBloomError
        The mode is unknown.
    """
    mode = configuration.get("delta.columnMapping.mode") or "none"
    if mode not in _MODES:
        raise ParquetBloomError(f"its column mapping is '{mode}', which is not supported")
    mapped = protocol.min_reader_version == 2 or "columnMapping" in (protocol.reader_features or ())
    return mode if mapped else "none"


def make_columns(schema: Mapping[str, Any], mode: str) -> tuple[TableColumn, ...] | None:
    """Return how files name the columns of a schema (its JSON form); None if as the table does."""
    return None if mode == "none" else tuple(_make_column(field, mode) for field in schema["fields"])


def _make_column(field: Mapping[str, Any], mode: str) -> TableColumn:
    metadata = field["metadata"]
    number = int(metadata["delta.columnMapping.id"]) if mode == "id" else None
    names = (str(metadata["delta.columnMapping.physicalName"]),)
    return _make_typed(field["name"], field["type"], number, names, mode)


def _make_typed(name: str, kind: Any, number: int | None, names: tuple[str, ...], mode: str) -> TableColumn:
    """Return a column of a type; what lists and maps consist of has the names that writers give it."""
    if isinstance(kind, str):
        return TableColumn(name, "value", number, names)
    if kind["type"] == "struct":
        parts = tuple(_make_column(field, mode) for field in kind["fields"])
        return TableColumn(name, "struct", number, names, parts)
    if kind["type"] == "array":
        element = _make_typed("element", kind["elementType"], None, ("element",), mode)
        return TableColumn(name, "list", number, names, (element,))
    if kind["type"] == "map":
        key = _make_typed("key", kind["keyType"], None, ("key",), mode)
        value = _make_typed("value", kind["valueType"], None, ("value",), mode)
        return TableColumn(name, "map", number, names, (key, value))
    raise ParquetBloomError(f"its column '{name}' has the type {json.dumps(kind)[:100]}, which is not supported")


def find_leaves(schema: Mapping[str, Any], arrow: pa.Schema, mode: str) -> dict[str, DeltaLeaf]:
    """Return {dotted name: leaf} of a schema, without lists and maps and without names that two leaves have.

    Parameters
    ----------
    schema : in its JSON form.
    arrow : the same as an Arrow schema.
    mode : of the column mapping.
    """
    leaves = list(_walk(schema["fields"], pa.struct(list(arrow)), mode, (), ()))
    names = Counter(".".join(path) for path, _ in leaves)
    return {name: leaf for path, leaf in leaves if names[name := ".".join(path)] == 1}


def _walk(fields: Any, above: pa.StructType, mode: str, path: Path, physical: Path) -> Iterator[tuple[Path, DeltaLeaf]]:
    for position, field in enumerate(fields):
        metadata = field["metadata"]
        in_files = field["name"] if mode == "none" else metadata["delta.columnMapping.physicalName"]
        here, there = (*path, field["name"]), (*physical, in_files)
        arrow_type = above.field(position).type
        if isinstance(field["type"], dict):
            if field["type"]["type"] == "struct":
                yield from _walk(field["type"]["fields"], arrow_type, mode, here, there)
        else:
            yield here, DeltaLeaf(there, arrow_type, bool(metadata.get("delta.typeChanges")))
