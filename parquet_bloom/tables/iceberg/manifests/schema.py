"""Compile an Avro schema, which may be any writer's, for the decoder of `core.decode.avro`.

Fields are identified by their ids, as Iceberg has it; what nobody reads is skipped, but its bytes are checked all the
same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ....core.decode.avro import TYPES

Wanted: TypeAlias = "Mapping[int, Wanted | None]"
"""The fields of a record to read, by field id, and which parts of them; None for all."""

_MOST_NODES = 10_000
_NAMED = ("record", "fixed", "enum")
_BY_NAME_ONLY = ("record", "fixed", "enum", "array", "map")


@dataclass(frozen=True)
class Node:
    """A type in a schema, with what the schema says of it.

    Attributes
    ----------
    annotations : the schema of the type, such as its logical type.
    null_branch : which branch of a union null is; -1 for a type without null.
    is_kept : whether its values are read.
    field_id, name : of the field of a record; None and "" for others.
    children : the nodes of the fields, or of the items.
    """

    type: str
    annotations: Mapping[str, Any]
    null_branch: int
    is_kept: bool
    field_id: int | None
    name: str
    children: range

    def to_tuple(self) -> tuple[int, int, bool, int, int, int]:
        """Return the node as the decoder takes it."""
        size = self.annotations.get("size") if self.type == "fixed" else 0
        if type(size) is not int or not 0 <= size < 1 << 31:
            raise ValueError(f"its schema has a fixed type of {size!r} bytes")
        kind = TYPES[self.type]
        return kind, self.null_branch, self.is_kept, size, self.children.start, len(self.children)


def compile_schema(schema: Any, wanted: Wanted) -> list[Node]:
    """Return the types in a schema: the records' first, the children of each side by side and after it.

    Raises
    ------
    ValueError
        It is not an Avro schema of records, or has unions of several types, as no Iceberg metadata has.
    """
    named = _find_named(schema)
    nodes: list[Node] = []
    pending: deque[tuple[Any, Wanted | None, bool, int | None, str]] = deque([(schema, wanted, True, None, "")])
    while pending:
        given, parts, is_kept, field_id, name = pending.popleft()
        kind, annotations, null_branch = _resolve(given, named)
        below = _list_parts(kind, annotations)
        end = len(nodes) + 1 + len(pending)
        nodes.append(Node(kind, annotations, null_branch, is_kept, field_id, name, range(end, end + len(below))))
        if end + len(below) > _MOST_NODES:
            raise ValueError(f"its schema has more than {_MOST_NODES:,} types, or one that contains itself")
        for part, part_id, part_name in below:
            chosen = is_kept and (parts is None or part_id in parts)
            pending.append((part, parts.get(part_id) if parts and part_id else None, chosen, part_id, part_name))
    return nodes


def _list_parts(kind: str, annotations: Mapping[str, Any]) -> list[tuple[Any, int | None, str]]:
    """Return schema, field id and name of the parts of a type."""
    if kind == "array":
        return [(annotations.get("items"), None, "")]
    if kind != "record":
        return []
    fields = annotations.get("fields")
    if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
        raise ValueError("its schema has a record without fields")
    ids = [each.get("field-id") for each in fields]
    numbers = [number if type(number) is int else None for number in ids]
    return [(each.get("type"), number, str(each.get("name", ""))) for each, number in zip(fields, numbers, strict=True)]


def _resolve(schema: Any, named: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], int]:
    """Return the type that a schema is of, its annotations, and which branch of a union null is."""
    null_branch = -1
    if isinstance(schema, list):
        if len(schema) == 2 and "null" in schema:
            null_branch = schema.index("null")
        elif len(schema) != 1:
            raise ValueError("its schema has a union of several types")
        schema = schema[1 - null_branch if null_branch >= 0 else 0]
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict):
        schema = schema["type"]
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    annotations: Mapping[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    kind = annotations.get("type")
    if kind == "map":
        return "array", _as_entries(annotations), null_branch
    if not isinstance(kind, str) or kind not in TYPES or (isinstance(schema, str) and kind in _BY_NAME_ONLY):
        raise ValueError(f"its schema has a type {str(kind)[:100]!r}")
    return kind, annotations, null_branch


def _as_entries(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return a map as the array of records that it is stored as."""
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": annotations.get("values")}]
    return {"type": "array", "items": {"type": "record", "fields": fields}}


def _find_named(schema: Any) -> dict[str, Any]:
    """Return the types that a schema names, which may be used again by their names."""
    named: dict[str, Any] = {}
    pending = [schema]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if one.get("type") in _NAMED and isinstance(one.get("name"), str):
                named.setdefault(one["name"], one)
                if isinstance(one.get("namespace"), str):
                    named.setdefault(f"{one['namespace']}.{one['name']}", one)
            pending.extend(value for value in one.values() if isinstance(value, dict | list))
        elif isinstance(one, list):
            pending.extend(value for value in one if isinstance(value, dict | list))
    return {name: one for name, one in named.items() if name not in TYPES and name != "map"}
