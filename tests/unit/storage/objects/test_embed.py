"""Filters embedded on S3, in place and into new objects: what goes over the wire, and what becomes of the object."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.errors import ConcurrentChangeError, ManagedTableError, StorageError, UnknownColumnError
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_rewrite import PART_BYTES
from parquet_bloom.types import EmbedReport

MIB = 1 << 20
GROUPS = 4
WRITES = ("PutObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")


def parquet(rows: int, payload: int, seed: int = 0, **options: Any) -> bytes:
    """A file of `id` (spread over 0 to 10**9), `name`, and so many random bytes a row that nobody asks for."""
    rng = np.random.default_rng(seed)
    ids = rng.choice(10**9, rows, replace=False)
    noise = pa.py_buffer(rng.bytes(rows * payload))
    bulk = pa.FixedSizeBinaryArray.from_buffers(pa.binary(payload), rows, [None, noise])
    table = pa.table({"id": ids, "bulk": bulk, "name": [f"n{number % 5000}" for number in ids.tolist()]})
    sink = io.BytesIO()
    settings = {"compression": "none", "use_dictionary": False, "row_group_size": max(1, -(-rows // GROUPS))}
    pq.write_table(table, sink, **settings | options)
    return sink.getvalue()


@pytest.fixture(scope="module")
def large() -> bytes:
    data = parquet(20_000, 600)
    assert len(data) > 11 * MIB
    return data


@pytest.fixture(scope="module")
def small() -> bytes:
    return parquet(2000, 100)


def footer_start(data: bytes) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def chunks(data: bytes, column: int) -> list[tuple[int, int]]:
    """First and last byte + 1 of a column's chunks."""
    metadata = pq.read_metadata(io.BytesIO(data))
    result = [metadata.row_group(number).column(column) for number in range(metadata.num_row_groups)]
    return [(chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size) for chunk in result]


def require_filters(data: bytes, old: bytes, tmp_path: Path, columns: tuple[str, ...] = ("id",)) -> None:
    """Every row is found, few others are, and all else is as it was."""
    table = pq.read_table(io.BytesIO(data))
    assert table.equals(pq.read_table(io.BytesIO(old)))
    path = tmp_path / "after.parquet"
    path.write_bytes(data)
    metadata = pq.read_metadata(io.BytesIO(data))
    with parquet_bloom.open(path) as file:
        for number in range(metadata.num_row_groups):
            rows = pq.ParquetFile(io.BytesIO(data)).read_row_group(number)
            for column in columns:
                assert file.filter(number, column).check(rows[column]).all()
            absent = file.filter(number, "id").check(pa.array(np.arange(10**9, 10**9 + 10_000)))
            assert absent.mean() < 0.05


def warm_up(s3: Any, small: bytes, large: bytes) -> None:
    """Let the bucket show what it does, which it does once, and forget the requests of that."""
    for data in (small, large):
        s3.put("known.parquet", data)
        embed(s3, "known.parquet")
    s3.clear_log()


def embed(s3: Any, key: str = "a.parquet", **options: Any) -> EmbedReport:
    columns = options.pop("columns", ["id"])
    return parquet_bloom.embed(s3.url(key), columns, storage_options=s3.storage_options, **options)


