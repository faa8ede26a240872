"""Temporary files: their names and attributes, creation, and those that a killed process left."""

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
    """Return an unused name in the folder of `path`. Its leading dot hides it from listings by Spark and pyarrow."""
    folder, slash, name = path.rpartition(separator)
    name = name.lstrip(".")
    tail = f".{secrets.token_hex(8)}{_SUFFIX}"
    while len(os.fsencode(f".{name}{tail}")) > _MAX_NAME_BYTES:
        name = name[:-1]
    return f"{folder}{slash}.{name}{tail}"


def displaced_name(temporary: str) -> str:
    """Return the name that a temporary file gets just before it is exchanged with the target.

    A file of such a name may not be from this package: the exchange may have displaced a file that another writer put
    there at that moment.
    """
    return temporary.removesuffix(_SUFFIX) + _DISPLACED


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file."""
    return _NAME.fullmatch(name) is not None


def displaced_from(name: str) -> str | None:
    """Return the (possibly shortened) name of the target that an exchange displaced; None for other temporary files."""
    match = _NAME.fullmatch(name)
    return match[1] if match and match[2] else None


def create(path: str, mode: int) -> tuple[int, str]:
    """Create an empty temporary file beside `path`; return its descriptor and path.

    It stays locked while the descriptor is open, so that `leftovers` can tell whether its writer is alive.
    """
    descriptor, name = _create_file(path, mode)
    _lock(descriptor)
    return descriptor, name


def create_locked(path: str, mode: int) -> tuple[int, int, str]:
    """Create a temporary file with a second, read-only descriptor that holds the lock after the first one is closed.

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
