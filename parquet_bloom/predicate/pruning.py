"""Can a predicate hold for any row of a row group? Decided from evidence alone: ranges, filters, null counts.

Every leaf is answered "possible" or "impossible", for a reason; AND is impossible when a child is, OR when all are.
Whatever cannot be known is possible: a row that matches is never lost. Many row groups are judged at once, as arrays.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..hashing.bounds import LiteralBounds, place
from ..hashing.coerce_many import coerce_all
from ..hashing.column_type import ColumnType, Domain, Kind
from . import tree
from .comparison import holds_for_all, select_bound
from .statistics import NO, ColumnShape, KeyHasher, PruningStatistics, PruningStatisticsArray, make_domain_array
from .tree import (
    Compare,
    Connective,
    Contains,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    Or,
)


@dataclass(frozen=True)
class Verdict:
    """Whether rows can match.

    Attributes
    ----------
    possible : False when no row can.
    by : what ruled it out: "type" (no such value in that type), "nulls", "range", "filter".
    reason : the same for people, with the column's name.
    doubts : why nothing better could be said, where something is odd.
    """

    possible: bool
    by: frozenset[str] = frozenset()
    reason: str = ""
    doubts: tuple[str, ...] = ()


POSSIBLE = Verdict(True)


@dataclass(frozen=True, eq=False, slots=True)
class FilterProbe:
    """What filters are asked: whether any of some keys may be there.

    Attributes
    ----------
    column : whose filters.
    places : which of the places judged (intp array); each has a filter.
    hashes : the keys (uint64 array).
    """

    column: str
    places: NDArray[np.intp]
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class ProbeResult:
    """What filters say to a question.

    Attributes
    ----------
    maybe : bool, an entry a place: False where all of the keys are certainly absent.
    problems : why the filter of a place cannot be used, or None; an empty sequence where that is nowhere so.
    """

    maybe: NDArray[np.bool_]
    problems: Sequence[str | None] = ()


@dataclass(frozen=True)
class _Values:
    """A leaf's literals as values of one column type: sorted, with the hashes of each value's stored forms."""

    values: list[Domain]
    hashes: np.ndarray
    first_hash: np.ndarray  # hashes[first_hash[i]:first_hash[i + 1]] belong to values[i]
    unknown: str | None
    sorted: np.ndarray  # the values, to be searched


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The places that are being judged, and what has been found of them."""

    columns: Mapping[str, PruningStatisticsArray | None]
    count: int
    spans: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = field(default_factory=dict)  # by the leaf's id
    denied: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    problems: dict[int, dict[int, str]] = field(default_factory=dict)


