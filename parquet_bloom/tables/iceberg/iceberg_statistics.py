"""Statistics for pruning of an Iceberg table's columns, from the metrics in its manifests and its partition values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import UnsupportedTypeError
from ...hashing.column_type import ColumnType, Kind, from_arrow
from ...metadata.writer_rules import SHORTEST_CUT
from ...predicate.pruning_statistics import NO, UNKNOWN, YES, PruningStatisticsArray
from ...predicate.variant_names import VariantName
from ...util.arrow_values import make_array
from ...util.lazy import late_module
from ..table_snapshot import TableColumn
from ..variant_bounds import FIXED_KINDS, BoundTrust, drop_swapped, make_path_statistics, split_serialized
from .known_types import stands_for_variant
from .manifests import FieldMap, Manifests

if TYPE_CHECKING:
    import pyiceberg.io.pyarrow as arrow_io
    import pyiceberg.types as types
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.types import IcebergType, NestedField
else:
    arrow_io, types = late_module("pyiceberg.io.pyarrow"), late_module("pyiceberg.types")

_Kind = Literal["value", "struct", "list", "map"]
Path = tuple[str, ...]


@dataclass(frozen=True)
class IcebergField:
    """A column, or a field of structs.

    Attributes
    ----------
    path : its name, after those of the structs that it is in.
    iceberg_type : pyiceberg's.
    """

    path: Path
    field_id: int
    iceberg_type: IcebergType
    arrow_type: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def depth(self) -> int:
        return len(self.path)


def make_arrow_schema(schema: Schema) -> pa.Schema:
    """Return a pyiceberg schema as the one that its scans give."""
    return arrow_io.schema_to_pyarrow(schema, include_field_ids=False)


def list_fields(schema: Schema, arrow_schema: pa.Schema) -> list[IcebergField]:
    """List the columns of a pyiceberg schema and the fields of structs, but not what is in Variants, lists and maps."""
    return list(_list_fields(schema.fields, list(arrow_schema), ()))


def _list_fields(
    fields: Sequence[NestedField], arrow_fields: Sequence[pa.Field], above: Path
) -> Iterator[IcebergField]:
    for column, arrow_field in zip(fields, arrow_fields, strict=True):
        path = (*above, column.name)
        yield IcebergField(path, column.field_id, column.field_type, arrow_field.type)
        if isinstance(column.field_type, types.StructType) and not stands_for_variant(column.field_type):
            yield from _list_fields(column.field_type.fields, list(arrow_field.type), path)


def make_defaults(schema: Schema, arrow_schema: pa.Schema, given: Collection[str]) -> pa.Table:
    """Return a row of the values that top-level columns of single values have in files without them.

    Parameters
    ----------
    given : columns that are taken from the metadata, which comes before defaults.
    """
    arrays = {}
    for column, arrow_field in zip(schema.fields, arrow_schema, strict=True):
        is_single = isinstance(column.field_type, types.PrimitiveType) and "." not in column.name
        if column.initial_default is not None and is_single and column.name not in given:
            arrays[column.name] = _make_value(column.initial_default, arrow_field.type)
    return pa.table(arrays)


def _make_value(value: Any, arrow_type: pa.DataType) -> pa.Array:
    """Return a value as pyiceberg has it as an array."""
    if isinstance(arrow_type, pa.BaseExtensionType):  # a UUID
        return pa.ExtensionArray.from_storage(arrow_type, make_array([value.bytes], arrow_type.storage_type))
    return make_array([value], arrow_type)


def list_defaults(fields: Sequence[NestedField], above: Path = ()) -> Iterator[str]:
    """Yield the dotted names of columns, and of their parts, that have a value in files without them."""
    for column in fields:
        path = (*above, column.name)
        if column.initial_default is not None:
            yield ".".join(path)
        yield from list_defaults(_list_parts(column.field_type), path)


def _list_parts(iceberg_type: IcebergType) -> list[NestedField]:
    """Return the fields of a struct, the element of a list, or the key and the value of a map."""
    if stands_for_variant(iceberg_type):
        return []
    if isinstance(iceberg_type, types.StructType):
        return list(iceberg_type.fields)
    if isinstance(iceberg_type, types.ListType):
        return [iceberg_type.element_field]
    return [iceberg_type.key_field, iceberg_type.value_field] if isinstance(iceberg_type, types.MapType) else []


def make_columns(schema: Schema, mapping: NameMapping | None) -> tuple[TableColumn, ...]:
    """Return how data files name the columns of a pyiceberg schema.

    Parameters
    ----------
    schema : the table's.
    mapping : the table's name mapping, for files without field ids; None if it has none.
    """
    names: dict[int, tuple[str, ...]] = {}
    pending = list(mapping or ())
    while pending:
        mapped = pending.pop()
        if mapped.field_id is not None:
            names[mapped.field_id] = (*names.get(mapped.field_id, ()), *mapped.names)
        pending.extend(mapped.fields)
    return tuple(_make_column(each, names) for each in schema.fields)


def _make_column(column: NestedField, names: Mapping[int, tuple[str, ...]]) -> TableColumn:
    kinds: dict[type, _Kind] = {types.StructType: "struct", types.ListType: "list", types.MapType: "map"}
    below = tuple(_make_column(part, names) for part in _list_parts(column.field_type))
    number = column.field_id
    kind = "value" if stands_for_variant(column.field_type) else kinds.get(type(column.field_type), "value")
    return TableColumn(column.name, kind, number, names.get(number, ()), below)


_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_LONGEST_DECIMAL = 16  # bytes
_UUID = 16
_VARIANT_TRUST = BoundTrust(FIXED_KINDS | {Kind.STRING, Kind.BYTES}, {})


def can_decode(iceberg_type: IcebergType, column_type: ColumnType) -> bool:
    """Return whether bounds of an Iceberg type bound a column's domain values.

    Bounds of geometries, for one, are corners of boxes.
    """
    known: tuple[type, ...] = (
        types.BooleanType, types.IntegerType, types.LongType, types.FloatType, types.DoubleType, types.DecimalType,
        types.DateType, types.TimeType, types.TimestampType, types.TimestamptzType, types.TimestampNanoType,
        types.TimestamptzNanoType, types.StringType, types.UUIDType, types.FixedType, types.BinaryType,
    )  # fmt: skip
    return isinstance(iceberg_type, known) and column_type.kind is not Kind.UNKNOWN


def decode_bounds(stored: pa.Array, column_type: ColumnType) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return domain values, as `make_domain_array` represents them, and which are known.

    Parameters
    ----------
    stored : serialized values (binary, or null where there is none).
    column_type : of the column as the table has it.
    """
    kind = column_type.kind
    lengths = pc.fill_null(pc.binary_length(stored), -1).to_numpy(zero_copy_only=False)
    if kind is Kind.FLOAT:
        return _decode_floats(stored, lengths, column_type.length or 8)
    if column_type.physical in ("INT32", "INT64"):
        return _decode_integers(stored, lengths, column_type)
    if kind is Kind.BOOLEAN:
        known = lengths == 1
        return _to_objects(stored, known, lambda value: value != b"\0"), known
    if kind is Kind.DECIMAL:
        known = (lengths >= 1) & (lengths <= _LONGEST_DECIMAL)
        return _to_objects(stored, known, lambda value: int.from_bytes(value, "big", signed=True)), known
    known = lengths == _UUID if kind is Kind.UUID else lengths >= 0
    return _to_objects(stored, known, None), known


