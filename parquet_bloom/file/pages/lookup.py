"""Where the pages of a row group's column chunks stand: their page indexes, read and confirmed once a file.

An index that gives some pages too many rows and others too few would give every page behind them the wrong ones, and
nothing in it shows that. So it is believed only as far as the headers of the pages, from the first one on, say the
same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from ...errors import MalformedFooterError, ParquetBloomError
from ...metadata.footer import Leaf
from ...metadata.page_index import MAX_INDEX_BYTES, CachedPageIndex, read_column_index, read_offset_index
from ...storage import coalesce as ranges
from ...util.logs import logger
from ..reader import BloomFile

SMALL_BYTES = 64 * 1024
"""A column chunk of fewer bytes is read whole: that costs less than to choose among its pages."""

WORTHWHILE = 0.5
"""A column chunk is read whole if the pages wanted, the dictionary's included, have a larger share of its bytes."""

REQUEST_BYTES = 1 << 20
"""A request to a file that is not local is worth so many bytes: object stores take 10 to 30 ms for one."""

_OBJECT_BYTES = 100  # of a bound, as Python holds it

log = logger("parquet_bloom.file")


class PageLookup:
    """Finds the pages of one row group's column chunks. What it finds is kept with the file's footer.

    Parameters
    ----------
    file : the file.
    row_group : which.
    """

    def __init__(self, file: BloomFile, row_group: int):
        self._file = file
        self._row_group = row_group
        self._num_rows = file.footer.num_rows_of(row_group)
        self._is_local = file.source.path is not None  # so that many small ranges cost little

    def find(self, leaves: Iterable[Leaf], bounds: bool = False) -> dict[int, CachedPageIndex]:
        """The pages of those leaves that have a usable index, by the leaf's number; none of it is confirmed by this.

        Parameters
        ----------
        bounds : whether those of the pages' values are wanted too. Where they cannot be had, they are None.
        """
        leaves = list(leaves)
        known, row_group = self._file.cached.pages, self._row_group
        new = [leaf for leaf in leaves if self._to_be_read(known.get((row_group, leaf.index), leaf), bounds)]
        if new:
            sizes = {leaf: self._chunk_bytes(leaf) for leaf in new}
            new = [leaf for leaf, size in sizes.items() if size]
            # To look for the index, and for a page, may cost more than the chunks do.
            if new and self.price([(0, sum(sizes.values()))]) * WORTHWHILE >= 2 * self.price([(0, 1)]):
                self._read(new, bounds)
        found = ((leaf.index, known.get((row_group, leaf.index))) for leaf in leaves)
        return {leaf: pages for leaf, pages in found if pages is not None}

    @staticmethod
    def _to_be_read(known: CachedPageIndex | Leaf | None, bounds: bool) -> bool:
        """Whether an index is to be read, by what is known of the chunk: the leaf itself if nothing is."""
        return isinstance(known, Leaf) or (bounds and known is not None and not known.bounds_read)

    def _read(self, leaves: list[Leaf], bounds: bool) -> None:
        """Read the indexes of some chunks, all at once."""
        file, known = self._file, self._file.cached.pages
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for kind in ("offset_index", "column_index") if bounds else ("offset_index",):
            for leaf in leaves:
                is_new = kind == "column_index" or (self._row_group, leaf.index) not in known
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
            if (pages := known.get((self._row_group, leaf.index))) is not None:
                pages.bounds_read |= bounds
        file.remember()

    def confirm(self, found: dict[int, CachedPageIndex]) -> dict[int, CachedPageIndex]:
        """Those of the chunks, given by leaf, whose pages all say of themselves what the index says of them.

        Where the file is not local, chunks of which that would take too many requests are left out.
        """
        new = {}
        for leaf, known in found.items():
            if known.is_confirmed:
                continue
            pages = np.arange(known.confirmed, known.index.num_pages)
            price = 0 if self._is_local else self.price(known.header_spans(pages))
            if price <= WORTHWHILE * known.index.num_bytes:
                new[leaf] = pages
        data = self.gather([found[leaf].header_spans(pages) for leaf, pages in new.items()])
        for (leaf, pages), heads in zip(new.items(), data, strict=True):
            if found[leaf].headers_agree(pages, heads):
                found[leaf].confirmed = found[leaf].index.num_pages
            else:
                self.give_up(leaf)
        return {leaf: known for leaf, known in found.items() if known.is_confirmed}

    def gather(self, parts: Sequence[Sequence[tuple[int, int]]]) -> list[memoryview]:
        """Several lists of ranges (offset, length) at once, the bytes of each one behind the other."""
        if not any(parts):
            return [memoryview(b"") for _ in parts]
        offsets, lengths = np.array([span for part in parts for span in part], np.int64).T
        data = self._file.source.gather(offsets, lengths).data
        ends = list(accumulate(sum([length for _, length in part]) for part in parts))
        return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def give_up(self, leaf: int, problem: str = "the headers of the pages say something else") -> None:
        """Use the page index of a column chunk no more, given by the leaf's number."""
        self._file.cached.pages[self._row_group, leaf] = None
        place = MalformedFooterError(
            f"the page index is not used: {problem}",
            path=self._file.path,
            row_group=self._row_group,
            column=self._file.leaves[leaf].name,
        )
        log.warning("%s", place)

    def price(self, spans: Iterable[tuple[int, int]]) -> int:
        """What it costs to read ranges, given as (offset, length), in bytes: a request counts as some, too."""
        if self._is_local:
            return sum([length for _, length in spans])
        offsets, lengths = np.array(list(spans), np.int64).reshape(-1, 2).T
        requests = ranges.coalesce(offsets, lengths)
        return sum(request.length for request in requests) + REQUEST_BYTES * len(requests)

    # ---------------------------------------------------------------------------------------------------- one chunk

    def _chunk_bytes(self, leaf: Leaf) -> int:
        """Bytes of a column chunk whose pages may be used; 0 where they may not."""
        file = self._file
        if leaf.repeated or file.footer.encrypted:
            return 0
        try:
            record = file.record(self._row_group, leaf)
        except ParquetBloomError:  # the footer contradicts itself: who reads the chunk whole will say so
            return 0
        if record["external"] or record["encrypted"] or record["num_values"] != self._num_rows:
            return 0
        size = int(record["compressed_size"])
        return size if size >= max(SMALL_BYTES, 1) and record["offset_index_offset"] >= 0 else 0

    def _index_span(self, leaf: Leaf, kind: str) -> tuple[int, int] | None:
        """Where an index of a chunk stands, as (offset, length); None if it has none that could be used."""
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
        dictionary, data = int(record["dictionary_page_offset"]), int(record["data_page_offset"])
        start = dictionary if 0 < dictionary < data else data
        try:
            index = read_offset_index(encoded, self._num_rows)
        except MalformedFooterError as error:
            return self.give_up(leaf.index, error.problem)
        first, end = int(index.offsets[0]), int(index.offsets[-1] + index.sizes[-1])
        # The pages are those of the chunk: from a dictionary, or from its beginning, up to its end.
        if not 0 < start <= first or not end == start + int(record["compressed_size"]) <= self._file.footer.start:
            return self.give_up(leaf.index, "its pages are not those of the column chunk")
        num_bytes = index.offsets.nbytes + index.sizes.nbytes + index.rows.nbytes + index.counts.nbytes
        self._file.cached.pages[self._row_group, leaf.index] = CachedPageIndex(
            index, start, self._file.footer.codec(record), num_bytes
        )
        return None

    def _take_bounds(self, leaf: Leaf, encoded: bytes) -> None:
        known = self._file.cached.pages.get((self._row_group, leaf.index))
        if known is None:
            return
        try:
            known.bounds = read_column_index(encoded, known.index)
            null_counts = known.bounds.null_counts
            statistics = self._file.footer.statistics(self._file.record(self._row_group, leaf))
            if None not in (null_counts, statistics.null_count) and sum(null_counts or ()) != statistics.null_count:
                raise MalformedFooterError(f"its nulls are {sum(null_counts or ())}, not {statistics.null_count}")
        except MalformedFooterError as error:
            self.give_up(leaf.index, error.problem)
            return
        known.num_bytes += len(encoded) + 3 * _OBJECT_BYTES * known.index.num_pages
