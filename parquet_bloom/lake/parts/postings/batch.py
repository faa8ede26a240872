"""Collect the matches of one lookup's hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..part import PartMatches

_NO_QUERIES = np.empty(0, np.intp)
_NO_UNITS = np.empty(0, np.uint32)


class Batch:
    """The sorted hashes of one lookup, and their matches so far."""

    def __init__(self, order: NDArray[np.intp], hashes: NDArray[np.uint64]):
        self.hashes = hashes
        self._order = order
        self._unknown: dict[int, str] = {}
        self._queries: list[NDArray[np.intp]] = []
        self._units: list[NDArray[np.uint32]] = []
        self._lists: list[tuple[int, int, int]] = []

    def mark_unknown(self, first: int, end: int, reason: str) -> None:
        """Mark a range of hashes as unknown."""
        self.mark_all_unknown(range(first, end), reason)

    def mark_all_unknown(self, queries: range | list[int], reason: str) -> None:
        for query in queries:
            self._unknown[int(self._order[query])] = reason

    def add_matches(
        self, first: int, queries: NDArray[np.intp], units: NDArray[np.uint32], *lists: NDArray[np.int64]
    ) -> None:
        """Add matches of `core.index.postings.find`, which numbers hashes from `first`."""
        self._queries.append(queries + first)
        self._units.append(units)
        for query, offset, length in zip(*(column.tolist() for column in lists), strict=True):
            self._lists.append((query + first, offset, length))

    def lists(self) -> list[tuple[int, int, int]]:
        """Return (hash, offset, length) of the lists of units to read."""
        return self._lists

    def add_list(self, queries: list[int], units: NDArray[np.uint32]) -> None:
        for query in queries:
            self._queries.append(np.full(len(units), query, np.intp))
            self._units.append(units)

    def make_matches(self, requests: int, bytes_read: int) -> PartMatches:
        if not self._queries:
            return PartMatches(_NO_QUERIES, _NO_UNITS, self._unknown, requests, bytes_read)
        queries, units = self._order[np.concatenate(self._queries)], np.concatenate(self._units)
        by_query = np.argsort(queries, kind="stable")
        return PartMatches(queries[by_query], units[by_query], self._unknown, requests, bytes_read)