def _decode_integers(
    stored: pa.Array, lengths: NDArray[np.generic], column_type: ColumnType
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    values, known = np.zeros(len(stored), np.int64), np.zeros(len(stored), np.bool_)
    width = column_type.length or 0
    whole = lengths == width
    values[whole], known[whole] = _view(stored, whole, f"<i{width}"), True
    short = lengths == 4
    if width == 8 and column_type.kind is Kind.INTEGER:
        values[short], known[short] = _view(stored, short, "<i4"), True
    elif column_type.kind is Kind.TIMESTAMP and column_type.utc is False and short.any():  # the column was a date
        day = _DAY[column_type.unit or "us"]
        days = np.zeros(len(stored), np.int64)
        days[short] = _view(stored, short, "<i4")
        fits = short & (np.abs(days) < np.iinfo(np.int64).max // day)
        values[fits], known[fits] = days[fits] * day, True
    return values, known


def _decode_floats(
    stored: pa.Array, lengths: NDArray[np.generic], width: int
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    values, known = np.zeros(len(stored), np.float64), np.zeros(len(stored), np.bool_)
    for length in (4, 8) if width == 8 else (4,):
        chosen = lengths == length
        values[chosen], known[chosen] = _view(stored, chosen, f"<f{length}"), True
    known &= ~np.isnan(values)
    return values, known


def _view(stored: pa.Array, chosen: NDArray[np.bool_], dtype: str) -> NDArray[np.generic]:
    """Return some entries, all of one length, as numbers."""
    packed = stored.take(pa.array(np.flatnonzero(chosen)))
    if not len(packed):
        return np.empty(0, dtype)
    return np.frombuffer(b"".join(packed.to_pylist()), dtype)


def _to_objects(
    stored: pa.Array, known: NDArray[np.bool_], convert: Callable[[bytes], object] | None
) -> NDArray[np.generic]:
    objects = np.empty(len(stored), object)
    values = stored.to_pylist()
    for i in np.flatnonzero(known).tolist():
        objects[i] = values[i] if convert is None else convert(values[i])
    return objects


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

    def find(self, column: IcebergField, partition: pa.Array | None) -> PruningStatisticsArray | None:
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

    def find_in_variant(self, column: IcebergField, name: VariantName) -> PruningStatisticsArray | None:
        """Return the statistics of a path of a Variant column; None if nothing is known of it."""
        maps = self.manifests.lower_bounds, self.manifests.upper_bounds
        lower, upper = (split_serialized(self._spread(each, column.field_id, pa.binary()).to_pylist()) for each in maps)
        has_values, _ = self._count_nulls(column)
        return make_path_statistics(
            name, [lower], [upper], np.where(has_values == NO, has_values, UNKNOWN), _VARIANT_TRUST
        )

    def _spread(self, entries: FieldMap, field_id: int, value_type: pa.DataType) -> pa.Array:
        """Return what a map has for a field, an entry for each file of the snapshot."""
        rows, values = entries.select(field_id)
        positions = np.full(len(self.order), -1, np.int64)
        positions[self.places[rows]] = np.arange(len(rows))
        return (
            values.take(pa.array(positions, mask=positions < 0)) if len(rows) else pa.nulls(len(self.order), value_type)
        )

    def _count_nulls(self, column: IcebergField) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
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
    drop_swapped(low, low_known, high, high_known, cut)
    no_filter = np.zeros(len(low), np.bool_)
    return PruningStatisticsArray(
        column_type, has_values, has_nulls, low, low_known, high, high_known, no_filter, cut=cut
    )
