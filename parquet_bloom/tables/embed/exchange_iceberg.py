"""Exchange files of an Iceberg table, by a snapshot that its catalog commits."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from ...errors import ParquetBloomError, StorageError
from ...file.bloom_file import open as open_file
from ...file.filter_builder import FilterOptions
from ...file.numbered_column import NumberedColumn
from ...file.write_table import write_file
from ...storage import is_url, resolve_filesystem
from ...storage.index_folder import Folder
from ...util.lazy import late_module
from ...util.threads import in_order
from ..iceberg.file_metrics import FileMetrics, find_modes, measure_file
from ..iceberg.iceberg_deletes import AppliedDeletes
from ..iceberg.iceberg_snapshot import Contents, make_snapshot
from ..iceberg.iceberg_statistics import list_fields
from ..iceberg.iceberg_table import IcebergTable, list_opened
from ..iceberg.manifests import DeleteFile
from ..iceberg.metadata_folder import CutShortError, list_predecessors, open_metadata_file
from ..table_locations import require_inside, resolve_iceberg_path
from .hidden_rows import explain_hiding, require_deletable
from .moved_deletes import DeletesMover, explain_deletes, name_beside
from .new_data import NewDataFile, split_by_partition
from .own_metadata import OWN_VERSION, SameSequence, checks_itself, write_own_metadata
from .snapshot_writer import LINEAGE_SINCE, NewPath, SnapshotWriter, find_row_numbers, list_deletes
from .table_target import (
    WAY_OUT,
    CommitConflict,
    Exchange,
    History,
    LiveFile,
    NewFile,
    RewrittenFile,
    RowChange,
    RowFileWriter,
    TableState,
    Target,
    UnfitFiles,
    find_outside,
)

if TYPE_CHECKING:
    import pyiceberg.catalog.noop as noop
    import pyiceberg.exceptions as exceptions
    import pyiceberg.table as iceberg_table
    import pyiceberg.table.refs as refs
    import pyiceberg.table.update as changes
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from ...util.given_types import FileSystem
else:
    noop, exceptions = late_module("pyiceberg.catalog.noop"), late_module("pyiceberg.exceptions")
    iceberg_table = late_module("pyiceberg.table")
    refs, changes = late_module("pyiceberg.table.refs"), late_module("pyiceberg.table.update")

_HIGHEST_FORMAT = 3
_ROW_ID, _LAST_UPDATED = 2147483540, 2147483539  # the ids of the columns in which a file may number its rows

# Errors of catalogs after which a request has certainly changed nothing, and such answers of servers.
_BUSY = "TooManyRequestsError"
_REFUSALS = frozenset({
    *("AuthorizationExpiredError", "BadRequestError", "ForbiddenError", "NoSuchNamespaceError", "NoSuchTableError"),
    *("NotImplementedError", "OAuthError", _BUSY, "UnauthorizedError", "ValidationError", "ValidationException"),
})  # fmt: skip
_TIMED_OUT, _NOT_IMPLEMENTED = 408, 501
_REFUSING = {*range(400, 500), _NOT_IMPLEMENTED} - {_TIMED_OUT}

_OPENED = 16  # new files at a time

_SENDS, _PAUSE = 4, 0.2  # how often a commit is sent, and seconds after the first time, which double


@dataclass(frozen=True)
class _IcebergRows:
    """Writes new rows into files; see `RowFileWriter`.

    Attributes
    ----------
    table : pyiceberg's, without the catalog, which cannot be sent to other processes.
    """

    table: PyicebergTable
    name: str
    filesystem: FileSystem | None

    def __call__(self, rows: pa.Table, filters: Sequence[str]) -> Iterator[tuple[str, NewFile | None]]:
        requested = {name: FilterOptions() for name in filters}
        for partition, name, part in split_by_partition(self.table, rows):
            path = resolve_iceberg_path(name, self.name)
            yield path, None
            Folder(os.path.dirname(path), self.filesystem).make()
            size = write_file(part, path, requested, self.filesystem, compression="zstd").new_size
            yield path, NewFile(path, size, part.num_rows, partition)


class IcebergTarget(Target):
    """An Iceberg table that has a catalog.

    Parameters
    ----------
    table : the table, at its current snapshot; files outside of its folder do not make it refuse.
    storage_options : settings of the store for the data files, by obstore's names; None for the catalog's.
    outside : whether such files may be read, and rows of them hidden.

    Raises
    ------
    ParquetBloomError
        It has no catalog.
    """

    kind = "iceberg"

    def __init__(self, table: IcebergTable, storage_options: Mapping[str, object] | None = None, outside: bool = False):
        self.name, self._outside = table.name, outside
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
        version = table.metadata.format_version
        if version > _HIGHEST_FORMAT:
            problem = f"files of tables of format version {version} cannot be exchanged so far"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)
        if version == OWN_VERSION and table.metadata.next_row_id is None:
            raise ParquetBloomError("its metadata has no next-row-id, which it must have", path=self.name)
        snapshot = make_snapshot(contents, self.name, outside=True)
        settings = self._storage_options or snapshot.storage_options
        self.filesystem = resolve_filesystem(None, settings) if is_url(contents.root) else None
        moved = [file.path for row in contents.deletes for file in _list_moved(contents.deletes[row])]
        places = {path: resolve_iceberg_path(path, self.name) for path in moved}
        outside = find_outside([*(file.path for file in contents.files), *places.values()], contents.root)
        files = []
        for file, row in zip(contents.files, contents.order, strict=True):
            deletes = contents.deletes.get(row)
            written, reason = manifests.paths[row], explain_deletes(deletes, version)
            strange = next((each.path for each in _list_moved(deletes) if places[each.path] in outside), None)
            if strange is not None:
                reason = reason or f"its delete file {strange} lies outside of the table's folder"
            if file.path in outside:
                far = "it lies outside of the table's folder"
                files.append(LiveFile(*file, written, reason or far, self._outside, self._outside and reason is None))
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
            contents,
            snapshot,
            None,
            explain_hiding(version),
            None,
        )

    def name_new_file(self, old: LiveFile) -> str:
        return os.path.join(os.path.dirname(old.path), f"00000-0-{uuid4()}-00001.parquet")

    def find_unfit(self, state: TableState, exchanges: Sequence[Exchange]) -> dict[Any, str]:
        contents: Contents = state.handle
        deletes = list_deletes(contents, {exchange.old.entry for exchange in exchanges})
        return DeletesMover(contents.table.io, contents.table.metadata.format_version, name_beside).find_unfit(deletes)

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        replaced = {exchange.old.entry: NewPath(_name_beside(exchange), exchange.size) for exchange in exchanges}
        note = {"parquet-bloom.columns": ", ".join(columns)}
        write = (lambda writer: writer.exchange(replaced, note)) if exchanges else None
        return self._commit(state, write, properties)

    def number_rows(self, state: TableState, files: Sequence[LiveFile]) -> dict[str, list[NumberedColumn]]:
        if state.handle.table.metadata.format_version < LINEAGE_SINCE:
            return {}
        found = find_row_numbers(state.handle, {file.entry for file in files})
        numbered = {}
        for file in files:
            first, sequence = found[file.entry]
            numbered[file.path] = [] if first is None else [NumberedColumn("_row_id", _ROW_ID, first, 1)]
            if sequence is not None:  # which the file keeps; but Iceberg's Java before 1.12 goes by the commit's
                name = "_last_updated_sequence_number"
                numbered[file.path].append(NumberedColumn(name, _LAST_UPDATED, sequence, 0, may_be_null=True))
        return numbered

    def find_history(self, state: TableState, files: Sequence[LiveFile]) -> History:
        contents: Contents = state.handle
        known = {each.snapshot_id: each for each in contents.table.metadata.snapshots}
        found, snapshot = [], contents.snapshot
        while snapshot is not None:
            found.append((snapshot.sequence_number or 0, snapshot.snapshot_id))
            snapshot = known.pop(snapshot.parent_snapshot_id, None)
        found.reverse()
        ages = dict(zip(contents.manifests.paths, contents.manifests.sequence_numbers, strict=True))
        firsts = {}
        for file in files:
            # The number is the age of a file's rows, which files before it may have held; 0 is that of version 1.
            age = ages[file.entry]
            firsts[file.path] = bisect_left(found, (age, 0)) if age > 0 else len(found) - 1
        return History([number for _, number in found], firsts)

    def make_row_writer(self, state: TableState) -> RowFileWriter:
        table = state.handle.table
        detached = iceberg_table.Table(
            table.name(), table.metadata, table.metadata_location, table.io, noop.NoopCatalog("none")
        )
        return _IcebergRows(detached, self.name, self.filesystem)

    def commit_rows(self, state: TableState, change: RowChange) -> int | None:
        contents: Contents = state.handle
        require_deletable(contents, change, self.name)
        new_files: list[NewFile | RewrittenFile] = [*change.rewritten, *change.added]
        modes = find_modes(contents.schema, state.properties) if new_files else {}
        fields = list_fields(contents.schema, state.schema)

        def measure(new: NewFile | RewrittenFile) -> FileMetrics:
            with open_file(new.path, filesystem=self.filesystem) as file:
                metrics = measure_file(file, state.columns or (), fields, modes)
                if (file.source.size, metrics.num_rows) != (new.size, new.num_rows):
                    raise ParquetBloomError("the new file is not as it was written", path=new.path)
            return metrics

        with in_order(measure, new_files, _OPENED) as measured:
            metrics = list(measured)
        replaced = {
            new.old.entry: NewPath(_name_beside(new), new.size, each)
            for new, each in zip(change.rewritten, metrics[: len(change.rewritten)], strict=True)
        }
        added = [
            NewDataFile(_name_in_table(new.path, contents), new.size, each, new.entry)
            for new, each in zip(change.added, metrics[len(change.rewritten) :], strict=True)
        ]
        note = {"parquet-bloom.operation": change.operation}
        return self._commit(state, lambda writer: writer.change_rows(change, replaced, added, state.snapshot, note), {})

    def _commit(
        self, state: TableState, write: Callable[[SnapshotWriter], Snapshot] | None, properties: Mapping[str, str]
    ) -> int | None:
        """Commit a snapshot, None for none, and properties; see `commit`."""
        contents: Contents = state.handle
        table, version = contents.table, state.version
        updates: list[TableUpdate] = []
        self._sent = self._refused = False
        try:
            if write is not None:
                self._attempts.append(SnapshotWriter(contents))
                snapshot = write(self._attempts[-1])
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
            requirements: list[Any] = [
                changes.AssertTableUUID(uuid=table.metadata.table_uuid),
                changes.AssertRefSnapshotId(ref=refs.MAIN_BRANCH, snapshot_id=state.version),
            ]
            if write is not None and table.metadata.format_version > 1 and checks_itself(table.catalog):
                requirements.append(SameSequence(table.metadata))
            if table.metadata.format_version == OWN_VERSION:
                write_own_metadata(table.catalog)
            self._send(table, tuple(requirements), tuple(updates))
            self._forget()  # what was written is the table's; another commit may follow
            return version
        except (exceptions.CommitFailedException, exceptions.WaitingForLockException) as error:
            # A request that was sent twice, as the first answer was lost, is refused for its own sake.
            found = self.find_commit(state)
            if found is not None:
                return found
            raise CommitConflict from error
        except UnfitFiles:
            self._delete_attempts(None)
            raise
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

    def find_commit(self, state: TableState) -> int | None:
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
            writer.delete(_try_to_delete)
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


def _list_moved(deletes: AppliedDeletes | None) -> list[DeleteFile]:
    """Return the delete files that have to be written anew for a file at another path."""
    if deletes is None:
        return []
    return [*deletes.positions, *([] if deletes.vector is None else [deletes.vector])]


def _name_beside(new: Exchange | RewrittenFile) -> str:
    """Return the path of a new file as that of the old one is written, in whose folder it is."""
    folder: str = new.old.entry.rpartition("/")[0]
    return f"{folder}/{os.path.basename(new.path)}"


def _name_in_table(path: str, contents: Contents) -> str:
    """Return the path of a new file as the table's location is written, in which it is."""
    require_inside([path], contents.root)
    return contents.table.location().rstrip("/") + path[len(contents.root.rstrip("/")) :]
