"""An Iceberg table at one snapshot: its files by the manifests, and what is known of them before any is opened."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...errors import ParquetBloomError, StorageError
from ...predicate.pruning_statistics import PruningStatisticsArray
from ...predicate.variant_names import parse_evidence
from ...redaction import shown_redacted
from ...util.lazy import late_module
from ..table_locations import require_all_inside, require_inside, require_location, resolve_iceberg_path, without_scheme
from ..table_snapshot import TableFile, TableSnapshot, as_integer
from .iceberg_deletes import AppliedDeletes, DeleteContext, EqualityDeletes, FileDeletes, match_deletes
from .iceberg_statistics import (
    FieldStatistics,
    IcebergField,
    list_defaults,
    list_fields,
    make_arrow_schema,
    make_columns,
    make_defaults,
)
from .known_types import stands_for_variant
from .manifests import Manifests, SizedCache, read_manifests

if TYPE_CHECKING:
    import pyiceberg.conversions as conversions
    import pyiceberg.transforms as transforms
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
else:
    conversions, transforms = late_module("pyiceberg.conversions"), late_module("pyiceberg.transforms")


def find_identities(specs: Mapping[int, PartitionSpec]) -> dict[int, dict[int, int]]:
    """Return {field id of the column: {spec id: position of its value}} of the identity partitions of all specs."""
    result: dict[int, dict[int, int]] = {}
    for spec_id, spec in specs.items():
        for position, each in enumerate(spec.fields):
            if isinstance(each.transform, transforms.IdentityTransform):
                result.setdefault(each.source_id, {}).setdefault(spec_id, position)
    return result


def make_values(values: Sequence[object], arrow_type: pa.DataType) -> pa.Array:
    """Return partition values, as pyiceberg reads them, in a column's Arrow type.

    It reads dates, times and timestamps as numbers of the column's unit.
    """
    if isinstance(arrow_type, pa.BaseExtensionType):  # UUIDs
        plain = [getattr(value, "bytes", value) for value in values]
        return pa.ExtensionArray.from_storage(arrow_type, pa.array(plain, arrow_type.storage_type))
    if pa.types.is_temporal(arrow_type):
        width = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(arrow_type)
    return pa.array(values, arrow_type)


def serialize_values(column: IcebergField, values: Sequence[object], known: Sequence[bool]) -> pa.StructArray:
    """Return partition values of a column as bounds in the metadata would have them, and which are known."""
    stored: list[bytes | None] = []
    certain = []
    for value, is_known in zip(values, known, strict=True):
        serialized = None
        if is_known and value is not None:
            try:
                serialized = conversions.to_bytes(column.iceberg_type, value)
            except Exception:  # pyiceberg raises whatever the first operation on a value of another type raises
                is_known = False
        stored.append(serialized)
        certain.append(is_known)
    fields = [pa.array(np.array(certain, np.bool_)), pa.array(stored, pa.binary())]
    return pa.StructArray.from_arrays(fields, ["known", "value"])


_NAMES = {
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "client.region": "aws_region",
    "client.access-key-id": "aws_access_key_id",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
}


def translate_settings(properties: Mapping[str, object]) -> dict[str, str] | None:
    """Return obstore's settings for pyiceberg's; None if there are none, so that the environment's count.

    Settings of one store come before those of all (`s3.region` before `client.region`).
    """
    options = {}
    for name in reversed(_NAMES):
        if properties.get(name) is not None:
            options[_NAMES[name]] = str(properties[name])
    if options.get("aws_endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    return options or None


_IN_METADATA = "its value in files without the column is in the table's metadata: read other columns"
_DEFAULT = "the table gives it a default in files without it, which is not shown of a part of a column: read others"


@dataclass(frozen=True)
class Contents:
    """What the metadata says of a table at a snapshot.

    Attributes
    ----------
    table, snapshot, schema : pyiceberg's; the snapshot is None for a table without one.
    root : the table's location.
    files : the data files, sorted by path.
    order : the number of each of them in `manifests`.
    deletes : the delete files, by the number of the data file in `manifests`.
    """

    table: PyicebergTable
    snapshot: Snapshot | None
    schema: Schema
    root: str
    files: list[TableFile]
    order: list[int]
    manifests: Manifests
    deletes: Mapping[int, AppliedDeletes]


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Raise whatever pyiceberg raises as an error that names the table: StorageError, or as it is if it is ours."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or name
        raise
    except Exception as error:  # of many kinds: pyarrow's, pydantic's, pyiceberg's
        raise StorageError.wrap(error, "cannot read the Iceberg table", name) from error


def read_contents(
    table: PyicebergTable,
    request: Request,
    name: str,
    given: str | None,
    outside: bool,
    cache: SizedCache | None = None,
) -> Contents:
    """Read the metadata of a table.

    Parameters
    ----------
    table : pyiceberg's.
    request : which snapshot.
    name : of the table, for errors.
    given : the path of the table's folder or of a metadata file; None for a table of a catalog, which may lie anywhere.
    outside : accept files outside of the table's location, and a location other than the given one.
    cache : what was read of manifests; None to read all.

    Raises
    ------
    StorageError
        There is no such snapshot, or pyiceberg cannot read it.
    ParquetBloomError
        The metadata is not understood, or names files outside.
    """
    with named_errors(name):
        snapshot, schema = choose_snapshot(table, request, name)
        root = resolve_iceberg_path(table.location().rstrip("/") or "/", name)
        if given is not None and not outside:
            require_location(root, given)
        manifests = read_manifests(table, snapshot, root if given is not None and not outside else None, name, cache)
        paths = [resolve_iceberg_path(path, name) for path in manifests.paths]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        files = [TableFile(paths[row], manifests.sizes[row]) for row in order]
        deletes = match_deletes(manifests, table.specs())
    for row, file_format in enumerate(manifests.formats):
        if str(file_format).upper() != "PARQUET":
            raise ParquetBloomError(f"its file {manifests.paths[row]} is not a Parquet file", path=name)
    twice = next((file.path for file, other in pairwise(files) if file.path == other.path), None)
    if twice is not None:
        raise ParquetBloomError(f"its file {twice} is listed twice: its rows would be counted twice", path=name)
    if not outside:
        require_inside(paths, root)
    return Contents(table, snapshot, schema, root, files, order, manifests, deletes)


@shown_redacted
@dataclass(frozen=True, eq=False)
class IcebergSnapshot(TableSnapshot):
    """An Iceberg table at one snapshot.

    Attributes
    ----------
    fields : columns and fields of structs by their dotted names, without ambiguous ones.
    identities : see `partitions.find_identities`.
    """

    fields: Mapping[str, IcebergField] = field(default_factory=dict, repr=False)
    identities: Mapping[int, Mapping[int, int]] = field(default_factory=dict, repr=False)
    statistics: FieldStatistics | None = field(default=None, repr=False)
    _known: dict[str, PruningStatisticsArray | None] = field(default_factory=dict, init=False, repr=False)

    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return what the manifests say of a column's values, an entry for each of `files`; None if nothing."""
        if column not in self._known:
            found, statistics, name = self.fields.get(column), self.statistics, parse_evidence(column)
            variant = None if name is None else self.fields.get(name.column)
            if statistics is None or (found is None) is (variant is None):  # the name may mean a column, or a path
                return None
            if found is not None:
                self._known[column] = statistics.find(found, self._find_partition_values(found, statistics))
            elif name is not None and variant is not None:
                is_variant = stands_for_variant(variant.iceberg_type)
                self._known[column] = statistics.find_in_variant(variant, name) if is_variant else None
        return self._known[column]

    def name_files(self) -> Mapping[str, str]:
        """Return {path: name of the file in the manifests}."""
        if self.statistics is None:
            return super().name_files()
        names = self.statistics.manifests.paths
        rows = self.statistics.order.tolist()
        return {file.path: names[row] for file, row in zip(self.files, rows, strict=True)}

    def _find_partition_values(self, column: IcebergField, statistics: FieldStatistics) -> pa.StructArray | None:
        positions = self.identities.get(column.field_id)
        if not positions:
            return None
        manifests = statistics.manifests
        values, known = [], []
        for row in statistics.order.tolist():
            position = positions.get(manifests.partitions[row][0])
            known.append(position is not None)
            values.append(None if position is None else manifests.values[row][position])
        return serialize_values(column, values, known)


