"""A web server on loopback that serves bytes as configured: with ranges or without, with etags of any kind or none."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """Content served at a path.

    Attributes
    ----------
    data : its bytes.
    etag, modified : headers; None for none.
    ranges : "all"; "no suffix": those that count from the end are answered with the whole; "none": all are.
    short : bytes that are missing at the end of each answer to a range, whose headers are as if they were there.
    status : of every answer, if it is not what it should be.
    redirect : the path to go to instead.
    """

    data: bytes
    etag: str | None = None
    modified: str | None = None
    ranges: str = "all"
    short: int = 0
    status: int | None = None
    redirect: str | None = None


class WebServer(ThreadingHTTPServer):
    """Serves `pages`.

    Attributes
    ----------
    url : without a slash at its end.
    pages : {path with query, as in the request: page}.
    requests : (method, path, range header) of each request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: WebServer

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, with_body: bool) -> None:
        span = self.headers.get("Range")
        self.server.requests.append((self.command, self.path, span))
        page = self.server.pages.get(self.path)
        if page is None or page.status is not None:
            self._send(page.status if page and page.status else 404, b"", {}, with_body)
            return
        if page.redirect is not None:
            self._send(302, b"", {"Location": page.redirect}, with_body)
            return
        expected = self.headers.get("If-Match")
        if expected is not None and (expected != page.etag or expected.startswith("W/")):
            self._send(412, b"", {}, with_body)
            return
        headers = {"ETag": page.etag, "Last-Modified": page.modified}
        size = len(page.data)
        is_suffix = span is not None and span.startswith("bytes=-")
        if span is None or page.ranges == "none" or (is_suffix and page.ranges == "no suffix"):
            self._send(200, page.data, headers, with_body)
            return
        first, _, last = span.removeprefix("bytes=").partition("-")
        start = max(0, size - int(last)) if is_suffix else int(first)
        end = size if is_suffix else min(size, int(last) + 1)
        if start >= size:
            self._send(416, b"", {}, with_body)
            return
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._send(206, page.data[start : end - page.short], headers, with_body)

    def _send(self, status: int, data: bytes, headers: dict[str, str | None], with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)
