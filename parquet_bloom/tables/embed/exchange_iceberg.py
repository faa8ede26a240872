"""Exchange files of an Iceberg table, by a snapshot that its catalog commits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError, StorageError
from ...storage import is_url, resolve_filesystem
from ...util.lazy import late_module
from ..iceberg.iceberg_deletes import AppliedDeletes
from ..iceberg.iceberg_snapshot import make_snapshot
from ..iceberg.iceberg_table import IcebergTable, list_opened
from ..iceberg.manifests import ListedManifest, read_files
from ..iceberg.metadata_folder import CutShortError, list_predecessors, open_metadata_file
from .exchange_files import WAY_OUT, CommitConflict, Exchange, LiveFile, TableState, Target, find_outside

if TYPE_CHECKING:
    import pyiceberg.exceptions as exceptions
    import pyiceberg.manifest as manifest_files
    import pyiceberg.table.refs as refs
    import pyiceberg.table.snapshots as snapshots
    import pyiceberg.table.update as changes
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot, Summary
    from pyiceberg.table.update import TableRequirement, TableUpdate
else:
    exceptions, manifest_files = late_module("pyiceberg.exceptions"), late_module("pyiceberg.manifest")
    changes = late_module("pyiceberg.table.update")
    refs, snapshots = late_module("pyiceberg.table.refs"), late_module("pyiceberg.table.snapshots")

_CODEC: Literal["gzip"] = "gzip"
_TOTALS = (
    *("total-data-files", "total-delete-files", "total-records"),
    *("total-position-deletes", "total-equality-deletes", "total-files-size"),
)


class NewPath(NamedTuple):
    """Where the rows of a data file are from now on."""

    path: str
    size: int


class _KnownFiles(NamedTuple):
    """What a manifest says of a file: the values of its partition, and what has to stay, comparable."""

    values: tuple[object, ...]
    facts: tuple[object, ...]


class SnapshotWriter:
    """Writes the metadata files of a snapshot; until it is committed they may be deleted.

    Parameters
    ----------
    table : pyiceberg's, at the snapshot that the new one follows.

    Attributes
    ----------
    snapshot_id : of the new snapshot.
    files : the metadata files that were begun.
    """

    def __init__(self, table: PyicebergTable):
        self._table, self._metadata = table, table.metadata
        self.snapshot_id: int = self._metadata.new_snapshot_id()
        self.files: list[str] = []
        self._name = str(uuid4())
        self._sums = {"added-files-size": 0, "removed-files-size": 0, "added-records": 0, "added-data-files": 0}
        self._partitions: set[tuple[int, str]] = set()

    def write(self, replaced: Mapping[str, NewPath], note: Mapping[str, str]) -> Snapshot:
        """Write manifests and their list, and return pyiceberg's description of the snapshot.

        Parameters
        ----------
        replaced : {path of a live data file as the metadata has it: its new place}.
        note : goes into the snapshot's summary.

        Raises
        ------
        ParquetBloomError
            Not each of the files is live and listed once.
        """
        table, metadata = self._table, self._metadata
        parent, found, manifests = table.current_snapshot(), [], []
        for manifest in parent.manifests(table.io):
            if manifest.content == manifest_files.ManifestContent.DATA:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                here = [entry.data_file.file_path for entry in entries if entry.data_file.file_path in replaced]
                found += here
                if here:
                    manifests.append(self._write_manifest(manifest, entries, replaced))
                    continue
            manifests.append(manifest)
        if sorted(found) != sorted(replaced):
            raise ParquetBloomError("its metadata lists other files than before", path=".".join(table.name()))
        sequence_number = metadata.next_sequence_number()
        path = self._new_file(f"snap-{self.snapshot_id}-0-{self._name}.avro")
        version, ids = metadata.format_version, (self.snapshot_id, parent.snapshot_id)
        output = table.io.new_output(path)
        with manifest_files.write_manifest_list(version, output, *ids, sequence_number, _CODEC) as writer:
            writer.add_manifests(manifests)
        return snapshots.Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=sequence_number if version > 1 else None,
            # Times of snapshots must not go back, whatever the clocks of two writers say.
            timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms, parent.timestamp_ms + 1),
            manifest_list=path,
            summary=self._summarize(parent.summary, note),
            schema_id=metadata.current_schema_id,
        )

    def delete(self) -> None:
        """Delete the metadata files, as far as that is possible: the snapshot was not committed."""
        for path in self.files:
            _try_to_delete(self._table.io, path)

    def _new_file(self, name: str) -> str:
        path: str = self._table.location_provider().new_metadata_location(name)
        self.files.append(path)
        return path

    def _write_manifest(
        self, old: ManifestFile, entries: Sequence[ManifestEntry], replaced: Mapping[str, NewPath]
    ) -> ManifestFile:
        table, version = self._table, self._metadata.format_version
        spec = table.specs()[old.partition_spec_id]
        known = self._read_files(old)
        _restore_floats(entries, known)
        output = table.io.new_output(self._new_file(f"{self._name}-m{len(self.files)}.avro"))
        schema, number = self._find_schema(spec), self.snapshot_id
        with manifest_files.write_manifest(version, spec, schema, output, number, _CODEC) as writer:
            for entry in entries:
                file, new = entry.data_file, replaced.get(entry.data_file.file_path)
                if new is None:
                    writer.existing(entry)
                    continue
                writer.delete(entry)
                added = manifest_files.ManifestEntry.from_args(
                    status=manifest_files.ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot_id,
                    sequence_number=entry.sequence_number if version > 1 else None,
                    data_file=move_file(file, new),
                )
                writer.add_entry(added)
                self._count(file, new)
        written = writer.to_manifest_file()
        expected = {replaced[path].path if path in replaced else path: file.facts for path, file in known.items()}
        if {path: file.facts for path, file in self._read_files(written).items()} != expected:
            problem = f"pyiceberg has not written its manifest {old.manifest_path} as it was: nothing was committed"
            raise ParquetBloomError(problem, path=".".join(table.name()))
        return written

    def _read_files(self, manifest: ManifestFile) -> dict[str, _KnownFiles]:
        """Return {path: what is known} of the live files of a manifest, by our own reader."""
        table = self._table
        own = manifest.sequence_number
        record = ListedManifest(
            path=manifest.manifest_path,
            length=manifest.manifest_length,
            spec_id=manifest.partition_spec_id,
            # Of a manifest that is not in a list yet it is not known.
            sequence_number=self._metadata.next_sequence_number() if own is None or own < 0 else own,
            key_metadata=None,
            added=manifest.added_files_count,
            existing=manifest.existing_files_count,
            snapshot_id=None,
        )
        fields = table.specs()[manifest.partition_spec_id].fields
        files = read_files(table.io, record, fields, ".".join(table.name()))
        facts = zip(files.partitions, files.record_counts, files.sequence_numbers, strict=True)
        return {
            path: _KnownFiles(values, fact) for path, values, fact in zip(files.paths, files.values, facts, strict=True)
        }

    def _find_schema(self, spec: PartitionSpec) -> Schema:
        """Return a schema with the columns of a partition spec, which the current one may have lost."""
        schemas = [self._table.schema(), *sorted(self._table.schemas().values(), key=lambda schema: -schema.schema_id)]
        for schema in schemas:
            if all(schema.find_column_name(field.source_id) is not None for field in spec.fields):
                return schema
        problem = f"no schema has the columns of its partition spec {spec.spec_id}"
        raise ParquetBloomError(problem, path=".".join(self._table.name()))

    def _count(self, file: DataFile, new: NewPath) -> None:
        self._sums["added-data-files"] += 1
        self._sums["added-files-size"] += new.size
        self._sums["removed-files-size"] += file.file_size_in_bytes
        self._sums["added-records"] += file.record_count
        self._partitions.add((file.spec_id, str(file.partition)))

    def _summarize(self, before: Summary | None, note: Mapping[str, str]) -> Summary:
        sums = {name: str(value) for name, value in self._sums.items()}
        sums |= {"deleted-data-files": sums["added-data-files"], "deleted-records": sums["added-records"]}
        sums["changed-partition-count"] = str(len(self._partitions))
        for name in _TOTALS:
            total = None if before is None else before[name]
            if total is not None and str(total).isdigit():
                grown = self._sums["added-files-size"] - self._sums["removed-files-size"]
                sums[name] = str(int(total) + (grown if name == "total-files-size" else 0))
        return snapshots.Summary(snapshots.Operation.REPLACE, **sums, **note)


def _restore_floats(entries: Sequence[ManifestEntry], known: Mapping[str, _KnownFiles]) -> None:
    """Set partition values that are floats to what the manifest has: pyiceberg reads doubles in single precision."""
    for entry in entries:
        file = entry.data_file
        for position, value in enumerate(known[file.file_path].values):
            if isinstance(value, float):
                file.partition[position] = value


def move_file(file: DataFile, new: NewPath) -> DataFile:
    """Return pyiceberg's description of a data file at another place, with all else as it was."""
    moved = manifest_files.DataFile(*(file[position] for position in range(len(file))))
    fields = manifest_files.DATA_FILE_TYPE[manifest_files.DEFAULT_READ_VERSION].fields
    for position, field in enumerate(fields):
        if field.name == "file_path":
            moved[position] = new.path
        elif field.name == "file_size_in_bytes":
            moved[position] = new.size
    moved.spec_id = file.spec_id
    return moved


