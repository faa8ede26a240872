"""Cache of byte ranges of one file, so that they are not fetched again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_MAX_EXTENTS = 64  # a file with more ranges is better read in other ways


@dataclass(eq=False)
class Extents:
    """Bytes of one version of one file, by position; thread-safe.

    Attributes
    ----------
    max_extents : largest number of ranges that are kept.
    num_bytes : total size of all ranges.
    """

    max_extents: int = _MAX_EXTENTS
    num_bytes: int = field(default=0, init=False)
    _extents: tuple[tuple[int, NDArray[np.uint8]], ...] = ()  # replaced, never changed; oldest first
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __len__(self) -> int:
        return len(self._extents)

    def items(self) -> tuple[tuple[int, NDArray[np.uint8]], ...]:
        """Return all ranges, each as its first position and its bytes."""
        return self._extents

    def add(self, offset: int, data: bytes) -> None:
        """Add a range; ranges inside it are dropped, and the oldest ones if there are too many."""
        end = offset + len(data)
        if not data or self.covers(offset, len(data)):
            return
        extent = np.frombuffer(data, np.uint8)
        with self._lock:
            others = [one for one in self._extents if not (offset <= one[0] and one[0] + len(one[1]) <= end)]
            self._extents = (*others[-(self.max_extents - 1) :], (offset, extent))
            self.num_bytes = sum(len(one) for _, one in self._extents)

    def covers(self, offset: int, length: int) -> bool:
        """Return whether a range lies inside one of the ranges."""
        return self.find(offset, length) is not None

    def find(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """Return the bytes of a range, or None if it is not inside one of the ranges."""
        for start, data in self._extents:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def clear(self) -> None:
        """Drop all ranges."""
        with self._lock:
            self._extents, self.num_bytes = (), 0
