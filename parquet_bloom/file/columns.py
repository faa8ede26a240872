"""Which leaf of a file's schema a name means, and of what type its values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ..errors import UnknownColumnError
from ..hashing import column_type as physical
from ..metadata.footer import Leaf


class Named(Protocol):
    """A leaf of a schema of whichever format; `name` is its dotted `path`."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> tuple[str, ...]: ...


AnyLeaf = TypeVar("AnyLeaf", bound=Named)


def find_leaves(leaves: Sequence[AnyLeaf], name: str, ignore_case: bool = False) -> list[AnyLeaf]:
    """The leaves that a name can mean: one by its whole dotted path, else all below a group of that path."""

    def folded(text: str) -> str:
        return text.lower() if ignore_case else text

    wanted = folded(name)
    exact = [leaf for leaf in leaves if folded(leaf.name) == wanted]
    return exact or [leaf for leaf in leaves if folded(leaf.name).startswith(wanted + ".")]


def spellings(leaves: Sequence[Named], name: str) -> list[str]:
    """How a schema spells a name whatever its case, each spelling once; none if it has no such column."""
    return list(dict.fromkeys(leaf.name[: len(name)] for leaf in find_leaves(leaves, name, ignore_case=True)))


def find_leaf(leaves: Sequence[AnyLeaf], name: str, path: str | None = None) -> AnyLeaf:
    """The one leaf that a name means; a list or struct with a single leaf may be called by its own name.

    Raises
    ------
    UnknownColumnError
        There is no such column, or several: a group's leaves, or two spellings of one dotted path.
    """
    found = find_leaves(leaves, name)
    if len(found) == 1:
        return found[0]
    if not found:
        known = ", ".join(leaf.name for leaf in leaves[:8]) + (", ..." if len(leaves) > 8 else "")
        raise UnknownColumnError(f"no such column; there are: {known}", path=path, column=name)
    choices = ", ".join(".".join(leaf.path) for leaf in found[:8])
    raise UnknownColumnError(f"the name stands for several columns: {choices}", path=path, column=name)


def holds_elements(leaf: Leaf, name: str, ignore_case: bool = False) -> bool:
    """Whether a leaf holds the elements of a list of that name, each a single value, whatever its writer called them.

    Forms of lists are those of the format's LogicalTypes.md, the old ones included: a repeated leaf by itself; a group
    marked as a list around a repeated leaf, or around a repeated group of a single leaf. The leaf's own name does too.

    Parameters
    ----------
    leaf, name, ignore_case : a leaf that `find_leaves` finds for a name, its own or that of a group around it.
    """
    repeated = [depth for depth, node in enumerate(leaf.nodes) if node.get(_REPETITION) == _REPEATED]
    if len(repeated) != 1:
        return False
    names = [".".join(leaf.path[: depth + 1]) for depth in range(len(leaf.path))]
    if ignore_case:
        name, names = name.lower(), [each.lower() for each in names]
    if name not in names:
        return False
    named = names.index(name)
    below = len(leaf.path) - 1 - named
    if below == 0:
        return True
    node, between = leaf.nodes[named], leaf.path[repeated[0]]
    logical = node.get(_LOGICAL)
    marked = node.get(_CONVERTED) == _LIST or (isinstance(logical, dict) and _LIST in logical)
    if not marked or repeated[0] != named + 1:
        return False
    # Under these names a repeated group of one leaf is a struct, which is the element.
    return below == 1 or (below == 2 and between not in ("array", leaf.path[named] + "_tuple"))


# Fields of a schema's element, and two of their values.
_REPETITION, _CONVERTED, _LOGICAL = 3, 6, 10
_REPEATED, _LIST = 2, 3


def type_of(leaf: Leaf) -> physical.ColumnType:
    """The type of a leaf's values."""
    return physical.from_parquet(leaf.physical, leaf.length, leaf.converted, leaf.logical, leaf.scale, leaf.precision)
