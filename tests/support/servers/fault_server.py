"""A server on loopback that fails as requested, and repeats the request in its answers."""

from __future__ import annotations

import html
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

HEAD = b"<?xml version='1.0' encoding='UTF-8'?>"
LISTING = HEAD + b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"


class FaultServer:
    """Answers each connection's first request, with the fault that is set, and closes.

    Attributes
    ----------
    address : host and port.
    fault : one of `FAULTS`.
    good : says of a request's head whether it is answered well all the same, listings with nothing in them.
    data : bytes of every object.
    signed : a query that redirections lead to.
    """

    def __init__(self) -> None:
        self.fault = "403"
        self.signed = ""
        self.data = b""
        self.good: Callable[[str], bool] = lambda _: False
        self._patience = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop, and let those go that wait for an answer."""
        self._patience.set()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            try:
                client.settimeout(5)
                queried = b""
                while b"\r\n\r\n" not in queried:
                    more = client.recv(65536)
                    if not more:
                        return
                    queried += more
                client.sendall(self._reply(queried.partition(b"\r\n\r\n")[0].decode("latin-1")))
                client.shutdown(socket.SHUT_WR)
                client.settimeout(0.1)
                while client.recv(65536):  # so that closing sends no reset, which would overtake the answer
                    pass
            except OSError:
                return

    def _reply(self, head: str) -> bytes:
        method, target, _ = head.split(" ", 2)
        if self.good(head):
            return self._well(method, target, head)
        echo = f"{target} of {head}"
        words = html.escape(echo).replace("\r\n", " ")
        error = f"<Error><Code>Fault</Code><Message>no: {words}</Message><StringToSign>{words}</StringToSign></Error>"
        if self.fault == "timeout":
            self._patience.wait(1.0)
            return b""
        if self.fault == "cut":
            return (
                b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1000\r\nContent-Range: bytes 0-999/1000\r\n\r\n<ListB"
            )
        if self.fault == "redirect":
            where = f"http://{self.address}{urlsplit(target).path}moved?{self.signed}"
            return _answer("301 Moved Permanently", error.encode(), f"Location: {where}\r\n")
        if self.fault == "html":
            return _answer("200 OK", f"<!DOCTYPE html><html><body>Sign in: {echo}</body></html>".encode())
        if self.fault == "malformed":
            return _answer("200 OK", HEAD + f"<ListBucketResult><Contents><Key>{words}".encode())
        return _answer(f"{self.fault} {words[:200]}", HEAD + error.encode())

    def _well(self, method: str, target: str, head: str) -> bytes:
        if "list-type" in target:
            return _answer("200 OK", LISTING)
        data, size = self.data, len(self.data)
        expected = next((line[6:].strip() for line in head.split("\r\n") if line.lower().startswith("range:")), None)
        more, status = 'ETag: "abc"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n', "200 OK"
        if expected is not None:
            first, _, last = expected.removeprefix("bytes=").partition("-")
            start = max(0, size - int(last)) if not first else int(first)
            end = min(size, int(last) + 1) if first and last else size
            data, status = data[start:end], "206 Partial Content"
            more += f"Content-Range: bytes {start}-{end - 1}/{size}\r\n"
        return _answer(status, data, more, method != "HEAD")


def _answer(status: str, body: bytes, headers: str = "", with_body: bool = True) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode("latin-1", "replace") + (body if with_body else b"")


def closed_port() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


FAULTS = ("refused", "dns", "403", "404", "500", "malformed", "html", "timeout", "cut", "redirect")
"""The first two are of the network, and no server's."""
