"""Some pages of a column chunk instead of all: found by its page index, decoded by pyarrow.

pyarrow reads whole column chunks. So the dictionary page and the data pages that hold the rows wanted are fetched, and
put into a Parquet file in memory that has nothing else. Whatever is odd about a column is no error here: it is left to
be read whole.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import MalformedFooterError, ParquetBloomError
from ..metadata.footer import Leaf
from ..metadata.page_index import (
    MAX_INDEX_BYTES,
    ColumnIndex,
    OffsetIndex,
    read_column_index,
    read_offset_index,
    read_page_header,
)
from .reader import BloomFile

SMALL_BYTES = 64 * 1024
"""A column chunk of fewer bytes is read whole: that costs less than to choose among its pages."""

WORTHWHILE = 0.5
"""A column chunk is read whole if the pages wanted, the dictionary's included, have a larger share of its bytes."""

_HEADER_BYTES = 512  # of a page that is not read: more than its header takes, unless it repeats long statistics

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is read of a column chunk.

    Attributes
    ----------
    leaf, index : the column, and its pages.
    start : where the chunk begins; up to the first data page it is the dictionary's.
    pages : numbers of the data pages wanted, ascending.
    """

    leaf: Leaf
    index: OffsetIndex
    start: int
    pages: NDArray[np.int64]

    @property
    def dictionary_bytes(self) -> int:
        return int(self.index.offsets[0]) - self.start

    @property
    def num_bytes(self) -> int:
        return self.dictionary_bytes + int(self.index.sizes[self.pages].sum())

    @property
    def num_rows(self) -> int:
        return int(np.diff(self.index.rows)[self.pages].sum())

    def spans(self) -> list[tuple[int, int]]:
        """Ranges of the file that are the pages, as (offset, length); those that follow one another are one range."""
        index, spans = self.index, []
        for run in np.split(self.pages, np.flatnonzero(np.diff(self.pages) > 1) + 1):
            begin, last = int(index.offsets[run[0]]), int(run[-1])
            spans.append((begin, int(index.offsets[last] + index.sizes[last]) - begin))
        return spans

    def split(self, pages: memoryview) -> list[memoryview]:
        """The pages, of all their bytes."""
        ends = np.cumsum(self.index.sizes[self.pages]).tolist()
        return [pages[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def unread(self) -> NDArray[np.int64]:
        """The pages in front of the last one wanted that are not wanted themselves."""
        return np.setdiff1d(np.arange(self.pages[-1]), self.pages)

    def positions(self, rows: Rows) -> Rows:
        """Where rows of the row group stand among those of the pages wanted."""
        counts = np.diff(self.index.rows)[self.pages]
        before = np.cumsum(counts) - counts
        number = np.searchsorted(self.pages, self.index.pages_of(rows))
        return rows - self.index.rows[self.pages[number]] + before[number]


class RowGroupPages:
    """Reads pages of one row group's columns.

    Parameters
    ----------
    file : the file.
    schema : its Arrow schema, as pyarrow reads it.
    row_group : which.
    """

    def __init__(self, file: BloomFile, schema: pa.Schema, row_group: int):
        self._file = file
        self._schema = schema
        self._row_group = row_group
        self._num_rows = file.footer.num_rows_of(row_group)
        self._found: dict[int, OffsetIndex | None] = {}
        self._confirmed: set[int] = set()

    # ---------------------------------------------------------------------------------------------------- indexes

    def column_indexes(self, leaves: Iterable[Leaf]) -> dict[int, tuple[OffsetIndex, ColumnIndex]]:
        """Both indexes of those leaves that have usable ones, by the leaf's number."""
        leaves = list(leaves)
        spans = {leaf.index: self._index_span(leaf, "column_index") for leaf in leaves}
        wanted = [leaf for leaf in leaves if spans[leaf.index]]
        self._locate(wanted)
        self._confirm(wanted)
        wanted = [leaf for leaf in wanted if self._found[leaf.index] is not None]
        data = self._file.source.read_ranges([span for leaf in wanted if (span := spans[leaf.index])])
        usable = {}
        for leaf, encoded in zip(wanted, data, strict=True):
            index = self._found[leaf.index]
            assert index is not None
            try:
                usable[leaf.index] = index, read_column_index(encoded, index)
            except MalformedFooterError:
                continue
        return usable

    def _locate(self, leaves: Iterable[Leaf]) -> None:
        """Read the OffsetIndexes of some leaves, all at once."""
        new = [leaf for leaf in leaves if leaf.index not in self._found]
        spans = {leaf.index: self._index_span(leaf, "offset_index") for leaf in new}
        self._found.update(dict.fromkeys(spans))
        wanted = [leaf for leaf in new if spans[leaf.index]]
        data = self._file.source.read_ranges([span for leaf in wanted if (span := spans[leaf.index])])
        for leaf, encoded in zip(wanted, data, strict=True):
            try:
                index = read_offset_index(encoded, self._num_rows)
            except MalformedFooterError:
                continue
            if self._fits(leaf, index):
                self._found[leaf.index] = index

    def _confirm(self, leaves: Iterable[Leaf]) -> None:
        """Drop indexes that the headers of their pages contradict: by wrong rows, wrong pages would be ruled out."""
        source = self._file.source
        indexes = [(leaf.index, index) for leaf in leaves if (index := self._found[leaf.index]) is not None]
        ranges = [span for _, index in indexes for span in _heads(index, range(index.num_pages))]
        heads = iter(source.read_ranges(ranges))
        for number, index in indexes:
            pages = range(index.num_pages)
            if _agree(index, pages, [next(heads) for _ in pages]):
                self._confirmed.add(number)
            else:
                self._found[number] = None

    def _index_span(self, leaf: Leaf, kind: str) -> tuple[int, int] | None:
        """Where an index of a chunk stands, as (offset, length); None if it has none that could be used."""
        file = self._file
        # Elsewhere than on a local file it would cost a request a page to confirm an index; none is believed unseen.
        if leaf.repeated or file.footer.encrypted or file.source.path is None:
            return None
        try:
            record = file.record(self._row_group, leaf)
        except ParquetBloomError:  # the footer contradicts itself: who reads the chunk whole will say so
            return None
        offset, length = int(record[f"{kind}_offset"]), int(record[f"{kind}_length"])
        inside = offset > 0 and 0 < length <= min(MAX_INDEX_BYTES, file.footer.start - offset)
        if not inside or record["external"] or record["encrypted"] or record["num_values"] != self._num_rows:
            return None
        return (offset, length) if int(record["compressed_size"]) >= SMALL_BYTES else None

    def _start(self, leaf: Leaf) -> int:
        record = self._file.record(self._row_group, leaf)
        dictionary, data = int(record["dictionary_page_offset"]), int(record["data_page_offset"])
        return dictionary if 0 < dictionary < data else data

    def _fits(self, leaf: Leaf, index: OffsetIndex) -> bool:
        """Whether the pages are those of the chunk: from a dictionary, or from its beginning, up to its end."""
        record, start = self._file.record(self._row_group, leaf), self._start(leaf)
        first, end = int(index.offsets[0]), int(index.offsets[-1] + index.sizes[-1])
        whole = start + int(record["compressed_size"])
        return 0 < start <= first and end == whole <= self._file.footer.start

    # ------------------------------------------------------------------------------------------------------ pages

    @cached_property
    def _flat(self) -> dict[str, Leaf]:
        """The columns whose rows are one value each, directly below the root, and of a name of their own."""
        names = self._schema.names
        flat = {leaf.path[0]: leaf for leaf in self._file.leaves if len(leaf.path) == 1 and not leaf.repeated}
        tops = [leaf.path[0] for leaf in self._file.leaves]
        return {name: leaf for name, leaf in flat.items() if names.count(name) == 1 == tops.count(name)}

    def is_flat(self, name: str) -> bool:
        """Whether a column may be read by pages, as far as the schema tells."""
        return name in self._flat

    def read(self, names: Iterable[str], rows: Rows) -> dict[str, pa.ChunkedArray]:
        """The values of some columns in some rows.

        Parameters
        ----------
        names : top-level columns; others are passed over.
        rows : rows of the row group, ascending, at least one.

        Returns
        -------
        A value a row for each column that can be read by pages, and where that is worthwhile. The others must be read
        whole.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        leaves = [self._flat[name] for name in dict.fromkeys(names) if name in self._flat]
        self._locate(leaves)
        plans = [plan for leaf in leaves if (plan := self._plan(leaf, rows)) is not None]
        found = {}
        for plan, pages in zip(plans, self._fetch(plans), strict=True):
            column = self._decode(plan, *pages) if pages is not None else None
            if column is not None:
                found[plan.leaf.path[0]] = take_rows(column, plan.positions(rows))
        return found

    def _plan(self, leaf: Leaf, rows: Rows) -> _Plan | None:
        index = self._found[leaf.index]
        if index is None or not len(rows):
            return None
        plan = _Plan(leaf, index, self._start(leaf), np.unique(index.pages_of(rows)))
        total = plan.dictionary_bytes + int(index.sizes.sum())
        return plan if plan.num_bytes <= WORTHWHILE * total else None

    def _fetch(self, plans: list[_Plan]) -> list[tuple[memoryview, memoryview] | None]:
        """The dictionary page and the data pages of each plan; None where the index lies about them.

        The dictionary is empty where the pages make no use of it: writers give one up when it becomes large, and so
        it is fetched after the pages.

        Of a local file the headers of the pages in front are looked at as well: an index that gives them too many rows
        and others too few would give the pages wanted the wrong ones. Elsewhere that would cost a request each.
        """
        ranges, counts = [], []
        for plan in plans:
            spans = plan.spans()
            ranges += spans
            counts.append(len(spans))
            if self._in_doubt(plan):
                ranges += _heads(plan.index, plan.unread().tolist())
        data, place, number = self._gather(ranges), 0, 0
        fetched: list[memoryview | None] = []
        dictionaries = []
        for plan, count in zip(plans, counts, strict=True):
            size = sum(length for _, length in ranges[number : number + count])
            pages, place, number = data[place : place + size], place + size, number + count
            unread, heads = plan.unread().tolist() if self._in_doubt(plan) else [], []
            for _, length in ranges[number : number + len(unread)]:
                heads.append(data[place : place + length])
                place, number = place + length, number + 1
            wanted = plan.split(pages)
            agree = _agree(plan.index, unread, heads) and _agree(plan.index, plan.pages.tolist(), wanted)
            fetched.append(pages if agree else None)
            used = agree and any(read_page_header(page).needs_dictionary for page in wanted)
            dictionaries.append((plan.start, plan.dictionary_bytes if used else 0))
        data, place = self._gather(dictionaries), 0
        found: list[tuple[memoryview, memoryview] | None] = []
        for page, (_, size) in zip(fetched, dictionaries, strict=True):
            dictionary, place = data[place : place + size], place + size
            found.append((dictionary, page) if page is not None and _is_dictionary(dictionary) else None)
        return found

    def _gather(self, ranges: list[tuple[int, int]]) -> memoryview:
        offsets, lengths = np.array(ranges, np.int64).reshape(-1, 2).T
        return self._file.source.gather(offsets, lengths).data

    def _in_doubt(self, plan: _Plan) -> bool:
        return plan.leaf.index not in self._confirmed

    def _decode(self, plan: _Plan, dictionary: memoryview, pages: memoryview) -> pa.ChunkedArray | None:
        """The values of the pages, of the whole column's type; None if pyarrow makes something else of them."""
        leaf, name = plan.leaf, plan.leaf.path[0]
        try:
            encoded = self._file.footer.column_file(
                self._row_group, leaf, dictionary, pages, plan.num_rows, self._arrow_schema(name)
            )
            table = pq.ParquetFile(pa.BufferReader(encoded), pre_buffer=False).read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError):  # reading it whole tells what is wrong, if anything is
            return None
        same = table.num_columns == 1 and table.schema.field(0).equals(self._schema.field(name), check_metadata=True)
        return table.column(0) if same and table.num_rows == plan.num_rows else None

    def _arrow_schema(self, name: str) -> bytes | None:
        """What the file keeps of the column's Arrow type, as key "ARROW:schema" has it."""
        stored = self._file.footer.key_value_metadata.get(b"ARROW:schema")
        if stored is None:
            return None
        whole = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
        field = whole.field(self._schema.get_field_index(name))
        return base64.b64encode(pa.schema([field]).serialize().to_pybytes())


