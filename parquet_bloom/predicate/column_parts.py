"""Parts of a predicate that are over one column, and whether the distinct values of that column satisfy them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..util.arrow_values import make_scalar, to_numpy
from ..util.lazy import late_module
from .map_lookup import find_map
from .row_filter import Probes, StoredColumn, row_mask
from .tree import (
    And,
    Connective,
    Contains,
    Equal,
    IsNotNull,
    IsNull,
    Leaf,
    MapLookup,
    Node,
    NotContains,
    VariantLookup,
    all_of,
    any_of,
    fold,
    leaves,
    to_postfix,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


class PredicatePart(NamedTuple):
    """A part of a predicate over one column, as large as possible.

    Attributes
    ----------
    column : the column.
    node : the part. Children of a connective that has others, too, are joined by themselves. Of the elements of a list
        it is what holds for one of them: equality in place of `Contains`.
    places : the numbers of its topmost terms in the predicate's postfix form; each of them is decided by the part.
    is_of_elements : whether it is over the elements of a list: then it holds if it does for any of them.
    """

    column: str
    node: Node
    places: tuple[int, ...]
    is_of_elements: bool


class DictionaryValues(NamedTuple):
    """The distinct values of a column in some row groups, nulls left out.

    Attributes
    ----------
    positions : of the row groups, ascending (intp array).
    ends : where the values of each row group end among all.
    values : those of one row group after the other; or as they are stored, of types that Arrow cannot represent.
    problems : why the values of some other row groups cannot be had, by their positions.
    """

    positions: NDArray[np.intp]
    ends: NDArray[np.int64]
    values: pa.Array | StoredColumn
    problems: Mapping[int, str]


DictionaryReader = Callable[[str, NDArray[np.intp], float], DictionaryValues | None]
"""Reads the distinct values of a column in some row groups, where that costs at most a share of reading these."""


class _Term(NamedTuple):
    """A term of the postfix form; the key is its column and whether it is over elements, None if there are several."""

    key: tuple[str, bool] | None
    node: Node
    place: int


def find_column_parts(node: Node) -> list[PredicatePart]:
    """Return the parts of a predicate that are over one column, in the order in which they stand.

    What a list does not have (`NotContains`) is no part: that lists without elements satisfy it, no value shows. Nor
    are lookups in maps, but the conditions on keys and values that `to_evidence` has in place of them.
    """
    parts: list[PredicatePart] = []
    terms: list[_Term] = []
    for place, item in enumerate(to_postfix(node)):
        if isinstance(item, Leaf):
            is_of_elements = isinstance(item, Contains) or find_map(item.column) != item.column
            is_unknown = isinstance(item, NotContains | MapLookup | VariantLookup)
            terms.append(_Term(None if is_unknown else (item.column, is_of_elements), item, place))
            continue
        assert isinstance(item, tuple)
        kind, count = item
        children = terms[-count:]
        del terms[-count:]
        keys = {child.key for child in children}
        is_conjunction = issubclass(kind, And)
        key = keys.pop() if len(keys) == 1 else None
        if key is not None and not (is_conjunction and key[1]):
            terms.append(_Term(key, kind(tuple(child.node for child in children)), place))
            continue
        parts += _join_children(children, is_conjunction)
        terms.append(_Term(None, node, place))
    return parts + _join_children(terms, is_conjunction=True)


def _join_children(children: Sequence[_Term], is_conjunction: bool) -> list[PredicatePart]:
    """Return the parts of children of a connective: one for each column; of elements in AND, for each child."""
    groups: dict[tuple[object, ...], list[_Term]] = {}
    for child in children:
        if child.key is not None:
            # Different elements of a list may satisfy the conditions that AND joins.
            alone = (child.place,) if is_conjunction and child.key[1] else ()
            groups.setdefault((*child.key, *alone), []).append(child)
    join = all_of if is_conjunction else any_of
    parts = []
    for members in groups.values():
        if all(isinstance(leaf, IsNull | IsNotNull) for member in members for leaf in leaves(member.node)):
            continue  # statistics have counted the nulls
        assert members[0].key is not None
        column, is_of_elements = members[0].key
        joined = members[0].node if len(members) == 1 else join(member.node for member in members)
        if is_of_elements:
            joined = fold(joined, _make_equal, _rejoin)
        parts.append(PredicatePart(column, joined, tuple(member.place for member in members), is_of_elements))
    return parts


class PartVerdicts(NamedTuple):
    """What distinct values say of a part, with one entry (bool) for each row group of `DictionaryValues`.

    Attributes
    ----------
    any_value : whether the part is true for any value.
    all_values : whether it is true for all of them.
    null : whether it is true for null.
    """

    any_value: NDArray[np.bool_]
    all_values: NDArray[np.bool_]
    null: bool


def evaluate_part(part: PredicatePart, dictionaries: DictionaryValues, timezone: str, probes: Probes) -> PartVerdicts:
    """Evaluate a part on the distinct values of its column.

    Parameters
    ----------
    probes : see `row_mask`; valid as long as the part is.

    Raises
    ------
    PredicateError
        A literal cannot be compared with the column, or the part is an error for one of the values.
    """
    node, values = part.node, dictionaries.values
    if isinstance(values, StoredColumn):
        stored = pa.chunked_array([*values.values.chunks, pa.nulls(1, values.values.type)])
        mask = row_mask(
            pa.table({}), node, timezone=timezone, stored={part.column: StoredColumn(stored, values.column_type)}
        )
    else:
        with_null = pa.chunked_array([values, pa.nulls(1, values.type)])
        mask = row_mask(pa.table({part.column: with_null}), node, timezone=timezone, probes=probes)
    flags = to_numpy(pc.fill_null(mask, make_scalar(False, pa.bool_())).combine_chunks()).astype(np.bool_)
    before = np.concatenate([[0], np.cumsum(flags[:-1])])
    starts = np.concatenate([[0], dictionaries.ends[:-1]]).astype(np.int64)
    num_true = before[dictionaries.ends] - before[starts]
    return PartVerdicts(num_true > 0, num_true == dictionaries.ends - starts, bool(flags[-1]))


def _make_equal(leaf: Leaf) -> Node:
    return Equal(leaf.column, leaf.value) if isinstance(leaf, Contains) else leaf


def _rejoin(connective: Connective, children: list[Node]) -> Node:
    return type(connective)(tuple(children))
