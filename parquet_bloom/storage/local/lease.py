"""Leases (Linux), which show whether another process has a file open for writing."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .libc import fcntl

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
