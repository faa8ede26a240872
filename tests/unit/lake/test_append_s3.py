"""Indexing files of an object store: every byte is read once, in a few requests a file, and all of one version."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file import column_reader
from parquet_bloom.lake import hash_files
from parquet_bloom.lake.lake_index import LakeIndex

FILES, ROWS, GROUP = 6, 12_000, 2_000


def table(number: int) -> pa.Table:
    ids = np.random.default_rng(number).integers(0, 1 << 60, ROWS)
    names = [f"name-{number}-{i % 700}" for i in range(ROWS)]
    return pa.table({"id": ids, "much": ["x" * 40 + str(i) for i in ids], "name": names})


def parquet(number: int, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(number), sink, row_group_size=GROUP, compression="none", **options)
    return sink.getvalue()


@pytest.fixture(params=["together", "streamed", "in pages"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Column chunks are fetched whole, or are so long, by limits that tests set, that they are read piece by piece."""
    if request.param != "together":
        monkeypatch.setattr(hash_files, "_TOGETHER_BYTES", 1_000)
    if request.param == "in pages":
        monkeypatch.setattr(column_reader, "DISTANT_WINDOW_BYTES", 4_000)
    return str(request.param)


def spans(s3: Any, prefix: str) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges [start, stop) that were read of each object, in their order."""
    results = defaultdict(list)
    for request in s3.log:
        if request.operation == "GetObject" and request.key.startswith(prefix):
            size = s3.head(request.key).size
            start, stop = re.fullmatch(r"bytes=(\d*)-(\d+)", request.range).groups()
            results[request.key].append((int(start), int(stop) + 1) if start else (max(0, size - int(stop)), size))
    return {key: sorted(ranges) for key, ranges in results.items()}


@pytest.mark.ci
@pytest.mark.parametrize("filters", [False, True])
def test_every_byte_is_read_once(s3: Any, tmp_path: Path, way: str, filters: bool) -> None:
    (tmp_path / "lake").mkdir()
    for number in range(FILES):
        path = tmp_path / "lake" / f"{number}.parquet"
        path.write_bytes(parquet(number, max_rows_per_page=500))
        if filters:
            parquet_bloom.embed(path, ["id", "much"])
        s3.put(f"lake/{number}.parquet", path.read_bytes())
    columns = ["id", "name"]
    with LakeIndex.create(s3.url("index"), columns, storage_options=s3.storage_options) as index:
        s3.clear_log()
        assert index.append(s3.url("lake")).added == FILES
        read = spans(s3, "lake/")
        assert len(read) == FILES
        for ranges in read.values():
            assert all(before[1] <= after[0] for before, after in pairwise(ranges)), ranges
        if way == "together":  # a request for the end, and one for all that is not in it: gaps of 80 KB are none
            assert max(map(len, read.values())) <= 1 + 2 * ROWS // GROUP
            assert sum(stop - start for ranges in read.values() for start, stop in ranges) < 0.7 * sum(
                s3.head(key).size for key in read
            )
        # What was made of it is what a local index of the same files has.
        with LakeIndex.create(str(tmp_path / "index"), columns) as local:
            local.append(str(tmp_path / "lake"))
            ours, theirs = index.state.segments[0].files, local.state.segments[0].files
            assert [path.rpartition("/")[2] for path in ours.paths()] == [
                path.rpartition("/")[2] for path in theirs.paths()
            ]
            for number in range(FILES):
                assert ours.fingerprints(number) == theirs.fingerprints(number)
        for number in range(FILES):
            values = table(number)
            for name in columns:
                some = values[name].slice(0, 3_000)
                for answer in index.lookup(name, some):
                    assert s3.url(f"lake/{number}.parquet") in {candidate.path for candidate in answer}
        assert index.check(sample=2).problems == []


def test_small_files_are_one_request_each(s3: Any) -> None:
    for number in range(20):
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": range(number * 100, number * 100 + 100)}), sink)
        s3.put(f"lake/{number}.parquet", sink.getvalue())
    with LakeIndex.create(s3.url("index"), "id", storage_options=s3.storage_options) as index:
        s3.clear_log()
        index.append(s3.url("lake"))
        assert sum(request.key.startswith("lake/") for request in s3.log if request.operation == "GetObject") == 20


@pytest.mark.ci
def test_an_object_that_changes_between_two_requests_is_refused(s3: Any, way: str) -> None:
    for number in range(3):
        s3.put(f"lake/{number}.parquet", parquet(number))
    other = parquet(77)

    def replace(_: Any) -> None:
        s3.put("lake/1.parquet", other)

    with LakeIndex.create(s3.url("index"), "id", storage_options=s3.storage_options) as index:
        # The end of it has been read: the second request is for column chunks.
        s3.before("GetObject", replace, when=lambda request: request.key == "lake/1.parquet", skip=1)
        with pytest.raises(ParquetBloomError, match=r"lake/1\.parquet.*changed"):
            index.append(s3.url("lake"))
        index.refresh()
        failed: list[ParquetBloomError] = []
        changed = parquet(78)
        s3.before(
            "GetObject",
            lambda _: s3.put("lake/1.parquet", changed),
            when=lambda request: request.key == "lake/1.parquet",
            skip=1,
        )
        report = index.append(s3.url("lake"), on_error=failed.append)
        assert (report.added, len(failed)) == (2, 1)
        value = table(78)["id"][5].as_py()
        assert [candidate.path for candidate in index.lookup("id", [value])[0]] == [s3.url("lake/1.parquet")]
        assert index.append().added == 1
        assert [candidate.path for candidate in index.lookup("id", [value])[0]] == [s3.url("lake/1.parquet")]


def test_unreadable_chunks_are_errors_of_their_file_only(s3: Any) -> None:
    for number in range(4):
        s3.put(f"lake/{number}.parquet", parquet(number))
    with LakeIndex.create(s3.url("index"), "id", storage_options=s3.storage_options) as index:
        s3.fail("GetObject", 1000, status=403, when=lambda request: request.key == "lake/2.parquet", skip=1)
        failed: list[ParquetBloomError] = []
        report = index.append(s3.url("lake"), on_error=failed.append)
        assert (report.added, len(failed)) == (3, 1)
        assert s3.url("lake/2.parquet") in str(failed[0])
        assert index.unindexed == [s3.url("lake/2.parquet")]


def test_no_more_waits_in_memory_than_may() -> None:
    """Fetching goes ahead of decoding only as far as the bytes allow; the order is kept."""

    class Chunks:
        def __init__(self, num_bytes: int):
            self.num_bytes = num_bytes

        def fetch(self) -> None:
            fetching_now.add(id(self))

    fetching_now: set[int] = set()
    sizes = [5, 50, 1, 1, 200, 3, 3]
    tasks: list[Any] = [(number, Chunks(size)) for number, size in enumerate(sizes)]
    ready = hash_files.fetch_ahead(iter(tasks), 60)
    for at, (number, error) in enumerate(ready):
        assert (number, error) == (at, None)
        ahead = [size for (_, chunks), size in zip(tasks, sizes, strict=True) if id(chunks) in fetching_now][at:]
        assert sum(ahead) <= 60 or len(ahead) <= 2, (at, ahead)
