"""The zones of Parquet files: read row group by row group, many at a time, their filters put aside on disk."""

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

_FILES_AHEAD = 4  # opened at a time, so that none is waited for
_HELD_BYTES = 1 << 22  # of filters by a thread, before they are put aside


@dataclass
class ZonedSource:
    """A file whose zones are being made.

    Attributes
    ----------
    entry : as it was listed.
    file, leaf, column_type : the file and its column.
    stamp : what will tell that it is unchanged.
    footer, data : fingerprints of its footer without filters and, known at the end, of the column's bytes.
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
    """A row group whose zones are made, or the end of a file.

    Attributes
    ----------
    entry : the file as it was listed.
    opened : the same, open; None if it could not be opened.
    row_group : its number; -1 at the end of the file.
    runs : its filters, in the order of the zones.
    has_null : of each zone.
    error : what went wrong; no more pieces of the file follow that mean anything.
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
    """The leaf whose zones are made.

    Raises
    ------
    UnknownColumnError
        There is none of that dotted path, or it cannot be told which.
    UnsupportedTypeError
        It is in a list or map, or BOOLEAN.
    """
    leaves = find_leaves(file.leaves, column)
    if len(leaves) != 1 or leaves[0].name != column:
        if not leaves:
            problem = "no such column"
        elif len(leaves) > 1:
            problem = f"the name stands for {len(leaves)} columns"
        else:
            problem = f"zones are of the values themselves, those of column '{leaves[0].name}'"
        raise UnknownColumnError(problem, path=file.path, column=column)
    (leaf,) = leaves
    if any(f"{other.name}.".lower().startswith(f"{column}.".lower()) for other in file.leaves if other is not leaf):
        # Who asks whatever the case may mean the other one.
        raise UnknownColumnError("other columns differ from it by their case only", path=file.path, column=column)
    if leaf.repeated:
        raise UnsupportedTypeError("values of lists and maps have no zones", path=file.path, column=column)
    if not type_of(leaf).hashable:
        problem = "BOOLEAN columns have no zones: there are two values to find"
        raise UnsupportedTypeError(problem, path=file.path, column=column)
    return leaf


def _opened(entry: Entry, column: str, filesystem: object | None) -> ZonedSource:
    source = open_source(entry.path, filesystem, entry)
    try:
        stamp = wait_until_settled(source)
        file = BloomFile(source, None)
        leaf = find_column(file, column)
        for row_group in file.row_groups:
            count_values(file.footer, row_group, leaf)
        reader = ColumnReader(source, file.footer, leaf)
        return ZonedSource(entry, file, leaf, type_of(leaf), reader, stamp, footer_fingerprint(file.footer))
    except BaseException:
        source.close()
        raise


class _PutAsideError(Exception):
    """There is no room to put filters aside: no fault of the file that they are of, and so the end of all."""

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

    def pieces(self, entries: Iterable[Entry]) -> Generator[RowGroupResult, None, None]:
        """Read files, in their order; close the iterator to give up."""

        def opened(entry: Entry) -> RowGroupResult:
            try:
                return RowGroupResult(entry, _opened(entry, self._column, self._filesystem))
            except ParquetBloomError as error:
                error.path = error.path or entry.path
                if _is_silence(error):
                    raise
                return RowGroupResult(entry, None, error=error)

        with (
            in_order(opened, entries, _FILES_AHEAD) as files,
            closing(_tasks(files)) as tasks,
            in_order(self._work, tasks, self._threads) as done,
        ):
            try:
                yield from done
            except _PutAsideError as failed:
                raise failed.error from failed

    def _work(self, piece: RowGroupResult) -> RowGroupResult:
        opened = piece.opened
        if opened is None:
            return piece
        try:
            if not piece.last:
                self._make(piece, opened)
            else:
                source = opened.file.source
                opened.data = chunk_bytes_fingerprint(source, opened.file.footer, [opened.leaf])
                source.check_unchanged()
        except ParquetBloomError as error:
            error.path = error.path or piece.entry.path
            if _is_silence(error):
                raise
            piece.error = error
        return piece

    def _make(self, piece: RowGroupResult, opened: ZonedSource) -> None:
        """The zones of a row group."""
        num_rows = opened.file.footer.num_rows_of(piece.row_group)
        count = -(-num_rows // self._rows)
        piece.has_null = np.zeros(count, np.bool_)
        held = np.zeros((max(1, min(count, _HELD_BYTES // self._filter_bytes)), self._filter_bytes), np.uint8)
        zone, row = 0, 0
        for array in self._arrays(opened, piece.row_group, num_rows):
            start = 0
            while start < len(array):
                some = array.slice(start, self._rows - row)
                sbbf.insert_keys(held[zone % len(held)], stored_keys(some, opened.column_type))
                piece.has_null[zone] |= bool(some.null_count)
                start += len(some)
                row += len(some)
                if row == self._rows:
                    zone, row = zone + 1, 0
                    if zone % len(held) == 0:
                        piece.runs.append(self._put(held))
                        held[:] = 0
        rest = count - len(held) * len(piece.runs)
        if rest:
            piece.runs.append(self._put(held[:rest]))

    def _put(self, filters: NDArray[np.uint8]) -> SpillRun:
        try:
            return self._scratch.put([filters])
        except StorageError as error:
            raise _PutAsideError(error) from error

    def _arrays(self, opened: ZonedSource, row_group: int, num_rows: int) -> Iterator[pa.Array]:
        if not num_rows:
            return
        seen = 0
        for array in opened.reader.batches(row_group):
            problem = find_value_outside_type(array, opened.column_type)
            seen += len(array)
            if problem is None and seen > num_rows:
                problem = "there are more values than rows"
            if problem:
                raise _unreadable(problem, opened, row_group)
            yield array
        if seen != num_rows:
            raise _unreadable(f"{seen} values in {num_rows} rows", opened, row_group)


def _is_silence(error: ParquetBloomError) -> bool:
    """Whether a store did not answer in time: the next file would wait as long, and so it is an error of all."""
    return isinstance(error, StorageError) and error.errno == errno.ETIMEDOUT


def _unreadable(problem: str, opened: ZonedSource, row_group: int) -> UnreadableColumnError:
    return UnreadableColumnError(
        f"cannot be read: {problem}", path=opened.file.path, row_group=row_group, column=opened.leaf.name
    )


def _tasks(files: Iterator[RowGroupResult]) -> Generator[RowGroupResult, None, None]:
    """What is to be read of files, a row group at a time."""
    for found in files:
        if found.opened is not None:
            for row_group in found.opened.file.row_groups:
                yield replace(found, row_group=row_group, runs=[])
        yield found