def make_snapshot(contents: Contents, name: str, outside: bool) -> IcebergSnapshot:
    """Make the snapshot from a table's metadata.

    Raises
    ------
    ParquetBloomError
        The metadata is not understood.
    """
    table, manifests = contents.table, contents.manifests
    try:
        schema = make_arrow_schema(contents.schema)
        fields = list_fields(contents.schema, schema)
        columns = make_columns(contents.schema, table.name_mapping())
        identities = find_identities(table.specs())
        partition_values = _make_partition_values(contents, fields, identities)
        defaults = make_defaults(contents.schema, schema, partition_values.schema.names)
    except Exception as error:  # of many kinds: pyiceberg's, pyarrow's
        raise StorageError.wrap(error, "cannot understand the Iceberg table", name) from error
    order = np.array(contents.order, np.intp)
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order))
    context = DeleteContext(
        table.io,
        {each.field_id: each for each in fields},
        partial(_check_delete_file, None if outside else contents.root, name),
        SizedCache(),
    )
    files, deletes = contents.files, {}
    by_values: dict[int, EqualityDeletes] = {}  # files that the same ones apply to share the tuple of them
    for place, row in enumerate(contents.order):
        if row in contents.deletes:
            path, applied = files[place].path, contents.deletes[row]
            written, values = without_scheme(manifests.paths[row]), None
            if applied.equality:
                values = by_values.setdefault(id(applied.equality), EqualityDeletes(applied.equality, context))
            deletes[path] = FileDeletes(written, applied, context, values)
    return IcebergSnapshot(
        "iceberg",
        str(table.metadata.table_uuid),
        None if contents.snapshot is None else int(contents.snapshot.snapshot_id),
        contents.root,
        schema,
        files,
        columns,
        partition_values,
        deletes,
        _find_undefined(contents, fields, identities, partition_values.schema.names, defaults.schema.names),
        _by_name(fields),
        identities,
        FieldStatistics(manifests, order, places),
        defaults=defaults,
        storage_options=translate_settings(table.io.properties),
    )


