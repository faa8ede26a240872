"""Fetch the pages of column chunks before they are read, all at once, where each read is a request.

Which pages these are is said by the page indexes. What was not foreseen is read nevertheless: it costs a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metadata.footer import Leaf
from ...metadata.page_index import PAGE_HEADER_BYTES, CachedPageIndex, read_page_header
from ..reader import BloomFile
from . import lookup as page_lookup
from .chunk_batch import pack_pages
from .fetched_ranges import FetchedRanges
from .lookup import PageLookup

SMALL_DICTIONARY = 64 * 1024
"""Dictionary pages up to this size are fetched with the data pages, larger ones only if these use them."""

_MOST_HEADER_BYTES = 1 << 16  # of a page that is fetched whole
_MOST_PACKED = (1 << 31) - 1  # bytes of a chunk whose pages are known by their index


class _PagePlan(NamedTuple):
    """The pages to read of a column chunk.

    Attributes
    ----------
    leaf, lookup, cached : the column, what knows its pages, and its page index.
    pages : numbers of the required data pages, ascending.
    unread : numbers of the pages before the last required one whose headers have to be read, too.
    """

    leaf: Leaf
    lookup: PageLookup
    cached: CachedPageIndex
    pages: NDArray[np.int64]
    unread: NDArray[np.int64]

    @classmethod
    def of(cls, leaf: Leaf, lookup: PageLookup, cached: CachedPageIndex, ranges: NDArray[np.int64]) -> _PagePlan:
        """Plan for ranges [start, stop) of rows, of shape (n, 2), at least one."""
        index = cached.index
        change = np.zeros(index.num_pages + 1, np.int64)
        np.add.at(change, index.find_pages(ranges[:, 0]), 1)
        np.add.at(change, index.find_pages(ranges[:, 1] - 1) + 1, -1)
        pages = np.flatnonzero(np.cumsum(change[:-1]))
        unread = np.setdiff1d(np.arange(cached.confirmed, pages[-1]), pages, assume_unique=True)
        return cls(leaf, lookup, cached, pages, unread)

    @property
    def dictionary(self) -> tuple[int, int]:
        """Range of the dictionary page, as (offset, length); of length 0 if there is none."""
        return self.cached.start, int(self.cached.index.offsets[0]) - self.cached.start

    def spans(self) -> list[tuple[int, int]]:
        """Return the ranges of the pages, as (offset, length); adjacent pages are one range."""
        index = self.cached.index
        runs = np.split(self.pages, np.flatnonzero(np.diff(self.pages) > 1) + 1)
        return [(int(index.offsets[run[0]]), int(index.sizes[run].sum())) for run in runs]

    def early_spans(self) -> list[tuple[int, int]]:
        """Return what is fetched at first: the pages, headers of others, and a dictionary that is small."""
        is_small = 0 < self.dictionary[1] <= SMALL_DICTIONARY
        return [*self.spans(), *([self.dictionary] if is_small else []), *self.cached.header_spans(self.unread)]

    def is_worthwhile(self) -> bool:
        total = self.dictionary[1] + self.cached.index.num_bytes
        spans = [self.dictionary, *self.spans(), *self.cached.header_spans(self.unread)]
        return self.lookup.price(spans) <= page_lookup.WORTHWHILE * total

    def confirm(self, ranges: FetchedRanges) -> bool:
        """Return whether the headers of all pages up to the last required one agree with the page index.

        An index that gives these too many or too few rows would assign wrong rows to the required pages.
        """
        cached = self.cached
        for pages, most in ((self.pages, _MOST_HEADER_BYTES), (self.unread, PAGE_HEADER_BYTES)):
            heads = b"".join([ranges.view(*span) for span in cached.header_spans(pages, most)])
            if len(pages) and not cached.headers_agree(pages, memoryview(heads), most):
                return False
        cached.confirmed = max(cached.confirmed, int(self.pages[-1]) + 1)
        return True

    def late_spans(self, ranges: FetchedRanges) -> list[tuple[int, int]]:
        """Return the range of a large dictionary that the pages use: writers abandon dictionaries that become large."""
        if self.dictionary[1] <= SMALL_DICTIONARY:
            return []
        index = self.cached.index
        heads = [ranges.view(int(index.offsets[page]), int(index.sizes[page])) for page in self.pages.tolist()]
        return [self.dictionary] if any(read_page_header(head).needs_dictionary for head in heads) else []


class PageFetcher:
    """Fetches what is read of row groups of a file that is not local.

    Parameters
    ----------
    file : the file.
    row_groups : their numbers.

    Attributes
    ----------
    ranges : reads what was fetched, and all else.
    known : {offset of a chunk: its pages, see `pack_pages`} of the chunks whose pages were fetched.
    """

    def __init__(self, file: BloomFile, row_groups: Sequence[int]):
        self._row_groups = row_groups
        self._lookups = {row_group: PageLookup(file, row_group) for row_group in row_groups}
        self.ranges = FetchedRanges(file.source)
        self.known: dict[int, bytes] = {}

    def fetch(self, leaves: Sequence[Leaf], selections: Sequence[NDArray[np.int64]]) -> set[int]:
        """Fetch pages that have rows of some columns, all at once; what was fetched before is dropped.

        Parameters
        ----------
        selections : of each row group ranges [start, stop) of rows, of shape (n, 2).

        Returns
        -------
        The indexes of the leaves of which pages are fetched in each row group with rows.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        self.ranges.forget()
        self.known.clear()
        plans, unplanned = self._plan(leaves, selections)
        self._fetch([span for plan in plans for span in plan.early_spans()])
        confirmed = []
        for plan in plans:
            if plan.confirm(self.ranges):
                confirmed.append(plan)
            else:
                plan.lookup.give_up(plan.leaf.index)
                unplanned.add(plan.leaf.index)
        for plan in confirmed:
            index = plan.cached.index
            self.known[plan.cached.start] = pack_pages(plan.dictionary[1], index.sizes, index.counts)
        self._fetch([span for plan in confirmed for span in plan.late_spans(self.ranges)])
        return {leaf.index for leaf in leaves} - unplanned

    def _plan(
        self, leaves: Sequence[Leaf], selections: Sequence[NDArray[np.int64]]
    ) -> tuple[list[_PagePlan], set[int]]:
        """Return the plans of chunks whose pages are fetched; and the indexes of the leaves of the others."""
        plans, unplanned = [], set()
        for row_group, ranges in zip(self._row_groups, selections, strict=True):
            if not len(ranges):
                continue
            lookup = self._lookups[row_group]
            indexes = lookup.find(leaves)
            for leaf in leaves:
                cached, plan = indexes.get(leaf.index), None
                if cached is not None and cached.index.num_bytes <= _MOST_PACKED:
                    plan = _PagePlan.of(leaf, lookup, cached, ranges)
                if plan is not None and plan.is_worthwhile():
                    plans.append(plan)
                else:
                    unplanned.add(leaf.index)
        return plans, unplanned

    def _fetch(self, spans: Sequence[tuple[int, int]]) -> None:
        if spans:
            offsets, lengths = np.array(spans, np.int64).T
            self.ranges.fetch(offsets, lengths)
