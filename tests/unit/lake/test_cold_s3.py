"""Requests of a cold process for one lookup: few, and in parallel where possible."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.lake.lake_index import LakeIndex

MANY = 20_000


@pytest.mark.ci
def test_very_many_files_within_six_requests(s3: Any) -> None:
    options = {"storage_options": s3.storage_options}
    tokens = np.random.default_rng(1).integers(0, 1 << 60, MANY).tolist()
    names = [f"s3://lake/day={number % 30}/{token:016x}.parquet" for number, token in enumerate(tokens)]
    with LakeIndex.create(s3.url("index"), "id", **options) as index:
        index.append_batches((name, {"id": pa.array(range(30 * n, 30 * n + 30))}) for n, name in enumerate(names))
    for value in (5, 30 * MANY - 1, 30 * MANY // 2, -5):
        s3.clear_log()
        with LakeIndex.open(s3.url("index"), live=False, **options) as cold:
            answer = cold.lookup("id", [value])
            if value >= 0:
                assert names[value // 30] in {candidate.path for candidate in answer[0]}
            assert len(s3.log) <= 6, s3.log
            assert sum(request.received for request in s3.log) < 300_000
            assert answer.requests == len(s3.log) - 2  # less the listing and the manifest
            s3.clear_log()
            cold.lookup("id", [value])
            assert len(s3.log) == 1


def parquet(first: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(first, first + 100), "other": range(100)}), sink)
    return sink.getvalue()


def lake(s3: Any, columns: Any = "id", segments: int = 3) -> None:
    with LakeIndex.create(s3.url("index"), columns, storage_options=s3.storage_options) as index:
        for number in range(segments):
            s3.put(f"lake/{number}.parquet", parquet(100 * number))
            index.append(s3.url("lake"))


def test_segments_are_opened_side_by_side(s3: Any) -> None:
    lake(s3, ["id", "other"])
    tables, parts = threading.Barrier(3), threading.Barrier(3)
    # Each of these waits for two others of its kind: one after the other they would wait in vain.
    s3.before("GetObject", lambda _: tables.wait(20), times=3, when=lambda request: request.key.endswith(".files"))
    s3.before("GetObject", lambda _: parts.wait(20), times=3, when=lambda request: request.key.endswith("-0.postings"))
    s3.clear_log()
    report = parquet_bloom.prune(None, "id = 105", index=s3.url("index"), storage_options=s3.storage_options)
    assert [file.path for file in report.files if file.selected] == [s3.url("lake/1.parquet")]
    requests = [
        (request.operation, request.key.partition("/")[0], request.key.rpartition(".")[2]) for request in s3.log
    ]
    assert sorted(requests) == sorted(
        [
            ("ListObjects", "", ""),  # the index
            ("GetObject", "index", "json"),
            ("ListObjects", "", ""),  # the lake
            *[("GetObject", "index", "files")] * 3,
            *[("GetObject", "index", "postings")] * 3,
            ("GetObject", "lake", "parquet"),
        ]
    )


@pytest.mark.ci
def test_an_append_reads_nothing_of_the_index_that_it_knows(s3: Any) -> None:
    lake(s3)
    with LakeIndex.open(s3.url("index"), storage_options=s3.storage_options) as index:
        s3.put("lake/9.parquet", parquet(900))
        s3.clear_log()
        assert index.append().added == 1
        read = [request.key for request in s3.log if request.operation == "GetObject"]
        # What older manifests name is kept for an hour, for readers: that has to be looked up.
        assert sorted(key.rpartition(".")[2] for key in read) == ["json"] * 4 + ["parquet"]
        assert [candidate.path for candidate in index.lookup("id", [905])[0]] == [s3.url("lake/9.parquet")]
        with LakeIndex.open(s3.url("index"), storage_options=s3.storage_options) as again:
            assert again.unindexed == []
            for value in (5, 105, 205, 905):
                assert again.lookup("id", [value])[0] == index.lookup("id", [value])[0]


@pytest.mark.ci
def test_an_index_that_another_writer_replaces_is_seen(s3: Any) -> None:
    """Sizes from a listing are not requested again, and cause no failure where they are outdated."""
    lake(s3)
    options = {"storage_options": s3.storage_options}
    with LakeIndex.open(s3.url("index"), live=False, **options) as index:
        for item in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="index/")["Contents"]:
            s3.delete(item["Key"])
        lake(s3, segments=1)
        index.refresh()
        assert [candidate.path for candidate in index.lookup("id", [5])[0]] == [s3.url("lake/0.parquet")]
        assert [candidate.path for candidate in index.lookup("id", [105])[0]] == [s3.url("lake/1.parquet")]
        assert index.check(sample=0).problems == []
