"""Can a predicate hold for any row of a row group? Decided from evidence alone: ranges, filters, null counts.

Every leaf is answered "possible" or "impossible", for a reason; AND is impossible when a child is, OR when all are.
Whatever cannot be known is possible: a row that matches is never lost.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..hashing import literals
from ..hashing.bounds import Place, place
from ..hashing.physical import ColumnType, Domain, Kind
from . import tree
from .ordered import boundary, holds_for_all
from .tree import Compare, Connective, IsNotNull, IsNull, Leaf, Node, NotEqual, NotIn, Or


class Probe(Protocol):
    """A column's filter, as it is asked."""

    def __call__(self, hashes: np.ndarray) -> np.ndarray:
        """Hashes (uint64) -> bool array, False where a key is certainly absent."""

    @property
    def doubt(self) -> str | None:
        """Why the filter, once asked, could not answer; None when it could."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one column in one row group.

    Attributes
    ----------
    column_type : how its values are stored there.
    has_values : whether any value is not null; None when unknown.
    has_nulls : whether any value is null; None when unknown.
    low, high : bounds of its values (domain values, inclusive); None when unknown.
    probe : asks the column's filter; None when there is none.
    doubt : why evidence that should be there cannot be used; None when all is well.
    """

    column_type: ColumnType
    has_values: bool | None = None
    low: Domain | None = None
    high: Domain | None = None
    probe: Probe | None = None
    doubt: str | None = None
    has_nulls: bool | None = None


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


@dataclass(frozen=True)
class _Values:
    """A leaf's literals as values of one column type: sorted, with the hashes of each value's stored forms."""

    values: list[Domain]
    hashes: np.ndarray
    first_hash: np.ndarray  # hashes[first_hash[i]:first_hash[i + 1]] belong to values[i]
    unknown: str | None


