"""Bloom filters of row groups: probed where statistics leave a doubt, in many files at once or in one open file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...file.bloom_file import BloomFile
from ...file.chunk_filter import ChunkFilter
from ...file.column_statistics import UNREAD, FileStatistics, join_parts
from ...file.metadata_cache import CachedFooter
from ...file.probe_file import probe_any, probe_hashes
from ...predicate.pruning import FilterProbe, ProbeResult
from ...storage import FilterAnswers, usual_header
from ...storage.local.batch_probe import EMPTY, MAYBE

_ARE_APART = attrgetter("footer.filters_apart")
_HEADERS = attrgetter("filter_headers")
_UNTRUSTED = (-1, 1)  # a location that no filter has

FilterProber = Callable[[list[FilterProbe]], Sequence[ProbeResult]]


class FilterReader(Protocol):
    """Probes the filters of many files, and tells which files are unchanged; see `storage.LocalFileBatch.probe`."""

    def probe(
        self,
        first: NDArray[np.int64],
        filters: NDArray[np.int64],
        which: NDArray[np.int64],
        sets: Sequence[NDArray[np.uint64]],
        threads: int = 1,
    ) -> FilterAnswers: ...


class FilterProbes(NamedTuple):
    """The filters of a column in many row groups, with one entry for each of these.

    Attributes
    ----------
    locations : int64 of shape (row groups, 3): offset and length of a filter's bitset, and 0; or those of header and
        bitset, and 1, until the header was read. The length is 0 for a filter that cannot be used.
    problems : why a filter cannot be used, or None; [] if all can.
    """

    locations: NDArray[np.int64]
    problems: list[str | None]


@dataclass(eq=False)
class FilterTable:
    """Where the filters of files with the same columns are.

    Attributes
    ----------
    footers, statistics : of each file.
    ends : for each file, the end of its row groups among those of all files.
    reader : probes filters of the files.
    """

    footers: Sequence[CachedFooter]
    statistics: Sequence[FileStatistics]
    ends: NDArray[np.intp]
    reader: FilterReader
    _filters: dict[str, FilterProbes] = field(default_factory=dict)

    def find(self, name: str) -> FilterProbes:
        """Return a column's filters in all row groups."""
        filters = self._filters.get(name)
        if filters is not None:
            return filters
        sizes, starts, parts = [], [], []
        problems: list[str | None] = []
        for of_file in self.statistics:
            column = of_file.columns[name]
            assert column is not None
            sizes.append(column.num_bytes)  # before the starts: see `ColumnStatistics`
            starts.append(column.starts)
            parts.append(column.part)
            problems += column.problems
        num_bytes = np.concatenate(sizes)
        problems = [] if num_bytes.all() else problems
        locations = np.zeros((len(num_bytes), 3), np.int64)
        locations[:, 0], locations[:, 1] = np.concatenate(starts), num_bytes
        unread = np.flatnonzero(num_bytes == UNREAD)
        numbers = np.searchsorted(self.ends, unread, "right")
        if len(unread):
            locations[unread, :2] = join_parts(parts).locations[unread]
            locations[unread, 2] = 1
            # Locations that cannot be trusted are not used, since no header at them would be.
            apart = np.fromiter(map(_ARE_APART, self.footers), np.bool_)
            trusted = apart[numbers] & (locations[unread, 0] >= 0)
            locations[unread[~trusted], :2] = _UNTRUSTED
        self._filters[name] = FilterProbes(locations, problems)
        if len(unread) and any(map(_HEADERS, self.footers)):  # a cache on disk had some
            known = [
                self.footers[number].filter_headers.get(offset, b"?") == usual_header(length)
                for number, (offset, length, _) in zip(numbers.tolist(), locations[unread].tolist(), strict=True)
            ]
            self.note_headers(name, unread[np.array(known, np.bool_)])
        return self._filters[name]

    def note_headers(self, name: str, positions: NDArray[np.intp]) -> None:
        """Take the headers of filters that are the usual ones, at these row groups among those of all files."""
        locations, problems = self._filters[name]
        positions = positions[locations[positions, 2] != 0]  # the others were taken: a filter may be probed twice
        if not len(positions):
            return
        numbers = np.searchsorted(self.ends, positions, "right")
        row_groups = positions - np.concatenate([[0], self.ends])[numbers]
        bitsets = []
        for number, row_group, (offset, length) in zip(
            numbers.tolist(), row_groups.tolist(), locations[positions, :2].tolist(), strict=True
        ):
            header = usual_header(length)
            column = self.statistics[number].columns[name]
            assert column is not None
            self.footers[number].filter_headers[offset] = header
            start, num_bytes = offset + len(header), length - len(header)
            column.starts[row_group] = start
            column.num_bytes[row_group] = num_bytes  # last: it signals other threads
            bitsets.append((start, num_bytes, 0))
        locations = locations.copy()  # another thread may be probing these filters
        locations[positions] = bitsets
        self._filters[name] = FilterProbes(locations, problems)


