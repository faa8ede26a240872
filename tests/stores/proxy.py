"""A proxy of HTTP on loopback before a store: it logs requests, and does harm at a chosen one.

A client is given the proxy's address as its endpoint, signs for that, and the store checks the signature against the
header `Host`, which is passed on as it came.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from support.servers.s3_server import Fault, Request, read_request

_OF_THE_CONNECTION = frozenset(("connection", "keep-alive", "expect", "proxy-connection", "te", "transfer-encoding"))
HTML = b"<!DOCTYPE html><html><body>Welcome. Please sign in.</body></html>"


@dataclass
class Answer:
    """An answer to a request.

    Attributes
    ----------
    status, headers, body : as they are sent.
    length : what Content-Length says; None for the length of the body. It differs where the body is cut, and for HEAD.
    """

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    length: int | None = None


class Instead(Exception):
    """Raised by what is called before or after a request: the client gets another answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Unanswered(Exception):
    """Raised by what is called before or after a request: the client gets no answer, and the connection stays open."""


@dataclass
class _Moment:
    """Something to do at one request, counted over all that are for objects: before it is passed on, or after."""

    number: int
    after: bool
    act: Callable[[], None]


class Proxy:
    """A proxy before one store.

    Faults are those of `s3_server`: each happens to the next requests that match, which `operation`, `times`, `skip`
    and `when` say. Requests to stores of Azure's have the names of S3's operations too, with the account as the bucket.

    Attributes
    ----------
    endpoint : its URL, for clients.
    delay : seconds that each request waits before it is passed on.
    """

    def __init__(self, endpoint: str) -> None:
        self._upstream = urlsplit(endpoint).netloc
        self.delay = 0.0
        self._lock = threading.Lock()
        self._log: list[Request] = []
        self._arrived = 0
        self._busy = 0
        self._idle = threading.Condition(self._lock)
        self._before: list[Fault] = []
        self._after: list[Fault] = []
        self._moments: list[_Moment] = []
        self._closed = threading.Event()
        self._failures: list[BaseException] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def log(self) -> list[Request]:
        """Every request so far that was answered or cut, in the order in which they ended; a copy."""
        with self._lock:
            return list(self._log)

    def operations(self) -> list[str]:
        """Names of the operations so far."""
        return [request.operation for request in self.log]

    def clear(self) -> None:
        """Forget the log and all faults; requests are counted from nought again."""
        with self._lock:
            self._log.clear()
            self._before.clear()
            self._after.clear()
            self._moments.clear()
            self._arrived = 0
            self.delay = 0.0

    def before(self, operation: Any, act: Callable[[Request], None], **which: Any) -> Fault:
        """Call `act(request)` before a request that matches is passed on; `which` (times, skip, when): see `Fault`."""
        fault = Fault(operation, act, **which)
        with self._lock:
            self._before.append(fault)
        return fault

    def after(self, operation: Any, act: Callable[[Request], None], **which: Any) -> Fault:
        """As `before`, when the store has answered and the client has not been."""
        fault = Fault(operation, act, **which)
        with self._lock:
            self._after.append(fault)
        return fault

    def at(self, number: int, act: Callable[[], None], *, after: bool = False) -> None:
        """Call `act()` before the request of that number, or after its answer; those for objects count, from 0.

        Listings are left out: clients make them side by side, in no order.
        """
        with self._lock:
            self._moments.append(_Moment(number, after, act))

    def answer(self, operation: Any = None, status: int = 503, body: bytes = b"", **which: Any) -> Fault:
        """Answer without asking the store: 503 by default; `HTML` with 200 is what a proxy of a hotel says."""
        kind = "text/html" if body.startswith(b"<!DOCTYPE html") else "application/xml"

        def act(request: Request) -> None:
            raise Instead(Answer(status, [("Content-Type", kind)], body))

        return self.before(operation, act, **which)

    def silence(self, operation: Any = None, *, after: bool = False, **which: Any) -> Fault:
        """Never answer: the store never gets the request or, with `after`, has carried it out."""

        def act(request: Request) -> None:
            raise Unanswered

        return (self.after if after else self.before)(operation, act, **which)

    def cut(self, operation: Any = None, **which: Any) -> Fault:
        """Send half of the answer's body, or of its headers where it has none, and close the connection."""

        def act(request: Request) -> None:
            raise ConnectionResetError("cut")

        return self.after(operation, act, **which)

    def settle(self) -> None:
        """Wait until the store has done all that was passed on: a client that gives up leaves requests running."""
        with self._lock:
            if not self._idle.wait_for(lambda: not self._busy, timeout=60):
                raise TimeoutError("a request is still under way")

    def check(self) -> None:
        """Raise what went wrong inside the proxy or in what it called."""
        if self._failures:
            raise self._failures[0]

    def close(self) -> None:
        """End it, and every request that waits in it."""
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        if len(body) < length:
            handler.close_connection = True
            return
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = read_request(handler.command, handler.path, headers, len(body))
        with self._lock:
            number = self._arrived if request.key else -1
            self._arrived += bool(request.key)
            self._busy += 1
        silent = False
        try:
            answer, cut = self._answered(number, request, handler, body)
        except Unanswered:
            silent = True
        finally:
            with self._lock:
                self._busy -= 1
                self._idle.notify_all()
        if silent:
            self._closed.wait()
            handler.close_connection = True
            return
        with suppress(ConnectionError):
            _send(handler, answer, cut)

    def _answered(
        self, number: int, request: Request, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[Answer, bool]:
        """Carry a request out, with all that is to happen at it; returns the answer and whether it is to be cut."""
        if self.delay:
            time.sleep(self.delay)
        answer = Answer(0)
        cut = False
        try:
            self._act(number, request, after=False)
            answer = self._ask(handler, body)
            self._act(number, request, after=True)
        except Instead as instead:
            answer = instead.answer
        except Unanswered:
            self._write_down(request, 0, 0)
            raise
        except ConnectionResetError:
            cut = True
        self._write_down(request, 0 if cut else answer.status, len(answer.body))
        return answer, cut

    def _act(self, number: int, request: Request, *, after: bool) -> None:
        with self._lock:
            moments = [moment for moment in self._moments if (moment.number, moment.after) == (number, after)]
            faults = [fault for fault in (self._after if after else self._before) if fault.matches(request)]
        for moment in moments:
            moment.act()
        for fault in faults:
            fault.act(request)

    def _write_down(self, request: Request, status: int, received: int) -> None:
        with self._lock:
            self._log.append(request._replace(status=status, received=received))

    def _ask(self, handler: BaseHTTPRequestHandler, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self._upstream, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in _OF_THE_CONNECTION:
                    connection.putheader(name, value.encode("latin-1"))
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_THE_CONNECTION]
            length = answer.getheader("Content-Length") if handler.command == "HEAD" else None
            return Answer(answer.status, headers, data, None if length is None else int(length))
        finally:
            connection.close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer, cut: bool) -> None:
    if cut and not answer.status:  # there was no request: there is nothing to send half of
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        return
    handler.send_response_only(answer.status)
    for name, value in answer.headers:
        if name.lower() != "content-length":
            handler.send_header(name, value)
    length = len(answer.body) if answer.length is None else answer.length
    if answer.status not in (204, 304):
        handler.send_header("Content-Length", str(length))
    handler.end_headers()
    if not cut:
        if handler.command != "HEAD":
            handler.wfile.write(answer.body)
        return
    handler.wfile.write(answer.body[: len(answer.body) // 2])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no error."""


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            try:
                proxy._serve(self)
            except ConnectionError:
                self.close_connection = True
            except BaseException as error:
                proxy._failures.append(error)
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """Run a proxy before an endpoint; what went wrong inside is raised at the end."""
    proxy = Proxy(endpoint)
    try:
        yield proxy
        proxy.check()
    finally:
        proxy.close()
