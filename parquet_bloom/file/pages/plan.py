"""Which pages of a column chunk hold some rows, and what was read of them."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...metadata.footer import Leaf
from ...metadata.footer_rewrite import ColumnPages
from ...metadata.page_index import CachedPageIndex
from .rows import Page, PageRows, Unsupported, decompress_page

RowPositions = NDArray[np.int64]


class FlatColumn(NamedTuple):
    """A column whose rows are one value each, directly below the root, and of a name of its own.

    Attributes
    ----------
    leaf, arrow : the column, and its Arrow type.
    same : whether its values are those of the Arrow type, byte for byte.
    """

    leaf: Leaf
    arrow: pa.DataType
    same: bool


class PagePlan(NamedTuple):
    """What is read of a column chunk.

    Attributes
    ----------
    column, cached : the column, and its page index.
    pages : numbers of the data pages wanted, ascending.
    sizes, counts : their bytes and their rows.
    ends : how many of the rows wanted are in these pages up to each of them, itself included.
    """

    column: FlatColumn
    cached: CachedPageIndex
    pages: list[int]
    sizes: list[int]
    counts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, column: FlatColumn, known: CachedPageIndex, rows: RowPositions) -> PagePlan:
        """Of rows of the row group, ascending, at least one."""
        index = known.index
        first, last = index.find_pages(rows[[0, -1]]).tolist()
        if first == last:
            return cls(column, known, [first], [int(index.sizes[first])], [int(index.counts[first])], [len(rows)])
        counts = np.diff(np.searchsorted(rows, index.rows[first : last + 2]))
        found = np.flatnonzero(counts)
        pages = found + first
        ends = np.cumsum(counts[found]).tolist()
        return cls(column, known, pages.tolist(), index.sizes[pages].tolist(), index.counts[pages].tolist(), ends)

    @property
    def leaf(self) -> Leaf:
        return self.column.leaf

    @property
    def dictionary(self) -> tuple[int, int]:
        """Range of the file that is the dictionary page; of length 0 if there is none."""
        return self.cached.start, int(self.cached.index.offsets[0]) - self.cached.start

    @property
    def num_rows(self) -> int:
        """Rows of the pages."""
        return sum(self.counts)

    def spans(self) -> list[tuple[int, int]]:
        """Ranges of the file that are the pages, as (offset, length); those that follow one another are one range."""
        offsets, first, last = self.cached.index.offsets, self.pages[0], self.pages[-1]
        if last - first + 1 == len(self.pages):
            return [(int(offsets[first]), sum(self.sizes))]
        spans = []
        for run in np.split(self.pages, np.flatnonzero(np.diff(self.pages) > 1) + 1):
            spans.append((int(offsets[run[0]]), int(self.cached.index.sizes[run].sum())))
        return spans

    def split(self, data: memoryview) -> list[Page]:
        """The pages, of all their bytes; MalformedFooterError if they are none."""
        ends = [*accumulate(self.sizes)]
        return [Page.of(data[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]

    def unread(self) -> NDArray[np.int64]:
        """The pages in front of the last one wanted that are neither wanted themselves nor confirmed."""
        if self.cached.confirmed >= self.pages[-1]:
            return np.arange(0)
        front = np.arange(self.cached.confirmed, self.pages[-1])
        return np.setdiff1d(front, self.pages, assume_unique=True)

    def positions(self, rows: RowPositions) -> RowPositions:
        """Where rows of the row group, those that the plan was made for, stand among those of the pages wanted."""
        before = np.cumsum(self.counts) - self.counts
        return rows + np.repeat(before - self.cached.index.rows[self.pages], np.diff(self.ends, prepend=0))

    def by_page(self, rows: RowPositions) -> list[RowPositions]:
        """The same rows, page by page, counted from the page's first one."""
        firsts = self.cached.index.rows[self.pages].tolist()
        begins = [0, *self.ends[:-1]]
        return [rows[begin:end] - first for begin, end, first in zip(begins, self.ends, firsts, strict=True)]


class FetchedPages(NamedTuple):
    """What was read for a plan: the dictionary page, None where the pages make no use of it, and the data pages."""

    plan: PagePlan
    dictionary: Page | None
    pages: list[Page]

    def rows_of(self, rows: RowPositions) -> tuple[Leaf, int | None, Page | None, list[PageRows]]:
        """The arguments of `plain_rows`."""
        plan = self.plan
        parts = list(map(PageRows, self.pages, plan.by_page(rows)))
        return plan.leaf, plan.cached.codec, self.dictionary, parts

    def whole(self) -> ColumnPages:
        """The pages, decompressed where that takes less time here than in pyarrow."""
        leaf, codec = self.plan.leaf, self.plan.cached.codec
        dictionary = b"" if self.dictionary is None else self.dictionary.data
        try:
            if self.dictionary is not None:
                dictionary = decompress_page(self.dictionary, codec)
            pages = b"".join([decompress_page(page, codec) for page in self.pages])
        except Unsupported:
            dictionary = b"" if self.dictionary is None else self.dictionary.data
            return ColumnPages(leaf, dictionary, b"".join([page.data for page in self.pages]))
        return ColumnPages(leaf, dictionary, pages, plain=True)
