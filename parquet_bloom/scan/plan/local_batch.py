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
    StatisticsKey,
    join_parts,
    statistics_of_files,
)
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import PruningStatisticsArray
from ...storage import ClosedSource, FileIdentity, FilterAnswers, LocalFileBatch, stat_files, usual_header
from ...storage.local.batch_probe import EMPTY, MAYBE
from ...util.collector import paused_collection
from ...util.threads import processors
from .footer_batch import OpenedFile, read_footers
from .parquet import concatenate_statistics, predicate_columns

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
    tail : the last bytes of a file that was read just now; empty for others.
    requests, bytes_read : cost of reading the metadata.
    """

    position: int
    path: str
    identity: Any
    footer: CachedFooter
    statistics: FileStatistics
    tail: bytes = b""
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
        return _make_batches(paths, cached, key, cache, threads)

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
    threads: int,
) -> list[Batch]:
    """Return the batches of local files; footers that are not cached are read."""
    known = [
        OpenedFile(position, paths[position], *entry) for position, entry in enumerate(cached) if entry is not None
    ]
    uncached = [position for position, entry in enumerate(cached) if entry is None]
    files = list(add_statistics(known, key))
    for opened in read_footers(uncached, paths, cache, threads):
        files += add_statistics(opened, key)
    return [Batch(members, _make_reader(members)) for members in group_by_layout(files)]


def add_statistics(files: list[OpenedFile], key: StatisticsKey) -> Iterator[CachedFile]:
    """Yield files with their statistics; those of which these cannot be read are left out."""

    def open_file(i: int) -> BloomFile:
        return BloomFile(ClosedSource(files[i].path, files[i].identity), cached=files[i].footer)

    statistics = statistics_of_files([file.footer for file in files], key, open_file)
    for file, of_file in zip(files, statistics, strict=True):
        if not isinstance(of_file, ParquetBloomError):
            yield CachedFile(*file[:4], of_file, *file[4:])


def _make_reader(files: list[CachedFile]) -> LocalFileBatch:
    in_memory = {i: [(file.identity.size - len(file.tail), file.tail)] for i, file in enumerate(files) if file.tail}
    return LocalFileBatch([file.path for file in files], [file.identity for file in files], in_memory)


def cache_footers(paths: Sequence[str], cache: MetadataCache) -> list[BloomFile | None]:
    """Read the footers of files into a cache, from hardly more of their ends than footers like theirs take.

    Returns
    -------
    The files, which are not open; None for one that cannot be read without trouble.
    """
    cached = cache.find_by_paths(paths)
    files: list[BloomFile | None] = [None] * len(paths)
    with paused_collection():
        uncached = [position for position, entry in enumerate(cached) if entry is None]
        for opened in read_footers(uncached, paths, cache, processors()):
            for file in opened:
                files[file.position] = BloomFile(ClosedSource(file.path, file.identity), cached=file.footer)
        known = [position for position, entry in enumerate(cached) if entry is not None]
        for position, source in zip(known, stat_files([paths[position] for position in known]), strict=True):
            footer = None if source is None else cache.find_local(source.name, source.identity)
            if source is not None and footer is not None:
                files[position] = BloomFile(source, cached=footer)
    return files


def group_by_layout(files: Iterable[CachedFile]) -> list[list[CachedFile]]:
    """Group files by the layout of their statistics, so that each group can be evaluated as arrays."""
    groups: dict[int, list[CachedFile]] = {}
    for file in files:
        groups.setdefault(file.statistics.layout, []).append(file)
    return [*groups.values()]


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
        if name not in self._filters:
            columns = [column for file in self.files if (column := file.statistics.columns[name]) is not None]
            num_bytes = np.concatenate(
                [column.num_bytes for column in columns]
            )  # before the starts: see `ColumnStatistics`
            problems = [] if num_bytes.all() else [problem for column in columns for problem in column.problems]
            starts = np.concatenate([column.starts for column in columns])
            locations = np.stack([starts, num_bytes, np.zeros_like(starts)], axis=1)
            unread = np.flatnonzero(num_bytes == UNREAD)
            if len(unread):
                locations[unread, :2] = join_parts([column.part for column in columns])[1][unread]
                locations[unread, 2] = 1
                self._trust_locations(locations, unread)
            self._filters[name] = Filters(locations, problems)
            self._take_stored_headers(name, unread)
        return self._filters[name]

    def _trust_locations(self, locations: NDArray[np.int64], unread: NDArray[np.intp]) -> None:
        """Replace locations by the footer that cannot be trusted, since no header at them would be."""
        apart = np.array([file.footer.footer.filters_apart for file in self.files], np.bool_)
        trusted = apart[np.searchsorted(self.ends, unread, "right")] & (locations[unread, 0] >= 0)
        locations[unread[~trusted], :2] = _UNTRUSTED

    def _take_stored_headers(self, name: str, unread: NDArray[np.intp]) -> None:
        """Take the headers that a cache on disk had."""
        if len(unread) and any(file.footer.filter_headers for file in self.files):
            locations = self.filters(name).locations
            numbers = np.searchsorted(self.ends, unread, "right").tolist()
            known = [
                self.files[number].footer.filter_headers.get(offset, b"?") == usual_header(length)
                for number, (offset, length, _) in zip(numbers, locations[unread].tolist(), strict=True)
            ]
            self.note_headers(name, unread[np.array(known, np.bool_)])

    def note_headers(self, name: str, positions: NDArray[np.intp]) -> None:
        """Take the headers of filters that are the usual ones, at these row groups among those of all files."""
        locations, problems = self.filters(name)
        positions = positions[locations[positions, 2] != 0]  # the others were taken: a filter may be probed twice
        numbers = np.searchsorted(self.ends, positions, "right")
        row_groups = positions - np.concatenate([[0], self.ends])[numbers]
        bitsets = []
        for number, row_group, (offset, length) in zip(
            numbers.tolist(), row_groups.tolist(), locations[positions, :2].tolist(), strict=True
        ):
            file, header = self.files[number], usual_header(length)
            column = file.statistics.columns[name]
            assert column is not None
            column.note_header(file.footer, row_group, header, offset, length - len(header))
            bitsets.append((offset + len(header), length - len(header), 0))
        if bitsets:
            locations = locations.copy()  # another thread may be probing these filters
            locations[positions] = bitsets
            self._filters[name] = Filters(locations, problems)


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
