"""Decide from bounds, null counts, Bloom filters and dictionaries whether a row group can have matching rows.

Each leaf is possible or impossible, with a reason. AND is impossible if one of its children is, OR if all of them are.
Whatever is unknown is possible, so that no matching row is ever lost. Many row groups are evaluated at once, as arrays.
"""

from __future__ import annotations

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError
from ..hashing.coerce import LiteralBounds, coerce, make_bounds
from ..hashing.column_type import ColumnType, Domain, Kind, make_domain_array
from ..util.arrow_values import AnyArray, make_array
from . import tree
from .column_kinds import is_of_kind
from .column_parts import DictionaryReader, DictionaryValues, PredicatePart, evaluate_part, find_column_parts
from .map_lookup import to_evidence
from .patterns import find_prefix
from .pruning_statistics import NO, ColumnShape, KeyHasher, PruningStatistics, PruningStatisticsArray
from .reason import MISSING, Reason
from .row_filter import Probes, holds_for_all, select_bound
from .tree import (
    COLUMN_KINDS,
    CallIn,
    CallNotIn,
    Compare,
    Connective,
    Contains,
    Equal,
    HasOtherType,
    HasType,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    MapLookup,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    NotLike,
    Or,
    PatternLeaf,
    VariantLookup,
)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a pruning predicate for one container of rows.

    Attributes
    ----------
    possible : False when no row can match.
    by : evidence that ruled it out: "type" (the type has no such value), "nulls", "range", "filter", "dictionary".
    reason : the same as a message, with the column's name.
    doubts : problems that prevented a better decision.
    certain : whether all rows match.
    """

    possible: bool
    by: frozenset[str] = frozenset()
    reason: str = ""
    doubts: tuple[Reason, ...] = ()
    certain: bool = False


POSSIBLE = Verdict(True)

_PROBE = itemgetter(1)
_IS_POSSIBLE = attrgetter("possible")

_FUNCTIONS = (CallIn, CallNotIn, PatternLeaf)  # leaves that bounds alone do not decide
_NO_HASHES: NDArray[np.generic] = np.empty(0, np.uint64)
_BOUNDED = (Kind.INTEGER, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.DECIMAL, Kind.FLOAT)  # whose bounds are not cut
_SAMPLE = 8  # dictionaries that are read to see whether more of them are worth it, next time four times as many
_LEAST_SHARE = 1 / 16  # of the bytes of a row group: a dictionary that costs less is read in any case
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)
_USUAL_FPP = 0.01  # of filters
_MANY_CODES = 1024  # fewer are counted, which takes less time than to sort


@dataclass(frozen=True, eq=False, slots=True)
class FilterProbe:
    """A query to Bloom filters whether any of some keys may be present.

    Attributes
    ----------
    column : the column of the filters.
    positions : of the containers to probe (intp array); each has a filter.
    hashes : hashes of the keys (uint64 array).
    """

    column: str
    positions: NDArray[np.intp]
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class ProbeResult:
    """The answers of Bloom filters to one `FilterProbe`.

    Attributes
    ----------
    maybe : bool, one entry per position: False where all keys are certainly absent.
    problems : why a filter cannot be used, or None, for each position; empty if all can be used.
    """

    maybe: NDArray[np.bool_]
    problems: Sequence[str | None] = ()


@dataclass(frozen=True)
class _StatisticsValues:
    """The literals of a leaf as values of one column type: sorted, with the hashes of their stored forms."""

    values: list[Domain]
    hashes: np.ndarray
    first_hash: np.ndarray  # hashes[first_hash[i]:first_hash[i + 1]] belong to values[i]
    unknown: str | None
    sorted: np.ndarray  # the values, for binary search


class _ByValues(NamedTuple):
    """What is known of a part of the predicate from all values that a column has in a container.

    Attributes
    ----------
    denied, certain : where no row matches the part, and where all do.
    reason, by : of the former, as in `Verdict`.
    """

    part: PredicatePart
    denied: NDArray[np.bool_]
    certain: NDArray[np.bool_]
    reason: str
    by: str


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The containers of one call of `decide_all`, with intermediate results."""

    columns: Mapping[str, PruningStatisticsArray | None]
    count: int
    spans: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = field(default_factory=dict)  # by the leaf's id
    denied_by_filters: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    problems: dict[int, dict[int, str]] = field(default_factory=dict)
    by_bounds: dict[int, NDArray[np.int32]] = field(default_factory=dict)  # verdicts of leaves that no filter changes
    by_values: list[_ByValues] = field(default_factory=list)
    # Why dictionaries that were asked for cannot be used, by position.
    without_dictionaries: dict[int, set[Reason]] = field(default_factory=dict)


