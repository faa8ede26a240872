"""Resolution of column names in a file."""

from __future__ import annotations

from collections.abc import Iterable

from ...file.columns import find_leaves
from ...file.reader import BloomFile


def match_columns(file: BloomFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """Return {requested name: the file's spelling} for the requested columns that a file has."""
    matches = {}
    for name in names:
        leaves = find_leaves(file.leaves, name, ignore_case)
        if leaves:
            matches[name] = leaves[0].name if len(leaves) == 1 else name  # if ambiguous, the caller's lookup reports it
    return matches
