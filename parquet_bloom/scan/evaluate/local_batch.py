"""Evaluate a predicate on local files in batches: footers from the cache or read by the hundred, filters in one pass.

Cached metadata of a local file is used only after the pass over the files, which tells whether each file is unchanged.
Files that have changed, those with anything unusual, and those whose probes take more than one pass, are left to be
planned one by one. `object_batch` does the same with objects of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import (
    UNREAD,
    ColumnCompatibility,
    FileStatistics,
    cached_statistics,
    file_statistics,
)
from ...metadata.footer import TAIL_BYTES
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import PruningStatisticsArray
from ...storage import ClosedSource, FileIdentity, FilterAnswers, LocalFileBatch, read_file_tails, usual_header
from ...storage.local.batch_probe import EMPTY, MAYBE
from .parquet import concatenate_statistics, predicate_columns

_TAILS_PER_READ = 256  # files whose last bytes are in memory at a time
_PAGE = 4096
_FIRST_TAIL_BYTES, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4 * _PAGE, _PAGE, 256 * _PAGE
_NOTHING = np.empty(0, np.intp)
_UNTRUSTED = (-1, 1)  # a location that no filter has


class FileResult(NamedTuple):
    """The result for one file: its version, its statistics, the number of each row group's verdict, and the cost."""

    identity: Hashable
    statistics: FileStatistics
    verdicts: NDArray[np.int32]
    requests: int
    bytes_read: int


class CachedFile(NamedTuple):
    """A file to evaluate, with its metadata.

    Attributes
    ----------
    position : in the list of files that was given.
    path, identity : the file, and its version.
    footer, statistics : its metadata.
    tail : the end of a file that was read just now; None for others.
    requests, bytes_read : cost of reading the metadata.
    """

    position: int
    path: str
    identity: Any
    footer: CachedFooter
    statistics: FileStatistics
    tail: ClosedSource | None = None
    requests: int = 0
    bytes_read: int = 0


class FilterReader(Protocol):
    """Probes the filters of many files, and tells which files are unchanged; see `storage.LocalFileBatch.probe`.

    Attributes
    ----------
    in_memory : whether it makes no requests to a file system.
    """

    in_memory: bool

    def probe(
        self,
        first: NDArray[np.int64],
        filters: NDArray[np.int64],
        which: NDArray[np.int64],
        sets: Sequence[NDArray[np.uint64]],
        threads: int = 1,
    ) -> FilterAnswers: ...


def evaluate_local(
    paths: Sequence[str],
    predicate: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    ignore_case: bool,
    threads: int,
    trust: ColumnCompatibility | None = None,
) -> dict[int, FileResult]:
    """Evaluate a predicate on the local files that need no closer look.

    Parameters
    ----------
    paths : the files.
    predicate : True if every row matches.
    cache : cached footers, to which those read now are added.
    threads : threads that read files, at most.
    trust : which columns of a file are ignored.

    Returns
    -------
    {position in `paths`: result}; the other files must be planned one by one.
    """
    names = tuple(predicate_columns(predicate))
    cached: list[tuple[FileIdentity, CachedFooter] | None] = [None] * len(paths)
    if cache is not None:
        cached = cache.find_by_paths(paths)
    key = StatisticsKey(names, ignore_case, trust)

    def make_batches() -> list[Batch]:
        return _make_batches(paths, cached, key, cache)

    return evaluate_batches(paths, cached, key, predicate, cache, threads, make_batches)


def evaluate_batches(
    paths: Sequence[str],
    cached: Sequence[tuple[Hashable, CachedFooter] | None],
    statistics_key: StatisticsKey,
    predicate: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    threads: int,
    make_batches: Callable[[], list[Batch]],
) -> dict[int, FileResult]:
    """Evaluate a predicate on files in batches, which are cached while the files' metadata stays the same."""
    key = (statistics_key, len(paths), paths[0] if paths else "")
    batches: _CachedBatches | None = cache.get_shared(key) if cache is not None else None
    if batches is None or batches.footers != cached or batches.paths != paths:
        batches = _CachedBatches(list(paths), cached, make_batches())
        if cache is not None and None not in cached:
            cache.put_shared(key, batches)
    results: dict[int, FileResult] = {}
    for batch in batches.batches:
        results.update(_BatchRead(batch, threads).evaluate(predicate))
    return results


class StatisticsKey(NamedTuple):
    """The arguments of `file_statistics`, by which it also caches its results."""

    names: tuple[str, ...]
    ignore_case: bool
    trust: ColumnCompatibility | None


class _CachedBatches(NamedTuple):
    """The batches of some files, valid as long as the files have the same metadata."""

    paths: list[str]
    footers: Sequence[tuple[Hashable, CachedFooter] | None]
    batches: list[Batch]


