"""Prune files, and row groups in them, by evaluating a predicate against an index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..file.identity import NO_TOKEN, read_version_tokens
from ..hashing.column_type import ColumnType, make_domain_array
from ..predicate.key_expression import TUPLE, KeyExpression, first_column, is_of_path
from ..predicate.pruning import FilterProbe, ProbeResult, PruningPredicate
from ..predicate.pruning_statistics import UNKNOWN, PruningStatisticsArray
from ..predicate.tree import Node, VariantLookup, drop_whole_names, leaves
from ..predicate.variant_names import name_evidence
from ..storage import Entry
from ..util.messages import count
from ..util.threads import in_order
from . import lake_files as sources
from .expression_keys import IndexedKey, KeyPredicate, find_value_type
from .file_table import NOT_COVERED
from .index_part import PartMatches
from .index_reports import FileSelection
from .index_snapshot import IndexSnapshotReader
from .liveness import FileRef, PathTable, match_stamps
from .segment import OpenPart, Segment
from .units import FILE

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_SEGMENTS_AT_A_TIME = 16
_MOST_CODES = 1 << 47  # a segment has at most 2**15 parts

Trusted = Callable[[str, ColumnType], bool]
Means = Callable[[str, str], bool]


_MISSING = (-2, NO_TOKEN)
_UNKNOWN = FileSelection(False)
_ALL = FileSelection(True)


@dataclass(eq=False)
class IndexPruner:
    """Evaluates one predicate against an index.

    Parameters
    ----------
    state : the opened index.
    node, timezone, ignore_case : the predicate and its options, as in `prune`.
    filesystem : file system of the lake.
    trusted : returns whether an engine reads a column of some stored type unchanged; None if it always does.
    means : returns whether a column of the predicate is the stored column of some meaning (see `ColumnPart`); None if
        columns are those that files name so.

    Attributes
    ----------
    doubts : problems with reading the index, each once.
    requests, bytes_read : cost so far.
    """

    state: IndexSnapshotReader
    node: Node
    timezone: str = "UTC"
    ignore_case: bool = False
    filesystem: FileSystem | None = None
    trusted: Trusted | None = None
    means: Means | None = None
    doubts: dict[str, None] = field(default_factory=dict, init=False)
    requests: int = field(default=0, init=False)
    bytes_read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._counting = threading.Lock()
        columns = self.state.manifest.columns
        keys = KeyPredicate(
            drop_whole_names(self.node), self.state.manifest.expressions, self.timezone, self.ignore_case
        )
        self._keys, self._grams, self._without_grams = keys.by_name, keys.grams, keys.without_grams
        self._gram_counts: dict[tuple[str, int], int] = {}
        self._predicate = PruningPredicate(keys.node, self.timezone)
        plain = [column for column in columns if not isinstance(column, KeyExpression)]
        paths = {
            name_evidence(leaf.column, leaf.path, leaf.target)  # the name of a column, too, which is not meant
            for leaf in leaves(keys.node)
            if isinstance(leaf, VariantLookup)
        }
        names = [name for name in self._predicate.columns if name not in self._keys and name not in paths]
        self._indexed_names = _match_columns(names, plain, self.ignore_case)
        self._indexed_names |= {name: key.expression for name, key in self._keys.items()}
        self._verdicts: dict[int, NDArray[np.int32]] = {}
        self._path_table: PathTable | None = None

    @property
    def useful(self) -> bool:
        """True if the predicate refers to an indexed column."""
        return bool(self._indexed_names)

    def choose(self, entries: Sequence[Entry]) -> list[FileSelection]:
        """Return the index's result for each file, in their order.

        Files that would be pruned are first checked to be unchanged since they were indexed. For files in object
        stores that takes no request if the listing has their version.
        """
        if not self.useful:
            return [_UNKNOWN] * len(entries)
        if self._path_table is None:
            self._path_table = PathTable(self.state.segments)
        names = [sources.name_of(entry.path, self.filesystem) for entry in entries]
        owners, numbers = self._path_table.find(names)
        selections = [_UNKNOWN] * len(entries)
        self._evaluate_ahead(np.unique(owners[owners >= 0]).tolist())
        for i, segment in enumerate(self.state.segments):
            positions = np.flatnonzero(owners == i)
            if not len(positions):
                continue
            chosen = dict(zip(positions.tolist(), self._make_selections(i, segment, numbers[positions]), strict=True))
            doubtful = np.array([position for position, choice in chosen.items() if choice is not _ALL], np.intp)
            unchanged = self._find_unchanged(
                [entries[position] for position in doubtful.tolist()], i, segment, numbers[doubtful]
            )
            for position in doubtful[~unchanged].tolist():
                chosen[position] = _UNKNOWN
            for position, choice in chosen.items():
                selections[position] = choice
        return selections

    def live(self) -> Iterator[tuple[str, FileSelection]]:
        """Yield every file that was live when the index was opened, with the index's result for it."""
        self._evaluate_ahead(range(len(self.state.segments)))
        for i, (segment, alive) in enumerate(zip(self.state.segments, self.state.live.alive, strict=True)):
            numbers = np.flatnonzero(alive)
            yield from zip(segment.files.paths(numbers), self._make_selections(i, segment, numbers), strict=True)
        for path in self.state.live.unindexed:
            yield path, _UNKNOWN

    def _find_unchanged(
        self, entries: Sequence[Entry], i: int, segment: Segment, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which of a segment's files are unchanged since they were indexed."""
        if not entries:
            return np.empty(0, np.bool_)
        costs: list[tuple[int, int]] = []
        current = [token or _MISSING for token in read_version_tokens(entries, self.filesystem, costs)]
        self.requests += sum(requests for requests, _ in costs)
        self.bytes_read += sum(bytes_read for _, bytes_read in costs)
        unchanged = match_stamps(segment, numbers, current)
        restamped = self.state.live.restamped
        if restamped:
            for position in np.flatnonzero(~unchanged).tolist():
                unchanged[position] = restamped.get(FileRef(i, int(numbers[position]))) == current[position]
        return unchanged

    def _make_selections(self, i: int, segment: Segment, numbers: NDArray[np.int64]) -> Iterator[FileSelection]:
        verdicts = self._evaluate_segment(i, segment)
        possible = self._predicate.possible(verdicts)
        first = segment.files.first_units
        if self.state.manifest.granularity == FILE:
            units = first[numbers]
            for read, number in zip(possible[units].tolist(), verdicts[units].tolist(), strict=True):
                yield _ALL if read else self._make_skipped(number)
            return
        for number in numbers.tolist():
            can_match = possible[first[number] : first[number + 1]]
            if can_match.any():
                if can_match.all():
                    yield _ALL
                    continue
                restamped = self.state.live.restamped.get(FileRef(i, number))
                stamp = segment.files.stamps[number].as_py() if restamped is None else restamped[1]
                rows = segment.find_rows((np.flatnonzero(can_match) + first[number]).tolist(), number)
                assert rows is not None
                yield rows.to_selection(stamp)
            else:
                yield self._make_skipped(int(verdicts[first[number]]))

    def _evaluate_ahead(self, positions: Sequence[int]) -> None:
        """Query remote segments concurrently, as each takes a few requests in sequence."""
        remote = [i for i in positions if self.state.segments[i].is_remote]
        if len(remote) > 1:
            running = in_order(
                lambda i: self._evaluate_segment(i, self.state.segments[i]),
                remote,
                min(len(remote), _SEGMENTS_AT_A_TIME),
            )
            with running as verdicts:
                for _ in verdicts:
                    pass

    def _make_skipped(self, verdict: int) -> FileSelection:
        """Return the selection for a file without matching rows, with the reason of a verdict."""
        reason = self._predicate.verdicts[verdict].reason.replace(" by its filter", "")
        for name in self._grams:
            column = first_column(self._keys[name].expression)
            reason = reason.replace(f"'{name}' is absent", f"a gram of '{column}' is absent")
        return FileSelection(True, False, None, f"the index says: {reason}")

    def _evaluate_segment(self, i: int, segment: Segment) -> NDArray[np.int32]:
        """Return the number of each unit's verdict."""
        if i in self._verdicts:
            return self._verdicts[i]
        counts = np.diff(segment.files.first_units)
        parts = np.stack(
            [np.repeat(segment.files.parts(name), counts) for name in self._indexed_names.values()], axis=1
        ).astype(np.int64)
        codes, num_codes, base = np.zeros(len(parts), np.int64), 1, len(segment.parts) + 1
        for column in parts.T:
            codes, num_codes = codes * base + column + 1, num_codes * base
            if (
                num_codes > _MOST_CODES
            ):  # of many columns: they would overflow, and units of different parts be mixed up
                used, codes = np.unique(codes, return_inverse=True)
                num_codes = len(used)
        verdicts = np.zeros(segment.info.num_units, np.int32)
        for code in np.unique(codes).tolist():
            units = np.flatnonzero(codes == code)
            verdicts[units] = self._evaluate_units(segment, units, parts[units[0]].tolist())
        self._verdicts[i] = verdicts
        return verdicts

    def _evaluate_units(self, segment: Segment, units: NDArray[np.intp], numbers: Sequence[int]) -> NDArray[np.int32]:
        """Return the verdicts on units whose values are stored in the same parts."""
        columns: dict[str, PruningStatisticsArray | None] = dict.fromkeys(self._predicate.columns)
        parts: dict[str, OpenPart] = {}
        for (name, indexed_name), number in zip(self._indexed_names.items(), numbers, strict=True):
            if number == NOT_COVERED:
                continue
            part = segment.parts[number]
            if name in self._keys:
                statistics = self._make_key_statistics(self._keys[name], part, len(units))
                if statistics is not None:
                    parts[name], columns[name] = part, statistics
                continue
            if not self._is_same(indexed_name, part):
                continue
            if self.trusted is None or self.trusted(indexed_name, part.info.column_type):
                parts[name] = part
                columns[name] = _make_statistics(part, len(units))

        def ask(questions: list[FilterProbe]) -> list[ProbeResult]:
            results: dict[int, ProbeResult] = {}
            for column in {question.column: None for question in questions}:
                some = [i for i, question in enumerate(questions) if question.column == column]
                found = self._probe_part(parts[column], [questions[i] for i in some], segment, units)
                results.update(zip(some, found, strict=True))
            return [results[i] for i in range(len(questions))]

        return self._predicate.decide_all(columns, len(units), ask)

    def _is_same(self, name: str, part: OpenPart) -> bool:
        """Return whether a part has values of an indexed column, or of an expression of one, as it is named now."""
        return part.info.by_name if self.means is None else self.means(first_column(name), part.info.meaning)

    def _make_key_statistics(self, key: IndexedKey, part: OpenPart, count: int) -> PruningStatisticsArray | None:
        """Return statistics of units that have keys of an expression; None if they cannot be used."""
        types, is_tuple = (part.info.column_type, *part.info.other_types), key.expression.function == TUPLE
        if not self._is_same(key.expression, part) or (is_tuple and self.means is not None):
            return None
        names = (key.expression,) if is_of_path(key.expression) else key.expression.columns
        if self.trusted is not None and not all(map(self.trusted, names, types)):
            return None
        hasher = key.find_hasher(types)
        statistics = make_unknown(find_value_type(key.expression), count)
        return None if hasher is None else replace(statistics, hash_values=hasher)

    def _probe_part(
        self, part: OpenPart, probes: Sequence[FilterProbe], segment: Segment, units: NDArray[np.intp]
    ) -> list[ProbeResult]:
        """Probe a part for all questions at once."""
        matches = part.find(np.concatenate([probe.hashes for probe in probes]))
        with self._counting:
            self.requests += matches.requests
            self.bytes_read += matches.bytes_read
        self.doubts.update(dict.fromkeys(matches.unknown.values()))
        grams = self._grams.get(probes[0].column)
        if grams is not None:
            self._count_grams(probes, grams, matches)
        unknown = np.array([*matches.unknown], np.intp)
        results, end = [], 0
        for probe in probes:
            first, end = end, end + len(probe.hashes)
            if ((unknown >= first) & (unknown < end)).any():
                results.append(ProbeResult(np.ones(len(probe.positions), np.bool_)))
                continue
            maybe = np.zeros(segment.info.num_units, np.bool_)
            of_probe = slice(*np.searchsorted(matches.queries, [first, end]).tolist())
            maybe[matches.units[of_probe]] = True
            results.append(ProbeResult(maybe[units[probe.positions]]))
        return results

    def _count_grams(self, probes: Sequence[FilterProbe], grams: Mapping[int, bytes], matches: PartMatches) -> None:
        """Count the units of the grams that are asked for."""
        hashes = np.concatenate([probe.hashes for probe in probes]).tolist()
        counts = dict(zip(hashes, np.bincount(matches.queries, minlength=len(hashes)).tolist(), strict=True))
        with self._counting:
            for h in counts.keys() & grams.keys():
                key = probes[0].column, h
                self._gram_counts[key] = self._gram_counts.get(key, 0) + counts[h]

    def describe_grams(self) -> list[str]:
        """Return what grams were asked for, in how many units each may be, and of which conditions there are none."""
        granularity = self.state.manifest.granularity.replace("_", " ")
        lines = []
        for name, grams in self._grams.items():
            units = sum(_count_covered(segment, self._keys[name].expression) for segment in self.state.segments)
            shown = [
                f"'{gram.decode(errors='backslashreplace')}' in {self._gram_counts.get((name, h), 0):,}"
                for h, gram in grams.items()
            ]
            lines.append(f"{name}, of {count(units, granularity)}: {', '.join(shown)}")
        return lines + self._without_grams


def _count_covered(segment: Segment, column: str) -> int:
    """Return how many units of a segment have values of a column in the index."""
    return int(np.diff(segment.files.first_units)[segment.files.parts(column) != NOT_COVERED].sum())


def _match_columns(names: Sequence[str], indexed: Sequence[str], ignore_case: bool) -> dict[str, str]:
    """Return {name in the predicate: name in the index} of the predicate's indexed columns."""
    matches = {}
    for name in names:
        candidates = [other for other in indexed if other == name or (ignore_case and other.lower() == name.lower())]
        if len(candidates) == 1:
            matches[name] = candidates[0]
    return matches


def _make_statistics(part: OpenPart, count: int) -> PruningStatisticsArray:
    """Return pruning statistics of `count` units of a part."""
    return make_unknown(part.info.column_type, count).holding(part.info.holds)


def make_unknown(column_type: ColumnType, count: int) -> PruningStatisticsArray:
    """Return pruning statistics of `count` units that have a filter, but no other statistics."""
    unknown, never = np.full(count, UNKNOWN, np.int8), np.zeros(count, np.bool_)
    values = np.zeros(count, make_domain_array([None], column_type).dtype)
    return PruningStatisticsArray(
        column_type,
        unknown,
        unknown,
        values,
        never,
        values,
        never,
        np.ones(count, np.bool_),
    )