def _heads(index: OffsetIndex, pages: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of the file that hold the headers of some pages."""
    spans = list(zip(index.offsets.tolist(), np.minimum(index.sizes, _HEADER_BYTES).tolist(), strict=True))
    return [spans[page] for page in pages]


def _agree(index: OffsetIndex, pages: Sequence[int], heads: Iterable[bytes | memoryview]) -> bool:
    """Whether data pages say of themselves what the index says of them."""
    counts, sizes = np.diff(index.rows).tolist(), index.sizes.tolist()
    try:
        for page, head in zip(pages, heads, strict=True):
            header = read_page_header(head)
            if header.is_dictionary or header.num_bytes != sizes[page] or header.num_values != counts[page]:
                return False
    except MalformedFooterError:
        return False
    return True


def _is_dictionary(page: memoryview) -> bool:
    """Whether bytes are one dictionary page, or none at all."""
    try:
        header = read_page_header(page) if len(page) else None
    except MalformedFooterError:
        return False
    return header is None or (header.is_dictionary and header.num_bytes == len(page))


def take_rows(data: pa.Table | pa.ChunkedArray, rows: Rows) -> pa.Table | pa.ChunkedArray:
    """Rows of a table or column by their positions, ascending; of every type."""
    try:
        mask = np.zeros(len(data), bool)
        mask[rows] = True
        return data.filter(pa.array(mask))  # `take` would join the chunks first
    except pa.ArrowNotImplementedError:  # pyarrow takes no rows out of some types, views of strings among them
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        parts = [data.slice(int(run[0]), len(run)) for run in runs if len(run)] or [data.slice(0, 0)]
        if isinstance(data, pa.Table):
            return pa.concat_tables(parts)
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], data.type)
