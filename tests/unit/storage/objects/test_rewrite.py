"""Objects that are written: whole or not at all, and nothing left over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.errors import ConcurrentChangeError, ManagedTableError, StorageError
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_rewrite import PART_BYTES

MIB = 1 << 20


@pytest.fixture
def stores(s3: Any) -> ObjectStores:
    return ObjectStores(s3.storage_options | {"init_backoff": 0.01, "max_retries": 2})


def write(url: str, stores: ObjectStores, data: bytes, times: int) -> None:
    with storage.create(url, stores) as new:
        for _ in range(times):
            new.write(data)
        new.commit()


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + MIB])
def test_sizes(s3: Any, stores: ObjectStores, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    s3.put("a.bin", b"old")
    with storage.create(s3.url("a.bin"), stores) as new:
        for start in range(0, size, 3_000_000):
            new.write(data[start : start + 3_000_000])
        assert new.tell() == size
        assert s3.get("a.bin") == b"old"
        new.commit()
    assert s3.get("a.bin") == data
    assert s3.uploads() == []
    writes = [name for name in s3.operations() if name != "GetObject"]
    assert writes == ["PutObject"] if size < PART_BYTES else writes[-1] == "CompleteMultipartUpload"


@pytest.mark.parametrize("size", [100, 17 * MIB])
@pytest.mark.parametrize("how", ["left", "raised"])
def test_an_abandoned_write_leaves_nothing(s3: Any, stores: ObjectStores, size: int, how: str) -> None:
    s3.put("a.bin", b"old")
    try:
        with storage.create(s3.url("a.bin"), stores) as new:
            new.write(bytes(size))
            if how == "raised":
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert s3.get("a.bin") == b"old"
    assert s3.uploads() == []


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject"])
def test_a_write_refused_by_the_store_changes_nothing(s3: Any, stores: ObjectStores, operation: str) -> None:
    s3.put("a.bin", b"old")
    s3.fail(operation, 99, status=403, code="AccessDenied")
    with pytest.raises(StorageError, match=r"a\.bin: cannot .* access denied") as caught:
        write(s3.url("a.bin"), stores, bytes(MIB), 33 if operation != "PutObject" else 1)
    assert "\n" not in str(caught.value)
    assert s3.get("a.bin") == b"old"
    assert s3.uploads() == []


def test_busy_answers_are_tried_again(s3: Any, stores: ObjectStores) -> None:
    s3.fail("UploadPart", 2)
    s3.fail("CompleteMultipartUpload", 1)
    data = np.random.default_rng(1).bytes(33 * MIB)
    write(s3.url("a.bin"), stores, data, 1)
    assert s3.get("a.bin") == data


def test_no_such_bucket(stores: ObjectStores) -> None:
    with pytest.raises(StorageError, match="there is no such bucket"):
        write("s3://no-such-one/a", stores, b"x", 1)
    with pytest.raises(StorageError, match="does not name an object"), storage.create("s3://no-such-one/", stores):
        pass


@pytest.fixture
def table() -> pa.Table:
    keys = np.random.default_rng(2).permutation(1_000_000)[:300_000]
    return pa.table({"key": keys, "text": [f"a longer text about {key}" for key in keys]})


def put_table(s3: Any, key: str, table: pa.Table, tmp_path: Path) -> bytes:
    path = tmp_path / "plain.parquet"
    pq.write_table(table, path, row_group_size=100_000, compression="none")
    s3.put(key, path.read_bytes())
    return path.read_bytes()


def test_embedding_from_and_to_urls(s3: Any, stores: ObjectStores, table: pa.Table, tmp_path: Path) -> None:
    plain = put_table(s3, "in/a.parquet", table, tmp_path)
    assert len(plain) > 11 * MIB
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    here = tmp_path / "here.parquet"
    parquet_bloom.embed(tmp_path / "plain.parquet", ["key"], output=here)
    report = parquet_bloom.embed(s3.url("in/a.parquet"), ["key"], output=s3.url("out/a.parquet"), **options)
    assert (report.changed, report.num_filters, report.output) == (True, 3, s3.url("out/a.parquet"))
    assert s3.get("out/a.parquet") == here.read_bytes()
    down = tmp_path / "down.parquet"
    parquet_bloom.embed(s3.url("in/a.parquet"), ["key"], output=down, **options)
    parquet_bloom.embed(tmp_path / "plain.parquet", ["key"], output=s3.url("out/up.parquet"), **options)
    assert down.read_bytes() == s3.get("out/up.parquet") == here.read_bytes()
    assert parquet_bloom.verify(s3.url("out/a.parquet"), data=True, **options).problems == []
    assert s3.get("in/a.parquet") == plain
    assert s3.uploads() == []
    nothing = parquet_bloom.embed(s3.url("in/a.parquet"), ["key"], dry_run=True, **options)
    assert (nothing.changed, len(nothing.filters)) == (False, 3)


def test_embedding_an_object_that_changes_meanwhile(
    s3: Any, stores: ObjectStores, table: pa.Table, tmp_path: Path
) -> None:
    put_table(s3, "in/a.parquet", table, tmp_path)

    def change(done: int, of: int) -> None:
        if done == of:
            s3.put("in/a.parquet", b"another writer's")

    with pytest.raises(ConcurrentChangeError):
        parquet_bloom.embed(
            s3.url("in/a.parquet"), ["key"], output=s3.url("out/a.parquet"), filesystem=stores, progress=change
        )
    assert s3.get("in/a.parquet") == b"another writer's"
    assert s3.get("out/a.parquet") is None
    assert s3.uploads() == []


def test_write_table(s3: Any, table: pa.Table) -> None:
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    report = parquet_bloom.write_table(table, s3.url("a.parquet"), ["key"], row_group_size=100_000, **options)
    assert report.num_filters == 3
    assert parquet_bloom.verify(s3.url("a.parquet"), data=True, **options).problems == []
    assert parquet_bloom.read_table(s3.url("a.parquet"), "key >= 0", **options).equals(table)


def test_tables_files_are_not_written(s3: Any, stores: ObjectStores, table: pa.Table, tmp_path: Path) -> None:
    put_table(s3, "t/a.parquet", table.slice(0, 10), tmp_path)
    s3.put("t/_delta_log/0.json", b"{}")
    for source, target in [("t/a.parquet", "elsewhere.parquet"), ("elsewhere.parquet", "t/day=1/b.parquet")]:
        with pytest.raises(ManagedTableError, match="_delta_log"):
            parquet_bloom.embed(s3.url(source), ["key"], output=s3.url(target), filesystem=stores)
    assert {request.method for request in s3.log} == {"GET"}
