"""Reads of many local files that are not kept open, and checks that they have not changed."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import StorageError
from ..source import Source
from . import batch_read
from .source import FileIdentity

_IDENTITY = struct.Struct("=QQqqq")


class LocalFileBatch:
    """Local files that were opened before, for repeated reads in one call.

    Parameters
    ----------
    paths : the files, as they were opened.
    identities : their identities at that time.
    """

    in_memory = False

    def __init__(self, paths: Sequence[str], identities: Sequence[FileIdentity]):
        self._paths = [os.fsencode(path) for path in paths]
        packed = b"".join(_IDENTITY.pack(*identity) for identity in identities)
        self._identities = np.frombuffer(packed, np.int64).reshape(-1, 5)

    def __len__(self) -> int:
        return len(self._paths)

    def visit(
        self, start: int, stop: int, first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Read ranges of one length from some of the files, and report which files have not changed.

        Parameters
        ----------
        start, stop : the range of files.
        first : file i has the ranges from first[i] to first[i + 1].
        offsets : offset of each range in its file, for one file after the other.
        length : length of each range, in bytes.

        Returns
        -------
        uint8 array of shape (ranges, length), and a bool array of shape (files): False for a file that is missing,
        cannot be read, ends before a range does, or has changed. The bytes of such a file are meaningless.
        """
        offsets = np.ascontiguousarray(offsets, np.int64)
        first = np.ascontiguousarray(first, np.int64)
        return batch_read.visit(self._paths[start:stop], self._identities[start:stop], first, offsets, length)


class ClosedSource(Source):
    """A local file that is not open, with only its last bytes in memory.

    Reading anything else raises StorageError.

    Attributes
    ----------
    end : the last bytes of the file.
    """

    identity: FileIdentity

    def __init__(self, name: str, identity: FileIdentity, end: bytes = b""):
        self.name = name
        self.identity = identity
        self.size = identity.size
        self.end = end
        self.first_read = len(end)
        self.keep(self.size - len(end), end)

    @cached_property
    def path(self) -> str:  # type: ignore[override]
        return os.path.realpath(self.name)

    def _read(self, offset: int, length: int) -> NoReturn:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> NoReturn:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def arrow_file(self) -> pa.NativeFile:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def check_unchanged(self) -> None:
        raise StorageError("it is not open", path=self.name, errno=errno.EBADF)

    def close(self) -> None:
        """Do nothing: the file is not open."""


def stat_files(paths: Sequence[str]) -> Iterator[ClosedSource | None]:
    """Yield the regular file at each path, or None; nothing is read."""
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            yield None
        else:
            yield ClosedSource(path, FileIdentity.from_stat(status)) if stat.S_ISREG(status.st_mode) else None


def read_file_tails(paths: Sequence[str], length: int) -> list[ClosedSource | None]:
    """Read the last bytes of many files.

    Returns
    -------
    For each path the closed file; None if it could not be read, or was written to meanwhile.
    """
    return [
        None if result is None else ClosedSource(path, FileIdentity(*result[0]), result[1])
        for path, result in zip(paths, batch_read.read_ends([os.fsencode(path) for path in paths], length), strict=True)
    ]
