"""Memory mapping of a local file, for files that nobody truncates."""

from __future__ import annotations

import mmap
import os

import numpy as np
from numpy.typing import NDArray

from ...errors import StorageError, TruncatedFileError
from ..byte_ranges import require_inside
from . import scatter

_SAMPLE = 16  # number of ranges that are checked for residency in memory, as a sample


class MappedFile:
    """A local file mapped for reading; created by `LocalSource.mapped`.

    Touching a page after the end of a truncated file kills the process (SIGBUS), and cannot be caught. The length of
    the file is checked before each use; a truncation between this check and the use is not noticed, so callers must
    know that nobody truncates the file. Files that are replaced, as Spark and this package do, are safe: the mapping
    keeps the old file.

    Parameters
    ----------
    descriptor : descriptor of the open file; the caller closes it, after this object.
    size : length of the file when it was opened, in bytes.
    name : path of the file, for errors.

    Attributes
    ----------
    data : bytes of the file, read-only. Direct use must call `require_not_truncated` first; `gather` does.
    """

    def __init__(self, descriptor: int, size: int, name: str) -> None:
        self._descriptor = descriptor
        self._size = size
        self._name = name
        try:
            mapping = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
            if hasattr(mmap, "MADV_RANDOM"):
                mapping.madvise(mmap.MADV_RANDOM)  # without it each page fault reads ahead, which is 30 times as slow
        except (OSError, ValueError) as error:
            raise StorageError.wrap(error, "cannot map", name) from error
        self.data: NDArray[np.uint8] = np.frombuffer(mapping, np.uint8)

    def require_not_truncated(self) -> None:
        """Raise TruncatedFileError if the file is shorter than it was when it was opened."""
        try:
            size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise StorageError.wrap(error, "fstat failed", self._name) from error
        if size < self._size:
            problem = f"the file had {self._size} bytes and now has {size}: it was truncated meanwhile"
            raise TruncatedFileError(problem, path=self._name)

    def will_need(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Ask the kernel to read ranges that are not in memory; page faults would wait for them one at a time."""
        inside = offsets[lengths > 0]  # an empty range may be at the very end
        sample = inside[:: max(1, len(inside) // _SAMPLE)].copy()
        if scatter.count_resident(self.data, sample) < len(sample):
            scatter.will_need(self._descriptor, offsets, lengths)

    def view(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """Return a view of a range if a sample of its pages is in memory; else None, because reading is faster."""
        self.require_not_truncated()
        sample = np.linspace(offset, offset + length - 1, _SAMPLE).astype(np.int64)
        if scatter.count_resident(self.data, sample) < _SAMPLE:
            return None
        return self.data[offset : offset + length]

    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Copy ranges into one array, like `Source.gather`; no request is counted."""
        offsets, lengths, total = require_inside(offsets, lengths, self._size, self._name)
        self.require_not_truncated()
        self.will_need(offsets, lengths)
        out = np.empty(total, np.uint8)
        scatter.copy_scattered(self.data, offsets, lengths, out)
        return out

    def close(self) -> None:
        """Release the mapping; it is closed when the last array over it is gone."""
        self._descriptor = -1  # the number may soon be reused for another file
        self.data = np.empty(0, np.uint8)
