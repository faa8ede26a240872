"""Some pages of a column chunk instead of all: found by its page index, decoded by pyarrow.

pyarrow reads whole column chunks. So the dictionary page and the data pages that hold the rows wanted are fetched, and
put into a Parquet file in memory that has nothing else; where few rows of them are wanted, these alone are taken out
of the pages. Whatever is odd about a column is no error here: it is left to be read whole.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import MalformedFooterError
from ..metadata.footer import ColumnPages, Leaf
from ..metadata.page_index import KnownPages, OffsetIndex, read_page_header
from . import page_lookup
from .page_lookup import PageLookup
from .page_rows import RowsOfPage, Unsupported, equal_rows, plain_rows, unpacked_page
from .plain_values import array_of, arrow_array, is_same
from .reader import BloomFile

FEW = 16
"""If no more than one in so many of the pages' rows is wanted, these rows are taken out before anything is decoded."""

SHORT = 1 << 15
"""Rows of pages that may be taken out even if all of them are wanted: of types that Arrow has as the file has them."""

SMALL_DICTIONARY = 64 * 1024
"""Dictionary pages of no more bytes are fetched with the data pages, larger ones only if these make use of them."""

_RUN = 8  # so many times as many may be wanted of rows that follow one another, as those of a zone do
_FEW_SCHEMAS = 8  # of column choices that are kept with a footer

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Plan:
    """What is read of a column chunk.

    Attributes
    ----------
    leaf, known : the column, and its pages.
    pages : numbers of the data pages wanted, ascending.
    ends : how many of the rows wanted are in these pages up to each of them, itself included.
    """

    leaf: Leaf
    known: KnownPages
    pages: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def index(self) -> OffsetIndex:
        return self.known.index

    @property
    def dictionary(self) -> tuple[int, int]:
        """Range of the file that is the dictionary page; of length 0 if there is none."""
        return self.known.start, int(self.index.offsets[0]) - self.known.start

    @property
    def num_rows(self) -> int:
        return int(self.index.counts[self.pages].sum())

    def spans(self) -> list[tuple[int, int]]:
        """Ranges of the file that are the pages, as (offset, length); those that follow one another are one range."""
        index, spans = self.index, []
        if len(self.pages) == 1:
            page = self.pages[0]
            return [(int(index.offsets[page]), int(index.sizes[page]))]
        for run in np.split(self.pages, np.flatnonzero(np.diff(self.pages) > 1) + 1):
            begin, last = int(index.offsets[run[0]]), int(run[-1])
            spans.append((begin, int(index.offsets[last] + index.sizes[last]) - begin))
        return spans

    def split(self, data: memoryview) -> list[memoryview]:
        """The pages, of all their bytes."""
        if len(self.pages) == 1:
            return [data]
        ends = np.cumsum(self.index.sizes[self.pages]).tolist()
        return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def unread(self) -> NDArray[np.int64]:
        """The pages in front of the last one wanted that are neither wanted themselves nor confirmed."""
        if self.known.confirmed >= self.pages[-1]:
            return self.pages[:0]
        front = np.arange(self.known.confirmed, self.pages[-1])
        return np.setdiff1d(front, self.pages, assume_unique=True)

    def positions(self, rows: Rows) -> Rows:
        """Where rows of the row group, those that the plan was made for, stand among those of the pages wanted."""
        counts = self.index.counts[self.pages]
        before = np.cumsum(counts) - counts
        return rows + np.repeat(before - self.index.rows[self.pages], np.diff(self.ends, prepend=0))

    def by_page(self, rows: Rows) -> list[Rows]:
        """The same rows, page by page, counted from the page's first one."""
        ends, firsts = self.ends.tolist(), self.index.rows[self.pages].tolist()
        begins = [0, *ends[:-1]]
        return [rows[begin:end] - first for begin, end, first in zip(begins, ends, firsts, strict=True)]


