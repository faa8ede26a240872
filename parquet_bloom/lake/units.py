"""Units of an index, which its lookups return: files, row groups of files, or zones of rows in row groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..util.arrow_values import to_numpy

FILE, ROW_GROUP, ZONE = "file", "row_group", "zone"
GRANULARITIES = (FILE, ROW_GROUP, ZONE)

DEFAULT_ZONE_ROWS = 8192
LEAST_ZONE_ROWS, MOST_ZONE_ROWS = 1, 2**31 - 1

RowRanges = tuple[tuple[int, int], ...]
"""Ranges [start, stop) of the rows of a row group, ascending, that do not touch."""


def unite_ranges(ranges: Sequence[tuple[int, int]]) -> RowRanges:
    """Return ranges in any order, which may overlap, as ascending ones that do not touch."""
    united: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(stop, united[-1][1])
        else:
            united.append((start, stop))
    return tuple(united)


class Units(NamedTuple):
    """What a unit of an index is. The units of a file are numbered from 0, in the order of its rows.

    Attributes
    ----------
    granularity : "file", "row_group" or "zone".
    zone_rows : rows of a zone; the last one of a row group may have fewer. 0 where units are not zones.
    """

    granularity: str = FILE
    zone_rows: int = 0

    @classmethod
    def parse(cls, granularity: object, zone_rows: object = None) -> Units:
        """Return a caller's choice.

        Raises
        ------
        ParquetBloomError
            There is no such granularity, or `zone_rows` are out of range, or given for another granularity.
        """
        if not isinstance(granularity, str) or granularity not in GRANULARITIES:
            names = "', '".join(GRANULARITIES[:-1])
            raise ParquetBloomError(f"granularity is '{names}' or '{GRANULARITIES[-1]}', not {granularity!r}")
        if granularity != ZONE:
            if zone_rows is not None:
                raise ParquetBloomError(f"zone_rows are of the granularity 'zone', not of {granularity!r}")
            return cls(granularity)
        zone_rows = DEFAULT_ZONE_ROWS if zone_rows is None else zone_rows
        if type(zone_rows) is not int or not LEAST_ZONE_ROWS <= zone_rows <= MOST_ZONE_ROWS:
            limits = f"from {LEAST_ZONE_ROWS} to {MOST_ZONE_ROWS:,}"
            raise ParquetBloomError(f"zone_rows must be an integer {limits}, got {zone_rows!r}")
        return cls(ZONE, zone_rows)

    def __str__(self) -> str:
        name = self.granularity.replace("_", " ")
        return f"{name}s of {self.zone_rows:,} rows" if self.zone_rows else f"{name}s"

    def count(self, row_counts: Sequence[int]) -> int:
        """Return the number of units of a file, at least 1.

        Parameters
        ----------
        row_counts : rows of each row group.
        """
        if self.granularity == FILE:
            return 1
        if self.granularity == ROW_GROUP:
            return max(1, len(row_counts))
        return max(1, sum([-(-count // self.zone_rows) for count in row_counts]))

    def count_all(self, row_counts: pa.ListArray) -> NDArray[np.int64]:
        """Return the number of units of each of many files, as `count`; units are zones."""
        zones = -(-to_numpy(row_counts.values) // self.zone_rows)
        ends = np.concatenate([[0], np.cumsum(zones)])
        offsets = to_numpy(row_counts.offsets)
        return np.maximum(1, np.diff(ends[offsets])).astype(np.int64)

    def find_first(self, row_group: int, row_counts: Sequence[int]) -> int:
        """Return the number of the first unit with rows of a row group, among those of its file."""
        if self.granularity == FILE:
            return 0
        return (
            row_group
            if self.granularity == ROW_GROUP
            else sum([-(-count // self.zone_rows) for count in row_counts[:row_group]])
        )

    def find_rows(self, units: Sequence[int], row_counts: Sequence[int]) -> dict[int, RowRanges | None] | None:
        """Return the rows that some units are.

        Parameters
        ----------
        units : numbers of the units of a file, ascending.
        row_counts : rows of each of its row groups, where units are zones.

        Returns
        -------
        {row group: ranges of its rows, None for all}; None where units are files.
        """
        if self.granularity == FILE:
            return None
        if self.granularity == ROW_GROUP:
            return dict.fromkeys(units)
        found: dict[int, list[tuple[int, int]]] = {}
        row_group = first = 0
        end = -(-row_counts[0] // self.zone_rows) if row_counts else 0
        for unit in units:
            while unit >= end and row_group + 1 < len(row_counts):
                row_group, first = row_group + 1, end
                end += -(-row_counts[row_group] // self.zone_rows)
            if unit >= end:  # the only unit of a file without rows
                continue
            start = (unit - first) * self.zone_rows
            stop = min(start + self.zone_rows, row_counts[row_group])
            found.setdefault(row_group, []).append((start, stop))
        united = {number: unite_ranges(ranges) for number, ranges in found.items()}
        return {number: None if rows == ((0, row_counts[number]),) else rows for number, rows in united.items()}
