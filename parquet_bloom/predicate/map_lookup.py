"""Values that maps have under a key: of each row, and what row groups must have for one of them to satisfy a condition.

A row group has a row whose value under a key satisfies a condition only if the key occurs among the keys of its maps,
and some value among their values satisfies the condition. Both are conditions over the elements of the two columns
that a file stores a map as, which statistics, filters and dictionaries decide as for elements of lists.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError
from ..util.arrow_values import from_numpy, to_numpy
from . import tree
from .tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Contains,
    Equal,
    HasOtherType,
    HasType,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    MapLookup,
    Matches,
    Node,
    NotIn,
    VariantLookup,
)
from .variant_names import name_evidence, parse_evidence

_KEY, _VALUE = ".key_value.key", ".key_value.value"


def find_map(name: str) -> str:
    """Return the map of whose keys or values evidence has this name (see `to_evidence`); other names as they are."""
    return name.removesuffix(_KEY).removesuffix(_VALUE)


def find_column_of(name: str) -> str:
    """Return the column that evidence of a name is about: a map, a Variant, or the column itself."""
    of_variant = parse_evidence(name)
    return find_map(name) if of_variant is None else of_variant.column


def is_key(name: str) -> bool:
    """Return whether evidence of this name is of the keys of a map."""
    return name.endswith(_KEY)


def to_evidence(node: Node) -> Node:
    """Return what evidence is asked for: a predicate with conditions on the keys and values of maps.

    It is true for a row group that has a row for which the given one is true. Keys and values are named as the format
    names them, whatever names a file has for them; a leaf over these is over any number of values for each row. A
    lookup of which evidence says nothing is kept, and named as the keys of its map. What is asked of a path of a
    Variant is named as `variant_names` says.
    """
    node = tree.drop_whole_names(node)
    if not any(isinstance(leaf, MapLookup | VariantLookup) for leaf in tree.leaves(node)):
        return node

    def replace_lookup(leaf: Leaf) -> Node | bool:
        if isinstance(leaf, VariantLookup):
            name = {leaf.column: name_evidence(leaf.column, leaf.path, leaf.target)}
            return tree.rename_columns(leaf.condition if isinstance(leaf.condition, _DECIDED) else leaf, name)
        if not isinstance(leaf, MapLookup):
            return leaf
        keys, condition = leaf.column + _KEY, leaf.condition
        if _holds_for_null(condition):
            return tree.rename_columns(leaf, {leaf.column: keys})
        of_values = tree.rename_columns(condition, {leaf.column: leaf.column + _VALUE})
        return And((Contains(keys, leaf.key), of_values))

    evidence = tree.find_residual(node, replace_lookup)
    assert isinstance(evidence, Node)
    return evidence


_DECIDED = (Equal, In, Compare, CallIn, Like, Matches, IsNotNull)
"""Conditions on a path of a Variant that its evidence decides: none that may be true for null, and no negation."""


def find_evidence_columns(node: Node) -> set[str]:
    """Return the names of all columns whose evidence is asked for; see `to_evidence`."""
    return tree.columns(to_evidence(node))


def _holds_for_null(condition: Leaf) -> bool:
    """Return whether a condition may be true for null, which is what a map has under a key that it does not have."""
    is_empty = isinstance(condition, NotIn | CallNotIn) and not condition.values
    return is_empty or isinstance(condition, IsNull | HasType | HasOtherType)


def find_map_type(arrow_type: pa.DataType, name: str) -> pa.MapType:
    """Return the type of a map column; raise PredicateError for any other column."""
    while isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    if not pa.types.is_map(arrow_type):
        raise PredicateError(f"a {arrow_type} is not a map: it has no values under keys", column=name)
    return arrow_type


def take_first(maps: pa.Array, matches: NDArray[np.bool_]) -> pa.Array:
    """Return the value of each map under the first of its keys that matches; null where none does.

    Parameters
    ----------
    maps : maps, without extension types.
    matches : for each entry of `maps.keys` whether it does.
    """
    offsets = to_numpy(maps.offsets).astype(np.int64)
    positions = np.flatnonzero(matches)
    at = np.searchsorted(positions, offsets[:-1])
    first = np.append(positions, len(matches))[at]  # the first match at or after the map's first entry
    is_absent = (first >= offsets[1:]) | to_numpy(maps.is_null())
    return maps.items.take(from_numpy(np.where(is_absent, 0, first), is_absent))
