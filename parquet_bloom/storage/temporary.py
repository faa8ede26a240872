"""Temporary files: their names, their making, and those that a killed process left behind."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress

from ..errors import StorageError
from . import location
from .system import fcntl

_SUFFIX = ".parquet_bloom.tmp"
_NAME = re.compile(r"\..*\.[0-9a-f]{16}" + re.escape(_SUFFIX), re.DOTALL)
_MAX_NAME_BYTES = 255


def name_beside(path: str, separator: str = os.sep) -> str:
    """An unused name in the folder of `path`. The leading dot hides it from listings by Spark and pyarrow."""
    folder, slash, name = path.rpartition(separator)
    name = name.lstrip(".")
    tail = f".{secrets.token_hex(8)}{_SUFFIX}"
    while len(os.fsencode(f".{name}{tail}")) > _MAX_NAME_BYTES:
        name = name[:-1]
    return f"{folder}{slash}.{name}{tail}"


def is_ours(name: str) -> bool:
    """Whether it is the name of a temporary file."""
    return _NAME.fullmatch(name) is not None


def make(path: str, mode: int) -> tuple[int, str]:
    """Create an empty temporary file beside `path`: its descriptor and its path.

    It stays locked while the descriptor is open, so that `leftovers` can tell it from one without a writer.
    """
    name = name_beside(path)
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor, name


def keep_attributes(old: int | str, descriptor: int) -> None:
    """Give a new file the owner, mode and extended attributes of the old one, as far as this user may."""
    status = os.stat(old)
    mode = stat.S_IMODE(status.st_mode)
    try:
        os.fchown(descriptor, status.st_uid, status.st_gid)
    except PermissionError:
        mode &= 0o777  # set-user-id and the like mean another thing under another owner
        with suppress(PermissionError):
            os.fchown(descriptor, -1, status.st_gid)
    os.fchmod(descriptor, mode)
    try:
        names = os.listxattr(old) if hasattr(os, "listxattr") else []
    except OSError:  # none on this file system
        names = []
    for name in names:
        try:
            os.setxattr(descriptor, name, os.getxattr(old, name))
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL, errno.ENODATA):
                raise


def leftovers(folder: str | os.PathLike[str]) -> list[str]:
    """Temporary files in a local folder (not below it) whose writer is gone, sorted.

    They may be deleted: the file that they stand beside is whole without them. One exception, a few system
    calls wide: a process that was killed just after it displaced a file which another writer had put there in
    that moment, and before it put it back, leaves that other writer's file under such a name.
    """
    root = location.local(folder)
    found = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                candidate = is_ours(entry.name) and entry.is_file(follow_symlinks=False)
                if candidate and not _in_use(entry.path):
                    found.append(entry.path)
    except OSError as error:
        raise StorageError.wrap(error, "cannot list the folder", root) from error
    return sorted(found)


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
