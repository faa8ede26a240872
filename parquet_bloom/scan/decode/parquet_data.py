"""An open Parquet file, and the decoder "columns": whole columns of its row groups by pyarrow, or windows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import UnreadableColumnError, first_line
from ...file.bloom_file import BloomFile
from ...file.chunk_bounds import decode_leaf_bounds
from ...file.column_reader import ColumnReader
from ...file.column_statistics import ColumnCompatibility, file_statistics
from ...file.file_columns import select_leaves, type_of
from ...file.metadata_cache import CachedFooter
from ...file.page_checks import PageClaimError, PageWalk, find_unknown, require_pages, require_value_per_row
from ...file.pages.page_columns import PageColumn
from ...file.pages.page_lookup import PageLookup
from ...file.pages.row_group_batch import RowGroupBatch, RowGroups
from ...hashing import int96
from ...hashing.column_type import Domain
from ...metadata.footer import SchemaLeaf
from ...metadata.page_index import ASCENDING, DESCENDING, CachedPageIndex
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.pruning_statistics import CutBound, PruningStatistics, PruningStatisticsArray
from ...util.arrow_values import take_rows
from ...util.lazy import late_module
from ..model.file_schemas import arrow_schema, open_parquet_file, reading
from ..model.row_selection import (
    RowPositions,
    RowRanges,
    RowSelection,
    find_runs,
    intersect_ranges,
    slice_rows,
    to_range_list,
    to_row_ranges,
)
from ..model.scan_plan import PARQUET
from ..scan_options import Limits

if TYPE_CHECKING:
    from typing import Self

    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")


MAX_LITERALS = 1000
"""Predicates with more literals are not evaluated on pages: preparing them again costs more than pages save."""


@dataclass(frozen=True)
class _Column:
    """A column of the predicate with page statistics.

    Attributes
    ----------
    rows : first row of each page, then the number of rows.
    statistics : of each page.
    """

    rows: NDArray[np.int64]
    statistics: PruningStatisticsArray


def select_rows_by_pages(
    file: BloomFile, row_group: int, pages: PageLookup, predicate: PruningPredicate
) -> RowRanges | None:
    """Return the rows that page statistics leave; None for all of them."""
    if sum(len(leaf.literals) for leaf in tree.leaves(predicate.node)) > MAX_LITERALS:
        return None
    file_columns = file_statistics(file, predicate.columns)
    leaves = {
        name: column.leaf
        for name, column in file_columns.columns.items()
        if column is not None and column.is_complete(row_group)
    }
    if file.cached.int96_unit:  # what is shown may be less than the least of what is stored
        leaves = {name: leaf for name, leaf in leaves.items() if leaf.physical != "INT96"}
    bounds_of = pages.find_bounds(leaves.values())
    columns: dict[str, _Column] = {}
    for name, leaf in leaves.items():
        if leaf.index not in bounds_of:
            continue
        statistics = _page_statistics(file, row_group, leaf, bounds_of[leaf.index])
        if statistics is None:
            pages.give_up(leaf.index, "its bounds contradict the column chunk's, or their own order")
        else:
            columns[name] = _Column(bounds_of[leaf.index].index.rows, statistics)
    if not columns:
        return None
    # Between two borders no page of any column begins or ends.
    borders = np.unique(np.concatenate([column.rows for column in columns.values()]))
    count = len(borders) - 1
    evidence: dict[str, PruningStatisticsArray | None] = dict.fromkeys(predicate.columns)
    for name, leaf in leaves.items():
        if name in columns:
            page_of = np.searchsorted(columns[name].rows, borders[:-1], "right") - 1
            of_leaf = columns[name].statistics.at(page_of)
        else:
            of_leaf = PruningStatisticsArray.of(type_of(leaf), [PruningStatistics(type_of(leaf))]).at(
                np.zeros(count, np.intp)
            )
        evidence[name] = of_leaf.holding(file_columns.holds[name])
    possible = predicate.possible(predicate.decide_all(evidence, count))
    if possible.all():
        return None
    return borders[find_runs(possible)]


def _page_statistics(
    file: BloomFile, row_group: int, leaf: SchemaLeaf, pages: CachedPageIndex
) -> PruningStatisticsArray | None:
    """Return the statistics of each page; None if they contradict the column chunk's."""
    if pages.statistics is None:
        statistics = _read_page_statistics(file, leaf, pages)
        chunk = file.footer.statistics(file.record(row_group, leaf))
        bounds = decode_leaf_bounds(file.footer, leaf, chunk)
        if not _covers_chunk(statistics, *bounds) or not _is_ordered(statistics, pages):
            return None
        pages.statistics = PruningStatisticsArray.of(type_of(leaf), statistics)
    assert isinstance(pages.statistics, PruningStatisticsArray)
    return pages.statistics


