"""Exchange files of a Delta table by one commit of remove and add actions, which changes no data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

import pyarrow as pa

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError
from ...file.numbered_column import NumberedColumn
from ...storage import is_url, object_location
from ...storage.index_folder import Folder
from ...storage.objects.object_rewrite import prove_create
from ...storage.objects.store_errors import is_unanswered
from ...util.lazy import is_installed
from ..delta.added_files import require_appendable, write_rows
from ..delta.delta_commit import make_commit_info, make_remove, write_commit
from ..delta.delta_log import (
    LOG_FOLDER,
    Action,
    find_versions,
    list_commits,
    read_lines,
    read_live_adds,
    require_same_files,
)
from ..delta.delta_properties import ROW_TRACKING, is_on
from ..delta.delta_snapshot import DeltaSnapshot, make_snapshot
from ..delta.delta_table import DeltaSource
from ..delta.delta_vectors import name_vector_file
from ..delta.parsed_statistics import make_statistics_text
from ..delta.row_tracking import FEATURE, assign_row_ids, find_last_row_id, number_rows
from ..table_snapshot import make_missing_error
from .delta_rows import delete_rows, explain_deleting, explain_hiding, explain_rewriting, name_in_log
from .new_files import WrittenFile, find_missing
from .table_target import (
    WAY_OUT,
    CommitConflict,
    Exchange,
    History,
    LiveFile,
    NewFile,
    RowChange,
    RowFileWriter,
    TableState,
    Target,
    find_outside,
)

if TYPE_CHECKING:
    from deltalake.table import ProtocolVersions

    from ...util.given_types import FileSystem

_HIGHEST_WRITER = 7  # version of the protocol

# Features that ask nothing of a commit which exchanges a file for one with the same rows in the same order, or no more
# than that the new entry has the members of the old one.
_FEATURES = frozenset({
    *("allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering"),
    *("columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "icebergCompatV1", "icebergCompatV2"),
    *("icebergCompatV3", "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview", "invariants"),
    "liquid",  # an earlier name of clustering
    *("materializePartitionColumns", "rowTracking", "timestampNanos", "timestampNtz", "typeWidening"),
    *("typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck", "variantShredding", "variantShredding-preview"),
    *("variantType", "variantType-preview"),
})  # fmt: skip
_COMMITS = 100  # that are read for the history of files, of which only the latest are in question otherwise
_UNIFORM = "delta.universalFormat.enabledFormats"

# Members of an add action that are new for a new file, and those that it takes over from the old one.
_MEMBERS = frozenset({
    *("path", "size", "modificationTime", "dataChange"),
    *("partitionValues", "stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion"),
    "clusteringProvider",
})  # fmt: skip

_OPERATIONS = {"delete": "DELETE", "upsert": "MERGE"}  # as the history of other writers names them

_LOCK = "aws_s3_locking_provider"


class _Log(NamedTuple):
    """The log of a table.

    Attributes
    ----------
    folder : with its files.
    last_row_id : the highest id that a row has had; None for a table whose rows have none.
    """

    folder: Folder
    last_row_id: int | None


@dataclass(frozen=True)
class _DeltaRows:
    """Writes new rows into files; see `RowFileWriter`."""

    snapshot: DeltaSnapshot
    filesystem: FileSystem | None

    def __call__(self, rows: pa.Table, filters: Sequence[str]) -> Iterator[tuple[str, NewFile | None]]:
        for path, file in write_rows(self.snapshot, rows, filters, self.filesystem):
            yield path, None if file is None else NewFile(path, file.size, file.num_rows, file.add)


class DeltaTarget(Target):
    """A Delta table.

    Parameters
    ----------
    table : the table; its latest version is meant.
    """

    kind = "delta"

    def __init__(self, table: DeltaSource):
        self._source = DeltaSource(table.name, storage_options=table.settings, outside=True)
        self.name, self.filesystem = self._source.name, self._source.filesystem
        self.storage_options = self._source.storage_options
        self._is_unanswered = False  # whether a store may yet carry out a commit that has failed
        self._transaction = ""  # of the last commit that was begun
        self._vectors: UUID | None = None  # of the last commit that was begun
        if not is_installed("deltalake"):
            raise make_missing_error("Delta", "deltalake", self.name)
        if is_url(self.name) and _has_lock(table.settings):
            # Such writers write the log's files without a condition, once they have the lock.
            problem = f"its writers take a lock for each commit ({_LOCK.upper()}), which is not taken here"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)

    def read_state(self) -> TableState:
        with self._source.open_latest() as (table, root):
            protocol, metadata = table.protocol(), table.metadata()
            _require_known_features(protocol, metadata.configuration)
            snapshot = make_snapshot(table, root, self.filesystem, outside=True)
            paths = [file.path for file in snapshot.files]
            live = read_live_adds(root, int(table.version()), self.filesystem)
            adds = require_same_files(live, snapshot.files, root)
        folder, last_row_id = Folder(f"{root}/{LOG_FOLDER}", self.filesystem), None
        if FEATURE in (protocol.writer_features or ()):
            last_row_id = find_last_row_id(folder, int(table.version()), live)
        outside = find_outside(paths, root)
        files = []
        for position, path in enumerate(paths):
            add = adds[path]
            if path in outside:
                files.append(LiveFile(path, add["size"], add, "it lies outside of the table's folder", False))
            else:
                entry, reason = _check_entry(add, snapshot, position)
                files.append(LiveFile(path, add["size"], entry, reason))
        return TableState(
            snapshot.version,
            snapshot.table_id,
            tuple(files),
            snapshot.schema,
            snapshot.columns,
            frozenset(metadata.partition_columns),
            snapshot.partition_values,
            metadata.configuration,
            _Log(folder, last_row_id),
            snapshot,
            explain_deleting(metadata.configuration),
            explain_hiding(metadata.configuration, protocol.reader_features or ()),
            explain_rewriting(metadata.configuration),
        )

    def name_new_file(self, old: LiveFile) -> str:
        folder, name = os.path.split(old.path)
        codec = name.split(".")[-2] if name.count(".") > 1 else ""
        suffix = f".{codec}.parquet" if codec in ("snappy", "zstd", "gzip", "lz4", "brotli") else ".parquet"
        return os.path.join(folder, f"part-00000-{uuid4()}.c000{suffix}")

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        sums = {
            "numAddedFiles": len(exchanges),
            "numRemovedFiles": len(exchanges),
            "numAddedBytes": sum(exchange.size for exchange in exchanges),
            "numRemovedBytes": sum(exchange.old.size for exchange in exchanges),
        }
        note = {"parquetBloom": {"operation": "embed", "columns": list(columns)}}
        return self._commit(state, "EMBED BLOOM FILTERS", sums, note, _make_exchanges(exchanges), exchanges)

    def number_rows(self, state: TableState, files: Sequence[LiveFile]) -> dict[str, list[NumberedColumn]]:
        if not is_on(state.properties, ROW_TRACKING):
            return {}
        return {file.path: number_rows(file.entry, file.path, state.properties) for file in files}

    def find_history(self, state: TableState, files: Sequence[LiveFile]) -> History:
        folder, last = state.handle.folder, state.version
        assert last is not None
        readable = find_versions(folder)
        versions = range(last if readable is None else readable[0], last + 1)
        pending = {file.entry["path"]: file.path for file in files}
        firsts = dict.fromkeys(pending.values(), len(versions) - 1)
        commits = list_commits(folder)
        for version in (*versions[::-1],)[:_COMMITS]:
            if not pending or version not in commits:
                break
            actions = [*read_lines(folder, commits[version][0])]
            added = {action["add"]["path"] for action in actions if action.get("add")}
            removed = {action["remove"]["path"] for action in actions if action.get("remove")}
            for name, path in [*pending.items()]:
                firsts[path] = version - versions[0]
                if name in added and name not in removed:
                    del pending[name]
        return History(versions, firsts)

    def make_row_writer(self, state: TableState) -> RowFileWriter:
        assert isinstance(state.snapshot, DeltaSnapshot)
        require_appendable(state.snapshot, state.properties)
        return _DeltaRows(state.snapshot.without_files(), self.filesystem)

    def commit_rows(self, state: TableState, change: RowChange) -> int | None:
        self._vectors, self._transaction = uuid4(), ""
        actions, sums, files = delete_rows(state, change, self.filesystem, self._vectors)
        last_row_id, tags = state.handle.last_row_id, {}
        if last_row_id is not None:
            assert state.version is not None
            actions = [*assign_row_ids(actions, last_row_id, state.version + 1)]
            tags = {} if change.added else {"tags": {"delta.rowTracking.preserved": "true"}}
        note = {"parquetBloom": {"operation": change.operation}, **tags}
        try:
            return self._commit(state, _OPERATIONS[change.operation], sums, note, actions, files)
        except CommitConflict:
            self._delete_vectors(state)
            raise

    def _delete_vectors(self, state: TableState) -> None:
        """Delete the vectors of a commit that has failed for certain, as far as that is possible."""
        if self._vectors is not None:
            with suppress(StorageError):  # a vacuum deletes them
                Folder(state.snapshot.root, self.filesystem).delete([name_vector_file(self._vectors)])
            self._vectors = None

    def _commit(
        self,
        state: TableState,
        operation: str,
        sums: Mapping[str, int],
        note: Mapping[str, object],
        actions: Iterable[Action],
        files: Sequence[WrittenFile],
    ) -> int:
        """Write the version that follows a state.

        Parameters
        ----------
        operation, sums, note : what the table's history shows.
        files : the new files that it names.

        Raises
        ------
        CommitConflict
            There is such a version; or one of the files is gone, which a vacuum deletes that keeps no files for a time.
        """
        log = state.handle.folder
        assert state.version is not None
        version = state.version + 1
        self._is_unanswered = False
        location = object_location(log.path, log.filesystem)
        if location is not None:
            prove_create(location)
        self._transaction = str(uuid4())
        info = make_commit_info(
            log,
            version,
            state.properties,
            operation,
            isBlindAppend=False,
            operationMetrics={name: str(number) for name, number in sums.items()},
            txnId=self._transaction,
            **note,
        )
        self._is_unanswered = location is not None  # also if an interrupt ends the wait for the answer
        try:
            write_commit(log, version, (info, *actions), lambda: self._require(files))
        except ConcurrentChangeError as error:
            self._is_unanswered = False
            raise CommitConflict from error
        except StorageError as error:
            self._is_unanswered = location is not None and (error.__cause__ is None or is_unanswered(error.__cause__))
            problem = f"cannot commit to the Delta table: {error.problem}"
            raise StorageError(problem, path=self.name, errno=error.errno) from error
        return version

    def _require(self, files: Sequence[WrittenFile]) -> None:
        if find_missing(files, self.filesystem):
            self._is_unanswered = False
            raise CommitConflict

    def find_commit(self, state: TableState) -> int | None:
        log = state.handle.folder
        assert state.version is not None
        later = [version for version in list_commits(log) if version > state.version]
        for version in later:
            for action in read_lines(log, f"{version:020d}.json"):
                info = action.get("commitInfo")
                if isinstance(info, dict) and info.get("txnId") == self._transaction:
                    return version
        if self._is_unanswered and not later:
            raise ParquetBloomError("the store has not got it so far, but may get it yet", path=self.name)
        self._delete_vectors(state)
        return None


def _has_lock(options: Mapping[str, object]) -> bool:
    """Return whether the table's writers take a lock for each commit, as deltalake did where it was told to."""
    given = {name.lower(): str(value) for name, value in (*os.environ.items(), *options.items())}
    return bool(given.get(_LOCK))