_HIGHEST_FORMAT = 2

# Errors of catalogs after which a request has certainly changed nothing, and such answers of servers.
_BUSY = "TooManyRequestsError"
_REFUSALS = frozenset({
    *("AuthorizationExpiredError", "BadRequestError", "ForbiddenError", "NoSuchNamespaceError", "NoSuchTableError"),
    *("NotImplementedError", "OAuthError", _BUSY, "UnauthorizedError", "ValidationError", "ValidationException"),
})  # fmt: skip
_TIMED_OUT, _NOT_IMPLEMENTED = 408, 501
_REFUSING = {*range(400, 500), _NOT_IMPLEMENTED} - {_TIMED_OUT}

_SENDS, _PAUSE = 4, 0.2  # how often a commit is sent, and seconds after the first time, which double


class IcebergTarget(Target):
    """An Iceberg table that has a catalog.

    Parameters
    ----------
    table : the table, at its current snapshot; files outside of its folder do not make it refuse.
    storage_options : settings of the store for the data files, by obstore's names; None for the catalog's.

    Raises
    ------
    ParquetBloomError
        It has no catalog.
    """

    kind = "iceberg"

    def __init__(self, table: IcebergTable, storage_options: Mapping[str, object] | None = None):
        self.name = table.name
        if not table.has_catalog:
            problem = "an Iceberg table given by its folder or metadata has no catalog to commit to"
            way_out = "name the catalog as well, by catalog= (--iceberg-catalog), or give a pyiceberg Table"
            raise ParquetBloomError(f"{problem}; {way_out}", path=self.name)
        self._table, self._storage_options = table, storage_options
        self._attempts: list[SnapshotWriter] = []
        self._begun: list[_Begun] = []
        self._sent = self._refused = False  # whether a commit went to the catalog, and whether that has refused it

    def read_state(self) -> TableState:
        contents = self._table.read_contents()
        table, manifests = contents.table, contents.manifests
        if table.metadata.format_version > _HIGHEST_FORMAT:
            problem = f"files of tables of format version {table.metadata.format_version} cannot be exchanged so far"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)
        snapshot = make_snapshot(contents, self.name, outside=True)
        settings = self._storage_options or snapshot.storage_options
        self.filesystem = resolve_filesystem(None, settings) if is_url(contents.root) else None
        outside = find_outside([file.path for file in contents.files], contents.root)
        files = []
        for file, row in zip(contents.files, contents.order, strict=True):
            written, reason = manifests.paths[row], _find_reason(contents.deletes.get(row))
            if file.path in outside:
                files.append(LiveFile(*file, written, "it lies outside of the table's folder", False))
            else:
                files.append(LiveFile(*file, written, reason))
        return TableState(
            snapshot.version,
            snapshot.table_id,
            tuple(files),
            snapshot.schema,
            snapshot.columns,
            frozenset(),
            snapshot.partition_values,
            table.metadata.properties,
            table,
        )

    def name_new_file(self, old: LiveFile) -> str:
        return os.path.join(os.path.dirname(old.path), f"00000-0-{uuid4()}-00001.parquet")

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        table, version = state.handle, state.version
        updates: list[TableUpdate] = []
        self._sent = self._refused = False
        try:
            if exchanges:
                self._attempts.append(SnapshotWriter(table))
                replaced = {
                    exchange.old.entry: NewPath(_name_in_metadata(exchange), exchange.size) for exchange in exchanges
                }
                snapshot = self._attempts[-1].write(replaced, {"parquet-bloom.columns": ", ".join(columns)})
                version, branch = snapshot.snapshot_id, table.metadata.refs.get(refs.MAIN_BRANCH)
                kept = {} if branch is None else branch.model_dump(exclude={"snapshot_id", "snapshot_ref_type"})
                updates += [
                    changes.AddSnapshotUpdate(snapshot=snapshot),
                    changes.SetSnapshotRefUpdate(
                        ref_name=refs.MAIN_BRANCH, type=refs.SnapshotRefType.BRANCH, snapshot_id=version, **kept
                    ),
                ]
            if properties:
                updates.append(changes.SetPropertiesUpdate(updates=dict(properties)))
            requirements = (
                changes.AssertTableUUID(uuid=table.metadata.table_uuid),
                changes.AssertRefSnapshotId(ref=refs.MAIN_BRANCH, snapshot_id=state.version),
            )
            self._send(table, requirements, tuple(updates))
            self._forget()  # what was written is the table's; another commit may follow
            return version
        except (exceptions.CommitFailedException, exceptions.WaitingForLockException) as error:
            # A request that was sent twice, as the first answer was lost, is refused for its own sake.
            found = self.find_commit(state, exchanges)
            if found is not None:
                return found
            raise CommitConflict from error
        except ParquetBloomError:
            raise
        except Exception as error:
            raise StorageError.wrap(error, "cannot commit to the Iceberg table", self.name) from error

    def _send(
        self, table: PyicebergTable, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        """Send a commit, a few times while the catalog is busy or it is not known whether it has got it.

        The first one that it gets moves the branch, so that the others are refused.

        Raises
        ------
        Exception
            Of the last time.
        """
        opened, is_in_doubt = list_opened(table.catalog), False
        for attempt in range(1, _SENDS + 1):
            self._sent, self._refused = True, False
            first = len(opened)
            try:
                response = table.catalog.commit_table(table, requirements, updates)
            except Exception as error:  # of many kinds: those of pyiceberg, of the catalog's client, of the store
                is_refused = _is_refusal(error)
                # An earlier request may yet take effect, whatever becomes of this one.
                self._refused = is_refused and not is_in_doubt
                is_in_doubt |= not is_refused
                is_over = is_refused and type(error).__name__ != _BUSY
                if is_over or attempt == _SENDS or _ends_with_call(table.catalog):
                    raise
            else:
                if attempt > 1:
                    self._delete_begun(response.metadata_location, response.metadata)
                return
            finally:
                self._begun.append(_Begun(table.io, opened[first:]))
            time.sleep(_PAUSE * 2 ** (attempt - 1))

    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        """A snapshot that is on its way is refused once the branch has another one than it follows."""
        current = None
        if self._sent:
            current = self._table.read_contents().table
            known = {int(snapshot.snapshot_id) for snapshot in current.metadata.snapshots}
            found = known & {writer.snapshot_id for writer in self._attempts}
            if found:
                self._delete_begun(current.metadata_location, current.metadata)
                self._forget()
                return found.pop()
            is_over = self._refused or _ends_with_call(current.catalog)
            if current.metadata.current_snapshot_id == state.version and not is_over:
                if self._attempts:
                    raise ParquetBloomError("the catalog has not got it so far, but may get it yet", path=self.name)
                current = None
        self._delete_attempts(current)
        return None

    def _forget(self) -> None:
        """Forget what was written for a commit that has succeeded."""
        self._attempts.clear()
        self._begun.clear()

    def _delete_attempts(self, current: PyicebergTable | None) -> None:
        """Delete what was written for commits that have failed for certain.

        Parameters
        ----------
        current : the table as the catalog has it since; None if no commit was sent, or only one that may yet succeed.
        """
        if current is not None:
            # First of all, as readers of the folder find the other files by it.
            self._delete_begun(current.metadata_location, current.metadata)
        for writer in self._attempts:
            writer.delete()
        self._attempts.clear()

    def _delete_begun(self, location: str, metadata: TableMetadata) -> None:
        """Delete the catalog's metadata files that are not the current one, or before it."""
        committed = {location.rpartition("/")[2], *list_predecessors(metadata)}
        for begun in self._begun:
            begun.delete(committed)
        self._begun.clear()


class _Begun(NamedTuple):
    """The metadata files that a catalog has opened or begun in a call to commit.

    Attributes
    ----------
    io : pyiceberg's FileIO of the table.
    opened : see `list_opened`.
    """

    io: FileIO
    opened: list[str]

    def delete(self, committed: Collection[str]) -> None:
        """Delete those that were begun, as far as that is possible.

        They follow what the catalog has opened before, or are cut short, as on a full disk.

        Parameters
        ----------
        committed : names of files to be left in any case.
        """
        names = {path.rpartition("/")[2] for path in self.opened}
        for path in self.opened:
            if path.rpartition("/")[2] not in committed:
                _try_to_delete(self.io, path, partial(self._is_new, path, names))

    def _is_new(self, path: str, names: Collection[str]) -> bool:
        try:
            metadata = open_metadata_file(path, self.io.properties).table.metadata
        except CutShortError:
            return True
        before = list_predecessors(metadata)
        return bool(before) and before[-1] in names


def _try_to_delete(io: FileIO, path: str, may_delete: Callable[[], bool] = lambda: True) -> None:
    """Delete a metadata file if it may be and can be."""
    try:
        if may_delete():
            io.delete(path)
    except Exception:  # pyiceberg raises the errors of every store; one that stays is not worth another error
        return


def _is_refusal(error: Exception) -> bool:
    """Return whether an error says that a commit has changed nothing, and cannot any more."""
    if isinstance(error, exceptions.CommitFailedException | exceptions.WaitingForLockException):
        return True
    status = _find_status(error)
    return type(error).__name__ in _REFUSALS or status in _REFUSING


def _find_status(error: Exception) -> int | None:
    """Return the status of the only request that a commit has taken; None if it has taken several, or for no answer."""
    answer = getattr(error, "response", None)  # botocore's, of Glue
    if isinstance(answer, Mapping):
        facts = answer.get("ResponseMetadata", {})
        return None if facts.get("RetryAttempts") else facts.get("HTTPStatusCode")
    return getattr(getattr(error.__cause__, "response", None), "status_code", None)  # of requests, of REST


def _ends_with_call(catalog: Catalog) -> bool:
    """Return whether a commit cannot take effect after the call to a catalog has ended: a database in a file."""
    dialect = getattr(getattr(catalog, "engine", None), "dialect", None)
    return getattr(dialect, "name", None) == "sqlite"


def _find_reason(deletes: AppliedDeletes | None) -> str | None:
    """Return why a file with deletes cannot be exchanged."""
    if deletes is None:
        return None
    if deletes.vector is not None:
        return "it has a deletion vector"
    if deletes.positions:
        return "it has position deletes"
    return "it has equality deletes" if deletes.equality else f"its deletes are not certain: {deletes.problem}"


def _name_in_metadata(exchange: Exchange) -> str:
    """Return the path of a new file, written as that of the old one is."""
    folder: str = exchange.old.entry.rpartition("/")[0]
    return f"{folder}/{os.path.basename(exchange.path)}"
