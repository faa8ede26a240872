"""Make the zones of Parquet files: many row groups at a time, with filters spilled to disk."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom import sbbf
from ..errors import (
    ParquetBloomError,
    StorageError,
    UnknownColumnError,
    UnreadableColumnError,
    UnsupportedTypeError,
)
from ..file.column_hashes import count_values
from ..file.columns import find_leaves, type_of
from ..file.fingerprint import chunk_bytes_fingerprint, footer_fingerprint
from ..file.identity import wait_until_settled
from ..file.reader import BloomFile
from ..file.values import ColumnReader, find_value_outside_type
from ..hashing.column_type import ColumnType
from ..metadata.footer import Leaf
from ..storage import Entry, open_source
from ..storage.spill import SpillFile, SpillRun
from ..util.threads import in_order
from .hashes import stored_keys

_PREFETCHED_FILES = 4  # opened ahead of their use
_BUFFER_BYTES = 1 << 22  # of filters per thread, before they are spilled


@dataclass
class ZonedSource:
    """An open file for which zones are built.

    Attributes
    ----------
    entry : as it was listed.
    file, leaf, column_type : the file and its column.
    stamp : version token that identifies its current state.
    footer, data : fingerprints of its footer without filters and, set at the end, of the column's bytes.
    """

    entry: Entry
    file: BloomFile
    leaf: Leaf
    column_type: ColumnType
    reader: ColumnReader
    stamp: bytes
    footer: int
    data: int = 0


@dataclass
class RowGroupResult:
    """The zones of a row group, or the end of a file.

    Attributes
    ----------
    entry : the file as it was listed.
    opened : the open file; None if it could not be opened.
    row_group : its number; -1 at the end of the file.
    runs : its spilled filters, in the order of the zones.
    has_null : whether each zone has a null.
    error : the error, if any; later results of the file are meaningless.
    """

    entry: Entry
    opened: ZonedSource | None
    row_group: int = -1
    runs: list[SpillRun] = field(default_factory=list)
    has_null: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    error: ParquetBloomError | None = None

    @property
    def last(self) -> bool:
        return self.row_group < 0


def find_column(file: BloomFile, column: str) -> Leaf:
    """Return the leaf of a column to be indexed.

    Raises
    ------
    UnknownColumnError
        There is no column of that dotted path, or the path is ambiguous.
    UnsupportedTypeError
        The column is in a list or map, or BOOLEAN.
    """
    leaves = find_leaves(file.leaves, column)
    if len(leaves) != 1 or leaves[0].name != column:
        if not leaves:
            problem = "no such column"
        elif len(leaves) > 1:
            problem = f"the name matches {len(leaves)} columns"
        else:
            problem = f"zones need a leaf column: use '{leaves[0].name}'"
        raise UnknownColumnError(problem, path=file.path, column=column)
    (leaf,) = leaves
    if any(f"{other.name}.".lower().startswith(f"{column}.".lower()) for other in file.leaves if other is not leaf):
        # Queries that ignore case may mean the other one.
        raise UnknownColumnError("other columns differ from it by their case only", path=file.path, column=column)
    if leaf.repeated:
        raise UnsupportedTypeError("columns in lists and maps cannot have zones", path=file.path, column=column)
    if not type_of(leaf).hashable:
        problem = "BOOLEAN columns have no zones: they have only two values"
        raise UnsupportedTypeError(problem, path=file.path, column=column)
    return leaf


def _open_source(entry: Entry, column: str, filesystem: object | None) -> ZonedSource:
    source = open_source(entry.path, filesystem, entry)
    try:
        stamp = wait_until_settled(source)
        file = BloomFile(source, None)
        leaf = find_column(file, column)
        for row_group in file.row_groups:
            count_values(file, row_group, leaf)
        reader = ColumnReader(source, file.footer, leaf)
        return ZonedSource(entry, file, leaf, type_of(leaf), reader, stamp, footer_fingerprint(file.footer))
    except BaseException:
        source.close()
        raise


class _SpillError(Exception):
    """Filters cannot be spilled: not the fault of a single file, so the build ends."""

    def __init__(self, error: StorageError):
        super().__init__(str(error))
        self.error = error


class ZoneMaker:
    """Makes the zones of files.

    Parameters
    ----------
    column, filesystem : the column, and where the files are.
    rows_per_zone, filter_bytes : of each zone, and of its filter.
    scratch : where filters are put aside.
    threads : that decode and hash.
    """

    def __init__(
        self,
        column: str,
        filesystem: object | None,
        rows_per_zone: int,
        filter_bytes: int,
        scratch: SpillFile,
        threads: int,
    ):
        self._column, self._filesystem = column, filesystem
        self._rows, self._filter_bytes = rows_per_zone, filter_bytes
        self._scratch, self._threads = scratch, threads

    def read_files(self, entries: Iterable[Entry]) -> Generator[RowGroupResult, None, None]:
        """Yield the zones of files, in their order; close the iterator to stop early."""

        def opened(entry: Entry) -> RowGroupResult:
            try:
                return RowGroupResult(entry, _open_source(entry, self._column, self._filesystem))
            except ParquetBloomError as error:
                error.path = error.path or entry.path
                if _is_timeout(error):
                    raise
                return RowGroupResult(entry, None, error=error)

        with (
            in_order(opened, entries, _PREFETCHED_FILES) as files,
            closing(_list_tasks(files)) as tasks,
            in_order(self._process, tasks, self._threads) as done,
        ):
            try:
                yield from done
            except _SpillError as failed:
                raise failed.error from failed

    def _process(self, result: RowGroupResult) -> RowGroupResult:
        opened = result.opened
        if opened is None:
            return result
        try:
            if not result.last:
                self._make_zones(result, opened)
            else:
                source = opened.file.source
                opened.data = chunk_bytes_fingerprint(source, opened.file.footer, [opened.leaf])
                source.check_unchanged()
        except ParquetBloomError as error:
            error.path = error.path or result.entry.path
            if _is_timeout(error):
                raise
            result.error = error
        return result

    def _make_zones(self, result: RowGroupResult, opened: ZonedSource) -> None:
        """Make the zones of a row group."""
        num_rows = opened.file.footer.num_rows_of(result.row_group)
        count = -(-num_rows // self._rows)
        result.has_null = np.zeros(count, np.bool_)
        buffer = np.zeros((max(1, min(count, _BUFFER_BYTES // self._filter_bytes)), self._filter_bytes), np.uint8)
        zone, row = 0, 0
        for array in self._read_arrays(opened, result.row_group, num_rows):
            start = 0
            while start < len(array):
                part = array.slice(start, self._rows - row)
                sbbf.insert_keys(buffer[zone % len(buffer)], stored_keys(part, opened.column_type))
                result.has_null[zone] |= bool(part.null_count)
                start += len(part)
                row += len(part)
                if row == self._rows:
                    zone, row = zone + 1, 0
                    if zone % len(buffer) == 0:
                        result.runs.append(self._spill(buffer))
                        buffer[:] = 0
        remaining = count - len(buffer) * len(result.runs)
        if remaining:
            result.runs.append(self._spill(buffer[:remaining]))

    def _spill(self, filters: NDArray[np.uint8]) -> SpillRun:
        try:
            return self._scratch.put([filters])
        except StorageError as error:
            raise _SpillError(error) from error

    def _read_arrays(self, opened: ZonedSource, row_group: int, num_rows: int) -> Iterator[pa.Array]:
        if not num_rows:
            return
        seen = 0
        for array in opened.reader.batches(row_group):
            problem = find_value_outside_type(array, opened.column_type)
            seen += len(array)
            if problem is None and seen > num_rows:
                problem = "there are more values than rows"
            if problem:
                raise _make_unreadable_error(problem, opened, row_group)
            yield array
        if seen != num_rows:
            raise _make_unreadable_error(f"{seen} values in {num_rows} rows", opened, row_group)


def _is_timeout(error: ParquetBloomError) -> bool:
    """Return whether a store timed out: the next file would wait as long, so the build ends."""
    return isinstance(error, StorageError) and error.errno == errno.ETIMEDOUT


def _make_unreadable_error(problem: str, opened: ZonedSource, row_group: int) -> UnreadableColumnError:
    return UnreadableColumnError(
        f"cannot be read: {problem}", path=opened.file.path, row_group=row_group, column=opened.leaf.name
    )


def _list_tasks(files: Iterator[RowGroupResult]) -> Generator[RowGroupResult, None, None]:
    """Yield a task for each row group of files, and one for the end of each file."""
    for opened in files:
        if opened.opened is not None:
            for row_group in opened.opened.file.row_groups:
                yield replace(opened, row_group=row_group, runs=[])
        yield opened