def _make_batches(
    paths: Sequence[str],
    cached: list[tuple[FileIdentity, CachedFooter] | None],
    key: StatisticsKey,
    cache: MetadataCache | None,
) -> list[Batch]:
    """Return the batches of local files; footers that are not cached are read."""
    files: list[CachedFile] = []
    for position, entry in enumerate(cached):
        if entry is not None:
            identity, footer = entry
            statistics = cached_statistics(footer, key)
            if statistics is None:
                file = BloomFile(ClosedSource(paths[position], identity), cached=footer)
                statistics = try_file_statistics(file, key)
            if statistics is not None:
                files.append(CachedFile(position, paths[position], identity, footer, statistics))
    uncached = [position for position, entry in enumerate(cached) if entry is None]
    files += _read_footers(uncached, paths, key, cache)
    return [Batch(members, _make_reader(members)) for members in group_by_layout(files)]


def _make_reader(files: list[CachedFile]) -> LocalFileBatch:
    in_memory = {i: [(file.tail.size - len(file.tail.end), file.tail.end)] for i, file in enumerate(files) if file.tail}
    return LocalFileBatch([file.path for file in files], [file.identity for file in files], in_memory)


def cache_footers(paths: Sequence[str], cache: MetadataCache) -> None:
    """Read the footers of files into a cache, from hardly more of their ends than footers like theirs take.

    Files that cannot be read without trouble are left out.
    """
    uncached = [position for position, entry in enumerate(cache.find_by_paths(paths)) if entry is None]
    for _ in _read_footers(uncached, paths, StatisticsKey((), False, None), cache):
        pass


def group_by_layout(files: Iterable[CachedFile]) -> list[list[CachedFile]]:
    """Group files by the layout of their statistics, so that each group can be evaluated as arrays."""
    groups: dict[int, list[CachedFile]] = {}
    for file in files:
        groups.setdefault(file.statistics.layout, []).append(file)
    return [*groups.values()]


def try_file_statistics(file: BloomFile, key: StatisticsKey) -> FileStatistics | None:
    """Return the statistics of a file; None if they cannot be read, which a closer look explains."""
    try:
        return file_statistics(file, *key)
    except ParquetBloomError:
        return None


