"""`POST /get`: rows of the lake, only where they are given, and no more than an answer may have."""

from __future__ import annotations

import datetime as dt
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.serve.served_rows import ARROW_STREAM, accepts_arrow

from .conftest import Lake, Process, write

ARROW = "application/vnd.apache.arrow.stream"


def get(service: Process, column: Any, keys: list[Any], columns: list[str] | None = None, **more: Any) -> list[Any]:
    """The rows as lists of values."""
    document = {"column": column, "keys": keys, "columns": columns} | more
    response = service.post("/get", document)
    assert response.status_code == 200, response.text
    answer = response.json()
    assert columns is None or answer["columns"] == columns
    return [[row[name] for name in answer["columns"]] for row in answer["rows"]]


def refuse(service: Process, document: Any, status: int) -> str:
    response = service.post("/get", document)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert "\n" not in error
    return str(error)


@pytest.mark.ci
def test_rows_of_keys_in_their_order(lake: Lake, serve):
    service = serve(lake.index, "--rows")
    assert get(service, "id", [4321, 7, -1, 7]) == [[4321, "n4321"], [7, "n7"], [7, "n7"]]
    assert get(service, "name", ["n12"], ["id"]) == [[12]]
    assert get(service, ["name", "id"], [["n12", 12], ["n13", 12], ["n14", {"type": "int", "value": "14"}]]) == [
        [12, "n12"],
        [14, "n14"],
    ]
    assert get(service, ["id"], [5], ["name", "id"]) == [["n5", 5]]
    assert get(service, "id", []) == []
    assert service.get("/health").json()["rows"] is True
    response = service.post("/get", {"column": "id", "keys": [8, 6], "columns": ["id"]}, headers={"accept": ARROW})
    assert response.headers["content-type"] == ARROW
    assert pa.ipc.open_stream(response.content).read_all().to_pydict() == {"id": [8, 6]}
    response = service.post("/get", {"column": "id", "keys": [-6]}, headers={"accept": f"text/html, {ARROW};q=0.5"})
    table = pa.ipc.open_stream(response.content).read_all()
    assert (table.num_rows, table.column_names) == (0, ["id", "name"])


@pytest.mark.ci
def test_candidates_without_the_key(lake: Lake, serve):
    for name in ("part-000a", "part-009a"):  # not indexed: read for every key
        write(lake.folder / f"{name}.parquet", [0, 9999])
    service = serve(lake.index, "--rows")
    assert get(service, "id", [4321]) == [[4321, "n4321"]]
    assert get(service, "id", [-5]) == []
    assert get(service, "id", [9999, 4321]) == [[9999, "n9999"], [9999, "n9999"], [4321, "n4321"]]


def test_rows_are_given_on_request_only(lake: Lake, serve, tmp_path: Path):
    service = serve(lake.index)
    assert refuse(service, {"column": "id", "keys": [1]}, 403) == (
        "the service gives no rows: it was started without --rows"
    )
    assert service.get("/health").json()["rows"] is False
    with LakeIndex.create(tmp_path / "bare", ["id"]) as index:
        index.append([str(lake.folder / "part-000.parquet")])
    with pytest.raises(RuntimeError, match="the index has no lake of its own") as refused:
        Process(tmp_path / "bare", "--rows")
    assert str(refused.value).count("\n") == 1


def test_bad_requests(lake: Lake, serve):
    service = serve(lake.index, "--rows", "--max-values", "20")
    for status, said, document in (
        (404, "column 'nope': the index has no such column; it has: id, name", {"column": "nope", "keys": [1]}),
        (404, "column 'nope': ", {"column": "id", "keys": [1], "columns": ["nope"]}),
        (404, "column 'nope': ", {"column": "id", "keys": [], "columns": ["nope"]}),
        (404, "column 'nope': ", {"column": ["id", "nope"], "keys": [[1, 2]]}),
        (422, "keys[1]: null cannot be looked up", {"column": "id", "keys": [1, None]}),
        (422, "keys[0][1]: null cannot be looked up", {"column": ["id", "name"], "keys": [[1, None]]}),
        (422, "keys[1]: not a list of 2 values", {"column": ["id", "name"], "keys": [[1, "n1"], [1]]}),
        (422, "keys[0]: not a list of 2 values", {"column": ["id", "name"], "keys": [1]}),
        (422, "keys[0]: a list is a key of several columns", {"column": "id", "keys": [[1]]}),
        (422, "column: a column, or a list of different ones", {"column": [], "keys": []}),
        (422, "column: a column, or a list of different ones", {"column": ["id", "id"], "keys": [[1, 1]]}),
        (422, "keys[0]: lists and objects are not allowed here", {"column": "id", "keys": [[[1]]]}),
        (422, "keys[0]: lists and objects are not allowed here", {"column": "id", "keys": [[1] * 17]}),
        (422, "values[0]: lists and objects are not allowed here", {"column": "id", "values": [[1]]}),
        (422, "keys: 21 items are too many", {"column": "id", "keys": [1] * 21}),
        (422, "keys[0]: the type must be one of", {"column": "id", "keys": [{"type": "x", "value": 1}]}),
        (422, "timezone: 'Mars' is not a known time zone", {"column": "id", "keys": [1], "timezone": "Mars"}),
        (422, "column", {"column": 5, "keys": [1]}),
        (422, "keys: field required", {"column": "id"}),
        (422, "where: extra inputs are not permitted", {"column": "id", "keys": [1], "where": "x"}),
    ):
        assert said in refuse(service, document, status)
    assert service.get("/get").status_code == 405
    assert get(service, "id", [5])  # and it goes on


