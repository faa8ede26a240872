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
    work of some 100 ms that makes thousands of lasting objects this is a third of the time, and frees nothing. So that
    its next run does not go through them all as young ones, everything counts as old afterwards: what is garbage by
    then waits for the next full collection.
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
                if not gc.get_freeze_count():  # what a program has frozen, to fork, stays so
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()
