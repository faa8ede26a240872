"""Writing on the local file system: atomically, and without harm to whoever else writes there."""

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
    """On the local file system, in place or to another path.

    In place, the new file is exchanged with the old one, which then stands under a temporary name and shows
    whether it is the one that was read, and whether anybody may still write to it. That name tells that it is of an
    exchange: should the process be killed before it has looked, nobody takes what stands there for its own. Where names
    cannot be exchanged, the target is looked at just before it is replaced; a writer who replaces it between these two
    system calls is not noticed and loses.

    Symbolic links are followed: the file that they lead to is replaced. Other hard links keep the old file. Owner,
    group, mode, access list and extended attributes are the old file's; where this user may not give the new one its
    owner or group nothing is changed.

    With `new` nothing is replaced or followed: the name is taken if it is free.
    """

    def __init__(self, source: Source | None, target: str | None, new: bool = False) -> None:
        libc.require_posix(target or (source.name if source else ""))
        source_path = None if source is None else source.path
        path = target or (source.name if source else "")
        super().__init__(source, path)
        # Without a target it is the opened file, wherever the link that led to it may point by now.
        self._real = source_path if target is None and source_path else os.path.realpath(path)
        if new:
            self._real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        self._new = new
        self._in_place = self._real == source_path
        self._descriptor = self._lock_descriptor = -1  # of the new file: for writing, and for its lock
        self._temporary = ""
        self._ours = (0, 0)
        self._old_identity: FileIdentity | None = None  # what stood in the target's place at the beginning
        self._written: FileIdentity | None = None  # the new file, when all was written
        self._may_be_exchanged = False
        paths = dict.fromkeys(map(hadoop_crc.checksum_path, (self._real, os.path.abspath(path))))
        self._sidecars = [hadoop_crc.Sidecar(path) for path in paths]

    def _begin(self) -> None:
        folder = os.path.dirname(self._real)
        if not os.path.isdir(folder):
            raise StorageError(f"there is no folder {folder}", path=self.path, errno=errno.ENOENT)
        require_writable(folder, "its folder", os.stat(folder), self.path)
        old = self._old_target()
        mode = 0o600  # nobody else sees anything before the old file's mode and access lists hold
        if old is None:
            mode = 0o666
            if isinstance(self._source, LocalSource):
                mode = stat.S_IMODE(os.fstat(self._source.fileno()).st_mode) & 0o777
        self._descriptor, self._lock_descriptor, self._temporary = temporary.create_locked(self._real, mode)
        self._ours = _inode(self._descriptor)
        if old is not None:
            temporary.keep_attributes(old, self._descriptor, self.path)

    def _old_target(self) -> int | str | None:
        """The file to be replaced: its descriptor or its path."""
        try:
            status = os.lstat(self._real)
        except FileNotFoundError:
            if self._in_place:
                raise ConcurrentChangeError("it was removed meanwhile", path=self.path) from None
            return None
        self._old_identity = FileIdentity.of(status)
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
        copy.begin_flush(self._descriptor, length)

    def _write(self, data: memoryview) -> None:
        copy.write_at(self._descriptor, data, self._position)

    def _commit(self) -> None:
        os.fsync(self._descriptor)
        self._written = FileIdentity.of(os.fstat(self._descriptor))
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
            self._check_source()  # as late as can be: nothing tells of a change between this and the next call
            os.replace(self._temporary, self._real)
        self._refresh_written()
        try:
            flush(os.path.dirname(self._real))
        except OSError as error:
            # There is no way back from here that would not itself be a change.
            action = f"it was {'written' if self._new else 'replaced'}, but its folder cannot be flushed"
            raise StorageError.wrap(error, action, self.path) from error

    def _end_writing(self) -> None:
        """Close the new file before it has its name, so that who takes it for what stands there meets no writer."""
        if self._lock_descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _take_name(self) -> None:
        """Give the new file its name, unless there is one."""
        try:
            rename.rename_new(self._temporary, self._real)
        except FileExistsError:
            if not self._is_ours():  # NFS may do a thing twice, and answer for the second time
                raise self._exists_error() from None

    def _exists_error(self) -> ConcurrentChangeError:
        return ConcurrentChangeError("there is one already", path=self.path)

    def _read_old_checksums(self, sidecar: hadoop_crc.Sidecar) -> hadoop_crc.Checksums | None:
        """The checksums whose front the new file shares."""
        if self._source is None or self._source.path is None:
            return None
        path = sidecar.path if self._in_place else hadoop_crc.checksum_path(self._source.path)
        return hadoop_crc.read(path, self._source.size)

    def _check_source(self) -> None:
        """Refuse if what was copied may be a mixture of two states, or is not what stands there now."""
        if self._source is None:
            return
        self._source.check_unchanged()
        if not self._in_place:
            return
        try:
            now = FileIdentity.of(os.lstat(self._real))
        except FileNotFoundError:
            raise ConcurrentChangeError("it was removed meanwhile", path=self.path) from None
        if now != self._source.identity:
            raise ConcurrentChangeError("another writer changed it meanwhile", path=self.path)

    def _exchange(self) -> bool:
        """Exchange the new file with the old one; False where that cannot be done."""
        assert isinstance(self._source, LocalSource)
        self._rename_temporary(temporary.displaced_name(self._temporary))
        with self._exclusive(self._source.fileno()), lease.hold_lease(self._source.fileno()) as granted:
            self._check_source()
            self._may_be_exchanged = True  # said before it is done: an error or an interrupt may follow the deed
            try:
                rename.exchange(self._temporary, self._real)
            except OSError as error:
                self._check_source()
                if error.errno in rename.UNSUPPORTED:
                    return False
                raise
            self._unlock()
            # Nobody can open the old file by its name any more: who did not begin to by now will not write to it.
            if granted.refused or granted.has_waiting_writer:
                raise ConcurrentChangeError("another writer has it open", path=self.path)
            if not self._is_source(self._temporary):
                raise ConcurrentChangeError("another writer replaced it meanwhile", path=self.path)
        return True

    @contextmanager
    def _exclusive(self, old: int) -> Iterator[None]:
        """Keep other writers of this package from exchanging the same old file, between the look at it and the deed.

        Without it one of two would exchange what the other one has put there, and put it back: for that moment readers
        would see a file without what was said to be in it. Nobody waits: who comes second has lost.
        """
        try:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConcurrentChangeError("another writer is changing it meanwhile", path=self.path) from None
        except OSError:  # some file systems have no locks, or none for what is open for reading
            yield
            return
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(old, fcntl.LOCK_UN)

    def _rename_temporary(self, name: str) -> None:
        """Call the new file something else, as long as it has not taken its place."""
        before, self._temporary = self._temporary, name  # in this order: an interrupt may follow the deed
        try:
            os.rename(before, name)
        except BaseException:
            if not os.path.lexists(name):
                self._temporary = before
            raise

    def _is_source(self, path: str) -> bool:
        """Whether the file at `path` is the one that was read. Being renamed changed its `changed_ns`."""
        identity = None if self._source is None else self._source.identity
        try:
            current = FileIdentity.of(os.lstat(path))
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
        """If the exchange has taken place, undo it: what stands under the temporary name goes back.

        A file that comes out in return and is neither ours nor the one put in before is newer still, and goes
        back in turn.
        """
        expected = self._ours  # what stands in the file's place, as far as this process knows
        try:
            current = _inode(self._temporary)
            while current != expected:
                rename.exchange(self._temporary, self._real)
                came_out = _inode(self._temporary)
                if came_out == expected:
                    return
                expected, current = current, came_out
        except FileNotFoundError:
            return  # replaced without an exchange, or removed meanwhile by somebody who wanted it gone
        except OSError as error:
            path, self._temporary = self._temporary, ""
            raise StorageError.wrap(error, f"cannot be cleared up, see {path}", self.path) from error

    def _is_ours(self) -> bool:
        """Whether the new file stands in its place."""
        try:
            return _inode(self._real) == self._ours
        except OSError:
            return False

    def _is_ours_as_written(self) -> bool:
        """The same, and nothing has happened to it since."""
        try:
            return FileIdentity.of(os.lstat(self._real)) == self._written
        except OSError:
            return False

    def _refresh_written(self) -> None:
        """Note the new file's state once more: getting its name has changed when it was changed."""
        with suppress(OSError):
            now = FileIdentity.of(os.lstat(self._real))
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
        """Unlock the new file, which has its name by now: its next writer may be here already."""
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
    """Refuse what this user may not write, and what nobody may: root, too, should be asked first."""
    problem = None
    if not status.st_mode & 0o222:
        problem = f"no write permission: the mode of {what} is {stat.S_IMODE(status.st_mode):04o}"
    elif not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        problem = f"no write permission: {what} may not be written by this user"
    if problem:
        raise StorageError(problem, path=name, errno=errno.EACCES)


def _inode(file: int | str) -> tuple[int, int]:
    """Which file it is, whatever its name."""
    status = os.lstat(file) if isinstance(file, str) else os.fstat(file)
    return status.st_dev, status.st_ino


def flush(folder: str) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
