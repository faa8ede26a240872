"""The schema of an ORC file: its leaf columns.

Source: ORC specification v1, "Type Information".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import MalformedOrcError
from ..hashing.column_type import ColumnType, Kind
from .orc_tail import Message

KINDS = (
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BINARY", "TIMESTAMP"),
    *("LIST", "MAP", "STRUCT", "UNION", "DECIMAL", "DATE", "VARCHAR", "CHAR", "TIMESTAMP_INSTANT"),
)
_MAX_DEPTH = 100
_CATALYST = "spark.sql.catalyst.type"


@dataclass(frozen=True)
class OrcLeaf:
    """A column without child columns.

    Attributes
    ----------
    name : dotted path; "item" is a list's element, "key" and "value" are a map's, a number is a union's variant.
    path : the parts of the name.
    column_id : ORC's number of the column; 0 is the row itself.
    kind : the name of its ORC type, such as "LONG" or "TIMESTAMP_INSTANT".
    repeated : whether it is inside a list, map or union, and so has any number of values per row.
    column_type : how its values are compared.
    length : of CHAR and VARCHAR, in code points; None for others.
    attributes : key-value pairs of the type, such as "spark.sql.catalyst.type".
    index : its position among the leaves.
    parents : ORC's numbers of the structs that it is in, the outermost first, the row itself left out; of a repeated
        leaf, those of all columns that it is in.
    """

    name: str
    path: tuple[str, ...]
    column_id: int
    kind: str
    repeated: bool
    column_type: ColumnType
    length: int | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    index: int = 0
    parents: tuple[int, ...] = ()


def read_leaves(types: Sequence[Message]) -> list[OrcLeaf]:
    """Return the leaf columns of a file's types, in schema order.

    Raises
    ------
    MalformedOrcError
        The types do not form a tree.
    """
    leaves: list[OrcLeaf] = []
    if not types:
        return leaves
    seen = bytearray(len(types))
    pending: list[tuple[int, tuple[str, ...], bool, tuple[int, ...]]] = [(0, (), False, ())]
    while pending:
        number, path, repeated, parents = pending.pop()
        if number >= len(types) or seen[number] or len(path) > _MAX_DEPTH:
            raise MalformedOrcError(f"the types do not form a tree: type {number} of {len(types)}")
        seen[number] = 1
        description = types[number]
        kind = description.get("kind", 0)
        name = KINDS[kind] if kind < len(KINDS) else f"UNKNOWN {kind}"
        children = description.get("children", [])
        if name in ("STRUCT", "LIST", "MAP", "UNION"):
            names = _read_child_names(name, description, children)
            child_repeated = repeated or name != "STRUCT"
            child_columns = [
                (child, (*path, child_name), child_repeated, (*parents, number) if number else ())
                for child, child_name in zip(children, names, strict=True)
            ]
            pending += reversed(child_columns)
        elif children:
            raise MalformedOrcError(f"type {number} is {name}, and has child types")
        else:
            leaves.append(_make_leaf(description, name, number, path, repeated, len(leaves), parents))
    return leaves


def _read_child_names(kind: str, description: Message, children: Sequence[int]) -> list[str]:
    if kind == "STRUCT":
        names = [name.decode("utf-8", "replace") for name in description.get("names", [])]
    else:
        names = {"LIST": ["item"], "MAP": ["key", "value"]}.get(kind) or [str(i) for i in range(len(children))]
    if len(names) != len(children):
        raise MalformedOrcError(f"a type {kind} has {len(children)} child types, and {len(names)} names")
    return names


def _make_leaf(
    description: Message,
    kind: str,
    number: int,
    path: tuple[str, ...],
    repeated: bool,
    index: int,
    parents: tuple[int, ...],
) -> OrcLeaf:
    attributes = tuple(
        (pair.get("key", b"").decode("utf-8", "replace"), pair.get("value", b"").decode("utf-8", "replace"))
        for pair in description.get("attributes", [])
    )
    length = description.get("length") if kind in ("CHAR", "VARCHAR") else None
    column_type = _make_column_type(description, kind, dict(attributes).get(_CATALYST), length)
    return OrcLeaf(".".join(path), path, number, kind, repeated, column_type, length, attributes, index, parents)


_INTEGERS = {"BYTE": ("tinyint", 8), "SHORT": ("smallint", 16), "INT": ("int", 32)}


def _make_column_type(description: Message, kind: str, catalyst: str | None, length: int | None) -> ColumnType:
    if kind in _INTEGERS:
        name, bits = _INTEGERS[kind]
        return ColumnType("INT32", Kind.INTEGER, 4, bits=bits, name=name)
    if kind == "LONG":
        if catalyst == "timestamp_ntz":
            return ColumnType("INT64", Kind.TIMESTAMP, 8, unit="us", utc=False, name="timestamp_ntz")
        return ColumnType("INT64", Kind.INTEGER, 8, bits=64, name="bigint")
    if kind in ("FLOAT", "DOUBLE"):
        return ColumnType(kind, Kind.FLOAT, 4 if kind == "FLOAT" else 8, name=kind.lower())
    if kind in ("STRING", "VARCHAR", "CHAR"):
        name = kind.lower() + (f"({length})" if length is not None else "")
        return ColumnType("BYTE_ARRAY", Kind.STRING, name=name)
    if kind == "BINARY":
        return ColumnType("BYTE_ARRAY", Kind.BYTES, name="binary")
    if kind == "DATE":
        return ColumnType("INT32", Kind.DATE, 4, name="date")
    if kind in ("TIMESTAMP", "TIMESTAMP_INSTANT"):
        name = "timestamp" if kind == "TIMESTAMP" else "timestamp with local time zone"
        return ColumnType("INT96", Kind.TIMESTAMP, 12, unit="ns", utc=kind == "TIMESTAMP_INSTANT", name=name)
    if kind == "BOOLEAN":
        return ColumnType("BOOLEAN", Kind.BOOLEAN, name="boolean")
    precision, scale = description.get("precision", 0), description.get("scale", 0)
    if kind == "DECIMAL" and 0 <= scale <= precision and 1 <= precision <= 38:
        name = f"decimal({precision},{scale})"
        return ColumnType("BYTE_ARRAY", Kind.DECIMAL, precision=precision, scale=scale, name=name)
    # Decimals of Hive before 0.13 store a scale with each value; other types are unknown.
    return ColumnType("BYTE_ARRAY", Kind.UNKNOWN, name=kind.lower())
