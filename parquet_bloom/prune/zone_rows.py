"""Which rows of a file's row groups its zones leave for a predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..file.facts import FileFacts
from ..hashing.physical import ColumnType
from ..predicate.decide import Answer, Decider, Question
from ..predicate.evidence import NO, UNKNOWN, ColumnEvidence
from .report import FileDecision

if TYPE_CHECKING:
    from ..zones import ZoneIndex

Rows = NDArray[np.int64]


class OfColumn(NamedTuple):
    """The zones of one column of a file; arrays have an entry a zone.

    Attributes
    ----------
    asked : the index.
    column_type : how the file stored the column's values when the zones were made.
    row_group, start, length : the zone's rows.
    has_null : whether one of them is null.
    zones : the zone's number in the index.
    """

    asked: ZoneIndex
    column_type: ColumnType
    row_group: NDArray[np.intp]
    start: Rows
    length: Rows
    has_null: NDArray[np.bool_]
    zones: NDArray[np.intp]

    @classmethod
    def of(cls, index: ZoneIndex, number: int) -> OfColumn:
        """Of a file by its number in the index."""
        return cls(index, index.file(number).column_type, *index.zones_of(number))


class _Laid(NamedTuple):
    """The same along the rows of the row groups that are read, which are put one behind the other."""

    column: OfColumn
    start: Rows
    stop: Rows
    order: NDArray[np.intp]  # numbers of these zones among the column's

    def at(self, rows: Rows) -> NDArray[np.intp]:
        """The number, among the column's zones, of the zone that each of some rows is in; -1 for none."""
        at = np.searchsorted(self.start, rows, "right") - 1
        inside = (at >= 0) & (rows < np.append(self.stop, 0)[at])
        found = np.full(len(rows), -1, np.intp)
        found[inside] = self.order[at[inside]]
        return found


def rows_left(
    decision: FileDecision, facts: FileFacts, decider: Decider, columns: Mapping[str, OfColumn]
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
    row_groups = np.array(decision.selected, np.intp)
    sizes = np.array([facts.num_rows[row_group] or 0 for row_group in decision.selected], np.int64)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    laid = {name: _lay(column, facts, row_groups, begins, sizes) for name, column in columns.items()}
    # Between two of these rows no column goes from one zone to the next.
    borders = np.unique(np.concatenate([begins, ends, *(part for one in laid.values() for part in one[1:3])]))
    first, count = borders[:-1], len(borders) - 1
    of_stretch = row_groups[np.searchsorted(ends, first, "right")]
    at = {name: one.at(first) for name, one in laid.items()}
    evidence = {name: _evidence(facts, name, of_stretch, columns.get(name), at.get(name)) for name in decider.columns}

    def ask(questions: list[Question]) -> list[Answer]:
        answers = []
        for question in questions:
            column, places = columns[question.column], at[question.column][question.places]
            answers.append(Answer(column.asked.check(column.zones[places], question.hashes)))
        return answers

    possible = decider.possible(decider.decide_all(evidence, count, ask))
    found = {}
    stretches = np.searchsorted(borders, np.append(begins, ends[-1:])).tolist()
    for place, row_group in enumerate(decision.selected):
        part = possible[stretches[place] : stretches[place + 1]]
        if not part.all():
            changes = np.flatnonzero(np.diff(part, prepend=False, append=False)).reshape(-1, 2)
            rows = borders[stretches[place] : stretches[place + 1] + 1][changes] - begins[place]
            found[row_group] = tuple((start, stop) for start, stop in rows.tolist())
    return found


def _lay(column: OfColumn, facts: FileFacts, row_groups: NDArray[np.intp], begins: Rows, sizes: Rows) -> _Laid:
    """Zones of row groups that are read, in the order of their rows, and no longer than the row group."""
    place = np.full(max(len(facts.num_rows), 1), -1, np.intp)
    place[row_groups] = np.arange(len(row_groups))
    inside = (column.row_group >= 0) & (column.row_group < len(facts.num_rows))
    inside &= (column.start >= 0) & (column.length > 0)
    of_zone = np.where(inside, place[np.where(inside, column.row_group, 0)], -1)
    chosen = np.flatnonzero(of_zone >= 0)
    of_zone = of_zone[chosen]
    start, length = column.start[chosen], column.length[chosen]
    stop = np.minimum(length, sizes[of_zone] - start) + start  # in this order: nothing overflows
    kept = start < stop
    start, stop = (start + begins[of_zone])[kept], (stop + begins[of_zone])[kept]
    order = np.argsort(start, kind="stable")
    return _Laid(column, start[order], stop[order], chosen[kept][order])


def _evidence(
    facts: FileFacts, name: str, row_groups: NDArray[np.intp], zones: OfColumn | None, at: NDArray[np.intp] | None
) -> ColumnEvidence | None:
    """What is known of a column in stretches: of their row groups, and of their zones."""
    of_column = facts.columns[name]
    if of_column is None:
        return None
    # A filter of the whole row group is not asked again.
    own = of_column.evidence.at(row_groups)
    found = replace(
        own,
        has_values=np.where(own.has_values == NO, NO, UNKNOWN).astype(np.int8),
        has_nulls=np.where(own.has_nulls == NO, NO, UNKNOWN).astype(np.int8),
        filtered=np.zeros(len(own), np.bool_),
        doubts=(),
        holds=facts.holds[name],
    )
    if zones is None or at is None:
        return found
    if zones.column_type != found.column_type:
        problem = f"its zones are of {zones.column_type}, the column is of {found.column_type}: they are not used"
        raise ParquetBloomError(problem, column=name)
    from ..zones import keying

    has_nulls = found.has_nulls
    if not of_column.leaf.repeated:  # of lists, only nulls among their elements would be known
        has_nulls = np.where((at >= 0) & ~np.append(zones.has_null, True)[at], NO, has_nulls).astype(np.int8)
    return replace(found, has_nulls=has_nulls, filtered=at >= 0, keying=keying)
