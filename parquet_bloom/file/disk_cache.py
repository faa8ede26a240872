"""On-disk cache of footers and filters, shared by processes and kept between runs."""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple, TypeVar

from ..core.hash.xxh64 import hash_one
from ..errors import ParquetBloomError
from ..metadata.footer import TAIL_BYTES, Footer
from ..redaction import redacted
from ..storage import DATED, FileIdentity, RemoteIdentity, stat_files
from ..storage.local import system_calls
from ..storage.local.system_calls import keeps_change_times
from ..util.messages import logger
from .metadata_cache import DEFAULT_BYTES, CachedFooter, MetadataCache, distinct

log = logger("parquet_bloom.storage")

DISK_BYTES = 1 << 30

_NAME = "footers-3.sqlite"  # 3: the version of the record layout
_CHECKSUM = struct.Struct("<Q")
# Lengths of identity and footer in bytes; the footer's offset; number of filter headers; number of other ranges.
_HEADER = struct.Struct("<IIQII")
_BATCH_SIZE = 512  # footers that are written together
_PENDING = 64  # the latest footers, which wait: the headers of their filters may still be read


class DiskMetadataCache(MetadataCache, AbstractContextManager["DiskMetadataCache", None]):
    """Cache of footers and filter headers in memory, backed by a folder that many processes may share.

    For objects in a store it also keeps the filters that were read, but never pages.

    A local file is identified by its real path, inode, size and times (to the nanosecond), not by its device, whose
    number may change at a reboot. The time of its last change of any kind is decisive, as no program can set it: a file
    that was replaced or written to has another identity whatever its size and modification time are. Files of file
    systems without such a time (FAT, FUSE, SMB) stay in memory only. Objects are identified by path, size and etag;
    without an etag, or with a weak one, they are not cached at all.

    Each record has a checksum over the footer and the identity of its file. A record that does not match, or cannot be
    decoded, is ignored, and the footer is read from its file. A folder that cannot be used, and files that cannot be
    kept, cost speed, but are never an error: the logger `parquet_bloom.storage` reports each once.

    Parameters
    ----------
    path : the folder; created if necessary, for this user alone, since footers hold smallest and largest values. It
        must not be writable for others. On a network file system it serves the processes of one host.
    disk_bytes : approximate limit of its file; the least recently used footers are dropped first.
    max_bytes : limit of the in-memory cache, by estimate.

    Notes
    -----
    May be used by many threads and processes, and passed to other processes. `prune` writes at its end; otherwise
    footers are written some hundred at a time, and by `flush` or `close`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, disk_bytes: int = DISK_BYTES, max_bytes: int = DEFAULT_BYTES
    ) -> None:
        super().__init__(max_bytes)
        self.path = os.path.abspath(os.fsdecode(path))
        self.disk_bytes = disk_bytes
        self._store = RecordStore(self.path, _NAME, disk_bytes)
        # Files used since the last flush, each with the extras that are already on disk (-1: not even the footer is).
        # Headers and filters are read after the footer was cached.
        self._pending: dict[Hashable, tuple[_RecordKey, CachedFooter, int]] = {}
        self._warned = False

    def __repr__(self) -> str:
        return redacted(f"<DiskMetadataCache {self.path!r}: {len(self):,} footers in memory>")

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (type(self), self.path, self.disk_bytes, self.max_bytes)

    def find(self, path: str, identity: Hashable) -> CachedFooter | None:
        cached = super().find(path, identity)
        if cached is not None and identity in self._pending:
            return cached
        key = _make_key(path, identity)
        if key is None:
            return cached
        if cached is None:
            cached = _decode(self._store.get(key.number), key)
            if cached is None:
                return None
            cached = super().keep(path, identity, cached)
        self._add_pending(identity, key, cached, _count_extras(cached))
        return cached

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        """Return the entries of the local files at some paths."""
        entries = super().find_by_paths(paths)
        for i, source in enumerate(stat_files(paths)):
            cached = None if entries[i] is not None or source is None else self.find(source.name, source.identity)
            if source is not None and cached is not None:
                entries[i] = source.identity, cached
        return entries

    def keep(self, path: str, identity: Hashable, cached: CachedFooter) -> CachedFooter:
        cached = super().keep(path, identity, cached)
        key = _make_key(path, identity)
        if key is not None and distinct(identity):
            self._add_pending(identity, key, cached, -1)
        elif not self._warned and (problem := _find_problem(path, identity)) is not None:
            self._warned = True
            log.warning("%s: it does not keep footers of files such as %s: %s", self.path, path, problem)
        return cached

    def _add_pending(self, identity: Hashable, key: _RecordKey, cached: CachedFooter, on_disk: int) -> None:
        with self._lock:
            if identity in self._pending:
                on_disk = self._pending[identity][2]
            self._pending[identity] = key, cached, on_disk
            is_full = len(self._pending) >= _BATCH_SIZE
        if is_full:
            self._write(_PENDING)

    def flush(self) -> None:
        self._write(0)

    def _write(self, num_remaining: int) -> None:
        """Write what is not on disk yet, except for the latest files."""
        with self._lock:
            identities = list(self._pending)[: max(0, len(self._pending) - num_remaining)]
            pending = [self._pending.pop(identity) for identity in identities]
        records = [
            (key.number, _encode(key.identity, cached))
            for key, cached, on_disk in pending
            if _count_extras(cached) > on_disk
        ]
        self._store.put([(number, record) for number, record in records if len(record) <= self.disk_bytes // 4])

    def clear(self) -> None:
        """Remove all entries, on disk too."""
        super().clear()
        with self._lock:
            self._pending.clear()
        self._store.clear()

    def close(self) -> None:
        """Write pending entries and close the file; a later use opens it again."""
        self.flush()
        self._store.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _unpickle(kind: type[DiskMetadataCache], path: str, disk_bytes: int, max_bytes: int) -> DiskMetadataCache:
    return kind(path, disk_bytes=disk_bytes, max_bytes=max_bytes)


class _RecordKey(NamedTuple):
    """The key of a file's record; it depends on the path alone, so that a new state of the file replaces the old one.

    Attributes
    ----------
    number : the record's number.
    identity : the file's path and state.
    size : of the file.
    """

    number: int
    identity: bytes
    size: int


def _make_key(path: str, identity: Hashable) -> _RecordKey | None:
    """Return the key of a file's record; None for a file that is not cached on disk."""
    if isinstance(identity, FileIdentity):
        real = os.path.realpath(path)
        if not keeps_change_times(real, identity.device):
            return None
        name, state = os.fsencode(real), f"file {identity[1:]}"
    elif isinstance(identity, RemoteIdentity) and distinct(identity):
        version = identity.etag or identity.modified_ns
        name, state = os.fsencode(identity.path), f"{identity.filesystem} {identity.size} {version!r}"
    else:
        return None
    number = hash_one(name) - (1 << 63)  # SQLite's numbers are signed
    return _RecordKey(number, b"%b\0%b" % (name, state.encode()), identity.size)


