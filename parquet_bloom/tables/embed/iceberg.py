"""Exchange files of an Iceberg table, by a snapshot that its catalog commits."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError, StorageError
from ...storage import is_url
from ..iceberg.catalogs import list_opened
from ..iceberg.matching import AppliedDeletes
from ..iceberg.metadata_files.choice import list_predecessors
from ..iceberg.metadata_files.table import CutShortError, open_metadata_file
from ..iceberg.open import IcebergTable
from ..iceberg.snapshot import make_snapshot
from .refusal import WAY_OUT, find_outside
from .replace import NewPath, SnapshotWriter
from .target import CommitConflict, Exchange, LiveFile, TableState, Target

_HIGHEST_FORMAT = 2

# Errors of catalogs after which a request has certainly changed nothing.
_REFUSALS = frozenset({
    *("AuthorizationExpiredError", "BadRequestError", "ForbiddenError", "NoSuchNamespaceError", "NoSuchTableError"),
    *("OAuthError", "TooManyRequestsError", "UnauthorizedError", "ValidationError", "ValidationException"),
})  # fmt: skip


class IcebergTarget(Target):
    """An Iceberg table in a local folder that has a catalog.

    Parameters
    ----------
    table : the table, at its current snapshot; files outside of its folder do not make it refuse.
    """

    kind = "iceberg"

    def __init__(self, table: IcebergTable):
        self.name = table.name
        self._table = table
        self._attempts: list[SnapshotWriter] = []
        self._begun: list[_Begun] = []
        self._sent = self._refused = False  # whether a commit went to the catalog, and whether that has refused it

    def read_state(self) -> TableState:
        from pyiceberg.catalog.noop import NoopCatalog

        contents = self._table.read_contents()
        table, manifests = contents.table, contents.manifests
        if isinstance(table.catalog, NoopCatalog):
            problem = "an Iceberg table given by its folder or metadata has no catalog to commit to"
            raise ParquetBloomError(f"{problem}; give a pyiceberg Table, or catalog= and its name", path=self.name)
        if table.metadata.format_version > _HIGHEST_FORMAT:
            problem = f"files of tables of format version {table.metadata.format_version} cannot be exchanged so far"
            raise ParquetBloomError(f"{problem}; {WAY_OUT}", path=self.name)
        snapshot = make_snapshot(contents, self.name, outside=True)
        outside = find_outside([file.path for file in contents.files if not is_url(file.path)], contents.root)
        files = []
        for file, row in zip(contents.files, contents.order, strict=True):
            written, reason = manifests.paths[row], _find_reason(contents.deletes.get(row))
            if is_url(file.path):
                files.append(LiveFile(*file, written, "only local files can be exchanged so far", False))
            elif file.path in outside:
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
        from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
        from pyiceberg.table import update as changes
        from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

        table, version = state.handle, state.version
        updates: list[Any] = []
        set_ref: Any = changes.SetSnapshotRefUpdate  # of these two mypy knows the names of the JSON only
        require_ref: Any = changes.AssertRefSnapshotId
        self._sent = self._refused = False
        try:
            if exchanges:
                self._attempts.append(SnapshotWriter(table))
                replaced = {one.old.entry: NewPath(_name_in_metadata(one), one.size) for one in exchanges}
                snapshot = self._attempts[-1].write(replaced, {"parquet-bloom.columns": ", ".join(columns)})
                version, branch = snapshot.snapshot_id, table.metadata.refs.get(MAIN_BRANCH)
                kept = {} if branch is None else branch.model_dump(exclude={"snapshot_id", "snapshot_ref_type"})
                updates += [
                    changes.AddSnapshotUpdate(snapshot=snapshot),
                    set_ref(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=version, **kept),
                ]
            if properties:
                updates.append(changes.SetPropertiesUpdate(updates=dict(properties)))
            requirements = (
                changes.AssertTableUUID(uuid=table.metadata.table_uuid),
                require_ref(ref=MAIN_BRANCH, snapshot_id=state.version),
            )
            opened = list_opened(table.catalog)
            self._begun.append(_Begun(table.io, opened, len(opened)))
            self._sent = True
            table.catalog.commit_table(table, requirements, tuple(updates))
            return version
        except (CommitFailedException, WaitingForLockException) as error:
            self._refused = True
            # A request that was sent twice, as the first answer was lost, is refused for its own sake.
            found = self.find_commit(state, exchanges)
            if found is not None:
                return found
            raise CommitConflict from error
        except ParquetBloomError:
            raise
        except Exception as error:
            self._refused = type(error).__name__ in _REFUSALS
            raise StorageError.wrap(error, "cannot commit to the Iceberg table", self.name) from error

    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        """See `Target`. A snapshot that is on its way is refused once the branch has another one than it follows."""
        current = None
        if self._sent:
            current = self._table.read_contents().table
            known = {int(snapshot.snapshot_id) for snapshot in current.metadata.snapshots}
            found = known & {writer.snapshot_id for writer in self._attempts}
            if found:
                return found.pop()
            is_over = self._refused or _ends_with_call(current.catalog)
            if current.metadata.current_snapshot_id == state.version and not is_over:
                if self._attempts:
                    raise ParquetBloomError("the catalog has not got it so far, but may get it yet", path=self.name)
                current = None
        self._delete_attempts(current)
        return None

    def _delete_attempts(self, current: Any) -> None:
        """Delete what was written for commits that have failed for certain.

        Parameters
        ----------
        current : the table as the catalog has it since; None if no commit was sent, or only one that may yet succeed.
        """
        if current is not None:
            committed = {str(current.metadata_location).rpartition("/")[2], *list_predecessors(current.metadata)}
            for begun in self._begun:
                # First of all, as readers of the folder find the other files by it.
                begun.delete(committed)
            self._begun.clear()
        for writer in self._attempts:
            writer.delete()
        self._attempts.clear()


class _Begun(NamedTuple):
    """The metadata files that a catalog has opened or begun in a call to commit.

    Attributes
    ----------
    io : pyiceberg's FileIO of the table.
    opened : see `list_opened`.
    first : the first of them that is of the call.
    """

    io: Any
    opened: list[str]
    first: int

    def delete(self, committed: Collection[str]) -> None:
        """Delete those that were begun, as far as that is possible.

        They follow what the catalog has opened before, or are cut short, as on a full disk.

        Parameters
        ----------
        committed : names of files to be left in any case.
        """
        paths = self.opened[self.first :]
        names = {path.rpartition("/")[2] for path in paths}
        for path in paths:
            try:
                if path.rpartition("/")[2] not in committed and self._is_new(path, names):
                    self.io.delete(path)
            except Exception:  # of many kinds; it is not worth another error
                continue

    def _is_new(self, path: str, names: Collection[str]) -> bool:
        try:
            metadata = open_metadata_file(path, self.io.properties).table.metadata
        except CutShortError:
            return True
        before = list_predecessors(metadata)
        return bool(before) and before[-1] in names


def _ends_with_call(catalog: Any) -> bool:
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
