"""Few rows of many row groups of files: searched, and taken out of their pages, by compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnreadableColumnError, UnusualPageError
from ...hashing import int96
from ...metadata.footer import PHYSICAL_TYPES, Footer, SchemaLeaf, concatenate_records, find_first_pages
from ...metadata.page_decode import StoredColumn
from ...metadata.page_index import PAGE_HEADER_BYTES, CachedPageIndex, read_page_header
from ...metadata.page_match import Targets
from ...metadata.thrift_compact import have_path
from ...metadata.writer_rules import Doubt
from ...storage.local.open_files import RangeReader
from ...util.arrow_values import from_numpy, take
from ..bloom_file import BloomFile
from ..file_columns import select_leaves, stored_column
from .chunk_batch import HAS_BITS, IS_CHAINED, IS_COMPRESSED, MAX_CHUNK_BYTES, ChunkBatch, PageHeaders, pack_pages
from .decompress import KNOWN_CODECS, decompress
from .fetched_ranges import FetchedRanges
from .page_columns import PageColumn, RowPositions, convert, make_array, make_array_of_buffers
from .page_lookup import PAGE_COSTS, PageCosts, PageLookup

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

    leaf: SchemaLeaf
    lookup: PageLookup
    cached: CachedPageIndex
    pages: NDArray[np.int64]
    unread: NDArray[np.int64]

    @classmethod
    def of(cls, leaf: SchemaLeaf, lookup: PageLookup, cached: CachedPageIndex, ranges: NDArray[np.int64]) -> _PagePlan:
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
        return self.lookup.is_worthwhile(self.lookup.price(spans), total)

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
    costs : when pages are worth fetching.

    Attributes
    ----------
    ranges : reads what was fetched, and all else.
    known : {offset of a chunk: its pages, see `pack_pages`} of the chunks whose pages were fetched.
    """

    def __init__(self, file: BloomFile, row_groups: Sequence[int], costs: PageCosts = PAGE_COSTS):
        self._row_groups = row_groups
        self._lookups = {row_group: PageLookup(file, row_group, costs) for row_group in row_groups}
        self.ranges = FetchedRanges(file.source)
        self.known: dict[int, bytes] = {}

    def fetch(self, leaves: Sequence[SchemaLeaf], selections: Sequence[NDArray[np.int64]]) -> set[int]:
        """Fetch pages that have rows of some columns, all at once; unless all are there, those that are, are dropped.

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
        self.known.clear()
        plans, unplanned = self._plan(leaves, selections)
        spans = [span for plan in plans for span in plan.early_spans()]
        if not all(self.ranges.has(*span) for span in spans):
            self.ranges.forget()
            self._fetch(spans)
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
        self, leaves: Sequence[SchemaLeaf], selections: Sequence[NDArray[np.int64]]
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


MAX_TAKEN_BYTES = 16 << 20
"""Rows with more bytes of values than that are not taken at once."""

_AT_ONCE = 1 << 14  # rows that are taken of what was fetched
_VALUE_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16}
_HEADER_BYTES = 64 << 10  # of page headers that are kept of a file
_FEW_ROWS = 1024
_SAMPLE, _SAMPLE_OF, _FAR_TOO_MANY = 1 << 12, 1 << 16, 1.5
_Values = tuple[NDArray[np.bool_] | None, NDArray[np.int32] | None, NDArray[np.uint8]]  # as of `RowTaker.finish`

Selections = Sequence[Sequence[tuple[int, int]] | None]
"""Of each row group the ranges [start, stop) of its rows, ascending; None for all."""


class RowsOfGroups:
    """Some rows of row groups.

    Parameters
    ----------
    counts : how many each row group has; int64.
    rows : their numbers in their row group, ascending, one row group after the other; int64. None for the first ones of
        each: of many rows the numbers are made where they are used.
    """

    def __init__(self, counts: NDArray[np.int64], rows: RowPositions | None = None):
        self.counts, self._rows = counts, rows
        self._total = int(counts.sum()) if rows is None else len(rows)
        self._kept: tuple[RowsOfGroups, NDArray[np.bool_]] | None = None  # of which these are those that are true

    def __len__(self) -> int:
        return self._total

    @property
    def rows(self) -> RowPositions:
        """Their numbers in their row group."""
        if self._rows is None:
            if self._kept is None:
                self._rows = np.arange(self._total) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)
            else:
                rows, flags = self._kept
                self._rows, self._kept = rows.take(np.flatnonzero(flags)).rows, None
        return self._rows

    @classmethod
    def select(cls, num_rows: NDArray[np.int64], selections: Selections) -> RowsOfGroups:
        """Return the rows that are selected of row groups with so many rows."""
        if not any(selections):
            return cls(num_rows * np.array([selection is None for selection in selections], np.int64))
        num_ranges, ranges = _join_ranges(selections, num_rows)
        sizes = ranges[:, 1] - ranges[:, 0]
        rows = np.arange(int(sizes.sum())) + np.repeat(ranges[:, 0] - (np.cumsum(sizes) - sizes), sizes)
        ends = np.cumsum(num_ranges)
        until = np.concatenate([[0], np.cumsum(sizes)])
        return cls(until[ends] - until[ends - num_ranges], rows)

    def take(self, positions: RowPositions) -> RowsOfGroups:
        """Return some of these rows, given by their positions among all, ascending."""
        ends = np.cumsum(self.counts)
        counts = np.diff(np.searchsorted(positions, ends), prepend=0)
        if self._rows is None and self._kept is None:
            return RowsOfGroups(counts, positions - np.repeat(ends - self.counts, counts))
        return RowsOfGroups(counts, self.rows[positions])

    def keep(self, flags: NDArray[np.bool_]) -> RowsOfGroups:
        """Return those of these rows for which a flag is true; where these are not asked for, they are only counted."""
        counts, start = np.zeros_like(self.counts), 0
        for group, count in enumerate(self.counts.tolist()):
            counts[group] = np.count_nonzero(flags[start : start + count])
            start += count
        kept = RowsOfGroups(counts)
        kept._kept = self, flags
        return kept

    def make_flags(self, num_rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows of the row groups that have some of these are among these.

        Parameters
        ----------
        num_rows : of all row groups.
        """
        some = self.counts > 0
        if self._kept is not None:
            rows, flags = self._kept
            if rows._rows is None and rows._kept is None and (rows.counts == num_rows)[some].all():
                return flags if some.all() else flags[np.repeat(some, rows.counts)]
        starts = np.cumsum(num_rows[some]) - num_rows[some]
        flags = np.zeros(int(num_rows[some].sum()), np.bool_)
        flags[self.rows + np.repeat(starts, self.counts[some])] = True
        return flags

    def find_selected(
        self, num_rows: NDArray[np.int64], num_ranges: NDArray[np.int64], ranges: NDArray[np.int64]
    ) -> RowPositions:
        """Return the positions, among these rows, of those in ranges (see `_join_ranges`) of row groups."""
        starts = np.cumsum(num_rows) - num_rows
        borders = (ranges + np.repeat(starts, num_ranges)[:, None]).ravel()
        return np.flatnonzero(np.searchsorted(borders, self.rows + np.repeat(starts, self.counts), "right") % 2)


