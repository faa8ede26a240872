"""A Delta table at one version, as deltalake and the log describe it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import ParquetBloomError, UnsupportedTypeError
from ...hashing.column_type import ColumnType, Kind, from_arrow, make_domain_array
from ...metadata.writer_rules import SHORTEST_CUT
from ...predicate.pruning_statistics import NO, UNKNOWN, CutBound, PruningStatisticsArray, split_cut
from ...predicate.variant_names import VariantName, parse_evidence
from ...redaction import shown_redacted
from ...storage.objects.store_errors import is_panic
from ...util.messages import count
from ..table_locations import require_inside, resolve_delta_path
from ..table_snapshot import DeletedRows, TableColumn, TableFile, TableSnapshot
from ..variant_bounds import FIXED_KINDS, BoundTrust, make_path_statistics
from .delta_log import read_live_adds, require_same_files
from .delta_vectors import FEATURE, DeletionVector, UndeclaredVector
from .variant_statistics import ColumnBounds, read_bounds

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.table import ProtocolVersions

    from ...util.given_types import FileSystem


Path = tuple[str, ...]

JsonObject = Mapping[str, Any]
"""A part of a schema in its JSON form, which deltalake has checked."""

_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNanos",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that are understood."""

_VARIANT = "variant"
_LATEST_READER = 3
_MODES = ("none", "name", "id")


@dataclass(frozen=True)
class DeltaLeaf:
    """A column without fields, or a field of structs.

    Attributes
    ----------
    physical : its path in the files and in the log's statistics.
    arrow_type : its type in the table.
    widened : whether its type was changed, so that statistics may be of values of another type.
    is_variant : whether it is a Variant: its bounds are those of paths in it.
    """

    physical: Path
    arrow_type: pa.DataType
    widened: bool
    is_variant: bool


def require_understood(protocol: ProtocolVersions) -> None:
    """Raise ParquetBloomError if a table uses reader features that are not understood.

    Parameters
    ----------
    protocol : deltalake's.
    """
    unknown = sorted({*(protocol.reader_features or ())} - _FEATURES)
    if unknown:
        names = ", ".join(repr(name) for name in unknown)
        raise ParquetBloomError(f"the table has the feature {names}, which is not supported: it is not read")
    if protocol.min_reader_version > _LATEST_READER:
        raise ParquetBloomError(f"the table needs a reader of version {protocol.min_reader_version}: it is not read")


def find_mapping_mode(protocol: ProtocolVersions, configuration: Mapping[str, str]) -> str:
    """Return how data files name columns: "none" (as the table does), "name" or "id".

    Raises
    ------
    ParquetBloomError
        The mode is unknown.
    """
    mode = configuration.get("delta.columnMapping.mode") or "none"
    if mode not in _MODES:
        raise ParquetBloomError(f"its column mapping is '{mode}', which is not supported")
    mapped = protocol.min_reader_version == 2 or "columnMapping" in (protocol.reader_features or ())
    return mode if mapped else "none"


def make_columns(schema: JsonObject, mode: str) -> tuple[TableColumn, ...] | None:
    """Return how files name the columns of a schema (its JSON form); None if as the table does."""
    return None if mode == "none" else tuple(_make_column(field, mode) for field in schema["fields"])


def _make_column(field: JsonObject, mode: str) -> TableColumn:
    metadata = field["metadata"]
    number = int(metadata["delta.columnMapping.id"]) if mode == "id" else None
    names = (str(metadata["delta.columnMapping.physicalName"]),)
    return _make_typed(field["name"], field["type"], number, names, mode)


def _make_typed(
    name: str, kind: str | JsonObject, number: int | None, names: tuple[str, ...], mode: str
) -> TableColumn:
    """Return a column of a type; what lists and maps consist of has the names that writers give it."""
    if isinstance(kind, str):
        return TableColumn(name, "value", number, names)
    if kind["type"] == "struct":
        parts = tuple(_make_column(field, mode) for field in kind["fields"])
        return TableColumn(name, "struct", number, names, parts)
    if kind["type"] == "array":
        element = _make_typed("element", kind["elementType"], None, ("element",), mode)
        return TableColumn(name, "list", number, names, (element,))
    if kind["type"] == "map":
        key = _make_typed("key", kind["keyType"], None, ("key",), mode)
        value = _make_typed("value", kind["valueType"], None, ("value",), mode)
        return TableColumn(name, "map", number, names, (key, value))
    raise ParquetBloomError(f"its column '{name}' has the type {json.dumps(kind)[:100]}, which is not supported")


