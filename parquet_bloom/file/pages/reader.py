"""Some pages of a column chunk instead of all: found by its page index, decoded by pyarrow.

pyarrow reads whole column chunks. So the dictionary page and the data pages that hold the rows wanted are fetched, and
put into a Parquet file in memory that has nothing else; where few rows of them are wanted, these alone are taken out
of the pages. Whatever is odd about a column is no error here: it is left to be read whole.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import MalformedFooterError
from ...metadata.footer import Leaf
from ...metadata.footer_rewrite import ColumnPages, make_columns_file
from ...metadata.page_index import CachedPageIndex
from ..reader import BloomFile
from . import lookup as page_lookup
from .lookup import PageLookup
from .plain import arrow_array, has_arrow_layout, make_array
from .plan import FetchedPages, FlatColumn, PagePlan, RowPositions
from .rows import Page, Unsupported, extract_rows, find_equal_rows

SPARSE_FACTOR = 16
"""If no more than one in so many of the pages' rows is wanted, these rows are taken out before anything is decoded."""

SHORT = 1 << 15
"""Rows of pages that may be taken out even if all of them are wanted: of types that Arrow has as the file has them."""

SMALL_DICTIONARY = 64 * 1024
"""Dictionary pages of no more bytes are fetched with the data pages, larger ones only if these make use of them."""

_RUN_FACTOR = 8  # so many times as many may be wanted of rows that follow one another, as those of a zone do
_MAX_SCHEMAS = 8  # of column choices that are kept with a footer


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

    def bounds(self, leaves: Iterable[Leaf]) -> dict[int, CachedPageIndex]:
        """The pages of those leaves of which both indexes are usable, by the leaf's number; `bounds` are there."""
        found = self._lookup.find(leaves, bounds=True)
        return self._lookup.confirm({leaf: known for leaf, known in found.items() if known.bounds is not None})

    def give_up(self, leaf: Leaf, problem: str) -> None:
        """Use the page index of a column no more, for a reason that the log tells."""
        self._lookup.give_up(leaf.index, problem)

    @property
    def _flat(self) -> dict[str, FlatColumn]:
        """The flat columns by their names; worked out once for a file and a schema."""
        kept: tuple[pa.Schema, dict[str, FlatColumn]] | None = self._file.cached.derived.get("flat_columns")
        if kept is None or kept[0] is not self._schema:
            names = Counter(self._schema.names)
            tops = Counter(leaf.path[0] for leaf in self._file.leaves)
            found = {}
            for leaf in self._file.leaves:
                name = leaf.path[0]
                if len(leaf.path) == 1 and not leaf.repeated and names[name] == 1 == tops[name]:
                    arrow = self._schema.field(name).type
                    found[name] = FlatColumn(leaf, arrow, has_arrow_layout(leaf, arrow))
            kept = self._file.cached.derived["flat_columns"] = self._schema, found
        return kept[1]

    def is_flat(self, name: str) -> bool:
        """Whether a column may be read by pages, as far as the schema tells."""
        return name in self._flat

    def read(self, names: Iterable[str], rows: RowPositions) -> dict[str, pa.ChunkedArray]:
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
        flat = self._flat
        columns = [flat[name] for name in dict.fromkeys(names) if name in flat]
        if not len(rows):
            return {}
        fetched = self._fetch(self._plans(columns, rows))
        found = self._few([one for one in fetched if _prefers_rows(one.plan, rows)], rows)
        for one in fetched:
            plan = one.plan
            if plan.leaf.path[0] not in found:
                column = self._decode([one.whole()], plan.num_rows)
                if len(rows) < plan.num_rows:
                    column = {name: take_rows(values, plan.positions(rows)) for name, values in column.items()}
                found |= column
        return found

    def read_equal(
        self, name: str, rows: RowPositions, wanted: list[bytes]
    ) -> tuple[RowPositions, pa.ChunkedArray] | None:
        """The rows whose value is one of some others, and these values; None where that cannot be seen from the bytes.

        Parameters
        ----------
        name, rows : as in `read`.
        wanted : values as they are stored; of columns whose equal values are stored alike.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        column = self._flat.get(name)
        if column is None or not len(rows) or not column.same:
            return None
        plans = [plan for plan in self._plans([column], rows) if _prefers_rows(plan, rows)]
        for one in self._fetch(plans):
            try:
                places, values = find_equal_rows(*one.rows_of(rows), wanted)
            except Unsupported:
                return None
            return rows[places], pa.chunked_array([make_array(column.arrow, values)])
        return None

    def _plans(self, columns: Sequence[FlatColumn], rows: RowPositions) -> list[PagePlan]:
        """What is to be read of those columns that have a page index, where that is worthwhile."""
        known = self._lookup.find([column.leaf for column in columns])
        plans = []
        for column in columns:
            if column.leaf.index in known:
                plan = PagePlan.of(column, known[column.leaf.index], rows)
                total = plan.dictionary[1] + plan.cached.index.num_bytes
                # Requests count where the file is not local; of a local one the heads take next to nothing.
                heads = plan.cached.header_spans(plan.unread()) if self._file.source.path is None else ()
                if self._lookup.price([plan.dictionary, *plan.spans(), *heads]) <= page_lookup.WORTHWHILE * total:
                    plans.append(plan)
        return plans

    def _fetch(self, plans: list[PagePlan]) -> list[FetchedPages]:
        """What is read for each plan; plans whose index lies are left out.

        Dictionaries that the pages make no use of are not fetched if they are large: writers give one up then.

        The headers of the pages in front are looked at as well, unless they were before: an index that gives them too
        many rows and others too few would give the pages wanted the wrong ones.
        """
        parts, unread = [], []
        for plan in plans:
            has_early = plan.dictionary[1] <= SMALL_DICTIONARY
            parts.append([*plan.spans(), plan.dictionary] if has_early else plan.spans())
            unread.append(plan.unread())
        heads = [plan.cached.header_spans(pages) for plan, pages in zip(plans, unread, strict=True)]
        data = self._lookup.gather(parts + heads)
        fetched, late = [], []
        for plan, pages, came, read in zip(plans, unread, data, data[len(plans) :], strict=False):
            known, num_bytes = plan.cached, sum(plan.sizes)
            try:
                found = plan.split(came[:num_bytes])
                agrees = all(
                    known.matches_header(number, page.header) for number, page in zip(plan.pages, found, strict=True)
                )
            except MalformedFooterError:
                agrees = False
            if not agrees or (len(pages) and not known.headers_agree(pages, read)):
                self._lookup.give_up(plan.leaf.index)
                continue
            known.confirmed = max(known.confirmed, plan.pages[-1] + 1)
            is_used = any(page.header.needs_dictionary for page in found)
            dictionary = came[num_bytes:] if is_used else came[:0]
            late.append([plan.dictionary] if is_used and not len(dictionary) else [])
            fetched.append((plan, dictionary, found))
        complete = []
        for (plan, dictionary, found), later in zip(fetched, self._lookup.gather(late), strict=True):
            with suppress(MalformedFooterError):
                complete.append(FetchedPages(plan, _parse_dictionary(dictionary or later), found))
        return complete

    def _few(self, fetched: list[FetchedPages], rows: RowPositions) -> dict[str, pa.ChunkedArray]:
        """The rows wanted alone, taken out of their pages, as far as that can be had."""
        found, others = {}, []
        for one in fetched:
            column = one.plan.column
            try:
                taken = extract_rows(*one.rows_of(rows))
                if column.same:
                    found[column.leaf.path[0]] = pa.chunked_array([arrow_array(column.arrow, *taken)])
                else:
                    others.append(ColumnPages(column.leaf, b"", taken.page(column.leaf), plain=True))
            except (Unsupported, MalformedFooterError, ValueError):  # pyarrow tells what is wrong, if anything is
                continue
        return found | self._decode(others, len(rows)) if others else found

    def _decode(self, columns: Sequence[ColumnPages], num_rows: int) -> dict[str, pa.ChunkedArray]:
        """The values of the pages, of the whole columns' types; nothing if pyarrow makes something else of them."""
        names = [column.leaf.path[0] for column in columns]
        expected = [self._schema.field(name) for name in names]
        try:
            encoded = make_columns_file(
                self._file.footer, self._row_group, columns, num_rows, self._arrow_schema(names)
            )
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
        known: dict[tuple[str, ...], bytes] = self._file.cached.derived.setdefault("stored_schemas", {})
        found = known.get(tuple(names))
        if found is None:
            whole = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
            fields = [whole.field(self._schema.get_field_index(name)) for name in names]
            found = base64.b64encode(pa.schema(fields).serialize().to_pybytes())
            if len(known) >= _MAX_SCHEMAS:
                known.clear()
            known[tuple(names)] = found
        return found


