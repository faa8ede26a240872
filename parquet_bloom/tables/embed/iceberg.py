"""Exchange files of an Iceberg table, by a snapshot that its catalog commits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from ...errors import ParquetBloomError, StorageError
from ...storage import is_url
from ..columns import iceberg_values
from ..locations import without_scheme
from ..snapshot import TableColumn, make_missing_error
from .refusal import WAY_OUT, find_outside
from .replace import NewPath, SnapshotWriter
from .target import CommitConflict, Exchange, LiveFile, TableState, Target

_HIGHEST_FORMAT = 2
_PATH_FIELD = 2147483546  # of position deletes

# Errors of catalogs after which a request has certainly changed nothing.
_REFUSALS = frozenset({
    *("AuthorizationExpiredError", "BadRequestError", "ForbiddenError", "NoSuchNamespaceError", "NoSuchTableError"),
    *("OAuthError", "TooManyRequestsError", "UnauthorizedError", "ValidationError", "ValidationException"),
})  # fmt: skip


class IcebergEntry(NamedTuple):
    """What an Iceberg table's metadata says of a data file.

    Attributes
    ----------
    path : as the metadata has it.
    sequence_number : of its data.
    file : pyiceberg's description.
    """

    path: str
    sequence_number: int
    file: Any


class IcebergTarget(Target):
    """An Iceberg table in local folders that has a catalog.

    Parameters
    ----------
    table : pyiceberg's.
    """

    kind = "iceberg"

    def __init__(self, table: Any):
        from pyiceberg.catalog.noop import NoopCatalog

        self.name = ".".join(table.name())
        if isinstance(table.catalog, NoopCatalog):
            problem = "an Iceberg table given by its metadata has no catalog to commit to; give the catalog's table"
            raise ParquetBloomError(problem, path=self.name)
        self._catalog, self._identifier = table.catalog, table.name()
        self._attempts: list[SnapshotWriter] = []
        self._sent = False  # whether a commit may be on its way

    def read_state(self) -> TableState:
        from pyiceberg.manifest import ManifestContent

        table = self._load()
        if table.metadata.format_version > _HIGHEST_FORMAT:
            problem = f"files of tables of format version {table.metadata.format_version} cannot be exchanged so far"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)
        try:
            snapshot = table.current_snapshot()
            data, deletes = [], _Deletes(table.specs())
            for manifest in () if snapshot is None else snapshot.manifests(table.io):
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                if manifest.content == ManifestContent.DATA:
                    data += [
                        IcebergEntry(entry.data_file.file_path, entry.sequence_number or 0, entry.data_file)
                        for entry in entries
                    ]
                else:
                    for entry in entries:
                        deletes.add(entry)
            root = without_scheme(table.location().rstrip("/") or "/")
            files = self._make_files(sorted(data, key=lambda one: one.path), deletes, root)
            columns = _make_columns(table.schema().fields, table.name_mapping())
            values = _take_partition_values(files, table)
        except ParquetBloomError:
            raise
        except Exception as error:  # of many kinds: pyarrow's, pydantic's, pyiceberg's
            raise StorageError.wrap(error, "cannot read the Iceberg table", self.name) from error
        version = None if snapshot is None else int(snapshot.snapshot_id)
        number = str(table.metadata.table_uuid)
        return TableState(version, number, files, columns, values, table.metadata.properties, table)

    def name_new_file(self, old: LiveFile) -> str:
        return os.path.join(os.path.dirname(old.path), f"00000-0-{uuid4()}-00001.parquet")

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
        from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
        from pyiceberg.table.update import (
            AddSnapshotUpdate,
            AssertRefSnapshotId,
            AssertTableUUID,
            SetPropertiesUpdate,
            SetSnapshotRefUpdate,
        )

        table, version, updates = state.handle, state.version, []
        self._sent = False
        try:
            if exchanges:
                self._attempts.append(SnapshotWriter(table))
                replaced = {one.old.entry.path: NewPath(_name_in_metadata(one), one.size) for one in exchanges}
                snapshot = self._attempts[-1].write(replaced, {"parquet-bloom.columns": ", ".join(columns)})
                version, branch = snapshot.snapshot_id, table.metadata.refs.get(MAIN_BRANCH)
                kept = {} if branch is None else branch.model_dump(exclude={"snapshot_id", "snapshot_ref_type"})
                updates += [
                    AddSnapshotUpdate(snapshot=snapshot),
                    SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=version, **kept),
                ]
            if properties:
                updates.append(SetPropertiesUpdate(updates=dict(properties)))
            requirements = (
                AssertTableUUID(uuid=table.metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=state.version),
            )
            self._sent = True
            self._catalog.commit_table(table, requirements, tuple(updates))
            return version
        except (CommitFailedException, WaitingForLockException) as error:
            self._sent = False
            self._delete_attempts()
            raise CommitConflict from error
        except ParquetBloomError:
            raise
        except Exception as error:
            if type(error).__name__ in _REFUSALS:
                self._sent = False
            raise StorageError.wrap(error, "cannot commit to the Iceberg table", self.name) from error

    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        """See `Target`. A snapshot that is on its way is refused once the branch has another one than it follows."""
        attempted = {writer.snapshot_id for writer in self._attempts}
        if self._sent:
            metadata = self._load().metadata
            found = attempted & {int(snapshot.snapshot_id) for snapshot in metadata.snapshots}
            if found:
                return found.pop()
            current = metadata.current_snapshot_id
            if current == state.version and not self._ends_with_call():
                raise ParquetBloomError("the catalog has not got it so far, but may get it yet", path=self.name)
        self._delete_attempts()
        return None

    def _load(self) -> Any:
        try:
            return self._catalog.load_table(self._identifier)
        except Exception as error:
            raise StorageError.wrap(error, "cannot read the Iceberg table", self.name) from error

    def _ends_with_call(self) -> bool:
        """Return whether a commit cannot take effect after the call to the catalog has ended: a database in a file."""
        dialect = getattr(getattr(self._catalog, "engine", None), "dialect", None)
        return getattr(dialect, "name", None) == "sqlite"

    def _delete_attempts(self) -> None:
        for writer in self._attempts:
            writer.delete()
        self._attempts.clear()

    def _make_files(self, data: Sequence[IcebergEntry], deletes: _Deletes, root: str) -> tuple[LiveFile, ...]:
        paths = [without_scheme(entry.path) for entry in data]
        outside = find_outside([path for path in paths if not is_url(path)], root)
        times: dict[str, int] = {}
        for path in paths:
            times[path] = times.get(path, 0) + 1
        files = []
        for path, entry in zip(paths, data, strict=True):
            reason, file = deletes.find_reason(entry), entry.file
            may_open = not is_url(path) and path.startswith("/") and path not in outside
            if not may_open:
                reason = "it lies outside of the table's folder" if not is_url(path) else "it is not on a local disk"
            elif str(getattr(file.file_format, "value", file.file_format)).upper() != "PARQUET":
                reason, may_open = "it is not a Parquet file", False
            elif file.key_metadata is not None:
                reason, may_open = "it is encrypted", False
            elif times[path] > 1:
                reason = "the table lists it more than once"
            files.append(LiveFile(path, int(file.file_size_in_bytes), entry, reason, may_open))
        return tuple(files)


class _Deletes:
    """The delete files of a snapshot, and to which data files they may apply."""

    def __init__(self, specs: Mapping[int, Any]):
        self._unpartitioned = {number for number, spec in specs.items() if spec.is_unpartitioned()}
        self._by_partition: dict[Any, list[Any]] = {}

    def add(self, entry: Any) -> None:
        self._by_partition.setdefault(self._key(entry.data_file), []).append(entry)

    def find_reason(self, data: IcebergEntry) -> str | None:
        """Return which deletes may apply to a data file; too many rather than too few."""
        from pyiceberg.manifest import DataFileContent

        entries = self._by_partition.get(self._key(data.file), [])
        if self._key(data.file) is not None:
            entries = [*entries, *self._by_partition.get(None, [])]
        for entry in entries:
            number = entry.sequence_number or 0
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                if data.sequence_number < number:
                    return "it has equality deletes"
            elif data.sequence_number <= number and _may_name(entry.data_file, data.path):
                return "it has position deletes"
        return None

    def _key(self, file: Any) -> Any:
        """Return what files have in common that deletes apply to; None for deletes without a partition."""
        return None if file.spec_id in self._unpartitioned else (file.spec_id, file.partition)


def _may_name(deletes: Any, path: str) -> bool:
    """Return whether a file of position deletes may name a data file, by its bounds, which may be cut off."""
    name = path.encode()
    lower = (deletes.lower_bounds or {}).get(_PATH_FIELD)
    upper = (deletes.upper_bounds or {}).get(_PATH_FIELD)
    return not ((lower is not None and name < lower) or (upper is not None and name > upper and not name.startswith(upper)))


def open_by_name(catalog: Any, name: Any) -> IcebergTarget:
    """Return a table of a catalog.

    Parameters
    ----------
    catalog : pyiceberg's, or its name in pyiceberg's configuration.
    name : `db.events`, or a tuple of its parts.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise make_missing_error("Iceberg", "pyiceberg", str(name)) from None
    try:
        opened = load_catalog(catalog) if isinstance(catalog, str) else catalog
        return IcebergTarget(opened.load_table(name))
    except ParquetBloomError:
        raise
    except Exception as error:
        raise StorageError.wrap(error, "cannot read the Iceberg table", str(name)) from error


