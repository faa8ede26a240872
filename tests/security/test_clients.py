"""Clients of the service that mean harm: they hold connections, hide paths, or ask for what is dear."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.lake.lake_index import LakeIndex

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from parquet_bloom.serve.error_responses import hide_index_path

FILES = 40
SCRIPT = """
import sys
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve import server
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings
settings = Settings(head_seconds=0.5, body_seconds=0.5, answer_seconds=0.5, max_connections=8)
with LakeIndex.open(sys.argv[1]) as index:
    service = Service(index, settings)
    listening = server.listen("127.0.0.1", 0)
    server.run(service, listening, "127.0.0.1", lambda url: print(url, flush=True), sys.exit)
    service.close()
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clients") / "lake"
    directory.mkdir()
    return directory


@pytest.fixture(scope="module")
def port(lake: Path) -> Iterator[int]:
    """A service whose lake is not indexed, so that every value names all files, of long names."""
    folder = lake.parent
    for number in range(FILES):
        pq.write_table(pa.table({"id": [number]}), folder / "lake" / f"{'x' * 150}{number}.parquet")
    LakeIndex.create(folder / "index", ["id"], lake=str(folder / "lake")).close()
    command = [sys.executable, "-c", SCRIPT, str(folder / "index")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")


def connected(port: int, **options: Any) -> socket.socket:
    connection = socket.socket()
    for name, value in options.items():
        connection.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", port))
    return connection


def rest(connection: socket.socket, pause: float = 0.0) -> bytes:
    """All that still comes until the other side ends the connection."""
    received = bytearray()
    try:
        while data := connection.recv(1 << 20):
            received += data
            time.sleep(pause)
    except ConnectionResetError:
        received += b"<reset>"
    return bytes(received)


def lookup(values: int, more: str = "") -> bytes:
    body = json.dumps({"column": "id", "values": list(range(values))}).encode()
    head = f"POST /lookup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{more}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def test_a_body_that_nobody_waits_for_holds_no_connection(port: int) -> None:
    """It is answered before its body has come, and then sends a byte, which ends the wait for the next request."""
    for head in (b"GET /health", b"GET /nothing", b"HEAD /health", b"PUT /lookup"):
        with connected(port) as connection:
            connection.sendall(head + b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n")
            assert connection.recv(12).startswith(b"HTTP/1.1 ")
            time.sleep(0.05)
            connection.sendall(b"x")
            assert b"<reset>" not in rest(connection)


def test_a_trickle_holds_no_connection(port: int) -> None:
    """A byte now and then, of a head, of a body, and of a second head."""
    begun = time.monotonic()
    request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for sent in (request[:9], lookup(3)[:-4], request + request[:9]):
        with connected(port) as connection:
            connection.sendall(sent)
            data = b""
            connection.settimeout(0.1)
            while time.monotonic() < begun + 20:
                try:
                    connection.sendall(b"x")
                    piece = connection.recv(1 << 16)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not piece:
                    break
                data += piece
            assert b" 408 " in data
    assert time.monotonic() < begun + 20


def test_slow_clients_are_disconnected(port: int) -> None:
    with connected(port, SO_RCVBUF=4096) as connection:
        connection.sendall(lookup(1_000, "connection: close\r\n"))
        assert connection.recv(1) == b"H"
        time.sleep(2)
        answers = rest(connection)
    assert len(answers) < 1_000 * FILES * 150  # what was in the system's buffers
    with connected(port) as slow:  # but a slow client that goes on gets all of it
        slow.sendall(lookup(1_000, "connection: close\r\n"))
        _, _, body = rest(slow, 0.002).partition(b"\r\n\r\n")
    assert len(json.loads(body)["results"]) == 1_000


def test_two_hosts_or_two_lengths_are_refused(port: int) -> None:
    """Requests that a proxy may understand otherwise than the service."""
    for lines in (
        b"host: localhost\r\nhost: example.com",
        b"host: localhost\r\ncontent-length: 2\r\ncontent-length: 3",
        b"host: localhost\r\ncontent-length: +2",
        b"host: localhost\r\ncontent-length: -2",
        b"host: localhost\r\ntransfer-encoding: gzip",
        b"host: localhost\r\ntransfer-encoding: chunked, chunked",
        b"host: localhost\r\n folded: x",
        b"host: localhost\r\nx y: z",
        b"host: localhost\r\nx: a\x00b",
    ):
        with connected(port) as connection:
            connection.sendall(b"POST /lookup HTTP/1.1\r\n" + lines + b"\r\n\r\n{}")
            head, _, body = rest(connection).partition(b"\r\n\r\n")
        assert head.split()[1] in (b"400", b"501", b"421"), (lines, head)
        assert list(json.loads(body)) == ["error"]


def send_request(port: int, method: str, location: str, document: Any = None) -> tuple[int, str]:
    """Status and body of an answer."""
    body = b"" if document is None else json.dumps(document).encode()
    kind = "content-type: application/json\r\n" if body else ""
    head = f"{method} {location} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{kind}"
    with connected(port) as connection:
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answers, _, reported = rest(connection).partition(b"\r\n\r\n")
    return int(answers.split()[1]), reported.decode()


def test_a_pattern_that_takes_for_ever_is_refused(port: int, lake: Path) -> None:
    """Each `**` goes through all folders again for every one that those before it have found."""
    for pattern in ("/**" * 3 + "/x", "/**/a" * 20, "/**" * 200):
        status, reported = send_request(port, "POST", "/append", {"files": [f"{lake}{pattern}"]})
        assert status == 422, reported
        assert "more than 2 times **" in reported
    assert send_request(port, "POST", "/append", {"files": [f"{lake}/**/nothing*"]})[0] == 404


def test_clients_do_not_learn_the_index_path(port: int, lake: Path) -> None:
    """Files of the lake are named, as they are the answer; those of the index are not."""
    index = lake.parent / "index"
    (index / "manifest-000000000009.json").write_text("broken")
    try:
        for method, location, document in (
            ("POST", "/refresh", None),
            ("POST", "/append", {}),
            ("POST", "/remove", {"files": ["/x"]}),
            ("GET", "/health", None),
        ):
            status, reported = send_request(port, method, location, document)
            assert status == (200 if location == "/health" else 500)
            assert "index/manifest-000000000009.json: the manifest does not fit" in reported
            assert str(index.parent) not in reported
    finally:
        (index / "manifest-000000000009.json").unlink()
    assert send_request(port, "POST", "/refresh")[0] == 200
    assert hide_index_path(f"{index}2/a: x", str(index)) == f"{index}2/a: x"
    assert hide_index_path("/srv/\\n/a: x", "/srv/\n/") == "index/a: x"
