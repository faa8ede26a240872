"""Run work in threads, with limits on the number of running and waiting tasks and on their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..errors import ApiError

R = TypeVar("R")


class BoundedExecutor:
    """A thread pool with a bounded queue.

    Parameters
    ----------
    name : name of the threads.
    threads : number of threads.
    waiting : maximum number of waiting tasks.
    full : makes the error that rejects further tasks.

    Attributes
    ----------
    taken : number of running and waiting tasks.
    """

    def __init__(self, name: str, threads: int, waiting: int, full: Callable[[], ApiError]):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_tasks = threads + waiting
        self._full = full
        self.taken = 0

    async def run(
        self, function: Callable[[], R], seconds: float, late: Callable[[], ApiError], cancel_running: bool = True
    ) -> R:
        """Run a function in a thread, and return its result or raise its exception.

        Parameters
        ----------
        function : the function.
        seconds : timeout.
        late : makes the error for a timeout. The thread cannot be stopped: it counts as taken until it is done.
        cancel_running : if False, the timeout applies only while the task is queued.
        """
        if self.taken >= self._max_tasks:
            raise self._full()
        self.taken += 1
        future = self._pool.submit(function)
        done = asyncio.wrap_future(future)
        done.add_done_callback(self._leave)
        try:
            return await asyncio.wait_for(asyncio.shield(done), seconds)
        except TimeoutError:
            if done.done() and not done.cancelled():
                return done.result()
            if future.cancel() or cancel_running:
                raise late() from None
            return await asyncio.shield(done)

    def _leave(self, done: asyncio.Future[R]) -> None:
        self.taken -= 1
        if not done.cancelled():
            done.exception()  # mark the exception as retrieved, as nothing may be waiting for it any more

    def close(self) -> None:
        """Cancel waiting tasks, and wait for running ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)
