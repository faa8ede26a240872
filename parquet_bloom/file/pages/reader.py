"""`RowGroupPages`: reads only some pages of a column chunk, located by its page index.

pyarrow reads whole column chunks. So the dictionary page and the data pages that hold the requested rows are fetched
and put into a small Parquet file in memory; where only a few of their rows are requested, these alone are extracted
from the pages. Anything unusual about a column is not an error here: the caller then reads the column whole.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnreadableColumnError
from ...hashing import int96
from ...metadata.footer import Leaf
from ...metadata.footer_rewrite import ColumnPages, make_columns_file
from ...metadata.page_index import CachedPageIndex
from ...util.arrow_select import has_kernels, take
from ...util.arrow_values import from_numpy
from ...util.lazy import late_module
from ..columns import holds_elements
from ..reader import BloomFile
from . import lookup as page_lookup
from .lookup import PageLookup
from .plain import arrow_array, find_layout, make_array
from .plan import FetchedPages, FlatColumn, ListColumn, PagePlan, RowPositions
from .rows import Page, PlainRows, extract_rows, find_equal_rows

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

SPARSE_FACTOR = 16
"""If at most one in so many of the pages' rows is requested, these rows are extracted before anything is decoded."""

SHORT = 1 << 15
"""Pages with up to so many rows may be extracted row by row even if all rows are requested, for types that Arrow stores
as Parquet does."""

SMALL_DICTIONARY = 64 * 1024
"""Dictionary pages up to this size are fetched with the data pages, larger ones only if these use them."""

_FEW_OF = 16  # rows of a local file: one of these is taken out of its pages, whatever their share of the chunk
_RUN_FACTOR = 8  # so many times more rows may be extracted if they are adjacent, as those of a zone are
_MAX_SCHEMAS = 8  # selections of columns that are cached with a footer


