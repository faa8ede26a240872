"""Page indexes of a row group's column chunks, read and confirmed once per file.

An index that gives some pages too many rows and others too few assigns wrong rows to every page after them, and nothing
in it shows that. So it is trusted only as far as the headers of the pages, from the first one on, confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...errors import MalformedFooterError, ParquetBloomError
from ...metadata.footer import Leaf
from ...metadata.page_index import (
    DELTA_BYTE_ARRAY,
    MAX_INDEX_BYTES,
    MAX_PAGES,
    PAGE_HEADER_BYTES,
    CachedPageIndex,
    OffsetIndex,
    PageHeader,
    PageTable,
    read_column_index,
    read_offset_index,
    read_page_header,
)
from ...metadata.writer_rules import Doubt
from ...storage.coalesce import coalesce
from ...util.logs import logger
from ..reader import BloomFile

SMALL_BYTES = 64 * 1024
"""A smaller column chunk is read whole: that costs less than selecting pages."""

WORTHWHILE = 0.5
"""A column chunk is read whole if the required pages, with the dictionary, have a larger share of its bytes."""

REQUEST_BYTES = 1 << 20
"""The price of a request to a remote file, in bytes: object stores take 10 to 30 ms for one."""

_OBJECT_BYTES = 100  # memory of a bound as a Python object

_FREE_PAGES = 16
_LEAST_PAGE_BYTES = 16 * 1024  # of more pages than that, on the average: smaller ones take longer to find than to read

log = logger("parquet_bloom.file")


class PageLookup:
    """Finds the pages of one row group's column chunks. Page indexes are cached with the file's footer.

    Parameters
    ----------
    file : the file.
    row_group : number of the row group.
    """

    def __init__(self, file: BloomFile, row_group: int):
        self._file = file
        self._row_group = row_group
        self._num_rows = file.footer.num_rows_of(row_group)
        self._is_local = file.source.path is not None  # so that many small ranges cost little

    def find(self, leaves: Iterable[Leaf], bounds: bool = False) -> dict[int, CachedPageIndex]:
        """Return the page indexes of those leaves that have a usable one, by leaf index; this does not confirm them.

        Parameters
        ----------
        bounds : whether to read bounds of the pages' values too. They are None where they are unavailable.
        """
        leaves = list(leaves)
        cached, row_group = self._file.cached.pages, self._row_group
        new = [leaf for leaf in leaves if self._needs_read(cached.get((row_group, leaf.index), leaf), bounds)]
        if new:
            sizes = {leaf: self._chunk_bytes(leaf) for leaf in new}
            new = [leaf for leaf, size in sizes.items() if size]
            # Reading the index and a page may cost more than reading the chunks.
            if new and self.price([(0, sum(sizes.values()))]) * WORTHWHILE >= 2 * self.price([(0, 1)]):
                self._read(new, bounds)
        entries = ((leaf.index, cached.get((row_group, leaf.index))) for leaf in leaves)
        return {leaf: pages for leaf, pages in entries if pages is not None}

    @staticmethod
    def _needs_read(cached: CachedPageIndex | Leaf | None, bounds: bool) -> bool:
        """Return whether an index has to be read, given the chunk's cache entry, or the leaf if there is none."""
        return isinstance(cached, Leaf) or (bounds and cached is not None and not cached.bounds_read)

    def _read(self, leaves: list[Leaf], bounds: bool) -> None:
        """Read the indexes of some chunks, all at once."""
        file, cached = self._file, self._file.cached.pages
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for kind in ("offset_index", "column_index") if bounds else ("offset_index",):
            for leaf in leaves:
                is_new = kind == "column_index" or (self._row_group, leaf.index) not in cached
                if is_new and (span := self._index_span(leaf, kind)):
                    spans[kind, leaf.index] = span
        data = dict(zip(spans, file.source.read_ranges(spans.values()), strict=True))
        for (kind, number), encoded in data.items():
            leaf = file.leaves[number]
            if kind == "offset_index":
                self._take_offsets(leaf, encoded)
            else:
                self._take_bounds(leaf, encoded)
        for leaf in leaves:
            if (pages := cached.get((self._row_group, leaf.index))) is not None:
                pages.bounds_read |= bounds
        file.remember()

    def confirm(self, indexes: dict[int, CachedPageIndex]) -> dict[int, CachedPageIndex]:
        """Return those of the page indexes, by leaf, that the headers of all their pages confirm.

        If the file is remote, indexes whose confirmation would take too many requests are left out.
        """
        new = {}
        for leaf, cached in indexes.items():
            if cached.is_confirmed:
                continue
            pages = np.arange(cached.confirmed, cached.index.num_pages)
            price = 0 if self._is_local else self.price(cached.header_spans(pages))
            if price <= WORTHWHILE * cached.index.num_bytes:
                new[leaf] = pages
        data = self.gather([indexes[leaf].header_spans(pages) for leaf, pages in new.items()])
        for (leaf, pages), headers in zip(new.items(), data, strict=True):
            if indexes[leaf].headers_agree(pages, headers):
                indexes[leaf].confirmed = indexes[leaf].index.num_pages
            else:
                self.give_up(leaf)
        return {leaf: cached for leaf, cached in indexes.items() if cached.is_confirmed}

    def gather(self, parts: Sequence[Sequence[tuple[int, int]]]) -> list[memoryview]:
        """Read lists of ranges (offset, length) all at once; return the concatenated bytes of each list."""
        if not any(parts):
            return [memoryview(b"") for _ in parts]
        offsets, lengths = np.array([span for part in parts for span in part], np.int64).T
        data = self._file.source.gather(offsets, lengths).data
        ends = list(accumulate(sum([length for _, length in part]) for part in parts))
        return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def give_up(self, leaf: int, problem: str = "the headers of the pages say something else") -> None:
        """Stop using the page index of a column chunk, given by the leaf's index, and log why."""
        self._file.cached.pages[self._row_group, leaf] = None
        error = MalformedFooterError(
            f"the page index is not used: {problem}",
            path=self._file.path,
            row_group=self._row_group,
            column=self._file.leaves[leaf].name,
        )
        log.warning("%s", error)

    def price(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the cost of reading ranges (offset, length), in bytes; requests have a price in bytes, too."""
        if self._is_local:
            return sum([length for _, length in spans])
        offsets, lengths = np.array(list(spans), np.int64).reshape(-1, 2).T
        requests = coalesce(offsets, lengths)
        return sum(request.length for request in requests) + REQUEST_BYTES * len(requests)

    # ---------------------------------------------------------------------------------------------------- one chunk

    def chunk_span(self, leaf: Leaf) -> tuple[int, int] | None:
        """Return (offset, length) of a column chunk whose pages may be read one by one; None where they may not."""
        file = self._file
        if leaf.repeated or file.footer.encrypted or self._needs_pages_before(leaf):
            return None
        try:
            record = file.record(self._row_group, leaf)
        except ParquetBloomError:  # the footer contradicts itself: reading the chunk whole reports it
            return None
        if record["external"] or record["encrypted"] or record["num_values"] != self._num_rows:
            return None
        start, length = _find_start(record), int(record["compressed_size"])
        return (start, length) if start > 0 < length <= file.footer.start - start else None

    def _needs_pages_before(self, leaf: Leaf) -> bool:
        """Return whether pages of a chunk cannot be read without those before them, because of their writer."""
        footer = self._file.footer
        if not footer.doubts_of(leaf) & Doubt.SINGLE_PAGES:
            return False
        try:
            return DELTA_BYTE_ARRAY in footer.encodings(self._file.record(self._row_group, leaf))
        except ParquetBloomError:
            return True

    def _chunk_bytes(self, leaf: Leaf) -> int:
        """Return the size of a column chunk with a page index that is worth reading; 0 for others."""
        span = self.chunk_span(leaf)
        if span is None or span[1] < SMALL_BYTES or self._file.record(self._row_group, leaf)["offset_index_offset"] < 0:
            return 0
        return span[1]

    def _index_span(self, leaf: Leaf, kind: str) -> tuple[int, int] | None:
        """Return (offset, length) of an index of a chunk; None if there is no usable one."""
        record = self._file.record(self._row_group, leaf)
        offset, length = int(record[f"{kind}_offset"]), int(record[f"{kind}_length"])
        if offset < 0 or length > MAX_INDEX_BYTES:
            return None
        if not (offset > 0 and 0 < length <= self._file.footer.start - offset):
            self.give_up(leaf.index, f"it is said to be {length} bytes at offset {offset}")
            return None
        return offset, length

    def _take_offsets(self, leaf: Leaf, encoded: bytes) -> None:
        if (self._row_group, leaf.index) in self._file.cached.pages:  # given up for its other index
            return None
        record = self._file.record(self._row_group, leaf)
        start = _find_start(record)
        try:
            index = read_offset_index(encoded, self._num_rows)
        except MalformedFooterError as error:
            return self.give_up(leaf.index, error.problem)
        first, end = int(index.offsets[0]), int(index.offsets[-1] + index.sizes[-1])
        # The pages must fill the chunk, from the dictionary or from its beginning up to its end.
        if not 0 < start <= first or not end == start + int(record["compressed_size"]) <= self._file.footer.start:
            return self.give_up(leaf.index, "its pages are not those of the column chunk")
        self._keep(leaf, index, start)
        return None

    def _keep(self, leaf: Leaf, index: OffsetIndex, start: int, confirmed: int = 0) -> None:
        codec = self._file.footer.codec(self._file.record(self._row_group, leaf))
        num_bytes = index.offsets.nbytes + index.sizes.nbytes + index.rows.nbytes + index.counts.nbytes
        self._file.cached.pages[self._row_group, leaf.index] = CachedPageIndex(
            index, start, codec, self._file.footer.denies_compression, num_bytes, confirmed
        )

    # ----------------------------------------------------------------------------------------- without a page index

    def walk(self, leaves: Iterable[Leaf]) -> None:
        """Find the pages of a local file's chunks by their headers: of small chunks, and of those without an index.

        Nothing is kept of chunks with very many pages.
        """
        if not self._is_local:
            return
        cached, row_group = self._file.cached.pages, self._row_group
        walks = [
            _Walk(leaf, *span)
            for leaf in leaves
            if (row_group, leaf.index) not in cached
            and (span := self.chunk_span(leaf)) is not None
            and (span[1] < SMALL_BYTES or self._has_no_index(leaf))
        ]
        remaining = walks
        while remaining:
            for walk, data in zip(remaining, self.gather([[walk.next_span()] for walk in remaining]), strict=True):
                walk.take(data)
            remaining = [walk for walk in remaining if not walk.is_over]
        for walk in walks:
            index = walk.make_index(self._num_rows)
            if index is None:
                cached[row_group, walk.leaf.index] = None
            else:
                self._keep(walk.leaf, index, walk.start, index.num_pages)
        if walks:
            self._file.remember()

    def _has_no_index(self, leaf: Leaf) -> bool:
        try:
            return bool(self._file.record(self._row_group, leaf)["offset_index_offset"] < 0)
        except ParquetBloomError:
            return False

    def _take_bounds(self, leaf: Leaf, encoded: bytes) -> None:
        cached = self._file.cached.pages.get((self._row_group, leaf.index))
        if cached is None:
            return
        if self._file.footer.doubts_of(leaf) & (Doubt.STATISTICS | Doubt.PAGE_INDEX):
            return  # where the pages are is true all the same
        try:
            cached.bounds = read_column_index(encoded, cached.index)
            null_counts = cached.bounds.null_counts
            statistics = self._file.footer.statistics(self._file.record(self._row_group, leaf))
            if None not in (null_counts, statistics.null_count) and sum(null_counts or ()) != statistics.null_count:
                raise MalformedFooterError(f"its nulls are {sum(null_counts or ())}, not {statistics.null_count}")
        except MalformedFooterError as error:
            self.give_up(leaf.index, error.problem)
            return
        cached.num_bytes += len(encoded) + 3 * _OBJECT_BYTES * cached.index.num_pages


def _find_start(record: Any) -> int:
    """Return the offset of a column chunk, given its record in the footer."""
    dictionary, data = int(record["dictionary_page_offset"]), int(record["data_page_offset"])
    return dictionary if 0 < dictionary < data else data


class _Walk:
    """The pages of a column chunk, from header to header.

    Attributes
    ----------
    leaf, start, end : the chunk.
    position : of the next header to be read.
    is_over : whether there are no more, or they are not of use.
    """

    def __init__(self, leaf: Leaf, start: int, length: int):
        self.leaf, self.start, self.end = leaf, start, start + length
        self.position = start
        self.is_over = False
        self._offsets: list[int] = []
        self._sizes: list[int] = []
        self._counts: list[int] = []
        self._index: OffsetIndex | None = None

    def next_span(self) -> tuple[int, int]:
        """Return (offset, length) of what `take` needs next: the next header, or all of a small chunk."""
        length = self.end - self.position
        return self.position, length if self.end - self.start < SMALL_BYTES else min(PAGE_HEADER_BYTES, length)

    def take(self, data: memoryview) -> None:
        """Take the header of the page at `position`, or those of all pages."""
        try:
            if len(data) == self.end - self.start:
                self._index = PageTable.of(data).make_index(self.start)
                self.is_over = True
            else:
                self._take_header(read_page_header(data))
        except MalformedFooterError:  # or its statistics are long
            self.is_over = True

    def _take_header(self, header: PageHeader) -> None:
        if not header.is_dictionary:
            self._offsets.append(self.position)
            self._sizes.append(header.num_bytes)
            self._counts.append(header.num_values)
        elif self.position != self.start:
            self.is_over = True
            return
        self.position += header.num_bytes
        count = len(self._offsets)
        too_small = count > _FREE_PAGES and self.position - self.start < count * _LEAST_PAGE_BYTES
        self.is_over = self.position >= self.end or count == MAX_PAGES or too_small

    def make_index(self, num_rows: int) -> OffsetIndex | None:
        """Return where the pages are; None unless they fill the chunk, and have all rows."""
        index = self._index
        if index is None and self.position == self.end and self._offsets and all(self._counts):
            offsets, sizes = np.array(self._offsets, np.int64), np.array(self._sizes, np.int64)
            index = OffsetIndex(offsets, sizes, np.cumsum([0, *self._counts], dtype=np.int64))
        return index if index is not None and index.rows[-1] == num_rows else None
