"""Clients that are slow, many, greedy or without a token; and what the command says when it cannot serve."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parquet_bloom.cli import tool
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve.error_responses import hide_index_path
from parquet_bloom.serve.request_guards import read_tokens

from .conftest import Lake, write

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

SCRIPT = """
import json, sys
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve import server
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings
with LakeIndex.open(sys.argv[1]) as index:
    service = Service(index, Settings(**json.loads(sys.argv[2])))
    listening = server.listen("127.0.0.1", 0)
    server.run(service, listening, "127.0.0.1", lambda url: print(url, flush=True), sys.exit)
    service.close()
"""


@contextmanager
def limited(index: Path, **settings: Any) -> Iterator[int]:
    """The port of a service with other settings than the command has."""
    command = [sys.executable, "-c", SCRIPT, str(index), json.dumps(settings)]
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


def ask(port: int, sent: bytes) -> tuple[int, Any]:
    """Status and answer to bytes, however long that takes."""
    with connected(port) as connection:
        connection.sendall(sent)
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def request(body: bytes, length: int | None = None) -> bytes:
    head = f"POST /lookup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length or len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


def test_slow_many_and_greedy_clients_are_refused(lake: Lake):
    limits = {"head_seconds": 0.3, "body_seconds": 0.5, "max_connections": 3, "max_candidates": 20, "max_body": 1000}
    with limited(lake.index, **limits) as port:
        assert ask(port, b"") == (408, {"error": "the request took longer than 0.3 seconds"})
        assert ask(port, b"GET /health HT") == (408, {"error": "the request took longer than 0.3 seconds"})
        assert ask(port, request(b"{", 99)) == (408, {"error": "the body took longer than 0.5 seconds"})
        status, document = ask(port, request(json.dumps({"column": "id", "values": [5] * 21}).encode()))
        assert (status, document["error"]) == (
            422,
            "values: the response would list more than 20 files; look up fewer values at a time",
        )
        assert ask(port, request(json.dumps({"column": "id", "values": [5] * 20}).encode()))[0] == 200
        idle = [connected(port) for _ in range(3)]
        assert ask(port, b"") == (429, {"error": "too many connections are open"})
        for connection in idle:
            connection.close()


def test_a_lane_bounds_what_waits_and_what_takes_long():
    from parquet_bloom.serve.error_responses import ApiError
    from parquet_bloom.serve.service import BoundedExecutor

    async def main() -> None:
        executor = BoundedExecutor("test", 1, 1, lambda: ApiError(429, "full"))
        go_on = threading.Event()

        def late() -> ApiError:
            return ApiError(503, "late")

        first = asyncio.create_task(executor.run(lambda: go_on.wait(30), 0.05, late))
        second = asyncio.create_task(executor.run(lambda: "never", 0.05, late))
        await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match="full"):
            await executor.run(lambda: None, 1, late)
        for task in (first, second):
            with pytest.raises(ApiError, match="late"):
                await task
        await asyncio.sleep(0.1)
        assert executor.taken == 1  # its thread is at work still
        waiting = asyncio.create_task(executor.run(lambda: "done", 30, late))
        await asyncio.sleep(0.01)
        go_on.set()
        assert await waiting == "done"
        # A running task is awaited if requested, so that its result is reported.
        assert (
            await executor.run(lambda: threading.Event().wait(0.2) or "whole", 0.01, late, cancel_running=False)
            == "whole"
        )
        with pytest.raises(ZeroDivisionError):
            await executor.run(lambda: 1 // 0, 1, late)
        await asyncio.sleep(0.1)
        assert executor.taken == 0
        executor.close()

    asyncio.run(main())


def fails(*arguments: str) -> str:
    """Return the command's error output."""
    done = CliRunner().invoke(tool, ["index", "serve", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_the_command_says_in_one_line_why_it_cannot_serve(lake: Lake, tmp_path: Path):
    assert "there is no index" in fails(str(tmp_path))
    assert "there is no such folder" in fails(str(lake.index), "--root", str(tmp_path / "nothing"))
    assert "is not a size" in fails(str(lake.index), "--max-body", "much")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in fails(
            str(lake.index), "--port", port
        )
    for library in ("fastapi", "uvicorn"):
        program = f"import sys\nsys.modules[{library!r}] = None\nfrom parquet_bloom.cli import main\nsys.exit(main())"
        command = [sys.executable, "-c", program, "index", "serve", str(lake.index)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "pip install 'parquet-bloom[serve]'" in done.stderr


def test_listening_on_other_hosts_warns(lake: Lake, serve):
    service = serve(lake.index, "--host", "0.0.0.0")
    assert (
        service.client.get(f"http://127.0.0.1:{service.port}/health", headers={"host": "any.example"}).json()["files"]
        == 10
    )
    code, errors = service.stop()
    assert code == 0
    assert errors == "warning: no token is required: anyone who can reach 0.0.0.0 may look up, append and remove\n"


# The service with a token: who is answered, what others learn, and that the token shows nowhere


TOKEN = "0123456789abcdef.-_~+/secret=="
OTHER = "another-token-of-the-service"
PATHS = ("/stats", "/lookup?column=id&value=7", "/metrics", "/openapi.json", "/docs", "/nothing")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"\n{TOKEN}\r\n  {OTHER} \n")
    return path


def test_only_requests_with_a_token_are_answered(lake, serve, token_file: Path):
    service = serve(lake.index, "--rows", "--token-file", str(token_file))
    for path in PATHS:
        response = service.get(path)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="parquet-bloom"')
        assert "token is required" in response.json()["error"]
        for token in (TOKEN, OTHER):
            assert service.get(path, headers=bearer(token)).status_code == (404 if path == "/nothing" else 200)
    for path in ("/lookup", "/get", "/append", "/remove", "/refresh"):
        assert service.post(path, {}).status_code == 401
    body = {"column": "id", "values": [7]}
    assert service.post("/lookup", body, headers=bearer(TOKEN)).json()["results"][0]["candidates"]
    assert service.client.options("/lookup").status_code == 401


def test_what_is_almost_a_token_is_not_one(lake, serve, token_file: Path):
    service = serve(lake.index, "--token-file", str(token_file))
    almost = [
        *(TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TOKEN[1:], f"{TOKEN} {OTHER}", f"{TOKEN}, {OTHER}"),
        *("\xe9" * 20, "x" * 5_000),
    ]
    for token in almost:
        response = service.get("/stats", headers={"authorization": f"Bearer {token}".encode("latin-1")})
        assert response.status_code == 401, token
        assert response.headers["www-authenticate"] == 'Bearer realm="parquet-bloom", error="invalid_token"'
    for header in (TOKEN, "Bearer", f"Basic {TOKEN}", f"Bearer{TOKEN}", f"Token {TOKEN}"):
        assert service.get("/stats", headers={"authorization": header}).status_code == 401
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {OTHER}")]
    assert service.get("/stats", headers=twice).status_code == 401
    assert service.get(f"/stats?access_token={TOKEN}").status_code == 401
    assert service.get("/stats", headers={"authorization": f"bEARER  {TOKEN}"}).status_code == 200


def test_health_needs_no_token_but_says_little_without_one(lake, serve, token_file: Path):
    service = serve(lake.index, "--token-file", str(token_file))
    assert service.get("/health").json() == {"status": "ok"}
    assert service.get("/health", headers=bearer("wrong-but-long-enough")).json() == {"status": "ok"}
    assert service.get("/health", headers=bearer(TOKEN)).json()["files"] == 10
    for path in ("/health/", "//health", "/health/../stats", "/HEALTH", "/health%2f..%2fstats"):
        assert service.get(path).status_code == 401


def test_metrics_need_a_token_unless_they_are_open(lake, serve, token_file: Path):
    service = serve(lake.index, "--token-file", str(token_file), "--open-metrics")
    assert service.get("/metrics").text.startswith("# HELP parquet_bloom_")
    assert service.get("/stats").status_code == 401
    assert 'path="/stats",code="401"} 1\n' in service.get("/metrics").text
    document = service.get("/openapi.json", headers=bearer(TOKEN)).json()
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert document["paths"]["/lookup"]["post"]["security"] == [{"token": []}]
    assert "401" in document["paths"]["/lookup"]["post"]["responses"]
    assert "security" not in document["paths"]["/metrics"]["get"]


def test_the_environment_may_hold_the_token(lake, serve, monkeypatch: pytest.MonkeyPatch, token_file: Path):
    monkeypatch.setenv("PARQUET_BLOOM_TOKEN", TOKEN)
    service = serve(lake.index, "--host", "0.0.0.0")
    at = f"http://127.0.0.1:{service.port}/stats"
    assert service.client.get(at).status_code == 401
    assert service.client.get(at, headers=bearer(TOKEN)).status_code == 200
    _, errors = service.stop()
    assert errors == ("warning: no TLS: whoever can read the traffic to 0.0.0.0 sees the token; put a proxy in front\n")
    assert "give one of them" in fails(str(lake.index), "--token-file", str(token_file))
    for empty in ("", "  ", "short", "with a space in it"):
        monkeypatch.setenv("PARQUET_BLOOM_TOKEN", empty)
        text = fails(str(lake.index))
        assert "PARQUET_BLOOM_TOKEN is not a token: at least 16 " in text
        assert not empty.strip() or empty not in text


def test_a_bad_token_file_is_refused_without_showing_it(lake, tmp_path: Path):
    token_file = tmp_path / "tokens"
    for content, problem in (
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b"hush-hush", "line 1 is not a token"),
        (f"{TOKEN}\nhush hush hush hush".encode(), "line 2 is not a token"),
        (b"\xff\xfe" + TOKEN.encode("utf-16-le"), "line 1 is not a token"),
        (TOKEN.encode() * 3_000, "the file is longer than 65,536 bytes"),
    ):
        token_file.write_bytes(content)
        text = fails(str(lake.index), "--token-file", str(token_file))
        assert problem in text
        assert "hush" not in text
        assert TOKEN not in text
    assert "No such file" in fails(str(lake.index), "--token-file", str(tmp_path / "nothing"))


def test_the_token_shows_nowhere(lake, serve, token_file: Path):
    service = serve(lake.index, "--token-file", str(token_file), "-vv")
    service.get("/stats", headers=bearer(TOKEN))
    service.get(f"/{TOKEN}", headers=bearer(TOKEN))
    answers = [
        service.post("/lookup", {"column": TOKEN, "values": [1]}, headers=bearer(TOKEN)).text,
        service.get("/metrics", headers=bearer(TOKEN)).text,
        service.get("/stats", headers=bearer(OTHER + "x")).text,
    ]
    command = Path(f"/proc/{service.process.pid}/cmdline")
    if command.exists():
        answers.append(command.read_text())
    _, errors = service.stop()
    for text in (*answers, errors):
        assert TOKEN not in text
        assert OTHER not in text
    tokens = read_tokens(token_file, {})
    assert tokens is not None
    assert tokens.accept([f"Bearer {TOKEN}".encode()])
    assert TOKEN not in repr(vars(tokens))
    assert TOKEN not in str(ParquetBloomError(f"something with {TOKEN} in it"))


# Clients that mean harm: they hold connections, hide paths, or ask for what is dear


FILES = 40


@pytest.fixture(scope="module")
def far_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that is not indexed, so that every value names all files, of long names; the index is beside it."""
    folder = tmp_path_factory.mktemp("clients") / "lake"
    for number in range(FILES):
        write(folder / f"{'x' * 150}{number}.parquet", [number])
    LakeIndex.create(folder.parent / "index", ["id"], lake=str(folder)).close()
    return folder


@pytest.fixture(scope="module")
def port(far_lake: Path) -> Iterator[int]:
    seconds = dict.fromkeys(("head_seconds", "body_seconds", "answer_seconds"), 0.5)
    with limited(far_lake.parent / "index", **seconds, max_connections=8) as port:
        yield port


def sent_to(port: int, method: str, location: str, document: Any = None) -> tuple[int, str]:
    """Status and body of an answer."""
    response = httpx.request(method, f"http://127.0.0.1:{port}{location}", json=document, trust_env=False)
    return response.status_code, response.text


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


def test_a_pattern_that_takes_for_ever_is_refused(port: int, far_lake: Path) -> None:
    """Each `**` goes through all folders again for every one that those before it have found."""
    for pattern in ("/**" * 3 + "/x", "/**/a" * 20, "/**" * 200):
        status, reported = sent_to(port, "POST", "/append", {"files": [f"{far_lake}{pattern}"]})
        assert status == 422, reported
        assert "more than 2 times **" in reported
    assert sent_to(port, "POST", "/append", {"files": [f"{far_lake}/**/nothing*"]})[0] == 404


def test_clients_do_not_learn_the_index_path(port: int, far_lake: Path) -> None:
    """Files of the lake are named, as they are the answer; those of the index are not."""
    index = far_lake.parent / "index"
    (index / "manifest-000000000009.json").write_text("broken")
    try:
        for method, location, document in (
            ("POST", "/refresh", None),
            ("POST", "/append", {}),
            ("POST", "/remove", {"files": ["/x"]}),
            ("GET", "/health", None),
        ):
            status, reported = sent_to(port, method, location, document)
            assert status == (200 if location == "/health" else 500)
            assert "index/manifest-000000000009.json: the manifest does not fit" in reported
            assert str(index.parent) not in reported
    finally:
        (index / "manifest-000000000009.json").unlink()
    assert sent_to(port, "POST", "/refresh")[0] == 200
    assert hide_index_path(f"{index}2/a: x", str(index)) == f"{index}2/a: x"
    assert hide_index_path("/srv/\\n/a: x", "/srv/\n/") == "index/a: x"
