"""Atomic writing on the local file system that does not overwrite the work of concurrent writers."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...errors import ConcurrentChangeError, StorageError
from ..rewrite import Rewrite
from ..source import Source
from . import copy, hadoop_crc, lease, libc, rename, temporary
from .libc import fcntl
from .source import FileIdentity, LocalSource


class LocalRewrite(Rewrite):
    """Rewrite on the local file system, in place or to another path.

    In place, the new file is exchanged with the old one, which then has a temporary name. Only then is it checked that
    it is the file that was read, and that no other process may still write to it. Its name marks it as the result of an
    exchange, so that after a crash before this check nobody takes it for a file of this package. Where names cannot be
    exchanged, the target is checked just before it is replaced; a change between these two system calls is lost.

    Symbolic links are followed: their target is replaced. Other hard links keep the old file. The new file
    gets owner, group, mode, access control list and extended attributes of the old one; if this user may not set owner
    or group, nothing is changed.

    With `new` nothing is replaced and no link is followed: the file is created only if the name is free.
    """

    def __init__(self, source: Source | None, target: str | None, new: bool = False) -> None:
        libc.require_posix(target or (source.name if source else ""))
        source_path = None if source is None else source.path
        path = target or (source.name if source else "")
        super().__init__(source, path)
        # Without a target the opened file is replaced, wherever the link to it points by now.
        self._real = source_path if target is None and source_path else os.path.realpath(path)
        if new:
            self._real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        self._new = new
        self._in_place = self._real == source_path
        self._descriptor = self._lock_descriptor = -1  # of the new file: for writing, and for holding its lock
        self._temporary = ""
        self._ours = (0, 0)
        self._old_identity: FileIdentity | None = None  # of the target at the beginning
        self._written: FileIdentity | None = None  # of the new file, after everything was written
        self._may_be_exchanged = False
        paths = dict.fromkeys(map(hadoop_crc.checksum_path, (self._real, os.path.abspath(path))))
        self._sidecars = [hadoop_crc.Sidecar(path) for path in paths]

    def _begin(self) -> None:
        folder = os.path.dirname(self._real)
        if not os.path.isdir(folder):
            raise StorageError(f"there is no folder {folder}", path=self.path, errno=errno.ENOENT)
        require_writable(folder, "its folder", os.stat(folder), self.path)
        old = self._old_target()
        mode = 0o600  # no other user can open it before it has the old file's mode and access control list
        if old is None:
            mode = 0o666
            if isinstance(self._source, LocalSource):
                mode = stat.S_IMODE(os.fstat(self._source.fileno()).st_mode) & 0o777
        self._descriptor, self._lock_descriptor, self._temporary = temporary.create_locked(self._real, mode)
        self._ours = _inode(self._descriptor)
        if old is not None:
            temporary.keep_attributes(old, self._descriptor, self.path)

    def _old_target(self) -> int | str | None:
        """Return the descriptor or path of the file to replace, or None."""
        try:
            status = os.lstat(self._real)
        except FileNotFoundError:
            if self._in_place:
                raise ConcurrentChangeError("it was removed meanwhile", path=self.path) from None
            return None
        self._old_identity = FileIdentity.from_stat(status)
        if self._new:
            raise self._exists_error()
        if not stat.S_ISREG(status.st_mode):
            raise StorageError("it is not a regular file", path=self.path, errno=errno.EINVAL)
        require_writable(self._real, "it", status, self.path)
        if self._in_place and isinstance(self._source, LocalSource):
            return self._source.fileno()
        return self._real

    def _copy(self, source: Source, length: int) -> None:
        copy.copy_prefix(source, self._descriptor, length)

    def _write(self, data: memoryview) -> None:
        copy.write_at(self._descriptor, data, self._position)

    def _commit(self) -> None:
        os.fsync(self._descriptor)
        self._written = FileIdentity.from_stat(os.fstat(self._descriptor))
        for sidecar in self._sidecars:
            sidecar.prepare(self._read_old_checksums(sidecar), self._prefix, self._descriptor, self._position)
        self._end_writing()
        self._check_source()
        for sidecar in self._sidecars:
            sidecar.set_aside()
        if self._in_place and self._exchange():
            self._refresh_written()
            flush(os.path.dirname(self._real))
            return
        if self._new:
            self._take_name()
        else:
            self._check_source()  # as late as possible: a change between this and the next call is not noticed
            os.replace(self._temporary, self._real)
        self._refresh_written()
        try:
            flush(os.path.dirname(self._real))
        except OSError as error:
            # It cannot be undone here without another change.
            action = f"it was {'written' if self._new else 'replaced'}, but its folder cannot be flushed"
            raise StorageError.wrap(error, action, self.path) from error

    def _end_writing(self) -> None:
        """Close the new file before it gets its name, so that the next writer does not find it open for writing."""
        if self._lock_descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _take_name(self) -> None:
        """Rename the new file to its path, unless that exists."""
        try:
            rename.rename_new(self._temporary, self._real)
        except FileExistsError:
            if not self._is_ours():  # NFS may repeat a call, and return the error of the repetition
                raise self._exists_error() from None

    def _exists_error(self) -> ConcurrentChangeError:
        return ConcurrentChangeError("there is one already", path=self.path)

    def _read_old_checksums(self, sidecar: hadoop_crc.Sidecar) -> hadoop_crc.Checksums | None:
        """Return the checksums of the file whose first bytes are copied, or None."""
        if self._source is None or self._source.path is None:
            return None
        path = sidecar.path if self._in_place else hadoop_crc.checksum_path(self._source.path)
        return hadoop_crc.read(path, self._source.size)

    def _check_source(self) -> None:
        """Raise an error if the source changed while it was copied, or is not the current file any more."""
        if self._source is None:
            return
        self._source.check_unchanged()
        if not self._in_place:
            return
        try:
            now = FileIdentity.from_stat(os.lstat(self._real))
        except FileNotFoundError:
            raise ConcurrentChangeError("it was removed meanwhile", path=self.path) from None
        if now != self._source.identity:
            raise ConcurrentChangeError("another writer changed it meanwhile", path=self.path)

    def _exchange(self) -> bool:
        """Exchange the new file with the old one; return False where that is not supported."""
        assert isinstance(self._source, LocalSource)
        self._rename_temporary(temporary.displaced_name(self._temporary))
        with self._exclusive(self._source.fileno()), lease.hold_lease(self._source.fileno()) as granted:
            self._check_source()
            self._may_be_exchanged = True  # set before the call: an interrupt may follow it directly
            try:
                rename.exchange(self._temporary, self._real)
            except OSError as error:
                self._check_source()
                if error.errno in rename.UNSUPPORTED:
                    return False
                raise
            self._unlock()
            # Nobody can open the old file by its name any more, so no new writers can appear.
            if granted.refused or granted.has_waiting_writer:
                raise ConcurrentChangeError("another writer has it open", path=self.path)
            if not self._is_source(self._temporary):
                raise ConcurrentChangeError("another writer replaced it meanwhile", path=self.path)
        return True

    @contextmanager
    def _exclusive(self, old: int) -> Iterator[None]:
        """Lock the old file, so that no other writer of this package exchanges it between the check and the exchange.

        Otherwise one writer could displace the new file of another and restore it, and readers would see the wrong file
        for a moment. The second writer does not wait: it fails.
        """
        try:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConcurrentChangeError("another writer is changing it meanwhile", path=self.path) from None
        except OSError:  # some file systems have no locks, or none on read-only files
            yield
            return
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(old, fcntl.LOCK_UN)

    def _rename_temporary(self, name: str) -> None:
        """Rename the temporary file before it is moved to its place."""
        before, self._temporary = self._temporary, name  # in this order: an interrupt may directly follow the rename
        try:
            os.rename(before, name)
        except BaseException:
            if not os.path.lexists(name):
                self._temporary = before
            raise

    def _is_source(self, path: str) -> bool:
        """Return whether the file at `path` is the one that was read; the rename changed its `changed_ns`."""
        identity = None if self._source is None else self._source.identity
        try:
            current = FileIdentity.from_stat(os.lstat(path))
        except OSError:
            return False
        return isinstance(identity, FileIdentity) and current.same_bytes(identity)

    def _undo(self) -> None:
        try:
            if self._temporary:
                if self._may_be_exchanged:
                    self._put_back()
                with suppress(OSError):
                    os.unlink(self._temporary)
        finally:
            before = self._source.identity if self._source is not None and self._in_place else self._old_identity
            for sidecar in self._sidecars:
                sidecar.restore(self._real, before)
                sidecar.discard()
            self._close()

    def _put_back(self) -> None:
        """Undo the exchange, if it happened: move the file with the temporary name back.

        If this displaces a file that is neither ours nor the one just moved back, that file is newer and is moved back
        in turn.
        """
        expected = self._ours  # the file in place, as far as this process knows
        try:
            current = _inode(self._temporary)
            while current != expected:
                rename.exchange(self._temporary, self._real)
                came_out = _inode(self._temporary)
                if came_out == expected:
                    return
                expected, current = current, came_out
        except FileNotFoundError:
            return  # replaced without an exchange, or removed meanwhile by another process
        except OSError as error:
            path, self._temporary = self._temporary, ""
            raise StorageError.wrap(error, f"cannot be restored, see {path}", self.path) from error

    def _is_ours(self) -> bool:
        """Return whether the new file is in its place."""
        try:
            return _inode(self._real) == self._ours
        except OSError:
            return False

    def _is_ours_as_written(self) -> bool:
        """Return whether the new file is in its place and unchanged since it was written."""
        try:
            return FileIdentity.from_stat(os.lstat(self._real)) == self._written
        except OSError:
            return False

    def _refresh_written(self) -> None:
        """Update the identity of the new file: the rename changed its `changed_ns`."""
        with suppress(OSError):
            now = FileIdentity.from_stat(os.lstat(self._real))
            if self._written is not None and now.same_bytes(self._written):
                self._written = now

    def _tidy(self) -> None:
        for sidecar in self._sidecars:
            sidecar.install(self._is_ours_as_written)
            sidecar.discard()
        with suppress(OSError):
            os.unlink(self._temporary)  # the old file, after an exchange
        self._close()

    def _unlock(self) -> None:
        """Unlock the new file after it got its name: its next writer may be waiting."""
        descriptor, self._lock_descriptor = self._lock_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _close(self) -> None:
        descriptors = self._descriptor, self._lock_descriptor
        self._descriptor = self._lock_descriptor = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)


def require_writable(path: str, what: str, status: os.stat_result, name: str) -> None:
    """Raise StorageError if this user may not write, or if nobody may: root must not override a read-only mode."""
    problem = None
    if not status.st_mode & 0o222:
        problem = f"no write permission: the mode of {what} is {stat.S_IMODE(status.st_mode):04o}"
    elif not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        problem = f"no write permission: {what} may not be written by this user"
    if problem:
        raise StorageError(problem, path=name, errno=errno.EACCES)


def _inode(file: int | str) -> tuple[int, int]:
    """Return device and inode of a file, which do not depend on its name."""
    status = os.lstat(file) if isinstance(file, str) else os.fstat(file)
    return status.st_dev, status.st_ino


def flush(folder: str) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
