"""Evaluate a predicate on local files in batches: footers from the cache or read by the hundred, filters in one pass.

Cached metadata of a local file is used only after the pass over the files, which tells whether each file is unchanged.
Files that have changed, those with anything unusual, and those whose probes take more than one pass, are left to be
planned one by one. `object_batch` does the same with objects of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.bloom.blocks import check_blocks, locate_blocks
from ...core.bloom.sbbf import BLOCK_BYTES
from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import (
    UNREAD,
    ColumnCompatibility,
    ColumnStatistics,
    FileStatistics,
    cached_statistics,
    file_statistics,
)
from ...metadata.footer import TAIL_BYTES
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import PruningStatisticsArray
from ...storage import ClosedSource, FileIdentity, LocalFileBatch, read_file_tails
from ...util.threads import in_order
from .parquet import concatenate_statistics, predicate_columns

MAX_KEYS = 64
"""A filter that is probed for more keys is not read by single blocks."""

_FILES_PER_THREAD = 128  # fewer are not worth a thread

_TAILS_PER_READ = 256  # files whose last bytes are in memory at a time
_PAGE = 4096
_FIRST_TAIL_BYTES, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4 * _PAGE, _PAGE, 256 * _PAGE
_NO_OFFSET = np.iinfo(np.int64).max
_HEADER_BYTES = 32  # more than the header of a filter takes


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


class RangeReader(Protocol):
    """Reads ranges of many files, and tells which files are unchanged; see `storage.LocalFileBatch.visit`.

    Attributes
    ----------
    in_memory : whether it makes no requests to a file system.
    """

    in_memory: bool

    def visit(
        self, start: int, stop: int, first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]: ...


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
    return [
        Batch(members, LocalFileBatch([file.path for file in members], [file.identity for file in members]))
        for members in group_by_layout(files)
    ]


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


class Batch:
    """Files of one layout, with their statistics concatenated.

    Attributes
    ----------
    files : the files.
    ends : for each file, the end of its row groups among those of all files.
    reader : reads ranges of the files.
    tail_starts : int64, the offsets from which on the bytes of each file are in memory.
    """

    def __init__(self, files: list[CachedFile], reader: RangeReader):
        self.files = files
        self.ends = np.cumsum([len(file.statistics.num_rows) for file in files])
        self.reader = reader
        starts = [_NO_OFFSET if file.tail is None else file.tail.size - len(file.tail.end) for file in files]
        self.tail_starts = np.array(starts, np.int64)
        self._filters: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], list[str | None]]] = {}

    @cached_property
    def columns(self) -> dict[str, PruningStatisticsArray | None]:
        return concatenate_statistics([file.statistics for file in self.files])

    def filters(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str | None]]:
        """Return starts and sizes of a column's filters in all row groups, and their problems; [] if none has one."""
        filters = self._filters.get(name)
        if filters is None:
            columns = [column for file in self.files if (column := file.statistics.columns[name]) is not None]
            num_bytes = np.concatenate(
                [column.num_bytes for column in columns]
            )  # before the starts: see `ColumnStatistics`
            problems = [] if num_bytes.all() else [problem for column in columns for problem in column.problems]
            filters = np.concatenate([column.starts for column in columns]), num_bytes, problems
            self._filters[name] = filters
        return filters

    def forget_filters(self, name: str) -> None:
        """Have `filters` collect a column's filters again, since more headers are being read."""
        self._filters.pop(name, None)