def _check_delete_file(root: str | None, name: str, path: str) -> None:
    if root is not None:
        require_all_inside([path], root, name)


def _by_name(fields: Sequence[IcebergField]) -> dict[str, IcebergField]:
    names = [each.name for each in fields]
    counts = dict.fromkeys(names, 0)
    for each in names:
        counts[each] += 1
    return {each.name: each for each in fields if counts[each.name] == 1}


def _make_partition_values(
    contents: Contents, fields: Sequence[IcebergField], identities: Mapping[int, Mapping[int, int]]
) -> pa.Table:
    """Return the columns of which the metadata has the value for every file; a row for each."""
    manifests, order = contents.manifests, contents.order
    arrays = {"": pa.nulls(len(order))}
    specs = {partition[0] for partition in manifests.partitions}
    for column in fields:
        positions = identities.get(column.field_id)
        if column.depth == 1 and positions and specs and specs <= positions.keys():
            values = [manifests.values[row][positions[manifests.partitions[row][0]]] for row in order]
            arrays[column.name] = make_values(values, column.arrow_type)
    return pa.table(arrays).select([name for name in arrays if name])


def _find_undefined(
    contents: Contents,
    fields: Sequence[IcebergField],
    identities: Mapping[int, Mapping[int, int]],
    given: Sequence[str],
    shown: Sequence[str],
) -> dict[str, dict[str, str]]:
    """Return the columns that a file may lack without being null in its rows, and why.

    Parameters
    ----------
    given : columns that are taken from the metadata in all files.
    shown : columns of which defaults are shown.
    """
    known = {*given, *shown}
    defaults = {name: _DEFAULT for name in list_defaults(contents.schema.fields) if name not in known}
    by_spec: dict[int, dict[str, str]] = {}
    result = {}
    for place, row in enumerate(contents.order):
        spec_id = contents.manifests.partitions[row][0]
        if spec_id not in by_spec:
            in_metadata = {
                each.name: _IN_METADATA
                for each in fields
                if spec_id in identities.get(each.field_id, ()) and each.name not in given
            }
            by_spec[spec_id] = defaults | in_metadata
        if by_spec[spec_id]:
            result[contents.files[place].path] = by_spec[spec_id]
    return result


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAIN = "main"
_NO_SNAPSHOT = -1  # as Java writers have it


