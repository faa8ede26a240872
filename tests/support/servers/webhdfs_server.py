"""A WebHDFS server on loopback over a local folder, for reading: each answer after a delay, every request counted.

Hadoop's client for `webhdfs://` is among Spark's own jars. As a program, for one that must not share a process with
whom it serves:

    python webhdfs_server.py FOLDER [SECONDS]

prints the URL and serves until its input ends; `/requests` returns the counts and resets them.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

_PREFIX = "/webhdfs/v1"
_PIECE = 1 << 16
_NOT_FOUND = "java.io.FileNotFoundException"
_REFUSED = "org.apache.hadoop.security.AccessControlException"
_UNKNOWN = "java.lang.UnsupportedOperationException"


class WebHdfsServer(ThreadingHTTPServer):
    """Serve the files below a folder to all clients, except those whose mode lets nobody read them.

    Parameters
    ----------
    folder : what is the root of the file system.
    delay : seconds before each answer; a file's bytes come after two: a redirection, then the bytes.

    Attributes
    ----------
    url : without a slash at its end.
    requests : {operation: how many}; "READ" are redirected ones for bytes.
    bytes_sent : of files.
    most_at_once : requests that were under way together, at most.
    trouble : called with operation and path before each answer; it may take its time, or raise a `Refusal`.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: str | os.PathLike[str], delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"webhdfs://127.0.0.1:{self.server_port}"
        self.folder = Path(folder)
        self.delay = delay
        self.lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.bytes_sent = self.under_way = self.most_at_once = 0
        self.trouble: Callable[[str, str], None] | None = None
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def take(self) -> dict[str, Any]:
        """Return the counts since the last call."""
        with self.lock:
            counted = {"requests": dict(self.requests), "bytes": self.bytes_sent}
            self.requests, self.bytes_sent = Counter(), 0
        return counted

    def handle_error(self, *_: object) -> None:
        """Clients that have read enough hang up."""

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def __enter__(self) -> WebHdfsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Refusal(Exception):
    """An answer that is an exception of Java's."""

    def __init__(self, status: int, java_class: str, problem: str):
        super().__init__(problem)
        self.status, self.java_class = status, java_class


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = _PIECE
    disable_nagle_algorithm = True
    server: WebHdfsServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path.encode("latin-1").decode())  # the client escapes no more than it must
        if url.path == "/requests":
            self._send(self.server.take())
            return
        query = {key.lower(): values[0] for key, values in parse_qs(url.query).items()}
        operation = query.get("op", "").upper()
        if operation == "OPEN" and "redirected" in query:
            operation = "READ"
        with self.server.lock:
            self.server.requests[operation] += 1
            self.server.under_way += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.under_way)
        time.sleep(self.server.delay)
        try:
            answer = getattr(self, f"_{operation.lower()}", None)
            if answer is None or not url.path.startswith(_PREFIX):
                raise Refusal(400, _UNKNOWN, f"{operation} is not served")
            path = unquote(url.path[len(_PREFIX) :]) or "/"
            if self.server.trouble is not None:
                self.server.trouble(operation, path)
            answer(path, query)
        except Refusal as error:
            name = error.java_class.rpartition(".")[2]
            message = {"exception": name, "javaClassName": error.java_class, "message": str(error)}
            self._send({"RemoteException": message}, error.status)
        finally:
            with self.server.lock:
                self.server.under_way -= 1

    def _stat(self, path: str) -> tuple[str, os.stat_result]:
        local = str(self.server.folder) + path.rstrip("/")
        try:
            return local, os.stat(local)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            raise Refusal(404, _NOT_FOUND, f"File does not exist: {path}\nat a line of Java") from None

    def _getfilestatus(self, path: str, _: dict[str, str]) -> None:
        self._send({"FileStatus": _status("", self._stat(path)[1])})

    def _liststatus(self, path: str, _: dict[str, str]) -> None:
        local, status = self._stat(path)
        result = [("", status)]
        if os.path.isdir(local):
            result = [(name, os.stat(os.path.join(local, name))) for name in sorted(os.listdir(local))]
        self._send({"FileStatuses": {"FileStatus": [_status(name, status) for name, status in result]}})

    def _getfileblocklocations(self, path: str, _: dict[str, str]) -> None:
        host = "{}:{}".format(*self.server.server_address[:2])
        block = {"cachedHosts": [], "corrupt": False, "hosts": ["127.0.0.1"], "names": [host], "offset": 0}
        block |= {"length": self._stat(path)[1].st_size, "storageTypes": ["DISK"], "topologyPaths": []}
        self._send({"BlockLocations": {"BlockLocation": [block]}})

    def _open(self, path: str, query: dict[str, str]) -> None:
        self._stat(path)
        host, port = self.server.server_address[:2]
        there = f"http://{host}:{port}{_PREFIX}{quote(path)}?{urlencode(query | {'redirected': 'true'})}"
        if query.get("noredirect") == "true":
            self._send({"Location": there})
            return
        self.send_response(307)
        self.send_header("Location", there)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _read(self, path: str, query: dict[str, str]) -> None:
        local, status = self._stat(path)
        if not status.st_mode & 0o444:
            raise Refusal(403, _REFUSED, f'Permission denied: user={query.get("user.name")}, inode="{path}"')
        start = int(query.get("offset", 0))
        length = min(int(query.get("length", status.st_size)), status.st_size - start)
        if start < 0 or length < 0:
            raise Refusal(403, "java.io.IOException", f"Offset={start} out of the range [0, {status.st_size})")
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        with open(local, "rb") as file, suppress(ConnectionError):
            file.seek(start)
            while length:
                data = file.read(min(_PIECE, length))
                self.wfile.write(data)
                length -= len(data)
                with self.server.lock:
                    self.server.bytes_sent += len(data)

    def _send(self, answer: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _status(name: str, status: os.stat_result) -> dict[str, Any]:
    folder = status.st_mode & 0o40000 != 0
    return {
        "accessTime": 0,
        "blockSize": 0 if folder else 1 << 27,
        "childrenNum": 0,
        "fileId": status.st_ino,
        "group": "nobody",
        "length": 0 if folder else status.st_size,
        "modificationTime": status.st_mtime_ns // 1_000_000,
        "owner": "nobody",
        "pathSuffix": name,
        "permission": f"{status.st_mode & 0o777:o}",
        "replication": 0 if folder else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if folder else "FILE",
    }


class OtherProcess:
    """The server in a process of its own: its Python threads leave those of the caller alone."""

    def __init__(self, process: Popen[str]):
        assert process.stdout is not None
        self.url = process.stdout.readline().strip()
        self._about = self.url.replace("webhdfs:", "http:") + "/requests"

    def take(self) -> dict[str, Any]:
        """Return the counts since the last call."""
        with urllib.request.urlopen(self._about) as answer:
            counted: dict[str, Any] = json.load(answer)
        return counted


@contextmanager
def other_process(folder: str | os.PathLike[str], delay: float) -> Iterator[OtherProcess]:
    """Serve a folder from another process."""
    with Popen([sys.executable, __file__, str(folder), str(delay)], stdin=PIPE, stdout=PIPE, text=True) as process:
        yield OtherProcess(process)


if __name__ == "__main__":
    with WebHdfsServer(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0) as server:
        print(server.url, flush=True)
        sys.stdin.read()
