"""Immutable snapshot of an opened index: one manifest, its segments, and the liveness of their files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ..hashing.coerce import HashedLiterals, coerce, hash_literals, is_of_kind
from ..hashing.column_type import ColumnType
from ..predicate.key_expression import PATH, TUPLE, KeyExpression, parse_key
from ..predicate.literal import make_mismatch_error
from ..storage import is_local
from ..storage.index_folder import Folder
from ..util.threads import in_order
from . import index_manifest as manifests
from .expression_keys import hash_key_literals, parse_key_literals
from .file_table import FileTable
from .index_manifest import IndexManifest
from .index_part import PartMatches
from .index_reports import Answers, Candidate, FileSelection
from .liveness import FileRef, LakeState
from .segment import OpenPart, Segment
from .units import unite_ranges

_SEGMENTS_AT_A_TIME = 16
_TRIES = 4


_PartQuery = tuple[int, Segment, int, OpenPart, HashedLiterals]


class _PartMatch(NamedTuple):
    """What a part says of some values.

    Attributes
    ----------
    number, segment : the segment that the part is in.
    values, units : the numbers of values, and the units that may hold them.
    unknown : values of which the part says nothing.
    every : where there are such values, all units that the part has values of.
    """

    number: int
    segment: Segment
    values: NDArray[np.intp]
    units: NDArray[np.uint32]
    unknown: list[int]
    every: NDArray[np.uint32]


class _OneMatch(NamedTuple):
    """Units that may hold a single value: (number of the segment, segment, file, unit) of each; and the cost."""

    units: list[tuple[int, Segment, int, int]]
    requests: int
    bytes_read: int


class _Matches(NamedTuple):
    """What all parts say of some values, with the doubts and the cost of asking them."""

    parts: list[_PartMatch]
    doubts: Mapping[str, None]
    requests: int
    bytes_read: int


class Selections(NamedTuple):
    """The files that may hold any of some values.

    Attributes
    ----------
    files : by their paths, with what is known of their row groups; None where that is nothing.
    doubts : problems with reading the index.
    requests, bytes_read : what was read of the index.
    """

    files: dict[str, FileSelection | None]
    doubts: Mapping[str, None]
    requests: int
    bytes_read: int


@dataclass(frozen=True, eq=False)
class IndexSnapshotReader:
    """Snapshot that lookups use; replaced as a whole, never changed.

    Attributes
    ----------
    manifest : the index's manifest.
    segments : its opened segments.
    live : liveness of their files.
    """

    manifest: IndexManifest
    segments: Sequence[Segment]
    live: LakeState
    _always: dict[str, list[Candidate]] = field(default_factory=dict)
    _parts: dict[str, list[tuple[int, Segment, int, OpenPart]]] = field(default_factory=dict)

    def lookup(self, column: str, values: Iterable[object], timezone: str, remote: bool) -> Answers:
        """Return the files that may hold each of some values. See `LakeIndexReader.lookup`."""
        column = self.find_column(column)
        literals = parse_key_literals(values, column) if isinstance(column, KeyExpression) else [*values]
        if not literals:
            return Answers([])
        if len(literals) == 1 and not remote:
            one = self._lookup_one(column, literals[0])
            if one is not None:
                return one
        candidates: list[list[Candidate]] = [[] for _ in literals]
        matches = self._query_parts(column, literals, timezone, remote)
        for part in matches.parts:
            self._add_candidates(candidates, part.values, part.units, part.segment, part.number)
            for value in part.unknown:
                every = part.every
                self._add_candidates(candidates, np.full(len(every), value), every, part.segment, part.number)
        always = self.always(column)
        for matching in candidates:
            _merge(matching)
            matching += always
        return Answers(candidates, matches.doubts, *self._add_table_costs(matches))

    def select(self, column: str, literals: Sequence[object], timezone: str, remote: bool) -> Selections:
        """Return the files that may hold any of some values, and what is known of their row groups."""
        one = self._select_one(column, literals[0]) if len(literals) == 1 and not remote else None
        if one is not None:
            return one
        files: dict[str, FileSelection | None] = {}
        matches = self._query_parts(column, literals, timezone, remote)
        for part in matches.parts:
            units, segment = np.unique(part.every if part.unknown else part.units), part.segment
            owners = segment.files.find_files(units)
            inside = self.live.alive[part.number][owners]
            units, owners = units[inside], owners[inside]
            numbers, first = np.unique(owners, return_index=True)
            for number, path, some in zip(
                numbers.tolist(), segment.files.paths(numbers), np.split(units, first)[1:], strict=True
            ):
                self._add_selection(files, path, some.tolist(), part.number, number)
        files.update(dict.fromkeys([candidate.path for candidate in self.always(column)]))
        return Selections(files, matches.doubts, *self._add_table_costs(matches))

    def _add_selection(
        self,
        files: dict[str, FileSelection | None],
        path: str,
        units: Sequence[int],
        number: int,
        file: int,
    ) -> None:
        """Add units of a file of a segment, both given by their numbers, to what is selected of its path."""
        before = files.get(path)
        rows = self.segments[number].find_rows(units, file)
        if rows is None or (path in files and before is None):
            files[path] = None
            return
        restamped = self.live.restamped.get(FileRef(number, file))
        stamp = self.segments[number].files.stamps[file].as_py() if restamped is None else restamped[1]
        selection = rows.to_selection(stamp)
        files[path] = selection if before is None else _unite(selection, before)

    def find_column(self, name: str) -> str:
        """Return the indexed column or expression of a name or text.

        Raises
        ------
        UnknownColumnError
            There is none.
        """
        found = self._columns.get(name) or self._columns.get(parse_key(name))
        if found is None:
            names = ", ".join(self.manifest.columns)
            raise UnknownColumnError(f"the index has no such column; it has: {names}", column=name)
        return found

    def require_comparable(self, column: str, literals: Sequence[object]) -> None:
        """Raise if a literal is of another kind than a column's values in all files, which then all would be named.

        Raises
        ------
        UnknownColumnError
            There is no such column.
        PredicateError
            A literal is of another kind.
        """
        column = self.find_column(column)
        parts = [part.info for _, _, _, part in self._list_parts(column)]
        all_types = list(dict.fromkeys((info.column_type, *info.other_types) for info in parts))
        if isinstance(column, KeyExpression):
            literals = parse_key_literals(literals, column)
            if column.function not in (TUPLE, PATH):
                return  # texts, whatever the column's values are
            is_tuple = column.function == TUPLE
            names, several = column.columns, [*zip(*literals, strict=True)] if is_tuple else [tuple(literals)]
        else:
            names, several = (column,), [tuple(literals)]
        for name, some, types in zip(names, several, zip(*all_types, strict=True), strict=False):
            for literal in some:
                if not any(is_of_kind(literal, column_type) for column_type in types):
                    problem = coerce([literal], types[0]).unknown or f"{literal!r} is not of type {types[0]}"
                    raise make_mismatch_error(problem, types[0], name)

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {column: column for column in self.manifest.columns}

    def _query_parts(self, column: str, literals: Sequence[object], timezone: str, remote: bool) -> _Matches:
        """Query all parts that hold values of a column; those of a remote index concurrently."""
        part_queries: list[_PartQuery] = []
        probes: dict[tuple[ColumnType, ...], HashedLiterals] = {}
        for i, segment, number, part in self._list_parts(column):
            types = part.info.column_type, *part.info.other_types
            if types not in probes:
                probes[types] = (
                    hash_key_literals(column, literals, types, timezone)
                    if isinstance(column, KeyExpression)
                    else hash_literals(literals, types[0], timezone)
                )
            part_queries.append((i, segment, number, part, probes[types]))
        doubts: dict[str, None] = {}
        parts: list[_PartMatch] = []
        requests = bytes_read = 0
        threads = min(_SEGMENTS_AT_A_TIME, len(part_queries)) if remote else 1
        one_by_one = nullcontext(map(_find_in_part, part_queries))
        with in_order(_find_in_part, part_queries, threads) if threads > 1 else one_by_one as results:
            for (i, segment, number, _, probe), matches in zip(part_queries, results, strict=True):
                requests += matches.requests
                bytes_read += matches.bytes_read
                unknown = dict(probe.reasons)
                for query, why in matches.unknown.items():
                    unknown.setdefault(int(probe.literals[query]), why)
                    doubts[why] = None
                doubts.update(dict.fromkeys(probe.reasons.values()))
                every = segment.find_units(column, number) if unknown else matches.units
                parts.append(_PartMatch(i, segment, probe.literals[matches.queries], matches.units, [*unknown], every))
        return _Matches(parts, doubts, requests, bytes_read)

    def _add_table_costs(self, matches: _Matches) -> tuple[int, int]:
        """Return the requests and bytes of matches, with those of the tables of files."""
        costs = [segment.files.new_cost() for segment in self.segments]  # the names of files were read just now
        return matches.requests + sum(cost[0] for cost in costs), matches.bytes_read + sum(cost[1] for cost in costs)

    def _lookup_one(self, column: str, literal: object) -> Answers | None:
        """Look up a single value with one hash on a fast path; None where the general path is needed."""
        one = self._find_one(column, literal)
        if one is None:
            return None
        candidates = [_make_candidate(segment, file, unit) for _, segment, file, unit in one.units]
        if len(candidates) > 1:
            _merge(candidates)
        always = self.always(column)
        return Answers([candidates + always if always else candidates], (), one.requests, one.bytes_read)

    def _select_one(self, column: str, literal: object) -> Selections | None:
        one = self._find_one(column, literal)
        if one is None:
            return None
        files: dict[str, FileSelection | None] = {}
        for i, segment, file, unit in one.units:
            self._add_selection(files, segment.files.path(file), [unit], i, file)
        files.update(dict.fromkeys([candidate.path for candidate in self.always(column)]))
        return Selections(files, {}, one.requests, one.bytes_read)

    def _find_one(self, column: str, literal: object) -> _OneMatch | None:
        """Find the units of a single value with one hash in each part; None where the general path is needed."""
        if isinstance(column, KeyExpression):
            return None
        units: list[tuple[int, Segment, int, int]] = []
        requests = bytes_read = 0
        for i, segment, _, part in self._list_parts(column):
            h = part.hasher.hash(literal)
            if h is None:
                return None
            matches = part.find_one(h)
            if matches.unknown:
                return None
            requests += matches.requests
            bytes_read += matches.bytes_read
            alive = self.live.alive[i]
            for unit in matches.units.tolist():
                file = segment.find_file(unit)
                if alive[file]:
                    units.append((i, segment, file, unit))
        return _OneMatch(units, requests, bytes_read)

    def _list_parts(self, column: str) -> list[tuple[int, Segment, int, OpenPart]]:
        """Return (segment's position, segment, part's number, part) of every part that holds values of a column."""
        if column not in self._parts:
            self._parts[column] = [
                (i, segment, number, part)
                for i, segment in enumerate(self.segments)
                for number, part in segment.find_parts(column)
                if number not in self.live.foreign[i]
            ]
        return self._parts[column]

    def always(self, column: str) -> list[Candidate]:
        """Return live files that are candidates for every value: not indexed, changed, or without this column."""
        if column not in self._always:
            candidates = [Candidate(path) for path in self.live.unindexed]
            for segment, alive, foreign in zip(self.segments, self.live.alive, self.live.foreign, strict=True):
                numbers = segment.find_uncovered(column, foreign)
                candidates += [Candidate(segment.files.path(number)) for number in numbers[alive[numbers]].tolist()]
            self._always[column] = list(dict.fromkeys(candidates))
        return self._always[column]

    def _add_candidates(
        self,
        candidates: list[list[Candidate]],
        values: NDArray[np.intp],
        units: NDArray[np.uint32],
        segment: Segment,
        i: int,
    ) -> None:
        """Add units of a segment as candidates for values, if their files are live."""
        if not len(units):
            return
        files = segment.files.find_files(units)
        alive = self.live.alive[i][files]
        paths = segment.files.paths(files[alive])
        for value, file, unit, path in zip(
            values[alive].tolist(), files[alive].tolist(), units[alive].tolist(), paths, strict=True
        ):
            candidates[value].append(_make_candidate(segment, file, unit, path))

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _find_in_part(query: _PartQuery) -> PartMatches:
    _, _, _, part, probe = query
    return part.find(probe.hashes)


def _merge(candidates: list[Candidate]) -> None:
    """Merge candidates of the same file in place, with all of its row groups."""
    if len(candidates) < 2:
        return
    merged: dict[str, dict[int, list[tuple[int, int]] | None] | None] = {}
    for path, row_groups, rows in candidates:
        found = merged.setdefault(path, {})
        if row_groups is None or found is None:
            merged[path] = None
            continue
        for number, ranges in zip(row_groups, repeat(None) if rows is None else rows, strict=False):
            before = found.setdefault(number, [])
            found[number] = None if before is None or ranges is None else [*before, *ranges]
    candidates[:] = [_merge_rows(path, some) for path, some in merged.items()]


def _merge_rows(path: str, ranges: Mapping[int, list[tuple[int, int]] | None] | None) -> Candidate:
    """Return a candidate with ranges of rows in any order, which may overlap."""
    if ranges is None:
        return Candidate(path)
    numbers = tuple(sorted(ranges))
    rows = [None if (some := ranges[number]) is None else unite_ranges(some) for number in numbers]
    return Candidate(path, numbers, None if None in rows else tuple(some for some in rows if some is not None))


def _make_candidate(segment: Segment, file: int, unit: int, path: str | None = None) -> Candidate:
    path, rows = segment.files.path(file) if path is None else path, segment.find_rows([unit], file)
    return Candidate(path) if rows is None else rows.to_candidate(path)


def _unite(first: FileSelection, second: FileSelection) -> FileSelection:
    """Return the selection of the rows that are in any of two, which are of one path.

    Where they are of different versions of the file, or of other units, it is the whole file.
    """
    is_same = (first.stamp, first.row_counts) == (second.stamp, second.row_counts)
    if not is_same or first.row_groups is None or second.row_groups is None:
        return first._replace(row_groups=None, rows={})
    both = first.row_groups & second.row_groups
    rows = {
        number: unite_ranges([*first.rows[number], *second.rows[number]])
        for number in both
        if number in first.rows and number in second.rows
    }
    for selection in (first, second):
        rows |= {number: ranges for number, ranges in selection.rows.items() if number not in both}
    return first._replace(row_groups=first.row_groups | second.row_groups, rows=rows)


def open_segments(
    folder: Folder,
    segments_by_name: Mapping[str, Segment] = {},
    tables: Mapping[str, FileTable] = {},
    manifest: IndexManifest | None = None,
    begin: Callable[[IndexManifest], None] | None = None,
    ahead: Collection[str] | None = (),
) -> tuple[IndexManifest, list[Segment]]:
    """Open the newest manifest and its segments.

    Parameters
    ----------
    segments_by_name : segments that are open already, by their names.
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
            return newest, _open_all(folder, newest, segments_by_name, tables, ahead)
        except (StorageError, ConcurrentChangeError) as error:
            manifests.require_gone(error)
            missing = error
    assert missing is not None
    raise missing


def _open_all(
    folder: Folder,
    manifest: IndexManifest,
    segments_by_name: Mapping[str, Segment],
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
        return _open_segment(folder, manifest, number, segments_by_name, tables, columns)

    if len(numbers) < 2 or local:
        return list(map(segment, numbers))
    threads = min(len(numbers), _SEGMENTS_AT_A_TIME)
    with in_order(segment, numbers, threads) as segments:
        return list(segments)


@contextmanager
def open_for_writing(
    folder: Folder, tables: Mapping[str, FileTable] = {}
) -> Iterator[tuple[IndexManifest, list[Segment]]]:
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
    manifest: IndexManifest,
    number: int,
    segments_by_name: Mapping[str, Segment],
    tables: Mapping[str, FileTable],
    ahead: Collection[str],
) -> Segment:
    info = manifest.segments[number]
    before = segments_by_name.get(info.name)
    if before is not None and before.info.files == info.files:
        if np.array_equal(before.info.removed, info.removed) and before.info.parts == info.parts:
            return before
        return Segment(folder, manifest, info, before.files)
    return Segment(folder, manifest, info, tables.get(info.files), ahead)
