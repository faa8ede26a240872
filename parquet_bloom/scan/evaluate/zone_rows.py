"""Which rows of a file's row groups its zones leave for a predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.statistics import FileStatistics
from ...predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ...predicate.statistics import NO, UNKNOWN, PruningStatisticsArray
from ..model.decision import FilePlan

if TYPE_CHECKING:
    from ...zones import ZoneIndex

RowPositions = NDArray[np.int64]

_FEW = 4  # choices of row groups and indexes that are remembered for a file


class Zoned(NamedTuple):
    """A file in the index of one of its columns.

    Attributes
    ----------
    asked : the index.
    number : the file's.
    """

    asked: ZoneIndex
    number: int


class _Laid(NamedTuple):
    """Zones of a column along the rows of the row groups that are read, which are put one behind the other.

    Attributes
    ----------
    start, stop : a zone's rows.
    zones : its ordinal in the index.
    has_null : whether one of its rows is null.
    """

    start: RowPositions
    stop: RowPositions
    zones: NDArray[np.intp]
    has_null: NDArray[np.bool_]

    def at(self, rows: RowPositions) -> NDArray[np.intp]:
        """The number, among these, of the zone that each of some rows is in; -1 for none."""
        at = np.searchsorted(self.start, rows, "right") - 1
        return np.where((at >= 0) & (rows < np.append(self.stop, 0)[at]), at, -1)


class _Stretches(NamedTuple):
    """The same rows, cut wherever a column goes from one zone to the next; arrays have an entry a stretch.

    Nothing here depends on what a predicate compares with: it is made once for a file.

    Attributes
    ----------
    borders : the first row of each, and behind them the number of rows.
    parts : of each row group: its number, its first row, and its stretches [begin, end).
    zones : {name: ordinal of the zone in the index, without meaning where there is none}.
    evidence : {name: what is known of the column}.
    """

    borders: RowPositions
    parts: list[tuple[int, int, int, int]]
    zones: dict[str, NDArray[np.intp]]
    evidence: dict[str, PruningStatisticsArray | None]


def rows_left(
    decision: FilePlan, facts: FileStatistics, decider: PruningPredicate, columns: Mapping[str, Zoned]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """The rows that zones leave of the row groups that are read.

    Parameters
    ----------
    decision, facts : of the file, which is the one that was indexed.
    decider : the predicate.
    columns : {name in the predicate: zones}.

    Returns
    -------
    {row group: ranges [start, stop), ascending}, of row groups of which some rows are ruled out.

    Raises
    ------
    ParquetBloomError
        Zones contradict the file, or cannot be read.
    """
    # By weak references, which tell an index from each later one: what is kept must not keep it open.
    by_zones = tuple((name, ref(one.asked), one.number) for name, one in columns.items())
    key = by_zones, tuple(decision.selected)
    stretches = facts.beside.get(key)
    if stretches is None:
        stretches = _stretches(facts, decision.selected, decider.columns, columns)
        if len(facts.beside) >= _FEW:
            facts.beside.clear()
        facts.beside[key] = stretches

    def ask(questions: list[FilterProbe]) -> list[ProbeResult]:
        return [
            ProbeResult(columns[one.column].asked.check(stretches.zones[one.column][one.places], one.hashes))
            for one in questions
        ]

    borders = stretches.borders
    possible = decider.possible(decider.decide_all(stretches.evidence, len(borders) - 1, ask))
    found = {}
    for row_group, first_row, begin, end in stretches.parts:
        part = possible[begin:end]
        if not part.all():
            outside = np.zeros(len(part) + 2, np.int8)  # and what is around them
            outside[1:-1] = part
            changes = np.flatnonzero(outside[1:] != outside[:-1]).reshape(-1, 2)
            rows = borders[begin : end + 1][changes] - first_row
            found[row_group] = tuple((start, stop) for start, stop in rows.tolist())
    return found


def _stretches(
    facts: FileStatistics, selected: Sequence[int], names: Sequence[str], columns: Mapping[str, Zoned]
) -> _Stretches:
    """What is known of the rows of the row groups that are read, before it is said which values are asked for."""
    row_groups = np.array(selected, np.intp)
    sizes = np.array([facts.num_rows[row_group] or 0 for row_group in selected], np.int64)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    laid = {name: _lay(one, facts, row_groups, begins, sizes) for name, one in columns.items()}
    # Between two of these rows no column goes from one zone to the next.
    borders = np.unique(np.concatenate([begins, ends, *(part for one in laid.values() for part in one[:2])]))
    first = borders[:-1]
    of_stretch = row_groups[np.searchsorted(ends, first, "right")]
    at = {name: one.at(first) for name, one in laid.items()}
    evidence = {name: _evidence(facts, name, of_stretch) for name in names}
    for name, one in columns.items():
        evidence[name] = _with_zones(facts, name, one, evidence[name], laid[name], at[name])
    places = np.searchsorted(borders, [begins, ends]).tolist()
    parts = list(zip(selected, begins.tolist(), *places, strict=True))
    return _Stretches(borders, parts, {name: laid[name].zones[at[name]] for name in columns}, evidence)


def _lay(
    one: Zoned, facts: FileStatistics, row_groups: NDArray[np.intp], begins: RowPositions, sizes: RowPositions
) -> _Laid:
    """Zones of row groups that are read, in the order of their rows, and no longer than the row group."""
    zones = one.asked.zones_of(one.number)
    place = np.full(max(len(facts.num_rows), 1), -1, np.intp)
    place[row_groups] = np.arange(len(row_groups))
    inside = (zones.row_group >= 0) & (zones.row_group < len(facts.num_rows))
    inside &= (zones.start >= 0) & (zones.length > 0)
    of_zone = np.where(inside, place[np.where(inside, zones.row_group, 0)], -1)
    chosen = np.flatnonzero(of_zone >= 0)
    of_zone = of_zone[chosen]
    start, length = zones.start[chosen], zones.length[chosen]
    stop = np.minimum(length, sizes[of_zone] - start) + start  # in this order: nothing overflows
    kept = start < stop
    start, stop = (start + begins[of_zone])[kept], (stop + begins[of_zone])[kept]
    order = np.argsort(start, kind="stable")
    numbers = chosen[kept][order]
    return _Laid(start[order], stop[order], zones.zones[numbers], zones.has_null[numbers])


def _evidence(facts: FileStatistics, name: str, row_groups: NDArray[np.intp]) -> PruningStatisticsArray | None:
    """What is known of a column in stretches of row groups without its zones."""
    of_column = facts.columns[name]
    if of_column is None:
        return None
    # A filter of the whole row group is not asked again.
    own = of_column.evidence.at(row_groups)
    return replace(
        own,
        has_values=np.where(own.has_values == NO, NO, UNKNOWN).astype(np.int8),
        has_nulls=np.where(own.has_nulls == NO, NO, UNKNOWN).astype(np.int8),
        filtered=np.zeros(len(own), np.bool_),
        doubts=(),
        holds=facts.holds[name],
    )


def _with_zones(
    facts: FileStatistics,
    name: str,
    one: Zoned,
    found: PruningStatisticsArray | None,
    laid: _Laid,
    at: NDArray[np.intp],
) -> PruningStatisticsArray:
    """What is known of a column in stretches by its zones, too, of which their numbers are given."""
    of_column = facts.columns[name]
    assert of_column is not None
    assert found is not None
    # As the file stored the column's values when the zones were made.
    column_type = one.asked.file(one.number).column_type
    if column_type != found.column_type:
        problem = f"its zones are of {column_type}, the column is of {found.column_type}: they are not used"
        raise ParquetBloomError(problem, column=name)
    from ...zones import hash_values

    has_nulls = found.has_nulls
    if not of_column.leaf.repeated:  # of lists, only nulls among their elements would be known
        has_nulls = np.where((at >= 0) & ~np.append(laid.has_null, True)[at], NO, has_nulls).astype(np.int8)
    return replace(found, has_nulls=has_nulls, filtered=at >= 0, keying=hash_values)
