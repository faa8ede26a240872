"""Requests to the service: paths, queries, headers and bodies, given to the application itself.

The answer to any request is JSON that says so or says why not, and never that there is a bug; a value that the
index holds is found.
"""

from __future__ import annotations

import asyncio
import atexit
import json
from functools import cache
from typing import Any

from choices import Choices, damaged
from scratch import folder
from small_lakes import bases, changed_json

from parquet_bloom import LakeIndex
from parquet_bloom.serve.request_guards import HostGuard
from parquet_bloom.serve.server import build_app
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings

ALLOWED = ()
SLICE = 100

_PATHS = (
    "/lookup",
    "/append",
    "/remove",
    "/refresh",
    "/stats",
    "/health",
    "/openapi.json",
    "/",
    "/lookup/",
    "//lookup",
)
_BODIES: list[dict[str, Any]] = [
    {"column": "k", "values": [1001, 0, 5.5, "7"], "timezone": "UTC"},
    {"column": "s", "values": ["v37", {"type": "string", "value": "v1"}]},
    {"column": "k", "values": [{"type": "int", "value": "12"}, {"type": "timestamp", "value": "2026-01-31T00:00:00Z"}]},
    {"column": "k", "values": [{"type": "decimal", "value": "1.5"}, {"type": "bytes", "value": "00ff"}, True]},
    {"column": "k", "values": [{"type": "uuid", "value": "00000000-0000-0000-0000-000000000000"}, {"type": "float"}]},
    {"files": ["/nowhere/a.parquet"], "skip_unreadable": True},
    {"files": None},
]
_QUERIES = (b"column=k&value=1001", b"column=s&value=v37&type=string", b"column=k&value=2026-01-31&type=date", b"")
_TYPES = (b"application/json", b"application/json; charset=utf-8", b"text/plain", b"")


@cache
def application() -> tuple[Any, asyncio.AbstractEventLoop]:
    location = folder() / "served"
    location.mkdir()
    for name, data in bases()[1].files.items():
        (location / name).write_bytes(data)
    service = Service(LakeIndex.open(location, live=False), Settings(read_only=True, max_values=50, max_body=4096))
    reported: list[Exception] = []
    app = HostGuard(build_app(service), "127.0.0.1", reported.append)
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return app, loop


def seeds() -> list[bytes]:
    result = [
        bytes([path, method, body, how, 0])
        for path in range(7)
        for method in range(2)
        for body in range(7)
        for how in range(2)
    ]
    return [*result, b"\x00\x00\x00\x02" + b'{"column": "k", "values": [1, 2]}']


def run(data: bytes) -> None:
    choices = Choices(data)
    path, method = choices.pick(_PATHS), choices.pick(("POST", "GET", "PUT", "HEAD", "DELETE"))
    document, how = choices.pick(_BODIES), choices.below(8)
    query, kind = b"", choices.pick(_TYPES[: 1 + choices.below(4)])
    headers = [(b"host", b"localhost")]
    if how == 0:
        body = json.dumps(document).encode()
    elif how == 1:
        body, query = b"", damaged(choices.pick(_QUERIES), choices, 1) if choices.below(2) else choices.pick(_QUERIES)
    elif how == 2:
        body = choices.rest
    elif how == 3:
        body, path = b"", "/" + choices.take(12).decode("latin-1")
    elif how == 4:
        body = damaged(json.dumps(document).encode(), choices)
        headers.append((choices.pick((b"content-length", b"content-encoding", b"origin", b"host")), choices.take(12)))
    elif how == 5:
        body, query = b"", choices.rest
    else:
        body = changed_json(document, choices)
    if kind:
        headers.append((b"content-type", kind))
    status, answer = _ask(method, path, query, headers, body)
    assert status in (200, 307, 400, 403, 404, 405, 408, 409, 413, 415, 421, 422, 429), (status, answer[:300])
    assert len(answer) < 1 << 20
    if method != "HEAD" and path != "/docs":
        response = json.loads(answer)
        if how == 0 and status == 200 and path == "/lookup" and document is _BODIES[0]:
            assert response["results"][0]["candidates"], "a value that the index holds is not found"


def _ask(method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[int, bytes]:
    app, loop = application()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode("latin-1"), "query_string": query, "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": body[at : at + 1000], "more_body": at + 1000 < len(body)}
               for at in range(0, len(body) or 1, 1000)]  # fmt: skip

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    loop.run_until_complete(asyncio.wait_for(app(scope, receive, send), 20))
    assert sent, "there is no answer"
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])