@pytest.mark.ci
def test_only_the_chosen_column_comes_and_only_filters_and_footer_go(
    s3: Any, small: bytes, large: bytes, tmp_path: Path
) -> None:
    warm_up(s3, small, large)
    s3.put("a.parquet", large)
    report = embed(s3)
    new = s3.get("a.parquet")
    start = footer_start(large)

    assert (report.path, report.output, report.changed) == (s3.url("a.parquet"), s3.url("a.parquet"), True)
    assert (report.old_size, report.new_size) == (len(large), len(new))
    assert report.num_filters == GROUPS
    assert new[:start] == large[:start]
    require_filters(new, large, tmp_path)

    # Beside: samples of what is copied, before and after, and the end read back.
    steps = s3.operations()
    requests = [request for request in s3.log if request.operation == "GetObject"]
    samples = [get for get in requests if get.received == 1024]
    assert 4 <= len(samples) <= 8
    back = s3.log[steps.index("CompleteMultipartUpload") + 1 :]
    assert sum(get.received for get in back) < 65536 + 4 * 1024 + 1
    gets = [get for get in requests if get not in samples and get not in back]
    others = chunks(large, 1) + chunks(large, 2)
    for get in gets:
        first, last = re.fullmatch(r"bytes=(\d*)-(\d+)", get.range).groups()
        if first:  # else it is the one request for the end of the object
            assert not any(int(first) < stop and begin <= int(last) for begin, stop in others), get.range
    expected = sum(stop - begin for begin, stop in chunks(large, 0))
    assert expected <= sum(get.received for get in gets) < expected + 65536 + 100
    assert len(gets) == 2 + GROUPS  # the end, the first four bytes, and each chunk at once

    writes = [request for request in s3.log if request.operation in WRITES]
    assert [request.operation for request in writes] == list(WRITES[1:2] + WRITES[3:4] + WRITES[2:3] + WRITES[4:])
    sent = sum(request.sent for request in writes)
    assert len(new) - start <= sent < len(new) - start + 500
    around = [request.operation for request in s3.log if request.operation not in (*WRITES, "GetObject", "ListObjects")]
    assert sorted(around) == 2 * ["GetObjectAcl"] + 2 * ["GetObjectTagging"] + 2 * ["HeadObject"]
    assert s3.uploads() == []


@pytest.mark.ci
@pytest.mark.parametrize("size", ["small", "large"])
def test_with_the_old_footer_kept(s3: Any, request: pytest.FixtureRequest, size: str, tmp_path: Path) -> None:
    old = request.getfixturevalue(size)
    s3.put("a.parquet", old)
    report = embed(s3, keep_footer=True)
    new = s3.get("a.parquet")
    assert new.startswith(old)
    assert (report.new_size, report.dead_bytes) == (len(new), len(old) - footer_start(old))
    require_filters(new, old, tmp_path)
    parquet_bloom.drop(s3.url("a.parquet"), storage_options=s3.storage_options)
    assert s3.get("a.parquet") == old


@pytest.mark.ci
def test_a_small_object_is_one_put(s3: Any, small: bytes, large: bytes, tmp_path: Path) -> None:
    warm_up(s3, small, large)
    s3.put("x=1/ü b+%20.parquet", small)
    report = embed(s3, "x=1/ü b+%20.parquet", columns=["id", "name"])
    new = s3.get("x=1/ü b+%20.parquet")
    assert report.num_filters == 2 * GROUPS
    require_filters(new, small, tmp_path, ("id", "name"))
    assert [request.operation for request in s3.log if request.operation in WRITES] == ["PutObject"]


@pytest.mark.ci
def test_filters_that_are_there_are_replaced_or_kept(s3: Any, large: bytes, tmp_path: Path) -> None:
    s3.put("a.parquet", large)
    embed(s3, columns=["id", "name"])
    first = s3.get("a.parquet")
    s3.clear_log()
    report = embed(s3, columns=["id", "name"])
    assert (report.changed, report.kept) == (False, 2 * GROUPS)
    assert not set(s3.operations()) & set(WRITES)

    report = embed(s3, fpp=0.0001, replace=True)
    second = s3.get("a.parquet")
    assert report.num_filters == GROUPS
    assert len(second) > len(first)
    assert second[: footer_start(large)] == large[: footer_start(large)]
    require_filters(second, large, tmp_path, ("id", "name"))
    assert s3.uploads() == []


def test_a_dry_run_and_an_error_write_nothing(s3: Any, large: bytes) -> None:
    etag = s3.put("a.parquet", large)
    assert embed(s3, dry_run=True).num_filters == GROUPS
    with pytest.raises(UnknownColumnError):
        embed(s3, columns=["nobody"])
    assert not set(s3.operations()) & set(WRITES)
    assert s3.head("a.parquet").etag == etag


