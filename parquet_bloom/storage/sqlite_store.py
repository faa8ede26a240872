"""Cache of numbered records in a file that many processes can use at once. It may lose records, but never fails.

The file is an SQLite database with a write-ahead log: readers never wait, and a process that dies loses at most what it
was writing. Callers must validate the records that they read.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ..util.messages import logger
from .local import system_calls

T = TypeVar("T")

log = logger("parquet_bloom.storage")

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
