"""Few rows of many row groups of files: searched, and taken out of their pages, by compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnreadableColumnError, UnusualPageError
from ...hashing import int96
from ...metadata.footer import (
    PHYSICAL_TYPES,
    REQUIRED,
    Footer,
    Leaf,
    concatenate_records,
    find_first_pages,
    read_repetition,
)
from ...metadata.page_index import DELTA_BYTE_ARRAY
from ...metadata.page_match import Targets
from ...metadata.thrift_compact import have_path
from ...metadata.writer_rules import Doubt
from ...storage.local.open_files import RangeReader
from ...util.arrow_values import from_numpy
from ..reader import BloomFile
from .chunk_batch import HAS_BITS, IS_CHAINED, IS_COMPRESSED, MAX_CHUNK_BYTES, ChunkBatch, PageHeaders
from .chunk_values import list_levels
from .decompress import KNOWN_CODECS
from .fetched_ranges import FetchedRanges
from .fetcher import PageFetcher
from .plain import convert, make_array, make_array_of_buffers
from .plan import FlatColumn, ListColumn, RowPositions, find_flat_columns, find_list_columns
from .rows import byte_width, unpack_pages

MAX_TAKEN_BYTES = 16 << 20
"""Rows with more bytes of values than that are not taken at once."""

_VALUE_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 16}
_HEADER_BYTES = 64 << 10  # of page headers that are kept of a file
_FEW_ROWS = 1024
_SAMPLE, _SAMPLE_OF, _FAR_TOO_MANY = 1 << 12, 1 << 16, 1.5
_Values = tuple[NDArray[np.bool_] | None, NDArray[np.int32] | None, NDArray[np.uint8]]  # as of `RowTaker.finish`
_LARGE_BYTES = 1 << 20  # of a chunk: searching less takes no longer than reading its page index


def decoded_width(leaf: Leaf) -> int:
    """Return the memory that a decoded value of a column takes at least; of byte arrays a guess."""
    return _VALUE_BYTES.get(leaf.physical, leaf.length or 0)


class RowsOfGroups(NamedTuple):
    """Some rows of row groups.

    Attributes
    ----------
    counts : how many each row group has; int64.
    rows : their numbers in their row group, ascending, one row group after the other; int64.
    """

    counts: NDArray[np.int64]
    rows: RowPositions


class RowGroupBatch:
    """Row groups of files with the same schema, of which few rows are read: see also `of_file`.

    Parameters
    ----------
    footers : of the files.
    row_groups : (number of a file, its row group) of each.
    columns : the files' flat columns, and those of lists, by name.
    files : the same files, open.
    headers : of each file, the page headers that are known (see `CachedFooter`), to which those that are read are
        added; None to keep none.
    fetcher : fetches what is about to be read of these row groups, if the file is not local.

    Attributes
    ----------
    num_rows : of each row group; int64.
    grown : numbers of the files of which headers were added.

    Raises
    ------
    MalformedFooterError
        A footer is unusual: its file has to be read by itself.
    """

    def __init__(
        self,
        footers: Sequence[Footer],
        row_groups: Sequence[tuple[int, int]],
        columns: Mapping[str, FlatColumn | ListColumn],
        files: RangeReader,
        headers: list[dict[int, bytes]] | None = None,
        fetcher: PageFetcher | None = None,
    ):
        self._footers = [footer.data for footer in footers]
        self._doubted = [(number, footer) for number, footer in enumerate(footers) if footer.writer_rules.rules]
        self._stored_leaf = footers[0].stored_leaf
        self._columns = columns
        self._fetcher = fetcher
        known = None if headers is None else PageHeaders(headers, _HEADER_BYTES)
        self.grown: set[int] = set() if known is None else known.grown
        self._batch = ChunkBatch(files, unpack_pages, known)
        self._width = len(footers[0].leaves)
        self._chunks: dict[int, NDArray[np.int64]] = {}  # by the number of their leaf
        self._files, self._numbers = np.array(row_groups, np.int64).reshape(-1, 2).T.copy()
        numbers = self._numbers
        self._starts = np.array([footer.start for footer in footers], np.int64)[self._files]
        groups = concatenate_records([footer.row_groups for footer in footers])
        ends = np.cumsum([len(footer.row_groups) for footer in footers])
        firsts = ends - [len(footer.row_groups) for footer in footers]
        if any(footer.encrypted for footer in footers) or (numbers >= (ends - firsts)[self._files]).any():
            raise MalformedFooterError("metadata: encrypted, or of other row groups")
        selected = groups[firsts[self._files] + numbers]
        self._records = concatenate_records([footer.chunks for footer in footers])
        chunk_ends = np.cumsum([len(footer.chunks) for footer in footers])
        self._first = np.concatenate([[0], chunk_ends[:-1]])[self._files] + selected["first_chunk"]
        self.num_rows: NDArray[np.int64] = np.ascontiguousarray(selected["num_rows"])
        is_whole = selected["num_columns"] == self._width
        if not is_whole.all() or (self._first + self._width > chunk_ends[self._files]).any():
            raise MalformedFooterError("metadata: column chunks are missing")
        self._require_value_per_row([leaf.index for leaf in footers[0].leaves if not leaf.repeated])

    @classmethod
    def of_file(cls, file: BloomFile, schema: pa.Schema | None, row_groups: Sequence[int]) -> RowGroupBatch:
        """Make the batch of row groups of one file of any kind, which stays open; its reads are counted at its source.

        What is read of a file that is not local is fetched all at once: its pages by the page index, or whole chunks.

        Parameters
        ----------
        schema : the file's Arrow schema, as pyarrow reads it; None to take no rows.
        row_groups : their numbers.
        """
        columns: dict[str, FlatColumn | ListColumn] = {}
        if schema is not None:
            columns = {**find_list_columns(file, schema), **find_flat_columns(file, schema)}
        numbers = [(0, number) for number in row_groups]
        if file.source.path is not None:
            return cls([file.footer], numbers, columns, FetchedRanges(file.source), [file.cached.page_headers])
        fetcher = PageFetcher(file, row_groups)
        return cls([file.footer], numbers, columns, fetcher.ranges, [fetcher.known], fetcher)

    def fetch_pages(self, names: Sequence[str], rows: RowsOfGroups) -> list[str]:
        """Fetch the pages of a remote file that have some rows, and return the columns of which that is worthwhile."""
        fetcher, leaves = self._fetcher, [self._columns[name].leaf for name in names]
        if fetcher is None:
            return list(names)
        fetched = fetcher.fetch(leaves, _split_rows(rows), whole=False)
        return [name for name, leaf in zip(names, leaves, strict=True) if leaf.index in fetched]

    def count_pages(self, leaf: Leaf) -> int:
        """Return how many data pages the chunks of a flat column have; for errors see `search`."""
        return self._batch.count_pages(self.find_chunks(leaf))

    def _require_value_per_row(self, leaves: Sequence[int]) -> None:
        """Raise MalformedFooterError unless flat columns have one value per row, as `Footer.require_value_per_row`."""
        records = self._records[self._first[:, None] + np.array(leaves, np.int64)]
        wrong = (records["num_values"] != self.num_rows[:, None]) & (records["meta_start"] >= 0)
        if wrong.any():
            raise MalformedFooterError("metadata: a column has other numbers of values than rows")

    @property
    def cost(self) -> tuple[int, int]:
        """Requests and bytes that were read."""
        return self._batch.requests, self._batch.num_bytes

    @cached_property
    def total_rows(self) -> int:
        """Rows of all row groups."""
        return int(self.num_rows.sum())

    def _find_records(self, leaves: Sequence[Leaf]) -> NDArray[np.void]:
        """Return what the footers say of chunks, of shape (leaves, row groups)."""
        return self._records[self._first + np.array([[leaf.index] for leaf in leaves], np.int64)]

    def supports(self, names: Sequence[str]) -> bool:
        """Return whether rows of some columns can be taken out of their pages, in no more time than by a page index."""
        return all(self._takes(self._columns.get(name)) for name in names)

    def _takes(self, column: FlatColumn | ListColumn | None) -> bool:
        if isinstance(column, ListColumn):
            return not self.find_indexed(column.leaf)  # chunks of lists are read whole
        # What a predicate says of INT96 is about stored values: what is shown may be cut.
        return column is not None and column.layout is not None and column.leaf.physical != "INT96"

    def find_untakable(self, names: Sequence[str]) -> dict[str, str]:
        """Return the columns of which the footers tell that rows cannot be taken out of pages, and why not, by name."""
        return {name: reason for name in names if (reason := self._find_reason(self._columns.get(name)))}

    def _find_reason(self, column: FlatColumn | ListColumn | None) -> str | None:
        if column is None:
            return "neither one value a row, nor a list of single values"
        if column.layout is None:
            return f"stored as {column.leaf.physical}, shown as {column.arrow}"
        try:
            self.find_chunks(column.leaf)
        except MalformedFooterError as error:
            return error.problem
        records = self._records[self._first + column.leaf.index]
        if not np.isin(records["codec"], KNOWN_CODECS).all():
            return "a codec that is not known here"
        if isinstance(column, ListColumn) and int(records["compressed_size"].max(initial=0)) > MAX_CHUNK_BYTES:
            return f"a chunk of lists of more than {MAX_CHUNK_BYTES >> 20} MiB"
        for number, footer in self._doubted:
            if footer.doubts_of(column.leaf) & Doubt.SINGLE_PAGES:
                encodings = [footer.encodings(record) for record in records[self._files == number]]
                if any(DELTA_BYTE_ARRAY in some for some in encodings):
                    return "values may begin as the last one of the page before"
        return None

    def find_indexed(self, leaf: Leaf) -> list[int]:
        """Return which row groups have a large chunk of a column, with a page index."""
        records = self._records[self._first + leaf.index]
        is_large = (records["compressed_size"] >= _LARGE_BYTES) & (records["offset_index_offset"] >= 0)
        return np.flatnonzero(is_large).tolist()

    def find_chunks(self, leaf: Leaf) -> NDArray[np.int64]:
        """Return where a column's chunks are, as `ChunkBatch` takes them.

        Raises
        ------
        MalformedFooterError
            One is not where chunks can be, or of another column.
        """
        if leaf.index not in self._chunks:
            self._locate_chunks([leaf])
        return self._chunks[leaf.index]

    def _locate_chunks(self, leaves: Sequence[Leaf]) -> None:
        """Find the chunks of several columns at once; see `find_chunks`."""
        records = self._find_records(leaves)
        start = find_first_pages(records)
        size, types = records["compressed_size"], [[PHYSICAL_TYPES.index(leaf.physical)] for leaf in leaves]
        usual = (records["meta_start"] >= 0) & (records["encrypted"] == 0) & (records["external"] == 0)
        usual &= (records["physical_type"] == types) & (records["codec"] >= 0)
        usual &= (start > 0) & (size > 0) & (size <= self._starts - start)
        have_paths = [
            have_path(self._footers, self._files, np.ascontiguousarray(paths), self._stored_leaf(leaf).encoded_path)
            for leaf, paths in zip(leaves, records["path_start"], strict=True)
        ]
        if not usual.all() or not all(have_paths):
            raise MalformedFooterError("metadata: a column chunk is unusual")
        flags = np.array([[HAS_BITS if leaf.physical == "BOOLEAN" else 0] for leaf in leaves], np.int64)
        flags = np.repeat(flags, len(self._footers), axis=1)
        for number, footer in self._doubted:
            flags[:, number] |= [_find_flags(footer, leaf) for leaf in leaves]
        same = np.broadcast_to(np.stack([self._files, self.num_rows]), (len(leaves), 2, len(self._files)))
        columns = start, size, same[:, 1], records["codec"], records["num_values"], flags[:, self._files]
        tables = np.stack([same[:, 0], *columns], axis=2)
        self._chunks.update(zip([leaf.index for leaf in leaves], tables, strict=True))

    def search(
        self,
        name: str,
        targets: Targets,
        most: int,
        selections: Sequence[Sequence[tuple[int, int]] | None] | None = None,
        fetched: bool = False,
    ) -> tuple[RowsOfGroups, NDArray[np.int32]] | None:
        """Find the rows with one of some values.

        Parameters
        ----------
        name : a column that `supports` accepts, whose equal values have equal bytes.
        most : the search ends if there are more rows.
        selections : of each row group the ranges [start, stop) of rows whose pages are searched, ascending; None for
            all. Rows of these pages outside of the ranges may be found, too.
        fetched : as for `read`.

        Returns
        -------
        The rows, and the number of the target that each of them has; None if there are more than `most`.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        leaf = self._columns[name].leaf
        if self._fetcher is not None and not fetched:
            self.find_chunks(leaf)  # where they are was checked before anything is fetched
            self._fetcher.fetch([leaf], None if selections is None else _split_ranges(selections, self.num_rows))
        if selections is None:
            chunks = self._find_small_chunks(leaf)
            arguments = byte_width(leaf), leaf.required, targets
            if self.total_rows >= _SAMPLE_OF and self._has_far_too_many(chunks, *arguments, most):
                return None
            result = self._batch.search(chunks, *arguments, most)
        else:
            counts, ranges = _join_ranges(selections, self.num_rows)
            selected = targets, most, counts, ranges
            result = self._batch.search_rows(self.find_chunks(leaf), byte_width(leaf), leaf.required, *selected)
        return None if result is None else (RowsOfGroups(*result[:2]), result[2])

    def _has_far_too_many(
        self, chunks: NDArray[np.int64], width: int, required: bool, targets: Targets, most: int
    ) -> bool:
        """Return whether the first rows show that there are far more than `most`, before all are searched."""
        count = min(int(chunks[0, 3]), _SAMPLE)
        if not count:
            return False
        ranges = np.array([1], np.int64), np.array([[0, count]], np.int64)
        result = self._batch.search_rows(chunks[:1], width, required, targets, int(chunks[0, 3]), *ranges)
        if result is None:
            return True
        return int((result[1] < count).sum()) * self.total_rows > _FAR_TOO_MANY * most * count

    def search_lists(self, leaf: Leaf, targets: Targets, most: int) -> tuple[RowsOfGroups, pa.Array | None] | None:
        """Find the rows whose list has one of some elements; for errors see `search`.

        Parameters
        ----------
        leaf : the elements of the lists, whose equal values have equal bytes.
        most : the search ends if there are more rows.

        Returns
        -------
        The rows, and their lists if the column is one that `supports` accepts. None if there are more than `most`.
        """
        chunks, found = self._find_small_chunks(leaf), self._columns.get(leaf.path[0])
        if self._fetcher is not None:
            self._fetcher.fetch([leaf], None)
        column = found if isinstance(found, ListColumn) else None
        taken = column is not None
        result = self._batch.search_lists(chunks, byte_width(leaf), *_find_levels(leaf), targets, most, taken)
        if result is None:
            return None
        counts, rows, lists = result
        arrays = None if column is None or lists is None else _make_lists(column, *lists)
        return RowsOfGroups(counts, rows), arrays

    def _find_small_chunks(self, leaf: Leaf) -> NDArray[np.int64]:
        chunks = self.find_chunks(leaf)
        if len(chunks) and int(chunks[:, 2].max()) > MAX_CHUNK_BYTES:
            raise UnusualPageError("a column chunk is large")
        return chunks

    def make_array(self, name: str, targets: Targets, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the values of a column in the rows that `search` returned, by the numbers of their targets."""
        column = self._columns[name]
        if len(numbers) <= _FEW_ROWS:  # `take` imports pyarrow.compute
            stored = [targets[number] for number in numbers.tolist()]
            return convert(make_array(column.layout, stored), column.arrow)
        used, positions = np.unique(numbers, return_inverse=True)
        values = make_array(column.layout, [targets[number] for number in used.tolist()])
        return convert(values.take(from_numpy(positions)), column.arrow)

    def read(self, names: Sequence[str], rows: RowsOfGroups, fetched: bool = False) -> dict[str, pa.Array]:
        """Read some rows.

        Parameters
        ----------
        names : columns that `supports` accepts.
        fetched : whether `fetch_pages` has fetched their pages.

        Returns
        -------
        The values of each column in all rows, row group after row group.

        Raises
        ------
        MalformedFooterError, StorageError
            They have to be read in another way.
        UnreadableColumnError
            A column holds INT96 timestamps that its type cannot show.
        """
        columns = [self._columns[name] for name in names]
        count = len(rows.rows)
        if sum([byte_width(column.leaf) for column in columns]) * count > MAX_TAKEN_BYTES:
            raise UnusualPageError("many bytes")
        if leaves := [column.leaf for column in columns if column.leaf.index not in self._chunks]:
            self._locate_chunks(leaves)
        if self._fetcher is not None and not fetched:
            self._fetcher.fetch([column.leaf for column in columns], _split_rows(rows))
        arrays, num_bytes = {}, 0
        for name, column in zip(names, columns, strict=True):
            leaf = column.leaf
            if isinstance(column, ListColumn):
                chunks = self._find_small_chunks(leaf)
                lists = self._batch.take_lists(chunks, byte_width(leaf), *_find_levels(leaf), *rows)
                num_bytes += len(lists[2][2])
                arrays[name] = _make_lists(column, *lists)
                continue
            buffers = self._batch.take(self.find_chunks(leaf), byte_width(leaf), leaf.required, *rows)
            num_bytes += len(buffers[2])
            if num_bytes > MAX_TAKEN_BYTES:
                raise UnusualPageError("many bytes")
            array = make_array_of_buffers(column.layout, count, *buffers)
            if leaf.physical == "INT96":
                self._require_shown(column, array, rows)
            arrays[name] = convert(array, column.arrow)
        return arrays

    def _require_shown(self, column: FlatColumn, array: pa.Array, rows: RowsOfGroups) -> None:
        """Raise UnreadableColumnError if some INT96 timestamps would be shown as other instants."""
        hidden = int96.find_hidden(array, column.arrow.unit)
        if hidden.any():
            group = int(np.searchsorted(np.cumsum(rows.counts), int(hidden.argmax()), "right"))
            problem, row_group = int96.OUTSIDE_OF_UNIT[column.arrow.unit], int(self._numbers[group])
            raise UnreadableColumnError(problem, row_group=row_group, column=column.leaf.name)


def _find_flags(footer: Footer, leaf: Leaf) -> int:
    """Return the flags of a column's chunks that follow from their writer, as `ChunkBatch` takes them."""
    is_chained = footer.doubts_of(leaf) & Doubt.SINGLE_PAGES
    return (IS_CHAINED if is_chained else 0) | (IS_COMPRESSED if footer.denies_compression else 0)


def _find_levels(leaf: Leaf) -> tuple[NDArray[np.int64], int]:
    """Return the levels of a column of lists, as `ChunkBatch.search_lists` takes them."""
    return list_levels(leaf), sum(read_repetition(node) != REQUIRED for node in leaf.nodes)


def _make_lists(column: ListColumn, valid: NDArray[np.bool_], ends: NDArray[np.int32], elements: _Values) -> pa.Array:
    """Make the array of a column of what `ChunkBatch.take_lists` returns."""
    values = convert(make_array_of_buffers(column.layout, int(ends[-1]), *elements), column.arrow.value_type)
    nulls = len(valid) - int(np.count_nonzero(valid))
    bits = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(column.arrow, len(valid), [bits, pa.py_buffer(ends)], nulls, 0, [values])


def _join_ranges(
    selections: Sequence[Sequence[tuple[int, int]] | None], num_rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many ranges of rows each row group has, and all ranges, (n, 2); those of None are all of its rows."""
    ranges = [
        [(0, count)] if selection is None else selection
        for selection, count in zip(selections, num_rows.tolist(), strict=True)
    ]
    joined = [one for some in ranges for one in some]
    return np.array([len(some) for some in ranges], np.int64), np.array(joined, np.int64).reshape(-1, 2)


def _split_ranges(
    selections: Sequence[Sequence[tuple[int, int]] | None], num_rows: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the ranges of rows of each row group, as `PageFetcher` takes them."""
    counts, ranges = _join_ranges(selections, num_rows)
    return np.split(ranges, np.cumsum(counts)[:-1])


def _split_rows(rows: RowsOfGroups) -> list[NDArray[np.int64]]:
    """Return the rows of each row group as ranges of one."""
    ranges = np.stack([rows.rows, rows.rows + 1], axis=1)
    return np.split(ranges, np.cumsum(rows.counts)[:-1])
