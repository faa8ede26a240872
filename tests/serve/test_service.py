"""The service as a process, driven by a real HTTP client: right answers, whatever happens beside."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers.shredded_variants import make_variants

from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.storage.index_folder import Folder

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

FILES, ROWS = 10, 500


def test_ten_thousand_lookups_by_several_threads_are_right(lake, serve):
    service = serve(lake.index)
    chance = np.random.default_rng(5)
    batches = [chance.integers(0, FILES * ROWS * 2, 50).tolist() for _ in range(196)]
    batches += [[value] for value in chance.integers(0, FILES * ROWS, 200).tolist()]
    assert sum(map(len, batches)) == 10_000
    false = []

    def look_up(values: list[int]) -> None:
        answers = service.lookup("id", values)
        assert len(answers) == len(values)
        for value, answer in zip(values, answers, strict=True):
            right = [lake.holder(value)] if value < FILES * ROWS else []
            for path, row_group in right:
                assert any(path == match and row_group in groups for match, groups in answer)
            false.append(len({path for path, _ in answer} - {path for path, _ in right}))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(look_up, batches))
    assert len(false) == 10_000
    assert sum(false) <= 5


def test_paths_of_variants_are_looked_up_by_any_of_their_texts(tmp_path, serve):
    (tmp_path / "lake").mkdir()
    table = pa.table({"v": make_variants([{"n": 7}, {"n": "8"}])})
    pq.write_table(table, tmp_path / "lake" / "a.parquet")
    with LakeIndex.create(tmp_path / "index", "v:n::BIGINT", lake=str(tmp_path / "lake")) as index:
        index.append()
    service = serve(tmp_path / "index")
    for column in ("v:n::BIGINT", "v:$.n::bigint"):
        assert [len(answer) for answer in service.lookup(column, [7, 8, 9])] == [1, 1, 0]
        (result,) = service.get(f"/lookup?column={column}&value=8").json()["results"]
        assert len(result["candidates"]) == 1
    assert service.get("/lookup?column=v:m::BIGINT&value=8").status_code == 404


def test_rows_of_zones_are_named(tmp_path, serve):
    (tmp_path / "lake").mkdir()
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "lake" / "a.parquet", row_group_size=60)
    options = {"granularity": "zone", "zone_rows": 25, "lake": str(tmp_path / "lake")}
    with LakeIndex.create(tmp_path / "index", "id", **options) as index:
        index.append()
    service = serve(tmp_path / "index")
    (result,) = service.get("/lookup?column=id&value=70").json()["results"]
    assert result["candidates"] == [
        {"path": str(tmp_path / "lake" / "a.parquet"), "row_groups": [1], "rows": [[[0, 25]]]}
    ]
    assert service.get("/stats").json()["zone_rows"] == 25


def test_a_single_lookup_understands_its_text_as_the_column_is_stored(lake, serve):
    service = serve(lake.index)
    path, row_group = lake.holder(4_321)
    for query in ("column=id&value=4321", "column=name&value=n4321", "column=id&value=4321.0&type=decimal"):
        response = service.get(f"/lookup?{query}")
        assert response.status_code == 200
        assert response.json() == {
            "version": 2,
            "column": query.partition("&")[0][7:],
            "results": [{"candidates": [{"path": path, "row_groups": [row_group]}]}],
            "doubts": [],
        }
    assert service.get("/lookup", params={"column": "name", "value": "4321"}).json()["results"] == [{"candidates": []}]
    assert service.lookup("id", []) == []
    mixed = service.lookup("name", ["n7", {"type": "bytes", "value": "6e37"}, "n-1"])
    assert mixed[0] == mixed[1] == service.lookup("name", ["n7"])[0]
    assert mixed[2] == []
    assert service.lookup("id", [7, 7, 7.0])[0] == service.lookup("id", [7])[0]
    for column, value, expected in (
        ("name", 7, "give a string"),
        ("id", "7", "give an integer"),
        ("id", True, "INT64"),
    ):
        response = service.post("/lookup", {"column": column, "values": ["n7" if column == "name" else 7, value]})
        assert response.status_code == 422  # whether a text equals a number depends on the engine
        assert f"column '{column}': {value!r} cannot be compared exactly with" in response.json()["error"]
        assert expected in response.json()["error"]


def test_no_lookup_loses_a_file_while_others_come(lake, serve):
    service = serve(lake.index)
    indexed = FILES
    stopped = threading.Event()

    def look_up(seed: int) -> int:
        chance, count = np.random.default_rng(seed), 0
        with httpx.Client(base_url=service.url, timeout=60, trust_env=False) as client:
            while not stopped.is_set() or not count:
                num_indexed = indexed  # these were in the index before the query
                values = chance.integers(0, num_indexed * ROWS, 5).tolist()
                response = client.post("/lookup", json={"column": "id", "values": values})
                assert response.status_code == 200, response.text
                for value, result in zip(values, response.json()["results"], strict=True):
                    assert lake.holder(value)[0] in [one["path"] for one in result["candidates"]]
                count += 1
        return count

    with ThreadPoolExecutor(3) as threads:
        lookups = [threads.submit(look_up, seed) for seed in range(3)]
        try:
            version = 2
            for number in range(FILES, FILES + 6):
                document = service.post("/append", {"files": [lake.add(number)]}).json()
                assert (document["added"], document["failed"]) == (1, {})
                assert document["version"] > version
                version, indexed = document["version"], number + 1
        finally:
            stopped.set()
        assert all(lookup.result() for lookup in lookups)
    assert service.get("/stats").json()["files"] == FILES + 6


def test_appends_at_once_wait_for_each_other(lake, serve):
    service = serve(lake.index)
    paths = [lake.add(number) for number in range(FILES, FILES + 4)]
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(lambda path: service.post("/append", {"files": [path]}), paths))
    assert [response.status_code for response in responses] == [200] * 4
    assert len({response.json()["version"] for response in responses}) >= 1
    values = [number * ROWS for number in range(FILES, FILES + 4)]
    assert [[path for path, _ in result] for result in service.lookup("id", values)] == [[path] for path in paths]


def test_changes_are_refused_while_another_process_writes(lake, serve):
    first, second = serve(lake.index), serve(lake.index)
    path = lake.add(FILES)
    with Folder(str(lake.index)).lock():
        for service in (first, second):
            for request in (("/append", {"files": [path]}), ("/remove", {"files": [lake.holder(0)[0]]})):
                response = service.post(*request)
                assert response.status_code == 409
                assert "another writer is at work" in response.json()["error"]
            assert [result for result, _ in service.lookup("id", [0])[0]] == [lake.holder(0)[0]]
    assert first.post("/append", {"files": [path]}).status_code == 200
    # The second one knows of it when it looks again; until then the file is none that it has ever seen.
    assert second.lookup("id", [FILES * ROWS]) == [[]]
    assert second.post("/refresh").json() == {"version": 3, "files": FILES + 1, "unindexed": 0}
    assert [result for result, _ in second.lookup("id", [FILES * ROWS])[0]] == [path]


def test_a_change_that_takes_long_lets_no_lookup_wait(lake, serve):
    service = serve(lake.index)
    for number in range(FILES, FILES + 60):
        lake.add(number)
    with ThreadPoolExecutor(1) as thread:
        append = thread.submit(lambda: httpx.post(f"{service.url}/append", json={}, timeout=120, trust_env=False))
        answered = 0
        while not append.done() or not answered:
            assert service.get("/health").json()["status"] == "ok"
            assert lake.holder(1)[0] in [path for path, _ in service.lookup("id", [1])[0]]
            answered += 1
        assert append.result().json()["added"] == 60
    assert answered > 1


def test_files_are_removed_and_refreshed(lake, serve):
    service = serve(lake.index)
    path = lake.holder(0)[0]
    assert service.post("/remove", {"files": [path]}).json() == {"version": 3, "removed": 1}
    assert service.lookup("id", [0, 10**9]) == [
        [(path, None)],
        [(path, None)],
    ]  # live, but unknown: named for every value
    os.unlink(path)
    assert service.post("/refresh").json() == {"version": 3, "files": FILES - 1, "unindexed": 0}
    assert service.lookup("id", [0]) == [[]]
    new = lake.add(FILES)
    assert service.lookup("id", [FILES * ROWS]) == [[]]
    assert service.post("/refresh").json()["unindexed"] == 1
    assert service.lookup("id", [FILES * ROWS, -1]) == [[(new, None)]] * 2
    response = service.post("/remove", {"files": [str(lake.folder / "no")]})
    assert response.status_code == 404
    assert response.json()["error"].endswith("the index has no such file")


def test_it_refreshes_by_itself(lake, serve):
    service = serve(lake.index, "--refresh", "0.2")
    path = lake.add(FILES)
    end = time.monotonic() + 120
    while service.lookup("id", [FILES * ROWS]) != [[(path, None)]]:
        assert time.monotonic() < end
        time.sleep(0.05)
    health = service.get("/health").json()
    assert (health["unindexed"], health["refresh_problem"]) == (1, None)
    (lake.folder / "_delta_log").mkdir()  # a folder that is a table now cannot be listed
    while not service.get("/health").json()["refresh_problem"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert service.lookup("id", [FILES * ROWS]) == [[(path, None)]]


def test_read_only(lake, serve):
    service = serve(lake.index, "--read-only")
    for request in (("/append", {"files": [lake.add(FILES)]}), ("/append", {}), ("/remove", {"files": ["/"]})):
        response = service.post(*request)
        assert (response.status_code, response.json()) == (403, {"error": "the service is read-only"})
    assert service.post("/refresh").json()["unindexed"] == 1
    assert service.get("/health").json()["read_only"] is True


def test_an_unreadable_file_changes_nothing_unless_it_may_be_skipped(lake, serve):
    service = serve(lake.index)
    good, bad = lake.add(FILES), lake.folder / "broken.parquet"
    bad.write_bytes(b"PAR1 is not all PAR1")
    response = service.post("/append", {"files": [good, str(bad)]})
    assert response.status_code == 422
    assert response.json()["error"].startswith(str(bad))
    assert service.get("/health").json()["version"] == 2
    document = service.post("/append", {"files": [good, str(bad)], "skip_unreadable": True}).json()
    assert (document["added"], list(document["failed"])) == (1, [str(bad)])
    assert service.lookup("id", [FILES * ROWS]) == [[(good, [0]), (str(bad), None)]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_when_all_is_answered(lake, serve, number):
    service = serve(lake.index)
    for more in range(FILES, FILES + 30):
        lake.add(more)
    with ThreadPoolExecutor(1) as thread:
        append = thread.submit(lambda: httpx.post(f"{service.url}/append", json={}, timeout=60, trust_env=False))
        while not append.done() and not service.get("/health").json()["changes"]:
            pass
        service.process.send_signal(number)
        response = append.result()
    code, errors = service.stop()
    assert code == 0
    assert errors == ""
    assert response.status_code in (200, 503), response.text
    with LakeIndex.open(lake.index) as index:
        assert index.snapshot().version == (3 if response.status_code == 200 else 2)
        assert index.check().ok


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_until_the_end_change_nothing(lake, serve, number):
    service = serve(lake.index)
    while service.process.poll() is None:
        service.process.send_signal(number)
        time.sleep(0.01)  # more at once would only interrupt each other
    code, errors = service.stop()
    assert (code, errors) == (0, "")


def test_responses_match_the_openapi_document(lake, serve):
    from parquet_bloom.serve import request_models

    service = serve(lake.index, "--max-values", "77")
    document = service.get("/openapi.json").json()
    assert {(path, method) for path, item in document["paths"].items() for method in item} == {
        *((path, "post") for path in ("/lookup", "/get", "/append", "/remove", "/refresh")),
        *((path, "get") for path in ("/lookup", "/stats", "/health", "/metrics")),
    }
    assert document["components"]["schemas"]["LookupRequest"]["properties"]["values"]["maxItems"] == 77
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                if status == "200" and "application/json" not in response["content"]:
                    assert [*response["content"]] == ["text/plain"]  # the metrics
                    continue
                schema = response["content"]["application/json"]["schema"]["$ref"]
                assert schema.endswith("/Problem") == (status != "200")
    requests: list[tuple[str, Any, Any]] = [
        ("/lookup", {"column": "id", "values": [1]}, request_models.LookupAnswer),
        ("/append", {}, request_models.AppendAnswer),
        ("/remove", {"files": [lake.holder(0)[0]]}, request_models.RemoveAnswer),
        ("/refresh", None, request_models.RefreshAnswer),
        ("/stats", None, request_models.StatsAnswer),
        ("/health", None, request_models.HealthAnswer),
    ]
    for path, body, model in requests:
        response = service.get(path) if path in ("/stats", "/health") else service.post(path, body)
        assert response.status_code == 200, response.text
        assert set(response.json()) == set(model.model_fields)
        model.model_validate(response.json(), strict=True)
    assert "swagger" in service.get("/docs").text


def test_values_of_every_type_are_found_exactly(tmp_path: Path, serve):
    """Each kind of column has two values that a rounding would take for one."""
    import datetime as dt
    import decimal
    import uuid

    one, two = 2**53 + 1, 2**53
    times = [1_700_000_000_123_456_789, 1_700_000_000_123_456_788]
    moments = [1_700_000_000_123_456, 1_700_000_000_123_457]
    table = {
        "int": (pa.array([one, two], pa.int64()), [one, {"type": "int", "value": str(two)}]),
        "big": (pa.array([2**64 - 1, 2**64 - 2], pa.uint64()), [2**64 - 1, 2**64 - 2]),
        "decimal": (
            pa.array([decimal.Decimal("12345678901234567890.10"), decimal.Decimal("12345678901234567890.11")]),
            [{"type": "decimal", "value": f"12345678901234567890.1{digit}"} for digit in (0, 1)],
        ),
        "float": (pa.array([0.1, 0.30000000000000004]), [0.1, {"type": "float", "value": "0.30000000000000004"}]),
        "text": (pa.array(["ü", "ü\0"]), ["ü", {"type": "string", "value": "ü\0"}]),
        "bytes": (pa.array([b"\xff\x00", b"\xff"]), [{"type": "bytes", "value": text} for text in ("ff00", "FF")]),
        "date": (
            pa.array([dt.date(2026, 1, 31), dt.date(2026, 2, 1)]),
            ["2026-01-31", {"type": "date", "value": "2026-02-01"}],
        ),
        "time": (
            pa.array([45_000_000_000_001, 45_000_000_000_002], pa.time64("ns")),
            [{"type": "time", "value": f"12:30:00.00000000{digit}"} for digit in (1, 2)],
        ),
        "nanos": (
            pa.array(times, pa.timestamp("ns", "UTC")),
            [{"type": "timestamp", "value": f"2023-11-14T23:13:20.12345678{digit}+01:00"} for digit in (9, 8)],
        ),
        "micros": (
            pa.array(moments, pa.timestamp("us")),
            [{"type": "timestamp", "value": f"2023-11-14 22:13:20.12345{digit}"} for digit in (6, 7)],
        ),
        "uuid": (
            pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes], pa.uuid()),
            [{"type": "uuid", "value": str(uuid.UUID(int=number))} for number in (1, 2)],
        ),
    }
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(2):
        columns = {name: array.slice(number, 1) for name, (array, _) in table.items()}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    with LakeIndex.create(tmp_path / "index", list(table), lake=str(folder)) as index:
        index.append()
    service = serve(tmp_path / "index")
    for name, (_, values) in table.items():
        response = service.post("/lookup", {"column": name, "values": values}).json()
        assert response["doubts"] == [], name
        named = [[one["path"] for one in result["candidates"]] for result in response["results"]]
        assert named == [[str(folder / "0.parquet")], [str(folder / "1.parquet")]], name
        text = values[0]["value"] if isinstance(values[0], dict) else json.loads(json.dumps(values[0]))
        one = service.get(
            "/lookup", params={"column": name, "value": text, "type": "bytes" if name == "bytes" else None}
        )
        if name == "bytes":
            assert one.json()["results"] == [response["results"][0]]
        else:
            one = service.get("/lookup", params={"column": name, "value": text})
            assert one.json()["results"] == [response["results"][0]], (name, one.text)
