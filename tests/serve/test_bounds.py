"""Clients that are slow, many or greedy; and what the command says when it cannot serve."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lake

pytest.importorskip("fastapi")

SCRIPT = """
import sys
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve import server
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings
settings = Settings(head_seconds=0.3, body_seconds=0.5, max_connections=3, max_candidates=20, max_body=1000)
with LakeIndex.open(sys.argv[1]) as index:
    service = Service(index, settings)
    listening = server.listen("127.0.0.1", 0)
    server.run(service, listening, "127.0.0.1", lambda url: print(url, flush=True), sys.exit)
    service.close()
"""


def ask(port: int, sent: bytes) -> tuple[int, Any]:
    """Status and answer to bytes, however long that takes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        received = b""
        while data := connection.recv(65536):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def request(body: bytes, length: int | None = None) -> bytes:
    head = f"POST /lookup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length or len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


def test_slow_many_and_greedy_clients_are_refused(lake: Lake):
    command = [sys.executable, "-c", SCRIPT, str(lake.index)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            assert ask(port, b"") == (408, {"error": "the request took longer than 0.3 seconds"})
            assert ask(port, b"GET /health HT") == (408, {"error": "the request took longer than 0.3 seconds"})
            assert ask(port, request(b"{", 99)) == (408, {"error": "the body took longer than 0.5 seconds"})
            status, document = ask(port, request(json.dumps({"column": "id", "values": [5] * 21}).encode()))
            assert (status, document["error"]) == (
                422,
                "values: the response would list more than 20 files; look up fewer values at a time",
            )
            assert ask(port, request(json.dumps({"column": "id", "values": [5] * 20}).encode()))[0] == 200
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            assert ask(port, b"") == (429, {"error": "too many connections are open"})
            for connection in idle:
                connection.close()
        finally:
            process.terminate()
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, "")


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


def fails(*arguments: str, code: str = "") -> str:
    """Return the command's error output."""
    program = f"import sys\n{code}\nfrom parquet_bloom.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "index", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
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
        text = fails(str(lake.index), code=f"sys.modules[{library!r}] = None")
        assert "pip install 'parquet-bloom[serve]'" in text


def test_listening_on_other_hosts_warns(lake: Lake, serve):
    service = serve(lake.index, "--host", "0.0.0.0")
    assert (
        service.client.get(f"http://127.0.0.1:{service.port}/health", headers={"host": "any.example"}).json()["files"]
        == 10
    )
    code, errors = service.stop()
    assert code == 0
    assert errors == "warning: no token is required: anyone who can reach 0.0.0.0 may look up, append and remove\n"
