"""Names of evidence of what a Variant has at a path, such as `v:$.a.b::bigint`; and the types it is asked for as.

A Variant is stored as a group. What it has at a path may be stored as a column of its own, which is called shredded;
the statistics, filters and dictionaries of that column are evidence of the path, under such a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pyarrow as pa

from ..errors import PredicateError
from ..variant.variant_path import VariantPath
from .tree import Node, OfWholeName, VariantLookup, leaves

_TYPES = {
    "boolean": ("boolean", "bool"),
    "tinyint": ("tinyint", "byte", "int8"),
    "smallint": ("smallint", "short", "int16"),
    "int": ("int", "integer", "int32"),
    "bigint": ("bigint", "long", "int64"),
    "float": ("float", "real", "float4"),
    "double": ("double", "double precision", "float8"),
    "string": ("string", "varchar", "text"),
    "binary": ("binary", "bytea", "blob", "varbinary"),
    "date": ("date",),
    "timestamp": ("timestamp", "timestamp_ltz", "timestamptz", "timestamp with time zone", "timestampltz"),
    "timestamp_ntz": ("timestamp_ntz", "timestampntz", "datetime", "timestamp without time zone"),
}
_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_CANONICAL = {other: name for name, others in _TYPES.items() for other in others}
_DECIMAL = re.compile(r"(?:decimal|numeric|dec)(?:\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\))?")
_LARGEST_PRECISION = 38
_NAME = re.compile(r"((?:[^:]|::)+):(\$.*)::([^:]+)", re.DOTALL)


class VariantName(NamedTuple):
    """What evidence is of: a path of a Variant, as a type.

    Attributes
    ----------
    column : dotted name of the Variant.
    path : the path, as canonical text.
    target : the type's canonical name.
    """

    column: str
    path: str
    target: str


def parse_target(text: str) -> str:
    """Return the canonical name of a type that a path is asked for as, such as `bigint` or `decimal(10,2)`.

    Raises
    ------
    PredicateError
        There is no such type, or a Variant has no values of it.
    """
    lowered = " ".join(text.lower().split())
    decimal = _DECIMAL.fullmatch(lowered)
    if decimal is None:
        if lowered not in _CANONICAL:
            problem = f"{text} is no type that a part of a Variant can be asked for as; there are: {', '.join(_TYPES)}"
            raise PredicateError(f"{problem}, decimal(p, s)")
        return _CANONICAL[lowered]
    precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
    if not 1 <= precision <= _LARGEST_PRECISION or scale > precision:
        raise PredicateError(f"{text}: a decimal has 1 to {_LARGEST_PRECISION} digits, and no more behind the point")
    return f"decimal({precision},{scale})"


def find_paths(node: Node) -> dict[str, list[VariantPath]]:
    """Return the paths that a predicate asks for of each Variant of which it asks for nothing else."""
    found: dict[str, list[VariantPath]] = {}
    others = set()
    for leaf in leaves(node):
        leaf = leaf.condition if isinstance(leaf, OfWholeName) else leaf
        if isinstance(leaf, VariantLookup):
            found.setdefault(leaf.column, []).append(leaf.path)
        else:
            others.add(leaf.column)
    return {column: paths for column, paths in found.items() if column not in others}


def is_target(text: str) -> bool:
    """Return whether a text is the canonical name of a type."""
    return text in _TYPES or _DECIMAL.fullmatch(text) is not None


def find_decimal(target: str) -> tuple[int, int]:
    """Return the precision and the scale of a decimal's canonical name."""
    match = _DECIMAL.fullmatch(target)
    assert match is not None, target
    return int(match[1]), int(match[2])


def to_arrow_type(target: str) -> pa.DataType:
    """Return the Arrow type of what a path is asked for as, by the type's canonical name."""
    if target in _ARROW:
        return _ARROW[target]
    return pa.decimal128(*find_decimal(target))


def name_evidence(column: str, path: VariantPath, target: str) -> str:
    """Return the name under which evidence of a path is asked for, as a type of a canonical name."""
    return f"{column.replace(':', '::')}:{path}::{target}"


def parse_evidence(name: str) -> VariantName | None:
    """Return what a name of `name_evidence` is made of; None for other names.

    A column may have such a name, too: whoever looks for evidence has to look for that column first.
    """
    match = _NAME.fullmatch(name) if ":$" in name else None
    if match is None or not is_target(match[3]):
        return None
    return VariantName(match[1].replace("::", ":"), match[2], match[3])
