"""Whatever is sent: it is refused with a reason, in one form, and the service goes on."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom.lake.lake_index import LakeIndex

from .conftest import Lake, Process, write

pytestmark = pytest.mark.default

JSON = {"content-type": "application/json"}
MOST_BODY = 100_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Lake]]:
    folder = tmp_path_factory.mktemp("served")
    lake = Lake(folder / "lake", folder / "index")
    lake.add(0)
    write(folder / "outside" / "secret.parquet", [1])
    write(folder / "lake-too" / "near.parquet", [1])
    (lake.folder / "broken.parquet").write_bytes(b"no Parquet")
    (lake.folder / "link.parquet").symlink_to(folder / "outside" / "secret.parquet")
    (folder / "more").mkdir()
    (folder / "more" / "elsewhere").symlink_to(folder / "outside")
    os.mkfifo(folder / "more" / "pipe")
    with LakeIndex.create(lake.index, ["id", "name", "grams(name)"]) as index:
        index.append([str(lake.folder / "part-000.parquet")])
    arguments = (
        "--root",
        str(lake.folder),
        "--root",
        str(folder / "more"),
        "--max-values",
        "50",
        "--max-body",
        "100KB",
    )
    process = Process(lake.index, *arguments)
    yield process, lake
    code, errors = process.stop()
    assert (code, errors) == (0, "")


def lookup(*values: Any, **more: Any) -> bytes:
    return json.dumps({"column": "id", "values": list(values)} | more).encode()


def typed(kind: Any, value: Any) -> bytes:
    return lookup({"type": kind, "value": value})


# (status, part of the reason, method, path, body, headers beside JSON's type)
CASES: list[tuple[int, str, str, str, bytes | None, dict[str, str]]] = [
    # no JSON
    (422, "the request has no body: send a JSON object", "POST", "/lookup", b"", {}),
    (422, "the request has no body: send a JSON object", "POST", "/append", None, {}),
    (400, "not JSON", "POST", "/lookup", b"{", {}),
    (400, "not JSON", "POST", "/lookup", b"{} {}", {}),
    (400, "not JSON", "POST", "/lookup", b"{'column': 1}", {}),
    (400, "not UTF-8", "POST", "/lookup", b'{"column": "\xff"}', {}),
    (400, "not UTF-8", "POST", "/lookup", '{"column": "id"}'.encode("utf-16"), {}),
    (400, "not JSON", "POST", "/lookup", b'\xef\xbb\xbf{"column": "id", "values": []}', {}),
    (400, "NaN is not a number", "POST", "/lookup", b'{"column": "id", "values": [NaN]}', {}),
    (400, "Infinity is not a number", "POST", "/lookup", b'{"column": "id", "values": [-Infinity]}', {}),
    (400, "nested too deeply", "POST", "/lookup", b"[" * 90_000, {}),
    (400, "nested too deeply", "POST", "/lookup", b'{"a":' * 15_000, {}),
    (400, "same field twice", "POST", "/lookup", b'{"column": "id", "column": "name", "values": [1]}', {}),
    (415, "application/json", "POST", "/lookup", lookup(1), {"content-type": "text/plain"}),
    (415, "application/json", "POST", "/lookup", lookup(1), {"content-type": "application/x-www-form-urlencoded"}),
    (415, "application/json", "POST", "/lookup", lookup(1), {"content-type": "application/json; charset=latin-1"}),
    (415, "application/json", "POST", "/lookup", lookup(1), {"content-type": ""}),
    (415, "encoded (gzip)", "POST", "/lookup", lookup(1), {"content-encoding": "gzip"}),
    # JSON that is not a request
    (422, "JSON object", "POST", "/lookup", b"[]", {}),
    (422, "JSON object", "POST", "/lookup", b"null", {}),
    (422, "JSON object", "POST", "/lookup", b"7", {}),
    (422, "values: field required", "POST", "/lookup", b'{"column": "id"}', {}),
    (422, "column: field required", "POST", "/lookup", b'{"values": [1]}', {}),
    (422, "column: input should be a valid string", "POST", "/lookup", b'{"column": 1, "values": [1]}', {}),
    (404, "no such column", "POST", "/lookup", b'{"column": "\\ud800", "values": [1]}', {}),
    (422, "values: input should be a valid list", "POST", "/lookup", b'{"column": "id", "values": 1}', {}),
    (422, "values: input should be a valid list", "POST", "/lookup", b'{"column": "id", "values": "1"}', {}),
    (422, "value: extra", "POST", "/lookup", lookup(1, value=1), {}),
    (422, "too many fields", "POST", "/lookup", json.dumps({str(i): i for i in range(20)}).encode(), {}),
    (422, "51 items are too many; the maximum is 50", "POST", "/lookup", lookup(*range(51)), {}),
    (422, "grams are asked for by a predicate", "POST", "/lookup", lookup("n12", column="grams(name)"), {}),
    (422, "values[1]: null", "POST", "/lookup", lookup(1, None), {}),
    (422, "values[0]: lists", "POST", "/lookup", lookup([1]), {}),
    (422, "values[0]: lists", "POST", "/lookup", lookup({"type": "int", "value": [1]}), {}),
    (422, "values[2]: neither", "POST", "/lookup", lookup(1, 2, {"value": 3}), {}),
    (422, "values[0]: neither", "POST", "/lookup", lookup({}), {}),
    (422, "values[0]: neither", "POST", "/lookup", lookup({"type": "int", "value": 1, "more": 2}), {}),
    # values
    (422, "more than 100 digits", "POST", "/lookup", b'{"column": "id", "values": [' + b"9" * 5_000 + b"]}", {}),
    (422, "400 characters", "POST", "/lookup", b'{"column": "id", "values": [0.' + b"9" * 5_000 + b"]}", {}),
    (422, "range of doubles", "POST", "/lookup", b'{"column": "id", "values": [1e999]}', {}),
    (422, "the type must be one of", "POST", "/lookup", typed("long", 1), {}),
    (422, "the type must be one of", "POST", "/lookup", typed(1, 1), {}),
    (422, "of type int", "POST", "/lookup", typed("int", "1.0"), {}),
    (422, "of type float", "POST", "/lookup", typed("float", "NaN"), {}),
    (422, "of type decimal", "POST", "/lookup", typed("decimal", 1.5), {}),
    (422, "of type string", "POST", "/lookup", typed("string", 1), {}),
    (422, "of type bytes", "POST", "/lookup", typed("bytes", "abc"), {}),
    (422, "of type uuid", "POST", "/lookup", typed("uuid", "f" * 32), {}),
    (422, "of type boolean", "POST", "/lookup", typed("boolean", 1), {}),
    (422, "of type date", "POST", "/lookup", typed("date", "2026-02-30"), {}),
    (422, "of type time", "POST", "/lookup", typed("time", "25:00"), {}),
    (422, "of type time", "POST", "/lookup", typed("time", "12:00:00.1234567Z"), {}),
    (422, "of type timestamp", "POST", "/lookup", typed("timestamp", "yesterday"), {}),
    (422, "timezone: 'Mars/Olympus'", "POST", "/lookup", lookup(1, timezone="Mars/Olympus"), {}),
    (422, "timezone", "POST", "/lookup", lookup(1, timezone="../../etc/passwd"), {}),
    (422, "timezone", "POST", "/lookup", lookup(1, timezone="A\0"), {}),
    (422, "timezone", "POST", "/lookup", lookup(1, timezone="A" * 5_000), {}),
    (404, "no such column", "POST", "/lookup", lookup(1, column="nothing"), {}),
    (404, "no such column", "POST", "/lookup", lookup(column=""), {}),
    # the same in URLs
    (422, "value: field required", "GET", "/lookup?column=id", None, {}),
    (422, "column: field required", "GET", "/lookup?value=1", None, {}),
    (422, "extra", "GET", "/lookup?column=id&value=1&values=2", None, {}),
    (422, "twice", "GET", "/lookup?column=id&value=1&value=2", None, {}),
    (422, "of type int", "GET", "/lookup?column=id&value=one", None, {}),
    (422, "type", "GET", "/lookup?column=id&value=1&type=long", None, {}),
    (422, "timezone", "GET", "/lookup?column=id&value=1&timezone=", None, {}),
    (400, "not UTF-8", "GET", "/lookup?column=name&value=%ff", None, {}),
    (404, "no such column", "GET", "/lookup?column=nothing&value=1", None, {}),
    # places and methods
    (404, "nothing at /", "GET", "/", None, {}),
    (404, "nothing at", "GET", "/lookup/", None, {}),
    (404, "nothing at", "POST", "/%0a%00..%2f", b"{}", {}),
    (405, "but GET, POST", "PUT", "/lookup", b"{}", {}),
    (405, "but GET", "POST", "/stats", b"{}", {}),
    (405, "but POST", "GET", "/append", None, {}),
    (405, "but POST", "DELETE", "/remove", None, {}),
    (405, "does not support", "OPTIONS", "/lookup", None, {}),
    (421, "answers to localhost", "GET", "/health", None, {"host": "example.com"}),
    (421, "answers to localhost", "GET", "/health", None, {"host": "127.0.0.1.example.com:80"}),
    (403, "other sites", "POST", "/refresh", b"", {"origin": "http://example.com"}),
    (403, "other sites", "POST", "/append", b"{}", {"origin": "null"}),
    (403, "other sites", "POST", "/refresh", b"", {"host": "localhost", "origin": "http://not-localhost"}),
    (403, "other sites", "POST", "/refresh", b"", {"host": "localhost", "origin": "http://localhost.example.com"}),
    # too much
    (413, "longer than 100,000 bytes", "POST", "/lookup", b" " * (MOST_BODY + 1), {}),
    (413, "longer than 100,000 bytes", "POST", "/append", b" " * 5_000_000, {}),
    # changes
    (422, "no recorded lake", "POST", "/append", b"{}", {}),
    (422, "files: field required", "POST", "/remove", b"{}", {}),
    (422, "files: input should be a valid list", "POST", "/append", b'{"files": "/x"}', {}),
    (422, "files[0]: it is not a string", "POST", "/append", b'{"files": [1]}', {}),
    (422, "51 items are too many", "POST", "/append", json.dumps({"files": ["/x"] * 51}).encode(), {}),
    (422, "skip_unreadable", "POST", "/append", b'{"files": [], "skip_unreadable": 1}', {}),
    (404, "no such file", "POST", "/remove", b'{"files": ["/x"]}', {}),
    (422, "file names cannot have", "POST", "/remove", b'{"files": ["\\ud800"]}', {}),
]  # fmt: skip


def assert_refused(response: Any, status: int, reason: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    document = response.json()
    assert list(document) == ["error"]
    assert reason.lower() in document["error"].lower()
    assert "\n" not in document["error"]
    assert len(document["error"]) <= 500
    assert document["error"].isprintable()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}"[:50])
def test_it_is_refused_with_a_reason(served, case):
    status, reason, method, path, body, headers = case
    process, _ = served
    response = process.client.request(method, path, content=body, headers=(JSON if body else {}) | headers)
    assert_refused(response, status, reason)
    assert process.lookup("id", [5])[0]  # it goes on


# What is appended, from the folder in which the lake is; all outside of what is allowed, whether it exists or not.
OUTSIDE = [
    "/etc/passwd", "/etc/nothing", "/", "//", "/proc/self/environ", "{}/outside/secret.parquet", "{}/outside/nothing",
    "{}/outside", "{}/lake-too/near.parquet", "{}/lake/../outside/secret.parquet", "{}/lake/..", "{}/lake/link.parquet",
    "{}/more/elsewhere/secret.parquet", "{}/more/elsewhere", "{}/more/elsewhere/*.parquet", "{}/*/secret.parquet",
    "{}/lake/*", "{}/more/*/../../outside/*", "file://{}/outside/secret.parquet", "file:{}/lake/part-000.parquet",
    "FILE:///etc/passwd", "file://localhost/etc/passwd", "s3://bucket/key", "http://127.0.0.1:1/x", "https://example.com/x",
    "gs://bucket/x",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_files_elsewhere_are_not_read(served, path):
    process, lake = served
    for files in ([path], [str(lake.folder / "part-000.parquet"), path]):
        response = process.post("/append", {"files": [file.format(lake.folder.parent) for file in files]})
        assert_refused(response, 403, "outside of the lake")
    assert process.get("/stats").json()["files"] == 1


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (404, "{}/lake/nothing.parquet"),
        (404, "{}/lake/no*thing.parquet"),
        (422, "{}/lake/broken.parquet"),
        (422, "{}/more/pipe"),
        (422, "lake/part-000.parquet"),
        (422, ""),
        (422, "{}/lake/a\0b"),
        (422, "file:part-000.parquet"),
        (422, "hdfs://host/part-000.parquet"),
    ],
)
def test_files_that_cannot_be_indexed(served, status, path):
    process, lake = served
    response = process.post("/append", {"files": [path.format(lake.folder.parent)]})
    assert_refused(response, status, "")
    assert process.get("/stats").json()["files"] == 1


def raw(process: Process, *pieces: bytes, wait: float = 0.0) -> bytes:
    """Return the response to bytes that are sent as they are."""
    with socket.create_connection(("127.0.0.1", process.port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(wait)
        received = b""
        with suppress(ConnectionResetError):  # where it was not all read
            while data := connection.recv(65536):
                received += data
        return received


def test_invalid_http_is_refused(served):
    process, _ = served
    for sent in (
        b"hello\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"\x16\x03\x01\x00\xff\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
    ):
        head, _, body = raw(process, sent).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), head
        assert list(json.loads(body)) == ["error"]
    assert raw(process, b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ", b"x" * 65_536, wait=0.1).startswith(
        b"HTTP/1.1 400 "
    )
    assert process.get("/health").status_code == 200


def test_a_body_without_a_length_is_bounded_too(served):
    process, _ = served
    head = b"POST /lookup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += b"transfer-encoding: chunked\r\n\r\n"
    body = lookup(5)
    data = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    answer = raw(process, head.replace(b"host", b"connection: close\r\nhost", 1), data + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    head_of, _, body_of = raw(process, head, *[chunk] * 5, b"0\r\n\r\n").partition(b"\r\n\r\n")
    assert head_of.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head_of.lower()
    assert json.loads(body_of) == {"error": "the body is longer than 100,000 bytes"}


def test_a_body_without_a_type_is_json(served):
    process, _ = served
    body = lookup(5)
    head = b"POST /lookup HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n" % len(body)
    plain = raw(process, head + b"\r\n" + body)
    typed_as_json = raw(process, head + b"content-type: application/json\r\n\r\n" + body)
    assert plain.startswith(b"HTTP/1.1 200 ")
    assert plain.partition(b"\r\n\r\n")[2] == typed_as_json.partition(b"\r\n\r\n")[2]
    no_json = raw(process, head + b"\r\n" + b"x" * len(body))
    assert no_json.startswith(b"HTTP/1.1 400 ")
    # A page of another site can send such a request without being asked; it says where it comes from.
    foreign = raw(process, head + b"origin: https://example.org\r\n\r\n" + body)
    assert foreign.startswith(b"HTTP/1.1 403 ")


def test_a_client_that_disconnects_is_not_logged(served):
    process, _ = served
    for sent in (
        b"POST /lookup HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        b"GET",
    ):
        with socket.create_connection(("127.0.0.1", process.port)) as connection:
            connection.sendall(sent)
    assert process.get("/health").status_code == 200


@pytest.mark.ci
def test_files_whose_names_are_not_unicode_round_trip(tmp_path: Path, serve):
    lake = Lake(tmp_path / "lake", tmp_path / "index")
    name = os.fsdecode(b"\xff.parquet")
    path = str(lake.folder / name)
    os.rename(write(lake.folder / "a.parquet", [1]), path)
    LakeIndex.create(lake.index, ["id"], lake=str(lake.folder)).close()
    service = serve(lake.index)
    post = {"headers": JSON}
    response = service.client.post("/append", content=json.dumps({"files": [path]}), **post)
    assert response.json()["added"] == 1, response.text
    assert json.loads(service.get("/lookup?column=id&value=1").content)["results"][0]["candidates"][0]["path"] == path
    response = service.client.post("/remove", content=json.dumps({"files": [path]}), **post)
    assert response.json()["removed"] == 1
