"""The equalities of a predicate that stored values decide, so that pages are searched for them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from ...file.columns import find_leaves, holds_elements, type_of
from ...file.reader import BloomFile
from ...hashing.column_type import Kind
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.in_array import InArray, make_targets
from ...predicate.lists import is_list
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ..model.data_file import RowFilter

MAX_LITERALS = 100_000
"""Lists of more literals are not searched for, unless they are arrays."""

STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values have the same bytes


class Equality(NamedTuple):
    """An equality that every matching row meets, and that stored values decide.

    Attributes
    ----------
    node : part of the predicate: Equal, In, Contains, or several Contains of one column that are joined by OR.
    column, leaf : its column, and the values that are compared, which may be the elements of lists.
    targets : stored values that are equal.
    """

    node: Node
    column: str
    leaf: Leaf
    targets: Targets

    def find_rest(self, node: Node) -> Node | None:
        """Return what a predicate, of which this is a part, says besides it; None for nothing."""
        if self.node is node or not isinstance(node, tree.And):
            return None
        return tree.all_of(child for child in node.children if child is not self.node)


def find_equalities(file: BloomFile, schema: pa.Schema, row_filter: RowFilter) -> list[Equality]:
    """Return the equalities of a predicate that stored values decide; those of few values first.

    Parameters
    ----------
    schema : of the file's rows, as pyarrow reads them.
    """
    assert isinstance(row_filter.predicate, PruningPredicate)
    node = row_filter.predicate.node
    conjuncts = node.children if isinstance(node, tree.And) else (node,)
    parts = [(part, leaves) for part in conjuncts if (leaves := _find_comparisons(part))]
    return [
        Equality(part, leaves[0].column, leaf, targets)
        for part, leaves in sorted(parts, key=_count_literals)
        if (leaf := _find_compared(file, schema, leaves[0])) is not None
        and (targets := _make_targets(leaf, part, leaves, row_filter)) is not None
    ]


def _find_comparisons(part: Node) -> Sequence[tree.Leaf]:
    """Return the comparisons of one column for equality that a part of a predicate consists of; none for others."""
    if isinstance(part, tree.Equal | tree.In | tree.Contains):
        return [part]
    parts = part.children if isinstance(part, tree.Or) else ()
    leaves = [leaf for leaf in parts if isinstance(leaf, tree.Contains)]
    alike = len(leaves) == len(parts) and len({leaf.column for leaf in leaves}) == 1
    return leaves if alike else ()


def _count_literals(part: tuple[Node, Sequence[tree.Leaf]]) -> int:
    return sum(len(leaf.literals) for leaf in part[1])


def _find_compared(file: BloomFile, schema: pa.Schema, comparison: tree.Leaf) -> Leaf | None:
    """Return the leaf whose values a comparison is about; None if there is not just one, or not of such a kind."""
    leaves = find_leaves(file.leaves, comparison.column)
    if len(leaves) != 1 or type_of(leaves[0]).kind not in STORED_ALIKE:
        return None
    leaf = leaves[0]
    if leaf.repeated != isinstance(comparison, tree.Contains):
        return None
    if leaf.repeated:
        is_top = comparison.column == leaf.path[0] and schema.names.count(comparison.column) == 1
        if not is_top or not holds_elements(leaf, comparison.column):
            return None
        if not is_list(schema.field(comparison.column).type):
            return None
    return leaf


def _make_targets(leaf: Leaf, part: Node, comparisons: Sequence[tree.Leaf], row_filter: RowFilter) -> Targets | None:
    """Return the stored values that decide an equality; None if there are no such values."""
    column_type = type_of(leaf)
    key = id(part), column_type
    if key not in row_filter.targets:
        literals = part.values if isinstance(part, InArray) else [one for leaf in comparisons for one in leaf.literals]
        is_searched = isinstance(part, InArray) or (None not in literals and len(literals) <= MAX_LITERALS)
        targets = make_targets(literals, column_type, row_filter.timezone) if is_searched else None
        row_filter.targets.setdefault(key, targets)
    return row_filter.targets[key]