class PruningPredicate:
    """A predicate, ready to be asked about many row groups of many files.

    Parameters
    ----------
    node : the predicate.
    timezone : zone of literals without one where a column holds instants (see `literals.coerce`).
    """

    def __init__(self, node: Node, timezone: str = "UTC"):
        self.node = node
        self.columns = sorted(tree.columns(node))
        self._leaves = list(tree.leaves(node))
        self._timezone = timezone
        self._values: dict[tuple[int, ColumnType, KeyHasher], _Values] = {}
        self._limits: dict[tuple[int, ColumnType], LiteralBounds] = {}
        self._numbers = {POSSIBLE: 0}
        self._verdicts = [POSSIBLE]
        self._naming = threading.Lock()

    def decide(self, evidence: Mapping[str, PruningStatistics | None]) -> Verdict:
        """Judge one place, as if there were no filters.

        Parameters
        ----------
        evidence : one entry a column of the predicate; None for a column that the file does not have.
        """
        columns = {
            name: None if found is None else PruningStatisticsArray.of(found.column_type, [found])
            for name, found in evidence.items()
        }
        return self.verdict(int(self.decide_all(columns, 1)[0]))

    def decide_all(
        self,
        columns: Mapping[str, PruningStatisticsArray | None],
        count: int,
        ask: Callable[[list[FilterProbe]], Sequence[ProbeResult]] | None = None,
    ) -> NDArray[np.int32]:
        """Judge many places at once: row groups of files in which each column is of one type, or pages.

        Parameters
        ----------
        columns : one entry a column of the predicate; None for a column that the files do not have.
        count : how many places.
        ask : gives the filters' answers to questions, in their order. It is called once at most, with all questions,
            which are about places only that ranges and null counts leave possible; None if there are no filters.

        Returns
        -------
        An entry a place: the number of its verdict, see `verdict`; 0 is "possible, and nothing to add".
        """
        places = _Evaluation(columns, count)
        # Ranges first: they cost nothing, and what they rule out need not be probed for.
        found = self._judged(places)
        questions = self._questions(places, found) if ask is not None else []
        if not questions:
            return found
        assert ask is not None
        for (leaf, question), answer in zip(questions, ask([question for _, question in questions]), strict=True):
            denied = places.denied.setdefault(id(leaf), np.zeros(count, np.bool_))
            denied[question.places[~answer.maybe]] = True
            problems = places.problems.setdefault(id(leaf), {})
            problems.update(
                (at, problem)
                for at, problem, maybe in zip(question.places.tolist(), answer.problems, answer.maybe, strict=False)
                if problem and maybe
            )
        return self._judged(places)

    def verdict(self, number: int) -> Verdict:
        """The verdict of a number that `decide_all` gave."""
        return self._verdicts[number]

    def possible(self, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """For each number that `decide_all` gave whether rows can match."""
        return np.array([verdict.possible for verdict in self._verdicts], np.bool_)[numbers]

    def _number(self, verdict: Verdict) -> int:
        number = self._numbers.get(verdict)
        if number is None:
            with self._naming:  # threads may find the same verdict together
                number = self._numbers.setdefault(verdict, len(self._verdicts))
                if number == len(self._verdicts):
                    self._verdicts.append(verdict)
        return number

    def _judged(self, places: _Evaluation) -> NDArray[np.int32]:
        return tree.fold(
            self.node,
            lambda leaf: self._leaf(leaf, places),
            lambda connective, found: self._joined(connective, found),
        )

    def _joined(self, connective: Connective, found: list[NDArray[np.int32]]) -> NDArray[np.int32]:
        """The verdicts of a connective: of each combination that occurs, once."""
        codes, members = found[0].astype(np.int64), [(number,) for number in range(len(self._verdicts))]
        for numbers in found[1:]:
            base = len(self._verdicts)
            occurring, codes = np.unique(codes * base + numbers, return_inverse=True)
            members = [(*members[code // base], code % base) for code in occurring.tolist()]
        occurring, codes = np.unique(codes, return_inverse=True)
        verdicts = [
            self._number(_combine(connective, [self._verdicts[number] for number in members[code]]))
            for code in occurring.tolist()
        ]
        return np.array(verdicts, np.int32)[codes]

    def _leaf(self, leaf: Leaf, places: _Evaluation) -> NDArray[np.int32]:
        """The verdict's number of each place, as far as one leaf goes."""
        name, column = f"'{leaf.column}'", places.columns[leaf.column]
        found = np.zeros(places.count, np.int32)
        if column is None:
            found[:] = self._number(Verdict(True, doubts=(f"{name}: the file has no such column",)))
            return found
        if isinstance(leaf, IsNull):
            self._rule_out(found, column.has_nulls == NO, "nulls", f"{name} is null in no row")
            return found
        if isinstance(leaf, NotContains) or (isinstance(leaf, NotIn) and not leaf.values):
            return found
        if isinstance(leaf, IsNotNull) and column.holds is not ColumnShape.VALUES:
            return found  # an empty list is not null, nor is a struct of nothing but nulls
        if isinstance(leaf, Contains) and column.holds is not ColumnShape.ELEMENTS:
            found[:] = self._number(Verdict(True, doubts=(f"{name}: the file has no list of single values there",)))
            return found
        if isinstance(leaf, IsNotNull):
            pass
        elif isinstance(leaf, Compare):
            self._compare(leaf, column, found)
        elif isinstance(leaf, NotEqual | NotIn):
            self._differ(leaf, column, found)
        else:
            self._equal(leaf, column, found, places)
        nothing = "has no element in any row" if isinstance(leaf, Contains) else "is null in every row"
        self._rule_out(found, column.has_values == NO, "nulls", f"{name} {nothing}")
        return found

    def _rule_out(self, found: NDArray[np.int32], where: NDArray[np.bool_] | slice, by: str, reason: str) -> None:
        if isinstance(where, slice) or where.any():
            found[where] = self._number(Verdict(False, frozenset(by.split("+")), reason))

    def _equal(self, leaf: Leaf, column: PruningStatisticsArray, found: NDArray[np.int32], places: _Evaluation) -> None:
        name = f"'{leaf.column}'"
        wanted = self._coerced(leaf, column)
        if wanted.unknown is not None:
            found[:] = self._number(Verdict(True, doubts=(f"{name}: {wanted.unknown}",)))
            return
        if not wanted.values:
            reason = f"{name} is {column.column_type}, which has no such value"
            self._rule_out(found, slice(None), "type", reason)
            return
        first, last = self._span(leaf, column, wanted, places)
        doubts = {at: (f"{name}: {doubt}",) for at, doubt in enumerate(column.doubts) if doubt}
        for at, problem in places.problems.get(id(leaf), {}).items():
            doubts[at] = (*doubts.get(at, ()), f"{name}: {problem}")
        for at, several in doubts.items():
            found[at] = self._number(Verdict(True, doubts=several))
        denied = places.denied.get(id(leaf))
        if denied is not None and denied.any():
            reason = f"{name} is absent by its filter"
            some = last - first < len(wanted.values)
            self._rule_out(found, denied & ~some, "filter", reason)
            self._rule_out(found, denied & some, "filter+range", reason)
        self._rule_out(found, first >= last, "range", f"{name} lies outside of its range")

    def _span(
        self, leaf: Leaf, column: PruningStatisticsArray, wanted: _Values, places: _Evaluation
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of each place the values within its range, which are wanted.values[first:last]."""
        if id(leaf) not in places.spans:
            first, last = np.zeros(len(column), np.intp), np.full(len(column), len(wanted.values), np.intp)
            first[column.low_known] = np.searchsorted(wanted.sorted, column.low[column.low_known], "left")
            last[column.high_known] = np.searchsorted(wanted.sorted, column.high[column.high_known], "right")
            places.spans[id(leaf)] = first, last
        return places.spans[id(leaf)]

    def _questions(self, places: _Evaluation, found: NDArray[np.int32]) -> list[tuple[Leaf, FilterProbe]]:
        """What the filters are to be asked, where the predicate may hold as far as is known without them."""
        questions: list[tuple[Leaf, FilterProbe]] = []
        open_places = self.possible(found)
        for leaf in self._leaves:
            span, column = places.spans.get(id(leaf)), places.columns[leaf.column]
            if span is None or column is None or not column.column_type.hashable:
                continue
            first, last = span
            asked = np.flatnonzero(open_places & column.filtered & (column.has_values != NO) & (first < last))
            if not len(asked):
                continue
            wanted = self._coerced(leaf, column)
            base = len(wanted.values) + 1
            spans = first[asked] * base + last[asked]
            for code in np.unique(spans).tolist() if (spans != spans[0]).any() else [int(spans[0])]:
                begin, end = wanted.first_hash[code // base], wanted.first_hash[code % base]
                of_span = asked[spans == code]
                questions.append((leaf, FilterProbe(leaf.column, of_span, wanted.hashes[begin:end])))
        return questions

    def _compare(self, leaf: Compare, column: PruningStatisticsArray, found: NDArray[np.int32]) -> None:
        name, column_type = f"'{leaf.column}'", column.column_type
        if leaf.value is None:
            self._rule_out(found, slice(None), "type", f"nothing compares with NULL, {name} neither")
            return
        if column_type.kind is Kind.FLOAT and (
            leaf.operator in (">", ">=") or (isinstance(leaf.value, float) and math.isnan(leaf.value))
        ):
            return  # NaN is above all numbers, and ranges leave it out
        limits = self._limits.get((id(leaf), column_type))
        if limits is None:
            limits = place(leaf.value, column_type, self._timezone)
            self._limits[id(leaf), column_type] = limits
        if limits.unknown is not None:
            found[:] = self._number(Verdict(True, doubts=(f"{name}: {limits.unknown}",)))
            return
        limit = select_bound(leaf.operator, limits.at_most, limits.at_least)
        if limit is None:
            if not holds_for_all(leaf.operator):
                reason = f"{name} is {column_type}, which has no such value"
                self._rule_out(found, slice(None), "type", reason)
            return
        operator = leaf.operator
        if operator == "<" and isinstance(limit, float) and (column_type.length != 8 or limit != leaf.value):
            # Engines that widen the column compare with the literal itself, not the nearest of its type; and no double
            # equals a Decimal beyond all of them.
            operator = "<="
        self._rule_out(found, _find_beyond(column, operator, limit), "range", f"{name} lies outside of its range")

    def _differ(self, leaf: NotEqual | NotIn, column: PruningStatisticsArray, found: NDArray[np.int32]) -> None:
        name = f"'{leaf.column}'"
        if None in leaf.literals:
            self._rule_out(found, slice(None), "type", f"nothing differs from NULL for sure, {name} neither")
            return
        if column.column_type.kind is Kind.FLOAT:
            return
        one = np.flatnonzero(column.low_known & column.high_known)
        one = one[column.low[one] == column.high[one]]
        if not len(one):
            return
        wanted = self._coerced(leaf, column)
        if wanted.unknown is None and wanted.values:
            at = np.searchsorted(wanted.sorted, column.low[one], "left")
            same = (at < len(wanted.values)) & (
                wanted.sorted[np.minimum(at, len(wanted.values) - 1)] == column.low[one]
            )
            other = np.zeros(len(found), np.bool_)
            other[one] = same
            self._rule_out(found, other, "range", f"{name} has no other value")

    def _coerced(self, leaf: Leaf, column: PruningStatisticsArray) -> _Values:
        key = (id(leaf), column.column_type, column.keying)
        if key not in self._values:  # of threads that come here together, all go on with the same values
            self._values.setdefault(key, self._coerce(leaf, column.column_type, column.keying))
        return self._values[key]

    def _coerce(self, leaf: Leaf, column_type: ColumnType, keying: KeyHasher) -> _Values:
        values, unknown = coerce_all(leaf.literals, column_type, self._timezone)
        in_order = make_domain_array(values, column_type)
        if unknown is not None or not column_type.hashable:
            return _Values(values, np.empty(0, np.uint64), np.zeros(len(values) + 1, np.intp), unknown, in_order)
        return _Values(values, *keying(values, column_type), None, in_order)


def _find_beyond(column: PruningStatisticsArray, operator: str, limit: Domain) -> NDArray[np.bool_]:
    """Where no value from `low` to `high` can stand in the relation to `limit`."""
    known = column.low_known if operator in ("<", "<=") else column.high_known
    bound = (column.low if operator in ("<", "<=") else column.high)[known]
    reaches = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[operator]
    beyond = np.zeros(len(column), np.bool_)
    # Not the limit itself: NumPy would make bytes an array of its own kind, which forgets zeros at their end.
    beyond[known] = ~reaches(bound, make_domain_array([limit], column.column_type)).astype(np.bool_)
    return beyond


def _combine(connective: Connective, verdicts: list[Verdict]) -> Verdict:
    doubts = tuple(dict.fromkeys(doubt for verdict in verdicts for doubt in verdict.doubts))
    impossible = [verdict for verdict in verdicts if not verdict.possible]
    if isinstance(connective, Or):
        if len(impossible) < len(verdicts):
            return Verdict(True, doubts=doubts)
        by = frozenset().union(*(verdict.by for verdict in impossible))
        return Verdict(False, by, "; ".join(dict.fromkeys(verdict.reason for verdict in impossible)))
    return impossible[0] if impossible else Verdict(True, doubts=doubts)