@dataclass(frozen=True, eq=False)
class _Fetched:
    """The bytes of a plan: the dictionary page, or nothing where the pages make no use of it, and the data pages."""

    plan: _Plan
    dictionary: memoryview
    pages: memoryview


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
        self._lookup = PageLookup(file, row_group)

    def bounds(self, leaves: Iterable[Leaf]) -> dict[int, KnownPages]:
        """The pages of those leaves of which both indexes are usable, by the leaf's number; `bounds` are there."""
        found = self._lookup.find(leaves, bounds=True)
        return self._lookup.confirm({leaf: known for leaf, known in found.items() if known.bounds is not None})

    def give_up(self, leaf: Leaf, problem: str) -> None:
        """Use the page index of a column no more, for a reason that the log tells."""
        self._lookup.give_up(leaf.index, problem)

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
        if not len(rows):
            return {}
        known = self._lookup.find(leaves)
        plans = [self._plan(leaf, known[leaf.index], rows) for leaf in leaves if leaf.index in known]
        fetched = self._fetch([plan for plan in plans if plan is not None])
        is_run = int(rows[-1] - rows[0]) + 1 == len(rows)
        share = len(rows) * (FEW // _RUN if is_run else FEW)
        found = self._few([one for one in fetched if share <= one.plan.num_rows or self._is_short(one.plan)], rows)
        for one in fetched:
            plan = one.plan
            if plan.leaf.path[0] not in found:
                column = self._decode([self._whole(one)], plan.num_rows)
                if len(rows) < plan.num_rows:
                    column = {name: take_rows(values, plan.positions(rows)) for name, values in column.items()}
                found |= column
        return found

    def read_equal(self, name: str, rows: Rows, wanted: list[bytes]) -> tuple[Rows, pa.ChunkedArray] | None:
        """The rows whose value is one of some others, and these values; None where that cannot be seen from the bytes.

        Parameters
        ----------
        name, rows : as in `read`.
        wanted : values as they are stored; of columns whose equal values are stored alike.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        leaf = self._flat.get(name)
        if leaf is None or not len(rows) or not is_same(leaf, self._schema.field(name).type):
            return None
        known = self._lookup.find([leaf]).get(leaf.index)
        plan = None if known is None else self._plan(leaf, known, rows)
        if plan is None or plan.num_rows > SHORT:
            return None
        for one in self._fetch([plan]):
            try:
                places, values = equal_rows(*self._rows_of(one, rows), wanted)
            except Unsupported:
                return None
            return rows[places], pa.chunked_array([array_of(self._schema.field(name).type, values)])
        return None

    def _is_short(self, plan: _Plan) -> bool:
        """Whether the values of whole pages are had sooner by taking them out than in a file for pyarrow."""
        return plan.num_rows <= SHORT and is_same(plan.leaf, self._schema.field(plan.leaf.path[0]).type)

    def _plan(self, leaf: Leaf, known: KnownPages, rows: Rows) -> _Plan | None:
        index = known.index
        if len(rows) == 1:
            plan = _Plan(leaf, known, index.pages_of(rows), np.ones(1, np.int64))
        else:
            counts = np.diff(np.searchsorted(rows, index.rows))
            pages = np.flatnonzero(counts)
            plan = _Plan(leaf, known, pages, np.cumsum(counts[pages]))
        total = plan.dictionary[1] + index.num_bytes
        # Requests count where the file is not local; of a local one the heads take next to nothing.
        heads = zip(*known.heads(plan.unread), strict=True) if self._file.source.path is None else ()
        price = self._lookup.price([plan.dictionary, *plan.spans(), *heads])
        return plan if price <= page_lookup.WORTHWHILE * total else None

    def _fetch(self, plans: list[_Plan]) -> list[_Fetched]:
        """What is read for each plan; plans whose index lies are left out.

        Dictionaries that the pages make no use of are not fetched if they are large: writers give one up then.

        The headers of the pages in front are looked at as well, unless they were before: an index that gives them too
        many rows and others too few would give the pages wanted the wrong ones.
        """
        parts = []
        for plan in plans:
            early = plan.dictionary if plan.dictionary[1] <= SMALL_DICTIONARY else (plan.known.start, 0)
            parts.append(_ranges([*plan.spans(), early]))
        doubtful = [plan for plan in plans if len(plan.unread)]
        data = self._lookup.gather(parts + [plan.known.heads(plan.unread) for plan in doubtful])
        heads = dict(zip(doubtful, data[len(plans) :], strict=True))
        fetched, late = [], []
        for plan, came in zip(plans, data, strict=False):
            known, sizes = plan.known, plan.index.sizes[plan.pages]
            num_bytes = int(sizes.sum())
            pages, dictionary = came[:num_bytes], came[num_bytes:]
            agrees = known.agree(plan.pages, pages, sizes)
            if plan in heads:
                agrees = agrees and known.agree(plan.unread, heads[plan], known.heads(plan.unread)[1])
            if not agrees:
                self._lookup.give_up(plan.leaf.index)
                continue
            known.confirmed = max(known.confirmed, int(plan.pages[-1]) + 1)
            used = any(read_page_header(page).needs_dictionary for page in plan.split(pages.data))
            late.append(plan.dictionary if used and not len(dictionary) else (known.start, 0))
            fetched.append(_Fetched(plan, dictionary.data if used else memoryview(b""), pages.data))
        missing = self._lookup.gather([_ranges([span]) for span in late]) if any(size for _, size in late) else []
        for number, dictionary in enumerate(missing):
            if len(dictionary):
                fetched[number] = _Fetched(fetched[number].plan, dictionary.data, fetched[number].pages)
        return [one for one in fetched if _is_dictionary(one.dictionary)]

    def _few(self, fetched: list[_Fetched], rows: Rows) -> dict[str, pa.ChunkedArray]:
        """The rows wanted alone, taken out of their pages, as far as that can be had."""
        found, others = {}, []
        for one in fetched:
            leaf = one.plan.leaf
            arrow = self._schema.field(leaf.path[0]).type
            try:
                taken = plain_rows(*self._rows_of(one, rows))
                if is_same(leaf, arrow):
                    found[leaf.path[0]] = pa.chunked_array([arrow_array(arrow, *taken)])
                else:
                    others.append(ColumnPages(leaf, b"", taken.page(leaf), plain=True))
            except (Unsupported, MalformedFooterError, ValueError):  # pyarrow tells what is wrong, if anything is
                continue
        return found | self._decode(others, len(rows)) if others else found

    @staticmethod
    def _rows_of(fetched: _Fetched, rows: Rows) -> tuple[Leaf, int | None, memoryview, list[RowsOfPage]]:
        """The arguments of `plain_rows`."""
        plan = fetched.plan
        parts = map(RowsOfPage, plan.split(fetched.pages), plan.by_page(rows))
        return plan.leaf, plan.known.codec, fetched.dictionary, list(parts)

    @staticmethod
    def _whole(fetched: _Fetched) -> ColumnPages:
        """Whole pages of a column, decompressed where that takes less time here than in pyarrow."""
        plan = fetched.plan
        dictionary, pages = fetched.dictionary, plan.split(fetched.pages)
        try:
            packed = [*pages, dictionary] if len(dictionary) else pages
            unpacked = [unpacked_page(page, plan.known.codec) for page in packed]
        except Unsupported:
            return ColumnPages(plan.leaf, dictionary, fetched.pages)
        dictionary = memoryview(unpacked.pop() if len(dictionary) else b"")
        return ColumnPages(plan.leaf, dictionary, b"".join(unpacked), plain=True)

    def _decode(self, columns: Sequence[ColumnPages], num_rows: int) -> dict[str, pa.ChunkedArray]:
        """The values of the pages, of the whole columns' types; nothing if pyarrow makes something else of them."""
        names = [column.leaf.path[0] for column in columns]
        expected = [self._schema.field(name) for name in names]
        try:
            encoded = self._file.footer.columns_file(self._row_group, columns, num_rows, self._arrow_schema(names))
            table = pq.ParquetFile(pa.BufferReader(encoded), pre_buffer=False).read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError):  # reading it whole tells what is wrong, if anything is
            return {}
        same = table.schema.names == names and table.num_rows == num_rows
        same = same and all(map(partial(pa.Field.equals, check_metadata=True), table.schema, expected))
        return dict(zip(names, table.columns, strict=True)) if same else {}

    def _arrow_schema(self, names: Sequence[str]) -> bytes | None:
        """What the file keeps of the Arrow types of some columns, as key "ARROW:schema" has it."""
        stored = self._file.footer.key_value_metadata.get(b"ARROW:schema")
        if stored is None:
            return None
        known = self._file.known.stored_schemas
        found = known.get(tuple(names))
        if found is None:
            whole = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
            fields = [whole.field(self._schema.get_field_index(name)) for name in names]
            found = base64.b64encode(pa.schema(fields).serialize().to_pybytes())
            if len(known) >= _FEW_SCHEMAS:
                known.clear()
            known[tuple(names)] = found
        return found