def find_leaves(schema: JsonObject, arrow: pa.Schema, mode: str) -> dict[str, DeltaLeaf]:
    """Return {dotted name: leaf} of a schema, without lists and maps, and names that two leaves have.

    Parameters
    ----------
    schema : in its JSON form.
    arrow : the same as an Arrow schema.
    mode : of the column mapping.
    """
    leaves = list(_walk(schema["fields"], pa.struct(list(arrow)), mode, (), ()))
    names = Counter(".".join(path) for path, _ in leaves)
    return {name: leaf for path, leaf in leaves if names[name := ".".join(path)] == 1}


def _walk(
    fields: Sequence[JsonObject], above: pa.StructType, mode: str, path: Path, physical: Path
) -> Iterator[tuple[Path, DeltaLeaf]]:
    for position, column in enumerate(fields):
        metadata = column["metadata"]
        in_files = column["name"] if mode == "none" else metadata["delta.columnMapping.physicalName"]
        here, there = (*path, column["name"]), (*physical, in_files)
        arrow_type = above.field(position).type
        if isinstance(column["type"], dict):
            if column["type"]["type"] == "struct":
                yield from _walk(column["type"]["fields"], arrow_type, mode, here, there)
        else:
            is_widened, is_variant = bool(metadata.get("delta.typeChanges")), column["type"] == _VARIANT
            yield here, DeltaLeaf(there, arrow_type, is_widened, is_variant)


_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_FIRST_SURE = {Kind.DATE: date(1582, 10, 15), Kind.TIMESTAMP: date(1900, 1, 1)}
# Bounds of texts are without row groups of long ones, of which the footer has no statistics.
_VARIANT_TRUST = BoundTrust(FIXED_KINDS, {kind: (day - date(1970, 1, 1)).days for kind, day in _FIRST_SURE.items()})
_CUT = b"\xef\xbf\xbd"  # U+FFFD
_ABOVE_ALL = b"\xff"  # no UTF-8 text has this byte


def make_statistics(actions: pa.Table, leaf: DeltaLeaf) -> PruningStatisticsArray | None:
    """Return the statistics of a column in all files; None if the log says nothing of it.

    Parameters
    ----------
    actions : deltalake's add actions, a row for each file: of its columns `num_records`, `null_count`, `min`, `max`.
    leaf : the column.
    """
    try:
        column_type = from_arrow(leaf.arrow_type)
    except UnsupportedTypeError:
        return None
    nulls, low, high = (_find(actions, name, leaf.physical) for name in ("null_count", "min", "max"))
    if nulls is None and low is None and high is None:
        return None
    has_values, has_nulls = _count_nulls(nulls, _find(actions, "num_records", ()), actions.num_rows)
    if len(leaf.physical) > 1:
        has_nulls[:] = UNKNOWN
    believed = not leaf.widened and not _is_one_sided(low, high, column_type)
    lows, low_known = _make_bounds(low if believed else None, leaf, column_type, actions.num_rows, upper=False)
    highs, high_known = _make_bounds(high if believed else None, leaf, column_type, actions.num_rows, upper=True)
    cut = None
    if column_type.kind is Kind.STRING:
        highs, cut = split_cut(highs.tolist(), column_type)
    no_filter = np.zeros(actions.num_rows, np.bool_)
    return PruningStatisticsArray(
        column_type, has_values, has_nulls, lows, low_known, highs, high_known, no_filter, cut=cut
    )


def make_variant_statistics(
    actions: pa.Table, leaf: DeltaLeaf, name: VariantName, bounds: ColumnBounds | None
) -> PruningStatisticsArray | None:
    """Return the statistics of a path of a Variant in all files; None if the log says nothing of it.

    Parameters
    ----------
    actions : as of `make_statistics`.
    leaf : the Variant.
    name : the path, and the type that it is asked for as.
    bounds : of the Variant; None if they could not be read.
    """
    nulls = _find(actions, "null_count", leaf.physical)
    has_values, _ = _count_nulls(nulls, _find(actions, "num_records", ()), actions.num_rows)
    lower, upper = bounds or ((), ())
    return make_path_statistics(name, lower, upper, has_values, _VARIANT_TRUST)


def _is_one_sided(low: pa.Array | None, high: pa.Array | None, column_type: ColumnType) -> bool:
    """Return whether some file has one bound of a timestamp column alone: its writer took others from single values."""
    if column_type.kind is not Kind.TIMESTAMP or low is None or high is None:
        return False
    return bool(pc.any(pc.not_equal(low.is_null(), high.is_null())).as_py())


def _find(actions: pa.Table, name: str, path: tuple[str, ...]) -> pa.Array | None:
    """Return a column of the actions, or a field of it; None if there is none."""
    if name not in actions.column_names:
        return None
    array = actions[name].combine_chunks()
    for part in path:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            return None
        array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array


