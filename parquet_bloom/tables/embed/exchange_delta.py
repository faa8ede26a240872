"""Exchange files of a Delta table by one commit of remove and add actions, which changes no data."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError, first_line
from ...storage import is_url, object_location
from ...storage.index_folder import Folder
from ...storage.objects.object_rewrite import prove_create
from ...storage.objects.store_errors import is_panic, is_unanswered
from ...util.lazy import is_installed, late_module
from ..delta.delta_commit import make_commit_info, make_remove, write_commit
from ..delta.delta_log import LOG_FOLDER, Action, list_commits, read_lines, read_live_adds, require_same_files
from ..delta.delta_snapshot import DeltaSnapshot, make_snapshot
from ..delta.delta_table import DeltaSource
from ..delta.parsed_statistics import make_statistics_text
from ..table_snapshot import make_missing_error
from .exchange_files import WAY_OUT, CommitConflict, Exchange, LiveFile, TableState, Target, find_outside

if TYPE_CHECKING:
    import deltalake
    import deltalake.transaction as transaction
    from deltalake import DeltaTable
    from deltalake.table import ProtocolVersions
    from deltalake.transaction import AddAction, RemoveAction
else:
    deltalake, transaction = late_module("deltalake"), late_module("deltalake.transaction")

_HIGHEST_WRITER, _IDENTITY_WRITER = 7, 6  # versions of the protocol

# Features of which neither deltalake's commit nor a file with the same rows needs to know more. Those that are missing
# are refused even where the table does not use them, as deltalake goes by the list.
_FEATURES_OF_DELTALAKE = frozenset({
    *("appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns"),
    *("invariants", "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview"),
})  # fmt: skip

# Features that ask nothing of a commit which exchanges a file for one with the same rows in the same order, or no more
# than that the new entry has the members of the old one.
_FEATURES = _FEATURES_OF_DELTALAKE | {
    *("allowColumnDefaults", "checkpointProtection", "clustering", "domainMetadata", "icebergCompatV1"),
    *("icebergCompatV2", "icebergCompatV3", "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview"),
    "liquid",  # an earlier name of clustering
    *("materializePartitionColumns", "rowTracking", "timestampNanos", "typeWidening", "typeWidening-preview"),
    *("vacuumProtocolCheck", "variantShredding", "variantShredding-preview"),
}
_UNIFORM = "delta.universalFormat.enabledFormats"

# Members of an add action that deltalake writes, and those that a new one takes over from the old one.
_WRITTEN_BY_DELTALAKE = frozenset({"path", "partitionValues", "size", "modificationTime", "dataChange", "stats"})
_TAKEN_OVER = frozenset({"tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"})

# Characters that deltalake leaves as they are in the paths of a log, besides letters, digits and `_.-~`.
_UNQUOTED = "/!$&'()+,:;=@"

_LOCK = "aws_s3_locking_provider"


class DeltaTarget(Target):
    """A Delta table.

    Parameters
    ----------
    path : its folder, or its URL as deltalake gives it.
    storage_options : as deltalake takes them.
    """

    kind = "delta"

    def __init__(self, path: str | os.PathLike[str], storage_options: Mapping[str, object] | None = None):
        self._source = DeltaSource(os.fspath(path), storage_options=storage_options, outside=True)
        self.name, self.filesystem = self._source.name, self._source.filesystem
        if not is_installed("deltalake"):
            raise make_missing_error("Delta", "deltalake", self.name)
        self._commits: _Commits = _LogCommits(self.name)
        if is_url(self.name) and self.name.lower().startswith("s3") and _has_lock(storage_options or {}):
            self._commits = _LockedCommits(self.name)

    def read_state(self) -> TableState:
        with self._source.open_latest() as (table, root):
            self._commits.require_known_features(table)
            snapshot = make_snapshot(table, root, self.filesystem, outside=True)
            paths = [file.path for file in snapshot.files]
            live = read_live_adds(root, int(table.version()), self.filesystem)
            adds = require_same_files(live, snapshot.files, root)
            metadata = table.metadata()
        outside = find_outside(paths, root)
        files = []
        for position, path in enumerate(paths):
            add = adds[path]
            if path in outside:
                files.append(LiveFile(path, add["size"], add, "it lies outside of the table's folder", False))
            else:
                entry, reason = self._commits.check_entry(add, snapshot, position)
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
            (table, Folder(f"{root}/{LOG_FOLDER}", self.filesystem)),
        )

    def name_new_file(self, old: LiveFile) -> str:
        folder, name = os.path.split(old.path)
        codec = name.split(".")[-2] if name.count(".") > 1 else ""
        suffix = f".{codec}.parquet" if codec in ("snappy", "zstd", "gzip", "lz4", "brotli") else ".parquet"
        return os.path.join(folder, f"part-00000-{uuid4()}.c000{suffix}")

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        assert state.version is not None
        self._commits.commit(state, exchanges, {"operation": "embed", "columns": list(columns)})
        return state.version + 1

    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        return self._commits.find(state, exchanges)


def _has_lock(options: Mapping[str, object]) -> bool:
    """Return whether the table's writers take a lock for each commit, as deltalake does where it is told to."""
    given = {name.lower(): str(value) for name, value in (*os.environ.items(), *options.items())}
    return bool(given.get(_LOCK))


