"""The OpenAPI document and the service agree: what the one allows the other takes, and what it does not is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.lake.lake_index import LakeIndex

pytest.importorskip("jsonschema")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import jsonschema
from support.asgi import AppClient

from parquet_bloom.serve.server import build_app
from parquet_bloom.serve.service import Service
from parquet_bloom.serve.service_settings import Settings

TEXTS = [
    "", "x", "7", "-7", "+7", "7.5", "-0.5e3", "1e99", "1e999", "1e9999", "9" * 100, "9" * 101, "NaN", "Infinity",
    "-Infinity", "inf", "true", "false", "True", "00ff", "00f", "zz", "123e4567-e89b-12d3-a456-426614174000",
    "123e4567e89b",
    "2026-01-31", "2024-02-29", "2026-02-30", "2026-04-31", "2026-13-01", "2026-1-1", "0000-01-01", "0001-01-01",
    "12:30", "12:30:01.123456789", "12:30:01.1234567890", "24:00", "12:60", "12:30Z", "2026-01-31T12:30:01.25Z",
    "2026-01-31 12:30 +01:00", "2026-01-31T12:30:01.123456789+0130", "2026-01-31T12:30+24:00", "2026-01-31T12",
    "9999-01-01T00:00:00.123456789Z", "2263-01-01T00:00:00.1234567Z", "1677-01-01T00:00:00.1234567",
    "\u0663", "5\u00e9",
]  # fmt: skip
PLAIN = [0, 7, -7, 2**53, 2**53 + 1, 10**99, 10**100, -(10**100), 0.5, -2.5, 1e15, True, False, None, [], [1], {}]
KINDS = ["int", "float", "decimal", "string", "bytes", "uuid", "boolean", "date", "time", "timestamp", "long", None, 1]
TYPED = [
    *({"type": kind, "value": value} for kind, value in product(KINDS, [*TEXTS, *PLAIN])),
    {"type": "int"}, {"value": 7}, {"type": "int", "value": 7, "more": 7},
]  # fmt: skip
COLUMNS = [
    "a",
    "",
    [],
    ["a"],
    ["a", "a"],
    ["a", "b"],
    ["a", "b", "c"],
    [f"c{i}" for i in range(17)],
    7,
    None,
    [7],
    [None],
]
KEYS = [
    [],
    [7],
    [7, 8],
    [[7]],
    [[]],
    [[7, 8]],
    [[7, 8], [9]],
    [7, [8, 9]],
    [[7, 8, 9]],
    [None],
    [[7, None]],
    7,
    "7",
    None,
]
LOCATIONS = ["", "x", "/x", "./x", "/x\0", "~/x", "http://127.0.0.1:1/x", "s3://b/x", "hdfs://h/x"]
LOCATIONS += ["s3:/b", "/**/**/**", "/**/**/x"]


def bodies() -> Iterator[tuple[str, Any]]:
    """Requests with every odd thing once, and all others right."""
    for value in [*TEXTS, *PLAIN, *TYPED]:
        yield "/lookup", {"column": "a", "values": [value]}
    for value in [*TEXTS[::9], *PLAIN, *TYPED[::17]]:
        yield "/get", {"column": "a", "keys": [value]}
        yield "/get", {"column": ["a", "b"], "keys": [["x", value]]}
    for columns, keys in product(COLUMNS, KEYS):
        yield "/get", {"column": columns, "keys": keys}
    for columns in (None, [], ["a"], ["a", "a"], "a", 7, [7], ["a"] * 51, ["a"] * 50):
        yield "/get", {"column": "a", "keys": [], "columns": columns}
    for zone in ("UTC", "Europe/Berlin", "+01:00", "", "x" * 101, None, 7):
        yield "/lookup", {"column": "a", "values": [], "timezone": zone}
    for count in (50, 51):
        yield "/lookup", {"column": "a", "values": [7] * count}
        yield "/get", {"column": "a", "keys": [7] * count}
        yield "/append", {"files": ["/x"] * count}
        yield "/remove", {"files": ["/x"] * count}
    for files in (None, [], "x", 7, [7], [None], *([location] for location in LOCATIONS)):
        yield "/append", {"files": files}
    for files in (None, [], "x", 7, [7], [None], ["/x"]):
        yield "/remove", {"files": files}
    yield "/append", {}
    yield "/remove", {}
    for path in ("/lookup", "/get", "/append", "/remove"):
        yield from ((path, body) for body in ({"other": 7}, [], None, 7, "x"))
    for skip in (True, False, 1, "true", None):
        yield "/append", {"files": [], "skip_unreadable": skip}


@pytest.fixture(params=["lake", "no lake"])
def client(request: Any, tmp_path: Path) -> Iterator[AppClient]:
    """A service whose columns `a` and `b` hold no value of the index's, so that only a value's form is judged."""
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"c": [1]}), tmp_path / "lake" / "0.parquet")
    lake = str(tmp_path / "lake") if request.param == "lake" else None
    with LakeIndex.create(tmp_path / "index", ["a", "b"], lake=lake) as index:
        settings = Settings(rows=lake is not None, max_values=50)
        with AppClient(build_app(Service(index, settings))) as client:
            yield client


def test_what_the_document_allows_is_taken_and_nothing_else(client: AppClient) -> None:
    document = client.get("/openapi.json").json()
    wrong, counts = [], {True: 0, False: 0}
    gives_rows = client.get("/health").json()["rows"]
    validators = {}
    for path, item in document["paths"].items():
        if "requestBody" in item.get("post", {}):
            schema = item["post"]["requestBody"]["content"]["application/json"]["schema"]
            whole = schema | {"components": document["components"]}
            validators[path] = jsonschema.Draft202012Validator(whole)
    for path, body in bodies():
        if path == "/get" and not gives_rows:
            continue  # whatever it asks for is refused
        is_allowed = validators[path].is_valid(body)
        response = client.post(path, body)
        counts[is_allowed] += 1
        # A column, a file or a place that does not exist is not a matter of form.
        is_taken = response.status_code in (200, 403, 404) or "no such column" in response.text
        assert is_taken or response.status_code in (400, 422), response.text
        if is_taken != is_allowed:
            wrong.append((path, str(body)[:90], response.text[:120]))
    assert wrong == [], "\n".join(map(str, wrong))
    assert min(counts.values()) > 100


def test_the_query_of_a_lookup(client: AppClient) -> None:
    document = client.get("/openapi.json").json()
    parameters = {one["name"]: one["schema"] for one in document["paths"]["/lookup"]["get"]["parameters"]}
    for name, text in product(parameters, ["null", "None", "int", "UTC", "x"]):
        allowed = jsonschema.Draft202012Validator(parameters[name]).is_valid(text)
        query = {"column": "a", "value": "7"} | {name: text}
        if name != "timezone" and not allowed:
            assert client.get("/lookup", params=query).status_code == 422, query
        elif name in ("column", "value", "type"):
            assert client.get("/lookup", params=query).status_code in (200, 404), query
    assert parameters["type"]["enum"]


def test_the_document_is_one(client: AppClient) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(client.get("/openapi.json").json())
