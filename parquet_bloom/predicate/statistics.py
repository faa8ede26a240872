"""What is known of columns where rows may match: of one row group, or of many row groups or pages at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hashing.coerce_many import hash_all
from ..hashing.column_type import ColumnType, Domain, Kind

NO, YES, UNKNOWN = 0, 1, -1

KeyHasher = Callable[[Sequence[Domain], ColumnType], tuple[NDArray[np.uint64], NDArray[np.intp]]]
"""How filters take values as keys: the hashes of all forms of some values, as `literal_lists.hash_all` gives them."""


class ColumnShape(Enum):
    """What a column's values are of what its name means."""

    VALUES = "values"  # one a row
    ELEMENTS = "elements"  # of a list, any number a row
    PARTS = "parts"  # of something else, such as the only leaf of a struct or of lists in lists


@dataclass(frozen=True)
class PruningStatistics:
    """What is known of one column in one row group.

    Attributes
    ----------
    column_type : how its values are stored there.
    has_values : whether any value is not null; None when unknown.
    has_nulls : whether any value is null; None when unknown.
    low, high : bounds of its values (domain values, inclusive); None when unknown.
    filtered : whether there is a filter to ask.
    doubt : why evidence that should be there cannot be used; None when all is well.
    """

    column_type: ColumnType
    has_values: bool | None = None
    low: Domain | None = None
    high: Domain | None = None
    filtered: bool = False
    doubt: str | None = None
    has_nulls: bool | None = None


@dataclass(frozen=True, eq=False, slots=True)
class PruningStatisticsArray:
    """The same of one column in many places, of one type in all of them; each array has an entry a place.

    Attributes
    ----------
    column_type : how its values are stored.
    has_values, has_nulls : int8: YES, NO or UNKNOWN.
    low, high : bounds (domain values), without meaning where `low_known`, `high_known` (bool) are False.
    filtered : bool, whether there is a filter to ask.
    doubts : why evidence cannot be used there, or None; an empty tuple where that is nowhere so.
    holds : what these values are of the column that the predicate names.
    keying : how the filters take values as keys; a function, the same one for all filters of one kind.
    """

    column_type: ColumnType
    has_values: NDArray[np.int8]
    has_nulls: NDArray[np.int8]
    low: NDArray[Any]
    low_known: NDArray[np.bool_]
    high: NDArray[Any]
    high_known: NDArray[np.bool_]
    filtered: NDArray[np.bool_]
    doubts: tuple[str | None, ...] = ()
    holds: ColumnShape = ColumnShape.VALUES
    keying: KeyHasher = hash_all

    def __len__(self) -> int:
        return len(self.has_values)

    @classmethod
    def of(
        cls, column_type: ColumnType, places: Sequence[PruningStatistics], keying: KeyHasher = hash_all
    ) -> PruningStatisticsArray:
        """Of places that were looked at one by one."""
        low, high = [place.low for place in places], [place.high for place in places]
        doubts = tuple(place.doubt for place in places)
        return cls(
            column_type,
            np.array([_to_ternary(place.has_values) for place in places], np.int8),
            np.array([_to_ternary(place.has_nulls) for place in places], np.int8),
            make_domain_array(low, column_type),
            np.array([value is not None for value in low], np.bool_),
            make_domain_array(high, column_type),
            np.array([value is not None for value in high], np.bool_),
            np.array([place.filtered for place in places], np.bool_),
            doubts if any(doubts) else (),
            keying=keying,
        )

    @classmethod
    def joined(cls, parts: Sequence[PruningStatisticsArray]) -> PruningStatisticsArray:
        """Of the places of all parts, one behind the other; the parts are of one type, their filters of one kind."""
        if len(parts) == 1:
            return parts[0]
        doubts: list[str | None] = []
        if any(part.doubts for part in parts):
            for part in parts:
                doubts += part.doubts or (None,) * len(part)
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
            keying=parts[0].keying,
        )

    def at(self, places: NDArray[np.intp]) -> PruningStatisticsArray:
        """Of some of the places, in any order, one as often as wanted."""
        doubts = tuple(self.doubts[place] for place in places.tolist()) if self.doubts else ()
        return PruningStatisticsArray(
            self.column_type,
            self.has_values[places],
            self.has_nulls[places],
            self.low[places],
            self.low_known[places],
            self.high[places],
            self.high_known[places],
            self.filtered[places],
            doubts,
            self.holds,
            self.keying,
        )

    def holding(self, what: ColumnShape) -> PruningStatisticsArray:
        """The same, of a column whose values are something else of what its name means."""
        return self if self.holds is what else replace(self, holds=what)


def make_domain_array(values: Sequence[Domain | None], column_type: ColumnType) -> NDArray[Any]:
    """Domain values of one type as an array that keeps them exactly and compares them fast; None becomes anything."""
    if column_type.kind is Kind.FLOAT:
        return np.array([0.0 if value is None else value for value in values], np.float64)
    if column_type.physical in ("INT32", "INT64"):
        try:
            return np.array([0 if value is None else value for value in values], np.int64)
        except OverflowError:  # unsigned, and large
            pass
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _to_ternary(known: bool | None) -> int:
    return UNKNOWN if known is None else int(known)
