"""Decode columns of some rows of row groups of files that are alike, by one of two decoders.

*pages* takes rows out of the pages of flat columns and lists, in compiled code; *columns* decodes whole columns with
pyarrow. `choose_decoder` says which columns are read by which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnreadableColumnError
from ...file.cache.entry import CachedFooter
from ...file.pages.plan import FlatColumn, ListColumn
from ...file.pages.reader import take_rows
from ...file.pages.sparse import RowsOfGroups
from ...file.values import ColumnReader
from ...hashing import int96
from ...metadata.footer import Leaf, concatenate_records
from ...metadata.page_match import Targets
from ...predicate.row_filter import StoredColumn
from ...util.arrow_select import keep
from ...util.arrow_values import empty_table, from_numpy
from ..model.limits import ReadLimits
from ..model.row_selection import RowPositions, RowSelection
from ..model.schemas import reading
from .choose_decoder import FEW_OF, choose_decoder
from .columns_decoder import RowStream, estimate_decoded, select_leaves

if TYPE_CHECKING:
    from .parquet_file import ParquetData

R = TypeVar("R")

OpenData = Callable[[int], AbstractContextManager["ParquetData"]]
"""Opens a file, given by its number."""


class Pages(Protocol):
    """Row groups whose pages can be searched, and rows taken out of them: the decoder "pages"."""

    @property
    def cost(self) -> tuple[int, int]: ...

    @property
    def grown(self) -> set[int]: ...

    def supports(self, names: Sequence[str]) -> bool: ...

    def search(
        self,
        name: str,
        targets: Targets,
        most: int,
        selections: Sequence[Sequence[tuple[int, int]] | None] | None = None,
    ) -> tuple[RowsOfGroups, NDArray[np.int32]] | None: ...

    def search_lists(self, leaf: Leaf, targets: Targets, most: int) -> tuple[RowsOfGroups, pa.Array | None] | None: ...

    def make_array(self, name: str, targets: Targets, numbers: NDArray[np.int32]) -> pa.Array: ...

    def read(self, names: Sequence[str], rows: RowsOfGroups) -> Mapping[str, pa.Array | pa.ChunkedArray]: ...


class Window(NamedTuple):
    """Rows [start, stop) of a row group, given by its position among those of the decoder, that are decoded at once.

    The windows of the result follow one another, and those of the predicate: `is_result` tells them apart.
    """

    group: int
    start: int
    stop: int
    is_result: bool = False


class RowGroupDecoder:
    """Decodes columns of row groups.

    Parameters
    ----------
    row_groups : (number of a file, its row group) of each, file after file.
    footers : of the files, which have the same schema.
    columns : the files' flat columns, and those of lists, by name.
    make_pages : makes the decoder "pages"; raises MalformedFooterError if a footer contradicts itself.
    open_data : opens a file for the decoder "columns".
    limits : how much is decoded at once.

    Attributes
    ----------
    num_rows : of each row group; int64.
    total_rows, num_files : of all row groups.
    pages : the decoder "pages", once it has been used.
    ways : how the columns that were read last were read: (decoder, reason), see `Decoded`.
    problem : why pages are left to pyarrow; empty if they are not.
    """

    def __init__(
        self,
        row_groups: Sequence[tuple[int, int]],
        footers: Sequence[CachedFooter],
        columns: Mapping[str, FlatColumn | ListColumn],
        make_pages: Callable[[], Pages],
        open_data: OpenData,
        limits: ReadLimits,
    ):
        self.row_groups = row_groups
        self.limits = limits
        self.problem = ""
        self.ways: list[tuple[str, str]] = []
        self._columns_cost = (0, 0)
        self._footers = footers
        self._columns = columns
        self._make_pages = make_pages
        self.pages: Pages | None = None
        self._open_data = open_data
        self._streams: dict[tuple[int, bool, tuple[str, ...] | None], RowStream] = {}
        self._leaves = footers[0].footer.leaves
        sizes = [int(footers[file].footer.row_groups["num_rows"][number]) for file, number in row_groups]
        self.num_rows: NDArray[np.int64] = np.array(sizes, np.int64)
        self.total_rows = int(self.num_rows.sum())
        self.num_files = len({file for file, _ in row_groups})

    @property
    def cost(self) -> tuple[int, int]:
        """Requests and bytes that were read, besides those of opened files."""
        pages = (0, 0) if self.pages is None else self.pages.cost
        return pages[0] + self._columns_cost[0], pages[1] + self._columns_cost[1]

    def use_pages(self, use: Callable[[Pages], R]) -> R | None:
        """Use the decoder "pages"; return None if it cannot read what the footers promise, after which it is not used.

        This is the only place where another way is taken in the middle of reading: what is wrong shows in the bytes of
        pages, before any value of them is used. pyarrow reads them, or reports the error.
        """
        if self.problem:
            return None
        try:
            if self.pages is None:
                self.pages = self._make_pages()
            return use(self.pages)
        except MalformedFooterError as error:
            self.problem = error.problem
            return None

    # ------------------------------------------------------------------------------------------------- columns of rows

    def read(
        self,
        names: Sequence[str] | None,
        schema: pa.Schema,
        rows: RowsOfGroups,
        known: Mapping[str, pa.Array | pa.ChunkedArray],
        window: Window | None = None,
    ) -> pa.Table:
        """Read columns of some rows.

        Parameters
        ----------
        names : as `pyarrow.parquet` takes them; None for all.
        schema : of these columns.
        rows : of each row group.
        known : columns that have been read in these rows; they are not read again.
        window : all of the rows are in; None if whole row groups may be decoded.
        """
        if not len(rows.rows):
            return empty_table(schema)
        if len({*schema.names}) < len(schema):
            return self._decode(names, rows, window)
        missing = [name for name in schema.names if name not in known]
        choice = choose_decoder(self._columns, missing, len(rows.rows), self._count_around(rows, window))
        columns = dict(known)
        self.ways = [("pages", "")] if choice.pages else []
        if choice.pages:
            columns |= self.use_pages(lambda pages: self._take(pages, choice.pages, rows)) or {}
        others = [name for name in missing if name not in columns]
        if others:
            self.ways.append(("columns", choice.reason or self.problem or "of which pages are not worth a request"))
            rest = self._read_others(names, schema, others, rows, window)
            if rest.schema.names != others:  # a name matches other columns, too
                return self._decode(names, rows, window)
            columns |= dict(zip(others, rest.columns, strict=True))
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _count_around(self, rows: RowsOfGroups, window: Window | None) -> int:
        """Return of how many rows pyarrow would decode whole columns to give some rows."""
        if window is not None:
            return window.stop - window.start
        return int(self.num_rows[rows.counts > 0].sum())

    @staticmethod
    def _take(pages: Pages, names: Sequence[str], rows: RowsOfGroups) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        taken = [name for name in names if pages.supports([name])]
        return pages.read(taken, rows) if taken else {}

    def _read_others(
        self,
        names: Sequence[str] | None,
        schema: pa.Schema,
        others: Sequence[str],
        rows: RowsOfGroups,
        window: Window | None,
    ) -> pa.Table:
        chosen = names
        if len(others) < len(schema):
            tops = {*others}
            given = others if names is None else names
            chosen = [name for name in given if name in tops or name.split(".")[0] in tops]
        return self._decode(chosen, rows, window)

    def _decode(self, names: Sequence[str] | None, rows: RowsOfGroups, window: Window | None) -> pa.Table:
        """Decode columns with pyarrow, and take rows of them."""
        if window is not None:
            stream = self._find_stream(window, names)
            with self._open(window.group) as data, reading(data.file):
                table = stream.read(window.start, window.stop, rows.rows)
            return take_rows(table, rows.rows - window.start)
        every = [group for group, count in enumerate(rows.counts.tolist()) if count]
        num_rows, counts = self.num_rows[every], rows.counts[every]
        total, ends = int(num_rows.sum()), np.cumsum(counts)
        parts = np.split(rows.rows, ends[:-1])
        is_large = self.limits.needs_windows(int(self.estimate(every, names).sum()))
        is_sparse, tables, done = is_large or len(rows.rows) * FEW_OF <= total, [], 0
        is_usual = not is_sparse and self._is_usual(every, names)
        for file, members in groupby(every, lambda group: self.row_groups[group][0]):
            numbers = [self.row_groups[group][1] for group in members]
            of_file, done = parts[done : done + len(numbers)], done + len(numbers)
            with self._open_data(file) as data, reading(data.file):
                if is_sparse:  # one row group after the other, so that few are in memory
                    for number, part in zip(numbers, of_file, strict=True):
                        tables.append(data.columns.read_rows(number, names, part))
                else:
                    is_usual = is_usual and data.source.path is not None
                    tables.append(data.columns.read_all(numbers, names, of_file, is_usual))
        if is_usual:
            self._count_columns(every, names)
        tables = [table.replace_schema_metadata(None) for table in tables]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if is_sparse or len(rows.rows) == total:
            return table
        chosen = np.zeros(total, np.bool_)
        chosen[rows.rows + np.repeat(np.cumsum(num_rows) - num_rows, counts)] = True
        return keep(table, from_numpy(chosen))

    def _open(self, group: int) -> AbstractContextManager[ParquetData]:
        return self._open_data(self.row_groups[group][0])

    def _find_stream(self, window: Window, names: Sequence[str] | None) -> RowStream:
        key = window.group, window.is_result, None if names is None else tuple(names)
        if key not in self._streams:
            with self._open(window.group) as data:
                self._streams[key] = data.columns.stream(self.row_groups[window.group][1], names)
        return self._streams[key]

    def find_indexed(self, leaves: Sequence[Leaf], least: int) -> list[int]:
        """Return the row groups in which a chunk of at least so many bytes of some columns has a page index."""
        records = self._find_records(range(len(self.row_groups)), leaves)
        if records is None:
            return []
        is_large = (records["compressed_size"] >= least) & (records["offset_index_offset"] >= 0)
        return np.flatnonzero(is_large.any(axis=0)).tolist()

    def _is_usual(self, groups: Sequence[int], names: Sequence[str] | None) -> bool:
        """Return whether columns of row groups have as many values as there are rows, as far as their footers tell."""
        leaves = select_leaves(self._leaves, names)
        records = self._find_records(groups, leaves)
        if records is None:
            return False
        flat = np.array([not leaf.repeated for leaf in leaves], np.bool_)
        return bool((records["num_values"] == self.num_rows[list(groups)])[flat].all())

    def _count_columns(self, groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Count what pyarrow has read of columns: each chunk at once."""
        records = self._find_records(groups, select_leaves(self._leaves, names))
        assert records is not None
        num_bytes = int(np.maximum(records["compressed_size"], 0).sum())
        self._columns_cost = self._columns_cost[0] + records.size, self._columns_cost[1] + num_bytes

    def require_rows(self, groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Raise MalformedFooterError if columns of row groups have other numbers of values than there are rows."""
        leaves = select_leaves(self._leaves, names)
        records = self._find_records(groups, leaves)
        if records is None:  # pyarrow reports it
            return
        wrong = np.zeros(len(groups), np.bool_)
        for leaf, of_leaf in zip(leaves, records, strict=True):
            values, num_rows = of_leaf["num_values"], self.num_rows[list(groups)]
            wrong |= (values < num_rows if leaf.repeated else values != num_rows) & (of_leaf["meta_start"] >= 0)
        for group in np.array(groups)[wrong].tolist():
            with self._open(group) as data, reading(data.file):
                data.columns.require_rows(self.row_groups[group][1], names)

    def forget_streams(self) -> None:
        """Free what windows hold, once a row group is read."""
        self._streams.clear()

    def read_stored(self, leaf: Leaf, rows: RowsOfGroups) -> StoredColumn:
        """Read an INT96 column, as it is stored, in some rows: pyarrow's nanoseconds cover few years."""
        parts, counts, ends = [], rows.counts.tolist(), np.cumsum(rows.counts).tolist()
        column_type = None
        for group, (file, number) in enumerate(self.row_groups):
            if not counts[group]:
                continue
            with self._open_data(file) as data, reading(data.file):
                values = ColumnReader(data.source, data.file.footer, leaf)
                column_type = values.column_type
                data.source.count(1, max(0, int(data.file.record(number, leaf)["compressed_size"])))
                unit = data.file.cached.int96_unit or "ns"
                try:
                    batches = [int96.normalize(batch, unit) for batch in values.batches(number)]
                except OverflowError as error:
                    raise UnreadableColumnError(str(error), row_group=number, column=leaf.name) from error
                column = pa.chunked_array(batches, pa.binary(12))
                if len(column) != int(self.num_rows[group]):
                    problem = f"cannot be read: {len(column)} rows instead of {self.num_rows[group]}"
                    raise UnreadableColumnError(problem, row_group=number, column=leaf.name)
                parts.append(take_rows(column, rows.rows[ends[group] - counts[group] : ends[group]]))
        assert column_type is not None
        return StoredColumn(
            pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.binary(12)), column_type
        )

    # ------------------------------------------------------------------------------------------------ sizes

    def estimate(self, groups: Sequence[int], names: Sequence[str] | None) -> NDArray[np.float64]:
        """Estimate the memory that columns of each of some row groups take once they are decoded."""
        leaves = select_leaves(self._leaves, names)
        records = self._find_records(groups, leaves)
        if records is None:
            return np.zeros(len(groups), np.float64)
        return estimate_decoded(records, leaves, self.num_rows[list(groups)], self.limits.widths)

    def _find_records(self, groups: Sequence[int], leaves: Sequence[Leaf]) -> NDArray[np.void] | None:
        """Return what footers say of column chunks, of shape (leaves, row groups); None if one contradicts itself."""
        if not leaves or not groups:
            return None
        chunks, firsts = self._chunks
        if (firsts[list(groups)] < 0).any():
            return None
        return chunks[firsts[list(groups)] + np.array([[leaf.index] for leaf in leaves])]

    @cached_property
    def _chunks(self) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """What the footers say of all column chunks, and each row group's first one; -1 if it has not all columns."""
        footers = [cached.footer for cached in self._footers]
        starts = np.cumsum([0, *(len(footer.chunks) for footer in footers)]).tolist()
        firsts = []
        for file, number in self.row_groups:
            group = footers[file].row_groups[number]
            is_whole = int(group["num_columns"]) == len(self._leaves)
            firsts.append(starts[file] + int(group["first_chunk"]) if is_whole else -1)
        return concatenate_records([footer.chunks for footer in footers]), np.array(firsts, np.int64)


def select_all(counts: NDArray[np.int64], selections: Sequence[RowSelection | None]) -> RowsOfGroups:
    """Return the rows of row groups that are selected; None selects all of its row group."""
    parts: list[RowPositions] = []
    for count, selection in zip(counts.tolist(), selections, strict=True):
        if selection is None:
            parts.append(np.arange(count))
        else:
            parts += [np.arange(start, stop) for start, stop in selection]
    sizes = [
        count if selection is None else sum(stop - start for start, stop in selection)
        for count, selection in zip(counts.tolist(), selections, strict=True)
    ]
    return RowsOfGroups(np.array(sizes, np.int64), np.concatenate([np.arange(0), *parts]))