def _read_footers(
    positions: list[int], paths: Sequence[str], key: StatisticsKey, cache: MetadataCache | None
) -> Iterator[CachedFile]:
    """Read the footers of files; files that cannot be read without trouble are left out."""
    length = _FIRST_TAIL_BYTES
    for start in range(0, len(positions), _TAILS_PER_READ):
        group = positions[start : start + _TAILS_PER_READ]
        longest = 0
        tails = read_file_tails([paths[position] for position in group], length)
        for position, source in zip(group, tails, strict=True):
            if source is None:
                continue
            longest = max(longest, int.from_bytes(source.end[-TAIL_BYTES:-4], "little") + TAIL_BYTES)
            try:
                file = BloomFile(source, cache)
                statistics = file_statistics(file, *key)
            except ParquetBloomError:
                continue  # its footer is longer than its tail that was read, or a closer look tells what is wrong
            cost = 1, len(source.end)
            yield CachedFile(position, paths[position], source.identity, file.cached, statistics, source, *cost)
        # Files of a lake are alike: the next footers will hardly be longer.
        length = min(max(_MIN_TAIL_BYTES, -(-longest * 5 // 4 // _PAGE) * _PAGE), _MAX_TAIL_BYTES)


class Filters(NamedTuple):
    """The filters of a column in many row groups, with one entry for each of these.

    Attributes
    ----------
    locations : int64 of shape (row groups, 3): offset and length of a filter's bitset, and 0; or those of header and
        bitset, and 1, until the header was read. The length is 0 for a filter that cannot be used.
    problems : why a filter cannot be used, or None; [] if all can.
    """

    locations: NDArray[np.int64]
    problems: list[str | None]


class Batch:
    """Files of one layout, with their statistics concatenated.

    Attributes
    ----------
    files : the files.
    ends : for each file, the end of its row groups among those of all files.
    reader : probes filters of the files.
    """

    def __init__(self, files: list[CachedFile], reader: FilterReader):
        self.files = files
        self.ends = np.cumsum([len(file.statistics.num_rows) for file in files])
        self.reader = reader
        self._filters: dict[str, Filters] = {}

    @cached_property
    def columns(self) -> dict[str, PruningStatisticsArray | None]:
        return concatenate_statistics([file.statistics for file in self.files])

    def filters(self, name: str) -> Filters:
        """Return a column's filters in all row groups."""
        filters = self._filters.get(name)
        if filters is None:
            columns = [column for file in self.files if (column := file.statistics.columns[name]) is not None]
            num_bytes = np.concatenate(
                [column.num_bytes for column in columns]
            )  # before the starts: see `ColumnStatistics`
            problems = [] if num_bytes.all() else [problem for column in columns for problem in column.problems]
            starts = np.concatenate([column.starts for column in columns])
            locations = np.stack([starts, num_bytes, np.zeros_like(starts)], axis=1)
            for i in np.flatnonzero((num_bytes == UNREAD) & self._filtered(name)).tolist():
                file, row_group = self.locate(i)
                column = file.statistics.columns[name]
                assert column is not None
                offset, length = column.filter_location(file.footer, row_group) or _UNTRUSTED
                header = file.footer.filter_headers.get(offset)
                if header is None or header != usual_header(length):
                    locations[i] = offset, length, 1
                else:  # stored in a cache on disk
                    column.note_header(file.footer, row_group, header)
                    locations[i] = offset + len(header), length - len(header), 0
            filters = self._filters[name] = Filters(locations, problems)
        return filters

    def _filtered(self, name: str) -> NDArray[np.bool_]:
        column = self.columns[name]
        assert column is not None
        return column.filtered

    def locate(self, position: int) -> tuple[CachedFile, int]:
        """Return the file of a row group, given its position among those of all files, and its ordinal there."""
        number = int(np.searchsorted(self.ends, position, "right"))
        file = self.files[number]
        return file, position - int(self.ends[number]) + len(file.statistics.num_rows)

    def note_headers(self, name: str, positions: NDArray[np.intp]) -> None:
        """Take the headers of filters that were read for the first time, which are the usual ones."""
        locations = self.filters(name).locations
        for i, (offset, length, _) in zip(positions.tolist(), locations[positions].tolist(), strict=True):
            file, row_group = self.locate(i)
            column, header = file.statistics.columns[name], usual_header(length)
            assert column is not None
            column.note_header(file.footer, row_group, header)
            locations[i] = offset + len(header), length - len(header), 0


class _BatchRead:
    """One pass over the files of a batch."""

    def __init__(self, batch: Batch, threads: int):
        self._batch = batch
        self._files = batch.files
        self._ends = batch.ends
        self._threads = threads
        self._usable = np.ones(len(batch.files), np.bool_)
        self._answers: FilterAnswers | None = None

    def evaluate(self, predicate: PruningPredicate | Literal[True]) -> dict[int, FileResult]:
        """Return the results of the files that are unchanged and need no closer look, by their positions."""
        count = int(self._ends[-1])
        verdicts = np.zeros(count, np.int32)
        if predicate is not True:
            verdicts = predicate.decide_all(self._batch.columns, count, self._probe_filters)
        answers = self._answers or self._probe([], _NOTHING, np.empty((0, 3), np.int64), _NOTHING)
        requests, num_bytes = answers.requests, answers.num_bytes
        if self._batch.reader.in_memory:
            requests = num_bytes = np.zeros_like(requests)
        usable = (self._usable & answers.same).tolist()
        rows = zip(self._files, self._ends.tolist(), usable, requests.tolist(), num_bytes.tolist(), strict=True)
        results, start = {}, 0
        for file, end, is_usable, file_requests, file_bytes in rows:
            file_verdicts, start = verdicts[start:end], end
            if is_usable:
                cost = file_requests + file.requests, file_bytes + file.bytes_read
                results[file.position] = FileResult(file.identity, file.statistics, file_verdicts, *cost)
        return results

    def _probe_filters(self, probes: list[FilterProbe]) -> list[ProbeResult]:
        results = [ProbeResult(np.ones(len(probe.positions), np.bool_)) for probe in probes]
        members: list[NDArray[np.intp]] = []  # of each probe's row groups, those with a filter that can be used
        files, locations = [], []
        for i, probe in enumerate(probes):
            filters = self._batch.filters(probe.column)
            of_probe = filters.locations[probe.positions]
            if filters.problems:
                problems = [filters.problems[at] for at in probe.positions.tolist()]
                results[i] = ProbeResult(results[i].maybe, problems)
            members.append(np.flatnonzero(of_probe[:, 1]))
            files.append(np.searchsorted(self._ends, probe.positions[members[i]], "right"))
            locations.append(of_probe[members[i]])
        which = np.repeat(np.arange(len(probes)), [len(one) for one in members])
        file_numbers, of_filters = np.concatenate(files), np.concatenate(locations)
        answers = self._probe(probes, file_numbers, of_filters, which)
        self._usable[file_numbers[answers.answers > MAYBE]] = False
        is_maybe = answers.answers == MAYBE
        # A header of a file that has changed must not be remembered for the one that was expected.
        is_read = (of_filters[:, 2] != 0) & (answers.answers <= EMPTY) & answers.same[file_numbers]
        start = 0
        for i, probe in enumerate(probes):
            stop = start + len(members[i])
            results[i].maybe[members[i]] = is_maybe[start:stop]
            self._batch.note_headers(probe.column, probe.positions[members[i][is_read[start:stop]]])
            start = stop
        return results

    def _probe(
        self,
        probes: list[FilterProbe],
        files: NDArray[np.intp],
        locations: NDArray[np.int64],
        which: NDArray[np.int64],
    ) -> FilterAnswers:
        """Probe filters, given by the numbers of their files, and find out which files are unchanged."""
        order = np.lexsort((locations[:, 0], files))
        first = np.concatenate([[0], np.cumsum(np.bincount(files, minlength=len(self._files)))])
        sets = [probe.hashes for probe in probes]
        answers = self._batch.reader.probe(first, locations[order], which[order], sets, self._threads)
        in_order_given = np.empty_like(answers.answers)
        in_order_given[order] = answers.answers
        self._answers = answers._replace(answers=in_order_given)
        return self._answers
