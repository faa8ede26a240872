"""Restrict the rows of selected row groups by zone indexes: filters of a few thousand rows each."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError, StorageError
from ...file.column_statistics import FileStatistics
from ...file.identity import NO_TOKEN, compare_contents, read_version_tokens, version_token
from ...predicate import tree
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.pruning_statistics import NO, UNKNOWN, PruningStatisticsArray
from ...predicate.tree import Contains, Equal, In, IsNull
from ...storage import Entry
from ...util.lazy import late_module
from ...util.threads import in_order
from ..model.row_selection import RowPositions, RowSelection, find_runs, to_row_selection
from ..model.scan_plan import ZONES, FilePlan, FileScan, ScanPlan

if TYPE_CHECKING:
    from ... import zones as zone_indexes
    from ...util.given_types import FileSystem
    from ...zones import ZonedFile, ZoneIndex

    OneZoneIndex = str | os.PathLike[str] | ZoneIndex
    Zones = OneZoneIndex | Sequence[OneZoneIndex]
else:
    zone_indexes = late_module("parquet_bloom.zones")


_MAX_CACHED_SEGMENTS = 4  # combinations of row groups and indexes that are cached for a file


class ZonedColumn(NamedTuple):
    """A column of a file with the zone index of the column.

    Attributes
    ----------
    zone_index : the index.
    file_number : the file's number in it.
    """

    zone_index: ZoneIndex
    file_number: int


class _ZoneLayout(NamedTuple):
    """Zones of a column along the rows of the selected row groups, which are concatenated.

    Attributes
    ----------
    start, stop : the rows of each zone.
    zones : its ordinal in the index.
    has_null : whether one of its rows is null.
    """

    start: RowPositions
    stop: RowPositions
    zones: NDArray[np.intp]
    has_null: NDArray[np.bool_]

    def find_zones(self, rows: RowPositions) -> NDArray[np.intp]:
        """Return the position, among these zones, of the zone of each row; -1 for none."""
        i = np.searchsorted(self.start, rows, "right") - 1
        return np.where((i >= 0) & (rows < np.append(self.stop, 0)[i]), i, -1)


class _Segments(NamedTuple):
    """The rows of the selected row groups, cut wherever a zone of any column begins or ends.

    Nothing here depends on the literals of a predicate, so that a file's segments are made once. Arrays have an entry
    for each segment.

    Attributes
    ----------
    borders : first row of each segment, then the number of rows.
    parts : for each row group its ordinal, its first row, and its segments [begin, end).
    zones : {name: ordinal of the zone in the index, undefined where there is none}.
    evidence : {name: statistics of the column}.
    """

    borders: RowPositions
    parts: list[tuple[int, int, int, int]]
    zones: dict[str, NDArray[np.intp]]
    evidence: dict[str, PruningStatisticsArray | None]


def select_rows(
    plan: FilePlan, statistics: FileStatistics, predicate: PruningPredicate, columns: Mapping[str, ZonedColumn]
) -> dict[int, RowSelection]:
    """Return the rows of the selected row groups that zones leave.

    Parameters
    ----------
    plan, statistics : of the file, which is the indexed version.
    predicate : the predicate.
    columns : {name in the predicate: column with zones}.

    Returns
    -------
    {row group: ranges [start, stop), ascending} of the row groups of which some rows are ruled out.

    Raises
    ------
    ParquetBloomError
        Zones contradict the file, or cannot be read.
    """
    # Weak references tell an index from each later one, without keeping it open.
    by_zones = tuple((name, ref(column.zone_index), column.file_number) for name, column in columns.items())
    key = by_zones, tuple(plan.selected)
    segments = statistics.beside.get(key)
    if segments is None:
        segments = _make_segments(statistics, plan.selected, predicate.columns, columns)
        if len(statistics.beside) >= _MAX_CACHED_SEGMENTS:
            statistics.beside.clear()
        statistics.beside[key] = segments

    def probe_filters(probes: list[FilterProbe]) -> list[ProbeResult]:
        return [
            ProbeResult(
                columns[probe.column].zone_index.check(segments.zones[probe.column][probe.positions], probe.hashes)
            )
            for probe in probes
        ]

    borders = segments.borders
    possible = predicate.possible(predicate.decide_all(segments.evidence, len(borders) - 1, probe_filters))
    selections = {}
    for row_group, first_row, begin, end in segments.parts:
        part = possible[begin:end]
        if not part.all():
            rows = borders[begin : end + 1][find_runs(part)] - first_row
            selections[row_group] = to_row_selection(rows)
    return selections


def _make_segments(
    statistics: FileStatistics,
    selected: Sequence[int],
    names: Sequence[str],
    columns: Mapping[str, ZonedColumn],
) -> _Segments:
    """Cut the rows of the selected row groups into segments, with the statistics of each."""
    row_groups = np.array(selected, np.intp)
    sizes = np.array([statistics.num_rows[row_group] or 0 for row_group in selected], np.int64)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    layouts = {name: _lay_out_zones(column, statistics, row_groups, begins, sizes) for name, column in columns.items()}
    # Between two borders no zone of any column begins or ends.
    borders = np.unique(np.concatenate([begins, ends, *(part for layout in layouts.values() for part in layout[:2])]))
    first = borders[:-1]
    row_group_of = row_groups[np.searchsorted(ends, first, "right")]
    zone_of = {name: layout.find_zones(first) for name, layout in layouts.items()}
    evidence = {name: _statistics_without_zones(statistics, name, row_group_of) for name in names}
    for name, column in columns.items():
        evidence[name] = _add_zones(statistics, name, column, evidence[name], layouts[name], zone_of[name])
    bounds = np.searchsorted(borders, [begins, ends]).tolist()
    parts = list(zip(selected, begins.tolist(), *bounds, strict=True))
    return _Segments(borders, parts, {name: layouts[name].zones[zone_of[name]] for name in columns}, evidence)


def _lay_out_zones(
    column: ZonedColumn,
    statistics: FileStatistics,
    row_groups: NDArray[np.intp],
    begins: RowPositions,
    sizes: RowPositions,
) -> _ZoneLayout:
    """Return the zones of the selected row groups in row order, cut off at the end of their row group."""
    zones = column.zone_index.zones_of(column.file_number)
    position = np.full(max(len(statistics.num_rows), 1), -1, np.intp)
    position[row_groups] = np.arange(len(row_groups))
    is_valid = (zones.row_group >= 0) & (zones.row_group < len(statistics.num_rows))
    is_valid &= (zones.start >= 0) & (zones.length > 0)
    of_zone = np.where(is_valid, position[np.where(is_valid, zones.row_group, 0)], -1)
    selected = np.flatnonzero(of_zone >= 0)
    of_zone = of_zone[selected]
    start, length = zones.start[selected], zones.length[selected]
    stop = np.minimum(length, sizes[of_zone] - start) + start  # in this order nothing overflows
    has_rows = start < stop
    start, stop = (start + begins[of_zone])[has_rows], (stop + begins[of_zone])[has_rows]
    order = np.argsort(start, kind="stable")
    numbers = selected[has_rows][order]
    return _ZoneLayout(start[order], stop[order], zones.zones[numbers], zones.has_null[numbers])


def _statistics_without_zones(
    statistics: FileStatistics, name: str, row_groups: NDArray[np.intp]
) -> PruningStatisticsArray | None:
    """Return the statistics of a column in segments of row groups, without its zones."""
    column = statistics.columns[name]
    if column is None:
        return None
    # The filter of the whole row group is not probed again.
    of_row_groups = column.evidence.at(row_groups)
    return replace(
        of_row_groups,
        has_values=np.where(of_row_groups.has_values == NO, NO, UNKNOWN).astype(np.int8),
        has_nulls=np.where(of_row_groups.has_nulls == NO, NO, UNKNOWN).astype(np.int8),
        filtered=np.zeros(len(of_row_groups), np.bool_),
        doubts=(),
        holds=statistics.holds[name],
    )


def _add_zones(
    statistics: FileStatistics,
    name: str,
    column: ZonedColumn,
    without_zones: PruningStatisticsArray | None,
    layout: _ZoneLayout,
    zone_of: NDArray[np.intp],
) -> PruningStatisticsArray:
    """Add a column's zones to its statistics in segments.

    Parameters
    ----------
    zone_of : the position in `layout` of each segment's zone; -1 for none.
    """
    column_statistics = statistics.columns[name]
    assert column_statistics is not None
    assert without_zones is not None
    # The type in which the file stored the column when the zones were made.
    column_type = column.zone_index.file(column.file_number).column_type
    if column_type != without_zones.column_type:
        problem = f"its zones are of {column_type}, the column is of {without_zones.column_type}: they are not used"
        raise ParquetBloomError(problem, column=name)
    has_nulls = without_zones.has_nulls
    if not column_statistics.leaf.repeated:  # of lists, only nulls among the elements would be known
        is_null_free = (zone_of >= 0) & ~np.append(layout.has_null, True)[zone_of]
        has_nulls = np.where(is_null_free, NO, has_nulls).astype(np.int8)
    return replace(without_zones, has_nulls=has_nulls, filtered=zone_of >= 0, hash_values=zone_indexes.keying)


_MAX_CONCURRENT_FILES = 32  # each is a request or two to an index in an object store

_BY_ZONES, _NO_ROW = frozenset({ZONES}), "its zones say: no row of it matches"

_PROBED_NODES = (Equal, In, Contains, IsNull)  # predicates that zones can answer


class ZoneView:
    """Zone indexes as one query uses them.

    Parameters
    ----------
    indexes : open indexes over Parquet files, each with the name that it was given by.
    filesystem : of the files.
    doubts : why other indexes cannot be used.

    Attributes
    ----------
    doubts : why zones are not used, each doubt once.
    """

    def __init__(
        self, indexes: Sequence[tuple[str, ZoneIndex]], filesystem: FileSystem | None, doubts: Sequence[str] = ()
    ):
        self.doubts: dict[str, None] = dict.fromkeys(doubts)
        self._indexes = indexes
        self._filesystem = filesystem
        self._has_files = [False] * len(indexes)  # whether an index has zones of one of the files at least
        self._used = False

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`: files are handled concurrently if an index is in an object store."""
        if any(index.distant for _, index in self._indexes):
            with in_order(self._restrict, files, _MAX_CONCURRENT_FILES) as restricted:
                yield from restricted
        else:
            yield from map(self._restrict, files)
        plan.zone_doubts = self._finish()

    def _restrict(self, file: FileScan) -> FileScan:
        """Restrict the plan of a file to the rows that zones leave."""
        if file.plan is not None and file.statistics is not None and file.predicate is not True and file.plan.selected:
            file.plan = self._restrict_plan(file.plan, file.statistics, file.predicate)
        return file

    def _restrict_plan(self, plan: FilePlan, statistics: FileStatistics, predicate: PruningPredicate) -> FilePlan:
        columns: dict[str, ZonedColumn] = {}
        for i, (_, index) in enumerate(self._indexes):
            number = index.of_file(plan.path, self._filesystem)
            if number is None:
                continue
            self._has_files[i] = True
            try:
                names = _find_names(index, statistics, predicate) - columns.keys()
                if names and self._check_version(index, number, plan):
                    columns |= dict.fromkeys(names, ZonedColumn(index, number))
            except ParquetBloomError as error:
                self._add_doubt(error, plan.path)
        self._used = True
        if not columns:
            return plan
        try:
            rows = select_rows(plan, statistics, predicate, columns)
        except ParquetBloomError as error:
            self._add_doubt(error, plan.path)
            return plan
        row_groups = tuple(
            one.narrow(rows[one.row_group], _BY_ZONES, _NO_ROW) if one.row_group in rows else one
            for one in plan.row_groups
        )
        return replace(plan, row_groups=row_groups)

    def _add_doubt(self, error: ParquetBloomError, path: str) -> None:
        error.path = error.path or path
        self.doubts[str(error)] = None

    def _finish(self) -> list[str]:
        """Return all doubts once every file is planned; an index without zones of any file read is one, too."""
        for (name, _), has_files in zip(self._indexes, self._has_files, strict=True):
            if self._used and not has_files:
                self.doubts[f"{name}: it has no zones of the files that are read"] = None
        return [*self.doubts]

    def _check_version(self, index: ZoneIndex, number: int, plan: FilePlan) -> bool:
        """Return whether a file is the indexed version; if not, note a doubt."""
        is_same = _is_indexed_version(index, index.file(number), plan, self._filesystem)
        if not is_same:
            problem = "it has changed since its zones were made, which are not used"
            self._add_doubt(ParquetBloomError(problem, column=index.column), plan.path)
        return is_same


