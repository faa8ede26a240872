"""Prune files, and row groups in them, by evaluating a predicate against an index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..file.identity import NO_TOKEN, read_version_tokens
from ..hashing.column_type import ColumnType
from ..predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ..predicate.statistics import UNKNOWN, PruningStatisticsArray, make_domain_array
from ..predicate.tree import Node
from ..storage import Entry
from ..util.threads import in_order
from .files import listing as sources
from .files.liveness import FileRef, PathTable, match_stamps
from .files.table import NOT_COVERED
from .segment import OpenPart, Segment
from .snapshot import IndexSnapshotReader

_SEGMENTS_AT_A_TIME = 16

Trusted = Callable[[str, ColumnType], bool]


class FileSelection(NamedTuple):
    """Result of an index for one file.

    Attributes
    ----------
    known : False if the file is not indexed, or has changed since where that matters; it has to be read then.
    read : whether any row of the file can match.
    row_groups : row groups that can match; None where the index does not distinguish them.
    reason : why the file is pruned.
    stamp : version token of the indexed file, where `row_groups` is given (see `file.identity`).
    """

    known: bool
    read: bool = True
    row_groups: frozenset[int] | None = None
    reason: str = ""
    stamp: bytes = NO_TOKEN


_NOT_THERE = (-2, NO_TOKEN)
_UNKNOWN = FileSelection(False)
_WHOLE = FileSelection(True)


class IndexPruner:
    """Evaluates one predicate against an index.

    Parameters
    ----------
    state : the opened index.
    node, timezone, ignore_case : the predicate and its options, as in `prune`.
    filesystem : file system of the lake.
    trusted : returns whether an engine reads a column of some stored type unchanged; None if it always does.

    Attributes
    ----------
    doubts : problems with reading the index, each once.
    requests, bytes_read : cost so far.
    """

    def __init__(
        self,
        state: IndexSnapshotReader,
        node: Node,
        timezone: str = "UTC",
        ignore_case: bool = False,
        filesystem: object | None = None,
        trusted: Trusted | None = None,
    ):
        self.doubts: dict[str, None] = {}
        self.requests = self.bytes_read = 0
        self._counting = threading.Lock()
        self._state = state
        self._filesystem = filesystem
        self._trusted = trusted
        self._decider = PruningPredicate(node, timezone)
        self._indexed = _match_columns(self._decider.columns, state.manifest.columns, ignore_case)
        self._verdicts: dict[int, NDArray[np.int32]] = {}
        self._paths: PathTable | None = None

    @property
    def useful(self) -> bool:
        """True if the predicate refers to an indexed column."""
        return bool(self._indexed)

    def choose(self, entries: Sequence[Entry]) -> list[FileSelection]:
        """Return the index's result for each file, in their order.

        Files that would be pruned are first checked to be unchanged since they were indexed. For files in object
        stores that takes no request if the listing has their version.
        """
        if not self.useful:
            return [_UNKNOWN] * len(entries)
        if self._paths is None:
            self._paths = PathTable(self._state.segments)
        names = [sources.name_of(entry.path, self._filesystem) for entry in entries]
        owners, numbers = self._paths.find(names)
        found = [_UNKNOWN] * len(entries)
        self._ask_ahead(np.unique(owners[owners >= 0]).tolist())
        for place, segment in enumerate(self._state.segments):
            asked = np.flatnonzero(owners == place)
            if not len(asked):
                continue
            choices = dict(zip(asked.tolist(), self._choices(place, segment, numbers[asked]), strict=True))
            some = np.array([at for at, choice in choices.items() if choice is not _WHOLE], np.intp)
            same = self._same([entries[at] for at in some.tolist()], place, segment, numbers[some])
            for at in some[~same].tolist():
                choices[at] = _UNKNOWN
            for at, choice in choices.items():
                found[at] = choice
        return found

    def live(self) -> Iterator[tuple[str, FileSelection]]:
        """Yield every file that was live when the index was opened, with the index's result for it."""
        self._ask_ahead(range(len(self._state.segments)))
        for place, (segment, alive) in enumerate(zip(self._state.segments, self._state.live.alive, strict=True)):
            numbers = np.flatnonzero(alive)
            yield from zip(segment.files.paths(numbers), self._choices(place, segment, numbers), strict=True)
        for path in self._state.live.unindexed:
            yield path, _UNKNOWN

    def _same(
        self, entries: Sequence[Entry], place: int, segment: Segment, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which of a segment's files are unchanged since they were indexed."""
        if not entries:
            return np.empty(0, np.bool_)
        costs: list[tuple[int, int]] = []
        now = [one or _NOT_THERE for one in read_version_tokens(entries, self._filesystem, costs)]
        self.requests += sum(requests for requests, _ in costs)
        self.bytes_read += sum(bytes_read for _, bytes_read in costs)
        same = match_stamps(segment, numbers, now)
        if self._state.live.restamped:
            for at in np.flatnonzero(~same).tolist():
                same[at] = self._state.live.restamped.get(FileRef(place, int(numbers[at]))) == now[at]
        return same

    def _choices(self, place: int, segment: Segment, numbers: NDArray[np.int64]) -> Iterator[FileSelection]:
        verdicts = self._verdicts_of(place, segment)
        possible = self._decider.possible(verdicts)
        first = segment.files.first_units
        by_row_group = self._state.manifest.granularity == "row_group"
        if not by_row_group:
            at = first[numbers]
            for read, number in zip(possible[at].tolist(), verdicts[at].tolist(), strict=True):
                yield _WHOLE if read else self._none(number)
            return
        for number in numbers.tolist():
            some = possible[first[number] : first[number + 1]]
            if some.any():
                if some.all():
                    yield _WHOLE
                    continue
                known = self._state.live.restamped.get(FileRef(place, number))
                stamp = segment.files.stamps[number].as_py() if known is None else known[1]
                yield FileSelection(True, True, frozenset(np.flatnonzero(some).tolist()), stamp=stamp)
            else:
                yield self._none(int(verdicts[first[number]]))

    def _ask_ahead(self, places: Sequence[int]) -> None:
        """Query remote segments concurrently, as each takes a few requests in sequence."""
        distant = [place for place in places if self._state.segments[place].distant]
        if len(distant) > 1:
            asking = in_order(
                lambda place: self._verdicts_of(place, self._state.segments[place]),
                distant,
                min(len(distant), _SEGMENTS_AT_A_TIME),
            )
            with asking as verdicts:
                for _ in verdicts:
                    pass

    def _none(self, verdict: int) -> FileSelection:
        """Return the selection for a file without matching rows, with the reason of a verdict."""
        reason = self._decider.verdict(verdict).reason.replace(" by its filter", "")
        return FileSelection(True, False, None, f"the index says: {reason}")

    def _verdicts_of(self, place: int, segment: Segment) -> NDArray[np.int32]:
        """Return the number of each unit's verdict."""
        if place in self._verdicts:
            return self._verdicts[place]
        counts = np.diff(segment.files.first_units)
        parts = np.stack(
            [np.repeat(segment.files.parts(own), counts) for own in self._indexed.values()], axis=1
        ).astype(np.int64)
        codes = np.zeros(len(parts), np.int64)
        for column in parts.T:
            codes = codes * (len(segment.parts) + 1) + column + 1
        verdicts = np.zeros(segment.info.num_units, np.int32)
        for code in np.unique(codes).tolist():
            units = np.flatnonzero(codes == code)
            verdicts[units] = self._decided(segment, units, parts[units[0]].tolist())
        self._verdicts[place] = verdicts
        return verdicts

    def _decided(self, segment: Segment, units: NDArray[np.intp], numbers: Sequence[int]) -> NDArray[np.int32]:
        """Return the verdicts on units whose values are stored in the same parts."""
        columns: dict[str, PruningStatisticsArray | None] = dict.fromkeys(self._decider.columns)
        parts: dict[str, OpenPart] = {}
        for (name, own), number in zip(self._indexed.items(), numbers, strict=True):
            if number == NOT_COVERED:
                continue
            part = segment.parts[number]
            if not part.info.by_name:
                continue
            if self._trusted is None or self._trusted(own, part.info.column_type):
                parts[name] = part
                columns[name] = _make_statistics(part, len(units))

        def ask(questions: list[FilterProbe]) -> list[ProbeResult]:
            return [self._answer(parts[question.column], question, segment, units) for question in questions]

        return self._decider.decide_all(columns, len(units), ask)

    def _answer(self, part: OpenPart, question: FilterProbe, segment: Segment, units: NDArray[np.intp]) -> ProbeResult:
        found = part.find(question.hashes)
        with self._counting:
            self.requests += found.requests
            self.bytes_read += found.bytes_read
        if found.unknown:
            self.doubts.update(dict.fromkeys(found.unknown.values()))
            return ProbeResult(np.ones(len(question.positions), np.bool_))
        maybe = np.zeros(segment.info.num_units, np.bool_)
        maybe[found.units] = True
        return ProbeResult(maybe[units[question.positions]])


def _match_columns(names: Sequence[str], indexed: Sequence[str], ignore_case: bool) -> dict[str, str]:
    """Return {name in the predicate: name in the index} of the predicate's indexed columns."""
    found = {}
    for name in names:
        same = [own for own in indexed if own == name or (ignore_case and own.lower() == name.lower())]
        if len(same) == 1:
            found[name] = same[0]
    return found


def _make_statistics(part: OpenPart, count: int) -> PruningStatisticsArray:
    """Return pruning statistics of `count` units that have a filter, but no other statistics."""
    unknown, never = np.full(count, UNKNOWN, np.int8), np.zeros(count, np.bool_)
    values = np.zeros(count, make_domain_array([None], part.info.column_type).dtype)
    return PruningStatisticsArray(
        part.info.column_type,
        unknown,
        unknown,
        values,
        never,
        values,
        never,
        np.ones(count, np.bool_),
        (),
        part.info.holds,
    )
