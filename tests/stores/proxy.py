"""A proxy of HTTP on loopback before a store: it logs requests, and does harm at a chosen one.

A client is given the proxy's address as its endpoint, signs for that, and the store checks the signature against the
header `Host`, which is passed on as it came.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.servers.s3_server import Request, read_request

_OF_THE_CONNECTION = frozenset(("connection", "keep-alive", "expect", "proxy-connection", "te", "transfer-encoding"))
HTML = b"<!DOCTYPE html><html><body>Welcome. Please sign in.</body></html>"


class Answer(NamedTuple):
    """An answer; `length` is what Content-Length says, which differs from the body's for HEAD."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    length: int


class Unanswered(Exception):
    """Raised by what is called before or after a request: the client gets no answer, and the connection stays open."""


class Proxy(ThreadingHTTPServer):
    """A proxy before one store; requests to Azure's have the names of S3's operations, with the account as the bucket.

    Attributes
    ----------
    endpoint : its URL, for clients.
    log : every request so far that was answered or cut, in the order in which they ended.
    answers : (status, body, cut) of the next requests for bytes of objects: without asking the store, or half of the
        store's answer where `cut`.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(endpoint).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.changed = threading.Condition()
        self.busy = 0
        self.failures: list[BaseException] = []
        self.closed = threading.Event()
        self.clear()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def clear(self) -> None:
        """Forget the log and all that is to happen; requests are counted from nought again."""
        self.arrived = 0
        self.log: list[Request] = []
        self.answers: list[tuple[int, bytes, bool]] = []
        self.moments: dict[tuple[int, bool], Callable[[], None]] = {}

    def at(self, number: int, act: Callable[[], None], *, after: bool = False) -> None:
        """Call `act()` before the request of that number, or after its answer; those for objects count, from 0.

        Listings are left out: clients make them side by side, in no order.
        """
        self.moments[number, after] = act

    def settle(self) -> None:
        """Wait until the store has done all that was passed on, and raise what went wrong inside the proxy."""
        with self.changed:
            if not self.changed.wait_for(lambda: not self.busy, timeout=60):
                raise TimeoutError("a request is still under way")
        if self.failures:
            raise self.failures[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = read_request(self.command, self.path, headers, len(body))
        with proxy.changed:
            number = proxy.arrived if request.key else -1
            proxy.arrived += bool(request.key)
            proxy.busy += 1
            set_one = proxy.answers.pop(0) if proxy.answers and request.operation == "GetObject" else None
        try:
            proxy.moments.get((number, False), bool)()
            if set_one is not None and not set_one[2]:
                answer = Answer(set_one[0], [("Content-Type", "text/html")], set_one[1], len(set_one[1]))
            else:
                answer = self._ask(body)
            proxy.moments.get((number, True), bool)()
        except Unanswered:
            answer = None
        except BaseException as error:
            proxy.failures.append(error)
            raise
        finally:
            with proxy.changed:
                proxy.busy -= 1
                proxy.changed.notify_all()
        proxy.log.append(request._replace(status=answer.status if answer else 0))
        if answer is None:
            proxy.closed.wait()
            self.close_connection = True
            return
        self._send(answer, set_one is not None and set_one[2])

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _ask(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_THE_CONNECTION:
                    connection.putheader(name, value.encode("latin-1"))
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            left_out = _OF_THE_CONNECTION | {"content-length"}
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in left_out]
            length = int(answer.getheader("Content-Length") or 0) if self.command == "HEAD" else len(data)
            return Answer(answer.status, headers, data, length)
        finally:
            connection.close()

    def _send(self, answer: Answer, cut: bool) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(answer.length))
        self.end_headers()
        self.wfile.write(answer.body[: len(answer.body) // 2] if cut else answer.body)
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """Run a proxy before an endpoint; what went wrong inside is raised at the end."""
    proxy = Proxy(endpoint)
    try:
        yield proxy
        proxy.settle()
    finally:
        proxy.closed.set()
        proxy.shutdown()
        proxy.server_close()