class RowGroupPages:
    """Reads pages of one row group's columns.

    Parameters
    ----------
    file : the file.
    schema : its Arrow schema, as pyarrow reads it.
    row_group : number of the row group.
    """

    def __init__(self, file: BloomFile, schema: pa.Schema, row_group: int):
        self._file = file
        self._schema = schema
        self._row_group = row_group
        self._lookup = PageLookup(file, row_group)

    def bounds(self, leaves: Iterable[Leaf]) -> dict[int, CachedPageIndex]:
        """Return the page indexes with `bounds` of those leaves of which both indexes are usable, by leaf index."""
        indexes = self._lookup.find(leaves, bounds=True)
        return self._lookup.confirm({leaf: index for leaf, index in indexes.items() if index.bounds is not None})

    def give_up(self, leaf: Leaf, problem: str) -> None:
        """Stop using the page index of a column, and log the problem."""
        self._lookup.give_up(leaf.index, problem)

    @property
    def _flat(self) -> dict[str, FlatColumn]:
        return find_flat_columns(self._file, self._schema)

    def is_flat(self, name: str) -> bool:
        """Return whether the schema allows reading a column by pages."""
        return name in self._flat

    def read(self, names: Iterable[str], rows: RowPositions) -> dict[str, pa.ChunkedArray]:
        """Read the values of some columns in some rows.

        Parameters
        ----------
        names : top-level columns; others are ignored.
        rows : rows of the row group, ascending, at least one.

        Returns
        -------
        One value per row for each column that can be read by pages and where that is worthwhile. The caller has to read
        the others whole.

        Raises
        ------
        StorageError, TruncatedFileError
        """
        flat = self._flat
        columns = [flat[name] for name in dict.fromkeys(names) if name in flat]
        if not len(rows):
            return {}
        fetched = self._fetch(self._plans(columns, rows))
        result = self._extract([pages for pages in fetched if _prefers_rows(pages.plan, rows)], rows)
        for pages in fetched:
            plan = pages.plan
            if plan.leaf.path[0] not in result and plan.leaf.physical != "INT96":
                column = self._decode([pages.to_column_pages()], plan.num_rows)
                if len(rows) < plan.num_rows:
                    column = {name: take_rows(values, plan.positions(rows)) for name, values in column.items()}
                result |= column
        return result

    def find_equal(
        self, name: str, rows: RowPositions, wanted: list[bytes]
    ) -> tuple[RowPositions, NDArray[np.int32]] | None:
        """Find the rows whose value is one of some others, and which of these; None where bytes cannot be compared.

        Parameters
        ----------
        name, rows : as in `read`.
        wanted : stored values; for columns whose equal values have equal bytes.

        Raises
        ------
        StorageError, TruncatedFileError, UnusualPageError
        """
        column = self._flat.get(name)
        if column is None or not len(rows) or not column.same:
            return None
        plans = [plan for plan in self._plans([column], rows) if _prefers_rows(plan, rows)]
        for pages in self._fetch(plans):
            positions, which = find_equal_rows(*pages.row_arguments(rows), wanted)
            return rows[positions], which
        return None

    def make_array(self, name: str, values: list[bytes]) -> pa.Array:
        """Make an array of stored values of a column that `find_equal` has searched."""
        return make_array(self._flat[name].arrow, values)

    def _plans(self, columns: Sequence[FlatColumn], rows: RowPositions) -> list[PagePlan]:
        """Plan the pages to read of those columns whose pages are known, where that is worthwhile."""
        leaves = [column.leaf for column in columns]
        if len(rows) * _FEW_OF <= self._file.footer.num_rows_of(self._row_group):
            self._lookup.walk(leaves)
        indexes = self._lookup.find(leaves)
        is_local = self._file.source.path is not None
        plans = []
        for column in columns:
            if column.leaf.index in indexes:
                plan = PagePlan.of(column, indexes[column.leaf.index], rows)
                total = plan.dictionary[1] + plan.cached.index.num_bytes
                # Requests cost if the file is remote; in a local file the headers take next to nothing.
                headers = () if is_local else plan.cached.header_spans(plan.unread())
                price = self._lookup.price([plan.dictionary, *plan.spans(), *headers])
                # To take few rows out of all pages of a local file is still faster than to decode them.
                is_sparse = is_local and len(rows) * _FEW_OF <= plan.num_rows
                if is_sparse or price <= page_lookup.WORTHWHILE * total:
                    plans.append(plan)
        return plans

    def _fetch(self, plans: list[PagePlan]) -> list[FetchedPages]:
        """Fetch the pages of each plan; plans whose page index is wrong are left out.

        Large dictionaries that the pages do not use are not fetched: writers abandon dictionaries that become large.

        The headers of all preceding pages are checked as well, unless they were before: an index that gives these too
        many or too few rows would assign wrong rows to the required pages.
        """
        parts, unread = [], []
        for plan in plans:
            has_early = plan.dictionary[1] <= SMALL_DICTIONARY
            parts.append([*plan.spans(), plan.dictionary] if has_early else plan.spans())
            unread.append(plan.unread())
        headers = [plan.cached.header_spans(pages) for plan, pages in zip(plans, unread, strict=True)]
        data = self._lookup.gather(parts + headers)
        fetched, late = [], []
        for plan, unread_pages, page_bytes, header_bytes in zip(plans, unread, data, data[len(plans) :], strict=False):
            cached, num_bytes = plan.cached, sum(plan.sizes)
            try:
                pages = plan.split(page_bytes[:num_bytes])
                agrees = all(
                    cached.matches_header(number, page.header) for number, page in zip(plan.pages, pages, strict=True)
                )
            except MalformedFooterError:
                agrees = False
            if not agrees or (len(unread_pages) and not cached.headers_agree(unread_pages, header_bytes)):
                self._lookup.give_up(plan.leaf.index)
                continue
            cached.confirmed = max(cached.confirmed, plan.pages[-1] + 1)
            is_used = any(page.header.needs_dictionary for page in pages)
            dictionary = page_bytes[num_bytes:] if is_used else page_bytes[:0]
            late.append([plan.dictionary] if is_used and not len(dictionary) else [])
            fetched.append((plan, dictionary, pages))
        complete = []
        for (plan, dictionary, pages), later in zip(fetched, self._lookup.gather(late), strict=True):
            with suppress(MalformedFooterError):
                complete.append(FetchedPages(plan, _parse_dictionary(dictionary or later), pages))
        return complete

    def _extract(self, fetched: list[FetchedPages], rows: RowPositions) -> dict[str, pa.ChunkedArray]:
        """Extract only the requested rows from their pages, for columns where that is supported."""
        result, others = {}, []
        for pages in fetched:
            column = pages.plan.column
            try:
                extracted = extract_rows(*pages.row_arguments(rows))
                if column.leaf.physical == "INT96":
                    result[column.leaf.path[0]] = self._show_int96(column, extracted)
                elif column.same:
                    result[column.leaf.path[0]] = pa.chunked_array([arrow_array(column.arrow, *extracted)])
                else:
                    others.append(ColumnPages(column.leaf, b"", extracted.page(column.leaf), plain=True))
            except (MalformedFooterError, ValueError):  # pyarrow reports what is wrong, if anything is
                continue
        return result | self._decode(others, len(rows)) if others else result

    def _show_int96(self, column: FlatColumn, rows: PlainRows) -> pa.ChunkedArray:
        stored, unit = arrow_array(pa.binary(12), *rows), column.arrow.unit
        if int96.find_hidden(stored, unit).any():
            problem = int96.OUTSIDE_OF_UNIT[unit]
            raise UnreadableColumnError(problem, row_group=self._row_group, column=column.leaf.name)
        return pa.chunked_array([int96.to_shown(stored, unit).cast(column.arrow)])

    def _decode(self, columns: Sequence[ColumnPages], num_rows: int) -> dict[str, pa.ChunkedArray]:
        """Decode pages to the types that the whole columns have; return nothing if pyarrow reads other types."""
        names = [column.leaf.path[0] for column in columns]
        expected = [self._schema.field(name) for name in names]
        try:
            encoded = make_columns_file(
                self._file.footer, self._row_group, columns, num_rows, self._arrow_schema(names)
            )
            table = pq.ParquetFile(pa.BufferReader(encoded), pre_buffer=False).read(use_threads=False)
        except (pa.ArrowException, OSError, ValueError):  # reading it whole reports what is wrong, if anything is
            return {}
        same = table.schema.names == names and table.num_rows == num_rows
        same = same and all(map(partial(pa.Field.equals, check_metadata=True), table.schema, expected))
        return dict(zip(names, table.columns, strict=True)) if same else {}

    def _arrow_schema(self, names: Sequence[str]) -> bytes | None:
        """Return the file's metadata "ARROW:schema", reduced to some columns; None if it has none."""
        stored = self._file.footer.key_value_metadata.get(b"ARROW:schema")
        if stored is None:
            return None
        cached: dict[tuple[str, ...], bytes] = self._file.cached.derived.setdefault("stored_schemas", {})
        encoded = cached.get(tuple(names))
        if encoded is None:
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(stored)))
            fields = [schema.field(self._schema.get_field_index(name)) for name in names]
            encoded = base64.b64encode(pa.schema(fields).serialize().to_pybytes())
            if len(cached) >= _MAX_SCHEMAS:
                cached.clear()
            cached[tuple(names)] = encoded
        return encoded


