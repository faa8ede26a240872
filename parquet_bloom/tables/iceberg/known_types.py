"""Show pyiceberg a table's metadata without the types of format version 3 that it does not know."""

from __future__ import annotations

import re
from typing import Any

_VARIANT, _UNKNOWN = "variant", "unknown"
_LOCATED = re.compile(r"(geometry|geography)\s*\(.*\)")  # with a reference system, which Java writes without quotes


def with_known_types(document: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON document of a metadata file with other types for such columns.

    A variant is a column of an unknown type, so that whoever reads it gets an error: in files it is a group. What has a
    place on Earth has the type without its reference system: the bytes are the same.
    """
    schemas = [_replace(schema) for schema in document.get("schemas", ())]
    return document if schemas == document.get("schemas", []) else {**document, "schemas": schemas}


def _replace(described: Any) -> Any:
    """Return the description of a type, of a field or of a schema without unknown types."""
    if isinstance(described, dict):
        return {key: _replace(value) if key in _NESTING else value for key, value in described.items()}
    if isinstance(described, list):
        return [_replace(one) for one in described]
    if isinstance(described, str):
        located = _LOCATED.fullmatch(described)
        return _UNKNOWN if described == _VARIANT else located[1] if located else described
    return described


_NESTING = ("fields", "type", "element", "key", "value")
