"""Event loop in a background thread that runs all requests to object stores.

Threads that wait for a response can be stopped (`threads.in_order`, Ctrl-C); their requests are then cancelled.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from ...util.lazy import late_module
from ...util.threads import wait_for_result

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = late_module("asyncio")

T = TypeVar("T")

_GIVE_UP = 1.0  # seconds to wait for the end of the loop at exit

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0
_ended = 0  # the process whose loop was stopped for good


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop and return its result; it is cancelled if the calling thread is stopped.

    Raises
    ------
    Stopped
        If this thread was stopped; see `threads.in_order`.
    RuntimeError
        If the interpreter is shutting down: the loop has ended, and a new thread may not start.
    """
    if _ended == os.getpid():
        work.close()
        raise RuntimeError("the interpreter is ending")
    future = asyncio.run_coroutine_threadsafe(work, _get_loop())
    try:
        return wait_for_result(future)
    except BaseException:
        future.cancel()
        raise


def _get_loop() -> asyncio.AbstractEventLoop:
    global _loop, _process
    with _lock:
        if _loop is None or _process != os.getpid():
            _loop, _process = asyncio.new_event_loop(), os.getpid()
            thread = threading.Thread(target=_serve, args=(_loop,), name="parquet_bloom requests", daemon=True)
            thread.start()
            atexit.register(_stop, _loop, thread)
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the loop before the interpreter shuts down; later responses would crash it."""
    global _ended
    if _process != os.getpid() or not thread.is_alive():
        return

    async def end() -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:  # tasks that wait for other tasks end some iterations later
            await asyncio.wait(tasks, timeout=_GIVE_UP / 2)
        loop.stop()

    _ended = _process
    asyncio.run_coroutine_threadsafe(end(), loop)
    thread.join(_GIVE_UP)
    _wait_for_deliveries()


def _wait_for_deliveries() -> None:
    """Wait until no thread of obstore is inside the call that delivers a result.

    The result arrives as soon as the call has queued it, but the thread still needs the GIL to return. If the
    interpreter shuts down before that, Rust aborts the process after all its work is done.
    """
    deadline = time.monotonic() + _GIVE_UP
    while time.monotonic() < deadline and any(map(_is_delivering, sys._current_frames().values())):
        time.sleep(0.001)


def _is_delivering(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not asyncio.BaseEventLoop.call_soon_threadsafe.__code__:
        frame = frame.f_back
    return frame is not None
