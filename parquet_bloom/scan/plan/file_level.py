"""Evaluate what is in the files: statistics, and filters where these leave a doubt.

Files are evaluated together where possible, and one by one where a file needs a closer look: an unusual header or an
unfilled filter, a damaged footer, ORC, a file system without batches. That takes 5 to 10 times the CPU: of 500 files
whose footers are cached 94 ms in place of 9.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, compress, count
from operator import attrgetter, not_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import StatisticsKey, file_statistics
from ...file.metadata_cache import CachedFooter, MetadataCache
from ...file.pages.fetched_ranges import FetchedFiles
from ...metadata.footer import Footer
from ...storage import (
    ClosedSource,
    Entry,
    Extents,
    FileIdentity,
    FilterAnswers,
    LocalFileBatch,
    entry_for_identity,
    is_local,
    is_url,
    open_source,
    read_ends,
    stat_files,
)
from ...storage.confined import ConfinedFiles, is_in_place, leads_inside
from ...storage.objects.object_batch import ClosedObject, listed_objects, read_ranges, read_tails
from ...util.lazy import late_module
from ...util.threads import in_order, processors
from ..model.data_file import open_any
from ..model.file_schemas import REMOTE_THREADS
from ..model.scan_plan import FilePlan, FileScan, RowGroupPlanner, ScanPlan, group_by_predicate
from ..scan_options import ScanOptions
from .dictionary_level import REQUEST_BYTES, OpenedRanges, make_dictionary_reader, open_local_ranges
from .filter_level import make_filter_prober
from .statistics_level import OpenedFile, evaluate_row_groups, evaluate_together, parse_ends

if TYPE_CHECKING:
    from ...orc import OrcFile
    from ...util.given_types import FileSystem
    from . import orc_level
else:
    orc_level = late_module("parquet_bloom.scan.plan.orc_level")


_NO_IDENTITY = FileIdentity(0, 0, 0, 0, 0)

_READS_AT_ONCE = 128  # of objects; while the next ends are read, those before are parsed


class ListedObjects:
    """A `FileGroup` of listed objects, whose footers and filters are cached, or come with their last bytes.

    Parameters
    ----------
    entries : the objects, as listed.
    cache : cached footers, to which those read are added; None for none.
    fail_fast : whether a store that does not answer is an error for all objects, StorageError; see `read_tails`.
    at_once : objects that are read at a time; None for as many as the store's client takes.

    Attributes
    ----------
    failures : {position: the error of an object whose end cannot be read}.
    read : {position: entry that knows the last bytes} of objects that may need a closer look after these were read.
    """

    def __init__(
        self, entries: Sequence[Entry], cache: MetadataCache | None, fail_fast: bool, at_once: int | None = None
    ):
        self.paths = [entry.path for entry in entries]
        self.cached: list[tuple[object, CachedFooter] | None] = []
        self.failures: dict[int, ParquetBloomError] = {}
        self.read: dict[int, Entry] = {}
        self._objects = listed_objects(entries)
        for closed in self._objects:
            footer = None if closed is None or cache is None else cache.find(closed.name, closed.identity)
            self.cached.append(None if footer is None or closed is None else (closed.identity, footer))
        self._cache = cache
        self._fail_fast = fail_fast
        self._length = min(_READS_AT_ONCE, at_once or _READS_AT_ONCE)

    def read_footers(self) -> Iterator[list[OpenedFile]]:
        """See `FileGroup.read_footers`: objects are read in groups, each while the one before is handled."""
        unread = [
            (position, closed)
            for position, (closed, entry) in enumerate(zip(self._objects, self.cached, strict=True))
            if entry is None and closed is not None
        ]
        if not unread:
            return
        groups = [unread[start : start + self._length] for start in range(0, len(unread), self._length)]
        with in_order(self._read_tails, groups, 1) as results:
            for members in results:
                opened = []
                parsed = parse_ends([(closed.size, closed.end) for _, closed in members])
                for (position, closed), (_, footer) in zip(members, parsed, strict=True):
                    cached = self._cache_footer(closed, footer)
                    if cached is None or self._cache is None:
                        self.read[position] = closed.entry()
                    if cached is not None:
                        cost = closed.requests, closed.bytes_read
                        opened.append(OpenedFile(position, closed.name, closed.identity, cached, b"", *cost))
                    closed.take_end(b"")
                yield opened

    def find_unchanged(self) -> Iterator[tuple[int, ClosedObject, CachedFooter]]:
        """See `FileGroup.find_unchanged`: the listing tells."""
        for position, (closed, entry) in enumerate(zip(self._objects, self.cached, strict=True)):
            if closed is not None and entry is not None:
                yield position, closed, entry[1]

    request_bytes = REQUEST_BYTES

    def make_reader(self, files: Sequence[OpenedFile]) -> _CachedRanges:
        """See `FileGroup.make_reader`."""
        return _CachedRanges([file.footer.extents for file in files])

    @contextmanager
    def open_ranges(
        self, files: Sequence[OpenedFile], numbers: NDArray[np.intp], ranges: NDArray[np.int64]
    ) -> Iterator[OpenedRanges | None]:
        """See `FileGroup.open_ranges`: the ranges are read, and kept in the cache."""
        objects = [self._objects[file.position] for file in files]
        present = [closed for closed in objects if closed is not None]
        extents = [file.footer.extents for file in files]
        read = None
        try:
            if len(present) == len(files):
                read = read_ranges(present, extents, numbers, ranges[:, 0], ranges[:, 1], self._length)
        except ParquetBloomError:  # a closer look tells what is wrong
            read = None
        if read is None:
            yield None
            return
        if self._cache is not None:
            for file in compress(files, read.requests.tolist()):
                self._cache.keep(file.path, file.identity, file.footer)
        yield OpenedRanges(FetchedFiles(read.ranges), read.requests, read.num_bytes)

    def _read_tails(self, group: list[tuple[int, ClosedObject]]) -> list[tuple[int, ClosedObject]]:
        """Read the ends of objects; return those that could be read."""
        failures = read_tails([closed for _, closed in group], self._fail_fast)
        self.failures |= {group[i][0]: error for i, error in failures.items()}
        return [one for i, one in enumerate(group) if i not in failures]

    def _cache_footer(self, closed: ClosedObject, footer: Footer | None) -> CachedFooter | None:
        """Cache the footer of an object whose end was read, and the filters before it; None if more must be read."""
        cache, cached = self._cache, None
        try:
            if footer is not None:
                cached = CachedFooter(footer)
                if cache is not None:
                    cached = cache.keep(closed.name, closed.identity, cached)
            file = BloomFile(closed, cache, cached)
        except ParquetBloomError:
            return None  # its footer is longer, or it is not a Parquet file: a closer look tells
        if cache is None:
            file.cache_filters()
        return file.cached


class _CachedRanges:
    """Filters of many objects, as far as they are in memory."""

    def __init__(self, extents: Sequence[Extents]):
        self._extents = extents

    def probe(
        self,
        first: NDArray[np.int64],
        filters: NDArray[np.int64],
        which: NDArray[np.int64],
        sets: Sequence[NDArray[np.uint64]],
        threads: int = 1,
    ) -> FilterAnswers:
        """See `storage.LocalFileBatch.probe`; an object with a filter that is not in memory counts as changed."""
        probed = np.flatnonzero(np.diff(first)).tolist()
        batch = LocalFileBatch(
            [None] * len(self._extents),
            [_NO_IDENTITY] * len(self._extents),
            {i: self._extents[i].items() for i in probed},
        )
        none = np.zeros(len(self._extents), np.int64)
        return batch.probe(first, filters, which, sets, threads)._replace(requests=none, num_bytes=none)


_MAX_FILES_PER_TASK = 16
_IS_UNDECIDED, _ENTRY, _PATH = attrgetter("undecided"), attrgetter("entry"), attrgetter("entry.path")
_FEW_FILES = 16  # whose footers stay in memory as long as the plan does
_OBJECTS_PER_BATCH = 1024

_FIRST_FILES = 32  # of which the first bytes tell how long the footers of a lake are
_FILES_PER_READ = 256  # read and parsed at a time
_BYTES_PER_READ = 32 * 1024 * 1024
_MAX_RETAINED_BYTES = 64 * 1024 * 1024  # of files' ends, in which filters may be
_PAGE = 4096
_FIRST_TAIL_BYTES, _MIN_TAIL_BYTES, _MAX_TAIL_BYTES = 4 * _PAGE, _PAGE, 256 * _PAGE


@dataclass
class FileEvaluator:
    """Plans the row groups of files by their footers and filters.

    Attributes
    ----------
    filesystem : of the files; None for local paths and URLs.
    cache : cached footers, to which those read now are added; None for none.
    options : of the scan.
    planner : makes the plans.
    """

    filesystem: FileSystem | None
    cache: MetadataCache | None
    options: ScanOptions
    planner: RowGroupPlanner = field(default_factory=RowGroupPlanner, repr=False)

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        local, is_remote = is_local(self.filesystem), False
        batch: list[FileScan] = []
        most_files = _OBJECTS_PER_BATCH, self.options.limits.files_per_batch
        num_files = 0  # of files that are still to be planned; those that are not cost nothing here
        for file in files:
            is_other = not local or is_url(file.entry.path)
            if is_other is not is_remote and batch:
                yield from self._plan_files(batch, is_remote)
                batch, num_files = [], 0
            is_remote = is_other
            batch.append(file)
            num_files += file.plan is None
            if num_files == most_files[not is_remote]:
                yield from self._plan_files(batch, is_remote)
                batch, num_files = [], 0
        if batch:
            yield from self._plan_files(batch, is_remote)
        if self.cache is not None:
            self.cache.flush()

    def _plan_files(self, files: list[FileScan], is_remote: bool) -> Iterator[FileScan]:
        """Plan files that are all local or all remote: together, and one by one those that need a closer look."""
        undecided = list(filter(_IS_UNDECIDED, files))
        if not is_remote or len(undecided) > 1:  # a single object may be in the cache, and then needs no listing
            self._plan_together(undecided, is_remote)
        remaining = list(filter(_IS_UNDECIDED, undecided))
        if not remaining:
            yield from files
            return
        threads = self.options.threads or (REMOTE_THREADS if is_remote else 1)
        # Handing a task to a thread costs as much as planning a file that is in memory: a task is several files.
        length = 1 if is_remote else max(1, min(_MAX_FILES_PER_TASK, -(-len(remaining) // threads)))
        awaited = {id(file) for file in remaining}
        with closing(self._plan_one_by_one(remaining, threads, length)) as planned:
            for file in files:
                yield next(planned) if id(file) in awaited else file

    def _plan_together(self, files: list[FileScan], is_remote: bool) -> None:
        """Plan the files that need no closer look; entries of other objects may be replaced."""
        options, has_to_ask = self.options, not is_remote and isinstance(self.filesystem, ConfinedFiles)
        if has_to_ask:  # the others are opened one by one, which says what is wrong with them
            files = [file for file in files if leads_inside(file.entry.path, self.filesystem)]
        for predicate, members in group_by_predicate(files):
            columns = () if predicate is True else tuple(predicate.columns)
            key = StatisticsKey(columns, options.ignore_case, options.trust)
            if is_remote:
                fail_fast = options.on_error is None
                objects = ListedObjects(list(map(_ENTRY, members)), self.cache, fail_fast, options.threads)
                evaluated = evaluate_together(objects, predicate, key, self.cache, 1)
                for i, error in objects.failures.items():
                    members[i].error = error
                for i, entry in objects.read.items():
                    if i not in evaluated:
                        members[i].entry = entry
            else:
                threads = options.threads or processors()
                local = LocalFiles(list(map(_PATH, members)), self.cache, threads)
                evaluated = evaluate_together(local, predicate, key, self.cache, threads)
            for i, (opened, statistics, verdicts, requests, bytes_read) in evaluated.items():
                file, identity = members[i], opened.identity
                if has_to_ask and not is_in_place(file.entry.path, self.filesystem, identity):
                    continue
                file.statistics, file.missing = statistics, statistics.missing
                file.requests, file.bytes_read = requests, bytes_read
                footer = opened.footer if len(evaluated) <= _FEW_FILES else None
                file.set_plan(
                    self.planner.plan_file(file.entry.path, predicate, statistics, verdicts, identity, footer)
                )

    def _plan_one_by_one(self, files: list[FileScan], threads: int, length: int) -> Generator[FileScan, None, None]:
        """Plan files one by one, in several threads; a task is `length` files."""
        tasks = [files[start : start + length] for start in range(0, len(files), length)]
        threads = min(len(tasks), threads)
        results = in_order(self._run_task, tasks, threads) if threads > 1 else nullcontext(map(self._run_task, tasks))
        with results as of_tasks:
            yield from chain.from_iterable(of_tasks)

    def _run_task(self, files: list[FileScan]) -> list[FileScan]:
        for file in files:
            self._plan_file(file)
        return files

    def _plan_file(self, file: FileScan) -> None:
        entry = file.entry
        if self.cache is not None and (entry.known is None or entry.known.e_tag is None):
            cached = entry_for_identity(entry.path, self.filesystem, self.cache.last_identity(entry.path))
            if cached is not None:
                self._open_and_plan(file, cached, verify=True)
                if file.error is None:
                    return
        self._open_and_plan(file, entry)

    def _open_and_plan(self, file: FileScan, entry: Entry, verify: bool = False) -> None:
        """Open and plan a file; `verify` checks afterwards that an object is still the cached version."""
        file.error = file.missing = None
        try:
            with open_source(entry.path, self.filesystem, entry) as source:
                try:
                    opened = open_any(source, self.cache)
                    if isinstance(opened, BloomFile):
                        plan = self._plan_parquet(file, opened)
                    else:
                        plan = self._plan_orc(file, opened)
                    if verify:
                        source.check_unchanged()
                finally:
                    file.requests, file.bytes_read = source.requests, source.bytes_read
            file.set_plan(plan)
        except ParquetBloomError as error:
            file.error = error

    def _plan_parquet(self, file: FileScan, opened: BloomFile) -> FilePlan:
        predicate = file.predicate
        columns = [] if predicate is True else predicate.columns
        statistics = file_statistics(opened, columns, self.options.ignore_case, self.options.trust)
        evidence = make_filter_prober(opened, statistics), make_dictionary_reader(opened, statistics)
        verdicts = evaluate_row_groups(statistics, predicate, *evidence)
        file.statistics, file.missing = statistics, statistics.missing
        return self.planner.plan_file(file.entry.path, predicate, statistics, verdicts, opened.source.identity)

    def _plan_orc(self, file: FileScan, opened: OrcFile) -> FilePlan:
        path, options = file.entry.path, self.options
        file.missing, plan = orc_level.plan_orc_file(
            opened, path, file.predicate, self.planner, options.ignore_case, options.trust
        )
        return plan


class LocalFiles:
    """A `FileGroup` of local files. Whether a cached one is unchanged is found out when its filters are probed.

    Parameters
    ----------
    paths : the files.
    cache : cached footers, to which those read are added; None for none.
    threads : threads that read footers, at most.
    """

    def __init__(self, paths: list[str], cache: MetadataCache | None, threads: int):
        self.paths = paths
        self.cached: list[tuple[FileIdentity, CachedFooter] | None] = [None] * len(paths)
        if cache is not None:
            self.cached = cache.find_by_paths(paths)
        self._cache = cache
        self._threads = threads

    def read_footers(self) -> Iterator[list[OpenedFile]]:
        """See `FileGroup.read_footers`: hardly more of the files' ends is read than footers like theirs take."""
        length, retained = _FIRST_TAIL_BYTES, 0
        spent: dict[int, int] = {}  # bytes of files that are read a second time
        remaining = list(compress(count(), map(not_, self.cached)))
        some, remaining = remaining[:_FIRST_FILES], remaining[_FIRST_FILES:]
        while some:
            size = max(1, min(_FILES_PER_READ, _BYTES_PER_READ // length))
            groups = []
            for start in range(0, len(some), size):
                groups.append((some[start : start + size], length))
            longest, too_long = 0, []
            num_threads = min(self._threads, len(groups))
            # One thread more would take longer to start than few files to read.
            with (
                in_order(self._read_ends, groups, num_threads)
                if len(groups) > 1
                else nullcontext(map(self._read_ends, groups))
            ) as results:
                for ends in results:
                    opened = []
                    for position, identity, data, needed, footer in ends:
                        longest = max(longest, needed)
                        if len(data) < min(needed, _MAX_TAIL_BYTES) and position not in spent:
                            spent[position] = len(data)
                            too_long.append(position)
                            continue
                        path, cache = self.paths[position], self._cache
                        try:
                            if footer is None:
                                cached = BloomFile(ClosedSource(path, identity, data), cache).cached
                            else:
                                cached = CachedFooter(footer)
                                if cache is not None:
                                    cached = cache.keep(path, identity, cached)
                        except ParquetBloomError:
                            continue  # a closer look has to tell what is wrong with it
                        cost = 1 + (position in spent), len(data) + spent.get(position, 0)
                        tail = data if retained < _MAX_RETAINED_BYTES else b""
                        retained += len(tail)
                        opened.append(OpenedFile(position, path, identity, cached, tail, *cost))
                    yield opened
            # Files of a lake are alike: the next footers will hardly be longer than the first ones.
            some, remaining = too_long + remaining, []
            length = min(max(_MIN_TAIL_BYTES, -(-longest * 5 // 4 // _PAGE) * _PAGE), _MAX_TAIL_BYTES)

    def find_unchanged(self) -> Iterator[tuple[int, ClosedSource, CachedFooter]]:
        """See `FileGroup.find_unchanged`."""
        known = [position for position, entry in enumerate(self.cached) if entry is not None]
        for position, source in zip(known, stat_files([self.paths[position] for position in known]), strict=True):
            if source is not None and self._cache is not None:
                footer = self._cache.find(source.name, source.identity)
                if footer is not None:
                    yield position, source, footer

    request_bytes = 0

    def open_ranges(
        self, files: Sequence[OpenedFile], numbers: NDArray[np.intp], ranges: NDArray[np.int64]
    ) -> AbstractContextManager[OpenedRanges | None]:
        """See `FileGroup.open_ranges`."""
        return open_local_ranges([file.path for file in files], [file.identity for file in files], numbers, ranges)

    def make_reader(self, files: Sequence[OpenedFile]) -> LocalFileBatch:
        """See `FileGroup.make_reader`."""
        paths, identities, in_memory = [], [], {}
        for i, file in enumerate(files):
            paths.append(file.path)
            identities.append(file.identity)
            if file.tail:
                in_memory[i] = [(file.identity.size - len(file.tail), file.tail)]
        return LocalFileBatch(paths, identities, in_memory)

    def _read_ends(self, group: tuple[list[int], int]) -> list[tuple[int, FileIdentity, bytes, int, Footer | None]]:
        """Read the last bytes of some files, and parse what footers are whole; files that cannot be read are left out.

        Returns
        -------
        Position, identity, and last bytes of each file, and what `parse_ends` says of it.
        """
        positions, length = group
        read, data, results = [], [], []
        ends = read_ends(list(map(self.paths.__getitem__, positions)), length)
        for position, end in zip(positions, ends, strict=True):
            if end is not None:
                read.append((position, *end))
                data.append((end[0].size, end[1]))
        for one, footer in zip(read, parse_ends(data), strict=True):
            results.append((*one, *footer))
        return results
