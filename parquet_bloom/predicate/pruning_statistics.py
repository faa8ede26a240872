"""Statistics for pruning: of a column in one row group, or in many row groups or pages at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..hashing.coerce import hash_all
from ..hashing.column_type import ColumnType, Domain, Kind, make_domain_array

NO, YES, UNKNOWN = 0, 1, -1


class CutBound(bytes):
    """An upper bound that is, perhaps, only the beginning of a value, not rounded up: what begins with it is within.

    Compared with a value it is larger if that begins with it, too; and it equals none, as it need not be a value. Two
    of them have no order: arrays have plain bytes instead, and `PruningStatisticsArray.cut`.
    """

    __slots__ = ()

    def __gt__(self, other: bytes) -> bool:
        return other[: len(self)] <= bytes(self)

    __ge__ = __gt__

    def __lt__(self, other: bytes) -> bool:
        return other[: len(self)] > bytes(self)

    __le__ = __lt__

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = bytes.__hash__


KeyHasher = Callable[[Sequence[Domain], ColumnType], tuple[NDArray[np.uint64], NDArray[np.intp]]]
"""Computes the filter keys of values: the hashes of all their stored forms, as `coerce.hash_all` does."""


class ColumnShape(Enum):
    """The relation of the values of a leaf to the column that its name refers to."""

    VALUES = "values"  # one per row
    ELEMENTS = "elements"  # of a list, any number per row
    PARTS = "parts"  # of another nested value, such as the only leaf of a struct or of a list of lists


@dataclass(frozen=True)
class PruningStatistics:
    """Statistics of one column in one row group.

    Attributes
    ----------
    column_type : how its values are stored.
    has_values : whether any value is not null; None when unknown.
    has_nulls, has_nans : whether any value is null, or NaN; None when unknown.
    low, high : bounds of its values (domain values, inclusive); None when unknown.
    filtered : whether there is a Bloom filter to probe.
    doubt : why existing statistics or filters cannot be used; None if they can.
    """

    column_type: ColumnType
    has_values: bool | None = None
    low: Domain | None = None
    high: Domain | None = None
    filtered: bool = False
    doubt: str | None = None
    has_nulls: bool | None = None
    has_nans: bool | None = None


@dataclass(frozen=True, eq=False, slots=True)
class PruningStatisticsArray:
    """Statistics of one column, of one type, in many containers (row groups or pages); arrays have one entry for each.

    Attributes
    ----------
    column_type : how its values are stored.
    has_values, has_nulls : int8: YES, NO or UNKNOWN.
    low, high : bounds (domain values), without meaning where `low_known`, `high_known` (bool) are False.
    filtered : bool, whether there is a Bloom filter to probe.
    doubts : why statistics or filters cannot be used, or None, for each container; empty if all can be used.
    holds : how these values relate to the column that the predicate names.
    hash_values : computes the keys of values in the filters; the same function object for all filters of one kind.
    cut : bool, whether `high` is perhaps the beginning of a value (see `CutBound`); None if no entry is.
    has_nans : int8: NO or UNKNOWN, of floats; None if nothing is known.
    incomplete : bool, whether there may be values of other types elsewhere, of which the type says nothing either; None
        if there are none anywhere.
    """

    column_type: ColumnType
    has_values: NDArray[np.int8]
    has_nulls: NDArray[np.int8]
    low: NDArray[np.generic]
    low_known: NDArray[np.bool_]
    high: NDArray[np.generic]
    high_known: NDArray[np.bool_]
    filtered: NDArray[np.bool_]
    doubts: tuple[str | None, ...] = ()
    holds: ColumnShape = ColumnShape.VALUES
    hash_values: KeyHasher = hash_all
    cut: NDArray[np.bool_] | None = None
    has_nans: NDArray[np.int8] | None = None
    incomplete: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.has_values)

    @classmethod
    def of(
        cls, column_type: ColumnType, statistics: Sequence[PruningStatistics], hash_values: KeyHasher = hash_all
    ) -> PruningStatisticsArray:
        """Make an array from the statistics of single containers."""
        low, high = [entry.low for entry in statistics], [entry.high for entry in statistics]
        doubts = tuple(entry.doubt for entry in statistics)
        highs, cut = split_cut(high, column_type)
        nans = [_to_ternary(entry.has_nans) for entry in statistics]
        return cls(
            column_type,
            np.array([_to_ternary(entry.has_values) for entry in statistics], np.int8),
            np.array([_to_ternary(entry.has_nulls) for entry in statistics], np.int8),
            make_domain_array(low, column_type),
            np.array([value is not None for value in low], np.bool_),
            highs,
            np.array([value is not None for value in high], np.bool_),
            np.array([entry.filtered for entry in statistics], np.bool_),
            doubts if any(doubts) else (),
            hash_values=hash_values,
            cut=cut,
            has_nans=np.array(nans, np.int8) if NO in nans else None,
        )

    @classmethod
    def joined(cls, parts: Sequence[PruningStatisticsArray]) -> PruningStatisticsArray:
        """Concatenate arrays of one column type whose filters are of one kind."""
        if len(parts) == 1:
            return parts[0]
        doubts: list[str | None] = []
        if any(part.doubts for part in parts):
            for part in parts:
                doubts += part.doubts or (None,) * len(part)
        cut = None
        if any(part.cut is not None for part in parts):
            cut = np.concatenate([np.zeros(len(part), np.bool_) if part.cut is None else part.cut for part in parts])
        incomplete = None
        if any(part.incomplete is not None for part in parts):
            incomplete = np.concatenate(
                [np.zeros(len(part), np.bool_) if part.incomplete is None else part.incomplete for part in parts]
            )
        has_nans = None
        if any(part.has_nans is not None for part in parts):
            has_nans = np.full(sum(map(len, parts)), UNKNOWN, np.int8)
            for part, end in zip(parts, np.cumsum([*map(len, parts)]).tolist(), strict=True):
                if part.has_nans is not None:
                    has_nans[end - len(part) : end] = part.has_nans
        return cls(
            parts[0].column_type,
            np.concatenate([part.has_values for part in parts]),
            np.concatenate([part.has_nulls for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.low_known for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.high_known for part in parts]),
            np.concatenate([part.filtered for part in parts]),
            tuple(doubts),
            hash_values=parts[0].hash_values,
            cut=cut,
            has_nans=has_nans,
            incomplete=incomplete,
        )

    def part(self, start: int, stop: int) -> PruningStatisticsArray:
        """Return the containers from `start` to `stop`, without copying them."""
        if start == 0 and stop == len(self):
            return self
        return PruningStatisticsArray(
            self.column_type,
            self.has_values[start:stop],
            self.has_nulls[start:stop],
            self.low[start:stop],
            self.low_known[start:stop],
            self.high[start:stop],
            self.high_known[start:stop],
            self.filtered[start:stop],
            self.doubts[start:stop],
            self.holds,
            self.hash_values,
            None if self.cut is None else self.cut[start:stop],
            None if self.has_nans is None else self.has_nans[start:stop],
            None if self.incomplete is None else self.incomplete[start:stop],
        )

    def at(self, positions: NDArray[np.intp]) -> PruningStatisticsArray:
        """Select containers by their positions, in any order and any number of times."""
        doubts = tuple(self.doubts[i] for i in positions.tolist()) if self.doubts else ()
        return PruningStatisticsArray(
            self.column_type,
            self.has_values[positions],
            self.has_nulls[positions],
            self.low[positions],
            self.low_known[positions],
            self.high[positions],
            self.high_known[positions],
            self.filtered[positions],
            doubts,
            self.holds,
            self.hash_values,
            None if self.cut is None else self.cut[positions],
            None if self.has_nans is None else self.has_nans[positions],
            None if self.incomplete is None else self.incomplete[positions],
        )

    @property
    def complete(self) -> NDArray[np.bool_] | slice:
        """Where all values are of the type."""
        return slice(None) if self.incomplete is None else ~self.incomplete

    def holding(self, shape: ColumnShape) -> PruningStatisticsArray:
        """Return these statistics with another column shape."""
        return replace(self, holds=shape)


def split_cut(
    high: Sequence[Domain | None], column_type: ColumnType
) -> tuple[NDArray[np.generic], NDArray[np.bool_] | None]:
    """Return upper bounds as `make_domain_array` does, and which of them are perhaps cut; None if none is."""
    cut = None
    if column_type.kind in (Kind.STRING, Kind.BYTES) and any(type(bound) is CutBound for bound in high):
        cut = np.array([type(bound) is CutBound for bound in high], np.bool_)
        high = [None if bound is None else bytes(bound) for bound in high]  # type: ignore[arg-type]
    return make_domain_array(high, column_type), cut


def _to_ternary(value: bool | None) -> int:
    return UNKNOWN if value is None else int(value)