class RowGroups:
    """Row groups of files with the same schema, and what the footers say of their column chunks.

    Parameters
    ----------
    footers : of the files.
    numbers : (number of a file, its row group) of each.

    Attributes
    ----------
    files, ordinals : the number of each row group's file, and its own in that; int64.
    num_rows : of each row group; int64.
    total_rows : of all row groups.
    """

    def __init__(self, footers: Sequence[Footer], numbers: Sequence[tuple[int, int]]):
        self.footers, self.numbers = footers, numbers
        self.files, self.ordinals = np.array(numbers, np.int64).reshape(-1, 2).T.copy()
        each_groups, each_chunks, lengths = [], [], []
        for footer in footers:
            each_groups.append(footer.row_groups)
            each_chunks.append(footer.chunks)
            lengths.append((len(footer.row_groups), len(footer.chunks)))
        sizes = np.array(lengths, np.int64)
        if (self.ordinals >= sizes[self.files, 0]).any():
            raise MalformedFooterError("metadata: of other row groups")
        starts = np.cumsum(sizes, axis=0) - sizes
        groups = concatenate_records(each_groups)[starts[self.files, 0] + self.ordinals]
        self._chunks = concatenate_records(each_chunks)
        self.num_rows: NDArray[np.int64] = np.ascontiguousarray(groups["num_rows"])
        self.total_rows = int(self.num_rows.sum())
        width, first = len(footers[0].leaves), groups["first_chunk"]
        is_whole = (groups["num_columns"] == width) & (first + width <= sizes[self.files, 1])
        self._firsts = np.where(is_whole, starts[self.files, 1] + first, -1)

    def find_chunks(self, leaves: Sequence[SchemaLeaf], groups: Sequence[int] | None = None) -> NDArray[np.void] | None:
        """Return what the footers say of column chunks, of shape (leaves, row groups); None if one contradicts itself.

        Parameters
        ----------
        groups : some of the row groups by their positions; None for all.
        """
        places = self._find_places(leaves, groups)
        return None if places is None else self._chunks[places]

    def _find_places(
        self, leaves: Sequence[SchemaLeaf], groups: Sequence[int] | None = None
    ) -> NDArray[np.int64] | None:
        """Return where the records of column chunks are: a few of their fields are gathered faster than all."""
        firsts = self._firsts if groups is None else self._firsts[np.array(groups, np.int64)]
        if (firsts < 0).any():
            return None
        places: NDArray[np.int64] = firsts + np.array([leaf.index for leaf in leaves], np.int64)[:, None]
        return places

    def find_indexed(self, leaves: Sequence[SchemaLeaf], least: int) -> list[int]:
        """Return the row groups in which a chunk of at least so many bytes of some columns has a page index."""
        places = self._find_places(leaves)
        if places is None:
            return []
        is_large = self._chunks["compressed_size"][places] >= least
        is_large &= self._chunks["offset_index_offset"][places] >= 0
        return np.flatnonzero(is_large.any(axis=0)).tolist()

    def estimate(
        self, some: Sequence[int], names: Sequence[str] | None, widths: Mapping[str, float]
    ) -> NDArray[np.float64]:
        """Estimate the memory that columns of each of some row groups take once they are decoded, in bytes.

        Parameters
        ----------
        some : positions among the row groups.
        names : columns as `pyarrow.parquet` takes them; None for all.
        widths : the most memory that a row of each column has taken, as far as that is known.
        """
        leaves = select_leaves(self.footers[0].leaves, names)
        places = self._find_places(leaves, some)
        if places is None or not leaves:  # pyarrow reports it
            return np.zeros(len(some))
        value_bytes, firsts, of_rows = [], [], []
        for number, leaf in enumerate(leaves):
            value_bytes.append(_VALUE_BYTES.get(leaf.physical, leaf.length or 0))  # of byte arrays a guess
            if not number or leaf.path[0] != leaves[number - 1].path[0]:
                firsts.append(number)
                of_rows.append(widths.get(leaf.path[0], 0.0))
        stored = np.maximum(self._chunks["uncompressed_size"][places], self._chunks["compressed_size"][places])
        num_values = np.maximum(self._chunks["num_values"][places], 0)
        sizes = np.maximum(stored, num_values * np.array(value_bytes)[:, None])
        columns = np.add.reduceat(np.maximum(sizes, 0), firsts, axis=0)
        total: NDArray[np.float64] = np.maximum(columns, np.outer(of_rows, self.num_rows[list(some)])).sum(axis=0)
        return total

    def find_first_row(self, group: int) -> int:
        """Return how many rows the file of a row group has before it."""
        footer = self.footers[int(self.files[group])]
        return int(footer.row_groups["num_rows"][: int(self.ordinals[group])].sum())