def _read_page_statistics(file: BloomFile, leaf: SchemaLeaf, pages: CachedPageIndex) -> list[PruningStatistics]:
    index, column_type = pages.bounds, type_of(leaf)
    assert index is not None
    statistics = []
    counts = index.null_counts
    for page in range(pages.index.num_pages):
        low, high = decode_leaf_bounds(file.footer, leaf, index.statistics(page))
        # Without a count of nulls, nothing confirms that a page is null.
        has_values = None if counts is None else not index.null_pages[page]
        has_nulls = None if counts is None or leaf.shown_as_null else counts[page] > 0
        has_nans = None if index.nan_counts is None else index.nan_counts[page] != 0
        statistics.append(PruningStatistics(column_type, has_values, low, high, has_nulls=has_nulls, has_nans=has_nans))
    return statistics


def _covers_chunk(pages: list[PruningStatistics], low: Domain | None, high: Domain | None) -> bool:
    """Return whether the pages' bounds reach those of the column chunk, and no page lies outside of them."""
    if any(_is_disjoint(page, low, high) for page in pages):
        return False
    # Only numbers have to reach them: other bounds may be truncated, differently in pages and chunk.
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    bounded = [page for page in pages if page.has_values is not False]
    lows = [page.low for page in bounded if isinstance(page.low, int | float)]
    highs = [page.high for page in bounded if isinstance(page.high, int | float)]
    if not bounded or len(lows) < len(bounded) or len(highs) < len(bounded):
        return bool(bounded)
    return min(lows) <= low and max(highs) >= high


def _is_ordered(statistics: list[PruningStatistics], pages: CachedPageIndex) -> bool:
    """Return whether the pages' bounds are in the order that the index declares."""
    assert pages.bounds is not None
    order = pages.bounds.order
    if order not in (ASCENDING, DESCENDING):
        return True
    for bound in ("low", "high"):
        values = [value for page in statistics if (value := getattr(page, bound)) is not None]
        values = [bytes(value) if isinstance(value, CutBound) else value for value in values]  # which have no order
        if order == DESCENDING:
            values.reverse()
        if any(one > next_one for one, next_one in pairwise(values)):
            return False
    return True


def _is_disjoint(page: PruningStatistics, low: Domain | None, high: Domain | None) -> bool:
    """Return whether no value can lie within the bounds of both a page and its column chunk."""
    below = page.high is not None and low is not None and page.high < low  # type: ignore[operator]
    return below or (page.low is not None and high is not None and page.low > high)  # type: ignore[operator]


_LEAST_BUFFER_BYTES, _BUFFER_BYTES = 1 << 16, 1 << 20  # read at once of a chunk that is decoded in windows


