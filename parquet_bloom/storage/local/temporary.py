"""Temporary files: their names, their making, and those that a killed process left behind."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Mapping
from typing import Any

from ...errors import StorageError
from ..paths import resolve_local_path
from .libc import fcntl

_SUFFIX, _DISPLACED = ".parquet_bloom.tmp", ".parquet_bloom.old"  # of one length: a name that fits can be either
_NAME = re.compile(rf"\.(.*)\.[0-9a-f]{{16}}(?:{re.escape(_SUFFIX)}|({re.escape(_DISPLACED)}))", re.DOTALL)
_MAX_NAME_BYTES = 255


def name_beside(path: str, separator: str = os.sep) -> str:
    """An unused name in the folder of `path`. The leading dot hides it from listings by Spark and pyarrow."""
    folder, slash, name = path.rpartition(separator)
    name = name.lstrip(".")
    tail = f".{secrets.token_hex(8)}{_SUFFIX}"
    while len(os.fsencode(f".{name}{tail}")) > _MAX_NAME_BYTES:
        name = name[:-1]
    return f"{folder}{slash}.{name}{tail}"


def displaced_name(temporary: str) -> str:
    """What a temporary file is called from just before it is exchanged with the file that it stands beside.

    What has such a name is not for sure this package's own: the exchange may have brought out what another writer had
    put there in that moment.
    """
    return temporary.removesuffix(_SUFFIX) + _DISPLACED


def is_temporary(name: str) -> bool:
    """Whether it is the name of a temporary file."""
    return _NAME.fullmatch(name) is not None


def displaced_from(name: str) -> str | None:
    """The name beside which a file was put by an exchange, as far as it was kept; None of other temporary files."""
    match = _NAME.fullmatch(name)
    return match[1] if match and match[2] else None


def create(path: str, mode: int) -> tuple[int, str]:
    """Create an empty temporary file beside `path`: its descriptor and its path.

    It stays locked while the descriptor is open, so that `leftovers` can tell it from one without a writer.
    """
    descriptor, name = _create_file(path, mode)
    _lock(descriptor)
    return descriptor, name


def create_locked(path: str, mode: int) -> tuple[int, int, str]:
    """The same with a second descriptor, for reading, by which it stays locked when the one for writing is closed.

    The second is -1 where a file that is open for reading cannot be locked; the first one then has the lock.
    """
    descriptor, name = _create_file(path, mode)
    lock_descriptor = -1
    try:
        lock_descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        if os.path.samestat(os.fstat(lock_descriptor), os.fstat(descriptor)) and _lock(lock_descriptor):
            return descriptor, lock_descriptor, name
    except OSError:  # it may be of a mode by which its owner cannot read it
        pass
    if lock_descriptor >= 0:
        os.close(lock_descriptor)
    _lock(descriptor)
    return descriptor, -1, name


def _create_file(path: str, mode: int) -> tuple[int, str]:
    name = name_beside(path)
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), name


def _lock(descriptor: int) -> bool:
    """Lock a file for its writer; False on file systems that have no locks, or none for what is open for reading."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def keep_attributes(old: int | str, descriptor: int, name: str) -> None:
    """Give a new file, which is still its writer's alone, the owner, group, mode and attributes of the old one.

    Rights come last, and access lists before the mode: under a list the mode's middle bits are those of all that it
    names, and would for a moment let the group do what the list denies it. A list that the new file has from its
    folder, and the old one has not, goes.

    Parameters
    ----------
    old : its descriptor, or the path of a file, of which a link is not followed.
    name : of the file, for errors.

    Raises
    ------
    StorageError
        This user may not give it the owner or the group: who is let in by it would change.
    OSError
        Its mode, access list or `user` attributes cannot be kept, or it is no regular file. Other attributes, such as
        labels that a policy sets, are kept as far as this user may.
    """
    follow: dict[str, Any] = {} if isinstance(old, int) else {"follow_symlinks": False}
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


def _keep_extended(old: int | str, descriptor: int, follow: Mapping[str, Any]) -> None:
    try:
        names = os.listxattr(old, **follow) if hasattr(os, "listxattr") else []
        current = os.listxattr(descriptor) if hasattr(os, "listxattr") else []
    except OSError:  # none on this file system
        return
    for name in names:
        try:
            os.setxattr(descriptor, name, os.getxattr(old, name, **follow))
        except OSError as error:
            if error.errno == errno.ENODATA:  # it was taken away meanwhile
                continue
            if name == _ACCESS_LIST or name.startswith("user.") or error.errno not in _NOT_OURS:
                raise
    if _ACCESS_LIST in current and _ACCESS_LIST not in names:
        os.removexattr(descriptor, _ACCESS_LIST)


_ACCESS_LIST = "system.posix_acl_access"
_NOT_OURS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL})


def leftovers(folder: str | os.PathLike[str]) -> list[str]:
    """Temporary files in a local folder (not below it) whose writer is gone, sorted.

    They may be deleted: the file that they stand beside is whole without them. One exception are those that
    `displaced_from` tells: a process that was killed just after it displaced a file which another writer had put there
    in that moment, and before it put it back, leaves that other writer's file under such a name.
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
    """The same in a folder and all below it; links to folders are not followed."""

    def fail(error: OSError) -> None:
        raise StorageError.wrap(error, "cannot list the folder", error.filename) from error

    folders = os.walk(resolve_local_path(folder), onerror=fail)
    return sorted(path for root, _, files in folders if any(map(is_temporary, files)) for path in leftovers(root))


def delete_leftover(path: str) -> bool:
    """Delete a temporary file whose writer is gone; False if somebody has it, or has deleted it, by now."""
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
