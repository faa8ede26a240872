"""Work that makes many objects at once, without the collector of reference cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 20_000  # objects of one block
_MOST = 400_000  # objects of all blocks that no full collection has gone through

_lock = threading.Lock()
_paused = 0
_resume = False
_pending = 0


@contextmanager
def paused_collection() -> Iterator[None]:
    """Keep the collector from running meanwhile, in all threads, if it is enabled.

    It starts whenever some hundred containers were made, and now and then goes through every object of the process. For
    work of some 100 ms that makes thousands of lasting objects this is a third of the time, and frees nothing. If they
    are very many, they count as old afterwards, so that the next runs do not go through them all as young ones.
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
                _age_objects(gc.get_count()[0])
                gc.enable()


def _age_objects(count: int) -> None:
    """Let the objects that were made count as old, which takes no time; given how many there are."""
    global _pending
    if count < _MANY or gc.get_freeze_count():  # what a program has frozen, to fork, stays so
        return
    gc.freeze()
    gc.unfreeze()
    # Garbage may be among them, and the collector does not know that old objects have become more.
    _pending += count
    if _pending > _MOST:
        _pending = 0
        gc.collect()
