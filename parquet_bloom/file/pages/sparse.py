"""Few rows of many row groups of a local file: searched, and taken out of their pages, by compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError
from ...metadata.page_index import PageTable
from ...metadata.page_match import Targets
from ...metadata.page_rows import RowTaker
from ...util.arrow_values import from_numpy
from ..reader import BloomFile
from .decompress import Unsupported
from .lookup import PageLookup
from .plain import make_array, make_array_of_buffers
from .plan import FlatColumn, PagePlan, RowPositions
from .rows import byte_width, unpack_pages
from .search import search_chunk

TargetNumbers = NDArray[np.int32]

MAX_CHUNK_BYTES = 64 << 20
"""Larger column chunks are not searched at once."""

MAX_TAKEN_BYTES = 16 << 20
"""Rows with more bytes of values than that are not taken at once."""

SMALL_DICTIONARY = 64 * 1024
"""Dictionary pages up to this size are fetched with the data pages, larger ones only if these use them."""

_BATCH_BYTES = 4 << 20  # of chunks that are read at a time
_FEW_ROWS = 1024


class SparseRows:
    """Finds and reads few rows of row groups of a local file, all pages of which have a known kind.

    Parameters
    ----------
    file : the file.
    columns : its flat columns by name; see `FlatColumn`.
    """

    def __init__(self, file: BloomFile, columns: Mapping[str, FlatColumn]):
        self._file = file
        self._columns = columns
        self._lookups: dict[int, PageLookup] = {}

    def supports(self, names: Sequence[str]) -> bool:
        """Return whether the types of some columns allow to read them."""
        return all(name in self._columns and self._columns[name].same for name in names)

    def has_index(self, name: str, row_group: int) -> bool:
        """Return whether a chunk of a column is large and has a page index."""
        return self._lookup(row_group).has_index(self._columns[name].leaf)

    def search(
        self, name: str, row_groups: Sequence[int], targets: Targets
    ) -> tuple[dict[int, RowPositions], dict[int, TargetNumbers]] | None:
        """Find the rows of row groups with one of some values.

        Parameters
        ----------
        name : a column whose equal values have equal bytes.

        Returns
        -------
        {row group: its rows, ascending}, and {row group: the number of the target that each of these has}; None where a
        chunk has to be decoded to find them.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        leaf = self._columns[name].leaf
        spans = [self._lookup(row_group).chunk_span(leaf) for row_group in row_groups]
        rows, numbers = {}, {}
        for begin, end in _split([0 if span is None else span[1] for span in spans]):
            of_batch = [span for span in spans[begin:end] if span is not None and span[1] <= MAX_CHUNK_BYTES]
            if len(of_batch) < end - begin:
                return None
            chunks = self._lookup(row_groups[begin]).gather([[span] for span in of_batch])
            for row_group, (start, _), data in zip(row_groups[begin:end], of_batch, chunks, strict=True):
                codec = self._file.footer.codec(self._file.record(row_group, leaf))
                num_rows = self._file.footer.num_rows_of(row_group)
                try:
                    in_chunk = search_chunk(leaf, codec, data, start, num_rows, targets)
                except Unsupported:
                    return None
                rows[row_group], numbers[row_group] = in_chunk.rows, in_chunk.targets
                if in_chunk.pages is not None:
                    self._lookup(row_group).keep_walked(leaf, in_chunk.pages)
        return rows, numbers

    def make_array(self, name: str, targets: Targets, numbers: Mapping[int, TargetNumbers]) -> pa.Array:
        """Return the values of a column in the rows of all row groups that `search` returned, by their targets."""
        column = self._columns[name]
        every = np.concatenate([np.empty(0, np.int32), *numbers.values()])
        if len(every) <= _FEW_ROWS:  # `take` imports pyarrow.compute
            return make_array(column.arrow, [targets.values[number] for number in every.tolist()])
        used, positions = np.unique(every, return_inverse=True)
        return make_array(column.arrow, [targets.values[number] for number in used.tolist()]).take(
            from_numpy(positions)
        )

    def read(self, names: Sequence[str], rows: Mapping[int, RowPositions]) -> dict[str, pa.Array] | None:
        """Read some rows of row groups.

        Parameters
        ----------
        names : columns that `supports` accepts.
        rows : {row group: its rows, ascending}.

        Returns
        -------
        The values of each column in all rows, row group after row group; None if a column has to be decoded whole.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        groups = {row_group: positions for row_group, positions in rows.items() if len(positions)}
        count = sum(map(len, groups.values()))
        columns = [self._columns[name] for name in names]
        if sum([byte_width(column.leaf) for column in columns]) * count > MAX_TAKEN_BYTES:
            return None
        takers = [RowTaker(byte_width(column.leaf), column.leaf.required, count) for column in columns]
        for batch in self._plan_batches(columns, groups):
            if batch is None:
                return None
            lookup = self._lookup(next(iter(groups)))  # they are all of one file
            data = iter(lookup.gather([_find_spans(plan) for plans, _ in batch for plan in plans]))
            for plans, positions in batch:
                for plan, taker in zip(plans, takers, strict=True):
                    try:
                        self._take(plan, taker, next(data), positions)
                    except (MalformedFooterError, Unsupported, ValueError, pa.ArrowException, OSError):
                        return None  # pyarrow reports what is wrong, if anything is
            if sum([taker.num_bytes for taker in takers]) > MAX_TAKEN_BYTES:
                return None  # many rows have long values: they are decoded a window at a time
        try:
            buffers = [taker.finish() for taker in takers]
        except MalformedFooterError:
            return None
        return {
            name: make_array_of_buffers(column.arrow, count, *of_column)
            for name, column, of_column in zip(names, columns, buffers, strict=True)
        }

    def _plan_batches(
        self, columns: Sequence[FlatColumn], rows: Mapping[int, RowPositions]
    ) -> Iterator[list[tuple[list[PagePlan], RowPositions]] | None]:
        """Yield the plans of each row group, in batches of so many bytes; None where pages of one are not known."""
        batch: list[tuple[list[PagePlan], RowPositions]] = []
        num_bytes = 0
        for row_group, positions in rows.items():
            indexes = self._lookup(row_group).find_confirmed([column.leaf for column in columns])
            if any(column.leaf.index not in indexes for column in columns):
                yield None
                return
            plans = [PagePlan.of(column, indexes[column.leaf.index], positions) for column in columns]
            batch.append((plans, positions))
            num_bytes += sum([sum(plan.sizes) for plan in plans])
            if num_bytes > _BATCH_BYTES:
                yield batch
                batch, num_bytes = [], 0
        if batch:
            yield batch

    def _take(self, plan: PagePlan, taker: RowTaker, data: memoryview, rows: RowPositions) -> None:
        """Take the rows of a plan; `data` has the bytes of the ranges that `_find_spans` returns."""
        codec = plan.cached.codec
        num_early = plan.dictionary[1] if _is_early(plan) else 0
        dictionary, data = data[:num_early], data[num_early:]
        table = PageTable.of(data)
        if table.num_dictionaries or table.counts.tolist() != plan.counts or table.sizes.tolist() != plan.sizes:
            raise Unsupported("the pages are not those of the index")
        data, pages, packed_by = unpack_pages(data, table.pages, codec)
        taker.begin_chunk(packed_by)
        if table.needs_dictionary:
            if not num_early:
                dictionary = memoryview(self._file.source.read_at(*plan.dictionary))
            entries, page, _ = unpack_pages(dictionary, PageTable.of(dictionary).pages, codec)
            taker.set_dictionary(entries, page)
        for number, of_page in enumerate(plan.by_page(rows)):
            taker.take(data, pages[number : number + 1], 0, of_page)

    def _lookup(self, row_group: int) -> PageLookup:
        lookup = self._lookups.get(row_group)
        if lookup is None:
            lookup = self._lookups[row_group] = PageLookup(self._file, row_group)
        return lookup


def _is_early(plan: PagePlan) -> bool:
    """Return whether the dictionary is read with the pages."""
    return 0 < plan.dictionary[1] <= SMALL_DICTIONARY


def _find_spans(plan: PagePlan) -> list[tuple[int, int]]:
    """Return the ranges of a plan's pages, after that of the dictionary if it is small."""
    return [plan.dictionary, *plan.spans()] if _is_early(plan) else plan.spans()


def _split(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split into runs [begin, end) of at most `_BATCH_BYTES`, or of one member."""
    begin, total = 0, 0
    for number, size in enumerate(sizes):
        if number > begin and total + size > _BATCH_BYTES:
            yield begin, number
            begin, total = number, 0
        total += size
    if sizes:
        yield begin, len(sizes)
