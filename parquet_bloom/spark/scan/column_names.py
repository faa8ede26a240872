"""Columns as a file spells them itself."""

from __future__ import annotations

from collections.abc import Iterable

from ...file.columns import find_leaves
from ...file.reader import BloomFile


def names_in(file: BloomFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """The columns that a file has, by the names asked for, as it spells them itself."""
    found = {}
    for name in names:
        leaves = find_leaves(file.leaves, name, ignore_case)
        if leaves:
            found[name] = leaves[0].name if len(leaves) == 1 else name  # of several, whoever is asked says which
    return found
