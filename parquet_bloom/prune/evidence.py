"""What a Parquet file's footer and filters tell of one row group, as evidence for `predicate.decide`."""

from __future__ import annotations

import numpy as np

from ..errors import ParquetBloomError
from ..file.columns import find_leaves, type_of
from ..file.reader import BloomFile, ChunkFilter
from ..hashing import physical
from ..hashing.physical import ColumnType, Domain
from ..metadata.footer import Leaf, Statistics
from ..predicate.decide import Evidence


class FileEvidence:
    """Evidence of one file's row groups for some columns.

    Parameters
    ----------
    file : the file.
    columns : dotted names, as the predicate has them.
    ignore_case : whether names match whatever their case, as in Spark.

    Attributes
    ----------
    missing : the columns that the file does not have.
    doubts : why columns that it has cannot be told apart.
    """

    def __init__(self, file: BloomFile, columns: list[str], ignore_case: bool = False):
        self._file = file
        self._leaves: dict[str, Leaf | None] = {}
        self.doubts: list[str] = []
        self.missing: list[str] = []
        for name in columns:
            found = find_leaves(file.leaves, name, ignore_case)
            if not found:
                self.missing.append(name)
            if len(found) > 1:
                self.doubts.append(f"'{name}' stands for {len(found)} columns of the file")
            self._leaves[name] = found[0] if len(found) == 1 else None

    def of(self, row_group: int) -> dict[str, Evidence | None]:
        """The evidence on each column in one row group."""
        return {
            name: None if leaf is None else self._chunk_evidence(row_group, leaf) for name, leaf in self._leaves.items()
        }

    def _chunk_evidence(self, row_group: int, leaf: Leaf) -> Evidence:
        column_type = type_of(leaf)
        try:
            record = self._file.record(row_group, leaf)
        except ParquetBloomError as error:
            return Evidence(column_type, doubt=error.problem)
        statistics = self._file.footer.statistics(record)
        low, high = bounds(statistics, column_type, leaf.index in self._file.footer.type_ordered)
        has_values = self._file.footer.has_values(row_group, leaf)
        chunk = self._file.chunk(row_group, leaf)
        if chunk is None or not column_type.hashable:  # a BOOLEAN column's filter: some writers leave it empty
            return Evidence(column_type, has_values, low, high)
        return Evidence(column_type, has_values, low, high, *self._usable(chunk))

    @staticmethod
    def _usable(chunk: ChunkFilter) -> tuple[Probe | None, str | None]:
        """The filter's probe, or why there is none. The bitset is read only when it is probed."""
        if chunk.header_problem:
            return None, chunk.header_problem
        return Probe(chunk), None


class Probe:
    """Asks a filter that is read when it is first asked; one that turns out to be broken denies nothing."""

    def __init__(self, chunk: ChunkFilter):
        self._chunk = chunk

    def __call__(self, hashes: np.ndarray) -> np.ndarray:
        if self._chunk.problem:
            return np.ones(len(hashes), np.bool_)
        return self._chunk.filter.check_hashes(hashes)

    @property
    def doubt(self) -> str | None:
        """Why the filter could not be used; known once it was asked."""
        return self._chunk.problem


def bounds(statistics: Statistics, column_type: ColumnType, type_ordered: bool) -> tuple[Domain | None, Domain | None]:
    """The smallest and largest value that a column chunk can hold, as domain values; None where nothing is known.

    Statistics count only where the format says what order they are in: under a declared type order, or in the
    deprecated fields for signed numbers. NaN bounds nothing, and bounds the wrong way round are none.
    """
    low_stored, high_stored = statistics.min_value, statistics.max_value
    if not physical.ordered(column_type) or not (type_ordered or physical.legacy_ordered(column_type)):
        return None, None
    if low_stored is None and high_stored is None and physical.legacy_ordered(column_type):
        low_stored, high_stored = statistics.legacy_min, statistics.legacy_max
    low = None if low_stored is None else physical.decode(low_stored, column_type)
    high = None if high_stored is None else physical.decode(high_stored, column_type)
    if any(bound is not None and physical.is_nan(bound) for bound in (low, high)):
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    return low, high
