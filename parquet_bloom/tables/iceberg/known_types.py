"""Show pyiceberg a table's metadata without the types of format version 3 that it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from ...util.lazy import late_module

if TYPE_CHECKING:
    import pyiceberg.types as types
else:
    types = late_module("pyiceberg.types")

_VARIANT = "variant"
_LOCATED = re.compile(r"(geometry|geography)\s*\(.*\)")  # with a reference system, which Java writes without quotes


def with_known_types(document: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON document of a metadata file with other types for such columns.

    A Variant is a struct of what files have of it, see `stands_for_variant`. What has a place on Earth has the type
    without its reference system: the bytes are the same.
    """
    schemas = [_replace(schema, count(-1, -1)) for schema in document.get("schemas", ())]
    return document if schemas == document.get("schemas", []) else {**document, "schemas": schemas}


def stands_for_variant(iceberg_type: types.IcebergType) -> bool:
    """Return whether a type of pyiceberg's is a struct that `with_known_types` shows in place of a Variant.

    Its fields have ids below zero, which no file and no metrics have: files name them, and bounds are those of parts.
    """
    return isinstance(iceberg_type, types.StructType) and any(field.field_id < 0 for field in iceberg_type.fields)


def _replace(described: Any, ids: Iterator[int]) -> Any:
    """Return the description of a type, of a field or of a schema without unknown types."""
    if isinstance(described, dict):
        return {key: _replace(value, ids) if key in _NESTING else value for key, value in described.items()}
    if isinstance(described, list):
        return [_replace(one, ids) for one in described]
    if described == _VARIANT:
        names = "metadata", "value"
        fields = [{"id": next(ids), "name": name, "required": True, "type": "binary"} for name in names]
        return {"type": "struct", "fields": fields}
    if isinstance(described, str):
        located = _LOCATED.fullmatch(described)
        return located[1] if located else described
    return described


_NESTING = ("fields", "type", "element", "key", "value")
