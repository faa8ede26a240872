"""Open a Delta table, at its latest version or at an earlier one. deltalake is imported when it is first needed."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ParquetBloomError, StorageError
from ...storage import resolve_filesystem
from ...storage.index_folder import Folder
from ...storage.objects.store_errors import is_panic
from ...util.lazy import is_installed, late_module
from ...util.messages import logger
from ..table_locations import FILE_SCHEME, require_inside, resolve_delta_path
from ..table_snapshot import Table, TableChanges, TableFiles, as_integer, make_missing_error
from .delta_log import (
    LOG_FOLDER,
    find_versions,
    list_checkpoints,
    list_commits,
    read_checkpoint,
    read_commit_time,
    read_file_changes,
    read_lines,
)
from .delta_properties import IN_COMMIT_TIMES, is_on
from .delta_snapshot import DeltaSnapshot, find_mapping_mode, make_columns, make_snapshot, require_understood

if TYPE_CHECKING:
    import deltalake
    import deltalake.exceptions as delta_errors
    from deltalake import DeltaTable

    from ...util.given_types import FileSystem
else:
    deltalake, delta_errors = late_module("deltalake"), late_module("deltalake.exceptions")

_HINT = "_last_checkpoint"
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_LONGEST_HINT = 1024 * 1024


class Damage(NamedTuple):
    """What is wrong with a log.

    Attributes
    ----------
    problem : the file, what is wrong with it, and what to do.
    start : a version that can be read in spite of it, and from which the commits lead to the latest one; None if there
        is none.
    """

    problem: str
    start: int | None = None


def find_damage(root: str, filesystem: FileSystem | None = None) -> Damage | None:
    """Return what is wrong with a table's log; None if nothing is found, or if it cannot be read.

    Parameters
    ----------
    root : the table's folder, or its URL.
    filesystem : what `storage.resolve_filesystem` returns.
    """
    with suppress(StorageError):
        return _find_damage(Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem))
    return None


def _find_damage(folder: Folder) -> Damage | None:
    commits, checkpoints = list_commits(folder), sorted(list_checkpoints(folder.names()))
    newest = checkpoints[-1].version if checkpoints else -1
    latest = max([newest, *commits])
    missing = _find_missing(commits, newest, latest)
    if missing is not None:
        return Damage(f"commit {missing} is missing in its log, and no checkpoint replaces it")
    for version in range(newest + 1, latest + 1):
        try:
            for _ in read_lines(folder, commits[version][0]):
                pass
        except StorageError:
            raise
        except ParquetBloomError as error:
            way_out = "delete the file if its writer died before it has reported the commit, or restore it"
            return Damage(f"{error}. It was cut short or damaged: {way_out}")
    if checkpoints:
        before = checkpoints[-2].version if len(checkpoints) > 1 else -1
        try:
            for _ in read_checkpoint(folder, checkpoints[-1], folder.path.rpartition("/")[0], ()):
                pass
        except ParquetBloomError as error:
            is_needed = _find_missing(commits, before, latest) is not None
            way_out = "restore it" if is_needed else f"delete it and {_HINT}, as the log has all that was before it"
            return Damage(f"{error}. It was cut short or damaged: {way_out}")
    stale = _find_stale_hint(folder, {checkpoint.version for checkpoint in checkpoints}, commits, latest)
    return stale or _find_checksum(folder, latest)


def _find_missing(commits: Collection[int], after: int, latest: int) -> int | None:
    return next((version for version in range(after + 1, latest + 1) if version not in commits), None)


def _find_stale_hint(
    folder: Folder, checkpoints: Collection[int], commits: Collection[int], latest: int
) -> Damage | None:
    """Return what is wrong with a hint of a checkpoint that is not there."""
    version = _read_hint(folder)
    if version is None or version in checkpoints:
        return None
    problem = f"{_HINT} names a checkpoint of version {version}, of which there is none that is whole: delete that file"
    start = min(version - 1, latest)
    first = max((checkpoint for checkpoint in checkpoints if checkpoint <= start), default=-1)
    return Damage(problem, start if start >= 0 and _find_missing(commits, first, latest) is None else None)


def _read_hint(folder: Folder) -> int | None:
    if _HINT not in folder.names():
        return None
    with folder.open(_HINT) as source:
        content = source.read_at(0, min(source.size, _LONGEST_HINT))
    try:
        hint = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):  # deltalake does without it
        return None
    version = hint.get("version") if isinstance(hint, dict) else None
    return version if type(version) is int else None


def _find_checksum(folder: Folder, latest: int) -> Damage | None:
    """Return a checksum of a version that is not there."""
    matches = map(_CHECKSUM.fullmatch, folder.names())
    later = [match[0] for match in matches if match is not None and int(match[1]) > latest]
    if not later:
        return None
    return Damage(f"{folder.path_of(max(later))} is of a version that its log does not have: delete that file")


def parse_time(as_of: datetime | str) -> int:
    """Return a time in milliseconds since 1970; one without a zone is in UTC.

    Raises
    ------
    ParquetBloomError
        It is not a time.
    """
    if isinstance(as_of, str):
        try:
            as_of = datetime.fromisoformat(as_of)
        except ValueError:
            raise ParquetBloomError(f"as_of is {as_of!r}, which is not a time such as 2024-01-31T12:00:00Z") from None
    if not isinstance(as_of, datetime):
        raise ParquetBloomError(f"as_of is a datetime or a text, not {type(as_of).__name__}; version= takes a number")
    as_of = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    since = as_of - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def find_version(
    root: str, as_of: datetime | str, filesystem: FileSystem | None, configuration: Mapping[str, str]
) -> int:
    """Return the last version that was committed at a time or before it.

    Parameters
    ----------
    root : the table's folder, or its URL.
    as_of : the time, see `parse_time`.
    filesystem : what `storage.resolve_filesystem` returns.
    configuration : of the table's latest version.

    Raises
    ------
    StorageError
        The log cannot be read.
    ParquetBloomError
        The time is before the first commit in the log, or the log is not understood.
    """
    time = parse_time(as_of)
    folder = Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem)
    commits = list_commits(folder)
    if is_on(configuration, IN_COMMIT_TIMES):
        text = configuration.get("delta.inCommitTimestampEnablementVersion") or "0"
        try:
            first = int(text)
        except ValueError:
            raise ParquetBloomError(f"in-commit timestamps are enabled from version {text!r} on", path=root) from None
        found = _find_last(folder, commits, [version for version in commits if version >= first], time)
        if found is not None:
            return found
        commits = {version: commit for version, commit in commits.items() if version < first}
    # The times of files may go back; those of versions do not.
    modified = (nanoseconds // 1_000_000 for _, nanoseconds in commits.values())
    times = accumulate(modified, lambda before, after: max(before + 1, after))
    found = max((version for version, at in zip(commits, times, strict=True) if at <= time), default=None)
    if found is None:
        raise ParquetBloomError(f"as_of is {as_of}, which is before the first commit in its log", path=root)
    return found


def _find_last(folder: Folder, commits: Mapping[int, tuple[str, int]], versions: list[int], time: int) -> int | None:
    """Return the last of some versions whose in-commit timestamp is not after a time; None if all are."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if read_commit_time(folder, commits[versions[middle]][0]) <= time:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