class Decider:
    """A predicate, ready to be asked about many row groups of many files.

    Parameters
    ----------
    node : the predicate.
    timezone : zone of literals without one where a column holds instants (see `literals.coerce`).
    """

    def __init__(self, node: Node, timezone: str = "UTC"):
        self.node = node
        self.columns = sorted(tree.columns(node))
        self._timezone = timezone
        self._values: dict[tuple[int, ColumnType], _Values] = {}
        self._places: dict[tuple[int, ColumnType], Place] = {}

    def decide(self, evidence: Mapping[str, Evidence | None]) -> Verdict:
        """Judge one row group.

        Parameters
        ----------
        evidence : one entry a column of the predicate; None for a column that the file does not have.
        """
        # Ranges first: they cost nothing, and what they rule out need not be probed for.
        verdict = self._pass(evidence, with_filters=False)
        return self._pass(evidence, with_filters=True) if verdict.possible else verdict

    def _pass(self, evidence: Mapping[str, Evidence | None], with_filters: bool) -> Verdict:
        return tree.fold(self.node, lambda leaf: self._leaf(leaf, evidence[leaf.column], with_filters), _join)

    def _leaf(self, leaf: Leaf, evidence: Evidence | None, with_filters: bool) -> Verdict:
        name = f"'{leaf.column}'"
        if evidence is None:
            return Verdict(True, doubts=(f"{name}: the file has no such column",))
        if isinstance(leaf, IsNull):
            if evidence.has_nulls is False:
                return Verdict(False, frozenset({"nulls"}), f"{name} is null in no row")
            return Verdict(True)
        if isinstance(leaf, NotIn) and not leaf.values:
            return Verdict(True)
        if evidence.has_values is False:
            return Verdict(False, frozenset({"nulls"}), f"{name} is null in every row")
        if isinstance(leaf, IsNotNull):
            return Verdict(True)
        if isinstance(leaf, Compare):
            return self._compare(leaf, evidence)
        if isinstance(leaf, NotEqual | NotIn):
            return self._differ(leaf, evidence)
        wanted = self._coerced(leaf, evidence.column_type)
        if wanted.unknown is not None:
            return Verdict(True, doubts=(f"{name}: {wanted.unknown}",))
        if not wanted.values:
            return Verdict(False, frozenset({"type"}), f"{name} is {evidence.column_type}, which has no such value")
        first, last = 0, len(wanted.values)
        if evidence.low is not None:
            first = bisect_left(wanted.values, evidence.low)
        if evidence.high is not None:
            last = bisect_right(wanted.values, evidence.high)
        if first >= last:
            return Verdict(False, frozenset({"range"}), f"{name} lies outside of its range")
        doubts: tuple[str, ...] = (f"{name}: {evidence.doubt}",) if evidence.doubt else ()
        if with_filters and evidence.probe is not None and evidence.column_type.hashable:
            hashes = wanted.hashes[wanted.first_hash[first] : wanted.first_hash[last]]
            if not evidence.probe(hashes).any():
                ruled = frozenset({"filter", "range"}) if last - first < len(wanted.values) else frozenset({"filter"})
                return Verdict(False, ruled, f"{name} is absent by its filter")
            if evidence.probe.doubt:
                doubts += (f"{name}: {evidence.probe.doubt}",)
        return Verdict(True, doubts=doubts)

    def _compare(self, leaf: Compare, evidence: Evidence) -> Verdict:
        name = f"'{leaf.column}'"
        if leaf.value is None:
            return Verdict(False, frozenset({"type"}), f"nothing compares with NULL, {name} neither")
        if evidence.column_type.kind is Kind.FLOAT and (
            leaf.operator in (">", ">=") or (isinstance(leaf.value, float) and math.isnan(leaf.value))
        ):
            return Verdict(True)  # NaN is above all numbers, and ranges leave it out
        limits = self._places.get((id(leaf), evidence.column_type))
        if limits is None:
            limits = place(leaf.value, evidence.column_type, self._timezone)
            self._places[id(leaf), evidence.column_type] = limits
        if limits.unknown is not None:
            return Verdict(True, doubts=(f"{name}: {limits.unknown}",))
        limit = boundary(leaf.operator, limits.at_most, limits.at_least)
        if limit is None:
            if holds_for_all(leaf.operator):
                return Verdict(True)
            return Verdict(False, frozenset({"type"}), f"{name} is {evidence.column_type}, which has no such value")
        operator = leaf.operator
        if operator == "<" and evidence.column_type.kind is Kind.FLOAT and evidence.column_type.length != 8:
            operator = (
                "<="  # engines that widen the column compare with the literal itself, not the nearest of its type
            )
        if not _reaches(evidence.low, evidence.high, operator, limit):
            return Verdict(False, frozenset({"range"}), f"{name} lies outside of its range")
        return Verdict(True)

    def _differ(self, leaf: NotEqual | NotIn, evidence: Evidence) -> Verdict:
        name = f"'{leaf.column}'"
        if None in leaf.literals:
            return Verdict(False, frozenset({"type"}), f"nothing differs from NULL for sure, {name} neither")
        if evidence.low is None or evidence.low != evidence.high or evidence.column_type.kind is Kind.FLOAT:
            return Verdict(True)
        wanted = self._coerced(leaf, evidence.column_type)
        if wanted.unknown is None and evidence.low in wanted.values:
            return Verdict(False, frozenset({"range"}), f"{name} has no other value")
        return Verdict(True)

    def _coerced(self, leaf: Leaf, column_type: ColumnType) -> _Values:
        key = (id(leaf), column_type)
        if key not in self._values:  # of threads that come here together, all go on with the same values
            self._values.setdefault(key, self._coerce(leaf, column_type))
        return self._values[key]

    def _coerce(self, leaf: Leaf, column_type: ColumnType) -> _Values:
        found: set[Domain] = set()
        nothing = np.empty(0, np.uint64)
        for literal in leaf.literals:
            coerced = literals.coerce(literal, column_type, self._timezone)
            if coerced.unknown is not None:
                return _Values([], nothing, np.zeros(1, np.intp), coerced.unknown)
            found.update(coerced.values)
        values = sorted(found)
        if not column_type.hashable:
            return _Values(values, nothing, np.zeros(len(values) + 1, np.intp), None)
        forms = [literals.hashes((value,), column_type) for value in values]
        first_hash = np.cumsum([0, *map(len, forms)])
        return _Values(values, np.concatenate(forms) if forms else nothing, first_hash, None)


def _reaches(low: Any, high: Any, operator: str, limit: Any) -> bool:
    """Whether a value from `low` to `high` (None: unknown) can stand in the relation to `limit`."""
    if operator == "<":
        return low is None or bool(low < limit)
    if operator == "<=":
        return low is None or bool(low <= limit)
    if operator == ">":
        return high is None or bool(high > limit)
    return high is None or bool(high >= limit)


def _join(connective: Connective, verdicts: list[Verdict]) -> Verdict:
    doubts = tuple(dict.fromkeys(doubt for verdict in verdicts for doubt in verdict.doubts))
    impossible = [verdict for verdict in verdicts if not verdict.possible]
    if isinstance(connective, Or):
        if len(impossible) < len(verdicts):
            return Verdict(True, doubts=doubts)
        by = frozenset().union(*(verdict.by for verdict in impossible))
        return Verdict(False, by, "; ".join(dict.fromkeys(verdict.reason for verdict in impossible)))
    return impossible[0] if impossible else Verdict(True, doubts=doubts)
