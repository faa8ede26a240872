"""What a manifest says of the columns of a new data file, by the statistics in its footer."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import UnsupportedTypeError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import ColumnStatistics, file_statistics
from ...file.file_columns import find_leaves
from ...hashing.column_type import ColumnType, Domain, Kind, from_arrow
from ...predicate.pruning_statistics import NO, YES
from ...util.lazy import late_module
from ..table_footers import show_as_table
from ..table_snapshot import TableColumn
from .iceberg_statistics import IcebergField, can_decode

if TYPE_CHECKING:
    import pyiceberg.io.pyarrow as arrow_io
    import pyiceberg.utils.truncate as truncate
    from pyiceberg.io.pyarrow import MetricsMode
    from pyiceberg.schema import Schema
else:
    arrow_io, truncate = late_module("pyiceberg.io.pyarrow"), late_module("pyiceberg.utils.truncate")

_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_METRICS, _COUNTS, _TRUNCATED = "none", "counts", "truncate"


class FileMetrics(NamedTuple):
    """Metrics of a data file; all but the number of rows are {field id: value}.

    Attributes
    ----------
    num_rows : of the file.
    sizes : bytes of the column in the file.
    value_counts, null_counts : numbers of values, nulls included, and of nulls.
    lower, upper : bounds, serialized.
    """

    num_rows: int
    sizes: dict[int, int]
    value_counts: dict[int, int]
    null_counts: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]

    def list_maps(self) -> tuple[Mapping[int, object], ...]:
        """Return the metrics by field id, in the order of the attributes."""
        return self.sizes, self.value_counts, self.null_counts, self.lower, self.upper


def find_modes(schema: Schema, properties: Mapping[str, str]) -> dict[int, MetricsMode]:
    """Return {field id: which metrics the properties of a table have its writers keep of a column}."""
    return {number: each.mode for number, each in arrow_io.compute_statistics_plan(schema, dict(properties)).items()}


def measure_file(
    file: BloomFile, columns: tuple[TableColumn, ...], fields: Iterable[IcebergField], modes: Mapping[int, MetricsMode]
) -> FileMetrics:
    """Return the metrics of a data file.

    What is not certain, such as the bounds by a writer with known faults, is left out, as are lists and maps.

    Parameters
    ----------
    columns, fields : of the table.
    modes : see `find_modes`.

    Raises
    ------
    ParquetBloomError
        The footer is malformed, or does not say which column is which.
    """
    shown = show_as_table(file, columns)
    metrics = FileMetrics(int(shown.footer.row_groups["num_rows"].sum()), {}, {}, {}, {}, {})
    chosen = [(field, modes[field.field_id]) for field in fields if field.field_id in modes]
    statistics = file_statistics(shown, [field.name for field, _ in chosen])
    for field, mode in chosen:
        column = statistics.columns[field.name]
        leaves = find_leaves(shown.leaves, field.name)
        if column is None or len(leaves) != 1 or leaves[0].repeated or leaves[0].path != field.path:
            continue
        number = field.field_id
        records = [shown.record(row_group, column.leaf) for row_group in shown.row_groups]
        metrics.sizes[number] = sum(int(record["compressed_size"]) for record in records)
        if mode.type.value == _NO_METRICS:
            continue
        metrics.value_counts[number] = sum(int(record["num_values"]) for record in records)
        nulls = _count_nulls(shown, column, records)
        if nulls is not None:
            metrics.null_counts[number] = nulls
        if mode.type.value != _COUNTS:
            lower, upper = _find_bounds(field, column, mode.length if mode.type.value == _TRUNCATED else None)
            metrics.lower.update({} if lower is None else {number: lower})
            metrics.upper.update({} if upper is None else {number: upper})
    return metrics


def _count_nulls(file: BloomFile, column: ColumnStatistics, records: Sequence[Any]) -> int | None:
    """Return the number of nulls in a column; None if it is not known."""
    evidence, count = column.evidence, 0
    for row_group, record in enumerate(records):
        if evidence.has_values[row_group] == NO:
            count += int(record["num_values"])
        elif evidence.has_nulls[row_group] == YES:
            stored = file.footer.statistics(record).null_count
            if stored is None:
                return None
            count += stored
        elif evidence.has_nulls[row_group] != NO:
            return None
    return count


def _find_bounds(
    field: IcebergField, column: ColumnStatistics, length: int | None
) -> tuple[bytes | None, bytes | None]:
    """Return the bounds of a column's values, serialized; None for what is not known.

    Parameters
    ----------
    length : of texts and bytes, which are cut; None for any.
    """
    evidence = column.evidence
    column_type = evidence.column_type
    try:
        expected = from_arrow(field.arrow_type)
    except UnsupportedTypeError:
        return None, None
    counted = np.flatnonzero(evidence.has_values != NO)
    if not len(counted) or not can_decode(field.iceberg_type, expected) or not _is_like(column_type, expected):
        return None, None
    lower = upper = None
    if evidence.low_known[counted].all():
        lower = _cut_lower(min(evidence.low[counted].tolist()), expected, length)
    if evidence.high_known[counted].all():
        cut = [] if evidence.cut is None else evidence.high[counted[evidence.cut[counted]]].tolist()
        # What is perhaps the beginning of a value has to be cut further, and is rounded up then.
        if not cut or (length is not None and min(map(_count_characters, cut)) > length):
            upper = _cut_upper(max(evidence.high[counted].tolist()), expected, length)
    if lower is not None and upper is not None and lower > upper:  # type: ignore[operator]
        return None, None  # as where all values are NaN
    return _serialize(lower, expected, -0.0), _serialize(upper, expected, 0.0)


def _is_like(stored: ColumnType, column: ColumnType) -> bool:
    """Return whether values of a file have the meaning in its table that they have in the file."""
    if stored.physical == "INT96" or stored.kind is not column.kind:
        return False
    same = stored.unit, stored.utc, stored.scale, stored.signed
    return same == (column.unit, column.utc, column.scale, column.signed)


def _count_characters(value: bytes) -> int:
    """Return how many characters a text has at least."""
    return len(value.decode("utf-8", "ignore"))


def _cut_lower(value: Domain, column_type: ColumnType, length: int | None) -> Domain | None:
    """Return the beginning of a text or of bytes; other values as they are."""
    if column_type.kind is Kind.BYTES and isinstance(value, bytes):
        return value[:length]
    if column_type.kind is Kind.STRING and isinstance(value, bytes):
        return value.decode("utf-8", "ignore")[:length].encode()
    return value


def _cut_upper(value: Domain, column_type: ColumnType, length: int | None) -> Domain | None:
    """Return what texts or bytes with the same beginning are below; None if there is nothing."""
    if length is None or not isinstance(value, bytes):
        return value
    if column_type.kind is Kind.BYTES:
        return truncate.truncate_upper_bound_binary_string(value, length)
    if column_type.kind is Kind.STRING:
        if _count_characters(value) <= length:
            return value
        text = truncate.truncate_upper_bound_text_string(value.decode("utf-8", "ignore"), length)
        # The character after U+D7FF is none.
        return None if text is None or _SURROGATES.search(text) else text.encode()
    return value


def _serialize(value: Domain | None, column_type: ColumnType, zero: float) -> bytes | None:
    """Return a bound as manifests have it.

    Parameters
    ----------
    zero : of floats, with the sign that it has as this bound.
    """
    if value is None or isinstance(value, bytes):
        return value
    if column_type.kind is Kind.BOOLEAN:
        return b"\1" if value else b"\0"
    if isinstance(value, float):
        return struct.pack("<f" if column_type.length == 4 else "<d", value if value else zero)
    if column_type.kind is Kind.DECIMAL:
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
    return value.to_bytes(column_type.length or 8, "little", signed=True)
