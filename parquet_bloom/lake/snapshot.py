"""Immutable snapshot of an opened index: one manifest, its segments, and the liveness of their files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ..storage import Folder, is_local
from ..util.threads import in_order
from . import manifest as manifests
from .files.liveness import LakeState
from .files.table import FileTable
from .lookup import Probes, hash_literals
from .manifest import Manifest
from .parts.part import PartMatches
from .reports import Answers, Candidate
from .segment import OpenPart, Segment

_SEGMENTS_AT_A_TIME = 16
_TRIES = 4


_PartQuery = tuple[int, Segment, int, OpenPart, Probes]


@dataclass(frozen=True, eq=False)
class IndexSnapshotReader:
    """Snapshot that lookups use; replaced as a whole, never changed.

    Attributes
    ----------
    manifest : the index's manifest.
    segments : its opened segments.
    live : liveness of their files.
    """

    manifest: Manifest
    segments: Sequence[Segment]
    live: LakeState
    _always: dict[str, list[Candidate]] = field(default_factory=dict)
    _parts: dict[str, list[tuple[int, Segment, int, OpenPart]]] = field(default_factory=dict)

    def lookup(self, column: str, literals: Sequence[Any], timezone: str, remote: bool) -> Answers:
        """Return the files that may hold each of some values. See `LakeIndex.lookup`."""
        if column not in self.manifest.columns:
            known = ", ".join(self.manifest.columns)
            raise UnknownColumnError(f"the index has no such column; it has: {known}", column=column)
        if not literals:
            return Answers([])
        if len(literals) == 1 and not remote:
            one = self._lookup_one(column, literals[0])
            if one is not None:
                return one
        asked: list[_PartQuery] = []
        of_type: dict[Any, Probes] = {}
        for place, segment, number, part in self._parts_of(column):
            column_type = part.info.column_type
            if column_type not in of_type:
                of_type[column_type] = hash_literals(literals, column_type, timezone)
            asked.append((place, segment, number, part, of_type[column_type]))
        found: list[list[Candidate]] = [[] for _ in literals]
        doubts: dict[str, None] = {}
        requests = bytes_read = 0
        threads = min(_SEGMENTS_AT_A_TIME, len(asked)) if remote else 1
        finding = in_order(_find_in_part, asked, threads) if threads > 1 else nullcontext(map(_find_in_part, asked))
        with finding as results:
            for (place, segment, number, _, probe), part_found in zip(asked, results, strict=True):
                requests += part_found.requests
                bytes_read += part_found.bytes_read
                values, units = probe.values[part_found.queries], part_found.units
                whole = dict(probe.unknown)
                for query, why in part_found.unknown.items():
                    whole.setdefault(int(probe.values[query]), why)
                    doubts[why] = None
                self._take(found, values, units, segment, place)
                if whole:
                    every = segment.units_of_part(column, number)
                    for value in whole:
                        self._take(found, np.full(len(every), value), every, segment, place)
                    doubts.update(dict.fromkeys(probe.unknown.values()))
        always = self.always(column)
        for several in found:
            _merge(several)
            several += always
        for segment in self.segments:
            more, num_bytes = segment.files.new_cost()
            requests, bytes_read = requests + more, bytes_read + num_bytes
        return Answers(found, doubts, requests, bytes_read)

    def _lookup_one(self, column: str, literal: Any) -> Answers | None:
        """Look up a single value with one hash on a fast path; None where the general path is needed."""
        found: list[Candidate] = []
        requests = bytes_read = 0
        for place, segment, _, part in self._parts_of(column):
            h = part.quick_hash(literal)
            if h is None:
                return None
            one = part.find_one(h)
            if one.unknown:
                return None
            requests += one.requests
            bytes_read += one.bytes_read
            alive = self.live.alive[place]
            for unit in one.units.tolist():
                file = segment.file_of(unit)
                if alive[file]:
                    row_group = segment.row_group_of(unit, file)
                    path = segment.files.path(file)
                    found.append(Candidate(path, None if row_group is None else (row_group,)))
        if len(found) > 1:
            _merge(found)
        always = self.always(column)
        return Answers([found + always if always else found], (), requests, bytes_read)

    def _parts_of(self, column: str) -> list[tuple[int, Segment, int, OpenPart]]:
        """Return (segment's position, segment, part's number, part) of every part that holds values of a column."""
        if column not in self._parts:
            self._parts[column] = [
                (place, segment, number, part)
                for place, segment in enumerate(self.segments)
                for number, part in segment.parts_of(column)
                if number not in self.live.foreign[place]
            ]
        return self._parts[column]

    def always(self, column: str) -> list[Candidate]:
        """Return live files that are candidates for every value: not indexed, changed, or without this column."""
        if column not in self._always:
            found = [Candidate(path) for path in self.live.unindexed]
            for segment, alive, foreign in zip(self.segments, self.live.alive, self.live.foreign, strict=True):
                numbers = segment.not_covered(column, foreign)
                found += [Candidate(segment.files.path(number)) for number in numbers[alive[numbers]].tolist()]
            self._always[column] = list(dict.fromkeys(found))
        return self._always[column]

    def _take(
        self,
        found: list[list[Candidate]],
        values: NDArray[np.intp],
        units: NDArray[np.uint32],
        segment: Segment,
        place: int,
    ) -> None:
        """Add units of a segment as candidates for values, if their files are live."""
        if not len(units):
            return
        files = segment.files.files_of(units)
        alive = self.live.alive[place][files]
        paths = segment.files.paths(files[alive])
        for value, file, unit, path in zip(
            values[alive].tolist(), files[alive].tolist(), units[alive].tolist(), paths, strict=True
        ):
            row_group = segment.row_group_of(unit, file)
            found[value].append(Candidate(path, None if row_group is None else (row_group,)))

    def close(self) -> None:
        """Close the segments."""
        for segment in self.segments:
            segment.close()


def _find_in_part(asked: _PartQuery) -> PartMatches:
    """Return the matches of a part."""
    _, _, _, part, probe = asked
    return part.find(probe.hashes)


def _merge(candidates: list[Candidate]) -> None:
    """Merge candidates of the same file in place, with all of its row groups."""
    if len(candidates) < 2:
        return
    row_groups: dict[str, set[int] | None] = {}
    for path, some in candidates:
        known = row_groups.setdefault(path, set())
        if some is None or known is None:
            row_groups[path] = None
        else:
            known.update(some)
    candidates[:] = [
        Candidate(path, None if some is None else tuple(sorted(some))) for path, some in row_groups.items()
    ]


def open_segments(
    folder: Folder,
    known: Mapping[str, Segment] = {},
    tables: Mapping[str, FileTable] = {},
    manifest: Manifest | None = None,
    begin: Callable[[Manifest], None] | None = None,
    ahead: Collection[str] | None = (),
) -> tuple[Manifest, list[Segment]]:
    """Open the newest manifest and its segments.

    Parameters
    ----------
    known : segments that are open already, by their names.
    tables : file tables that are in memory already, by their names; files of one name never change.
    manifest : the newest one, if it is known.
    begin : called with the manifest before the segments are opened, to start concurrent work; called again if the
        manifest turns out not to be the newest.
    ahead : columns that will be queried; see `Segment`. None for the index's only column, if it has no others.
        Parts of a local index are not opened ahead.

    Raises
    ------
    StorageError
        There is no index, or it cannot be read.
    BrokenIndexError
        The manifest or a file table is damaged.
    """
    missing: ParquetBloomError | None = None
    for _ in range(_TRIES):  # a writer may delete old files between the reading of the manifest and of its files
        newest = manifests.newest(folder) if manifest is None or missing is not None else manifest
        if begin is not None:
            begin(newest)
        try:
            return newest, _open_all(folder, newest, known, tables, ahead)
        except (StorageError, ConcurrentChangeError) as error:
            manifests.require_gone(error)
            missing = error
    assert missing is not None
    raise missing


def _open_all(
    folder: Folder,
    manifest: Manifest,
    known: Mapping[str, Segment],
    tables: Mapping[str, FileTable],
    ahead: Collection[str] | None,
) -> list[Segment]:
    """Open the segments of a manifest; the file tables of remote ones are fetched concurrently."""
    numbers = range(len(manifest.segments))
    local = is_local(folder.filesystem, [folder.path])
    if ahead is None:
        ahead = manifest.columns if len(manifest.columns) == 1 else ()
    columns = () if local else ahead

    def segment(number: int) -> Segment:
        return _open_segment(folder, manifest, number, known, tables, columns)

    if len(numbers) < 2 or local:
        return list(map(segment, numbers))
    threads = min(len(numbers), _SEGMENTS_AT_A_TIME)
    with in_order(segment, numbers, threads) as found:
        return list(found)


@contextmanager
def open_for_writing(folder: Folder, tables: Mapping[str, FileTable] = {}) -> Iterator[tuple[Manifest, list[Segment]]]:
    """Lock the index for writing, and open the newest manifest and its segments.

    Parameters
    ----------
    tables : see `open_segments`.

    Raises
    ------
    IndexInUseError
        Another writer holds the lock.
    StorageError, BrokenIndexError
        See `open_segments`.
    """
    with folder.lock():
        manifest, segments = open_segments(folder, tables=tables)
        try:
            yield manifest, segments
        finally:
            for segment in segments:
                segment.close()


def _open_segment(
    folder: Folder,
    manifest: Manifest,
    number: int,
    known: Mapping[str, Segment],
    tables: Mapping[str, FileTable],
    ahead: Collection[str],
) -> Segment:
    info = manifest.segments[number]
    before = known.get(info.name)
    if before is not None and before.info.files == info.files:
        if np.array_equal(before.info.removed, info.removed) and before.info.parts == info.parts:
            return before
        return Segment(folder, manifest, info, before.files)
    return Segment(folder, manifest, info, tables.get(info.files), ahead)
