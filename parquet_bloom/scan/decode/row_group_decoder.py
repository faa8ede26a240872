"""Decode columns of some rows of row groups of files that are alike, by one of two decoders.

*pages* takes rows out of the pages of flat columns and lists, in compiled code; *columns* decodes whole columns with
pyarrow. `choose_decoder` says which columns are read by which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnreadableColumnError
from ...file.column_reader import ColumnReader
from ...file.file_columns import select_leaves
from ...file.metadata_cache import CachedFooter
from ...file.pages.page_columns import PageColumn
from ...file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from ...hashing import int96
from ...metadata.footer import SchemaLeaf
from ...predicate.row_filter import StoredColumn
from ...util.arrow_values import empty_table, from_numpy, keep, take_rows
from ..model.file_schemas import reading
from ..scan_options import Limits
from .parquet_data import ParquetData, RowStream

P = ParamSpec("P")
R = TypeVar("R")

MANY_ROWS, OTHER_TYPE = "many rows", "nested, or of a type that is not taken out of pages"
"""Why whole columns are decoded."""


class Choice(NamedTuple):
    """Which columns are read by which decoder, and why.

    Attributes
    ----------
    pages : columns whose rows are taken out of pages.
    columns : columns that pyarrow decodes whole.
    reason : why the latter are.
    """

    pages: list[str]
    columns: list[str]
    reason: str


def choose_decoder(
    columns: Mapping[str, PageColumn], names: Sequence[str], num_rows: int, total_rows: int, few_of: int
) -> Choice:
    """Choose how columns are read in some rows: a pure function of the columns' types and the numbers of rows.

    Parameters
    ----------
    columns : the files' columns of which rows can be taken out of pages, by name.
    names : columns to read.
    num_rows, total_rows : how many rows are read, and how many their row groups have.
    few_of : see `Limits`.
    """
    if num_rows * few_of > total_rows:
        return Choice([], list(names), MANY_ROWS)
    taken: list[str] = []
    others: list[str] = []
    for name in names:
        column = columns.get(name)
        (others if column is None or column.layout is None else taken).append(name)
    return Choice(taken, others, OTHER_TYPE if others else "")


class OpenFiles(Protocol):
    """Files with the same schema that are read together, each the version that was planned.

    Attributes
    ----------
    footers : of the files.
    is_local : whether ranges of them are read without the price of a request.
    """

    @property
    def footers(self) -> Sequence[CachedFooter]: ...

    @property
    def is_local(self) -> bool: ...

    def make_pages(self, groups: RowGroups, columns: Mapping[str, PageColumn]) -> RowGroupBatch:
        """Make the decoder "pages" of row groups.

        Raises
        ------
        MalformedFooterError
            A footer contradicts itself.
        """

    def borrow(self, number: int) -> AbstractContextManager[ParquetData]:
        """Give one of the files, for the decoder "columns"."""

    def remember(self, pages: RowGroupBatch) -> None:
        """Update the sizes in the cache of files whose entries have grown."""


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
    files : the files.
    groups : the row groups, file after file.
    columns : the files' columns of which rows can be taken out of pages, by name.
    limits : how much is decoded at once.

    Attributes
    ----------
    pages : the decoder "pages", once it has been used.
    ways : how the columns that were read last were read: (decoder, reason), see `Decoded`.
    problem : why pages are left to pyarrow; empty if they are not.
    """

    WHOLE = "columns", MANY_ROWS

    def __init__(self, files: OpenFiles, groups: RowGroups, columns: Mapping[str, PageColumn], limits: Limits):
        self.groups, self.limits = groups, limits
        self.pages: RowGroupBatch | None = None
        self.ways: list[tuple[str, str]] = []
        self.problem = ""
        self._files, self._columns = files, columns
        self._columns_cost = (0, 0)
        self._streams: dict[tuple[int, bool, tuple[str, ...] | None], RowStream] = {}
        self._leaves = groups.footers[0].leaves

    def use_pages(
        self, use: Callable[Concatenate[RowGroupBatch, P], R], *given: P.args, **options: P.kwargs
    ) -> R | None:
        """Use the decoder "pages"; return None if it cannot read what the footers promise, after which it is not used.

        This is the only place where another way is taken in the middle of reading: what is wrong shows in the bytes of
        pages, before any value of them is used. pyarrow reads them, or reports the error.
        """
        if self.problem:
            return None
        try:
            if self.pages is None:
                self.pages = self._files.make_pages(self.groups, self._columns)
            return use(self.pages, *given, **options)
        except MalformedFooterError as error:
            self.problem = error.problem
            return None

    def finish(self) -> tuple[int, int]:
        """Update the cache, and return the requests and bytes that were read, besides those of opened files."""
        requests, num_bytes = self._columns_cost
        if self.pages is None:
            return requests, num_bytes
        self._files.remember(self.pages)
        return requests + self.pages.cost[0], num_bytes + self.pages.cost[1]

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
        if not len(rows):
            return empty_table(schema)
        if len({*schema.names}) < len(schema):
            return self._decode(names, rows, window)
        missing = [name for name in schema.names if name not in known]
        # Of so many rows pyarrow would decode whole columns to give some rows.
        around = int(self.groups.num_rows[rows.counts > 0].sum()) if window is None else window.stop - window.start
        choice = choose_decoder(self._columns, missing, len(rows), around, self.limits.few_of)
        columns: dict[str, pa.Array | pa.ChunkedArray] = dict(known)
        self.ways = [("pages", "")] if choice.pages else []
        if choice.pages:
            columns |= self.use_pages(RowGroupBatch.read, choice.pages, rows) or {}
        others = [name for name in missing if name not in columns]
        if others:
            self.ways.append(("columns", choice.reason or self.problem or "of which pages are not worth a request"))
            chosen = names
            if len(others) < len(schema):
                given = others if names is None else names
                chosen = [name for name in given if name in others or name.split(".")[0] in others]
            rest = self._decode(chosen, rows, window)
            if rest.schema.names != others:  # a name matches other columns, too
                return self._decode(names, rows, window)
            columns |= dict(zip(others, rest.columns, strict=True))
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _decode(self, names: Sequence[str] | None, rows: RowsOfGroups, window: Window | None) -> pa.Table:
        """Decode columns with pyarrow, and take rows of them."""
        if window is not None:
            stream = self._find_stream(window, names)
            with self._borrow(window.group) as data, reading(data.file):
                table = stream.read(window.start, window.stop, rows.rows)
            return take_rows(table, rows.rows - window.start)
        every = np.flatnonzero(rows.counts)
        total = int(self.groups.num_rows[every].sum())
        is_all = len(rows) == total
        is_sparse = len(rows) * self.limits.few_of <= total
        if self.limits.max_bytes is not None and not is_sparse:  # so that few of large row groups are in memory
            num_bytes = int(self.groups.estimate(every.tolist(), names, self.limits.widths).sum())
            is_sparse = self.limits.needs_windows(num_bytes)
        parts = None
        if is_sparse or (not is_all and any(leaf.physical == "INT96" for leaf in self._leaves)):
            parts = np.split(rows.rows, np.cumsum(rows.counts[every])[:-1])
        chunks = self._find_usual(every.tolist(), names) if self._files.is_local and not is_sparse else None
        files, ordinals, tables = self.groups.files[every], self.groups.ordinals[every].tolist(), []
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(every)]):
            used = None if parts is None else parts[start:stop]
            with self._files.borrow(int(files[start])) as data, reading(data.file):
                if is_sparse and used is not None:  # one row group after the other
                    for number, part in zip(ordinals[start:stop], used, strict=True):
                        tables.append(data.read_rows(number, names, part))
                else:
                    tables.append(data.read_all(ordinals[start:stop], names, used, chunks is not None))
        if chunks is not None:  # each is read at once
            num_bytes = int(np.maximum(chunks["compressed_size"], 0).sum())
            self._columns_cost = self._columns_cost[0] + chunks.size, self._columns_cost[1] + num_bytes
        tables = [table.replace_schema_metadata(None) for table in tables]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if is_sparse:
            return table
        self.limits.note(table)
        if is_all:
            return table
        return keep(table, from_numpy(rows.make_flags(self.groups.num_rows)))

    def _borrow(self, group: int) -> AbstractContextManager[ParquetData]:
        return self._files.borrow(self.groups.numbers[group][0])

    def _find_stream(self, window: Window, names: Sequence[str] | None) -> RowStream:
        key = window.group, window.is_result, None if names is None else tuple(names)
        if key not in self._streams:
            with self._borrow(window.group) as data:
                self._streams[key] = RowStream(data, self.groups.numbers[window.group][1], names)
        return self._streams[key]

    def _find_usual(self, groups: Sequence[int], names: Sequence[str] | None) -> NDArray[np.void] | None:
        """Return what footers say of columns, if these have as many values as there are rows; None otherwise."""
        leaves = select_leaves(self._leaves, names)
        chunks = self.groups.find_chunks(leaves, groups)
        if chunks is None:
            return None
        num_rows, values = self.groups.num_rows[list(groups)], chunks["num_values"]
        repeated = np.array([leaf.repeated for leaf in leaves], np.bool_)[:, None]
        return chunks if np.where(repeated, values >= num_rows, values == num_rows).all() else None

    def require_rows(self, groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Raise MalformedFooterError if columns of row groups have other numbers of values than there are rows."""
        if self._find_usual(groups, names) is None:
            for group in groups:
                with self._borrow(group) as data, reading(data.file):
                    data.require_rows(self.groups.numbers[group][1], names)

    def forget_streams(self) -> None:
        """Free what windows hold, once a row group is read."""
        self._streams.clear()

    def read_stored(self, leaf: SchemaLeaf, rows: RowsOfGroups) -> StoredColumn:
        """Read an INT96 column, as it is stored, in some rows: pyarrow's nanoseconds cover few years."""
        parts, counts, ends = [], rows.counts.tolist(), np.cumsum(rows.counts).tolist()
        column_type = None
        for group, (file, number) in enumerate(self.groups.numbers):
            if not counts[group]:
                continue
            with self._files.borrow(file) as data, reading(data.file):
                values = ColumnReader(data.source, data.file.footer, leaf)
                column_type = values.column_type
                data.source.count(1, max(0, int(data.file.record(number, leaf)["compressed_size"])))
                unit = data.file.cached.int96_unit or "ns"
                try:
                    batches = [int96.normalize(batch, unit) for batch in values.batches(number)]
                except OverflowError as error:
                    raise UnreadableColumnError(str(error), row_group=number, column=leaf.name) from error
                column = pa.chunked_array(batches, pa.binary(12))
                if len(column) != int(self.groups.num_rows[group]):
                    problem = f"cannot be read: {len(column)} rows instead of {self.groups.num_rows[group]}"
                    raise UnreadableColumnError(problem, row_group=number, column=leaf.name)
                parts.append(take_rows(column, rows.rows[ends[group] - counts[group] : ends[group]]))
        assert column_type is not None
        return StoredColumn(
            pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.binary(12)), column_type
        )
