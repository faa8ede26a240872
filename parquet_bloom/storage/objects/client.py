"""Requests to one object store: tried again where that may help, bounded in time, and no more at once than it takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..coalesce import GAP_BYTES
from . import event_loop
from .failures import NoAnswerError, is_busy, is_transient
from .limits import RequestLimits

if TYPE_CHECKING:
    from obstore import GetOptions

T = TypeVar("T")

PARALLEL_REQUESTS = 64
"""Requests to one store that are under way together, as long as it does not say that they are too many."""

LIST_PAGE = 1000  # keys that a store names in an answer
_REPEATED_KEYS = 100  # keys of an answer that the next listing repeats, since one alone may be deleted meanwhile

_MAX_GAP = 128 * 1024
_BANDWIDTH = 64e6  # bytes a second that no more than is counted on, since all requests share a network
_DECAY = 0.98  # weight of what was measured before one more request
_MIN_WEIGHT = 8.0  # answers of which nothing is concluded


class StoreResponse(NamedTuple):
    """What a store answers to a GET.

    Attributes
    ----------
    meta : size, etag, time of the last change, as obstore gives them.
    start : position of the first byte in the object.
    data : the bytes; none if only the description was asked for.
    tries : requests that it took.
    """

    meta: dict[str, Any]
    start: int
    data: bytes
    tries: int


@dataclass
class RequestCount:
    """How many requests something took, for whoever reports it."""

    number: int = 0


class Listed(NamedTuple):
    """One object of a listing, and its etag if the listing has it."""

    key: str
    size: int
    e_tag: str | None


class StoreClient:
    """Asks one store; threads may share it.

    Methods raise obstore's own errors, or NoAnswerError when no answer came in time: call them inside of
    `errors.translated`.

    Parameters
    ----------
    store : obstore's store; one that tries each request once.
    limits : how long a request may take, and how often it is tried.
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
        """Bytes between two ranges up to which one request for both is better than two; see `_Speed`."""
        return self._speed.gap_bytes

    def get(self, key: str, options: GetOptions) -> StoreResponse:
        """Get an object, a range of it, or its description alone."""
        return event_loop.run(self.fetch(key, options))

    def attributes(self, key: str) -> dict[str, str]:
        """Get what an object has besides its bytes: user metadata, content type and their like."""
        return event_loop.run(self._attributes(key))

    def list_objects(self, prefix: str | None) -> tuple[list[Listed], int]:
        """List the objects below a prefix, sorted by key; returns them and the number of requests."""
        return event_loop.run(self._list(prefix))

    def list_first(self, prefixes: Iterable[str | None]) -> list[list[Listed]]:
        """Return the first objects below each of several prefixes, asked for side by side; one request for each."""
        return event_loop.run(run_together([self._first(prefix) for prefix in prefixes]))

    def list_folder(self, prefix: str | None) -> list[Any]:
        """List the objects directly below a prefix, as obstore describes them."""
        import obstore

        async def ask() -> Any:
            return (await obstore.list_with_delimiter_async(self._store, prefix))["objects"]

        return list(event_loop.run(self._try(ask))[0])

    def put(self, key: str, data: bytes, **options: Any) -> None:
        """Write an object by one request; `options` are obstore's."""
        import obstore

        async def ask() -> Any:
            return await obstore.put_async(self._store, key, data, use_multipart=False, **options)

        event_loop.run(self._try(ask))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, as many at a time as a request can."""
        import obstore

        for start in range(0, len(keys), LIST_PAGE):
            page = list(keys[start : start + LIST_PAGE])
            event_loop.run(self._try(lambda page=page: obstore.delete_async(self._store, page)))  # type: ignore[misc]

    async def fetch(self, key: str, options: GetOptions) -> StoreResponse:
        """`get`, in the loop."""
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
                requests += tries if length else 0  # the page before has said that it was the last one
            streams += 1
            # A listing that ends with a full page, or has nothing, may be one whose next answer was no listing, but the
            # page of a proxy, which is read as one without objects. So what follows is asked for once more, in a way
            # that the last keys have to be in the answer, too.
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
        """Ask until there is an answer or no time left; returns the answer and the number of requests."""
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
    """Run coroutines side by side; returns their results in order, and the first failure ends the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class _Pages:
    """The answers to a listing; a page that failed is asked for again, not the ones before.

    Parameters
    ----------
    items : what is listed already, in the store's order, and where pages are added. The last ones are asked for again,
        and one of them, or one behind them, must be in the answer: else it is no listing. (Some may have been deleted.)
    """

    def __init__(self, store: Any, prefix: str | None, items: list[Listed]) -> None:
        self._store, self._prefix, self._items = store, prefix, items
        self._stream: Any = None
        self._repeated: frozenset[str] = frozenset()  # keys that were listed before, in an answer that has some again

    async def add_next(self) -> int:
        """Add the next page, and return how many keys it has; at the end there are none."""
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
            self._stream = None  # it does not go on after a failure
            raise
        added = [Listed(item["path"], item["size"], item["e_tag"]) for item in page]
        if self._repeated:
            if not added:
                self._stream = None
                raise NoAnswerError("an answer to a listing is not one")
            added = [item for item in added if item.key not in self._repeated]
            self._repeated = frozenset()
        self._items += added
        return len(page)


class _Slots:
    """How many requests are under way: fewer as soon as a store says that they are too many, then slowly more again."""

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
                self._wake()  # perhaps it was this one's turn
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
    """What a request costs, from the answers so far: time = latency + bytes / bandwidth, by weighted least squares.

    Two ranges are worth one request where the bytes between them take less time than a request, whose wait is shared by
    all that are under way side by side.
    """

    def __init__(self) -> None:
        self._weight = self._bytes = self._time = self._bytes_bytes = self._bytes_time = 0.0
        self.gap_bytes = GAP_BYTES

    def add(self, elapsed: float, num_bytes: int) -> None:
        """Take an answer into account: seconds and bytes."""
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
