"""The statistics of row groups: files are put together by their columns, and a predicate is evaluated on all at once.

Filters are asked where statistics leave a doubt (see `filter_level`): the pass over them also tells which files are
unchanged, and cached metadata of the others is not used. Files with anything unusual, and those whose probes take more
than one pass, are left to be planned one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import FileStatistics, StatisticsKey, join_parts, statistics_of_files
from ...file.metadata_cache import CachedFooter, MetadataCache
from ...metadata.footer import MAGIC, TAIL_BYTES, Footer
from ...predicate.column_parts import DictionaryReader, DictionaryValues
from ...predicate.pruning import PruningPredicate
from ...predicate.pruning_statistics import PruningStatisticsArray
from ...storage import ClosedSource, Source
from .dictionary_level import DictionaryReads, DictionaryTable, OpenedRanges
from .filter_level import BatchProbe, FilterProber, FilterReader, FilterTable

_FOOTER, _NUM_ROWS = attrgetter("footer"), attrgetter("num_rows")
_NOTHING = np.empty(0, np.intp)
_NO_FILTERS = np.empty((0, 3), np.int64)


class OpenedFile(NamedTuple):
    """A file whose footer is known.

    Attributes
    ----------
    position : in the group of files that it is of.
    path, identity : the file, and its version.
    footer : its metadata.
    tail : its last bytes, if they were read just now and are kept.
    requests, bytes_read : cost of reading the metadata.
    """

    position: int
    path: str
    identity: Any
    footer: CachedFooter
    tail: bytes = b""
    requests: int = 0
    bytes_read: int = 0


class FileGroup(Protocol):
    """Files of one kind of storage, whose footers and filters are fetched many at a time.

    Attributes
    ----------
    paths : the files.
    cached : version and metadata of each file as far as they are cached; None for the others.
    """

    @property
    def paths(self) -> Sequence[str]: ...

    @property
    def cached(self) -> Sequence[tuple[Hashable, CachedFooter] | None]: ...

    def read_footers(self) -> Iterator[list[OpenedFile]]:
        """Read the footers of the files that are not cached, and cache them; yield some files at a time.

        Files that cannot be read without trouble are left out.
        """

    def find_unchanged(self) -> Iterator[tuple[int, Source, CachedFooter]]:
        """Yield the position, the file, which is not open, and the metadata of each cached file that is unchanged."""

    def make_reader(self, files: Sequence[OpenedFile]) -> FilterReader:
        """Return what probes filters of these files, given some of the files whose footers are known."""

    @property
    def request_bytes(self) -> int:
        """Bytes that are read in the time that a request takes."""

    def open_ranges(
        self, files: Sequence[OpenedFile], numbers: NDArray[np.intp], ranges: NDArray[np.int64]
    ) -> AbstractContextManager[OpenedRanges | None]:
        """Open files of the group; see `RangesOpener`."""


def parse_ends(ends: Sequence[tuple[int, bytes]]) -> list[tuple[int, Footer | None]]:
    """Parse the footers of files, given the sizes and last bytes of these.

    Returns
    -------
    Of each file the bytes that its footer takes, 0 if it is no Parquet file; and the footer, None if it is not whole,
    malformed or unusual.
    """
    needed = []
    footers, starts, whole = [], [], []
    for i, (size, data) in enumerate(ends):
        length = 0
        if data[-len(MAGIC) :] == MAGIC and len(data) >= TAIL_BYTES:
            length = int.from_bytes(data[-TAIL_BYTES:-4], "little") + TAIL_BYTES
        if length + len(MAGIC) > size:
            length = 0  # it is cut off
        needed.append(length)
        if 0 < length <= len(data):
            whole.append(i)
            footers.append(data[len(data) - length : -TAIL_BYTES])
            starts.append(size - length)
    found = dict(zip(whole, Footer.parse_many(footers, starts), strict=True))
    return list(zip(needed, map(found.get, range(len(ends))), strict=True))


class EvaluatedFile(NamedTuple):
    """The result for one file: its statistics, the number of each row group's verdict, and the cost."""

    file: OpenedFile
    statistics: FileStatistics
    verdicts: NDArray[np.int32]
    requests: int
    bytes_read: int


class _CachedBatches(NamedTuple):
    """The batches of some files, valid as long as the files have the same metadata."""

    paths: list[str]
    footers: Sequence[tuple[Hashable, CachedFooter] | None]
    batches: list[StatisticsBatch]


def evaluate_together(
    files: FileGroup,
    predicate: PruningPredicate | Literal[True],
    key: StatisticsKey,
    cache: MetadataCache | None,
    threads: int,
) -> dict[int, EvaluatedFile]:
    """Evaluate a predicate on the files of a group that need no closer look.

    Parameters
    ----------
    predicate : True if every row matches.
    key : the predicate's columns, and how they are found.
    cache : keeps the batches of the files while their metadata stays the same; None to make them anew.
    threads : threads that read filters, at most.

    Returns
    -------
    {position in the group: result}; the other files must be planned one by one.
    """
    paths, cached = files.paths, files.cached
    shared_key = (key, len(paths), paths[0] if paths else "")
    kept: _CachedBatches | None = None
    if cache is not None and None not in cached:
        kept = cache.get_shared(shared_key)
    if kept is None or kept.footers != cached or kept.paths != paths:
        groups: dict[int, list[tuple[OpenedFile, FileStatistics]]] = {}  # by the layout of their statistics
        known = []
        for position, entry in enumerate(cached):
            if entry is not None:
                known.append(OpenedFile(position, paths[position], *entry))
        for opened in chain([known], files.read_footers()):

            def open_file(i: int, opened: list[OpenedFile] = opened) -> BloomFile:
                return BloomFile(ClosedSource(opened[i].path, opened[i].identity), cached=opened[i].footer)

            of_files = statistics_of_files(list(map(_FOOTER, opened)), key, open_file)
            for file, statistics in zip(opened, of_files, strict=True):
                if not isinstance(statistics, ParquetBloomError):  # a closer look explains it
                    groups.setdefault(statistics.layout, []).append((file, statistics))
        kept = _CachedBatches([*paths], cached, [])
        for group in groups.values():
            members, of_members = zip(*group, strict=True)
            kept.batches.append(StatisticsBatch(members, of_members, files.make_reader(members), files.request_bytes))
        if cache is not None and None not in cached:
            cache.put_shared(shared_key, kept)
    results: dict[int, EvaluatedFile] = {}
    for batch in kept.batches:
        results |= batch.evaluate(predicate, files, threads)
    return results


