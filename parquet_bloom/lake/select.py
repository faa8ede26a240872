"""A predicate put to an index: which files, and which row groups in them, can hold a row that matches."""

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
from .files.liveness import FileRef, PathTable, same_as
from .files.table import NOT_COVERED
from .segment import OpenPart, Segment
from .snapshot import IndexSnapshotReader

_SEGMENTS_AT_A_TIME = 16

Trusted = Callable[[str, ColumnType], bool]


class FileSelection(NamedTuple):
    """What an index says of a file.

    Attributes
    ----------
    known : whether it says anything: the file is indexed, and is what it was, if that makes a difference.
    read : whether any row of it can match.
    row_groups : those that can; None where the index does not tell them apart.
    reason : that the index says so, and why.
    stamp : where row groups are told apart, what tells that the file is the one that is meant (see `stamps`).
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
    """Puts one predicate to an index.

    Parameters
    ----------
    state : the index as it is open.
    node, timezone, ignore_case : the predicate, and how it is understood, as in `prune`.
    filesystem : of the lake.
    trusted : whether an engine reads a column of some stored type as what is stored; None if it does in every case.

    Attributes
    ----------
    doubts : what of the index could not be read, each once.
    requests, bytes_read : what it took so far.
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
        self._indexed = _matching(self._decider.columns, state.manifest.columns, ignore_case)
        self._verdicts: dict[int, NDArray[np.int32]] = {}
        self._paths: PathTable | None = None

    @property
    def useful(self) -> bool:
        """Whether the predicate is about an indexed column at all."""
        return bool(self._indexed)

    def choose(self, entries: Sequence[Entry]) -> list[FileSelection]:
        """What the index says of files, in their order.

        Each that it rules out is looked at whether it still is the one that was indexed; of object stores' files
        nothing is asked if their listing told.
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
        """Every live file, as was judged when the index was opened, and what the index says of it."""
        self._ask_ahead(range(len(self._state.segments)))
        for place, (segment, alive) in enumerate(zip(self._state.segments, self._state.live.alive, strict=True)):
            numbers = np.flatnonzero(alive)
            yield from zip(segment.files.paths(numbers), self._choices(place, segment, numbers), strict=True)
        for path in self._state.live.unindexed:
            yield path, _UNKNOWN

    def _same(
        self, entries: Sequence[Entry], place: int, segment: Segment, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which of a segment's files are what they were when they were indexed."""
        if not entries:
            return np.empty(0, np.bool_)
        costs: list[tuple[int, int]] = []
        now = [one or _NOT_THERE for one in read_version_tokens(entries, self._filesystem, costs)]
        self.requests += sum(requests for requests, _ in costs)
        self.bytes_read += sum(bytes_read for _, bytes_read in costs)
        same = same_as(segment, numbers, now)
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
        """Ask distant segments side by side: each is a few requests, one waiting for the other."""
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
        """That no row matches, by the number of the verdict that says so."""
        reason = self._decider.verdict(verdict).reason.replace(" by its filter", "")
        return FileSelection(True, False, None, f"the index says: {reason}")

    def _verdicts_of(self, place: int, segment: Segment) -> NDArray[np.int32]:
        """The number of each unit's verdict."""
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
        """The verdicts on units whose values stand in the same parts."""
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
                columns[name] = _evidence(part, len(units))

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
            return ProbeResult(np.ones(len(question.places), np.bool_))
        maybe = np.zeros(segment.info.num_units, np.bool_)
        maybe[found.units] = True
        return ProbeResult(maybe[units[question.places]])


def _matching(names: Sequence[str], indexed: Sequence[str], ignore_case: bool) -> dict[str, str]:
    """The columns of a predicate that are indexed, and what the index calls them."""
    found = {}
    for name in names:
        same = [own for own in indexed if own == name or (ignore_case and own.lower() == name.lower())]
        if len(same) == 1:
            found[name] = same[0]
    return found


def _evidence(part: OpenPart, count: int) -> PruningStatisticsArray:
    """What is known of a column in so many units: that there is something to ask, and nothing else."""
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
