"""Work that makes many objects at once, without the collector of reference cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_paused = 0
_resume = False


@contextmanager
def paused_collection() -> Iterator[None]:
    """Keep the collector from running meanwhile, in all threads, if it is enabled.

    It starts whenever some hundred containers were made, and now and then goes through every object of the process. For
    work of some 100 ms that makes thousands of lasting objects this is a third of the time, and frees nothing.
    """
    global _paused, _resume
    with _lock:
        if not _paused:
            _resume = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _lock:
            _paused -= 1
            if not _paused and _resume:
                gc.enable()
