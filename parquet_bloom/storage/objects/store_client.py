"""Requests to one object store, in threads of ours, so that what waits for an answer can be interrupted."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...util.lazy import late_module
from ...util.threads import POLL_SECONDS, raise_if_stopped
from ..byte_ranges import GAP_BYTES
from .request_limits import LIST_PAGE, seconds
from .store_errors import NoListingError, is_broken

if TYPE_CHECKING:
    import obstore
    from obstore import GetOptions
else:
    obstore = late_module("obstore")


T = TypeVar("T")

_GIVE_UP = 1.0  # seconds that the end of the program waits for requests


class _RequestActivity:
    """Requests to all stores that are under way: Rust aborts a process whose interpreter ends before they return."""

    def __init__(self) -> None:
        self.running = 0
        self._is_known = self._ended = False  # whether the end of the program has been told, and whether it has come
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            if self._ended:
                raise RuntimeError("the interpreter is ending")
            if not self._is_known:
                self._is_known = True
                atexit.register(self._end)
            self.running += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self.running -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        """Let no more requests begin, and wait for those that are under way, but not for a store that is silent."""
        with self._changed:
            self._ended = True
            self._changed.wait_for(lambda: not self.running, _GIVE_UP)


_activity = _RequestActivity()


class RequestThreads:
    """Daemon threads that send requests. They are made when they are used, and end soon after the last one.

    The program does not wait for them: a store may be silent for long.

    Parameters
    ----------
    most : requests that are under way at a time.
    idle_seconds : after which a thread without requests ends.
    """

    def __init__(self, most: int, idle_seconds: float = 5.0) -> None:
        self._most, self._idle_seconds = most, idle_seconds
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads = self._idle = 0
        self._changed = threading.Condition()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call, after those that were submitted before; it raises RuntimeError if the interpreter is ending."""
        future: Future[T] = Future()
        with self._changed:
            self._tasks.append((future, call))
            if self._idle >= len(self._tasks):
                self._changed.notify()
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name="parquet_bloom requests", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                has_task = self._changed.wait_for(lambda: self._tasks, self._idle_seconds)
                self._idle -= 1
                if not has_task:
                    self._threads -= 1
                    return
                future, call = self._tasks.popleft()
            if future.set_running_or_notify_cancel():
                _run(future, call)
            del future, call


def _run(future: Future[T], call: Callable[[], T]) -> None:
    try:
        with _activity:
            result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def wait_for_all(futures: Sequence[Future[T]]) -> list[T]:
    """Wait for results and return them in order; the first failure cancels what has not begun.

    Raises
    ------
    Stopped
        If this thread was stopped; see `threads.in_order`.
    """
    pending = {*futures}
    try:
        while pending:
            done, pending = wait(pending, POLL_SECONDS, FIRST_EXCEPTION)
            for future in done:
                future.result()
            raise_if_stopped()
        return [future.result() for future in futures]
    finally:
        for future in pending:
            future.cancel()