def _require_known_features(protocol: ProtocolVersions, configuration: Mapping[str, str]) -> None:
    """Raise for a table with a feature that the commit would have to heed, before anything is written."""
    unknown = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _FEATURES)
    if protocol.min_writer_version > _HIGHEST_WRITER:
        unknown.append(f"version {protocol.min_writer_version} of the protocol")
    if unknown:
        what = "the feature" if len(unknown) == 1 else "the features"
        problem = f"it has {what} {', '.join(unknown)}, with which files cannot be exchanged"
        raise ParquetBloomError(f"{problem}; {WAY_OUT}")
    if configuration.get(_UNIFORM):
        problem = f"its property {_UNIFORM} has the metadata of other formats name its files, which a vacuum deletes"
        raise ParquetBloomError(f"{problem}; {WAY_OUT}")


def _check_entry(add: Action, snapshot: DeltaSnapshot, position: int) -> tuple[Action, str | None]:
    """Return what a new file's entry is made of, and why the file cannot be exchanged; None if it can.

    Parameters
    ----------
    add : its add action.
    position : of the file in the snapshot.
    """
    unknown = sorted(name for name in add.keys() - _MEMBERS if add[name] != {})
    if unknown:
        return add, f"its entry in the log has {', '.join(unknown)}, which a new entry cannot keep"
    text = None if "stats" in add else make_statistics_text(snapshot.actions, position)
    return (add if text is None else {**add, "stats": text}), None


def _make_exchanges(exchanges: Sequence[Exchange]) -> Iterator[Action]:
    now = time.time_ns() // 1_000_000
    for exchange in exchanges:
        add = exchange.old.entry
        yield make_remove(add, now, changes_data=False)
        changed = {"path": name_in_log(exchange), "size": exchange.size, "modificationTime": now}
        yield {"add": {"partitionValues": {}, **add, **changed, "dataChange": False}}