def find_flat_columns(file: BloomFile, schema: pa.Schema) -> dict[str, FlatColumn]:
    """Return the flat columns of a file by name; computed once per file and schema."""
    entry: tuple[pa.Schema, dict[str, FlatColumn]] | None = file.cached.derived.get("flat_columns")
    if entry is None or entry[0] is not schema:
        names = Counter(schema.names)
        tops = Counter(leaf.path[0] for leaf in file.leaves)
        columns = {}
        for leaf in file.leaves:
            name = leaf.path[0]
            if len(leaf.path) == 1 and not leaf.repeated and names[name] == 1 == tops[name]:
                arrow = schema.field(name).type
                columns[name] = FlatColumn(leaf, arrow, find_layout(leaf, arrow))
        entry = file.cached.derived["flat_columns"] = schema, columns
    return entry[1]


def find_list_columns(file: BloomFile, schema: pa.Schema) -> dict[str, ListColumn]:
    """Return the columns of lists of a file by name whose elements can be taken out of their pages."""
    columns = {}
    names, tops = Counter(schema.names), Counter(leaf.path[0] for leaf in file.leaves)
    for leaf in file.leaves:
        name = leaf.path[0]
        if not leaf.repeated or not names[name] == 1 == tops[name] or not holds_elements(leaf, name):
            continue
        arrow = schema.field(name).type
        if not pa.types.is_list(arrow) or pa.types.is_dictionary(arrow.value_type):
            continue
        layout = find_layout(leaf, arrow.value_type)
        if layout is not None and leaf.physical != "INT96":
            columns[name] = ListColumn(leaf, arrow, layout)
    return columns


def _prefers_rows(plan: PagePlan, rows: RowPositions) -> bool:
    """Return whether extracting rows from their pages is faster than decoding the pages."""
    is_run = int(rows[-1] - rows[0]) + 1 == len(rows)
    share = len(rows) * (SPARSE_FACTOR // _RUN_FACTOR if is_run else SPARSE_FACTOR)
    # Of INT96 pyarrow may show other instants than are stored: those of whole pages are taken out as well.
    is_short = plan.num_rows <= SHORT and plan.column.same
    return share <= plan.num_rows or is_short or plan.leaf.physical == "INT96"


def _parse_dictionary(data: memoryview) -> Page | None:
    """Parse a dictionary page; None if there are no bytes. MalformedFooterError if they are another page."""
    if not len(data):
        return None
    page = Page.of(data)
    if not page.header.is_dictionary or page.header.num_bytes != len(data):
        raise MalformedFooterError("page index: there is no dictionary page where it says")
    return page


def take_rows(data: pa.Table | pa.ChunkedArray, rows: RowPositions) -> pa.Table | pa.ChunkedArray:
    """Take rows of a table or column by ascending positions; works for every type."""
    if isinstance(data, pa.Table):
        columns = [take_rows(column, rows) for column in data.columns]
        return pa.Table.from_arrays(columns, schema=data.schema) if columns else data.slice(0, len(rows))
    if len(rows) == len(data):
        return data
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and len(rows) * SPARSE_FACTOR > len(data):
        return data.slice(int(rows[0]), len(rows))
    ends = np.cumsum([len(chunk) for chunk in data.chunks])
    parts = np.split(rows, np.searchsorted(rows, ends[:-1])) if data.num_chunks else []
    # Chunk by chunk: `take` would concatenate them first.
    chunks = [
        _take_from_chunk(chunk, part - (end - len(chunk)))
        for chunk, part, end in zip(data.chunks, parts, ends, strict=True)
        if len(part)
    ]
    return pa.chunked_array(chunks, data.type)


def _take_from_chunk(chunk: pa.Array, rows: RowPositions) -> pa.Array:
    if len(rows) * SPARSE_FACTOR <= len(chunk) or not has_kernels(chunk.type):
        return take(chunk, rows)
    mask = np.zeros(len(chunk), bool)
    mask[rows] = True
    return chunk.filter(from_numpy(mask))
