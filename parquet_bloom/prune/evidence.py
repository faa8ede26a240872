"""What a Parquet file's footer and filters tell of one row group, as evidence for `predicate.decide`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from ..errors import ParquetBloomError
from ..file.columns import find_leaves, type_of
from ..file.probing import probe_hashes
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
        file.read_headers(self._filters())

    def _filters(self) -> Iterator[ChunkFilter]:
        """The filters that may be asked for."""
        for row_group in self._file.row_groups:
            for leaf in self._leaves.values():
                if leaf is None or not type_of(leaf).hashable or self._file.footer.empty(row_group):
                    continue
                with suppress(ParquetBloomError):  # it has its say where the chunk is looked at
                    chunk = self._file.chunk(row_group, leaf)
                    if chunk is not None:
                        yield chunk

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
        has_nulls = self._file.footer.has_nulls(row_group, leaf)
        chunk = self._file.chunk(row_group, leaf)
        if chunk is None or not column_type.hashable:  # a BOOLEAN column's filter: some writers leave it empty
            return Evidence(column_type, has_values, low, high, has_nulls=has_nulls)
        return Evidence(column_type, has_values, low, high, *self._usable(chunk), has_nulls=has_nulls)

    @staticmethod
    def _usable(chunk: ChunkFilter) -> tuple[Probe | None, str | None]:
        """The filter's probe, or why there is none. Of the bitset nothing is read before it is probed."""
        if chunk.header_problem:
            return None, chunk.header_problem
        return Probe(chunk), None


class Probe:
    """Asks a filter for the blocks concerned, when it is asked; one that turns out to be broken denies nothing."""

    def __init__(self, chunk: ChunkFilter):
        self._chunk = chunk
        self._asked = False
        self._doubt: str | None = None

    def __call__(self, hashes: np.ndarray) -> np.ndarray:
        found, (problem,) = probe_hashes([self._chunk], hashes)
        self._asked, self._doubt = True, self._doubt or problem
        return found[0]

    @property
    def doubt(self) -> str | None:
        """Why the filter cannot be used. It is asked for some key if it was not asked yet: that shows it as well."""
        if not self._asked:
            self(np.zeros(1, np.uint64))
        return self._doubt


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
