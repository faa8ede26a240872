"""Conditions that are joined by AND, OR, NOT and parentheses, and the tree that they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .sql_tokens import Kind
from .tree import And, Connective, Node, Or, merge_equalities, negation


class SqlGroup:
    """Conditions joined by AND or OR. The tree is built of the whole group at once, see `build_tree`."""

    __slots__ = ("children", "is_negated", "kind")

    def __init__(self, kind: Kind, children: Sequence[SqlPart], is_negated: bool = False) -> None:
        self.kind, self.children, self.is_negated = kind, children, is_negated


SqlPart: TypeAlias = Node | SqlGroup


def negate(part: SqlPart) -> SqlPart:
    if isinstance(part, SqlGroup):
        return SqlGroup(part.kind, part.children, not part.is_negated)
    return SqlGroup(And, [part], is_negated=True)


def build_tree(root: SqlPart) -> Node:
    """Build the tree of a condition as `tree.all_of`, `any_of` and `negation` would from its comparisons up.

    They copy all children at each parenthesis and NOT. Here a negation is passed down to the comparisons, and groups
    whose children become those of one node are gathered once: `a OR (b OR NOT (c AND d))` is one OR.
    """
    if isinstance(root, Node):
        return root
    done: list[Node] = []  # children of the nodes that are open, one node's after the other's
    kinds: list[Kind | None] = [None]  # of these nodes
    # The groups that are open: their other children, whether these are negated, and whether equalities among them are
    # merged by an OR; where those that are done begin, and whether this group merges them, and whether it ends a node.
    opened: list[tuple[Iterator[SqlPart], bool, bool, int, bool, bool]] = []
    group: SqlGroup | None = root
    is_negated = is_merged = False
    while group is not None:
        is_negated ^= group.is_negated
        kind = (Or if group.kind is And else And) if is_negated else group.kind
        begins = kind is not kinds[-1]
        if begins:
            kinds.append(kind)
            is_merged = False
        merges = group.kind is Or and not is_merged
        opened.append((iter(group.children), is_negated, is_merged or merges, len(done), merges, begins))
        group = None
        while group is None and opened:
            children, is_negated, is_merged, start, merges, ends = opened[-1]
            for child in children:
                if isinstance(child, SqlGroup):
                    group = child
                    break
                node = negation(child) if is_negated else child
                if isinstance(node, Connective) and type(node) is kinds[-1]:
                    done.extend(node.children)
                else:
                    done.append(node)
            else:
                opened.pop()
                if merges:
                    done[start:] = merge_equalities(done[start:], is_negated)
                ended = kinds.pop() if ends else None
                if ended is not None and len(done) > start + 1:
                    done[start:] = [ended(tuple(done[start:]))]
    return done[0]