def _count_nulls(
    nulls: pa.Array | None, records: pa.Array | None, count: int
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return whether each file has values, and whether it has nulls."""
    has_values, has_nulls = np.full(count, UNKNOWN, np.int8), np.full(count, UNKNOWN, np.int8)
    if nulls is None or not pa.types.is_integer(nulls.type):
        return has_values, has_nulls
    counted, nums = _to_numpy(nulls), np.full(count, -1) if records is None else _to_numpy(records)
    has_nulls[counted == 0] = NO
    has_values[(counted == nums) & (counted >= 0)] = NO
    return has_values, has_nulls


def _to_numpy(numbers: pa.Array) -> NDArray[np.int64]:
    return numbers.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _make_bounds(
    bounds: pa.Array | None, leaf: DeltaLeaf, column_type: ColumnType, count: int, upper: bool
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return lower or upper bounds as domain values, and which of them are known."""
    kind = column_type.kind
    if bounds is None or bounds.type != leaf.arrow_type or kind not in _BELIEVED:
        return make_domain_array([None] * count, column_type), np.zeros(count, np.bool_)
    known = bounds.is_valid().to_numpy(zero_copy_only=False)
    if kind is Kind.FLOAT:
        return _widen_floats(bounds, known, upper)
    if kind is Kind.STRING:
        return _make_texts(bounds, upper, column_type), known
    if kind is Kind.BOOLEAN:
        return make_domain_array(bounds.to_pylist(), column_type), known
    if kind is Kind.DATE:
        bounds = bounds.cast(pa.int32())
    values = bounds.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if kind in _FIRST_SURE:
        days = (_FIRST_SURE[kind] - date(1970, 1, 1)).days
        step = _PER_MILLISECOND.get(column_type.unit or "", 0)
        known = known & (values >= days * (86_400_000 * step or 1))
    if kind is Kind.TIMESTAMP:
        known = known & (values <= np.iinfo(np.int64).max - step)
        # Before 1970 a writer may also cut towards zero, which is upwards.
        values = np.where(known, values + step if upper else np.where(values <= 0, values - step, values), 0)
    return values, known


_BELIEVED = (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.BOOLEAN, Kind.FLOAT)


def _widen_floats(
    bounds: pa.Array, known: NDArray[np.bool_], upper: bool
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return bounds of floats, two representable values further out."""
    values = bounds.fill_null(0).to_numpy(zero_copy_only=False)
    known = known & ~np.isnan(values)
    outwards = values.dtype.type(np.inf if upper else -np.inf)
    values = np.nextafter(np.nextafter(values, outwards), outwards)
    return np.where(known, values, 0).astype(np.float64), known


def _make_texts(bounds: pa.Array, upper: bool, column_type: ColumnType) -> NDArray[np.generic]:
    texts = bounds.cast(pa.binary()).to_pylist()
    if upper:
        texts = [None if text is None else _raise_cut(text) for text in texts]
    return make_domain_array([b"" if text is None else text for text in texts], column_type)


def _raise_cut(text: bytes) -> bytes:
    """Return an upper bound for texts that were cut before U+FFFD, or where they are so long, without a sign of it.

    Between the halves of a surrogate pair the cut left a question mark, or U+FFFD again.
    """
    if not text.endswith(_CUT):
        return CutBound(text) if len(text) >= SHORTEST_CUT else text
    while text.endswith(_CUT):
        text = text.removesuffix(_CUT)
    return text.removesuffix(b"?") + _ABOVE_ALL


_STATISTICS = ("num_records", "null_count", "min", "max")


@shown_redacted
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DeltaSnapshot(TableSnapshot):
    """A Delta table at one version.

    Attributes
    ----------
    mapping_mode : how data files name columns: "none" (as the table does), "name" or "id".
    delta_schema : the schema in its JSON form.
    actions : the name that the log has for each of `files`, and what deltalake says of the values in it.
    leaves : {dotted name: column} of the columns that may have statistics.
    filesystem : of the table's files; see `storage.resolve_filesystem`.
    """

    mapping_mode: str
    delta_schema: JsonObject
    actions: pa.Table
    leaves: Mapping[str, DeltaLeaf]
    filesystem: FileSystem | None
    _statistics: dict[str, PruningStatisticsArray | None] = field(default_factory=dict, init=False)
    _bounds: dict[Path, ColumnBounds] | None = field(default=None, init=False)

    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return what the log says of a column's values; see `TableSnapshot.find_statistics`."""
        if column not in self._statistics:
            self._statistics[column] = self._make_statistics(column)
        return self._statistics[column]

    def _make_statistics(self, column: str) -> PruningStatisticsArray | None:
        leaf, name = self.leaves.get(column), parse_evidence(column)
        variant = None if name is None else self.leaves.get(name.column)
        if column in self.partition_values.column_names or (leaf is not None and variant is not None):
            return None  # the name may mean a column, or a path
        if leaf is not None:
            return None if leaf.is_variant else make_statistics(self.actions, leaf)
        if name is None or variant is None or not variant.is_variant or variant.widened:
            return None
        return make_variant_statistics(self.actions, variant, name, self._read_bounds().get(variant.physical))

    def _read_bounds(self) -> dict[Path, ColumnBounds]:
        """Return the bounds of all Variants, of which the log is read once."""
        if self._bounds is None:
            columns = [leaf.physical for leaf in self.leaves.values() if leaf.is_variant]
            assert self.version is not None
            bounds = read_bounds(self.root, self.version, self.filesystem, self.files, columns)
            object.__setattr__(self, "_bounds", bounds)
        assert self._bounds is not None
        return self._bounds

    def without_files(self) -> DeltaSnapshot:
        """Return what is the same whatever files the table has: its columns and how files name them."""
        no_values = self.partition_values.slice(0, 0)
        return replace(self, files=[], partition_values=no_values, deletes={}, undefined={}, actions=pa.table({}))

    def name_files(self) -> Mapping[str, str]:
        """Return {path: name of the file in the log}."""
        names = self.actions["path"].to_pylist()
        return {file.path: name for file, name in zip(self.files, names, strict=True)}

    def __repr__(self) -> str:
        return f"<Delta table {self.root!r} at version {self.version}, {count(len(self.files), 'file')}>"


def make_snapshot(table: DeltaTable, root: str, filesystem: FileSystem | None, outside: bool) -> DeltaSnapshot:
    """Return the snapshot of a table at the version that deltalake has loaded.

    Parameters
    ----------
    table : a `deltalake.DeltaTable`.
    root : its folder, or its URL.
    filesystem : what `storage.resolve_filesystem` returns.
    outside : accept files outside of the table's folder.

    Raises
    ------
    StorageError
        The log cannot be read.
    ParquetBloomError
        The log is not understood, or the table has a file outside of its folder.
    Exception
        Of many kinds, from deltalake.
    """
    version, protocol, metadata = int(table.version()), table.protocol(), table.metadata()
    require_understood(protocol)
    schema = json.loads(table.schema().to_json())
    mode, arrow = find_mapping_mode(protocol, metadata.configuration), pa.schema(table.schema().to_arrow())
    adds = pa.table(table.get_add_actions())
    files = _resolve_files(adds, root)
    if not outside:
        require_inside((file.path for file in files), root)
    order = sorted(range(len(files)), key=files.__getitem__)
    files, adds = [files[position] for position in order], adds.take(pa.array(order, pa.int64()))
    deletes: dict[str, DeletedRows] = {}
    has_feature = FEATURE in (protocol.reader_features or ())
    if has_feature or _may_have_vectors(table):
        actions = require_same_files(read_live_adds(root, version, filesystem, ()), files, root)
        for path, action in actions.items():
            if "deletionVector" in action and has_feature:
                deletes[path] = DeletionVector(action["deletionVector"], path, root, filesystem, outside)
            elif "deletionVector" in action:
                deletes[path] = UndeclaredVector(path, root)
    return DeltaSnapshot(
        "delta",
        str(metadata.id),
        version,
        root,
        arrow,
        files,
        make_columns(schema, mode),
        _take_partitions(adds, metadata.partition_columns, arrow),
        deletes,
        mapping_mode=mode,
        delta_schema=schema,
        actions=adds.select(["path", *(name for name in _STATISTICS if name in adds.column_names)]),
        leaves=find_leaves(schema, arrow, mode),
        filesystem=filesystem,
    )


def _may_have_vectors(table: DeltaTable) -> bool:
    """Return whether a table that should have no deletion vectors may have some; without reading the log again."""
    try:
        return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except BaseException as error:  # deltalake reads the vectors, too, and fails if it cannot
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return True


def _resolve_files(adds: pa.Table, root: str) -> list[TableFile]:
    """Return the files of add actions, in their order."""
    names, sizes = adds["path"].to_pylist(), adds["size_bytes"].to_pylist()
    files = [TableFile(resolve_delta_path(name, root), int(size)) for name, size in zip(names, sizes, strict=True)]
    if len({file.path for file in files}) < len(files):
        paths = [file.path for file in files]
        twice = min(path for path in set(paths) if paths.count(path) > 1)
        raise ParquetBloomError(f"its log lists the file {twice} twice")
    return files


def _take_partitions(adds: pa.Table, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the partition columns, a row for each add action."""
    if not names:
        return adds.select([])
    fields = [schema.field(name) for name in names]
    if not adds.num_rows:
        return pa.schema(fields).empty_table()
    values = adds["partition"].combine_chunks()
    return pa.table([values.field(each.name).cast(each.type) for each in fields], pa.schema(fields))