def _find_names(index: ZoneIndex, statistics: FileStatistics, predicate: PruningPredicate) -> set[str]:
    """Return the names of an index's column in the parts of a predicate that zones can answer."""
    leaves = tree.leaves(tree.drop_whole_names(predicate.node))
    names = {leaf.column for leaf in leaves if isinstance(leaf, _PROBED_NODES)}
    columns = {name: statistics.columns[name] for name in names}
    return {name for name, column in columns.items() if column is not None and column.stored_name == index.column}


_VERIFIED: WeakKeyDictionary[ZoneIndex, dict[tuple[int, int, bytes], bool]] = WeakKeyDictionary()
"""For each open index: {(file number, size, version token): whether the contents proved to be what was indexed}."""
_VERIFYING = threading.Lock()


def _is_indexed_version(index: ZoneIndex, zoned: ZonedFile, plan: FilePlan, filesystem: FileSystem | None) -> bool:
    """Return whether the planned file is the indexed one: by its version token, or else by its contents."""
    size, stamp = getattr(plan.identity, "size", None), version_token(plan.identity)
    if size is None:
        return False
    if stamp != NO_TOKEN and (size, stamp) == (zoned.size, zoned.stamp):
        return True
    key = zoned.number, size, stamp
    with _VERIFYING:  # one at a time, so that nothing is read twice
        verified = _VERIFIED.setdefault(index, {})
        if stamp != NO_TOKEN and key in verified:
            return verified[key]
        entry, column = Entry(plan.path), index.column or ""
        same, settled = compare_contents(entry, filesystem, zoned.footer, zoned.data, lambda file: [file.leaf(column)])
        if settled != NO_TOKEN and settled == stamp:
            verified[key] = same
    # The version planned before and read afterwards must be the one compared here.
    return same and read_version_tokens([entry], filesystem) == [(size, stamp)]