def _prefers_rows(plan: PagePlan, rows: RowPositions) -> bool:
    """Whether rows are had sooner by taking them out of their pages than by decoding these."""
    is_run = int(rows[-1] - rows[0]) + 1 == len(rows)
    share = len(rows) * (SPARSE_FACTOR // _RUN_FACTOR if is_run else SPARSE_FACTOR)
    return share <= plan.num_rows or (plan.num_rows <= SHORT and plan.column.same)


def _parse_dictionary(data: memoryview) -> Page | None:
    """The dictionary page that some bytes are, None if there are none; MalformedFooterError if they are another."""
    if not len(data):
        return None
    page = Page.of(data)
    if not page.header.is_dictionary or page.header.num_bytes != len(data):
        raise MalformedFooterError("page index: there is no dictionary page where it says")
    return page


def take_rows(data: pa.Table | pa.ChunkedArray, rows: RowPositions) -> pa.Table | pa.ChunkedArray:
    """Rows of a table or column by their positions, ascending; of every type."""
    if isinstance(data, pa.Table):
        columns = [take_rows(column, rows) for column in data.columns]
        return pa.Table.from_arrays(columns, schema=data.schema) if columns else data.slice(0, len(rows))
    if len(rows) == len(data):
        return data
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(rows) * SPARSE_FACTOR > len(data):
        return data.slice(int(rows[0]), len(rows))
    ends = np.cumsum([len(chunk) for chunk in data.chunks])
    parts = np.split(rows, np.searchsorted(rows, ends[:-1])) if data.num_chunks else []
    # Chunk by chunk: `take` would join them first.
    taken = [
        _take_from_chunk(chunk, part - (end - len(chunk)))
        for chunk, part, end in zip(data.chunks, parts, ends, strict=True)
        if len(part)
    ]
    return pa.chunked_array(taken, data.type)


def _take_from_chunk(chunk: pa.Array, rows: RowPositions) -> pa.Array:
    try:
        if len(rows) * SPARSE_FACTOR <= len(chunk):
            return chunk.take(pa.array(rows))
        mask = np.zeros(len(chunk), bool)
        mask[rows] = True
        return chunk.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:  # pyarrow takes no rows out of some types, views of strings among them
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return pa.concat_arrays([chunk.slice(int(run[0]), len(run)) for run in runs])
