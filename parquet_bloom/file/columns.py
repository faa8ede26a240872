"""Which leaf of a file's schema a name means, and of what type its values are."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UnknownColumnError
from ..hashing import physical
from ..metadata.footer import Leaf


def find_leaves(leaves: Sequence[Leaf], name: str, ignore_case: bool = False) -> list[Leaf]:
    """The leaves that a name can mean: one by its whole dotted path, else all below a group of that path."""

    def folded(text: str) -> str:
        return text.lower() if ignore_case else text

    wanted = folded(name)
    exact = [leaf for leaf in leaves if folded(leaf.name) == wanted]
    return exact or [leaf for leaf in leaves if folded(leaf.name).startswith(wanted + ".")]


def find_leaf(leaves: Sequence[Leaf], name: str, path: str | None = None) -> Leaf:
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


def type_of(leaf: Leaf) -> physical.ColumnType:
    """The type of a leaf's values."""
    return physical.from_parquet(leaf.physical, leaf.length, leaf.converted, leaf.logical, leaf.scale, leaf.precision)
