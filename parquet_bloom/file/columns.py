"""Resolution of column names to leaves of a file's schema, and the types of leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ..errors import UnknownColumnError
from ..hashing.column_type import ColumnType, from_parquet
from ..metadata.footer import Leaf


class Named(Protocol):
    """A leaf of a schema of any format; `name` is its dotted `path`."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> tuple[str, ...]: ...


AnyLeaf = TypeVar("AnyLeaf", bound=Named)


def find_leaves(leaves: Sequence[AnyLeaf], name: str, ignore_case: bool = False) -> list[AnyLeaf]:
    """Return the leaves of a given dotted path; if there are none, all leaves below a group of that path."""

    def folded(text: str) -> str:
        return text.lower() if ignore_case else text

    path = folded(name)
    exact = [leaf for leaf in leaves if folded(leaf.name) == path]
    return exact or [leaf for leaf in leaves if folded(leaf.name).startswith(path + ".")]


def spellings(leaves: Sequence[Named], name: str) -> list[str]:
    """Return the distinct spellings of a case-insensitive name in a schema; none if it has no such column."""
    return list(dict.fromkeys(leaf.name[: len(name)] for leaf in find_leaves(leaves, name, ignore_case=True)))


def find_leaf(leaves: Sequence[AnyLeaf], name: str, path: str | None = None) -> AnyLeaf:
    """Return the one leaf of a given name; a list or struct with a single leaf may be given by its own name.

    Raises
    ------
    UnknownColumnError
        There is no such column, or more than one: a group's leaves, or leaves of the same dotted path.
    """
    matches = find_leaves(leaves, name)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        names = ", ".join(leaf.name for leaf in leaves[:8]) + (", ..." if len(leaves) > 8 else "")
        raise UnknownColumnError(f"no such column; there are: {names}", path=path, column=name)
    choices = ", ".join(".".join(leaf.path) for leaf in matches[:8])
    raise UnknownColumnError(f"several columns match the name: {choices}", path=path, column=name)


def holds_elements(leaf: Leaf, name: str, ignore_case: bool = False) -> bool:
    """Return whether a leaf holds the elements of a list of a given name, each a single value.

    Recognizes the list layouts of the format's LogicalTypes.md, old ones included: a repeated leaf by itself; a group
    annotated as a list around a repeated leaf, or around a repeated group of a single leaf. The name of the elements
    does not matter. The name may also be that of the leaf itself.

    Parameters
    ----------
    leaf, name, ignore_case : a leaf that `find_leaves` returns for the name of the leaf or of a group around it.
    """
    repeated = [depth for depth, node in enumerate(leaf.nodes) if node.get(_REPETITION) == _REPEATED]
    if len(repeated) != 1:
        return False
    names = [".".join(leaf.path[: depth + 1]) for depth in range(len(leaf.path))]
    if ignore_case:
        name, names = name.lower(), [one.lower() for one in names]
    if name not in names:
        return False
    depth = names.index(name)
    below = len(leaf.path) - 1 - depth
    if below == 0:
        return True
    node, repeated_name = leaf.nodes[depth], leaf.path[repeated[0]]
    logical = node.get(_LOGICAL)
    is_list = node.get(_CONVERTED) == _LIST or (isinstance(logical, dict) and _LIST in logical)
    if not is_list or repeated[0] != depth + 1:
        return False
    # A repeated group of one leaf that has one of these names is a struct, which is the element.
    return below == 1 or (below == 2 and repeated_name not in ("array", leaf.path[depth] + "_tuple"))


# Fields of a schema's element, and two of their values.
_REPETITION, _CONVERTED, _LOGICAL = 3, 6, 10
_REPEATED, _LIST = 2, 3


def type_of(leaf: Leaf) -> ColumnType:
    """Return the type of a leaf's values."""
    return from_parquet(leaf.physical, leaf.length, leaf.converted, leaf.logical, leaf.scale, leaf.precision)