def _find_problem(path: str, identity: Hashable) -> str | None:
    """Return why a file is not cached on disk; None if it will be later, as it has just been changed."""
    if isinstance(identity, FileIdentity):
        if not keeps_change_times(os.path.realpath(path), identity.device):
            return "their file system does not tell when a file was changed last"
    elif not isinstance(identity, RemoteIdentity):
        return "their file system does not tell one version of a file from another"
    elif not distinct(identity) and (identity.etag is not None or identity.filesystem != DATED):
        return "their store gives no strong etag"
    return None


def _count_extras(cached: CachedFooter) -> int:
    """Return the amount of data besides the footer: headers, and bytes of filters."""
    return len(cached.filter_headers) + cached.extents.num_bytes


def _encode(identity: bytes, cached: CachedFooter) -> bytes:
    headers = dict(cached.filter_headers)  # other threads may add to them
    extents = _filter_extents(cached)
    footer = cached.footer
    header = _HEADER.pack(len(identity), len(footer.data), footer.start, len(headers), len(extents))
    tables = [_positions_struct(len(headers), "H").pack(*headers, *map(len, headers.values()))]
    tables.append(_positions_struct(len(extents), "I").pack(*extents, *map(len, extents.values())))
    body = b"".join([header, identity, footer.data, *tables, *headers.values(), *extents.values()])
    return _CHECKSUM.pack(hash_one(body)) + body


def _filter_extents(cached: CachedFooter) -> dict[int, bytes]:
    """Return the ranges, by offset, without any that holds pages: of a table's data, only the footer is stored."""
    pages = cached.footer.data_ranges()
    extents: dict[int, bytes] = {}
    for offset, data in cached.extents.items():
        if not ((pages[:, 0] < offset + len(data)) & (pages[:, 1] > offset)).any():
            extents[offset] = data.tobytes()
    return extents


def _positions_struct(count: int, length_format: str) -> struct.Struct:
    """Return the layout of a table of ranges: their offsets in the file, then their lengths."""
    return struct.Struct(f"<{count}Q{count}{length_format}")