@dataclass(frozen=True)
class Request:
    """Which snapshot of a table: the current one, or by one of these.

    Attributes
    ----------
    snapshot_id : its id.
    ref : the name of a branch or tag.
    as_of : a time in milliseconds since 1970.
    """

    snapshot_id: int | None = None
    ref: str | None = None
    as_of: int | None = None


def make_request(snapshot_id: object, ref: object, as_of: object) -> Request:
    """Check and convert what a caller gives.

    Raises
    ------
    ParquetBloomError
        There is more than one of them, or one is not of its type.
    """
    given = [
        name for name, value in (("snapshot_id", snapshot_id), ("ref", ref), ("as_of", as_of)) if value is not None
    ]
    if len(given) > 1:
        raise ParquetBloomError(f"{' and '.join(given)} exclude each other: give one")
    number = as_integer(snapshot_id)
    if snapshot_id is not None and number is None:
        raise ParquetBloomError(f"a snapshot id is a number, not {snapshot_id!r}")
    if ref is not None and not isinstance(ref, str):
        raise ParquetBloomError(f"a ref is the name of a branch or tag, not {ref!r}")
    return Request(number, ref, None if as_of is None else _to_millis(as_of))


def _to_millis(as_of: object) -> int:
    moment = as_of
    if isinstance(as_of, str):
        with contextlib.suppress(ValueError):
            moment = dt.datetime.fromisoformat(as_of.strip())
    if not isinstance(moment, dt.datetime):
        raise ParquetBloomError(f"a time is a datetime or text such as 2026-01-31T12:00:00Z, not {as_of!r}")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def choose_snapshot(table: PyicebergTable, request: Request, name: str) -> tuple[Snapshot | None, Schema]:
    """Return the snapshot, None if the table is empty, and the schema; both pyiceberg's.

    The current snapshot and branches are read with the table's current schema, as the format's documentation has it;
    tags, and snapshots by id or time, with the schema of their own.

    Raises
    ------
    StorageError
        There is no such snapshot.
    """
    metadata = table.metadata
    if request == Request():
        snapshot = table.current_snapshot()
        if snapshot is None and metadata.current_snapshot_id not in (None, _NO_SNAPSHOT):  # not an empty table
            raise StorageError(f"its metadata lacks the current snapshot, {metadata.current_snapshot_id}", path=name)
        return snapshot, table.schema()
    if request.ref is not None:
        snapshot, is_branch = _find_ref(metadata, request.ref, name)
    else:
        snapshot, is_branch = _find_snapshot(metadata, request, name), False
    if is_branch or snapshot is None or snapshot.schema_id is None:
        return snapshot, table.schema()
    return snapshot, table.schemas().get(snapshot.schema_id, table.schema())


def _find_ref(metadata: TableMetadata, ref: str, name: str) -> tuple[Snapshot | None, bool]:
    """Return the snapshot of a branch or tag, and whether it is a branch."""
    if ref not in metadata.refs:
        if ref == _MAIN and metadata.current_snapshot_id is None:
            return None, True
        known = ", ".join(sorted(map(str, metadata.refs))) or "none"
        raise StorageError(f"it has no branch or tag {ref!r}; there are: {known}", path=name)
    found = metadata.refs[ref]
    snapshot = metadata.snapshot_by_id(found.snapshot_id)
    if snapshot is None:
        raise StorageError(f"the snapshot {found.snapshot_id} of its {ref!r} is gone", path=name)
    return snapshot, str(found.snapshot_ref_type) == "branch"


def _find_snapshot(metadata: TableMetadata, request: Request, name: str) -> Snapshot:
    snapshot_id = request.snapshot_id
    if request.as_of is not None:
        log = metadata.snapshot_log
        snapshot_id = next((each.snapshot_id for each in reversed(log) if each.timestamp_ms <= request.as_of), None)
        if snapshot_id is None:
            moment = (_EPOCH + dt.timedelta(milliseconds=request.as_of)).isoformat()
            raise StorageError(f"its first known snapshot is of a time after {moment}", path=name)
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise StorageError(f"it has no snapshot {snapshot_id}, or no longer", path=name)
    return snapshot
