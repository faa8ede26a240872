"""Streams that Arrow reads in threads of its own, which must be done before the interpreter ends.

Arrow reads ahead of its consumer. If a program ends while one of its threads is about to call Python for the next
batch, the interpreter is aborted. So the end of the program stops all streams, and waits until nothing is pulled any
more.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

_QUIET_SECONDS = 0.1  # without a call, until Arrow's threads are taken to be done
_LONGEST_SECONDS = 10.0  # that the end of a program waits for a batch that is being read


class _Activity:
    """What all streams of this process are doing.

    Attributes
    ----------
    running : number of streams that are making a batch, or are being closed.
    last : when one last began or ended to do so.
    ending : whether the program ends, and the streams with it.
    """

    def __init__(self) -> None:
        self.running = 0
        self.last = 0.0
        self.ending = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.running += 1
            self.last = time.monotonic()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.running -= 1
            self.last = time.monotonic()

    def end(self) -> None:
        """Stop the streams, and wait until none of them is called any more."""
        self.ending = True
        begun = time.monotonic()
        while (now := time.monotonic()) - begun < _LONGEST_SECONDS:
            if not self.running and now - self.last > _QUIET_SECONDS:
                break
            time.sleep(_QUIET_SECONDS / 10)


_activity = _Activity()
atexit.register(_activity.end)


def stop_at_exit(batches: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield the items of a generator, until the program ends."""
    try:
        while True:
            with _activity:
                batch = None if _activity.ending else next(batches, None)
            if batch is None:
                return
            yield batch
    finally:
        with _activity:  # which waits for the threads that read
            batches.close()
