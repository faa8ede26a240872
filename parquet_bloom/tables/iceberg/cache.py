"""What was read of files that never change, kept while it fits.

They are manifests, and delete files, of which one may apply to every data file of a table.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_BYTES = 256 * 1024 * 1024


class SizedCache:
    """What was read of files, by any key. Several threads may use it; each file is read by one of them.

    Parameters
    ----------
    most : bytes that are kept; what was used last is kept in any case.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._entries: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._reading: dict[Any, threading.Lock] = {}

    def __reduce__(self) -> tuple[type[SizedCache], tuple[int]]:
        return SizedCache, (self._most,)  # without its content

    def get(self, key: Any, read: Callable[[], tuple[T, int]]) -> T:
        """Return what is kept under a key, or else read it; `read` returns it and its size in bytes."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
            waiting = self._reading.setdefault(key, threading.Lock())
        with waiting:
            with self._lock:
                if key in self._entries:
                    return self._entries[key][0]
            try:
                value, size = read()
            finally:
                with self._lock:
                    self._reading.pop(key, None)
            with self._lock:
                self._entries[key] = value, size
                self._size += size
                while self._size > self._most and len(self._entries) > 1:
                    self._size -= self._entries.popitem(last=False)[1][1]
            return value
