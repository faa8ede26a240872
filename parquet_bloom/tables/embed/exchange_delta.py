"""Exchange files of a Delta table by one commit of remove and add actions, which changes no data."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

import pyarrow as pa

from ...errors import ParquetBloomError, StorageError, first_line
from ...storage import is_url, resolve_filesystem
from ...storage.index_folder import Folder
from ...storage.objects.store_errors import is_panic
from ...util.lazy import is_installed, late_module
from ..delta.delta_log import LOG_FOLDER, Action, read_live_adds, require_same_files
from ..delta.delta_snapshot import make_snapshot
from ..delta.delta_table import find_damage, format_settings
from ..table_locations import FILE_SCHEME, resolve_delta_path
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

# Features of which neither the library that commits nor a file with the same rows needs to know more. Those that are
# missing are refused even where the table does not use them, as deltalake goes by the list.
_FEATURES = frozenset({
    *("appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns"),
    *("invariants", "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview"),
})  # fmt: skip
_HIGHEST_WRITER, _IDENTITY_WRITER = 7, 6  # versions of the protocol

# Members of an add action that deltalake writes, and those that may be there as they are empty or say nothing.
_WRITTEN = frozenset({"path", "partitionValues", "size", "modificationTime", "dataChange", "stats"})

# Characters that deltalake leaves as they are in the paths of a log, besides letters, digits and `_.-~`.
_UNQUOTED = "/!$&'()+,:;=@"


class DeltaTarget(Target):
    """A Delta table in a local folder.

    Parameters
    ----------
    path : its folder, or its URL as deltalake gives it.
    storage_options : as deltalake takes them.
    """

    kind = "delta"

    def __init__(self, path: str | os.PathLike[str], storage_options: Mapping[str, object] | None = None):
        self._uri = os.fspath(path)
        # deltalake's own URIs are quoted, paths are not.
        self.name = resolve_delta_path(self._uri, None).rstrip("/") if FILE_SCHEME.match(self._uri) else self._uri
        if is_url(self.name):
            problem = "only the files of tables in local folders can be exchanged so far"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)
        resolve_filesystem(None, storage_options)  # refuses what are no options
        self._options = format_settings(storage_options or {})
        if not is_installed("deltalake"):
            raise make_missing_error("Delta", "deltalake", self.name)
        try:
            transaction.RemoveAction  # noqa: B018  # which imports it
        except (ImportError, AttributeError):
            problem = "its files are exchanged by deltalake 1.6.6 or newer: pip install 'parquet-bloom[delta]'"
            raise ParquetBloomError(problem, path=self.name) from None

    def read_state(self) -> TableState:
        try:
            table = deltalake.DeltaTable(self._uri, storage_options=self._options)
            protocol, metadata = table.protocol(), table.metadata()
            root = resolve_delta_path(str(table.table_uri).rstrip("/") or "/", None)
            _require_known_features(protocol)
            snapshot = make_snapshot(table, root, None, outside=True)
            paths = [file.path for file in snapshot.files]
            adds = require_same_files(read_live_adds(root, table.version()), snapshot.files, root)
            # Of files of whose statistics the log has no text: they may be there in another form.
            counts = _count_records(table, root) if any("stats" not in add for add in adds.values()) else {}
        except ParquetBloomError as error:
            error.path = error.path or self.name
            raise
        except BaseException as error:  # deltalake raises many kinds, none of them documented
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            damage = find_damage(self.name)
            reason = first_line(error) if damage is None else damage.problem
            raise StorageError(f"cannot read the Delta table: {reason}", path=self.name) from error
        outside = find_outside(paths, root)
        files = tuple(
            LiveFile(path, adds[path]["size"], adds[path], "it lies outside of the table's folder", False)
            if path in outside
            else LiveFile(path, adds[path]["size"], adds[path], _find_reason(adds[path], counts.get(path)))
            for path in paths
        )
        return TableState(
            snapshot.version,
            snapshot.table_id,
            files,
            snapshot.schema,
            snapshot.columns,
            frozenset(metadata.partition_columns),
            snapshot.partition_values,
            metadata.configuration,
            table,
        )

    def name_new_file(self, old: LiveFile) -> str:
        folder, name = os.path.split(old.path)
        codec = name.split(".")[-2] if name.count(".") > 1 else ""
        suffix = f".{codec}.parquet" if codec in ("snappy", "zstd", "gzip", "lz4", "brotli") else ".parquet"
        return os.path.join(folder, f"part-00000-{uuid4()}.c000{suffix}")

    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        table = state.handle
        note = {"isBlindAppend": False, "parquetBloom": {"operation": "embed", "columns": list(columns)}}
        try:
            table.create_write_transaction(
                list(_make_actions(exchanges)),
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns,
                # A commit after others, as deltalake would repeat it, does not look at what those have removed.
                commit_properties=deltalake.CommitProperties(custom_metadata=note, max_commit_retries=0),
                # The table's own writers make its checkpoints, and delete old parts of its log.
                post_commithook_properties=deltalake.PostCommitHookProperties(
                    create_checkpoint=False, cleanup_expired_logs=False
                ),
            )
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            version = self.find_commit(state, exchanges)
            if version is not None:
                return version
            if self._list_commits(state):
                raise CommitConflict from error
            raise StorageError(f"cannot commit to the Delta table: {first_line(error)}", path=self.name) from error
        assert state.version is not None
        return state.version + 1

    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        assert state.version is not None
        expected = {name for name, _ in map(_name_in_log, exchanges[:1])}  # a commit has all of them or none
        for version in range(state.version + 1, max(self._list_commits(state), default=0) + 1):
            for action in self._read_commit(state, version):
                if isinstance(action.get("add"), dict) and action["add"].get("path") in expected:
                    return version
        return None

    def _log(self, state: TableState) -> Folder:
        root = resolve_delta_path(str(state.handle.table_uri).rstrip("/") or "/", None)
        return Folder(f"{root}/{LOG_FOLDER}")

    def _list_commits(self, state: TableState) -> list[int]:
        """Return the versions after a state."""
        assert state.version is not None
        names = (name for name in self._log(state).names() if len(name) == 25 and name.endswith(".json"))
        return sorted(int(name[:20]) for name in names if name[:20].isdigit() and int(name[:20]) > state.version)

    def _read_commit(self, state: TableState, version: int) -> Iterator[Action]:
        with self._log(state).open(f"{version:020d}.json") as source:
            for line in source.read_at(0, source.size).splitlines():
                yield json.loads(line)


def _count_records(table: DeltaTable, root: str) -> dict[str, int | None]:
    """Return the number of rows of each file by deltalake, which knows statistics in any form."""
    actions = pa.table(table.get_add_actions())
    if "num_records" not in actions.column_names:
        return {}
    names = (resolve_delta_path(name, root) for name in actions["path"].to_pylist())
    return dict(zip(names, actions["num_records"].to_pylist(), strict=True))


def _require_known_features(protocol: ProtocolVersions) -> None:
    """Raise for a table with a feature that the commit would have to heed, before anything is written."""
    unknown = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _FEATURES)
    if protocol.min_writer_version == _IDENTITY_WRITER:
        unknown.append("identityColumns")
    if protocol.min_writer_version > _HIGHEST_WRITER:
        unknown.append(f"version {protocol.min_writer_version} of the protocol")
    if unknown:
        what = "the feature" if len(unknown) == 1 else "the features"
        problem = f"it has {what} {', '.join(unknown)}, with which files cannot be exchanged"
        raise ParquetBloomError(f"{problem}; {WAY_OUT}")


def _find_reason(add: Action, num_records: int | None) -> str | None:
    """Return why a file cannot be exchanged by its add action."""
    if add.get("deletionVector"):
        return "it has a deletion vector"
    others = sorted(name for name, value in add.items() if name not in _WRITTEN and value not in (None, {}))
    if others:
        return f"its entry in the log has {', '.join(others)}, which a new entry cannot keep"
    if "stats" not in add and num_records is not None:
        return "its statistics are in a checkpoint as columns only, which a new entry cannot keep"
    if quote_path(unquote(add["path"])) != add["path"]:
        # A reader that compares paths as texts would not find the file that is to be removed.
        return "its path is quoted in the log in another way than deltalake does it"
    return None


def quote_path(path: str) -> str:
    """Return a path as deltalake writes it to a log."""
    return quote(path, safe=_UNQUOTED)


def _name_in_log(exchange: Exchange) -> tuple[str, str]:
    """Return the path of a new file as the log has it, and as deltalake takes it."""
    folder = exchange.old.entry["path"].rpartition("/")[0]
    name = f"{folder}/{os.path.basename(exchange.path)}" if folder else os.path.basename(exchange.path)
    return name, unquote(name)


def _make_actions(exchanges: Sequence[Exchange]) -> Iterator[AddAction | RemoveAction]:
    now = time.time_ns() // 1_000_000
    for exchange in exchanges:
        add = exchange.old.entry
        values = add.get("partitionValues", {})
        # deltalake quotes paths, and takes them without quotes.
        yield transaction.RemoveAction(unquote(add["path"]), False, now, add["size"], values)
        yield transaction.AddAction(_name_in_log(exchange)[1], exchange.size, values, now, False, add.get("stats"))