@contextmanager
def open_zone_indexes(zones: Zones | None, filesystem: FileSystem | None = None) -> Iterator[ZoneView | None]:
    """Open zone indexes for one query; indexes that are given open stay open.

    Parameters
    ----------
    zones : a path or an open index, or a list of them; None for none.
    filesystem : of the paths, and of the files.

    Raises
    ------
    StorageError
        There is nothing at a path. An index that exists but cannot be read is not an error.
    ParquetBloomError
        An index is Lance's own, which is not over Parquet files.
    """
    if zones is None:
        yield None
        return
    given: Sequence[object] = zones if isinstance(zones, list | tuple) else [zones]
    indexes: list[tuple[str, ZoneIndex]] = []
    doubts = []
    with ExitStack() as stack:
        for one in given:
            if isinstance(one, zone_indexes.ZoneIndex):
                name, index = one.path or "the zone index", one
            elif isinstance(one, str | os.PathLike):
                name = os.fsdecode(one)
                try:
                    index = stack.enter_context(zone_indexes.open(one, filesystem))
                except ParquetBloomError as error:
                    if isinstance(error, StorageError) and error.errno in (errno.ENOENT, errno.ENOTDIR):
                        raise
                    doubts.append(str(error))
                    continue
            else:
                raise ParquetBloomError(f"zones must be a path or an open ZoneIndex, got {type(one).__name__}")
            if index.files is None:
                problem = "it is Lance's own index, which is not over Parquet files: make one with zones.build"
                raise ParquetBloomError(f"{name}: {problem}")
            indexes.append((name, index))
        yield ZoneView(indexes, filesystem, doubts)
