"""Run work in threads, with results in order. Kernels and pyarrow release the GIL while they run."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 2  # items per thread, one running and one queued: a slow item must not leave the other threads idle

POLL_SECONDS = 0.2  # between checks whether the consumer has given up


class Stopped(Exception):
    """The consumer of this thread's result has given up, so the work should end."""


class Stop:
    """A flag that the work of a pool should end; set also if the pool was made in a thread of one that should."""

    def __init__(self) -> None:
        self._outer: Stop | None = getattr(_current, "stop", None)
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set() or (self._outer is not None and self._outer.is_set())

    def govern(self) -> None:
        """Make `raise_if_stopped` heed this flag in the thread that calls."""
        _current.stop = self


_current = threading.local()


def raise_if_stopped() -> None:
    """Raise Stopped in a thread of a pool whose results are not needed any more; call it in long waits."""
    stop: Stop | None = getattr(_current, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def wait_for_result(future: Future[T]) -> T:
    """Wait for a result, polling: polars catches signals, so that they do not interrupt a wait in Python.

    Raises
    ------
    Stopped
        See `raise_if_stopped`.
    """
    while True:
        try:
            return future.result(POLL_SECONDS)
        except TimeoutError:
            if future.done():  # the work itself raised it, or the result has just arrived
                return future.result()
        raise_if_stopped()


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on this system
        return os.cpu_count() or 1


@contextmanager
def stoppable_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Open a pool whose waiting threads give up (see `raise_if_stopped`) when the context is left."""
    stop = Stop()
    with ThreadPoolExecutor(threads, thread_name_prefix="parquet_bloom", initializer=stop.govern) as pool:
        try:
            yield pool
        finally:
            stop.set()


@contextmanager
def in_order(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[Iterator[R]]:
    """Run `map(function, items)` in `threads` threads, starting on entry and at most AHEAD items per thread ahead.

    Leaving the context early cancels items not started, and stops waiting ones (see `raise_if_stopped`); the first
    exception is raised where its result is consumed.
    """
    stop = Stop()
    with ThreadPoolExecutor(threads, thread_name_prefix="parquet_bloom", initializer=stop.govern) as pool:
        waiting = iter(items)
        running: deque[Future[R]] = deque()

        def results() -> Iterator[R]:
            while running:
                done = wait_for_result(running.popleft())
                running.extend(pool.submit(copy_context().run, function, item) for item in islice(waiting, 1))
                yield done

        try:
            running.extend(pool.submit(copy_context().run, function, item) for item in islice(waiting, AHEAD * threads))
            yield results()
        finally:
            stop.set()
            for future in running:
                future.cancel()


# Arrow pulls the rows of a stream in threads of its pool, of which there is one for each processor. If all of them run
# code that waits for another thread of the pool, such as a read with `use_threads=True`, they wait forever.
_is_inside_arrow = ContextVar("is_inside_arrow", default=False)


def can_use_arrow_threads() -> bool:
    """Return whether a call of Arrow's may use, and wait for, threads of its pool."""
    return not _is_inside_arrow.get()


@contextmanager
def inside_arrow() -> Iterator[None]:
    """Run code in a thread of Arrow's pool. Generators must not be suspended inside."""
    token = _is_inside_arrow.set(True)
    try:
        yield
    finally:
        _is_inside_arrow.reset(token)


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
