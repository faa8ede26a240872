"""Whether somebody may write to a file that is open here: Linux tells by granting a lease, or not."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .libc import fcntl

_SETSIG = 10  # F_SETSIG, which Python does not name everywhere


class Lease:
    """A file that nobody else writes to without its being noticed, as far as that could be had.

    Attributes
    ----------
    refused : whether it was not granted since somebody, this process included, has the file open for writing, or
        mapped to be written. File systems of another computer refuse for reasons of their own.
    """

    def __init__(self, descriptor: int) -> None:
        self.refused = self._granted = False
        self._descriptor = descriptor
        self._calls: Any = fcntl
        if not hasattr(fcntl, "F_SETLEASE"):
            return
        try:
            # Who opens it for writing waits until it is given back, and is told of by a signal: one that is ignored.
            self._calls.fcntl(descriptor, _SETSIG, signal.SIGURG)
            self._calls.fcntl(descriptor, self._calls.F_SETLEASE, self._calls.F_RDLCK)
            self._granted = True
        except OSError as error:
            self.refused = error.errno == errno.EAGAIN

    @property
    def has_waiting_writer(self) -> bool:
        """Whether somebody waits for it, to write to the file."""
        if not self._granted:
            return False
        try:
            return bool(self._calls.fcntl(self._descriptor, self._calls.F_GETLEASE) != self._calls.F_RDLCK)
        except OSError:
            return False

    def give_back(self) -> None:
        """Let others write again."""
        if self._granted:
            self._granted = False
            with suppress(OSError):
                self._calls.fcntl(self._descriptor, self._calls.F_SETLEASE, self._calls.F_UNLCK)


@contextmanager
def hold_lease(descriptor: int) -> Iterator[Lease]:
    """Hold a lease on a file, for a moment: who wants to write to it has to wait.

    Parameters
    ----------
    descriptor : of the file, opened for reading only.
    """
    lease = Lease(descriptor)
    try:
        yield lease
    finally:
        lease.give_back()
