"""Whether Arrow's thread pool may be waited for.

Arrow pulls the rows of a stream in threads of its pool, of which there is one for each processor. If all of them run
code that waits for another thread of the pool, such as a read with `use_threads=True`, they wait forever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_inside = ContextVar("is_inside_arrow", default=False)


def can_use_arrow_threads() -> bool:
    """Return whether a call of Arrow's may use its threads."""
    return not _is_inside.get()


@contextmanager
def inside_arrow() -> Iterator[None]:
    """Run code in a thread of Arrow's pool. Generators must not be suspended inside."""
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)