PARALLEL_REQUESTS = 64
"""Concurrent requests to one store."""

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
    """

    meta: dict[str, Any]
    start: int
    data: bytes


class Listed(NamedTuple):
    """Object in a listing, with its etag if the listing has it."""

    key: str
    size: int
    e_tag: str | None


_RETRIES, _RETRY_TIMEOUT = 10, 180.0  # of obstore, where a store has no settings of its own
_PAUSE = 0.05  # seconds before a request is repeated that a proxy has answered


class StoreClient:
    """Client of one store; thread-safe.

    Methods raise the errors of obstore: call them inside `errors.translate_errors`. Retries and limits of time are
    those that the store was made with. A request, with its retries, counts as one.

    Parameters
    ----------
    store : an obstore store.

    Attributes
    ----------
    patience : seconds after which a request is not retried any more.
    """

    def __init__(self, store: Any) -> None:
        retry = getattr(store, "retry_config", None) or {}
        self.patience = seconds(retry.get("retry_timeout", _RETRY_TIMEOUT))
        self._max_retries = int(retry.get("max_retries", _RETRIES))
        self._store = store
        self._threads = RequestThreads(PARALLEL_REQUESTS)
        self._speed = _Speed()

    @property
    def gap_bytes(self) -> int:
        """Largest gap in bytes between two ranges for which one request is faster than two; see `_Speed`."""
        return self._speed.gap_bytes

    def submit(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Begin a call that sends one request after the other, such as `fetch`, in a thread of the client."""
        return self._threads.submit(partial(call, *arguments))

    def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Return what such a call returns; an interrupt ends the wait for it."""
        return wait_for_all([self.submit(call, *arguments)])[0]

    def get(self, key: str, options: GetOptions) -> StoreResponse:
        """Get an object, a range of it, or only its description."""
        return self.run(self.fetch, key, options)

    def attributes(self, key: str) -> dict[str, str]:
        """Get the attributes of an object, such as user metadata and content type."""
        result = self.run(partial(obstore.get, self._store, key, options={"head": True}))
        return {str(name): str(text) for name, text in result.attributes.items()}

    def list_objects(self, prefix: str | None) -> tuple[list[Listed], int]:
        """List the objects below a prefix, sorted by key; returns them and the number of requests."""
        return self.run(self._list, prefix)

    def list_first(self, prefixes: Iterable[str | None]) -> list[list[Listed]]:
        """Return the first objects below each prefix, with one concurrent request for each."""
        return wait_for_all([self.submit(self._list_first, prefix) for prefix in prefixes])

    def list_folder(self, prefix: str | None) -> list[Any]:
        """List the objects directly below a prefix, as obstore describes them."""
        ask = partial(obstore.list_with_delimiter, self._store, prefix)
        return list(self.run(self._repeat, ask)["objects"])

    def put(self, key: str, data: bytes, **options: Any) -> None:
        """Write an object with one request; `options` are passed to obstore."""
        self.run(partial(obstore.put, self._store, key, data, use_multipart=False, **options))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, as many per request as possible."""
        for start in range(0, len(keys), LIST_PAGE):
            self.run(partial(obstore.delete, self._store, list(keys[start : start + LIST_PAGE])))

    def fetch(self, key: str, options: GetOptions) -> StoreResponse:
        """Get an object like `get`, in a thread of the client."""
        return self._repeat(partial(self._fetch, key, options))

    def _fetch(self, key: str, options: GetOptions) -> StoreResponse:
        started = time.monotonic()
        result = obstore.get(self._store, key, options=options)
        data = b"" if options.get("head") else bytes(result.bytes())
        self._speed.add(time.monotonic() - started, len(data))
        return StoreResponse(dict(result.meta), result.range[0], data)

    def _list(self, prefix: str | None) -> tuple[list[Listed], int]:
        items: list[Listed] = []
        requests = streams = 0
        while True:
            pages = _Pages(self._store, prefix, items)
            length = self._repeat(pages.add_next)
            requests += 1
            while length == LIST_PAGE:
                length = self._repeat(pages.add_next)
                requests += bool(length)  # if not, the previous page was already marked as the last one
            streams += 1
            # If a listing ends with a full page, or is empty, the next response may have been the page of a proxy,
            # which parses as a listing without objects. So the rest is listed once more, from a key before the last
            # ones, which must then be in the response.
            if length or (not items and streams > 1):
                return sorted(items), requests

    def _list_first(self, prefix: str | None) -> list[Listed]:
        items: list[Listed] = []
        self._repeat(_Pages(self._store, prefix, items).add_next)
        return items

    def _repeat(self, ask: Callable[[], T]) -> T:
        """Repeat a request whose response is not from the store, such as the page of a proxy: obstore does not."""
        tries, began = 0, time.monotonic()
        while True:
            try:
                return ask()
            except Exception as error:
                tries += 1
                is_over = tries > self._max_retries or time.monotonic() - began > self.patience
                if is_over or not is_broken(error):
                    raise
            time.sleep(_PAUSE)


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

    def add_next(self) -> int:
        """Add the next page and return its number of keys, 0 at the end."""
        if self._stream is None:
            again = min(_REPEATED_KEYS, len(self._items) - 1)
            self._repeated = frozenset(item.key for item in self._items) if again > 0 else frozenset()
            start = self._items[-1 - again].key if again > 0 else None
            self._stream = obstore.list(self._store, self._prefix, offset=start, chunk_size=LIST_PAGE)
        try:
            page: Sequence[Any] = next(self._stream, ())
        except BaseException:
            self._stream = None  # a stream cannot continue after a failure
            raise
        added = [Listed(item["path"], item["size"], item["e_tag"]) for item in page]
        if self._repeated:
            if not added:
                self._stream = None
                raise NoListingError("the response to a listing is not a listing")
            added = [item for item in added if item.key not in self._repeated]
            self._repeated = frozenset()
        self._items += added
        return len(page)


class _Speed:
    """Estimate of the cost of a request from earlier responses.

    The model is time = latency + bytes / bandwidth, fitted by weighted least squares.

    Two ranges are worth one request if the bytes between them take less time than a request, whose latency is shared by
    all concurrent requests.
    """

    def __init__(self) -> None:
        self._weight = self._bytes = self._time = self._bytes_bytes = self._bytes_time = 0.0
        self.gap_bytes = GAP_BYTES
        self._lock = threading.Lock()

    def add(self, elapsed: float, num_bytes: int) -> None:
        """Add a response to the estimate: seconds and bytes."""
        with self._lock:
            self._add(elapsed, num_bytes)

    def _add(self, elapsed: float, num_bytes: int) -> None:
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