class _Commits(ABC):
    """How versions of a table are committed.

    Parameters
    ----------
    name : of the table.
    """

    def __init__(self, name: str):
        self.name = name

    @abstractmethod
    def require_known_features(self, table: DeltaTable) -> None:
        """Raise for a table with a feature that the commit would have to heed, before anything is written."""

    @abstractmethod
    def check_entry(self, add: Action, snapshot: DeltaSnapshot, position: int) -> tuple[Action, str | None]:
        """Return what a new file's entry is made of, and why the file cannot be exchanged; None if it can.

        Parameters
        ----------
        add : its add action.
        position : of the file in the snapshot.
        """

    @abstractmethod
    def commit(self, state: TableState, exchanges: Sequence[Exchange], note: Mapping[str, object]) -> None:
        """Commit the version after a state; see `Target.commit`."""

    def find(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        """Return the version after a state that has new files; see `Target.find_commit`."""
        _, log = state.handle
        expected = {name for name, _ in map(_name_in_log, exchanges[:1])}  # a commit has all of them or none
        for version in _list_later(state):
            for action in read_lines(log, f"{version:020d}.json"):
                if isinstance(action.get("add"), dict) and action["add"].get("path") in expected:
                    return version
        return None


class _LogCommits(_Commits):
    """Commits by a file in the table's log that is only created if there is none."""

    def __init__(self, name: str):
        super().__init__(name)
        self._is_unanswered = False  # whether a store may yet carry out a commit that has failed

    def require_known_features(self, table: DeltaTable) -> None:
        protocol, configuration = table.protocol(), table.metadata().configuration
        _require_features(protocol, _FEATURES)
        if configuration.get(_UNIFORM):
            problem = (
                f"its property {_UNIFORM} has the metadata of other formats name its files, which a vacuum deletes"
            )
            raise ParquetBloomError(f"{problem}; {WAY_OUT}")

    def check_entry(self, add: Action, snapshot: DeltaSnapshot, position: int) -> tuple[Action, str | None]:
        unknown = sorted(name for name in add.keys() - _WRITTEN_BY_DELTALAKE - _TAKEN_OVER if add[name] != {})
        if unknown:
            return add, f"its entry in the log has {', '.join(unknown)}, which a new entry cannot keep"
        if "stats" not in add:
            text = make_statistics_text(snapshot.actions, position)
            return (add if text is None else {**add, "stats": text}), None
        return add, None

    def commit(self, state: TableState, exchanges: Sequence[Exchange], note: Mapping[str, object]) -> None:
        _, log = state.handle
        assert state.version is not None
        version = state.version + 1
        self._is_unanswered = False
        location = object_location(log.path, log.filesystem)
        if location is not None:
            prove_create(location)
        sums = {
            "numAddedFiles": len(exchanges),
            "numRemovedFiles": len(exchanges),
            "numAddedBytes": sum(exchange.size for exchange in exchanges),
            "numRemovedBytes": sum(exchange.old.size for exchange in exchanges),
        }
        info = make_commit_info(
            log,
            version,
            state.properties,
            "EMBED BLOOM FILTERS",
            isBlindAppend=False,
            operationMetrics={name: str(number) for name, number in sums.items()},
            parquetBloom=dict(note),
        )
        try:
            write_commit(log, version, (info, *_make_log_actions(exchanges)))
        except ConcurrentChangeError as error:
            raise CommitConflict from error
        except StorageError as error:
            self._is_unanswered = location is not None and (error.__cause__ is None or is_unanswered(error.__cause__))
            problem = f"cannot commit to the Delta table: {error.problem}"
            raise StorageError(problem, path=self.name, errno=error.errno) from error

    def find(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        found = super().find(state, exchanges)
        if found is None and self._is_unanswered and not _list_later(state):
            raise ParquetBloomError("the store has not got it so far, but may get it yet", path=self.name)
        return found


class _LockedCommits(_Commits):
    """Commits by deltalake, which takes the lock that the table's writers have agreed on.

    Where commits are protected by a lock, the log's files may be written without a condition.
    """

    def __init__(self, name: str):
        super().__init__(name)
        try:
            transaction.RemoveAction  # noqa: B018  # which imports it
        except (ImportError, AttributeError):
            problem = "its files are exchanged by deltalake 1.6.6 or newer: pip install 'parquet-bloom[delta]'"
            raise ParquetBloomError(problem, path=name) from None

    def require_known_features(self, table: DeltaTable) -> None:
        protocol = table.protocol()
        of_identity = ["identityColumns"] if protocol.min_writer_version == _IDENTITY_WRITER else []
        _require_features(protocol, _FEATURES_OF_DELTALAKE, of_identity, " by a commit that takes a lock")

    def check_entry(self, add: Action, snapshot: DeltaSnapshot, position: int) -> tuple[Action, str | None]:
        if add.get("deletionVector"):
            return add, "it has a deletion vector"
        others = sorted(name for name in add.keys() - _WRITTEN_BY_DELTALAKE if add[name] != {})
        if others:
            return add, f"its entry in the log has {', '.join(others)}, which deltalake's entries cannot have"
        if "stats" not in add:
            text = make_statistics_text(snapshot.actions, position)
            add = add if text is None else {**add, "stats": text}
        if quote_path(unquote(add["path"])) != add["path"]:
            # A reader that compares paths as texts would not find the file that is to be removed.
            return add, "its path is quoted in the log in another way than deltalake does it"
        return add, None

    def commit(self, state: TableState, exchanges: Sequence[Exchange], note: Mapping[str, object]) -> None:
        table, _ = state.handle
        try:
            table.create_write_transaction(
                list(_make_actions_of_deltalake(exchanges)),
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                # A commit after others, as deltalake would repeat it, does not look at what those have removed.
                commit_properties=deltalake.CommitProperties(
                    custom_metadata={"isBlindAppend": False, "parquetBloom": dict(note)}, max_commit_retries=0
                ),
                # The table's own writers make its checkpoints, and delete old parts of its log.
                post_commithook_properties=deltalake.PostCommitHookProperties(
                    create_checkpoint=False, cleanup_expired_logs=False
                ),
            )
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            if self.find(state, exchanges) is not None:
                return
            if _list_later(state):
                raise CommitConflict from error
            raise StorageError(f"cannot commit to the Delta table: {first_line(error)}", path=self.name) from error


def _require_features(
    protocol: ProtocolVersions, known: frozenset[str] | set[str], others: Sequence[str] = (), how: str = ""
) -> None:
    unknown = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ()), *others} - known)
    if protocol.min_writer_version > _HIGHEST_WRITER:
        unknown.append(f"version {protocol.min_writer_version} of the protocol")
    if unknown:
        what = "the feature" if len(unknown) == 1 else "the features"
        problem = f"it has {what} {', '.join(unknown)}, with which files cannot be exchanged{how}"
        raise ParquetBloomError(f"{problem}; {WAY_OUT}")


