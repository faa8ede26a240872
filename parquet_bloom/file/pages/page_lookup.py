"""Page indexes of a row group's column chunks, read and confirmed once per file.

An index that gives some pages too many rows and others too few assigns wrong rows to every page after them, and nothing
in it shows that. So it is trusted only as far as the headers of the pages, from the first one on, confirm it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ...errors import MalformedFooterError, ParquetBloomError
from ...metadata.footer import SchemaLeaf, find_first_pages
from ...metadata.page_index import (
    DELTA_BYTE_ARRAY,
    MAX_INDEX_BYTES,
    CachedPageIndex,
    read_column_index,
    read_offset_index,
)
from ...metadata.writer_rules import Doubt
from ...storage.byte_ranges import coalesce
from ...util.messages import logger
from ..bloom_file import BloomFile

_OBJECT_BYTES = 100  # memory of a bound as a Python object


@dataclass(frozen=True)
class PageCosts:
    """When pages of a column chunk are read instead of the whole chunk.

    Attributes
    ----------
    small_bytes : a smaller chunk is read whole: that costs less than selecting pages.
    most_share : a chunk is read whole if the required pages, with the dictionary, have a larger share of its bytes.
    request_bytes : the price of a request to a remote file, in bytes: object stores take 10 to 30 ms for one.
    """

    small_bytes: int = 64 << 10
    most_share: float = 0.5
    request_bytes: int = 1 << 20


PAGE_COSTS = PageCosts()


log = logger("parquet_bloom.file")


class PageLookup:
    """Finds the pages of one row group's column chunks. Page indexes are cached with the file's footer.

    Parameters
    ----------
    file : the file.
    row_group : number of the row group.
    costs : when pages are worth reading.
    """

    def __init__(self, file: BloomFile, row_group: int, costs: PageCosts = PAGE_COSTS):
        self._file, self._costs = file, costs
        self.row_group = row_group
        self._num_rows = file.footer.num_rows_of(row_group)
        self._is_local = file.source.path is not None  # so that many small ranges cost little

    def find(self, leaves: Iterable[SchemaLeaf], bounds: bool = False) -> dict[int, CachedPageIndex]:
        """Return the page indexes of those leaves that have a usable one, by leaf index; this does not confirm them.

        Parameters
        ----------
        bounds : whether to read bounds of the pages' values too. They are None where they are unavailable.
        """
        leaves = list(leaves)
        cached, row_group = self._file.cached.pages, self.row_group
        new = [leaf for leaf in leaves if self._needs_read(cached.get((row_group, leaf.index), leaf), bounds)]
        if new:
            sizes = {leaf: self._chunk_bytes(leaf) for leaf in new}
            new = [leaf for leaf, size in sizes.items() if size]
            # Reading the index and a page may cost more than reading the chunks.
            if new and self.is_worthwhile(2 * self.price([(0, 1)]), self.price([(0, sum(sizes.values()))])):
                self._read(new, bounds)
        entries = ((leaf.index, cached.get((row_group, leaf.index))) for leaf in leaves)
        return {leaf: pages for leaf, pages in entries if pages is not None}

    @staticmethod
    def _needs_read(cached: CachedPageIndex | SchemaLeaf | None, bounds: bool) -> bool:
        """Return whether an index has to be read, given the chunk's cache entry, or the leaf if there is none."""
        return isinstance(cached, SchemaLeaf) or (bounds and cached is not None and not cached.bounds_read)

    def _read(self, leaves: list[SchemaLeaf], bounds: bool) -> None:
        """Read the indexes of some chunks, all at once."""
        file, cached = self._file, self._file.cached.pages
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for kind in ("offset_index", "column_index") if bounds else ("offset_index",):
            for leaf in leaves:
                is_new = kind == "column_index" or (self.row_group, leaf.index) not in cached
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
            if (pages := cached.get((self.row_group, leaf.index))) is not None:
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
            if self.is_worthwhile(price, cached.index.num_bytes):
                new[leaf] = pages
        data = self.gather([indexes[leaf].header_spans(pages) for leaf, pages in new.items()])
        for (leaf, pages), headers in zip(new.items(), data, strict=True):
            if indexes[leaf].headers_agree(pages, headers):
                indexes[leaf].confirmed = indexes[leaf].index.num_pages
            else:
                self.give_up(leaf)
        return {leaf: cached for leaf, cached in indexes.items() if cached.is_confirmed}

    def find_bounds(self, leaves: Iterable[SchemaLeaf]) -> dict[int, CachedPageIndex]:
        """Return the page indexes with `bounds` of those leaves of which both indexes are usable, by leaf index."""
        indexes = self.find(leaves, bounds=True)
        return self.confirm({leaf: index for leaf, index in indexes.items() if index.bounds is not None})

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
        self._file.cached.pages[self.row_group, leaf] = None
        error = MalformedFooterError(
            f"the page index is not used: {problem}",
            path=self._file.path,
            row_group=self.row_group,
            column=self._file.leaves[leaf].name,
        )
        log.warning("%s", error)

    def price(self, spans: Iterable[tuple[int, int]]) -> int:
        """Return the cost of reading ranges (offset, length), in bytes; requests have a price in bytes, too."""
        if self._is_local:
            return sum([length for _, length in spans])
        offsets, lengths = np.array(list(spans), np.int64).reshape(-1, 2).T
        requests = coalesce(offsets, lengths)
        return sum(request.length for request in requests) + self._costs.request_bytes * len(requests)

    def is_worthwhile(self, price: int, total: int) -> bool:
        """Return whether reading pages, at a price, is better than reading all that costs `total`."""
        return price <= self._costs.most_share * total

    # ---------------------------------------------------------------------------------------------------- one chunk

    def chunk_span(self, leaf: SchemaLeaf) -> tuple[int, int] | None:
        """Return (offset, length) of a column chunk whose pages may be read one by one; None where they may not."""
        file = self._file
        if leaf.repeated or file.footer.encrypted or self._needs_pages_before(leaf):
            return None
        try:
            record = file.record(self.row_group, leaf)
        except ParquetBloomError:  # the footer contradicts itself: reading the chunk whole reports it
            return None
        if record["external"] or record["encrypted"] or record["num_values"] != self._num_rows:
            return None
        start, length = int(find_first_pages(record)), int(record["compressed_size"])
        return (start, length) if start > 0 < length <= file.footer.start - start else None

    def _needs_pages_before(self, leaf: SchemaLeaf) -> bool:
        """Return whether pages of a chunk cannot be read without those before them, because of their writer."""
        footer = self._file.footer
        if not footer.doubts_of(leaf) & Doubt.SINGLE_PAGES:
            return False
        try:
            return DELTA_BYTE_ARRAY in footer.encodings(self._file.record(self.row_group, leaf))
        except ParquetBloomError:
            return True

    def _chunk_bytes(self, leaf: SchemaLeaf) -> int:
        """Return the size of a column chunk with a page index that is worth reading; 0 for others."""
        span = self.chunk_span(leaf)
        if span is None or span[1] < self._costs.small_bytes:
            return 0
        if self._file.record(self.row_group, leaf)["offset_index_offset"] < 0:
            return 0
        return span[1]

    def _index_span(self, leaf: SchemaLeaf, kind: str) -> tuple[int, int] | None:
        """Return (offset, length) of an index of a chunk; None if there is no usable one."""
        record = self._file.record(self.row_group, leaf)
        offset, length = int(record[f"{kind}_offset"]), int(record[f"{kind}_length"])
        if offset < 0 or length > MAX_INDEX_BYTES:
            return None
        if not (offset > 0 and 0 < length <= self._file.footer.start - offset):
            self.give_up(leaf.index, f"it is said to be {length} bytes at offset {offset}")
            return None
        return offset, length

    def _take_offsets(self, leaf: SchemaLeaf, encoded: bytes) -> None:
        if (self.row_group, leaf.index) in self._file.cached.pages:  # given up for its other index
            return None
        record = self._file.record(self.row_group, leaf)
        start = int(find_first_pages(record))
        try:
            index = read_offset_index(encoded, self._num_rows)
        except MalformedFooterError as error:
            return self.give_up(leaf.index, error.problem)
        first, end = int(index.offsets[0]), int(index.offsets[-1] + index.sizes[-1])
        # The pages must fill the chunk, from the dictionary or from its beginning up to its end.
        if not 0 < start <= first or not end == start + int(record["compressed_size"]) <= self._file.footer.start:
            return self.give_up(leaf.index, "its pages are not those of the column chunk")
        num_bytes = index.offsets.nbytes + index.sizes.nbytes + index.rows.nbytes + index.counts.nbytes
        self._file.cached.pages[self.row_group, leaf.index] = CachedPageIndex(index, start, num_bytes)
        return None

    def _take_bounds(self, leaf: SchemaLeaf, encoded: bytes) -> None:
        cached = self._file.cached.pages.get((self.row_group, leaf.index))
        if cached is None:
            return
        if self._file.footer.doubts_of(leaf) & (Doubt.STATISTICS | Doubt.PAGE_INDEX):
            return  # where the pages are is true all the same
        try:
            cached.bounds = read_column_index(encoded, cached.index)
            bounds, chunk = cached.bounds, self._file.footer.statistics(self._file.record(self.row_group, leaf))
            for what, counts, in_all in (
                ("nulls", bounds.null_counts, chunk.null_count),
                ("NaNs", bounds.nan_counts, chunk.nan_count),
            ):
                if counts is not None and in_all is not None and sum(counts) != in_all:
                    raise MalformedFooterError(f"its {what} are {sum(counts)}, not {in_all}")
        except MalformedFooterError as error:
            self.give_up(leaf.index, error.problem)
            return
        cached.num_bytes += len(encoded) + 3 * _OBJECT_BYTES * cached.index.num_pages