class PruningPredicate:
    """A predicate over statistics, to be evaluated for many row groups of many files.

    Parameters
    ----------
    node : the predicate.
    timezone : zone of literals without one, where a column holds instants (see `hashing.coerce`).

    Attributes
    ----------
    columns : whose evidence is asked for, sorted: those of the predicate, of maps their keys and values.
    verdicts : those that `decide_all` has given the numbers of; only added to.
    """

    def __init__(self, node: Node, timezone: str = "UTC"):
        self.node = node
        self._evidence = to_evidence(node)
        self._postfix = tree.to_postfix(self._evidence)
        self._parts: list[PredicatePart] | None = None
        self._has_functions = any(isinstance(leaf, _FUNCTIONS) for leaf in tree.leaves(self._evidence))
        self._probes: Probes = {}
        self.columns: list[str] = sorted(tree.columns(self._evidence))
        self._timezone = timezone
        self._values: dict[tuple[int, ColumnType, KeyHasher], _StatisticsValues] = {}
        self._limits: dict[tuple[int, ColumnType], LiteralBounds] = {}
        self._numbers = {POSSIBLE: 0}
        self.verdicts = [POSSIBLE]
        self._naming = threading.Lock()

    def decide(self, evidence: Mapping[str, PruningStatistics | None]) -> Verdict:
        """Evaluate the predicate for one container, without filters.

        Parameters
        ----------
        evidence : statistics of each column of the predicate; None for a column that the file does not have.
        """
        columns = {
            name: None if statistics is None else PruningStatisticsArray.of(statistics.column_type, [statistics])
            for name, statistics in evidence.items()
        }
        return self.verdicts[int(self.decide_all(columns, 1)[0])]

    def decide_all(
        self,
        columns: Mapping[str, PruningStatisticsArray | None],
        count: int,
        probe_filters: Callable[[list[FilterProbe]], Sequence[ProbeResult]] | None = None,
        read_dictionaries: DictionaryReader | None = None,
    ) -> NDArray[np.int32]:
        """Evaluate the predicate for many containers at once: row groups or pages in which each column is of one type.

        Parameters
        ----------
        columns : statistics of each column of the predicate; None for a column that the files do not have.
        count : number of containers.
        probe_filters : returns the results of filter probes, in their order. It is called at most once, with all
            probes; these cover only containers that bounds and null counts leave possible. None if there are no
            filters.
        read_dictionaries : reads the distinct values of containers that are possible by all else; None if there are
            none.

        Returns
        -------
        The number of each container's verdict in `verdicts`; 0 means "possible, without doubts".
        """
        evaluation = _Evaluation(columns, count)
        # Bounds first: they cost nothing, and save probes of what they rule out.
        verdicts = self._evaluate(evaluation)
        probes = self._make_probes(evaluation, verdicts) if probe_filters is not None else []
        if probes:
            assert probe_filters is not None
            for (leaf, probe), result in zip(probes, probe_filters(list(map(_PROBE, probes))), strict=True):
                denied = evaluation.denied_by_filters.setdefault(id(leaf), np.zeros(count, np.bool_))
                denied[probe.positions[~result.maybe]] = True
                problems = evaluation.problems.setdefault(id(leaf), {})
                for i, problem, maybe in zip(probe.positions.tolist(), result.problems, result.maybe, strict=False):
                    if problem and maybe:
                        problems[i] = problem
            verdicts = self._evaluate(evaluation)
        if self._has_functions:
            verdicts = self._evaluate_single_values(evaluation, verdicts)
        if read_dictionaries is not None:
            verdicts = self._read_dictionaries(evaluation, verdicts, read_dictionaries)
        return verdicts

    def possible(self, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return for each number from `decide_all` whether rows can match."""
        return np.fromiter(map(_IS_POSSIBLE, self.verdicts), np.bool_)[numbers]

    def _number_verdict(self, verdict: Verdict) -> int:
        number = self._numbers.get(verdict)
        if number is None:
            with self._naming:  # threads may reach the same verdict at the same time
                number = self._numbers.setdefault(verdict, len(self.verdicts))
                if number == len(self.verdicts):
                    self.verdicts.append(verdict)
        return number

    def _evaluate(
        self, evaluation: _Evaluation, assumed: Mapping[int, NDArray[np.bool_]] | None = None
    ) -> NDArray[np.int32]:
        """Return the verdicts by what is known; `assumed` says where some terms of the postfix form are impossible."""
        results: list[NDArray[np.int32]] = []
        denied: dict[int, list[_ByValues]] = {}
        for known in evaluation.by_values:
            for place in known.part.places:
                denied.setdefault(place, []).append(known)
        for place, item in enumerate(self._postfix):
            if isinstance(item, tuple):
                connective, count = item
                results[-count:] = [self._combine_children(connective, results[-count:])]
            else:
                assert isinstance(item, Leaf)
                verdicts = evaluation.by_bounds.get(id(item))
                if verdicts is None:
                    verdicts = self._evaluate_leaf(item, evaluation)
                    if id(item) not in evaluation.spans:  # it cannot be probed, so that filters do not change it
                        evaluation.by_bounds[id(item)] = verdicts
                results.append(verdicts)
            for known in denied.get(place, ()):
                results[-1] = results[-1].copy()
                self._rule_out(results[-1], known.denied & self.possible(results[-1]), known.reason, known.by)
            if assumed and place in assumed:
                results[-1] = results[-1].copy()
                self._rule_out(results[-1], assumed[place], "it is assumed to be impossible", "dictionary")
        return results[0]

    def _get_parts(self) -> list[PredicatePart]:
        with self._naming:  # what is known of literals goes by the identity of the parts, so they are made once
            if self._parts is None:
                self._parts = find_column_parts(self._evidence)
        return self._parts

    def _evaluate_single_values(self, evaluation: _Evaluation, verdicts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the verdicts once patterns and functions are evaluated where bounds leave a text column one value."""
        for part in self._get_parts():
            column = evaluation.columns[part.column]
            if column is None or column.holds is not ColumnShape.VALUES or column.column_type.kind is not Kind.STRING:
                continue
            if part.is_of_elements or not any(isinstance(leaf, _FUNCTIONS) for leaf in tree.leaves(part.node)):
                continue  # bounds decide the others
            single = _find_single_values(column) & self.possible(verdicts)
            texts = {i: text for i in np.flatnonzero(single).tolist() if (text := _decode(column.low[i])) is not None}
            if not texts:
                continue
            values = make_array(list(texts.values()), pa.string())
            known = DictionaryValues(np.array(list(texts), np.intp), np.arange(1, len(texts) + 1), values, {})
            found = self._evaluate_part(part, column, known)
            if found is not None:
                denied, certain = found
                reason = f"the only value of '{part.column}' does not match"
                evaluation.by_values.append(_ByValues(part, denied, certain, reason, "range"))
                verdicts = self._evaluate(evaluation)
        return verdicts

    def _read_dictionaries(
        self, evaluation: _Evaluation, verdicts: NDArray[np.int32], read: DictionaryReader
    ) -> NDArray[np.int32]:
        """Return the verdicts once dictionaries are read, as far as they may change them; part by part."""
        usable = []
        for part in self._get_parts():
            column = evaluation.columns[part.column]
            shape = ColumnShape.ELEMENTS if part.is_of_elements else ColumnShape.VALUES
            if column is not None and column.holds is shape:
                usable.append((part, column))
        for number, (part, column) in enumerate(usable):
            undecided = self.possible(verdicts)
            if not undecided.any():
                break
            # A dictionary that changes nothing, even if all that are still to be read deny their parts, is not read.
            everywhere = np.ones(evaluation.count, np.bool_)
            assumed = {place: everywhere for later, _ in usable[number:] for place in later.places}
            undecided &= ~self.possible(self._evaluate(evaluation, assumed))
            if isinstance(part.node, Compare) and column.column_type.kind in _BOUNDED:
                # A bound is a value: what bounds leave has one that matches. Of floats, NaN is beyond both.
                is_known = column.column_type.kind is not Kind.FLOAT or part.node.operator in ("<", "<=")
                undecided &= ~(column.low_known & column.high_known & is_known)
            # A value that a filter does not deny is most likely there: a dictionary hardly ever denies it, either. The
            # more values are asked for, the likelier it is that a filter has only not denied one that is not there.
            leaves = tree.leaves(part.node)
            is_probed = all(id(leaf) in evaluation.denied_by_filters for leaf in leaves)
            likely = undecided & column.filtered if is_probed else np.zeros_like(undecided)
            share = min(1.0, max(_LEAST_SHARE, _USUAL_FPP * sum(len(leaf.literals) for leaf in leaves)))
            found = self._ask_dictionaries(part, evaluation, np.flatnonzero(undecided & ~likely), read, 1.0)
            found |= self._ask_dictionaries(part, evaluation, np.flatnonzero(likely), read, share)
            denied, certain = found
            reason = f"'{part.column}' has no such value in its dictionary"
            evaluation.by_values.append(_ByValues(part, denied, certain, reason, "dictionary"))
            if denied.any():
                verdicts = self._evaluate(evaluation)
        return self._add_doubts(evaluation, self._find_certain(evaluation, verdicts))

    def _ask_dictionaries(
        self,
        part: PredicatePart,
        evaluation: _Evaluation,
        positions: NDArray[np.intp],
        read: DictionaryReader,
        share: float,
    ) -> NDArray[np.bool_]:
        """Return where dictionaries deny a part, and where they make it certain, as two rows.

        The first ones show how many of them decide anything: further ones are read as far as that is worth their bytes.

        Parameters
        ----------
        share : of the bytes of a row group that the first ones may cost, at most.
        """
        column = evaluation.columns[part.column]
        assert column is not None
        found = np.zeros((2, evaluation.count), np.bool_)
        start, sample = 0, _SAMPLE
        while start < len(positions):
            some = positions[start : start + sample]
            start, sample = start + len(some), 4 * sample
            dictionaries = read(part.column, some, share)
            if dictionaries is None:
                continue
            for position in some.tolist() if dictionaries.problems else ():
                problem = dictionaries.problems.get(position)
                if problem is not None:
                    reason = Reason(f"its dictionary cannot be used: {problem}", column=part.column)
                    evaluation.without_dictionaries.setdefault(position, set()).add(reason)
            decided = self._evaluate_part(part, column, dictionaries)
            if decided is None:
                break
            found |= decided
            share = max(_LEAST_SHARE, np.count_nonzero(decided.any(axis=0)) / max(len(dictionaries.positions), 1))
        return found

    def _evaluate_part(
        self, part: PredicatePart, column: PruningStatisticsArray, known: DictionaryValues
    ) -> NDArray[np.bool_] | None:
        """Return where values deny a part, and where they make it certain, as two rows; None if it is an error."""
        try:
            verdicts = evaluate_part(part, known, self._timezone, self._probes)
        except PredicateError:  # rows are evaluated, which is an error where it should be
            return None
        found, at = np.zeros((2, len(column)), np.bool_), known.positions
        has_no_nulls = column.has_nulls[at] == NO
        found[0, at] = ~verdicts.any_value & (not verdicts.null or has_no_nulls)
        if not part.is_of_elements:
            found[1, at] = verdicts.all_values & (verdicts.null or has_no_nulls)
        return found

    def _add_doubts(self, evaluation: _Evaluation, verdicts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the verdicts, with doubts where dictionaries cannot be used and rows can match."""
        numbers = verdicts.copy()
        for position, reasons in evaluation.without_dictionaries.items():
            verdict = self.verdicts[int(verdicts[position])]
            if verdict.possible:
                numbers[position] = self._number_verdict(replace(verdict, doubts=(*verdict.doubts, *sorted(reasons))))
        return numbers

    def _find_certain(self, evaluation: _Evaluation, verdicts: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the verdicts, with those of containers all of whose rows match."""
        is_known = any(known.certain.any() for known in evaluation.by_values)
        if not is_known and not any(isinstance(leaf, IsNull | IsNotNull) for leaf in tree.leaves(self._evidence)):
            return verdicts
        certain: dict[int, NDArray[np.bool_]] = {}
        for known in evaluation.by_values:
            for place in known.part.places:
                certain[place] = certain[place] | known.certain if place in certain else known.certain
        results: list[NDArray[np.bool_]] = []
        for place, item in enumerate(self._postfix):
            if isinstance(item, tuple):
                connective, count = item
                join = np.logical_or if issubclass(connective, Or) else np.logical_and
                results[-count:] = [join.reduce(results[-count:])]
            else:
                assert isinstance(item, Leaf)
                results.append(self._is_certain_by_nulls(item, evaluation))
            if place in certain:
                results[-1] = results[-1] | certain[place]
        numbers = verdicts.copy()
        for number in np.unique(verdicts[results[0]]).tolist():
            verdict = self.verdicts[number]
            if verdict.possible:
                numbers[results[0] & (verdicts == number)] = self._number_verdict(replace(verdict, certain=True))
        return numbers

    def _is_certain_by_nulls(self, leaf: Leaf, evaluation: _Evaluation) -> NDArray[np.bool_]:
        column = evaluation.columns[leaf.column]
        if column is not None and column.holds is ColumnShape.VALUES:
            if isinstance(leaf, IsNull):
                return column.has_values == NO
            if isinstance(leaf, IsNotNull):
                return column.has_nulls == NO
        return np.zeros(evaluation.count, np.bool_)

    def _combine_children(self, connective: type[Connective], children: list[NDArray[np.int32]]) -> NDArray[np.int32]:
        """Combine the verdicts of a connective's children; each combination that occurs is computed once."""
        base = len(self.verdicts)
        first, codes = _find_distinct(children[0].astype(np.int64), base)
        # A combination is the number of the last child's verdict, and the combination of those before it. As tuples
        # of their numbers, which grow with each child, they would take time by the square of the children.
        combinations = [[(-1, number) for number in first.tolist()]]
        for numbers in children[1:]:
            occurring, codes = _find_distinct(codes * base + numbers, len(combinations[-1]) * base)
            combinations.append([divmod(code, base) for code in occurring.tolist()])
        verdicts = []
        for code in range(len(combinations[-1])):
            combined = []
            for level in reversed(combinations):
                code, number = level[code]
                combined.append(self.verdicts[number])
            verdicts.append(self._number_verdict(_combine(connective, combined[::-1])))
        return np.array(verdicts, np.int32)[codes]

    def _evaluate_leaf(self, leaf: Leaf, evaluation: _Evaluation) -> NDArray[np.int32]:
        """Return the verdict number of each container for one leaf."""
        name, column = f"'{leaf.column}'", evaluation.columns[leaf.column]
        verdicts = np.zeros(evaluation.count, np.int32)
        if column is None:
            self._doubt_all(verdicts, Reason("the file has no such column", MISSING, leaf.column))
            return verdicts
        if isinstance(leaf, IsNull):
            self._rule_out(verdicts, column.has_nulls == NO, f"{name} is null in no row", "nulls")
            return verdicts
        if isinstance(leaf, HasType | HasOtherType):
            if not is_of_kind(column.column_type, leaf.kind):
                self._doubt_all(verdicts, Reason(f"it is not {COLUMN_KINDS[leaf.kind]}", column=leaf.column))
            elif isinstance(leaf, HasOtherType):
                self._rule_out(verdicts, column.complete, f"{name} is {column.column_type}", "type")
            return verdicts
        if isinstance(leaf, NotContains | MapLookup | VariantLookup) or (
            isinstance(leaf, NotIn | CallNotIn) and not leaf.values
        ):
            return verdicts
        if isinstance(leaf, IsNotNull) and column.holds is not ColumnShape.VALUES:
            return verdicts  # an empty list is not null, nor is a struct with only null fields
        if isinstance(leaf, CallIn | CallNotIn | PatternLeaf) and column.holds is ColumnShape.PARTS:
            return verdicts
        if isinstance(leaf, Contains) and column.holds is not ColumnShape.ELEMENTS:
            problem = "the column is not a list of single values in the file"
            self._doubt_all(verdicts, Reason(problem, column=leaf.column))
            return verdicts
        if isinstance(leaf, CallIn) and leaf.function == "string" and column.column_type.kind is Kind.INTEGER:
            self._evaluate_equal(leaf, column, verdicts, evaluation)
        elif isinstance(leaf, IsNotNull | CallIn | CallNotIn):
            pass  # statistics are of the values, not of a function's results; of null that is null
        elif isinstance(leaf, PatternLeaf):
            self._evaluate_pattern(leaf, column, verdicts)
        elif isinstance(leaf, Compare):
            self._evaluate_compare(leaf, column, verdicts)
        elif isinstance(leaf, NotEqual | NotIn):
            self._evaluate_not_equal(leaf, column, verdicts)
        elif isinstance(leaf, Equal | In | Contains):
            self._evaluate_equal(leaf, column, verdicts, evaluation)
        else:  # a new kind of leaf must not be taken for an equality
            self._doubt_all(verdicts, Reason(f"statistics cannot decide {leaf}", column=leaf.column))
            return verdicts
        nothing = "has no element in any row" if isinstance(leaf, Contains) else "is null in every row"
        self._rule_out(verdicts, column.has_values == NO, f"{name} {nothing}", "nulls")
        return verdicts

    def _doubt_all(self, verdicts: NDArray[np.int32], doubt: Reason) -> None:
        verdicts[:] = self._number_verdict(Verdict(True, doubts=(doubt,)))

    def _rule_out(self, verdicts: NDArray[np.int32], where: NDArray[np.bool_] | slice, reason: str, *by: str) -> None:
        if isinstance(where, slice) or where.any():
            verdicts[where] = self._number_verdict(Verdict(False, frozenset(by), reason))

    def _evaluate_equal(
        self, leaf: Leaf, column: PruningStatisticsArray, verdicts: NDArray[np.int32], evaluation: _Evaluation
    ) -> None:
        name = f"'{leaf.column}'"
        literals = self._get_values(leaf, column)
        if literals.unknown is not None:
            self._doubt_all(verdicts, Reason(literals.unknown, column=leaf.column))
            return
        if not literals.values:
            reason = f"{name} is {column.column_type}, which has no such value"
            self._rule_out(verdicts, column.complete, reason, "type")
            return
        if id(leaf) not in evaluation.spans:
            evaluation.spans[id(leaf)] = _find_spans(column, literals)
        first, last = evaluation.spans[id(leaf)]
        doubts: dict[int, tuple[Reason, ...]] = {}
        for i, doubt in enumerate(column.doubts):
            if doubt:
                doubts[i] = (Reason(doubt, column=leaf.column),)
        for i, problem in evaluation.problems.get(id(leaf), {}).items():
            doubts[i] = (*doubts.get(i, ()), Reason(problem, column=leaf.column))
        for i, messages in doubts.items():
            verdicts[i] = self._number_verdict(Verdict(True, doubts=messages))
        denied = evaluation.denied_by_filters.get(id(leaf))
        if denied is not None and denied.any():
            reason = f"{name} is absent by its filter"
            some = last - first < len(literals.values)
            self._rule_out(verdicts, denied & ~some, reason, "filter")
            self._rule_out(verdicts, denied & some, reason, "filter", "range")
        self._rule_out(verdicts, first >= last, f"{name} lies outside of its range", "range")

    def _make_probes(self, evaluation: _Evaluation, verdicts: NDArray[np.int32]) -> list[tuple[Leaf, FilterProbe]]:
        """Make the filter probes for containers that are possible without filters."""
        probes: list[tuple[Leaf, FilterProbe]] = []
        undecided = self.possible(verdicts)
        for leaf in tree.leaves(self._evidence):
            span, column = evaluation.spans.get(id(leaf)), evaluation.columns[leaf.column]
            if span is None or column is None or not column.column_type.hashable:
                continue
            first, last = span
            probed = np.flatnonzero(undecided & column.filtered & (column.has_values != NO) & (first < last))
            if not len(probed):
                continue
            literals = self._get_values(leaf, column)
            base = len(literals.values) + 1
            spans = first[probed] * base + last[probed]
            for code in np.unique(spans).tolist() if (spans != spans[0]).any() else [int(spans[0])]:
                begin, end = literals.first_hash[code // base], literals.first_hash[code % base]
                positions = probed[spans == code]
                probes.append((leaf, FilterProbe(leaf.column, positions, literals.hashes[begin:end])))
        return probes

    def _evaluate_compare(self, leaf: Compare, column: PruningStatisticsArray, verdicts: NDArray[np.int32]) -> None:
        name, column_type = f"'{leaf.column}'", column.column_type
        if leaf.value is None:
            self._rule_out(verdicts, slice(None), f"a comparison of {name} with NULL is never true", "type")
            return
        if column_type.kind is Kind.FLOAT and isinstance(leaf.value, float) and math.isnan(leaf.value):
            return
        applies = np.ones(len(column), np.bool_)
        if column_type.kind is Kind.FLOAT and leaf.operator in (">", ">="):
            applies = _has_no_nans(column)  # NaN is above all numbers, and bounds do not include it
            if not applies.any():
                return
        limits = self._limits.get((id(leaf), column_type))
        if limits is None:
            limits = make_bounds(leaf.value, column_type, self._timezone)
            self._limits[id(leaf), column_type] = limits
        if limits.unknown is not None:
            self._doubt_all(verdicts, Reason(limits.unknown, column=leaf.column))
            return
        limit = select_bound(leaf.operator, limits.at_most, limits.at_least)
        if limit is None:
            if not holds_for_all(leaf.operator):
                reason = f"{name} is {column_type}, which has no such value"
                self._rule_out(verdicts, column.complete, reason, "type")
            return
        operator = leaf.operator
        if operator in ("<", ">") and isinstance(limit, float) and (column_type.length != 8 or limit != leaf.value):
            # Engines that widen the column compare with the literal itself, not with the nearest value of the column's
            # type; and no double equals a Decimal beyond the range of doubles.
            operator += "="
        beyond = _find_beyond(column, operator, limit) & applies
        self._rule_out(verdicts, beyond, f"{name} lies outside of its range", "range")

    def _evaluate_not_equal(
        self, leaf: NotEqual | NotIn, column: PruningStatisticsArray, verdicts: NDArray[np.int32]
    ) -> None:
        name = f"'{leaf.column}'"
        if None in leaf.literals:
            self._rule_out(verdicts, slice(None), f"a comparison of {name} with NULL is never true", "type")
            return
        is_single = _find_single_values(column)
        if column.column_type.kind is Kind.FLOAT:  # engines that widen the column find another value than the nearest
            is_single &= _has_no_nans(column) & (column.column_type.length == 8)
        constant = np.flatnonzero(is_single)
        if not len(constant):
            return
        literals = self._get_values(leaf, column)
        if literals.unknown is None and literals.values:
            position = np.searchsorted(literals.sorted, column.low[constant], "left")
            same = (position < len(literals.values)) & (
                literals.sorted[np.minimum(position, len(literals.values) - 1)] == column.low[constant]
            )
            other = np.zeros(len(verdicts), np.bool_)
            other[constant] = same
            self._rule_out(verdicts, other, f"{name} has no other value", "range")

    def _evaluate_pattern(self, leaf: PatternLeaf, column: PruningStatisticsArray, verdicts: NDArray[np.int32]) -> None:
        """Rule out by what the texts that match begin with; of other patterns bounds say nothing."""
        if leaf.function or not isinstance(leaf, Like | NotLike) or column.column_type.kind is not Kind.STRING:
            return
        prefix = find_prefix(leaf.pattern)
        first = prefix.text.encode("utf-8", "surrogatepass")
        if isinstance(leaf, Like):
            outside = _find_beyond(column, ">=", first)
            beyond = _find_successor(first)
            if beyond is not None:
                outside |= _find_beyond(column, "<", beyond)
            self._rule_out(verdicts, outside, f"'{leaf.column}' lies outside of its range", "range")
        elif prefix.is_all:
            all_match = np.zeros(len(verdicts), np.bool_)
            for i in np.flatnonzero(column.low_known & column.high_known).tolist():
                all_match[i] = column.low[i].startswith(first) and column.high[i].startswith(first)
            self._rule_out(verdicts, all_match, f"all values of '{leaf.column}' match the pattern", "range")

    def _get_values(self, leaf: Leaf, column: PruningStatisticsArray) -> _StatisticsValues:
        column_type = column.column_type
        key = id(leaf), column_type, column.hash_values
        found = self._values.get(key)
        if found is None:
            literals = _find_whole_numbers(leaf) if isinstance(leaf, CallIn) else leaf.literals
            coerced = coerce(literals, column_type, self._timezone, with_texts=True)
            if coerced.reasons:
                found = _StatisticsValues([], _NO_HASHES, _NO_HASHES, coerced.unknown, _NO_HASHES)
            else:
                values = sorted(set(coerced.values))
                keys = (_NO_HASHES, _NO_HASHES)
                if column_type.hashable:
                    keys = column.hash_values(values, column_type)
                found = _StatisticsValues(values, *keys, None, make_domain_array(values, column_type))
            found = self._values.setdefault(key, found)  # threads that arrive here together all use the same values
        return found


def _find_distinct(codes: NDArray[np.int64], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct codes, ascending, and the position of each code among them; codes are below `end`."""
    if end > _MANY_CODES:
        return np.unique(codes, return_inverse=True)
    positions = np.bincount(codes, minlength=end)
    occurring = np.flatnonzero(positions)
    positions[occurring] = np.arange(len(occurring))
    return occurring, positions[codes]


def _find_beyond(column: PruningStatisticsArray, operator: str, limit: Domain) -> NDArray[np.bool_]:
    """Return the containers in which no value from `low` to `high` satisfies the comparison with `limit`."""
    known_bounds = column.low_known if operator in ("<", "<=") else column.high_known
    bound = (column.low if operator in ("<", "<=") else column.high)[known_bounds]
    reaches = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[operator]
    beyond = np.zeros(len(column), np.bool_)
    # An object array: NumPy's own bytes type would drop trailing zeros of the limit.
    beyond[known_bounds] = ~reaches(bound, make_domain_array([limit], column.column_type)).astype(np.bool_)
    if column.cut is not None and operator in (">", ">=") and isinstance(limit, bytes):
        for i in np.flatnonzero(beyond & column.cut).tolist():
            beyond[i] = not limit.startswith(column.high[i])
    return beyond


def _has_no_nans(column: PruningStatisticsArray) -> NDArray[np.bool_]:
    return np.zeros(len(column), np.bool_) if column.has_nans is None else column.has_nans == NO


def _find_whole_numbers(leaf: CallIn) -> tuple[int, ...]:
    """Return the whole numbers that are written as one of the texts that a leaf wants."""
    return tuple(int(text) for text in leaf.values if isinstance(text, str) and _WHOLE_NUMBER.fullmatch(text))


def _find_single_values(column: PruningStatisticsArray) -> NDArray[np.bool_]:
    """Return the containers whose bounds are one value, which all that is not null equals, but for NaN."""
    single = column.low_known & column.high_known
    if column.cut is not None:  # values need not be what they begin with
        single &= ~column.cut
    single[single] = column.low[single] == column.high[single]
    return single


def _decode(stored: bytes) -> str | None:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def _find_successor(prefix: bytes) -> bytes | None:
    """Return the least bytes above all that begin with a prefix; None if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _find_spans(
    column: PruningStatisticsArray, literals: _StatisticsValues
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return for each container the range of literals within its bounds: literals.values[first:last]."""
    count = len(column.has_values)
    first, last = np.zeros(count, np.intp), np.full(count, len(literals.values), np.intp)
    first[column.low_known] = np.searchsorted(literals.sorted, column.low[column.low_known], "left")
    last[column.high_known] = np.searchsorted(literals.sorted, column.high[column.high_known], "right")
    if column.cut is not None:
        _extend_spans(column.cut & column.high_known, column.high, literals.values, last)
    return first, last


def _extend_spans(is_cut: NDArray[np.bool_], highs: AnyArray, values: list[Any], last: NDArray[np.intp]) -> None:
    """Let the spans of containers whose upper bound may be cut go on to the last literal that begins with it."""
    count = len(values)
    for i in np.flatnonzero(is_cut & (last < count)).tolist():
        high, end = highs[i], int(last[i])
        if values[end].startswith(high):

            def differs(value: bytes, high: bytes = high) -> bool:
                return not value.startswith(high)

            # Literals that begin with the bound follow one another: the first one that does not ends them.
            last[i] = bisect_left(values, True, end, key=differs)


def _combine(connective: type[Connective], verdicts: list[Verdict]) -> Verdict:
    doubts = tuple(dict.fromkeys(doubt for verdict in verdicts for doubt in verdict.doubts))
    impossible = [verdict for verdict in verdicts if not verdict.possible]
    if issubclass(connective, Or):
        if len(impossible) < len(verdicts):
            return Verdict(True, doubts=doubts)
        by = frozenset().union(*(verdict.by for verdict in impossible))
        return Verdict(False, by, "; ".join(dict.fromkeys(verdict.reason for verdict in impossible)))
    return impossible[0] if impossible else Verdict(True, doubts=doubts)