log = logger("parquet_bloom.tables")

_BACKTRACE = re.compile(r"\n\s*(?:0: |stack backtrace:)")


def delta(
    table: DeltaTable | str | os.PathLike[str],
    *,
    version: int | None = None,
    as_of: datetime | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    outside: bool = False,
) -> DeltaSource:
    """Open a Delta table for `dataset`, `read_table` and the other functions that take files.

    Its log is read when it is needed: deleted files and rows are left out, and files are ruled out by the log's own
    statistics before any is opened.

    Parameters
    ----------
    table : the table's folder, or its URL; or a `deltalake.DeltaTable`, which is then read at its version.
    version : the version; None for the latest, whichever that is when the table is read.
    as_of : the last version at that time, a datetime or a text in ISO 8601; UTC if it has no zone. Until a time in the
        future has come, that is the latest one, whichever that is when the table is read.
    storage_options : settings of the store, as named by obstore and deltalake.
    outside : accept files outside of the table's folder, as in a shallow clone. A log may name any file, so anyone who
        can write the log chooses which files are read.

    Raises
    ------
    ParquetBloomError
        The arguments contradict each other. Everything else is an error when the table is read.

    Examples
    --------
    >>> table = parquet_bloom.delta("events", version=1)
    >>> parquet_bloom.dataset(table).count_rows()
    2000
    """
    return DeltaSource(table, version, as_of, storage_options, outside)