class _BatchRead:
    """One pass over the files of a batch."""

    def __init__(self, batch: Batch, threads: int):
        self._batch = batch
        self._files = batch.files
        self._ends = batch.ends
        self._threads = max(1, min(threads, len(batch.files) // _FILES_PER_THREAD))
        self._is_same: NDArray[np.bool_] | None = None
        self._usable = np.ones(len(batch.files), np.bool_)
        self._requests = np.zeros(len(batch.files), np.int64)
        self._bytes = np.zeros(len(batch.files), np.int64)

    def evaluate(self, predicate: PruningPredicate | Literal[True]) -> dict[int, FileResult]:
        """Return the results of the files that are unchanged and need no closer look, by their positions."""
        count = int(self._ends[-1])
        verdicts = np.zeros(count, np.int32)
        if predicate is not True:
            verdicts = predicate.decide_all(self._batch.columns, count, self._probe_filters)
        if self._is_same is None:
            self._read(np.empty(0, np.intp), np.empty(0, np.int64), BLOCK_BYTES)
        assert self._is_same is not None
        usable = (self._usable & self._is_same).tolist()
        rows = zip(self._files, self._ends.tolist(), usable, self._requests.tolist(), self._bytes.tolist(), strict=True)
        results, start = {}, 0
        for file, end, is_usable, requests, num_bytes in rows:
            file_verdicts, start = verdicts[start:end], end
            if is_usable:
                requests, num_bytes = requests + file.requests, num_bytes + file.bytes_read
                result = FileResult(file.identity, file.statistics, file_verdicts, requests, num_bytes)
                results[file.position] = result
        return results

    def _probe_filters(self, probes: list[FilterProbe]) -> list[ProbeResult]:
        self._read_headers([probe for probe in probes if len(probe.hashes) <= MAX_KEYS])
        results = [ProbeResult(np.ones(len(probe.positions), np.bool_)) for probe in probes]
        probed: list[tuple[int, NDArray[np.intp]]] = []  # the probe, and which of its row groups
        files, offsets = [], []
        for i, probe in enumerate(probes):
            file_numbers = np.searchsorted(self._ends, probe.positions, "right")
            starts, num_bytes, problems = self._batch.filters(probe.column)
            starts, num_bytes = starts[probe.positions], num_bytes[probe.positions]
            if problems:
                results[i] = ProbeResult(results[i].maybe, [problems[at] for at in probe.positions.tolist()])
            members = np.flatnonzero(num_bytes > 0)
            if len(probe.hashes) > MAX_KEYS:
                self._usable[file_numbers] = False
                continue
            self._usable[file_numbers[num_bytes == UNREAD]] = False
            probed.append((i, members))
            block_offsets = starts[members, np.newaxis] + locate_blocks(num_bytes[members], probe.hashes)
            files.append(np.repeat(file_numbers[members], len(probe.hashes)))
            offsets.append(block_offsets.ravel())
        file_of_block = np.concatenate([np.empty(0, np.intp), *files])
        blocks = self._read(file_of_block, np.concatenate([np.empty(0, np.int64), *offsets]), BLOCK_BYTES)
        done = 0
        for i, members in probed:
            hashes = probes[i].hashes
            shape = len(members), len(hashes)
            numbers = np.arange(done, done + shape[0] * shape[1], dtype=np.int64).reshape(shape)
            results[i].maybe[members] = check_blocks(blocks, numbers, hashes).any(axis=1)
            # If no block has a bit set the filter may never have been filled, which takes a closer look.
            set_bits = blocks[done : done + numbers.size].reshape(*shape, BLOCK_BYTES).any(axis=(1, 2))
            self._usable[file_of_block[numbers[~set_bits, :1].ravel()]] = False
            done += numbers.size
        return results

    def _read_headers(self, probes: list[FilterProbe]) -> None:
        """Read the headers of filters that are probed for the first time."""
        unread_headers: list[tuple[int, int, ColumnStatistics]] = []  # file, row group, column
        for probe in probes:
            file_numbers = np.searchsorted(self._ends, probe.positions, "right")
            unread = np.flatnonzero(self._batch.filters(probe.column)[1][probe.positions] == UNREAD)
            if len(unread):
                self._batch.forget_filters(probe.column)
            for number, place in zip(file_numbers[unread].tolist(), probe.positions[unread].tolist(), strict=True):
                file = self._files[number]
                row_group = place - int(self._ends[number]) + len(file.statistics.num_rows)
                column = file.statistics.columns[probe.column]
                assert column is not None
                offset = column.filter_offset(row_group)
                header = file.footer.filter_headers.get(offset)
                is_read = header is not None and column.decode_header(file.footer, row_group, header, offset)
                if not is_read and file.tail is not None:
                    is_read = column.decode_header(file.footer, row_group, *file.tail.kept)
                # Otherwise no header would be trusted, and the offset may be anything.
                if not is_read and offset >= 0 and file.footer.footer.filters_apart:
                    unread_headers.append((number, row_group, column))
        if not unread_headers:
            return
        file_of_header = np.array([number for number, _, _ in unread_headers], np.intp)
        offsets = np.array([column.filter_offset(row_group) for _, row_group, column in unread_headers], np.int64)
        headers = self._read(file_of_header, offsets, _HEADER_BYTES)
        assert self._is_same is not None
        for (number, row_group, column), offset, header in zip(unread_headers, offsets.tolist(), headers, strict=True):
            if self._is_same[number]:  # otherwise they are of another version, and must not be cached with this one
                column.decode_header(self._files[number].footer, row_group, header.tobytes(), offset)

    def _read(self, file_numbers: NDArray[np.intp], offsets: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        """Read ranges, given by file and offset, and find out which files are unchanged."""
        data = np.empty((len(offsets), length), np.uint8)
        outside = np.ones(len(offsets), np.bool_)
        in_tail = self._batch.tail_starts[file_numbers] <= offsets
        for i in np.flatnonzero(in_tail).tolist():
            tail = self._files[file_numbers[i]].tail
            assert tail is not None
            begin = int(offsets[i]) - tail.size
            piece = tail.end[begin : begin + length or None]
            if len(piece) == length:
                data[i] = np.frombuffer(piece, np.uint8)
                outside[i] = False
        data[outside] = self._read_files(file_numbers[outside], offsets[outside], length)
        return data

    def _read_files(self, file_numbers: NDArray[np.intp], offsets: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
        order = np.lexsort((offsets, file_numbers))
        counts = np.bincount(file_numbers, minlength=len(self._files))
        if not self._batch.reader.in_memory:
            self._requests += counts
            self._bytes += length * counts
        first = np.concatenate([[0], np.cumsum(counts)])
        size = -(-len(self._files) // self._threads)
        spans = [(start, min(start + size, len(self._files))) for start in range(0, len(self._files), size)]
        read = partial(self._read_span, first=first, offsets=offsets[order], length=length)
        if len(spans) == 1:
            results = [read(spans[0])]
        else:
            with in_order(read, spans, len(spans)) as of_spans:
                results = list(of_spans)
        is_same = np.concatenate([same for _, same in results])
        self._is_same = is_same if self._is_same is None else self._is_same & is_same
        data = np.empty((len(offsets), length), np.uint8)
        data[order] = np.concatenate([part for part, _ in results])
        return data

    def _read_span(
        self, span: tuple[int, int], first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read the ranges of the files [start, stop)."""
        start, stop = span
        bounds = first[start : stop + 1]
        return self._batch.reader.visit(start, stop, bounds - bounds[0], offsets[bounds[0] : bounds[-1]], length)