def _decode(record: bytes | None, key: _RecordKey) -> CachedFooter | None:
    """Decode the record of a file; None if it belongs to another file or is damaged."""
    if record is None or len(record) < _CHECKSUM.size + _HEADER.size:
        return None
    body = memoryview(record)[_CHECKSUM.size :]
    if hash_one(body) != _CHECKSUM.unpack_from(record)[0]:
        return None
    identity_bytes, footer_bytes, start, num_headers, num_extents = _HEADER.unpack_from(body)
    footer_start = _HEADER.size + identity_bytes
    end = footer_start + footer_bytes
    if body[_HEADER.size : footer_start] != key.identity or start + footer_bytes + TAIL_BYTES != key.size:
        return None
    try:
        cached = CachedFooter(Footer(bytes(body[footer_start:end]), start))
        tables = []
        for count, length_format in ((num_headers, "H"), (num_extents, "I")):
            positions = _positions_struct(count, length_format)
            numbers = positions.unpack_from(body, end)
            tables.append(zip(numbers[:count], numbers[count:], strict=True))
            end += positions.size
        for offset, length in tables[0]:
            cached.filter_headers[offset] = bytes(body[end : end + length])
            end += length
        for offset, length in tables[1]:
            cached.extents.add(offset, bytes(body[end : end + length]))
            end += length
    except (ParquetBloomError, struct.error):
        return None
    return cached


T = TypeVar("T")