def cache_footers(files: FileGroup) -> list[BloomFile | None]:
    """Read the footers of files into their cache, from hardly more of their ends than footers like theirs take.

    Returns
    -------
    The files, which are not open; None for one that cannot be read without trouble.
    """
    found: list[BloomFile | None] = [None] * len(files.paths)
    for opened in files.read_footers():
        for file in opened:
            found[file.position] = BloomFile(ClosedSource(file.path, file.identity), cached=file.footer)
    for position, source, footer in files.find_unchanged():
        found[position] = BloomFile(source, cached=footer)
    return found


class StatisticsBatch:
    """Files whose columns have the same types and shapes, with their statistics and filters concatenated.

    Parameters
    ----------
    files, statistics : the files, and the statistics of each.
    reader : probes filters of the files.
    request_bytes : see `FileGroup`.
    """

    def __init__(
        self,
        files: Sequence[OpenedFile],
        statistics: Sequence[FileStatistics],
        reader: FilterReader,
        request_bytes: int,
    ):
        self._files = files
        self._columns = concatenate_statistics(statistics)
        ends = np.cumsum(list(map(len, map(_NUM_ROWS, statistics))))
        footers = list(map(_FOOTER, files))
        self._filters = FilterTable(footers, statistics, ends, reader)
        self._dictionaries = DictionaryTable(list(map(_FOOTER, footers)), statistics, ends, request_bytes)

    def evaluate(
        self, predicate: PruningPredicate | Literal[True], group: FileGroup, threads: int
    ) -> dict[int, EvaluatedFile]:
        """Return the results of the files that are unchanged and need no closer look, by their positions.

        Parameters
        ----------
        group : which the files are of, as it is now.
        """
        filters, ends = self._filters, self._filters.ends
        probe = BatchProbe(filters, threads)
        verdicts = np.zeros(int(ends[-1]), np.int32)

        def open_ranges(
            some: Sequence[int], numbers: NDArray[np.intp], ranges: NDArray[np.int64]
        ) -> AbstractContextManager[OpenedRanges | None]:
            return group.open_ranges([self._files[number] for number in some], numbers, ranges)

        spent = np.zeros((2, len(ends)), np.int64)
        reads = DictionaryReads(open_ranges, spent[0], spent[1], np.zeros(len(ends), np.bool_))

        def read_dictionaries(name: str, positions: NDArray[np.intp], share: float) -> DictionaryValues | None:
            return self._dictionaries.read(name, positions, share, reads)

        if predicate is not True:
            verdicts = predicate.decide_all(self._columns, len(verdicts), probe.probe, read_dictionaries)
        if probe.answers is None:  # whether the files are unchanged is not known yet
            first = np.zeros(len(ends) + 1, np.int64)
            probe.answers = filters.reader.probe(first, _NO_FILTERS, _NOTHING, [], threads)
        _, same, requests, num_bytes = probe.answers
        is_whole = same & ~reads.has_failed  # a closer look says why a dictionary could not be read
        results, start = {}, 0
        costs = requests + reads.requests, num_bytes + reads.num_bytes
        columns: Any = map(np.ndarray.tolist, (ends, is_whole, *costs))
        rows = zip(self._files, filters.statistics, *columns, strict=True)
        for file, statistics, end, is_usable, file_requests, file_bytes in rows:
            if is_usable:
                cost = file_requests + file.requests, file_bytes + file.bytes_read
                results[file.position] = EvaluatedFile(file, statistics, verdicts[start:end], *cost)
            start = end
        return results


def concatenate_statistics(files: Sequence[FileStatistics]) -> dict[str, PruningStatisticsArray | None]:
    """Return the statistics of each column in all row groups of files with one layout, file after file."""
    columns: dict[str, PruningStatisticsArray | None] = {}
    for name, first in files[0].columns.items():
        parts = []
        for statistics in files if first is not None else ():
            column = statistics.columns[name]
            if column is not None:
                parts.append(column.part)
        columns[name] = None
        if parts:
            joined, shape = join_parts(parts).evidence, files[0].holds[name]
            columns[name] = joined if joined.holds is shape else joined.holding(shape)
    return columns


def evaluate_row_groups(
    statistics: FileStatistics,
    predicate: PruningPredicate | Literal[True],
    probe_filters: FilterProber,
    read_dictionaries: DictionaryReader,
) -> NDArray[np.int32]:
    """Evaluate a predicate on all row groups of a file.

    Parameters
    ----------
    statistics : of the file.
    predicate : True if every row matches.
    probe_filters, read_dictionaries : see `PruningPredicate.decide_all`; their places are the file's row groups.

    Returns
    -------
    The number of each row group's verdict.
    """
    count = len(statistics.num_rows)
    if predicate is True:
        return np.zeros(count, np.int32)
    return predicate.decide_all(concatenate_statistics([statistics]), count, probe_filters, read_dictionaries)
