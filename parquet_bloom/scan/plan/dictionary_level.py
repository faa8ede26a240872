"""Dictionaries of row groups: read where statistics and filters leave a doubt, and the footer proves them to be whole.

A dictionary has every value of its column chunk if all data pages are dictionary-encoded, which writers record in the
footer. It is read where it is small beside the row group that it may save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.bloom_file import BloomFile
from ...file.column_statistics import FileStatistics, join_parts
from ...file.file_columns import type_of
from ...file.pages.dictionaries import Dictionaries, read_dictionaries
from ...file.pages.fetched_ranges import FetchedRanges
from ...metadata.footer import Footer, SchemaLeaf
from ...predicate.column_parts import DictionaryReader, DictionaryValues
from ...predicate.row_filter import StoredColumn
from ...storage import OPEN_FILE_BUDGET, FileIdentity, OpenFiles
from ...storage.local.open_files import RangeReader

REQUEST_BYTES = 256 << 10
"""Bytes that are read in the time that a request to an object store takes (`slow_store.py`)."""

_MOST_SHARE = 0.5  # of the bytes of a row group: a dictionary that costs more is not read
_MOST_KEPT = 32 << 20  # bytes of the values of a column that are kept with the statistics of files
_MOST_AT_ONCE = 256  # dictionaries that are read together, of as many files at most
_FEW_OF = 8  # row groups are few if they are one of so many


class _DictionaryColumn(NamedTuple):
    """The dictionaries of a column in many row groups.

    Attributes
    ----------
    leaf : the column.
    locations : of each row group, see `ColumnStatistics.dictionaries`.
    shares : what part of its row group's bytes each costs (float); infinite for those that cannot be used.
    problems : why some cannot be used, by the numbers of their row groups.
    """

    leaf: SchemaLeaf
    locations: NDArray[np.int64]
    shares: NDArray[np.float64]
    problems: dict[int, str]

    def choose(self, positions: NDArray[np.intp], share: float) -> NDArray[np.intp]:
        """Return those of some row groups whose dictionaries cost at most a share of their bytes."""
        return positions[self.shares[positions] <= min(share, _MOST_SHARE)]


def _find_column(
    statistics: Sequence[FileStatistics], name: str, measure: Callable[[], NDArray[np.int64]], request_bytes: int
) -> _DictionaryColumn:
    """Find the dictionaries of a column in files of one layout.

    Parameters
    ----------
    measure : returns the compressed bytes of each row group.
    request_bytes : bytes that cost as much as a request.
    """
    columns = [of_file.columns[name] for of_file in statistics]
    joined = join_parts([column.part for column in columns if column is not None])
    locations = joined.dictionaries[joined.start : joined.stop]
    exists = locations[:, 1] > 0
    shares = np.full(len(locations), np.inf)
    if exists.any():
        shares[exists] = (locations[exists, 1] + request_bytes) / np.maximum(measure()[exists], 1)
    assert columns[0] is not None
    return _DictionaryColumn(columns[0].leaf, locations, shares, {})


def _measure_row_groups(footer: Footer) -> NDArray[np.int64]:
    """Return the compressed bytes of each row group."""
    groups, sizes = footer.row_groups, np.maximum(footer.chunks["compressed_size"], 0)
    before = np.concatenate([[0], np.cumsum(sizes)])
    first = np.minimum(groups["first_chunk"], len(sizes))
    measured: NDArray[np.int64] = before[np.minimum(first + groups["num_columns"], len(sizes))] - before[first]
    return measured


class _Values(NamedTuple):
    """Values as in `DictionaryValues`, INT96 timestamps as bytes."""

    positions: NDArray[np.intp]
    ends: NDArray[np.int64]
    values: pa.Array


def _join_values(column: _DictionaryColumn, positions: NDArray[np.intp], read: Dictionaries) -> _Values:
    """Return what was read of dictionaries, without those that cannot be used: they are not read again."""
    is_read = read.counts >= 0
    column.shares[positions[~is_read]] = np.inf
    column.problems.update({int(positions[number]): problem for number, problem in read.problems.items()})
    return _Values(positions[is_read], np.cumsum(read.counts[is_read]), read.values)


def _wrap(column: _DictionaryColumn, known: _Values) -> DictionaryValues:
    """Return values as a predicate is evaluated on them."""
    values: pa.Array | StoredColumn = known.values
    if column.leaf.physical == "INT96":
        values = StoredColumn(pa.chunked_array([values]), type_of(column.leaf))
    return DictionaryValues(known.positions, known.ends, values, column.problems)


class OpenedRanges(NamedTuple):
    """Ranges of files that can be read, and what reading them costs, with an entry for each file (int64 arrays)."""

    reader: RangeReader
    requests: NDArray[np.int64]
    num_bytes: NDArray[np.int64]


RangesOpener = Callable[
    [Sequence[int], NDArray[np.intp], NDArray[np.int64]], AbstractContextManager[OpenedRanges | None]
]
"""Opens some files, given by their numbers, to read ranges of them: of each range the position of its file among these,
and its offset and length. None if a file has changed or cannot be read."""


@dataclass
class DictionaryReads:
    """The reading of dictionaries for one predicate.

    Attributes
    ----------
    open_ranges : opens the files.
    requests, num_bytes : what was read of each file (int64 arrays).
    has_failed : of each file whether a dictionary could not be read that was wanted.
    """

    open_ranges: RangesOpener
    requests: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    has_failed: NDArray[np.bool_]


class DictionaryTable:
    """The dictionaries of files with the same columns, which are not open.

    Parameters
    ----------
    footers, statistics : of each file.
    ends : for each file, the end of its row groups among those of all files.
    request_bytes : bytes that cost as much as a request.
    """

    def __init__(
        self,
        footers: Sequence[Footer],
        statistics: Sequence[FileStatistics],
        ends: NDArray[np.intp],
        request_bytes: int,
    ):
        self._footers, self._statistics, self._ends, self._request_bytes = footers, statistics, ends, request_bytes
        self._columns: dict[str, _DictionaryColumn] = {}
        self._known: dict[str, _Values] = {}
        self._sizes: NDArray[np.int64] | None = None

    def _measure(self) -> NDArray[np.int64]:
        """Return the compressed bytes of each row group, measured once for all columns."""
        if self._sizes is None:
            self._sizes = np.concatenate([_measure_row_groups(footer) for footer in self._footers])
        return self._sizes

    def read(
        self, name: str, positions: NDArray[np.intp], share: float, reads: DictionaryReads
    ) -> DictionaryValues | None:
        """Read the dictionaries of a column in some row groups, as far as they are worth it, and keep them.

        Parameters
        ----------
        share : see `DictionaryReader`; of those that are known it does not matter.
        """
        column = self._columns.get(name)
        if column is None:
            column = _find_column(self._statistics, name, self._measure, self._request_bytes)
            self._columns[name] = column
        missing = column.choose(positions, share)
        known = self._known.get(name)
        wanted = missing
        if known is not None:
            missing = np.setdiff1d(wanted, known.positions, assume_unique=True)
            wanted = np.union1d(wanted, np.intersect1d(positions, known.positions, assume_unique=True))
        for start in range(0, len(missing), _MOST_AT_ONCE):
            found = self._read(column, missing[start : start + _MOST_AT_ONCE], reads)
            if found is not None:
                known = found if known is None else _append(known, found)
        if known is not None and known.values.nbytes <= _MOST_KEPT:
            self._known[name] = known
        if known is not None and len(wanted) * _FEW_OF < len(known.positions):
            known = _select(known, wanted)
        return None if known is None else _wrap(column, known)

    def _read(self, column: _DictionaryColumn, positions: NDArray[np.intp], reads: DictionaryReads) -> _Values | None:
        used, numbers = np.unique(np.searchsorted(self._ends, positions, "right"), return_inverse=True)
        locations = column.locations[positions]
        with reads.open_ranges(used.tolist(), numbers, locations) as opened:
            if opened is None:
                reads.has_failed[used] = True
                return None
            reads.requests[used] += opened.requests
            reads.num_bytes[used] += opened.num_bytes
            read = read_dictionaries(opened.reader, column.leaf, numbers, locations)
            if not opened.reader.are_unchanged():
                reads.has_failed[used] = True
                return None
        if read is None:
            column.shares[:] = np.inf
            return None
        return _join_values(column, positions, read)


def _append(known: _Values, found: _Values) -> _Values:
    values = pa.concat_arrays([known.values, found.values])
    return _Values(
        np.concatenate([known.positions, found.positions]),
        np.concatenate([known.ends, found.ends + len(known.values)]),
        values,
    )


def _select(known: _Values, positions: NDArray[np.intp]) -> _Values:
    """Return the dictionaries of some row groups, as far as they are known."""
    chosen = np.flatnonzero(np.isin(known.positions, positions))
    starts = np.concatenate([[0], known.ends[:-1]])[chosen]
    counts = known.ends[chosen] - starts
    slices = [known.values.slice(*span) for span in zip(starts.tolist(), counts.tolist(), strict=True)]
    values = pa.concat_arrays(slices) if slices else known.values[:0]
    return _Values(known.positions[chosen], np.cumsum(counts), values)


@contextmanager
def open_local_ranges(
    paths: Sequence[str], identities: Sequence[FileIdentity], numbers: NDArray[np.intp], ranges: NDArray[np.int64]
) -> Iterator[OpenedRanges | None]:
    """Open local files of some versions; None if one is another version, or is not there."""
    taken = len(paths) if OPEN_FILE_BUDGET.take(len(paths)) else 0
    opened = OpenFiles(paths, identities)
    requests, num_bytes = np.zeros((2, len(paths)), np.int64)
    np.add.at(requests, numbers, 1)
    np.add.at(num_bytes, numbers, ranges[:, 1])
    try:
        yield OpenedRanges(opened, requests, num_bytes) if opened.open() else None
    finally:
        opened.close()
        OPEN_FILE_BUDGET.give_back(taken)


def make_dictionary_reader(file: BloomFile, statistics: FileStatistics) -> DictionaryReader:
    """Return what reads the dictionaries of a file that is open, all of a column at once."""
    columns: dict[str, _DictionaryColumn] = {}

    def read(name: str, positions: NDArray[np.intp], share: float) -> DictionaryValues | None:
        if name not in columns:
            request_bytes = REQUEST_BYTES if file.source.path is None else 0
            columns[name] = _find_column([statistics], name, lambda: _measure_row_groups(file.footer), request_bytes)
        column = columns[name]
        wanted = column.choose(positions, share)
        if not len(wanted):
            return None
        ranges, locations = FetchedRanges(file.source), column.locations[wanted]
        ranges.fetch(locations[:, 0], locations[:, 1])
        found = read_dictionaries(ranges, column.leaf, [0] * len(wanted), locations)
        return None if found is None else _wrap(column, _join_values(column, wanted, found))

    return read