def _list_later(state: TableState) -> list[int]:
    """Return the versions after a state."""
    _, log = state.handle
    assert state.version is not None
    return [version for version in list_commits(log) if version > state.version]


def quote_path(path: str) -> str:
    """Return a path as deltalake writes it to a log."""
    return quote(path, safe=_UNQUOTED)


def _name_in_log(exchange: Exchange) -> tuple[str, str]:
    """Return the path of a new file as the log has it, and as deltalake takes it."""
    folder = exchange.old.entry["path"].rpartition("/")[0]
    name = f"{folder}/{os.path.basename(exchange.path)}" if folder else os.path.basename(exchange.path)
    return name, unquote(name)


def _make_log_actions(exchanges: Sequence[Exchange]) -> Iterator[Action]:
    now = time.time_ns() // 1_000_000
    for exchange in exchanges:
        add = exchange.old.entry
        yield make_remove(add, now)
        changed = {"path": _name_in_log(exchange)[0], "size": exchange.size, "modificationTime": now}
        yield {"add": {"partitionValues": {}, **add, **changed, "dataChange": False}}


def _make_actions_of_deltalake(exchanges: Sequence[Exchange]) -> Iterator[AddAction | RemoveAction]:
    now = time.time_ns() // 1_000_000
    for exchange in exchanges:
        add = exchange.old.entry
        values = add.get("partitionValues", {})
        # deltalake quotes paths, and takes them without quotes.
        yield transaction.RemoveAction(unquote(add["path"]), False, now, add["size"], values)
        yield transaction.AddAction(_name_in_log(exchange)[1], exchange.size, values, now, False, add.get("stats"))