@dataclass(eq=False)
class BatchProbe:
    """One pass over filters of many files, which also finds out which of the files are unchanged.

    Attributes
    ----------
    filters : of the files.
    threads : threads that read filters, at most.
    answers : what the pass has found; `same` is also False for files that need a closer look. None before it.
    """

    filters: FilterTable
    threads: int
    answers: FilterAnswers | None = None

    def probe(self, probes: list[FilterProbe]) -> list[ProbeResult]:
        """Probe filters; see `PruningPredicate.decide_all`. Files that need a closer look are noted."""
        ends, results = self.filters.ends, []
        members: list[NDArray[np.intp]] = []  # of each probe's row groups, those with a filter that can be used
        files, locations, sets = [], [], []
        for probe in probes:
            filters = self.filters.find(probe.column)
            of_probe = filters.locations[probe.positions]
            problems = list(map(filters.problems.__getitem__, probe.positions.tolist())) if filters.problems else []
            results.append(ProbeResult(np.ones(len(of_probe), np.bool_), problems))
            members.append(np.flatnonzero(of_probe[:, 1]))
            sets.append(probe.hashes)
            files.append(np.searchsorted(ends, probe.positions[members[-1]], "right"))
            locations.append(of_probe[members[-1]])
        which = np.repeat(np.arange(len(probes)), list(map(len, members)))
        of_files, of_filters = np.concatenate(files), np.concatenate(locations)
        order = np.lexsort((of_filters[:, 0], of_files))
        first = np.concatenate([[0], np.cumsum(np.bincount(of_files, minlength=len(ends)))])
        found = self.filters.reader.probe(first, of_filters[order], which[order], sets, self.threads)
        answers = np.empty_like(found.answers)
        answers[order] = found.answers
        is_maybe = answers == MAYBE
        # A header of a file that has changed must not be remembered for the one that was expected.
        is_read = (of_filters[:, 2] != 0) & (answers <= EMPTY) & found.same[of_files]
        found.same[of_files[answers > MAYBE]] = False
        self.answers = found
        start = 0
        for probe, result, positions in zip(probes, results, members, strict=True):
            stop = start + len(positions)
            result.maybe[positions] = is_maybe[start:stop]
            self.filters.note_headers(probe.column, probe.positions[positions[is_read[start:stop]]])
            start = stop
        return results


def make_filter_prober(file: BloomFile, statistics: FileStatistics) -> FilterProber:
    """Return a function that probes the filters of one file, all of a step at once."""

    def probe_filters(probes: list[FilterProbe]) -> list[ProbeResult]:
        chunks_of_probes = [find_filters(file, statistics, probe.column, probe.positions) for probe in probes]
        file.read_headers(chain.from_iterable(chunks_of_probes))
        which = np.repeat(np.arange(len(probes)), list(map(len, chunks_of_probes)))
        sets = [np.ascontiguousarray(probe.hashes) for probe in probes]
        maybe, problems = probe_any(list(chain.from_iterable(chunks_of_probes)), sets, which)
        results, done = [], 0
        for chunks, probe in zip(chunks_of_probes, probes, strict=True):
            column = statistics.columns[probe.column]
            assert column is not None
            for chunk in chunks:
                column.load_header(chunk)
            end = done + len(chunks)
            results.append(ProbeResult(maybe[done:end], problems[done:end]))
            done = end
        return results

    return probe_filters


def find_filters(
    file: BloomFile, statistics: FileStatistics, column: str, row_groups: NDArray[np.intp]
) -> list[ChunkFilter]:
    """Return a column's filters in the row groups that have one."""
    column_statistics = statistics.columns[column]
    assert column_statistics is not None
    chunks = (file.chunk(row_group, column_statistics.leaf) for row_group in row_groups.tolist())
    return [chunk for chunk in chunks if chunk is not None]


def has_broken_filter(file: BloomFile, statistics: FileStatistics, row_groups: Sequence[int]) -> bool:
    """Return whether statistics or filters of some row groups cannot be used; filters are probed to find out."""
    positions = np.array(row_groups, np.intp)
    columns = {name: column for name, column in statistics.columns.items() if column is not None}
    if any(
        column.evidence.doubts and any(column.evidence.doubts[i] for i in row_groups) for column in columns.values()
    ):
        return True
    chunks = [
        chunk
        for name, column in columns.items()
        for chunk in find_filters(file, statistics, name, positions[column.evidence.filtered[positions]])
    ]
    return any(probe_hashes(chunks, np.zeros(1, np.uint64))[1])