def _name_in_metadata(exchange: Exchange) -> str:
    """Return the path of a new file, written as that of the old one is."""
    folder: str = exchange.old.entry.path.rpartition("/")[0]
    return f"{folder}/{os.path.basename(exchange.path)}"


def _take_partition_values(files: Sequence[LiveFile], table: Any) -> pa.Table:
    """Return the columns that all files are partitioned by as they are."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    specs, schema = table.specs(), table.schema()
    rows = [iceberg_values(file.entry.file, specs, schema) for file in files]
    names = list(rows[0]) if rows else []
    types = schema_to_pyarrow(schema, include_field_ids=False)
    columns = {}
    for name in names:
        if all(name in row for row in rows):
            try:
                columns[name] = pa.array([row[name] for row in rows], types.field(name).type)
            except (pa.ArrowException, OverflowError, KeyError):  # not a value of the column: it cannot be asked for
                continue
    return pa.table(columns) if columns else pa.table({"": pa.nulls(len(files))}).select([])


def _make_columns(fields: Iterable[Any], mapping: Any) -> tuple[TableColumn, ...]:
    from pyiceberg.types import ListType, MapType, StructType

    names = {one.field_id: tuple(one.names) for one in mapping or ()}
    below = {one.field_id: one.fields for one in mapping or ()}
    columns = []
    for field in fields:
        kind: Any = "value"
        if isinstance(field.field_type, StructType):
            kind = "struct"
        elif isinstance(field.field_type, ListType):
            kind = "list"
        elif isinstance(field.field_type, MapType):
            kind = "map"
        parts = () if kind == "value" else _make_columns(field.field_type.fields, below.get(field.field_id))
        columns.append(TableColumn(field.name, kind, field.field_id, names.get(field.field_id, ()), parts))
    return tuple(columns)