class DeltaSource(Table):
    """A Delta table, see `delta`. It may be pickled, and used by several threads at once.

    Attributes
    ----------
    settings : of the store and of deltalake, as they were given.
    filesystem : of the table's files, as `storage.resolve_filesystem` returns it.
    """

    kind = "delta"

    def __init__(
        self,
        table: DeltaTable | str | os.PathLike[str],
        version: int | None = None,
        as_of: datetime | str | None = None,
        storage_options: Mapping[str, object] | None = None,
        outside: bool = False,
    ) -> None:
        if isinstance(table, str | bytes | os.PathLike):
            self.name = os.fsdecode(table)
        elif hasattr(table, "table_uri") and hasattr(table, "get_add_actions"):
            self.name = str(table.table_uri)
            # deltalake has no public way to ask a table by what settings it was opened.
            storage_options = storage_options or getattr(table, "_storage_options", None)
            version = table.version() if version is None and as_of is None else version
        else:
            problem = f"a Delta table is a path or a deltalake.DeltaTable, not {type(table).__name__}"
            raise ParquetBloomError(problem)
        if version is not None:
            number = as_integer(version)
            if number is None or number < 0:
                raise ParquetBloomError(f"version is {version!r}, which is not a version", path=self.name)
            version = number
        if as_of is not None:
            parse_time(as_of)
            if version is not None:
                raise ParquetBloomError("version and as_of exclude each other", path=self.name)
        self._version, self._as_of, self.outside = version, as_of, bool(outside)
        of_store = storage_options
        if isinstance(storage_options, Mapping):
            of_store = {name: value for name, value in storage_options.items() if not _is_of_deltalake(name)}
        self.filesystem = resolve_filesystem(None, of_store)  # refuses what is no mapping
        self.settings = dict(storage_options or {})
        self.storage_options = of_store or None
        self._lock = threading.Lock()
        self._read: _DeltaReading | None = None
        self._is_ahead = False  # whether `as_of` was in the future when the table was read: a later commit may count

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self._version, self._as_of, self.settings, self.outside)

    @property
    def requested(self) -> str | None:
        """The version that was requested; None for the latest."""
        if self._version is not None:
            return f"version {self._version}"
        return None if self._as_of is None else f"the version as of {self._as_of}"

    def latest(self) -> DeltaSource:
        if self._version is None and self._as_of is None:
            return self
        return DeltaSource(self.name, storage_options=self.settings, outside=self.outside)

    @contextmanager
    def open_latest(self) -> Iterator[tuple[DeltaTable, str]]:
        """Yield the table at its latest version, and its folder, for a commit; all errors meanwhile name the table.

        Raises
        ------
        StorageError
            It cannot be read, or its log is damaged.
        """
        with self._named_errors():
            table = self._load(in_spite_of_damage=False)
            yield table, self._resolve_root(str(table.table_uri))

    def read_snapshot(self) -> DeltaSnapshot:
        """Read the table's log; see `Table.read_snapshot`. A version that has not changed is not read again."""
        with self._lock:
            latest = self._version is None and self._as_of is None
            if self._read is None or self._is_ahead or not self._read.is_current(latest):
                self._is_ahead = self._as_of is not None and parse_time(self._as_of) >= time.time_ns() // 1_000_000
                self._read = self._open()
            return self._read.snapshot

    def read_changes(self, table_id: str, version: int) -> TableChanges | None:
        if self._version is not None or self._as_of is not None:
            return None
        with self._named_errors():
            table = self._load()
            latest, metadata, protocol = int(table.version()), table.metadata(), table.protocol()
            if str(metadata.id) != table_id or latest < version:
                return None
            require_understood(protocol)
            root = self._resolve_root(str(table.table_uri))
            files = read_file_changes(root, version, latest, self.filesystem)
            if files is None:
                return None
            if not self.outside:
                require_inside((path for path, change in files.items() if change.is_live), root)
            mode = find_mapping_mode(protocol, metadata.configuration)
            columns = make_columns(json.loads(table.schema().to_json()), mode)
            return TableChanges("delta", table_id, latest, root, columns, files)

    def _open(self) -> _DeltaReading:
        with self._named_errors():
            table = self._load()
            root = self._resolve_root(str(table.table_uri))
            if self._as_of is not None:
                configuration = table.metadata().configuration
                version = find_version(root, self._as_of, self.filesystem, configuration)
                with self._named_versions(version):
                    table.load_as_version(version)
            return _DeltaReading(table, root, self.filesystem, self.outside)

    def _load(self, in_spite_of_damage: bool = True) -> DeltaTable:
        if not is_installed("deltalake"):
            raise make_missing_error("Delta", "deltalake", self.name)
        make = partial(deltalake.DeltaTable, self.name, storage_options=format_settings(self.settings))
        with self._named_versions(self._version):
            try:
                return make(version=self._version)
            except delta_errors.DeltaError as error:
                root = resolve_delta_path(self.name, None) if FILE_SCHEME.match(self.name) else self.name
                damage = find_damage(root, self.filesystem)
                if damage is None:
                    raise
                if damage.start is None or self._version is not None or not in_spite_of_damage:
                    raise StorageError(f"cannot read the Delta table: {damage.problem}", path=self.name) from error
            log.warning("%s: %s. It is read without it", self.name, damage.problem)
            table = make(version=damage.start)
            table.update_incremental()
            return table

    @contextmanager
    def _named_versions(self, version: int | None) -> Iterator[None]:
        """Raise deltalake's error, or if the version is not in the log, one that says which are."""
        try:
            yield
        except Exception:
            found = None if version is None else self._find_versions()
            if found is None or version is None or found[0] <= version <= found[1]:
                raise
            only = f"only version {found[0]}" if found[0] == found[1] else f"the versions {found[0]} to {found[1]}"
            raise StorageError(f"it has no version {version}: its log has {only}", path=self.name) from None

    def _find_versions(self) -> tuple[int, int] | None:
        """Return the first and the last version in the log; None if it has none, or cannot be listed."""
        root = resolve_delta_path(self.name, None) if FILE_SCHEME.match(self.name) else self.name
        with suppress(ParquetBloomError):
            return find_versions(Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", self.filesystem))
        return None

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise whatever deltalake raises as an error that names the table."""
        try:
            yield
        except ParquetBloomError as error:
            error.path = error.path or self.name
            raise
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ParquetBloomError(f"its log cannot be understood: {error!r}", path=self.name) from error
        except BaseException as error:  # deltalake raises many kinds, none of them documented
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise _wrap(error, self.name) from error

    def _resolve_root(self, uri: str) -> str:
        return resolve_delta_path(uri.rstrip("/") or "/", None)


def delta_files(
    path: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, object] | None = None,
    *,
    outside: bool = False,
) -> TableFiles:
    """Return the data files of a Delta table.

    Parameters
    ----------
    path : the table's folder, or its URL.
    version : the version; None for the latest.
    storage_options : settings of the store, as named by obstore and deltalake.
    outside : accept files outside of the table's folder, as in a shallow clone. A log may name any file, so anyone who
        can write the log chooses which files are read.

    Raises
    ------
    StorageError
        There is no such table or version, or deltalake cannot read it.
    ParquetBloomError
        deltalake is missing, the table's log is not understood, or the table has a file outside of its folder.

    Examples
    --------
    >>> from parquet_bloom import tables
    >>> tables.delta_files("events").version
    2
    """
    source = DeltaSource(path, version, storage_options=storage_options, outside=outside)
    return TableFiles.of(source.read_snapshot(), outside)


class _DeltaReading:
    """A table as it was read, to be brought up to date.

    Attributes
    ----------
    snapshot : of the version that was read.
    """

    def __init__(self, table: DeltaTable, root: str, filesystem: FileSystem | None, outside: bool) -> None:
        self._table, self._where = table, (root, filesystem, outside)
        self._commit = self._identify_commit(table.version())
        self.snapshot = make_snapshot(table, root, filesystem, outside)

    def is_current(self, latest: bool) -> bool:
        """Return whether `snapshot` can be used again, after bringing it up to date if it is to be the latest version.

        A table that was deleted and made anew has other commits of the same versions.
        """
        commit = self._identify_commit(self.snapshot.version)
        if commit is None or commit != self._commit:
            return False
        if not latest:
            return True
        try:
            self._table.update_incremental()
            if self._table.version() != self.snapshot.version:
                self._commit = self._identify_commit(self._table.version())
                self.snapshot = make_snapshot(self._table, *self._where)
        except BaseException as error:  # such as a log that was cleaned up: everything is read anew
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            return False
        return True

    def _identify_commit(self, version: int | None) -> object:
        """Return what identifies the file of a commit, or of a checkpoint if that is gone; None if there is neither."""
        root, filesystem, _ = self._where
        folder = Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem)
        for suffix in ("json", "checkpoint.parquet"):
            with suppress(StorageError), folder.open(f"{version:020}.{suffix}") as source:
                return source.identity
        return None


def _wrap(error: BaseException, path: str) -> StorageError:
    """Return the error for an exception of deltalake, without its backtrace."""
    reason = _BACKTRACE.split(str(error), maxsplit=1)[0].strip() or type(error).__name__
    return StorageError(f"cannot read the Delta table: {reason}", path=path)


# Settings of deltalake that obstore does not have: of a lock for commits to S3, and of renaming.
_OF_DELTALAKE = frozenset({
    *("aws_s3_locking_provider", "aws_s3_allow_unsafe_rename", "mount_allow_unsafe_rename", "allow_unsafe_rename"),
    *("delta_dynamo_table_name", "delta_dynamo_max_elapsed_request_time", "delta_dynamo_override_owner_name"),
    *("aws_force_credential_load", "aws_s3_pool_idle_timeout_seconds", "aws_sts_pool_idle_timeout_seconds"),
})  # fmt: skip


def _is_of_deltalake(name: object) -> bool:
    setting = str(name).lower()
    return setting in _OF_DELTALAKE or setting.endswith("_dynamodb")


def format_settings(options: Mapping[str, object]) -> dict[str, str] | None:
    """Return settings as deltalake takes them, all as texts; None for none."""
    settings = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    return settings or None
