"""Optional platform features: functions of the C library, and fcntl."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from ...errors import StorageError

try:
    import fcntl as fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@cache
def load_function(name: str, *argument_types: object) -> Callable[..., Any] | None:
    """Return a C function that returns an int and sets errno, or None; looked up once, and only on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = argument_types
    function.restype = ctypes.c_int
    return function


def require_posix(name: str | os.PathLike[str]) -> None:
    """Raise StorageError on platforms without pread and file locks, such as Windows."""
    if fcntl is None or not hasattr(os, "pread"):
        raise StorageError("local files need a POSIX system; object stores do not", path=name)


_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of kernels and file systems that do not support the call or a flag."""


def exchange(one: str, other: str) -> None:
    """Exchange the files of two names atomically.

    If that is not supported, the errno of the OSError is one of `UNSUPPORTED`.
    """
    _rename(one, other, _EXCHANGE)


def rename_new(old: str, new: str) -> None:
    """Rename without replacing: raise FileExistsError if `new` exists."""
    try:
        _rename(old, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.link(old, new)  # also fails if the name exists
        os.unlink(old)


def _rename(old: str, new: str, flags: int) -> None:
    call = _renameat2()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), old, None, new)
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old, None, new)


def _renameat2() -> Callable[..., Any] | None:
    return load_function("renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)


_SETSIG = 10  # F_SETSIG, which Python does not name everywhere


class Lease:
    """Lease on a file, if the system granted one: no other process can open it for writing unnoticed.

    Attributes
    ----------
    refused : whether it was refused because a process, perhaps this one, has the file open or mapped for writing.
        Network file systems also refuse for other reasons.
    """

    def __init__(self, descriptor: int) -> None:
        self.refused = self._granted = False
        self._descriptor = descriptor
        self._calls: Any = fcntl
        if not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            # A process that opens the file for writing waits until the lease is released; the kernel reports it by a
            # signal, so one is chosen that is ignored by default.
            self._calls.fcntl(descriptor, _SETSIG, signal.SIGURG)
            self._calls.fcntl(descriptor, self._calls.F_SETLEASE, self._calls.F_RDLCK)
            self._granted = True
        except OSError as error:
            self.refused = error.errno == errno.EAGAIN

    @property
    def has_waiting_writer(self) -> bool:
        """Return whether a process is waiting for the lease, to write to the file."""
        if not self._granted:
            return False
        try:
            return bool(self._calls.fcntl(self._descriptor, self._calls.F_GETLEASE) != self._calls.F_RDLCK)
        except OSError:
            return False

    def give_back(self) -> None:
        """Release the lease."""
        if self._granted:
            self._granted = False
            with suppress(OSError):
                self._calls.fcntl(self._descriptor, self._calls.F_SETLEASE, self._calls.F_UNLCK)


@contextmanager
def hold_lease(descriptor: int) -> Iterator[Lease]:
    """Hold a lease on a file for a short time; processes that want to write to it must wait.

    Parameters
    ----------
    descriptor : descriptor of the file, opened read-only.
    """
    lease = Lease(descriptor)
    try:
        yield lease
    finally:
        lease.give_back()


# statfs(2) tells the type by these numbers, also where no list of mounts does, as in a chroot. Other file systems (FAT,
# FUSE, SMB, 9p) have no change time, or store one that a program gave.
_KEEPING = {
    0xCA451A4E: "bcachefs",
    0x9123683E: "btrfs",
    0x00C36400: "ceph",
    0x0000EF53: "ext2, ext3 or ext4",
    0xF2F52010: "f2fs",
    0x47504653: "gpfs",
    0x3153464A: "jfs",
    0x0BD00BD3: "lustre",
    0x00006969: "nfs",
    0x7461636F: "ocfs2",
    0x794C7630: "overlay",
    0x858458F6: "ramfs",
    0x01021994: "tmpfs",
    0x58465342: "xfs",
    0x2FC12FC1: "zfs",
}
_STATFS_BYTES = 512  # more than the structure has on any processor
_cached: dict[int, bool] = {}  # by device number, which does not change while the process sees the device


def keeps_change_times(path: str, device: int) -> bool:
    """Return whether `changed_ns` changes with every change of the files at a path; False if that is not known.

    Parameters
    ----------
    path : the real path of a file.
    device : number of its device.
    """
    if device not in _cached:
        number = find_filesystem_type(path)
        if number is None:  # the file has just gone, or this is not Linux
            return False
        _cached[device] = number in _KEEPING
    return _cached[device]


def find_filesystem_type(path: str) -> int | None:
    """Return the number of the type of the file system at a path, as statfs(2) has it; None if that fails."""
    statfs = load_function("statfs", ctypes.c_char_p, ctypes.c_void_p)
    if statfs is None:
        return None
    result = ctypes.create_string_buffer(_STATFS_BYTES)
    if statfs(os.fsencode(path), result) != 0:
        return None
    return int(ctypes.c_ulong.from_buffer(result).value) & 0xFFFFFFFF