class ParquetData:
    """`DataFile` of a Parquet file; also the only one of the files that are read together, see `OpenFiles`.

    pyarrow's reader is opened when something is first decoded. Of a local file several threads may decode. It reads one
    column chunk after the other; those of an object are fetched concurrently before.

    Parameters
    ----------
    file : the file.
    limits : how much is decoded at once.
    open_reader : opens it with pyarrow.
    int96_unit : unit of pyarrow's timestamps for INT96 ones; None for that of the file's cache entry.
    """

    format = PARQUET

    def __init__(
        self,
        file: BloomFile,
        limits: Limits | None = None,
        open_reader: Callable[[BloomFile], pq.ParquetFile] = open_parquet_file,
        int96_unit: str | None = None,
    ):
        self.file, self.path, self.source = file, file.path, file.source
        self.limits = limits or Limits(max_bytes=None)
        self._open_reader, self._int96_unit = open_reader, int96_unit or file.cached.int96_unit or "ns"
        self._reader: pq.ParquetFile | None = None
        self._selected: dict[tuple[str, ...] | None, NDArray[np.intp]] = {}
        self._lock = Lock()

    @property
    def footers(self) -> Sequence[CachedFooter]:
        return (self.file.cached,)

    @property
    def is_local(self) -> bool:
        return self.source.path is not None

    def make_pages(self, groups: RowGroups, columns: Mapping[str, PageColumn]) -> RowGroupBatch:
        return RowGroupBatch.of_file(self.file, groups, columns, self.limits.page_costs)

    def borrow(self, number: int) -> nullcontext[ParquetData]:
        return nullcontext(self)

    def remember(self, pages: RowGroupBatch) -> None:
        """Update the size in the cache of the file, if its entry has grown."""
        if pages.grown:
            self.file.remember()

    @property
    def leaves(self) -> list[SchemaLeaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return self.file.row_groups

    @property
    def schema(self) -> pa.Schema:
        if "arrow_schemas" in self.file.cached.derived:
            return arrow_schema(self.file)
        with reading(self.file):
            return arrow_schema(self.file)

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        with reading(self.file):
            return arrow_schema(self.file, columns)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.footer.num_rows_of(row_group)

    def find_stripe(self, row_group: int) -> None:
        return None

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return trust.doubts(self.file)

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        ranges = None if selection is None else to_row_ranges(selection)
        with reading(self.file):
            if isinstance(predicate, PruningPredicate):
                self.require_rows(row_group, sorted(tree.columns(predicate.node)))
                pages = PageLookup(self.file, row_group, self.limits.page_costs)
                ranges = intersect_ranges(select_rows_by_pages(self.file, row_group, pages, predicate), ranges)
        all_rows = [(0, self.num_rows_of(row_group))]
        return all_rows if ranges is None else to_range_list(ranges)

    def close(self) -> None:
        if self._reader is not None:  # has a descriptor of its own
            self._reader.close(force=True)
            self._reader = None
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------- whole columns

    @property
    def parquet_file(self) -> pq.ParquetFile:
        """Pyarrow's reader."""
        if self._reader is None:
            with self._lock:
                if self._reader is None:
                    reader = self._open_reader(self.file)
                    _ = reader.metadata  # pyarrow shows other threads an object that is not complete yet, at first
                    self._reader = reader
        return self._reader

    def read_all(
        self,
        row_groups: Sequence[int],
        names: Sequence[str] | None,
        used: Sequence[RowPositions] | None = None,
        is_usual: bool = False,
    ) -> pa.Table:
        """Read all rows of columns of row groups.

        Parameters
        ----------
        names : columns as `pyarrow.parquet` takes them; None for all of them.
        used : of each row group the rows that are shown; None for all of all.
        is_usual : whether the file is local, `require_rows` finds nothing, and the caller counts what is read.

        Raises
        ------
        MalformedFooterError, UnreadableColumnError
            A column has other numbers of values than the row group has rows, or pyarrow shows others than are stored.
        """
        for number, row_group in enumerate(row_groups if self._int96_leaves else ()):
            self.require_shown(row_group, names, None if used is None else used[number])
        if not is_usual:
            self._prepare(row_groups, names)
        columns = None if names is None else list(names)
        try:
            table = self.parquet_file.read_row_groups(list(row_groups), columns, use_threads=self.limits.use_threads)
        except (pa.ArrowException, OSError) as error:
            self.refuse_unknown(row_groups, names)
            if len(row_groups) > 1 or self.file.footer.encrypted or not isinstance(error, pa.ArrowException):
                raise
            raise UnreadableColumnError(f"cannot be read: {first_line(error)}", row_group=row_groups[0]) from error
        counts = [self.num_rows_of(row_group) for row_group in row_groups]
        if table.num_columns and table.num_rows != sum(counts):
            self.refuse_unknown(row_groups, names)
            raise make_count_error(row_groups[0], table.num_rows, sum(counts))
        return table

    def refuse_unknown(self, row_groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Raise an error if what could not be read has codecs, encodings or pages that are not known."""
        leaves = [] if self.file.footer.encrypted else select_leaves(self.leaves, names)
        for row_group in row_groups:
            for leaf in leaves:
                problem = find_unknown(self.source, self.file.footer, row_group, leaf)
                if problem:
                    problem = f"cannot be read: {problem}"
                    raise UnreadableColumnError(problem, row_group=row_group, column=leaf.name)

    def read_rows(self, row_group: int, names: Sequence[str] | None, rows: RowPositions) -> pa.Table:
        """Read some rows of a row group, ascending; in windows if it is large."""
        num_rows, num_bytes = self.num_rows_of(row_group), 0
        if self.limits.max_bytes is not None:
            groups = RowGroups([self.file.footer], [(0, row_group)])
            num_bytes = int(groups.estimate([0], names, self.limits.widths)[0])
        if not self.limits.needs_windows(num_bytes):
            table = self.read_all([row_group], names, [rows])
            self.limits.note(table)
            return take_rows(table, rows)
        parts = []
        stream, window_rows = RowStream(self, row_group, names), self.limits.window_rows(num_rows, num_bytes)
        for start in range(0, num_rows, window_rows):
            part = slice_rows(rows, start, start + window_rows)
            if len(part):
                stop = min(start + window_rows, num_rows)
                parts.append(take_rows(stream.read(start, stop, part), part - start))
        return pa.concat_tables(parts)

    def require_shown(self, row_group: int, names: Sequence[str] | None, rows: RowPositions | None = None) -> None:
        """Raise an error if pyarrow shows other instants than are stored in INT96 columns, in some rows; None for all.

        Raises
        ------
        UnreadableColumnError
            It does.
        """
        if not self._int96_leaves:
            return
        selected = self._select_leaves(names)
        for leaf in self._int96_leaves:
            if leaf.index not in selected:
                continue
            hidden = self._find_hidden(row_group, leaf, names)
            if len(hidden) and (rows is None or leaf.repeated or np.isin(hidden, rows).any()):
                problem = int96.OUTSIDE_OF_UNIT[self._int96_unit]
                raise UnreadableColumnError(problem, row_group=row_group, column=leaf.name)

    @cached_property
    def _int96_leaves(self) -> list[SchemaLeaf]:
        return [leaf for leaf in self.file.footer.leaves if leaf.physical == "INT96"]

    def _find_hidden(self, row_group: int, leaf: SchemaLeaf, names: Sequence[str] | None) -> RowPositions:
        """Return the rows of a column, or the elements of its lists, that pyarrow shows as other instants."""
        cached: dict[tuple[int, int, str], RowPositions]
        cached = self.file.cached.derived.setdefault("hidden_int96", {})
        key = row_group, leaf.index, self._int96_unit
        if key not in cached:
            self.prefetch(row_group, names)
            self.source.count(1, max(0, int(self.file.record(row_group, leaf)["compressed_size"])))
            reader, unit = ColumnReader(self.source, self.file.footer, leaf), self._int96_unit
            rows = np.empty(0, np.int64)
            # What occurs takes half the time of all rows, which matter only where something is hidden.
            if any(int96.find_hidden(values, unit).any() for values in reader.read_stored(row_group)):
                rows = np.flatnonzero(
                    np.concatenate([int96.find_hidden(array, unit) for array in reader.batches(row_group)])
                )
            cached[key] = rows
        return cached[key]

    def stream(self, row_group: int, names: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some columns in order, in batches of so many."""
        self.require_rows(row_group, names)
        self.prefetch(row_group, names)
        columns = None if names is None else list(names)
        # A reader of its own: the size of batches is a property of pyarrow's reader.
        with (
            self.source.counted_arrow_file() as opened,  # it may not be read to the end
            pq.ParquetFile(
                opened,
                metadata=self.parquet_file.metadata,
                pre_buffer=False,
                coerce_int96_timestamp_unit=self.file.cached.int96_unit,
                buffer_size=self._buffer_bytes(row_group, names),
            ) as file,
        ):
            try:
                yield from file.iter_batches(rows, [row_group], columns, use_threads=self.limits.use_threads)
            except (pa.ArrowException, OSError):
                self.refuse_unknown([row_group], names)
                raise

    def _buffer_bytes(self, row_group: int, names: Sequence[str] | None) -> int:
        """Return how much of a chunk is read at once; 0 for all of it.

        Chunks of remote files are fetched whole. In local files no page may claim more bytes than its chunk has:
        pyarrow would allocate them.
        """
        source, footer = self.source, self.file.footer
        chunks = self._find_chunks(row_group, names)
        if source.path is None or chunks is None or not len(chunks):
            return 0
        for start, record in zip(footer.first_pages[chunks].tolist(), footer.chunks[chunks], strict=True):
            end = min(start + int(record["compressed_size"]), source.size)
            try:
                require_pages(source, PageWalk(start, end, int(record["num_values"])))
            except PageClaimError as error:
                column = footer.leaves[int(record["column"])].name
                problem = f"cannot be read: {error}"
                raise UnreadableColumnError(problem, row_group=row_group, column=column) from error
        share = self.limits.window_bytes(self.limits.max_bytes or 0) // len(chunks)
        return min(max(share, _LEAST_BUFFER_BYTES), _BUFFER_BYTES)

    def require_rows(self, row_group: int, names: Sequence[str] | None) -> None:
        """Raise MalformedFooterError unless some columns without lists have one value for each row of a row group.

        pyarrow would read as many rows as the row group declares, and silently ignore the others.
        """
        chunks = self._find_chunks(row_group, names)
        if chunks is None:
            return
        footer, first = self.file.footer, int(self.file.footer.row_groups[row_group]["first_chunk"])
        records = footer.chunks[chunks]
        wrong = (records["num_values"] != self.num_rows_of(row_group)) & (records["meta_start"] >= 0)
        for number in chunks[wrong].tolist():
            require_value_per_row(self.source, footer, row_group, footer.leaves[number - first])

    def prefetch(self, row_group: int, names: Sequence[str] | None) -> None:
        """Fetch the chunks of some columns concurrently, if the file is remote."""
        if self.source.path is not None:
            return
        chunks = self._find_chunks(row_group, names)
        if chunks is not None:
            footer = self.file.footer
            self.source.prefetch(footer.first_pages[chunks], footer.chunks["compressed_size"][chunks])

    def _prepare(self, row_groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Check columns as `require_rows` does, fetch them if the file is remote, and count pyarrow's reads of them."""
        footer = self.file.footer
        groups, leaves = footer.row_groups[list(row_groups)], self._select_leaves(names)
        if (groups["num_columns"] != len(footer.leaves)).any():
            return
        records = footer.chunks[groups["first_chunk"][:, None] + leaves]
        for row_group in row_groups:
            self.require_rows(row_group, names)
        if self.source.path is None:
            for row_group in row_groups:
                self.prefetch(row_group, names)
        self.source.count(records.size, int(np.maximum(records["compressed_size"], 0).sum()))  # each chunk by one

    def _find_chunks(self, row_group: int, names: Sequence[str] | None) -> NDArray[np.intp] | None:
        """Return the numbers of the chunks of some columns; None if the footer contradicts itself."""
        group = self.file.footer.row_groups[row_group]
        if int(group["num_columns"]) != len(self.file.footer.leaves):
            return None
        return int(group["first_chunk"]) + self._select_leaves(names)

    def _select_leaves(self, names: Sequence[str] | None) -> NDArray[np.intp]:
        """Return the indexes of the leaves of some columns."""
        key = None if names is None else tuple(names)
        if key not in self._selected:
            leaves = select_leaves(self.leaves, names)
            self._selected[key] = np.array([leaf.index for leaf in leaves], np.intp)
        return self._selected[key]


class RowStream:
    """The rows of some columns of a row group, decoded in order as they are requested."""

    def __init__(self, data: ParquetData, row_group: int, names: Sequence[str] | None):
        self._data, self._row_group, self._names = data, row_group, names
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._last: pa.RecordBatch | None = None
        self._start = self._stop = 0  # rows of the last batch

    def read(self, start: int, stop: int, rows: RowPositions | None = None) -> pa.Table:
        """Read a range of rows, which begins where the last one ended, or later.

        Parameters
        ----------
        rows : those that are used; None for all of the range.
        """
        self._data.require_shown(self._row_group, self._names, np.arange(start, stop) if rows is None else rows)
        if self._batches is None:
            self._batches = self._data.stream(self._row_group, self._names, stop - start)
        parts = []
        while start < stop:
            while self._stop <= start:
                self._last = None  # free its memory before the next one is read
                self._last = next(self._batches, None)
                if self._last is None:
                    self._data.refuse_unknown([self._row_group], self._names)
                    raise make_count_error(self._row_group, self._stop, self._data.num_rows_of(self._row_group))
                self._start, self._stop = self._stop, self._stop + self._last.num_rows
            end = min(stop, self._stop)
            assert self._last is not None
            parts.append(self._last.slice(start - self._start, end - start))
            start = end
        return pa.Table.from_batches(parts)


def make_count_error(row_group: int, num_rows: int, expected: int) -> UnreadableColumnError:
    """Make the error for a row group that does not have the rows that its footer declares."""
    return UnreadableColumnError(f"cannot be read: {num_rows} rows instead of {expected}", row_group=row_group)