class RowGroupBatch:
    """Row groups of which few rows are read: see also `of_file`.

    Parameters
    ----------
    groups : the row groups.
    columns : the files' columns of which rows can be taken, by name.
    files : the files of the row groups, open.
    headers : of each file, the page headers that are known (see `CachedFooter`), to which those that are read are
        added; None to keep none.
    fetcher : fetches what is about to be read of these row groups, if the file is not local.

    Attributes
    ----------
    grown : numbers of the files of which headers were added.

    Raises
    ------
    MalformedFooterError
        A footer is unusual: its file has to be read by itself.
    """

    def __init__(
        self,
        groups: RowGroups,
        columns: Mapping[str, PageColumn],
        files: RangeReader,
        headers: list[dict[int, bytes]] | None = None,
        fetcher: PageFetcher | None = None,
    ):
        self.groups, self._columns, self._fetcher = groups, columns, fetcher
        self._is_counted = isinstance(files, FetchedRanges)  # by the source of the file
        known = None if headers is None else PageHeaders(headers, _HEADER_BYTES)
        self.grown: set[int] = set() if known is None else known.grown
        self._batch = ChunkBatch(files, decompress, known)
        self._chunks: dict[int, tuple[NDArray[np.int64], str]] = {}  # by the number of their leaf, and their problem
        self._footers: list[bytes] = []
        self._doubted: list[tuple[int, Footer]] = []
        starts = []
        for file, footer in enumerate(groups.footers):
            if footer.encrypted:
                raise MalformedFooterError("metadata: encrypted")
            self._footers.append(footer.data)
            starts.append(footer.start)
            if footer.writer_rules.rules:
                self._doubted.append((file, footer))
        self._starts = np.array(starts, np.int64)
        records = groups.find_chunks([leaf for leaf in groups.footers[0].leaves if not leaf.repeated])
        if records is None:
            raise MalformedFooterError("metadata: column chunks are missing")
        # As `Footer.require_value_per_row`.
        if ((records["num_values"] != groups.num_rows) & (records["meta_start"] >= 0)).any():
            raise MalformedFooterError("metadata: a column has other numbers of values than rows")

    @classmethod
    def of_file(
        cls, file: BloomFile, groups: RowGroups, columns: Mapping[str, PageColumn], costs: PageCosts = PAGE_COSTS
    ) -> RowGroupBatch:
        """Make the batch of row groups of one file of any kind, which stays open; its reads are counted at its source.

        What is read of a file that is not local is fetched all at once: its pages, by the page index.
        """
        if file.source.path is not None:
            return cls(groups, columns, FetchedRanges(file.source), [file.cached.page_headers])
        fetcher = PageFetcher(file, groups.ordinals.tolist(), costs)
        return cls(groups, columns, fetcher.ranges, [fetcher.known], fetcher)

    @property
    def cost(self) -> tuple[int, int]:
        """Requests and bytes that were read, and are not counted elsewhere."""
        return (0, 0) if self._is_counted else (self._batch.requests, self._batch.num_bytes)

    # ----------------------------------------------------------------------------------------------- where chunks are

    def count_pages(self, leaf: SchemaLeaf) -> int:
        """Return how many data pages the chunks of a flat column have.

        Raises
        ------
        MalformedFooterError, StorageError
            They cannot be read here.
        """
        return self._batch.count_pages(self._require_chunks(leaf), stored_column(leaf))

    def find_problem(self, name: str) -> str:
        """Return why chunks of a column cannot be read here, by what the footers tell; empty if they can."""
        leaf = self._columns[name].leaf
        self._locate_chunks([leaf])
        return self._chunks[leaf.index][1]

    def _require_chunks(self, leaf: SchemaLeaf) -> NDArray[np.int64]:
        """Return where a column's chunks are, as `ChunkBatch` takes them."""
        self._locate_chunks([leaf])
        chunks, problem = self._chunks[leaf.index]
        if problem:
            raise UnusualPageError(problem)
        return chunks

    def _locate_chunks(self, leaves: Sequence[SchemaLeaf]) -> None:
        """Find where the chunks of columns are, as `ChunkBatch` takes them, and why they cannot be read, if so."""
        leaves = [leaf for leaf in leaves if leaf.index not in self._chunks]
        if not leaves:
            return
        groups = self.groups
        records = groups.find_chunks(leaves)
        assert records is not None
        start, size = find_first_pages(records), records["compressed_size"]
        usual = (records["meta_start"] >= 0) & (records["encrypted"] == 0) & (records["external"] == 0)
        usual &= (records["codec"] >= 0) & (start > 0) & (size > 0)
        usual &= size <= self._starts[groups.files] - start
        types = np.array([PHYSICAL_TYPES.index(leaf.physical) for leaf in leaves], np.int64)
        are_usual = np.all(usual & (records["physical_type"] == types[:, None]), axis=1)
        have_codecs = np.all(np.isin(records["codec"], KNOWN_CODECS), axis=1)
        longest = np.max(size, axis=1, initial=0)
        paths = np.ascontiguousarray(records["path_start"])
        flags = np.zeros((len(leaves), len(self._starts)), np.int64)
        for number, leaf in enumerate(leaves):
            flags[number] = HAS_BITS if leaf.physical == "BOOLEAN" else 0
            for file, footer in self._doubted:
                flags[number, file] |= _find_flags(footer, leaf)
        tables = np.empty((*records.shape, 7), np.int64)
        columns = start, size, groups.num_rows, records["codec"], records["num_values"], flags[:, groups.files]
        for place, values in enumerate((groups.files, *columns)):
            tables[:, :, place] = values
        for number, leaf in enumerate(leaves):
            problem, path = "", groups.footers[0].stored_leaf(leaf).encoded_path
            if not are_usual[number] or not have_path(self._footers, groups.files, paths[number], path):
                problem = "metadata: a column chunk is unusual"
            elif not have_codecs[number]:
                problem = "a codec that is not known here"
            elif leaf.repeated and longest[number] > MAX_CHUNK_BYTES:
                problem = f"a chunk of lists of more than {MAX_CHUNK_BYTES >> 20} MiB"
            self._chunks[leaf.index] = tables[number], problem

    # ---------------------------------------------------------------------------------------------------- searching

    def search(
        self, name: str, targets: Targets, most: int, selections: Selections | None = None
    ) -> tuple[RowsOfGroups, pa.Array | None] | None:
        """Find the rows with one of some values, or a piece of text, or whose list has one of some elements.

        Parameters
        ----------
        name : a column without a problem, whose equal values have equal bytes.
        most : the search ends if there are more rows.
        selections : the rows that are looked for; of a flat column pages without any are not searched. None for all.

        Returns
        -------
        The rows, and the column in these rows, or None if a piece was searched for or lists cannot be taken. None if
        there are more than `most`, or fetching pages of a file that is not local is not worthwhile, or the values would
        take much memory.

        Raises
        ------
        UnusualPageError, StorageError
            A chunk has to be read in another way.
        """
        column, num_rows = self._columns[name], self.groups.num_rows
        is_list, stored = column.leaf.repeated, stored_column(column.leaf)
        chunks = self._require_chunks(column.leaf)
        ranges = None if selections is None else _join_ranges(selections, num_rows)
        if is_list:
            result = self._batch.search(chunks, stored, targets, most, taken=column.layout is not None)
        elif ranges is None:
            if len(chunks) and int(chunks[:, 2].max()) > MAX_CHUNK_BYTES:
                raise UnusualPageError("a column chunk is large")
            if self.groups.total_rows >= _SAMPLE_OF and self._has_far_too_many(chunks, stored, targets, most):
                return None
            result = self._batch.search(chunks, stored, targets, most)
        else:
            of_groups = np.split(ranges[1], np.cumsum(ranges[0])[:-1]) if self._fetcher is not None else []
            if self._fetcher is not None and not self._fetcher.fetch([column.leaf], of_groups):
                return None
            result = self._batch.search(chunks, stored, targets, most, *ranges)
        if result is None:
            return None
        rows, numbers = RowsOfGroups(*result[:2]), result[2]
        inside = None if ranges is None else rows.find_selected(num_rows, *ranges)
        if inside is not None:
            rows, numbers = rows.take(inside), numbers[inside]
        if targets.is_piece:
            return rows, None
        if not is_list:
            is_large = len(rows) * targets.longest > MAX_TAKEN_BYTES
            return None if is_large else (rows, _make_values(column, targets, numbers))
        lists = None if result[3] is None else _make_lists(column, *result[3])
        return rows, lists if lists is None or inside is None else take(lists, inside)

    def _has_far_too_many(self, chunks: NDArray[np.int64], column: StoredColumn, targets: Targets, most: int) -> bool:
        """Return whether the first rows show that there are far more than `most`, before all are searched."""
        count = min(int(chunks[0, 3]), _SAMPLE)
        if not count:
            return False
        ranges = np.array([1], np.int64), np.array([[0, count]], np.int64)
        result = self._batch.search(chunks[:1], column, targets, int(chunks[0, 3]), *ranges)
        if result is None:
            return True
        return int((result[1] < count).sum()) * self.groups.total_rows > _FAR_TOO_MANY * most * count

    # ------------------------------------------------------------------------------------------------------- taking

    def read(self, names: Sequence[str], rows: RowsOfGroups) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Read some rows.

        Parameters
        ----------
        names : columns that have a layout.

        Returns
        -------
        The values in all rows, row group after row group, of each column without a problem of whose pages it is
        worthwhile to fetch some, if the file is not local.

        Raises
        ------
        UnusualPageError, StorageError
            They have to be read in another way.
        UnreadableColumnError
            A column holds INT96 timestamps that its type cannot show.
        """
        self._locate_chunks([self._columns[name].leaf for name in names])
        able = {}
        for name in names:
            column = self._columns[name]
            if not self._chunks[column.leaf.index][1]:
                able[name] = column
        if self._fetcher is None:
            return self._take(able, rows)
        single, leaves = np.stack([rows.rows, rows.rows + 1], axis=1), [column.leaf for column in able.values()]
        fetched = self._fetcher.fetch(leaves, np.split(single, np.cumsum(rows.counts)[:-1]))
        able = {name: column for name, column in able.items() if column.leaf.index in fetched}
        parts, ends = [], np.cumsum(rows.counts)
        for start in range(0, len(rows.rows), _AT_ONCE):
            some = rows.rows[start : start + _AT_ONCE]
            upto = np.clip(ends, start, start + len(some)) - start
            counts = upto - np.concatenate([[0], upto[:-1]])
            parts.append(self._take(able, RowsOfGroups(counts, some)))
        return {name: pa.chunked_array([part[name] for part in parts]) for name in able}

    def _take(self, columns: Mapping[str, PageColumn], rows: RowsOfGroups) -> dict[str, pa.Array]:
        """Take rows of columns out of their pages."""
        count, arrays, num_bytes = len(rows), {}, 0
        for name, column in columns.items():
            if num_bytes + column.width * count > MAX_TAKEN_BYTES:
                raise UnusualPageError("many bytes")
            leaf, chunks = column.leaf, self._chunks[column.leaf.index][0]
            if leaf.repeated:
                lists = self._batch.take(chunks, stored_column(leaf), rows.counts, rows.rows)
                num_bytes += len(lists[2][2])
                arrays[name] = _make_lists(column, *lists)
                continue
            buffers = self._batch.take(chunks, stored_column(leaf), rows.counts, rows.rows)
            num_bytes += len(buffers[2])
            if num_bytes > MAX_TAKEN_BYTES:
                raise UnusualPageError("many bytes")
            array = make_array_of_buffers(column.layout, count, *buffers)
            if leaf.physical == "INT96":
                self._require_shown(column, array, rows)
            arrays[name] = convert(array, column.arrow)
        return arrays

    def _require_shown(self, column: PageColumn, array: pa.Array, rows: RowsOfGroups) -> None:
        """Raise UnreadableColumnError if some INT96 timestamps would be shown as other instants."""
        hidden = int96.find_hidden(array, column.arrow.unit)
        if hidden.any():
            group = int(np.searchsorted(np.cumsum(rows.counts), int(hidden.argmax()), "right"))
            problem, row_group = int96.OUTSIDE_OF_UNIT[column.arrow.unit], int(self.groups.ordinals[group])
            raise UnreadableColumnError(problem, row_group=row_group, column=column.leaf.name)


def _find_flags(footer: Footer, leaf: SchemaLeaf) -> int:
    """Return the flags of a column's chunks that follow from their writer, as `ChunkBatch` takes them."""
    is_chained = footer.doubts_of(leaf) & Doubt.SINGLE_PAGES
    return (IS_CHAINED if is_chained else 0) | (IS_COMPRESSED if footer.denies_compression else 0)