_WAIT = 0.5  # seconds to wait for other processes; records that cannot be written by then are dropped
_WAITS = 4  # after so many consecutive timeouts the file is not used any more
_HOUR = 3600  # resolution of the time of last use
_SPARE = 10  # percent of free space after eviction
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS uses (number INTEGER PRIMARY KEY, hour INTEGER NOT NULL, num_bytes INTEGER NOT NULL);
"""
_GET = "SELECT record, hour FROM records NATURAL JOIN uses WHERE number = ?"
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NOT_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})

_inherited: list[sqlite3.Connection] = []  # connections of the parent process of a fork: they must not be closed here


class RecordStore:
    """Records by number, with eviction of the least recently used.

    Methods do not raise: records that cannot be read are missing, records that cannot be written are dropped, and the
    logger `parquet_bloom.storage` reports the reason once. An invalid database file is replaced by an empty one.

    Parameters
    ----------
    folder : created if missing, for this user only. A folder that other users may write to is not used.
    name : name of the file in it.
    max_bytes : approximate largest size of the file; its log takes a few MiB more.

    Raises
    ------
    StorageError
        On Windows, where the owner of a file cannot be determined.
    """

    def __init__(self, folder: str, name: str, max_bytes: int):
        system_calls.require_posix(folder)
        self._folder = os.path.abspath(folder)
        self._path = os.path.join(self._folder, name)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._used: list[tuple[int]] = []  # records that were read, and whose stored hour of last use is an earlier one
        self._usable = self._writable = True
        self._recreated = False
        self._waits = 0
        self._warned = False

    def get(self, number: int) -> bytes | None:
        """Return the record of a number, or None."""

        def read(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(_GET, (number,)).fetchone()
            if row is None or not isinstance(row[0], bytes):
                return None
            if _read_integer(row[1]) < _hour():
                self._used.append((number,))
            return row[0]

        return self._run(read, None)

    def put(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Write records, replacing those of the same numbers, and store which records were used."""

        def write(connection: sqlite3.Connection) -> None:
            hour = _hour()
            used, self._used = self._used, []
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(f"UPDATE uses SET hour = {hour} WHERE number = ?", used)
                connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?)", records)
                sizes = [(number, hour, len(record)) for number, record in records]
                connection.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?, ?)", sizes)
                self._evict(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

        if self._writable and (records or self._used):
            self._run(write, None)

    def clear(self) -> None:
        """Drop all records."""

        def empty(connection: sqlite3.Connection) -> None:
            connection.executescript("BEGIN IMMEDIATE; DELETE FROM records; DELETE FROM uses; COMMIT;")

        if self._writable:
            self._run(empty, None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._close()

    def _evict(self, connection: sqlite3.Connection) -> None:
        size, free, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _SIZES)
        excess = (size - free) * page - self._max_bytes
        if excess <= 0:
            return
        excess += self._max_bytes * _SPARE // 100
        dropped = []
        for number, num_bytes in connection.execute("SELECT number, num_bytes FROM uses ORDER BY hour, rowid"):
            dropped.append((number,))
            excess -= _read_integer(num_bytes)
            if excess <= 0:
                break
        connection.executemany("DELETE FROM records WHERE number = ?", dropped)
        connection.executemany("DELETE FROM uses WHERE number = ?", dropped)

    # ------------------------------------------------------------------------------------------------- the connection

    def _run(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        if self._process != os.getpid():
            self._reset_after_fork()
        with self._lock:
            if not self._usable:
                return otherwise
            try:
                if self._connection is None:
                    self._connection = self._connect()
                result = work(self._connection)
                self._waits = 0
                return result
            except (sqlite3.Error, OSError) as error:
                self._handle_failure(error, getattr(error, "sqlite_errorcode", None))
            except UnicodeDecodeError as error:  # SQLite's message about a broken schema has its text
                self._handle_failure(error, sqlite3.SQLITE_CORRUPT)
            return otherwise

    def _reset_after_fork(self) -> None:
        """Start without a connection after a fork: neither connections nor held locks can be shared across one."""
        if self._connection is not None:
            _inherited.append(self._connection)
        self._connection, self._lock, self._process = None, threading.Lock(), os.getpid()

    def _connect(self) -> sqlite3.Connection:
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            self._require_private()
            with suppress(FileExistsError):  # only SQLite opens an existing file: closing it releases its locks
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            return self._open("mode=rw", _SCHEMA)
        except (sqlite3.OperationalError, OSError) as error:
            code = error.sqlite_errorcode & 0xFF if isinstance(error, sqlite3.Error) else sqlite3.SQLITE_CANTOPEN
            if code not in _NOT_WRITTEN or isinstance(error, _NotPrivateError) or not os.path.isfile(self._path):
                raise
            # A read-only folder has no room for a write-ahead log, and needs none: nothing is written.
            connection = self._open("mode=ro&immutable=1")
            self._writable = False
            self._warn(f"it is used read-only: {error}")
            return connection

    def _open(self, mode: str, script: str = "") -> sqlite3.Connection:
        uri = "file:" + "".join(f"%{byte:02x}" for byte in os.fsencode(self._path))
        connection = sqlite3.connect(
            f"{uri}?{mode}", _WAIT, uri=True, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            if script:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = wal")
                connection.execute("PRAGMA synchronous = normal")
                connection.execute("PRAGMA journal_size_limit = 4194304")
                connection.executescript(script)
            connection.execute("SELECT count(*) FROM (SELECT 1 FROM records, uses LIMIT 1)").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_private(self) -> None:
        """Refuse files that another user could have written: a false record would lose rows."""
        for path in (self._folder, self._path):
            try:
                status = os.stat(path) if path == self._folder else os.lstat(path)
            except FileNotFoundError:
                continue
            is_owned = status.st_uid in (os.geteuid(), 0)
            is_private = not status.st_mode & 0o022 or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
            if not (is_owned and is_private) or (path == self._path and not stat.S_ISREG(status.st_mode)):
                raise _NotPrivateError(f"other users may have written {path}")

    def _handle_failure(self, error: Exception, code: int | None) -> None:
        if code is None and isinstance(error, sqlite3.ProgrammingError):  # closed at the exit of the interpreter
            self._usable = False
            return
        code = None if code is None else code & 0xFF
        self._waits += code in _BUSY
        if code in _BUSY and self._waits < _WAITS:
            log.debug("%s: %s", self._path, error)
        elif code in _BROKEN and self._writable and not self._recreated:
            self._recreate(error)
        elif code in _NOT_WRITTEN and self._connection is not None and self._writable:
            self._writable = False
            self._warn(f"it is not written any more: {error}")
        else:
            self._usable = False
            self._warn(f"it is not used: {error}")
            self._close()

    def _recreate(self, error: Exception) -> None:
        """Replace the broken file. Processes that have it open keep using it; at worst the new one breaks as well."""
        self._recreated = True
        self._warn(f"it is broken, and was replaced by an empty one: {error}")
        self._close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self._path + suffix)

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s: %s", self._path, " ".join(problem.split()))

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) == os.getpid():
            self._close()


_SIZES = ("page_count", "freelist_count", "page_size")


class _NotPrivateError(OSError):
    pass


class _BrokenNumberError(sqlite3.DatabaseError):
    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def _read_integer(value: object) -> int:
    """Return a stored integer; a broken file may hold anything in its place."""
    if not isinstance(value, int):
        raise _BrokenNumberError(f"{value!r} is stored in place of an integer")
    return value


def _hour() -> int:
    return int(time.time()) // _HOUR