def test_rows_of_an_index_of_expressions(lake: Lake, serve, tmp_path: Path):
    """Tuples find rows of keys of their columns; grams and functions of columns are no columns of keys."""
    with LakeIndex.create(tmp_path / "i", ["(name, id)", "grams(name)", "lower(name)"], lake=lake.folder) as index:
        index.append()
    service = serve(tmp_path / "i", "--rows")
    assert get(service, ["id", "name"], [[12, "n12"], [13, "n12"]]) == [[12, "n12"]]
    for column in ("grams(name)", ["grams(name)", "id"], "lower(name)"):
        said = refuse(service, {"column": column, "keys": [["n12", 12] if type(column) is list else "n12"]}, 404)
        assert said.endswith("keys are of columns, not of an expression; columns of the index are: (name, id)")
    said = refuse(service, {"column": "name", "keys": ["n12"]}, 404)
    assert said == "column 'name': the index has no such column; it has: (name, id)"
    assert service.get("/lookup?column=lower(name)&value=n12").json()["results"][0]["candidates"]
    response = service.get("/lookup?column=grams(name)&value=n12")
    assert (response.status_code, "asked for by a predicate" in response.json()["error"]) == (422, True)


def test_answers_are_bounded(lake: Lake, serve):
    path = lake.folder / "repeated.parquet"
    pq.write_table(pa.table({"id": [7] * 5000, "name": ["x" * 100] * 5000}), path)
    service = serve(lake.index, "--rows", "--max-rows", "1000", "--max-answer", "20KB")
    document = {"column": "id", "keys": [7], "columns": ["id"]}
    assert refuse(service, document, 422) == "keys: they have more than 1,000 rows; get fewer at a time"
    said = refuse(service, {"column": "id", "keys": list(range(1000, 1900))}, 422)
    assert said.startswith("keys: their rows take more than 20,000 bytes")
    assert len(get(service, "id", list(range(1000, 1100)))) == 100
    arrow = service.post("/get", document, headers={"accept": ARROW})
    assert (arrow.status_code, arrow.headers["content-type"]) == (422, "application/json")


def test_values_in_json_lose_nothing(tmp_path: Path, serve):
    table = pa.table(
        {
            "id": pa.array([2**53 + 1, 5, 6], pa.int64()),
            "f": [math.nan, math.inf, None],
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "UTC")),
            "raw": [b"\xff", b"", None],
            "s": [{"a": 1}, None, {"a": None}],
        }
    )
    (tmp_path / "lake").mkdir()
    pq.write_table(table, tmp_path / "lake" / "a.parquet")
    with LakeIndex.create(tmp_path / "index", ["id"], lake=str(tmp_path / "lake")) as index:
        index.append()
    service = serve(tmp_path / "index", "--rows")
    at = "2026-01-01T00:00:00.000000Z"
    assert get(service, "id", [{"type": "int", "value": str(2**53 + 1)}, 6, 5]) == [
        [2**53 + 1, "NaN", at, "ff", {"a": 1}],
        [6, None, at, None, {"a": None}],
        [5, "Infinity", at, "", None],
    ]


def test_many_clients_at_once_and_a_lake_that_changes(lake: Lake, serve):
    service = serve(lake.index, "--rows")

    def check(number: int) -> bool:
        keys = [(number * 37 + i * 499) % 5000 for i in range(number % 7 + 1)]
        return get(service, "id", keys) == [[key, f"n{key}"] for key in keys]

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(check, range(60)))
    lake.add(10)
    assert get(service, "id", [5001]) == []  # as of its start
    assert service.post("/refresh").status_code == 200
    assert get(service, "id", [5001]) == [[5001, "n5001"]]
    assert service.post("/append", {}).json()["added"] == 1
    wider = pa.table({"id": pa.array([5002], pa.int64()), "name": ["new"], "more": [1]})
    pq.write_table(wider, lake.folder / "part-010.parquet")
    assert service.post("/refresh").status_code == 200
    assert get(service, "id", [5001, 5002, 12]) == [[5002, "new"], [12, "n12"]]


def test_damaged_files_are_faults_of_the_service(lake: Lake, serve):
    service = serve(lake.index, "--rows")
    path, _ = lake.holder(777)
    size = Path(path).stat().st_size
    Path(path).write_bytes(b"PAR1" + bytes(size - 8) + b"PAR1")
    said = refuse(service, {"column": "id", "keys": [777]}, 500)
    assert "part-001.parquet" in said
    assert get(service, "id", [4321]) == [[4321, "n4321"]]
    document = service.get("/openapi.json").json()
    assert json.dumps(document["paths"]["/get"])
    assert document["components"]["schemas"]["GetRequest"]["properties"]["keys"]["maxItems"] == 10_000


@pytest.mark.parametrize(
    ("accept", "is_arrow"),
    [
        ("{}", True), ("{};q=0", False), ("{}; Q=0.000", False), ("{};q=0.5, application/json", False),
        ("{}, */*;q=0.1", True),        ("{};q=0.5, */*", False), ("*/*", False), ("application/json;q=0, */*", True),
        ('{};x=";q=0,";q=1', True),
        ("{};q=2", False),
    ],
)  # fmt: skip
def test_accept_is_heeded_with_its_weights(accept: str, is_arrow: bool) -> None:
    assert accepts_arrow([accept.replace("{}", ARROW_STREAM)]) == is_arrow
