"""Statistics for pruning of an Iceberg table's columns, from the metrics in its manifests and its partition values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import UnsupportedTypeError
from ...hashing.column_type import ColumnType, Kind, from_arrow
from ...metadata.writer_rules import SHORTEST_CUT
from ...predicate.statistics import NO, UNKNOWN, YES, PruningStatisticsArray
from .bounds import can_decode, decode_bounds
from .columns import Field
from .manifests.entries import Manifests
from .manifests.field_map import FieldMap


@dataclass(frozen=True)
class FieldStatistics:
    """Find statistics of columns.

    Attributes
    ----------
    manifests : of the snapshot.
    order : the number of each of the snapshot's files in `manifests`.
    places : the inverse: the number in the snapshot's files of each data file in `manifests`.
    """

    manifests: Manifests
    order: NDArray[np.intp]
    places: NDArray[np.intp]

    def find(self, column: Field, partition: pa.Array | None) -> PruningStatisticsArray | None:
        """Return the statistics of a column; None if nothing is known of it.

        Parameters
        ----------
        column : of the table.
        partition : whether its value is known by an identity partition, and the value, serialized; see
            `partitions.serialize_values`. None if it is the source of no partition.
        """
        try:
            column_type = from_arrow(column.arrow_type)
        except UnsupportedTypeError:
            return None
        if not can_decode(column.iceberg_type, column_type):
            return None
        lower = self._spread(self.manifests.lower_bounds, column.field_id, pa.binary())
        upper = self._spread(self.manifests.upper_bounds, column.field_id, pa.binary())
        has_values, has_nulls = self._count_nulls(column)
        in_metadata = np.zeros(len(self.order), np.bool_)
        if partition is not None:
            known, values = partition.field(0), partition.field(1)
            lower = pc.if_else(known, values, lower)
            upper = pc.if_else(known, values, upper)
            in_metadata = known.to_numpy(zero_copy_only=False)
            null = in_metadata & values.is_null().to_numpy(zero_copy_only=False)
            has_values[in_metadata], has_nulls[in_metadata] = YES, NO
            has_values[null], has_nulls[null] = NO, YES
        result = _make_statistics(column_type, lower, upper, in_metadata, has_values, has_nulls)
        counts_known = (has_values != UNKNOWN).any() or (has_nulls != UNKNOWN).any()
        return result if counts_known or result.low_known.any() or result.high_known.any() else None

    def _spread(self, entries: FieldMap, field_id: int, value_type: pa.DataType) -> pa.Array:
        """Return what a map has for a field, an entry for each file of the snapshot."""
        rows, values = entries.select(field_id)
        positions = np.full(len(self.order), -1, np.int64)
        positions[self.places[rows]] = np.arange(len(rows))
        return (
            values.take(pa.array(positions, mask=positions < 0)) if len(rows) else pa.nulls(len(self.order), value_type)
        )

    def _count_nulls(self, column: Field) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Return whether a column has values, and nulls.

        In a struct that is null, a field is null too, which not all writers count. A file may lack the column.
        """
        count = len(self.order)
        has_values, has_nulls = np.full(count, UNKNOWN, np.int8), np.full(count, UNKNOWN, np.int8)
        nulls = _to_counts(self._spread(self.manifests.null_counts, column.field_id, pa.int64()))
        values = _to_counts(self._spread(self.manifests.value_counts, column.field_id, pa.int64()))
        if column.depth > 1:
            has_values[(nulls >= 0) & (nulls == values)] = NO
            return has_values, has_nulls
        rows = np.array(self.manifests.record_counts, np.int64)[self.order]
        known = (nulls >= 0) & (nulls <= rows) & ((values < 0) | (values == rows))
        has_nulls[known & (nulls == 0)] = NO
        has_nulls[known & (nulls > 0)] = YES
        has_values[known & (nulls < rows)] = YES
        has_values[known & (nulls == rows)] = NO
        return has_values, has_nulls


def _to_counts(counts: pa.Array) -> NDArray[np.int64]:
    result: NDArray[np.int64] = counts.fill_null(-1).to_numpy(zero_copy_only=False)
    return result


def _make_statistics(
    column_type: ColumnType,
    lower: pa.Array,
    upper: pa.Array,
    is_exact: NDArray[np.bool_],
    has_values: NDArray[np.int8],
    has_nulls: NDArray[np.int8],
) -> PruningStatisticsArray:
    """Make statistics of serialized bounds; upper ones of texts may be cut, without being rounded up, unless exact."""
    low, low_known = decode_bounds(lower, column_type)
    high, high_known = decode_bounds(upper, column_type)
    cut = None
    if column_type.physical == "BYTE_ARRAY" and column_type.kind in (Kind.STRING, Kind.BYTES):
        lengths = pc.fill_null(pc.binary_length(upper), 0).to_numpy(zero_copy_only=False)
        cut = high_known & ~is_exact & (lengths >= SHORTEST_CUT)
    both = np.flatnonzero(low_known & high_known)
    swapped = both[np.asarray(low[both] > high[both], np.bool_)]
    if cut is not None:
        swapped = np.array([i for i in swapped.tolist() if not (cut[i] and low[i].startswith(high[i]))], np.intp)
    low_known[swapped] = high_known[swapped] = False
    none: Any = np.zeros(len(low), np.bool_)
    return PruningStatisticsArray(column_type, has_values, has_nulls, low, low_known, high, high_known, none, cut=cut)