def _make_values(column: PageColumn, targets: Targets, numbers: NDArray[np.int32]) -> pa.Array:
    """Return the values of a flat column in rows that were found, by the numbers of their targets."""
    if len(numbers) <= _FEW_ROWS:  # `take` imports pyarrow.compute
        return convert(make_array(column.layout, list(map(targets.__getitem__, numbers.tolist()))), column.arrow)
    used, positions = np.unique(numbers, return_inverse=True)
    values = make_array(column.layout, list(map(targets.__getitem__, used.tolist())))
    return convert(values.take(from_numpy(positions)), column.arrow)


def _make_lists(column: PageColumn, valid: NDArray[np.bool_], ends: NDArray[np.int32], elements: _Values) -> pa.Array:
    """Make the array of a column of what `ChunkBatch.take` returns."""
    values = convert(make_array_of_buffers(column.layout, int(ends[-1]), *elements), column.arrow.value_type)
    nulls = len(valid) - int(np.count_nonzero(valid))
    bits = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(column.arrow, len(valid), [bits, pa.py_buffer(ends)], nulls, 0, [values])


def _join_ranges(selections: Selections, num_rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many ranges of rows each row group has, and all ranges, (n, 2); those of None are all of its rows."""
    ranges = [
        [(0, count)] if selection is None else selection
        for selection, count in zip(selections, num_rows.tolist(), strict=True)
    ]
    joined = [one for some in ranges for one in some]
    return np.array([len(some) for some in ranges], np.int64), np.array(joined, np.int64).reshape(-1, 2)
