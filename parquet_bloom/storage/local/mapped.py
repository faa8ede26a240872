"""A local file as memory, for files that nobody shortens."""

from __future__ import annotations

import mmap
import os

import numpy as np
from numpy.typing import NDArray

from ...errors import StorageError, TruncatedFileError
from ..coalesce import require_inside
from . import scatter

_SAMPLE = 16  # ranges that are asked whether they are in memory, for all


class MappedFile:
    """A local file mapped for reading. Made by `LocalSource.mapped`.

    The system kills a process that touches a page of a mapping behind the end of a file that has become shorter
    (SIGBUS), and no reader can be told in time. The file's length is looked at before each use, which finds one that
    was cut; between that look and the use the caller's word that nobody cuts it is all there is. Files that are
    replaced, as Spark and this package replace them, are safe: the mapping keeps the old one.

    Parameters
    ----------
    descriptor : of the open file. It stays the caller's, who closes this object before it.
    size : the file's length when it was opened.
    name : the file's path, for errors.

    Attributes
    ----------
    data : the file's bytes, read-only. Whoever touches them without `require_whole` or `gather` looks after the above.
    """

    def __init__(self, descriptor: int, size: int, name: str) -> None:
        self._descriptor = descriptor
        self._size = size
        self._name = name
        try:
            mapping = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
            if hasattr(mmap, "MADV_RANDOM"):
                mapping.madvise(mmap.MADV_RANDOM)  # else each miss reads the neighbourhood too, 30 times as slow
        except (OSError, ValueError) as error:
            raise StorageError.wrap(error, "cannot map", name) from error
        self.data: NDArray[np.uint8] = np.frombuffer(mapping, np.uint8)

    def require_not_truncated(self) -> None:
        """Raise TruncatedFileError if the file is shorter than it was when it was opened."""
        try:
            size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise StorageError.wrap(error, "cannot look at it again", self._name) from error
        if size < self._size:
            problem = f"the file had {self._size} bytes, {size} are left: it was cut meanwhile"
            raise TruncatedFileError(problem, path=self._name)

    def will_need(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Let the disk begin on ranges that are not in memory: one fault after the other would wait for each alone."""
        inside = offsets[lengths > 0]  # an empty range may stand at the very end
        sample = inside[:: max(1, len(inside) // _SAMPLE)].copy()
        if scatter.count_resident(self.data, sample) < len(sample):
            scatter.will_need(self._descriptor, offsets, lengths)

    def view(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """A range that is in memory, as far as a sample of its pages tells; else None: read it, which is quicker."""
        self.require_not_truncated()
        sample = np.linspace(offset, offset + length - 1, _SAMPLE).astype(np.int64)
        if scatter.count_resident(self.data, sample) < _SAMPLE:
            return None
        return self.data[offset : offset + length]

    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The ranges one behind the other, as `Source.gather` has them; no request is counted."""
        offsets, lengths, total = require_inside(offsets, lengths, self._size, self._name)
        self.require_not_truncated()
        self.will_need(offsets, lengths)
        out = np.empty(total, np.uint8)
        scatter.copy_scattered(self.data, offsets, lengths, out)
        return out

    def close(self) -> None:
        """Let go of the mapping; it is gone when no array over it is left."""
        self._descriptor = -1  # its number may soon be another file's
        self.data = np.empty(0, np.uint8)