def _ranges(spans: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    offsets, lengths = np.array(spans, np.int64).reshape(-1, 2).T
    return offsets, lengths


def _is_dictionary(page: memoryview) -> bool:
    """Whether bytes are one dictionary page, or none at all."""
    try:
        header = read_page_header(page) if len(page) else None
    except MalformedFooterError:
        return False
    return header is None or (header.is_dictionary and header.num_bytes == len(page))


def take_rows(data: pa.Table | pa.ChunkedArray, rows: Rows) -> pa.Table | pa.ChunkedArray:
    """Rows of a table or column by their positions, ascending; of every type."""
    if isinstance(data, pa.Table):
        columns = [take_rows(column, rows) for column in data.columns]
        return pa.Table.from_arrays(columns, schema=data.schema) if columns else data.slice(0, len(rows))
    if len(rows) == len(data):
        return data
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(rows) * FEW > len(data):
        return data.slice(int(rows[0]), len(rows))
    ends = np.cumsum([len(chunk) for chunk in data.chunks])
    parts = np.split(rows, np.searchsorted(rows, ends[:-1])) if data.num_chunks else []
    # Chunk by chunk: `take` would join them first.
    taken = [
        _take_of_chunk(chunk, part - (end - len(chunk)))
        for chunk, part, end in zip(data.chunks, parts, ends, strict=True)
        if len(part)
    ]
    return pa.chunked_array(taken, data.type)


def _take_of_chunk(chunk: pa.Array, rows: Rows) -> pa.Array:
    try:
        if len(rows) * FEW <= len(chunk):
            return chunk.take(pa.array(rows))
        mask = np.zeros(len(chunk), bool)
        mask[rows] = True
        return chunk.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:  # pyarrow takes no rows out of some types, views of strings among them
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return pa.concat_arrays([chunk.slice(int(run[0]), len(run)) for run in runs])
