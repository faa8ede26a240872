"""Atomic writing on the local file system that does not overwrite the work of concurrent writers."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from ...core.hash.xxh64 import hash_one
from ...errors import ConcurrentChangeError, StorageError
from ..new_file import Rewrite
from ..paths import resolve_local_path
from ..source import Source
from . import copy_front, system_calls
from .local_source import FileIdentity, LocalSource
from .system_calls import fcntl

_SUFFIX, _DISPLACED = ".parquet_bloom.tmp", ".parquet_bloom.old"  # of one length: a name that fits can be either
_NAME = re.compile(
    rf"\.(.*)\.[0-9a-f]{{8}}([0-9a-f]{{8}})(?:{re.escape(_SUFFIX)}|({re.escape(_DISPLACED)}))", re.DOTALL
)
_IDENTITY = struct.Struct("<QQqq")
_MAX_NAME_BYTES = 255


def name_beside(path: str, separator: str = os.sep) -> str:
    """Return an unused name in the folder of `path`. Its leading dot hides it from listings by Spark and pyarrow."""
    folder, slash, name = path.rpartition(separator)
    name = name.lstrip(".")
    tail = f".{secrets.token_hex(8)}{_SUFFIX}"
    while len(os.fsencode(f".{name}{tail}")) > _MAX_NAME_BYTES:
        name = name[:-1]
    return f"{folder}{slash}.{name}{tail}"


def displaced_name(temporary: str, source: FileIdentity) -> str:
    """Return the name that a temporary file gets just before it is exchanged with the target.

    A file of such a name may not be from this package: the exchange may have displaced a file that another writer put
    there at that moment. So the name has a mark of the file that was read, and is to be displaced.
    """
    return f"{temporary.removesuffix(_SUFFIX)[:-8]}{_mark(source):08x}{_DISPLACED}"


def _mark(identity: FileIdentity) -> int:
    """Return 32 bits that tell a file with its bytes from others; a rename does not change them."""
    return hash_one(_IDENTITY.pack(*identity[:4])) & 0xFFFFFFFF


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file."""
    return _NAME.fullmatch(name) is not None


def displaced_from(name: str) -> str | None:
    """Return the (possibly shortened) name of the target that an exchange displaced; None for other temporary files."""
    match = _NAME.fullmatch(name)
    return match[1] if match and match[3] else None


def is_of_exchange(path: str) -> bool:
    """Return whether a file with such a name is known to be the old one, exchanged, or the new one, not exchanged yet.

    It is if itself, or the target, is the file that the writer had read: no other writer's file is displaced then.
    """
    folder, name = os.path.split(path)
    match = _NAME.fullmatch(name)
    if match is None or not match[3]:
        return False
    for one in (path, os.path.join(folder, match[1])):
        with suppress(OSError):
            if _mark(FileIdentity.from_stat(os.lstat(one))) == int(match[2], 16):
                return True
    return False


def create_locked(path: str, mode: int) -> tuple[int, int, str]:
    """Create an empty temporary file beside `path`, locked so that `leftovers` can tell whether its writer is alive.

    A second, read-only descriptor holds the lock after the first one is closed.
    The second descriptor is -1 where read-only files cannot be locked; the first one then holds the lock.
    """
    descriptor, name = _create_file(path, mode)
    lock_descriptor = -1
    try:
        lock_descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if os.path.samestat(os.fstat(lock_descriptor), os.fstat(descriptor)) and _lock(lock_descriptor):
            return descriptor, lock_descriptor, name
    except OSError:  # its mode may not let the owner read it
        pass
    if lock_descriptor >= 0:
        os.close(lock_descriptor)
    _lock(descriptor)
    return descriptor, -1, name


def _create_file(path: str, mode: int) -> tuple[int, str]:
    name = name_beside(path)
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), name


