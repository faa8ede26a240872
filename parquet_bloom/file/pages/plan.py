"""Plans of the pages to read for some rows of a column chunk, and the pages fetched for them."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import UnusualPageError
from ...metadata.footer import Leaf
from ...metadata.footer_rewrite import ColumnPages
from ...metadata.page_index import CachedPageIndex
from .rows import Page, PageRows, decompress_page

RowPositions = NDArray[np.int64]


class FlatColumn(NamedTuple):
    """A column with one value per row, directly below the root, whose name is unique.

    Attributes
    ----------
    leaf, arrow : the column, and its Arrow type.
    layout : the Arrow type that has its stored values, byte for byte, see `plain.find_layout`; None if there is none.
    """

    leaf: Leaf
    arrow: pa.DataType
    layout: pa.DataType | None

    @property
    def same(self) -> bool:
        """Whether its stored values are, byte for byte, those of its Arrow type."""
        return self.layout is self.arrow


class ListColumn(NamedTuple):
    """A column of lists of single values, directly below the root, whose name is unique.

    Attributes
    ----------
    leaf, arrow : the elements, and the Arrow type of the lists.
    layout : the Arrow type that has the elements' stored values, see `plain.find_layout`.
    """

    leaf: Leaf
    arrow: pa.DataType
    layout: pa.DataType


class PagePlan(NamedTuple):
    """The pages to read of a column chunk.

    Attributes
    ----------
    column, cached : the column, and its page index.
    pages : numbers of the required data pages, ascending.
    sizes, counts : their bytes and their rows.
    ends : number of requested rows in these pages, up to and including each of them.
    """

    column: FlatColumn
    cached: CachedPageIndex
    pages: list[int]
    sizes: list[int]
    counts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, column: FlatColumn, cached: CachedPageIndex, rows: RowPositions) -> PagePlan:
        """Plan for rows of the row group: ascending, at least one."""
        index = cached.index
        first, last = index.find_pages(rows[[0, -1]]).tolist()
        if first == last:
            return cls(column, cached, [first], [int(index.sizes[first])], [int(index.counts[first])], [len(rows)])
        counts = np.diff(np.searchsorted(rows, index.rows[first : last + 2]))
        required = np.flatnonzero(counts)
        pages = required + first
        ends = np.cumsum(counts[required]).tolist()
        return cls(column, cached, pages.tolist(), index.sizes[pages].tolist(), index.counts[pages].tolist(), ends)

    @property
    def leaf(self) -> Leaf:
        return self.column.leaf

    @property
    def dictionary(self) -> tuple[int, int]:
        """Range of the dictionary page, as (offset, length); of length 0 if there is none."""
        return self.cached.start, int(self.cached.index.offsets[0]) - self.cached.start

    @property
    def num_rows(self) -> int:
        """Rows of the pages."""
        return sum(self.counts)

    def spans(self) -> list[tuple[int, int]]:
        """Return the ranges of the pages, as (offset, length); adjacent pages are one range."""
        offsets, first, last = self.cached.index.offsets, self.pages[0], self.pages[-1]
        if last - first + 1 == len(self.pages):
            return [(int(offsets[first]), sum(self.sizes))]
        spans = []
        for run in np.split(self.pages, np.flatnonzero(np.diff(self.pages) > 1) + 1):
            spans.append((int(offsets[run[0]]), int(self.cached.index.sizes[run].sum())))
        return spans

    def split(self, data: memoryview) -> list[Page]:
        """Split the bytes of all pages; MalformedFooterError if they are not pages."""
        ends = [*accumulate(self.sizes)]
        compressed = self.cached.denies_compression
        return [Page.of(data[begin:end], compressed) for begin, end in zip([0, *ends], ends, strict=False)]

    def unread(self) -> NDArray[np.int64]:
        """Return the pages before the last required one that are neither required nor confirmed."""
        if self.cached.confirmed >= self.pages[-1]:
            return np.arange(0)
        front = np.arange(self.cached.confirmed, self.pages[-1])
        return np.setdiff1d(front, self.pages, assume_unique=True)

    def positions(self, rows: RowPositions) -> RowPositions:
        """Return the positions of the planned rows, given by row of the row group, within the required pages."""
        before = np.cumsum(self.counts) - self.counts
        return rows + np.repeat(before - self.cached.index.rows[self.pages], np.diff(self.ends, prepend=0))

    def by_page(self, rows: RowPositions) -> list[RowPositions]:
        """Split the planned rows by page, and count them from the page's first row."""
        firsts = self.cached.index.rows[self.pages].tolist()
        begins = [0, *self.ends[:-1]]
        return [rows[begin:end] - first for begin, end, first in zip(begins, self.ends, firsts, strict=True)]


class FetchedPages(NamedTuple):
    """The pages read for a plan: data pages, and the dictionary page, None if these do not use it."""

    plan: PagePlan
    dictionary: Page | None
    pages: list[Page]

    def row_arguments(self, rows: RowPositions) -> tuple[Leaf, int | None, Page | None, list[PageRows]]:
        """Return the arguments of `extract_rows`."""
        plan = self.plan
        parts = list(map(PageRows, self.pages, plan.by_page(rows)))
        return plan.leaf, plan.cached.codec, self.dictionary, parts

    def to_column_pages(self) -> ColumnPages:
        """Return the pages, decompressed where that is faster here than in pyarrow."""
        leaf, codec = self.plan.leaf, self.plan.cached.codec
        dictionary = b"" if self.dictionary is None else self.dictionary.data
        try:
            if self.dictionary is not None:
                dictionary = decompress_page(self.dictionary, codec)
            pages = b"".join([decompress_page(page, codec) for page in self.pages])
        except UnusualPageError:
            dictionary = b"" if self.dictionary is None else self.dictionary.data
            return ColumnPages(leaf, dictionary, b"".join([page.data for page in self.pages]))
        return ColumnPages(leaf, dictionary, pages, plain=True)
