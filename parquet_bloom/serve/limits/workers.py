"""Work done in threads: so many at a time, so many waiting, and none for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ..errors import ApiError

R = TypeVar("R")


class BoundedExecutor:
    """A number of threads, and what waits for them.

    Parameters
    ----------
    name : of the threads.
    threads : how many there are.
    waiting : how much may wait for one.
    full : the refusal of what comes on top.

    Attributes
    ----------
    taken : how much is being done, or waits.
    """

    def __init__(self, name: str, threads: int, waiting: int, full: Callable[[], ApiError]):
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + waiting
        self._full = full
        self.taken = 0

    async def run(
        self, function: Callable[[], R], seconds: float, late: Callable[[], ApiError], ends: bool = True
    ) -> R:
        """What a function returns or raises.

        Parameters
        ----------
        seconds : how long it is waited for.
        late : the refusal of what takes longer. A thread cannot be stopped: it keeps its place until it is done.
        ends : whether that is so for what has begun; otherwise only waiting is ended, and what has begun waited for.
        """
        if self.taken >= self._most:
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
            if future.cancel() or ends:
                raise late() from None
            return await asyncio.shield(done)

    def _leave(self, done: asyncio.Future[R]) -> None:
        self.taken -= 1
        if not done.cancelled():
            done.exception()  # that it was looked at: nobody may be waiting any more

    def close(self) -> None:
        """Drop what waits; what has begun is done to its end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
