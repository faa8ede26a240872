"""`GET /metrics` of the running service: the text is Prometheus' format, and its numbers add up."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom.serve.metrics import Histogram, Metrics

parser = pytest.importorskip("prometheus_client.parser")

ROWS = 500
PREFIX = "parquet_bloom_"


def scrape(service: Any, **options: Any) -> dict[tuple[str, ...], float]:
    """Return the samples as {(name without prefix, label values...): value}."""
    response = service.get("/metrics", **options)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples: dict[tuple[str, ...], float] = {}
    for family in parser.text_string_to_metric_families(response.text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            assert sample.name.startswith(PREFIX)
            key = sample.name.removeprefix(PREFIX), *sample.labels.values()
            assert key not in samples
            samples[key] = sample.value
    return samples


def test_the_numbers_are_those_of_the_requests(lake, serve):
    service = serve(lake.index, "--rows")
    before = scrape(service)
    assert before["lookups_total",] == before["gets_total",] == before["refreshes_total", "failed"] == 0
    assert (before["index_version",], before["index_files",], before["index_unindexed_files",]) == (2, 10, 0)
    assert before["index_bytes",] == sum(service.get("/stats").json()["num_bytes"].values())

    answers = service.lookup("id", [7, 600, -1])
    assert service.get("/lookup?column=id&value=4321").status_code == 200
    refused = service.post("/lookup", {"column": "name", "values": [7]})  # a number, where files hold texts
    assert refused.status_code == 422
    got = service.post("/get", {"column": "id", "keys": [1, 2, -1]})
    assert len(got.json()["rows"]) == 2
    assert service.post("/lookup", {"column": "nothing", "values": [1]}).status_code == 404
    assert service.get("/elsewhere").status_code == service.get("/elsewhere/2").status_code == 404
    lake.add(10)
    lake.add(11)
    assert service.post("/refresh").json()["unindexed"] == 2
    assert scrape(service)["index_unindexed_files",] == 2
    assert service.post("/append", {}).json()["added"] == 2
    assert service.post("/remove", {"files": [str(lake.folder / "part-011.parquet")]}).json()["removed"] == 1

    after = scrape(service)
    assert after["lookups_total",] == 2
    assert after["lookup_values_total",] == 3 + 1
    assert after["lookup_candidates_total",] == sum(map(len, answers)) + 1
    assert after["lookup_doubts_total",] == 0
    assert (after["gets_total",], after["get_keys_total",], after["get_rows_total",]) == (1, 3, 2)
    assert (after["appended_files_total",], after["removed_files_total",]) == (2, 1)
    assert (after["refreshes_total", "ok"], after["refresh_failed",]) == (1, 0)
    assert (after["index_files",], after["index_unindexed_files",]) == (11, 1)
    assert after["http_requests_total", "POST", "/lookup", "200"] == 1
    assert after["http_requests_total", "POST", "/lookup", "404"] == 1
    assert after["http_requests_total", "GET", "/lookup", "200"] == 1
    assert after["http_requests_total", "GET", "other", "404"] == 2
    assert after["http_request_duration_seconds_count", "/lookup"] == 4
    assert after["http_request_bytes_total", "/get"] == len(got.request.content)
    assert after["http_response_bytes_total", "/get"] == len(got.content)


def test_what_is_refused_before_the_application_counts_too(lake, serve):
    service = serve(lake.index)
    assert service.get("/health", headers={"host": "elsewhere.example"}).status_code == 421
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            connection.sendall(b"no HTTP\r\n\r\n")
            assert b" 400 " in connection.recv(65536)
    assert service.client.request("BREW", "/lookup").status_code == 405
    samples = scrape(service)
    assert samples["http_requests_total", "GET", "/health", "421"] == 1
    assert samples["http_requests_total", "none", "none", "400"] == 2
    assert samples["http_requests_total", "other", "/lookup", "405"] == 1


def test_a_failed_refresh_shows(lake, serve, tmp_path: Path):
    service = serve(lake.index)
    newest = max(lake.index.glob("manifest-*.json"))
    kept = newest.read_bytes()
    newest.write_bytes(b"{")
    assert service.post("/refresh").status_code == 500
    samples = scrape(service)
    assert (samples["refreshes_total", "failed"], samples["refresh_failed",]) == (1, 1)
    newest.write_bytes(kept)
    assert service.post("/refresh").status_code == 200
    assert scrape(service)["refresh_failed",] == 0


def test_values_of_labels_and_bounds_are_written_as_the_format_wants_them():
    metrics = Metrics()
    metrics.requests.add(1, "GET", 'a"b\\c\nd', "200")
    metrics.seconds = Histogram("seconds", "What it is.", "path", (0.1, 1.0))
    for seconds in (0.1, 0.2, 1.5):
        metrics.seconds.observe(seconds, "/x")
    text = metrics.encode({"known": ("A number.", 3), "unknown": ("Not known.", None)}).decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    (sample,) = families[PREFIX + "http_requests"].samples
    assert sample.labels["path"] == 'a"b\\c\nd'
    buckets = {one.labels.get("le"): one.value for one in families[PREFIX + "seconds"].samples}
    assert buckets == {"0.1": 1, "1.0": 2, "+Inf": 3, None: 3}  # the last of those without a bound is the count
    assert families[PREFIX + "known"].samples[0].value == 3
    assert PREFIX + "unknown" not in families
    assert text.endswith("\n")
