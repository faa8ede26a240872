"""Work spread over threads, its results taken in order. Kernels and pyarrow let the interpreter go while they run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2  # one in work and one waiting to be taken: a slow item must not leave the other threads idle


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


@contextmanager
def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[R]]:
    """`map(function, items)` by `threads` threads, begun on entry and at most AHEAD items a thread ahead of its taker.

    Leaving the context early gives up what was not begun; the first exception is raised where its result is taken.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="parquet_bloom") as pool:
        waiting = iter(items)
        running: deque[Future[R]] = deque(pool.submit(function, item) for item in islice(waiting, AHEAD * threads))

        def results() -> Iterator[R]:
            while running:
                done = running.popleft().result()
                running.extend(pool.submit(function, item) for item in islice(waiting, 1))
                yield done

        try:
            yield results()
        finally:
            for future in running:
                future.cancel()
