"""Lock on a folder: a system lock on a file in it, so that it ends with the process that holds it."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...errors import IndexInUseError, StorageError
from ..local.libc import fcntl
from ..local.rewrite import require_writable

NAME = "writer.lock"
_MAX_HOLDER_BYTES = 300


@contextmanager
def hold_lock(folder: str, path: str, undo: bool = False) -> Iterator[None]:
    """Hold the lock; see `Folder.lock`. The file names the holder and stays, as deleting it could let two writers in.

    If this process is killed, processes that were forked meanwhile keep the lock; spawned ones do not.

    Parameters
    ----------
    undo : delete the file after an error, if this call has made it. Nothing may be done in the folder after that.
    """
    try:
        require_writable(folder, "the folder", os.stat(folder), folder)
        descriptor, is_new = _open_locked(folder, path)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError.wrap(error, "cannot lock the folder", folder) from error
    process = os.getpid()
    try:
        with suppress(OSError):  # the disk may be full; that it is locked counts
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {process} on {socket.gethostname()}\n".encode(), 0)
        yield
    except BaseException:
        if undo and is_new and os.getpid() == process:  # still locked: who waits for it notices that it is gone
            with suppress(OSError):
                os.unlink(path)
        raise
    finally:
        # A forked process must not release the lock of its parent.
        if os.getpid() == process:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _open_locked(folder: str, path: str) -> tuple[int, bool]:
    """Return the descriptor of the lock file, locked, and whether it was made here."""
    while True:
        # The holder is written into this file: it must not be a link, of either kind, to another file.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor, is_new = os.open(path, flags | os.O_EXCL, 0o666), True
        except FileExistsError:
            descriptor, is_new = os.open(path, flags, 0o666), False
        try:
            _require_regular(descriptor, path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(descriptor, path):
                return descriptor, is_new
        except OSError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                problem = f"another writer is at work{holder and ': '}{holder}"
                raise IndexInUseError(problem, path=folder) from None
            raise
        os.close(descriptor)  # the file was deleted before it was locked


def _require_regular(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        problem = "it is not a file of the index, and is not written to"
        raise StorageError(problem, path=path, errno=errno.EINVAL)


def _is_current(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> str:
    """Return the text that the holder wrote; "" if there is none."""
    try:
        return os.pread(descriptor, _MAX_HOLDER_BYTES, 0).decode(errors="replace").strip()
    except OSError:
        return ""
