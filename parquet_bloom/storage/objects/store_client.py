"""Requests to one object store, with retries, time limits, and adaptive concurrency."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...util.lazy import late_module
from ...util.threads import wait_for_result
from ..byte_ranges import GAP_BYTES
from .request_limits import LIST_PAGE, RequestLimits
from .store_errors import NoAnswerError, is_busy, is_transient

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = late_module("asyncio")

if TYPE_CHECKING:
    import asyncio

    from obstore import GetOptions
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


PARALLEL_REQUESTS = 64
"""Concurrent requests to one store, as long as it does not report that they are too many."""

_REPEATED_KEYS = 100  # keys that a repeated listing asks for again: more than one, since a key may be deleted meanwhile

_MAX_GAP = 128 * 1024
_BANDWIDTH = 64e6  # largest bandwidth in bytes per second that is assumed, since all requests share a network
_DECAY = 0.98  # factor for the weight of earlier responses at each new one
_MIN_WEIGHT = 8.0  # weight of responses below which nothing is estimated


class StoreResponse(NamedTuple):
    """Response of a store to a GET request.

    Attributes
    ----------
    meta : size, etag, time of the last change, as obstore gives them.
    start : position of the first byte in the object.
    data : the bytes; empty for a HEAD request.
    tries : number of requests, including retries.
    """

    meta: dict[str, Any]
    start: int
    data: bytes
    tries: int


class Listed(NamedTuple):
    """Object in a listing, with its etag if the listing has it."""

    key: str
    size: int
    e_tag: str | None


class StoreClient:
    """Client of one store; thread-safe.

    Methods raise the errors of obstore, or NoAnswerError if there is no response in time: call them inside
    `errors.translate_errors`.

    Parameters
    ----------
    store : an obstore store without retries.
    limits : limits on the time and the number of tries of a request.
    """

    def __init__(self, store: Any, limits: RequestLimits) -> None:
        self._store = store
        self._limits = limits
        self._slots = _Slots(PARALLEL_REQUESTS)
        self._speed = _Speed()

    @property
    def patience(self) -> float:
        """Seconds for all tries of a request."""
        return self._limits.retry_timeout

    @property
    def gap_bytes(self) -> int:
        """Largest gap in bytes between two ranges for which one request is faster than two; see `_Speed`."""
        return self._speed.gap_bytes

    def get(self, key: str, options: GetOptions) -> StoreResponse:
        """Get an object, a range of it, or only its description."""
        return run(self.fetch(key, options))

    def attributes(self, key: str) -> dict[str, str]:
        """Get the attributes of an object, such as user metadata and content type."""
        return run(self._attributes(key))

    def list_objects(self, prefix: str | None) -> tuple[list[Listed], int]:
        """List the objects below a prefix, sorted by key; returns them and the number of requests."""
        return run(self._list(prefix))

    def list_first(self, prefixes: Iterable[str | None]) -> list[list[Listed]]:
        """Return the first objects below each prefix, with one concurrent request for each."""
        return run(run_together([self._first(prefix) for prefix in prefixes]))

    def list_folder(self, prefix: str | None) -> list[Any]:
        """List the objects directly below a prefix, as obstore describes them."""
        import obstore

        async def ask() -> Any:
            return (await obstore.list_with_delimiter_async(self._store, prefix))["objects"]

        return list(run(self._try(ask))[0])

    def put(self, key: str, data: bytes, **options: Any) -> None:
        """Write an object with one request; `options` are passed to obstore."""
        import obstore

        async def ask() -> Any:
            return await obstore.put_async(self._store, key, data, use_multipart=False, **options)

        run(self._try(ask))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, as many per request as possible."""
        import obstore

        for start in range(0, len(keys), LIST_PAGE):
            page = list(keys[start : start + LIST_PAGE])
            run(self._try(lambda page=page: obstore.delete_async(self._store, page)))  # type: ignore[misc]

    async def fetch(self, key: str, options: GetOptions) -> StoreResponse:
        """Get an object like `get`; runs in the event loop."""
        import obstore

        async def ask() -> tuple[dict[str, Any], int, bytes]:
            loop = asyncio.get_running_loop()
            started = loop.time()
            result = await obstore.get_async(self._store, key, options=options)
            data = b"" if options.get("head") else bytes(await result.bytes_async())
            self._speed.add(loop.time() - started, len(data))
            return dict(result.meta), result.range[0], data

        (meta, start, data), tries = await self._try(ask)
        return StoreResponse(meta, start, data, tries)

    async def _list(self, prefix: str | None) -> tuple[list[Listed], int]:
        items: list[Listed] = []
        requests = streams = 0
        while True:
            pages = _Pages(self._store, prefix, items)
            length, tries = await self._try(pages.add_next)
            requests += tries
            while length == LIST_PAGE:
                length, tries = await self._try(pages.add_next)
                requests += tries if length else 0  # the previous page was already marked as the last one
            streams += 1
            # If a listing ends with a full page, or is empty, the next response may have been the page of a proxy,
            # which parses as a listing without objects. So the rest is listed once more, from a key before the last
            # ones, which must then be in the response.
            if length or (not items and streams > 1):
                return sorted(items), requests

    async def _attributes(self, key: str) -> dict[str, str]:
        import obstore

        async def ask() -> dict[str, str]:
            result = await obstore.get_async(self._store, key, options={"head": True})
            return {str(name): str(text) for name, text in result.attributes.items()}

        return (await self._try(ask))[0]

    async def _first(self, prefix: str | None) -> list[Listed]:
        items: list[Listed] = []
        await self._try(_Pages(self._store, prefix, items).add_next)
        return items

    async def _try(self, ask: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """Retry a request until it succeeds or the time is over; return the result and the number of requests."""
        loop, limits = asyncio.get_running_loop(), self._limits
        deadline: float | None = None
        tries = 0
        while True:
            failure: Exception
            async with self._slots:
                now = loop.time()
                deadline = deadline or now + limits.retry_timeout
                until = min(now + limits.timeout, deadline)
                tries += 1
                try:
                    async with asyncio.timeout_at(until):
                        answer = await ask()
                    self._slots.increase()
                    return answer, tries
                except TimeoutError:
                    failure = NoAnswerError(f"no answer within {until - now:.3g} s")
                except Exception as error:
                    if not is_transient(error):
                        raise
                    if is_busy(error):
                        self._slots.decrease()
                    failure = error
            pause = limits.pause(tries)
            if tries > limits.max_retries or loop.time() + pause >= deadline:
                raise failure
            await asyncio.sleep(pause)


async def run_together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently and return their results in order; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class _Pages:
    """Pages of a listing; after a failure only the failed page is requested again.

    Parameters
    ----------
    items : the objects listed so far, in the order of the store; pages are added here. The last ones are requested
        again, and one of them or a later one must be in the response: otherwise it is not a listing. (Some of them
        may have been deleted.)
    """

    def __init__(self, store: Any, prefix: str | None, items: list[Listed]) -> None:
        self._store, self._prefix, self._items = store, prefix, items
        self._stream: Any = None
        self._repeated: frozenset[str] = frozenset()  # keys listed before, some of which are in the next page again

    async def add_next(self) -> int:
        """Add the next page and return its number of keys, 0 at the end."""
        import obstore

        if self._stream is None:
            again = min(_REPEATED_KEYS, len(self._items) - 1)
            self._repeated = frozenset(item.key for item in self._items) if again > 0 else frozenset()
            start = self._items[-1 - again].key if again > 0 else None
            self._stream = obstore.list(self._store, self._prefix, offset=start, chunk_size=LIST_PAGE)
        try:
            page: Sequence[Any] = await self._stream.__anext__()
        except StopAsyncIteration:
            page = ()
        except BaseException:
            self._stream = None  # a stream cannot continue after a failure
            raise
        added = [Listed(item["path"], item["size"], item["e_tag"]) for item in page]
        if self._repeated:
            if not added:
                self._stream = None
                raise NoAnswerError("the response to a listing is not a listing")
            added = [item for item in added if item.key not in self._repeated]
            self._repeated = frozenset()
        self._items += added
        return len(page)


class _Slots:
    """Adaptive limit of concurrent requests: halved when a store reports too many, then raised slowly."""

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._limit = float(max_requests)
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        while self._running >= int(self._limit):
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._wake()  # the slot may already have been given to this waiter
                raise
        self._running += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running -= 1
        self._wake()

    def _wake(self) -> None:
        room = int(self._limit) - self._running
        while self._waiting and room > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def decrease(self) -> None:
        """Halve the limit: the store gets too many requests."""
        self._limit = max(1.0, self._limit / 2)

    def increase(self) -> None:
        """Raise the limit by one for each round of answers."""
        self._limit = min(float(self._max_requests), self._limit + 1 / self._limit)


class _Speed:
    """Estimate of the cost of a request from earlier responses.

    The model is time = latency + bytes / bandwidth, fitted by weighted least squares.

    Two ranges are worth one request if the bytes between them take less time than a request, whose latency is shared by
    all concurrent requests.
    """

    def __init__(self) -> None:
        self._weight = self._bytes = self._time = self._bytes_bytes = self._bytes_time = 0.0
        self.gap_bytes = GAP_BYTES

    def add(self, elapsed: float, num_bytes: int) -> None:
        """Add a response to the estimate: seconds and bytes."""
        self._weight = self._weight * _DECAY + 1
        self._bytes = self._bytes * _DECAY + num_bytes
        self._time = self._time * _DECAY + elapsed
        self._bytes_bytes = self._bytes_bytes * _DECAY + num_bytes * num_bytes
        self._bytes_time = self._bytes_time * _DECAY + num_bytes * elapsed
        spread = self._weight * self._bytes_bytes - self._bytes**2
        seconds_a_byte = (self._weight * self._bytes_time - self._bytes * self._time) / spread if spread > 0 else 0.0
        latency = (self._time - seconds_a_byte * self._bytes) / self._weight
        if self._weight >= _MIN_WEIGHT and latency > 0:
            bandwidth = min(_BANDWIDTH, 1 / seconds_a_byte) if seconds_a_byte > 0 else _BANDWIDTH
            self.gap_bytes = int(min(_MAX_GAP, max(GAP_BYTES, latency * bandwidth / PARALLEL_REQUESTS)))
