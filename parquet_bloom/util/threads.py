"""Work spread over threads, its results taken in order. Kernels and pyarrow let the interpreter go while they run."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2  # one in work and one waiting to be taken: a slow item must not leave the other threads idle

_LOOK = 0.2  # seconds between looks at whether somebody has given up


class Stopped(Exception):
    """The work of this thread is not wanted any more: whoever was to take its result has given up."""


class _Stop:
    """Whether the work that a pool of threads does is still wanted; a pool inside of another one's thread asks both."""

    def __init__(self, outer: _Stop | None) -> None:
        self._outer = outer
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set() or (self._outer is not None and self._outer.is_set())


_current = threading.local()


def raise_if_stopped() -> None:
    """Raise Stopped in a thread of `in_order` whose results nobody waits for; called by what may wait for long."""
    stop: _Stop | None = getattr(_current, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def result_of(future: Future[T]) -> T:
    """Wait for a result, and look up again and again: polars catches signals so that they end no wait of Python's.

    Raises
    ------
    Stopped
        See `raise_if_stopped`.
    """
    while True:
        try:
            return future.result(_LOOK)
        except TimeoutError:
            if future.done():  # it is the work's own, or the result has come this moment
                return future.result()
        raise_if_stopped()


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


@contextmanager
def stoppable_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that give up what waits for an answer (see `raise_if_stopped`) when the context is left."""
    stop = _Stop(getattr(_current, "stop", None))

    def begin() -> None:
        _current.stop = stop

    with ThreadPoolExecutor(threads, thread_name_prefix="parquet_bloom", initializer=begin) as pool:
        try:
            yield pool
        finally:
            stop.set()


@contextmanager
def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[R]]:
    """`map(function, items)` by `threads` threads, begun on entry and at most AHEAD items a thread ahead of its taker.

    Leaving the context early gives up what was not begun, and what waits for an answer (see `raise_if_stopped`); the
    first exception is raised where its result is taken.
    """
    stop = _Stop(getattr(_current, "stop", None))

    def begin() -> None:
        _current.stop = stop

    with ThreadPoolExecutor(threads, thread_name_prefix="parquet_bloom", initializer=begin) as pool:
        waiting = iter(items)
        running: deque[Future[R]] = deque()

        def results() -> Iterator[R]:
            while running:
                done = result_of(running.popleft())
                running.extend(pool.submit(function, item) for item in islice(waiting, 1))
                yield done

        try:
            running.extend(pool.submit(function, item) for item in islice(waiting, AHEAD * threads))
            yield results()
        finally:
            stop.set()
            for future in running:
                future.cancel()
