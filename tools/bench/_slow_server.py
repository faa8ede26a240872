"""An object store with S3's protocol on loopback, in a separate process, that delays and counts requests.

python tools/bench/_slow_server.py [--latency MS] [--port N] NAME=FOLDER...

Bucket NAME has the files of FOLDER (see `_slow_objects`). The first line of output is the port. A response begins MS
milliseconds after the complete request was received, however many others wait, and is sent at the speed of loopback.
`GET /_counts` returns the counts since its last call as JSON, without a delay, and resets them. The server ends at the
end of its standard input.

As clients and server share the processors, it is a minimal epoll loop in one thread: a request takes 60 to 90
microseconds of processor time, a third of obstore's. As all requests wait equally long, they form a queue, and need no
timers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path

from _slow_objects import Answer, Piece, Request, Store

_ONE_SEND = 64 * 1024  # maximum size of a head and body that are sent together
_RECEIVED = 256 * 1024
_SENT = 1024 * 1024


class Connection:
    """A client's connection; it has one request at a time."""

    __slots__ = ("arrived", "busy", "needed", "request", "rest", "socket")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.arrived = bytearray()
        self.needed = 0  # bytes required to continue
        self.request: Request | None = None  # a request whose body is incomplete
        self.busy = False
        self.rest: list[bytes | Piece] = []  # the unsent rest of a response

    def next(self) -> Request | None:
        """Return the next request, if it is complete."""
        if len(self.arrived) < self.needed:
            return None
        head = self.request or self._head()
        if head is None:
            return None
        if head.headers.get(b"transfer-encoding") == b"chunked":
            body = self._chunks()
        else:
            length = int(head.headers.get(b"content-length", 0))
            if not length:
                body = b""
            elif len(self.arrived) < length:
                self.needed = length
                body = None
            else:
                body = bytes(self.arrived[:length])
                del self.arrived[:length]
        if body is None:
            if self.request is None and head.headers.get(b"expect") == b"100-continue":
                self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.request = head
            return None
        self.needed, self.request = 0, None
        return head._replace(body=body)

    def _head(self) -> Request | None:
        end = self.arrived.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = bytes(self.arrived[:end]).split(b"\r\n")
        del self.arrived[: end + 4]
        method, target, _ = first.split(b" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        return Request(method, target, headers, b"")

    def _chunks(self) -> bytes | None:
        """Return a chunked body, if it is complete."""
        parts = []
        at = 0
        while (end := self.arrived.find(b"\r\n", at)) >= 0:
            size = int(bytes(self.arrived[at:end]).partition(b";")[0], 16)
            stop = end + size + 4
            if len(self.arrived) < stop:
                return None
            if not size:
                del self.arrived[:stop]
                return b"".join(parts)
            parts.append(bytes(self.arrived[end + 2 : stop - 2]))
            at = stop
        return None

    def send(self, answer: Answer) -> bool:
        """Send as much as possible; return whether everything is sent."""
        body = answer.body
        if isinstance(body, Piece) and body.length <= _ONE_SEND:
            body = os.pread(body.descriptor, body.length, body.offset)
        self.rest = [answer.head + body] if isinstance(body, bytes) else [answer.head, body]
        return self.send_rest()

    def send_rest(self) -> bool:
        try:
            while self.rest:
                part = self.rest[0]
                if isinstance(part, Piece):
                    count = os.sendfile(self.socket.fileno(), part.descriptor, part.offset, min(part.length, _SENT))
                    if not count:
                        raise ConnectionError  # the file has become shorter
                    unsent = part._replace(offset=part.offset + count, length=part.length - count)
                    self.rest[0:1] = [unsent] if unsent.length else []
                else:
                    count = self.socket.send(part, socket.MSG_MORE if len(self.rest) > 1 else 0)
                    self.rest[0:1] = [part[count:]] if count < len(part) else []
        except BlockingIOError:
            return False
        return True


class Server:
    """The event loop: accepts connections, reads requests, delays and answers them."""

    def __init__(self, store: Store, port: int, latency: float) -> None:
        self._store = store
        self._latency = latency
        self._listening = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._listening.setblocking(False)
        self.port = self._listening.getsockname()[1]
        self._poll = select.epoll()
        self._poll.register(self._listening.fileno(), select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._waiting: deque[tuple[float, Connection, Request]] = deque()

    def run(self, ends: int) -> None:
        """Serve until the end of the file descriptor `ends`."""
        self._poll.register(ends, select.EPOLLIN)
        clock = time.monotonic
        waiting = self._waiting
        while True:
            wait = max(0.0, waiting[0][0] - clock()) if waiting else None
            for descriptor, event in self._poll.poll(wait):
                connection = self._connections.get(descriptor)
                if connection is not None:
                    self._serve(connection, event)
                elif descriptor == ends:
                    if not os.read(ends, 4096):
                        return
                else:
                    self._accept()
            now = clock()
            while waiting and waiting[0][0] <= now:
                end, connection, request = waiting.popleft()
                self._store.served.add_round(end - self._latency, clock())
                self._answer(connection, self._store.answer(request))

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except BlockingIOError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[accepted.fileno()] = Connection(accepted)
            self._poll.register(accepted.fileno(), select.EPOLLIN)

    def _serve(self, connection: Connection, event: int) -> None:
        try:
            if event & select.EPOLLOUT:
                if connection.send_rest():
                    self._poll.modify(connection.socket.fileno(), select.EPOLLIN)
                    self._done(connection)
                return
            received = connection.socket.recv(_RECEIVED)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._close(connection)
            return
        connection.arrived += received
        if not connection.busy:
            self._next(connection)

    def _next(self, connection: Connection) -> None:
        try:
            request = connection.next()
        except (ValueError, OSError):  # not HTTP, or the client has left
            self._close(connection)
            return
        if request is None:
            return
        connection.busy = True
        if request.target == b"/_counts":
            self._answer(connection, self._counts())
        elif self._latency:
            self._waiting.append((time.monotonic() + self._latency, connection, request))
            self._store.served.most = max(self._store.served.most, len(self._waiting))
        else:
            self._answer(connection, self._store.answer(request))

    def _counts(self) -> Answer:
        counts = {**self._store.served.counts(), "cpu": time.process_time(), "connections": len(self._connections) - 1}
        self._store.served.__init__()  # type: ignore[misc]
        body = json.dumps(counts).encode()
        return Answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)

    def _answer(self, connection: Connection, answer: Answer) -> None:
        if connection.socket.fileno() < 0:
            return  # the client has closed the connection
        try:
            if connection.send(answer):
                self._done(connection)
            else:
                self._poll.modify(connection.socket.fileno(), select.EPOLLOUT)
        except OSError:
            self._close(connection)

    def _done(self, connection: Connection) -> None:
        connection.busy = False
        if connection.arrived:
            self._next(connection)

    def _close(self, connection: Connection) -> None:
        descriptor = connection.socket.fileno()
        if descriptor >= 0:
            self._poll.unregister(descriptor)
            del self._connections[descriptor]
            connection.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=30, help="delay of each request in milliseconds")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("buckets", nargs="+", metavar="NAME=FOLDER")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # objects stay open once they are read
    folders = {name: Path(folder) for name, _, folder in (text.partition("=") for text in options.buckets)}
    server = Server(Store(folders), options.port, options.latency / 1e3)
    print(server.port, flush=True)
    server.run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
