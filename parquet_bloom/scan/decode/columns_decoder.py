"""The decoder "columns": whole columns of row groups by pyarrow, at once or a window of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import UnreadableColumnError, first_line
from ...file.page_checks import PageClaimError, PageWalk, require_pages, require_value_per_row
from ...file.pages.sparse import RowGroups
from ...file.reader import BloomFile
from ...file.values import ColumnReader
from ...hashing import int96
from ...metadata.footer import Leaf
from ...util.arrow_select import take_rows
from ...util.lazy import late_module
from ..model.limits import Limits, select_leaves
from ..model.row_selection import RowPositions, slice_rows
from ..model.schemas import open_parquet_file

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

_LEAST_BUFFER_BYTES, _BUFFER_BYTES = 1 << 16, 1 << 20  # read at once of a chunk that is decoded in windows


class ColumnsDecoder:
    """pyarrow's reader of a file, opened when something is first read. Local files may be read by several threads.

    pyarrow reads one column chunk after the other; those of an object are fetched concurrently before.

    Parameters
    ----------
    file : the file.
    open_reader : opens it with pyarrow.
    int96_unit : unit of pyarrow's timestamps for INT96 ones; None for that of the file's cache entry.
    limits : how row groups are decoded.
    """

    def __init__(
        self,
        file: BloomFile,
        open_reader: Callable[[BloomFile], pq.ParquetFile] = open_parquet_file,
        int96_unit: str | None = None,
        limits: Limits | None = None,
    ):
        self._file = file
        self._int96_unit = int96_unit or file.cached.int96_unit or "ns"
        self._open_reader = open_reader
        self._leaves: dict[tuple[str, ...] | None, NDArray[np.intp]] = {}
        self.limits = limits or Limits(max_bytes=None)

    @cached_property
    def parquet_file(self) -> pq.ParquetFile:
        """Pyarrow's reader."""
        file = self._open_reader(self._file)
        _ = file.metadata  # pyarrow shows other threads an object that is not complete yet, when it is first used
        return file

    def close(self) -> None:
        """Close pyarrow's reader, which has a descriptor of its own."""
        file = self.__dict__.pop("parquet_file", None)
        if file is not None:
            file.close(force=True)

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
        except pa.ArrowException as error:
            if len(row_groups) > 1 or self._file.footer.encrypted:
                raise
            raise UnreadableColumnError(f"cannot be read: {first_line(error)}", row_group=row_groups[0]) from error
        counts = [self._num_rows(row_group) for row_group in row_groups]
        if table.num_columns and table.num_rows != sum(counts):
            raise make_count_error(row_groups[0], table.num_rows, sum(counts))
        self.limits.note(table)
        return table

    def read_rows(self, row_group: int, names: Sequence[str] | None, rows: RowPositions) -> pa.Table:
        """Read some rows of a row group, ascending; in windows if it is large."""
        num_rows, num_bytes = self._num_rows(row_group), 0
        if self.limits.max_bytes is not None:
            groups = RowGroups([self._file.footer], [(0, row_group)])
            num_bytes = int(self.limits.estimate(groups, [0], names)[0])
        if not self.limits.needs_windows(num_bytes):
            return take_rows(self.read_all([row_group], names, [rows]), rows)
        parts = []
        stream, window_rows = self.stream(row_group, names), self.limits.window_rows(num_rows, num_bytes)
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
    def _int96_leaves(self) -> list[Leaf]:
        return [leaf for leaf in self._file.footer.leaves if leaf.physical == "INT96"]

    def _find_hidden(self, row_group: int, leaf: Leaf, names: Sequence[str] | None) -> RowPositions:
        """Return the rows of a column, or the elements of its lists, that pyarrow shows as other instants."""
        cached: dict[tuple[int, int, str], RowPositions]
        cached = self._file.cached.derived.setdefault("hidden_int96", {})
        key = row_group, leaf.index, self._int96_unit
        if key not in cached:
            self.prefetch(row_group, names)
            self._file.source.count(1, max(0, int(self._file.record(row_group, leaf)["compressed_size"])))
            reader, unit = ColumnReader(self._file.source, self._file.footer, leaf), self._int96_unit
            rows = np.empty(0, np.int64)
            # What occurs takes half the time of all rows, which matter only where something is hidden.
            if any(int96.find_hidden(values, unit).any() for values in reader.read_stored(row_group)):
                rows = np.flatnonzero(
                    np.concatenate([int96.find_hidden(array, unit) for array in reader.batches(row_group)])
                )
            cached[key] = rows
        return cached[key]

    def stream(self, row_group: int, names: Sequence[str] | None) -> RowStream:
        """Return the rows of some columns, to be read in order."""
        return RowStream(
            lambda rows: self._stream_batches(row_group, names, rows),
            partial(self.require_shown, row_group, names) if self._int96_leaves else None,
            row_group,
            self._num_rows(row_group),
        )

    def _num_rows(self, row_group: int) -> int:
        return self._file.footer.num_rows_of(row_group)

    def _stream_batches(self, row_group: int, names: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
        self.require_rows(row_group, names)
        self.prefetch(row_group, names)
        columns = None if names is None else list(names)
        # A reader of its own: the size of batches is a property of pyarrow's reader.
        with (
            self._file.source.counted_arrow_file() as opened,  # it may not be read to the end
            pq.ParquetFile(
                opened,
                metadata=self.parquet_file.metadata,
                pre_buffer=False,
                coerce_int96_timestamp_unit=self._file.cached.int96_unit,
                buffer_size=self._buffer_bytes(row_group, names),
            ) as file,
        ):
            yield from file.iter_batches(rows, [row_group], columns, use_threads=self.limits.use_threads)

    def _buffer_bytes(self, row_group: int, names: Sequence[str] | None) -> int:
        """Return how much of a chunk is read at once; 0 for all of it.

        Chunks of remote files are fetched whole. In local files no page may claim more bytes than its chunk has:
        pyarrow would allocate them.
        """
        source, footer = self._file.source, self._file.footer
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
        footer, first = self._file.footer, int(self._file.footer.row_groups[row_group]["first_chunk"])
        records = footer.chunks[chunks]
        wrong = (records["num_values"] != self._num_rows(row_group)) & (records["meta_start"] >= 0)
        for number in chunks[wrong].tolist():
            require_value_per_row(self._file.source, footer, row_group, footer.leaves[number - first])

    def prefetch(self, row_group: int, names: Sequence[str] | None) -> None:
        """Fetch the chunks of some columns concurrently, if the file is remote."""
        if self._file.source.path is not None:
            return
        chunks = self._find_chunks(row_group, names)
        if chunks is not None:
            footer = self._file.footer
            self._file.source.prefetch(footer.first_pages[chunks], footer.chunks["compressed_size"][chunks])

    def _prepare(self, row_groups: Sequence[int], names: Sequence[str] | None) -> None:
        """Check columns as `require_rows` does, fetch them if the file is remote, and count pyarrow's reads of them."""
        footer = self._file.footer
        groups, leaves = footer.row_groups[list(row_groups)], self._select_leaves(names)
        if (groups["num_columns"] != len(footer.leaves)).any():
            return
        records = footer.chunks[groups["first_chunk"][:, None] + leaves]
        for row_group in row_groups:
            self.require_rows(row_group, names)
        if self._file.source.path is None:
            for row_group in row_groups:
                self.prefetch(row_group, names)
        self._file.source.count(records.size, int(np.maximum(records["compressed_size"], 0).sum()))  # each chunk by one

    def _find_chunks(self, row_group: int, names: Sequence[str] | None) -> NDArray[np.intp] | None:
        """Return the numbers of the chunks of some columns; None if the footer contradicts itself."""
        group = self._file.footer.row_groups[row_group]
        if int(group["num_columns"]) != len(self._file.footer.leaves):
            return None
        return int(group["first_chunk"]) + self._select_leaves(names)

    def _select_leaves(self, names: Sequence[str] | None) -> NDArray[np.intp]:
        """Return the indexes of the leaves of some columns."""
        key = None if names is None else tuple(names)
        if key not in self._leaves:
            leaves = select_leaves(self._file.footer.leaves, names)
            self._leaves[key] = np.array([leaf.index for leaf in leaves], np.intp)
        return self._leaves[key]


class RowStream:
    """The rows of some columns of a row group, decoded in order as they are requested.

    Parameters
    ----------
    open_batches : opens batches of so many rows.
    require_shown : raises an error if some rows are not shown as they are stored; None if all are.
    row_group, num_rows : the row group.
    """

    def __init__(
        self,
        open_batches: Callable[[int], Iterator[pa.RecordBatch]],
        require_shown: Callable[[RowPositions], None] | None,
        row_group: int,
        num_rows: int,
    ):
        self._open_batches = open_batches
        self._require_shown = require_shown
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._last: pa.RecordBatch | None = None
        self._row_group = row_group
        self._num_rows = num_rows
        self._start = self._stop = 0  # rows of the last batch

    def read(self, start: int, stop: int, rows: RowPositions | None = None) -> pa.Table:
        """Read a range of rows, which begins where the last one ended, or later.

        Parameters
        ----------
        rows : those that are used; None for all of the range.
        """
        if self._require_shown is not None:
            self._require_shown(np.arange(start, stop) if rows is None else rows)
        if self._batches is None:
            self._batches = self._open_batches(stop - start)
        parts = []
        while start < stop:
            while self._stop <= start:
                self._last = None  # free its memory before the next one is read
                self._last = next(self._batches, None)
                if self._last is None:
                    raise make_count_error(self._row_group, self._stop, self._num_rows)
                self._start, self._stop = self._stop, self._stop + self._last.num_rows
            end = min(stop, self._stop)
            assert self._last is not None
            parts.append(self._last.slice(start - self._start, end - start))
            start = end
        return pa.Table.from_batches(parts)


def make_count_error(row_group: int, num_rows: int, expected: int) -> UnreadableColumnError:
    """Make the error for a row group that does not have the rows that its footer declares."""
    return UnreadableColumnError(f"cannot be read: {num_rows} rows instead of {expected}", row_group=row_group)