def _lock(descriptor: int) -> bool:
    """Lock a file for its writer; return False on file systems without locks, or without locks on read-only files."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def keep_attributes(old: int | str, descriptor: int, name: str) -> None:
    """Copy owner, group, mode and attributes of the old file to a new one that only its writer can open so far.

    Permissions come last, and access control lists before the mode: with a list, the group bits of the mode are
    the mask of the list, and without it they would for a moment grant the group what the list denies. A list that the
    new file inherited from its folder is removed if the old file has none.

    Parameters
    ----------
    old : descriptor of the old file, or its path; a link is not followed.
    name : path of the file, for errors.

    Raises
    ------
    StorageError
        If this user may not set the owner or the group, which would change who has access.
    OSError
        If its mode, access control list or `user` attributes cannot be copied, or it is not a regular file. Other
        attributes, such as security labels, are copied if this user may.
    """
    follow: dict[str, bool] = {} if isinstance(old, int) else {"follow_symlinks": False}
    status, current = os.stat(old, **follow), os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file any more")
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except PermissionError:
            what = (
                f"its owner, user {status.st_uid},"
                if current.st_uid != status.st_uid
                else f"its group, {status.st_gid},"
            )
            text = f"{what} cannot be kept by this user; run as its owner or as root, or write the result elsewhere"
            raise StorageError(text, path=name, errno=errno.EPERM) from None
    _keep_extended(old, descriptor, follow)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.fchmod(descriptor, mode)


def _keep_extended(old: int | str, descriptor: int, follow: Mapping[str, bool]) -> None:
    try:
        names = os.listxattr(old, **follow) if hasattr(os, "listxattr") else []
        current = os.listxattr(descriptor) if hasattr(os, "listxattr") else []
    except OSError:  # none on this file system
        return
    for name in names:
        try:
            os.setxattr(descriptor, name, os.getxattr(old, name, **follow))
        except OSError as error:
            if error.errno == errno.ENODATA:  # it was removed meanwhile
                continue
            if name == _ACCESS_LIST or name.startswith("user.") or error.errno not in _NOT_OURS:
                raise
    if _ACCESS_LIST in current and _ACCESS_LIST not in names:
        os.removexattr(descriptor, _ACCESS_LIST)


_ACCESS_LIST = "system.posix_acl_access"
_NOT_OURS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL})


def leftovers(folder: str | os.PathLike[str]) -> list[str]:
    """Return the temporary files directly in a local folder whose writer is gone, sorted.

    They may be deleted: the target is complete without them. The exception are the names that `displaced_from`
    recognizes: a process that was killed after it displaced the file of a concurrent writer, and before it restored it,
    leaves the file of that writer under such a name.
    """
    root = resolve_local_path(folder)
    paths = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                candidate = is_temporary(entry.name) and entry.is_file(follow_symlinks=False)
                if candidate and not _in_use(entry.path):
                    paths.append(entry.path)
    except OSError as error:
        raise StorageError.wrap(error, "cannot list the folder", root) from error
    return sorted(paths)


def leftovers_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the leftover temporary files in a folder and below it; links to folders are not followed."""

    def fail(error: OSError) -> None:
        raise StorageError.wrap(error, "cannot list the folder", error.filename) from error

    folders = os.walk(resolve_local_path(folder), onerror=fail)
    return sorted(path for root, _, files in folders if any(map(is_temporary, files)) for path in leftovers(root))


def delete_leftover(path: str) -> bool:
    """Delete a temporary file whose writer is gone; return False if it is in use or already deleted."""
    if _in_use(path):
        return False
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError.wrap(error, "cannot delete it", path) from error
    return True


def _in_use(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True  # its writer has just finished
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return False


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
        system_calls.require_posix(target or (source.name if source else ""))
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
        self._may_be_exchanged = False

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
        self._descriptor, self._lock_descriptor, self._temporary = create_locked(self._real, mode)
        self._ours = _inode(self._descriptor)
        if old is not None:
            keep_attributes(old, self._descriptor, self.path)

    def _old_target(self) -> int | str | None:
        """Return the descriptor or path of the file to replace, or None."""
        try:
            status = os.lstat(self._real)
        except FileNotFoundError:
            if self._in_place:
                raise ConcurrentChangeError("it was removed meanwhile", path=self.path) from None
            return None
        if self._new:
            raise self._exists_error()
        if not stat.S_ISREG(status.st_mode):
            raise StorageError("it is not a regular file", path=self.path, errno=errno.EINVAL)
        require_writable(self._real, "it", status, self.path)
        if self._in_place and isinstance(self._source, LocalSource):
            return self._source.fileno()
        return self._real

    def _copy(self, source: Source, length: int) -> None:
        copy_front.copy_prefix(source, self._descriptor, length)

    def _copy_range(self, source: Source, offset: int, length: int) -> None:
        copy_front.copy_range(source, offset, length, self._descriptor, self._position)

    def _write(self, data: memoryview) -> None:
        copy_front.write_at(self._descriptor, data, self._position)

    def _commit(self) -> None:
        os.fsync(self._descriptor)
        self._end_writing()
        self._check_source()
        self._remove_checksums()
        if self._in_place and self._exchange():
            flush(os.path.dirname(self._real))
            return
        if self._new:
            self._take_name()
        else:
            self._check_source()  # as late as possible: a change between this and the next call is not noticed
            os.replace(self._temporary, self._real)
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
            system_calls.rename_new(self._temporary, self._real)
        except FileExistsError:
            if not self._is_ours():  # NFS may repeat a call, and return the error of the repetition
                raise self._exists_error() from None

    def _exists_error(self) -> ConcurrentChangeError:
        return ConcurrentChangeError("there is one already", path=self.path)

    def _remove_checksums(self) -> None:
        """Remove the checksums that Hadoop keeps beside the file: its readers fail on stale ones, and need none.

        They go before the file is replaced, so that a kill in between leaves no stale ones.
        """
        for path in {self._real, os.path.abspath(self.path)}:
            folder, name = os.path.split(path)
            checksums = os.path.join(folder, f".{name}.crc")
            try:
                os.unlink(checksums)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG) and not os.path.isdir(checksums):
                    raise

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
        self._rename_temporary(displaced_name(self._temporary, self._source.identity))
        with self._exclusive(self._source.fileno()), system_calls.hold_lease(self._source.fileno()) as granted:
            self._check_source()
            self._may_be_exchanged = True  # set before the call: an interrupt may follow it directly
            try:
                system_calls.exchange(self._temporary, self._real)
            except OSError as error:
                self._check_source()
                if error.errno in system_calls.UNSUPPORTED:
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
                system_calls.exchange(self._temporary, self._real)
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

    def _tidy(self) -> None:
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