def test_an_output_that_is_the_object_itself_is_in_place(s3: Any, large: bytes, tmp_path: Path) -> None:
    s3.put("a.parquet", large)
    assert embed(s3, output=s3.url("a.parquet")).changed
    assert "UploadPartCopy" in s3.operations()
    require_filters(s3.get("a.parquet"), large, tmp_path)


def test_an_output_in_the_same_bucket_is_copied_there(s3: Any, large: bytes, tmp_path: Path) -> None:
    s3.put("a.parquet", large)
    report = embed(s3, output=s3.url("out/a.parquet"))
    assert (report.path, report.output, report.changed) == (s3.url("a.parquet"), s3.url("out/a.parquet"), True)
    assert s3.get("a.parquet") == large
    require_filters(s3.get("out/a.parquet"), large, tmp_path)
    assert "UploadPartCopy" in s3.operations()
    assert sum(request.sent + request.received for request in s3.log) < len(large) / 10


def test_without_boto3_an_output_goes_by_way_of_here(
    s3: Any, large: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    s3.put("a.parquet", large)
    embed(s3, output=s3.url("out/a.parquet"))
    assert "UploadPartCopy" not in s3.operations()
    require_filters(s3.get("out/a.parquet"), large, tmp_path)


def test_boto3_is_required_by_name(s3: Any, large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("a.parquet", large)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(StorageError, match=r"needs boto3 1\.36 or newer: pip install 'parquet-bloom\[s3\]'$"):
        embed(s3)
    assert s3.get("a.parquet") == large


def test_file_systems_that_copy_and_delete_are_refused(s3: Any, small: bytes) -> None:
    s3.put("a.parquet", small)
    filesystem = pafs.S3FileSystem(
        access_key="testing", secret_key="testing", endpoint_override=s3.endpoint, region="us-east-1"
    )
    with pytest.raises(StorageError, match="on S3 by URL, only; give an output elsewhere"):
        parquet_bloom.embed(f"{s3.bucket}/a.parquet", ["id"], filesystem=filesystem)
    assert s3.get("a.parquet") == small


def test_objects_elsewhere_are_refused(small: bytes) -> None:
    from obstore.store import MemoryStore

    store = MemoryStore()
    store.put("a.parquet", small)
    with pytest.raises(StorageError, match="on S3 only; give an output elsewhere"):
        parquet_bloom.embed("a.parquet", ["id"], filesystem=store)
    assert bytes(store.get("a.parquet").bytes()) == small


@pytest.mark.ci
def test_folders_patterns_and_lists_are_embedded_into(s3: Any, small: bytes) -> None:
    data = small
    keys = ["lake/x=1/a.parquet", "lake/x=2/b.parquet", "lake.v2/c.parquet"]
    for key in keys:
        s3.put(key, data)
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    report = parquet_bloom.embed(s3.url("lake/"), ["id"], **options)
    assert [one.path for one in report] == [s3.url(key) for key in keys[:2]]
    assert [one.changed for one in report] == [True, True]
    assert [one.changed for one in parquet_bloom.embed(s3.url("lake/x=*/*"), ["id"], **options)] == [False, False]
    # A folder whose name ends like a file's is found to be one, as by `prune`.
    assert [one.path for one in parquet_bloom.embed(s3.url("lake.v2"), ["id"], **options)] == [s3.url(keys[2])]
    assert parquet_bloom.verify([s3.url(key) for key in keys], data=True, **options).ok
    assert [one.num_filters > 0 for one in parquet_bloom.drop(s3.url("lake"), **options)] == [True, True]
    assert s3.get(keys[0]) == data
    with pytest.raises(StorageError):
        parquet_bloom.embed(s3.url("none.parquet"), ["id"], **options)


# Objects that are written: whole or not at all, and nothing left over


MIB = 1 << 20


@pytest.fixture
def stores(s3: Any) -> ObjectStores:
    return ObjectStores(s3.storage_options | {"init_backoff": 0.01, "max_retries": 2})


def write_object(url: str, stores: ObjectStores, data: bytes, times: int) -> None:
    with storage.create(url, stores) as new:
        for _ in range(times):
            new.write(data)
        new.commit()


@pytest.mark.ci
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
    notes = []
    try:
        with storage.create(s3.url("a.bin"), stores) as new:
            new.write(bytes(size))
            if how == "raised":
                raise KeyboardInterrupt
    except KeyboardInterrupt as error:  # which waits a moment only for a store that is busy, and says so
        notes = getattr(error, "__notes__", [])
    assert s3.get("a.bin") == b"old"
    assert notes == ["an unfinished upload may be left"] or s3.uploads() == []


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject"])
def test_a_write_refused_by_the_store_changes_nothing(s3: Any, stores: ObjectStores, operation: str) -> None:
    s3.put("a.bin", b"old")
    s3.fail(operation, 99, status=403, code="AccessDenied")
    with pytest.raises(StorageError, match=r"a\.bin: cannot .* access denied") as caught:
        write_object(s3.url("a.bin"), stores, bytes(MIB), 33 if operation != "PutObject" else 1)
    assert "\n" not in str(caught.value)
    assert s3.get("a.bin") == b"old"
    assert s3.uploads() == []


def test_busy_answers_are_tried_again(s3: Any, stores: ObjectStores) -> None:
    s3.fail("UploadPart", 2)
    s3.fail("CompleteMultipartUpload", 1)
    data = np.random.default_rng(1).bytes(33 * MIB)
    write_object(s3.url("a.bin"), stores, data, 1)
    assert s3.get("a.bin") == data


@pytest.fixture
def wide_table() -> pa.Table:
    keys = np.random.default_rng(2).permutation(1_000_000)[:300_000]
    return pa.table({"key": keys, "text": [f"a longer text about {key}" for key in keys]})


def put_table(s3: Any, key: str, wide_table: pa.Table, tmp_path: Path) -> bytes:
    path = tmp_path / "plain.parquet"
    pq.write_table(wide_table, path, row_group_size=100_000, compression="none")
    s3.put(key, path.read_bytes())
    return path.read_bytes()


@pytest.mark.ci
def test_embedding_from_and_to_urls(s3: Any, stores: ObjectStores, wide_table: pa.Table, tmp_path: Path) -> None:
    plain = put_table(s3, "in/a.parquet", wide_table, tmp_path)
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


@pytest.mark.ci
def test_embedding_an_object_that_changes_meanwhile(
    s3: Any, stores: ObjectStores, wide_table: pa.Table, tmp_path: Path
) -> None:
    put_table(s3, "in/a.parquet", wide_table, tmp_path)

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


def test_write_table(s3: Any, wide_table: pa.Table) -> None:
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    report = parquet_bloom.write_table(wide_table, s3.url("a.parquet"), ["key"], row_group_size=100_000, **options)
    assert report.num_filters == 3
    assert parquet_bloom.verify(s3.url("a.parquet"), data=True, **options).problems == []
    assert parquet_bloom.read_table(s3.url("a.parquet"), "key >= 0", **options).equals(wide_table)


def test_tables_files_are_not_written(s3: Any, stores: ObjectStores, wide_table: pa.Table, tmp_path: Path) -> None:
    put_table(s3, "t/a.parquet", wide_table.slice(0, 10), tmp_path)
    s3.put("t/_delta_log/0.json", b"{}")
    for source, target in [("t/a.parquet", "elsewhere.parquet"), ("elsewhere.parquet", "t/day=1/b.parquet")]:
        with pytest.raises(ManagedTableError, match="_delta_log"):
            parquet_bloom.embed(s3.url(source), ["key"], output=s3.url(target), filesystem=stores)
    assert {request.method for request in s3.log} == {"GET"}
