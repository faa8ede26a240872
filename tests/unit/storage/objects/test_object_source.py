"""Objects read through obstore from a real S3 server: number of requests, and no mix of two versions."""

from __future__ import annotations

import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore
from support.writers import surgery

import parquet_bloom
from parquet_bloom import redaction, storage
from parquet_bloom.errors import ConcurrentChangeError, StorageError, TruncatedFileError
from parquet_bloom.storage import byte_ranges
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import TAIL_BYTES, ObjectSource
from parquet_bloom.storage.objects.store_errors import first_line

DATA = b"".join(hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(16_384))  # 512 KiB
KEYS = np.random.default_rng(11).permutation(400_000)[:40_000]
ABSENT = 400_007


@pytest.fixture
def stores(s3: Any) -> ObjectStores:
    return ObjectStores(s3.storage_options)


def opened(s3: Any, key: str, entry: storage.Entry | None = None) -> ObjectSource:
    source = storage.open_source(s3.url(key), ObjectStores(s3.storage_options), entry)
    assert isinstance(source, ObjectSource)
    return source


def list_requests(s3: Any) -> list[tuple[str, str]]:
    return [(request.method, request.range) for request in s3.log]


def listed(s3: Any, path: str) -> storage.Entry:
    (entry,) = storage.list_entries(path, ObjectStores(s3.storage_options))
    return entry


def in_memory(table: pa.Table, **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Four row groups with filters, which do not lie among the last 64 KiB alone."""
    path = tmp_path_factory.mktemp("filtered") / "a.parquet"
    table = pa.table({"key": KEYS, "other": np.arange(len(KEYS)), "text": [f"value {key}" for key in KEYS]})
    pq.write_table(table, path, row_group_size=10_000)
    parquet_bloom.embed(path, {"key": 0.001, "text": 0.001})
    return path.read_bytes()


# ------------------------------------------------------------------------------------------------------------
# One object
# ------------------------------------------------------------------------------------------------------------


def test_opening_is_one_request(s3: Any) -> None:
    s3.put("a.bin", DATA)
    with opened(s3, "a.bin") as source:
        assert list_requests(s3) == [("GET", f"bytes=-{TAIL_BYTES}")]
        assert (source.size, source.path, source.name) == (len(DATA), None, s3.url("a.bin"))
        assert source.read_at(len(DATA) - 100, 100) == DATA[-100:]
        assert (source.requests, source.bytes_read) == (1, TAIL_BYTES)
        assert source.read_at(10, 1000) == DATA[10:1010]
        assert (source.requests, source.bytes_read) == (2, TAIL_BYTES + 1000)
        assert source.read_at(5, 0) == b""
    assert list_requests(s3)[1:] == [("GET", "bytes=10-1009")]
    assert s3.log[1].headers["if-match"] == s3.head("a.bin").etag


@pytest.mark.parametrize("size", [0, 1, TAIL_BYTES - 1, TAIL_BYTES, TAIL_BYTES + 1])
def test_sizes_around_the_tail(s3: Any, size: int) -> None:
    s3.put("a.bin", DATA[:size])
    with opened(s3, "a.bin") as source:
        assert source.size == size
        assert source.read_at(0, size) == DATA[:size]
        assert source.read_ranges([(0, size), (size, 0)]) == [DATA[:size], b""]
        assert source.arrow_file().read() == DATA[:size]
        for offset, length in [(0, size + 1), (size, 1), (-1, 1), (1, 2**62)]:
            with pytest.raises(TruncatedFileError, match=f"the file has {size}$"):
                source.read_at(offset, length)


def test_a_listed_file_opens_without_a_request(s3: Any) -> None:
    s3.put("in/a.bin", DATA)
    entry = listed(s3, s3.url("in/"))
    s3.clear_log()
    with opened(s3, "in/a.bin", entry) as source, opened(s3, "in/a.bin") as asked_for:
        assert source.identity == asked_for.identity
        assert hash(source.identity) == hash(asked_for.identity)
        assert s3.operations() == ["GetObject"]  # the second one's
        assert source.requests == 0
        assert source.read_at(0, 50) == DATA[:50]


def test_an_identity_tells_versions_and_stores_apart_and_no_secret(s3: Any) -> None:
    s3.put("a.bin", DATA)
    s3.put("b.bin", DATA)
    with opened(s3, "a.bin") as one, opened(s3, "a.bin") as same, opened(s3, "b.bin") as other:
        assert one.identity == same.identity != other.identity
        assert one.identity.etag is not None
        assert one.identity.modified_ns is None
        assert s3.endpoint in one.identity.filesystem
        assert s3.bucket in one.identity.filesystem
        assert "testing" not in str(one.identity)  # the secret
    s3.put("a.bin", DATA[::-1])
    with opened(s3, "a.bin") as changed:
        assert changed.size == one.size
        assert changed.identity != one.identity


@pytest.mark.ci
@pytest.mark.parametrize("how", ["replaced", "same size", "shortened", "removed"])
@pytest.mark.parametrize("from_listing", [False, True])
def test_a_change_is_noticed_by_whatever_reads(s3: Any, how: str, from_listing: bool) -> None:
    s3.put("in/a.bin", DATA)
    entry = listed(s3, s3.url("in/")) if from_listing else None
    source = opened(s3, "in/a.bin", entry)
    file = source.arrow_file()
    match how:
        case "replaced":
            s3.put("in/a.bin", DATA + b"more")
        case "same size":
            s3.put("in/a.bin", DATA[::-1])
        case "shortened":
            s3.put("in/a.bin", DATA[:70_000])
        case "removed":
            s3.delete("in/a.bin")
    attempts = {
        "read_at": lambda: source.read_at(100_000, 10),
        "read_ranges": lambda: source.read_ranges([(0, 10), (200_000, 10)]),
        "arrow_file": lambda: file.read(10),
        "arrow_file again": lambda: source.arrow_file().read(10),
        "check_unchanged": source.check_unchanged,
    }
    for name, attempt in attempts.items():
        with pytest.raises(ConcurrentChangeError, match=r"in/a\.bin: it was (changed|removed) while") as caught:
            attempt()
        assert "\n" not in str(caught.value), name


@pytest.mark.ci
def test_far_ranges_are_requests_side_by_side(s3: Any) -> None:
    s3.put("a.bin", DATA * 16)
    step = byte_ranges.GAP_BYTES + 100
    expected = [(offset, 32) for offset in range(0, 60 * step, step)]
    with opened(s3, "a.bin") as source:
        s3.clear_log()
        s3.delay(0.02)
        assert source.read_ranges(expected) == [(DATA * 16)[offset : offset + 32] for offset, _ in expected]
        assert source.requests == 1 + len(expected)
        assert sorted(list_requests(s3)) == sorted(("GET", f"bytes={at}-{at + 31}") for at, _ in expected)
        near = [(offset, 32) for offset in range(0, 100_000, 1000)]
        before = source.requests
        assert source.read_ranges(near) == [DATA[offset : offset + 32] for offset, _ in near]
        assert source.requests == before + 1


def test_a_long_read_is_several_requests(s3: Any) -> None:
    data = np.random.default_rng(3).bytes(3 * byte_ranges.SPAN_BYTES + 17)
    s3.put("a.bin", data)
    with opened(s3, "a.bin") as source:
        assert source.read_at(1, len(data) - 2) == data[1:-1]
        assert source.requests == 1 + 4
        assert source.read_ranges([(0, len(data))]) == [data]


def test_far_filters_are_requested_together(s3: Any, tmp_path: Path) -> None:
    """Those that are no part of the tail, and to verify them also the values, whose column chunks lie apart."""
    path, rows = tmp_path / "a.parquet", 200_000
    noise = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), rows, [None, pa.py_buffer(bytes(8 * rows))])
    table = pa.table({"id": np.arange(rows), "noise": noise})
    pq.write_table(table, path, row_group_size=rows // 4, use_dictionary=False, compression="none")
    parquet_bloom.embed(path, ["id"])
    s3.put("a.parquet", path.read_bytes())
    verified = parquet_bloom.verify(s3.url("a.parquet"), storage_options=s3.storage_options)
    assert (len(verified.chunks), verified.problems, len(list_requests(s3))) == (4, [], 2)
    s3.clear_log()
    verified = parquet_bloom.verify(s3.url("a.parquet"), data=True, storage_options=s3.storage_options)
    assert ([chunk.num_values for chunk in verified.chunks], verified.problems) == ([rows // 4] * 4, [])
    assert len(list_requests(s3)) == 2 + 4


# ------------------------------------------------------------------------------------------------------------
# Trouble
# ------------------------------------------------------------------------------------------------------------


def one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert "Debug source" not in text
    assert len(text) < 600
    return text


@pytest.mark.parametrize("operation", ["open", "read"])
def test_busy_answers_are_tried_again(s3: Any, operation: str) -> None:
    s3.put("a.bin", DATA)
    options = s3.storage_options | {"init_backoff": 0.01}
    if operation == "open":
        s3.fail("GetObject", 3)
    with storage.open_source(s3.url("a.bin"), ObjectStores(options)) as source:
        if operation == "read":
            s3.fail("GetObject", 3)
        assert source.read_at(0, 5) == DATA[:5]
    assert s3.operations().count("GetObject") == 5


def test_how_often_is_up_to_the_caller(s3: Any) -> None:
    s3.put("a.bin", DATA)
    options = s3.storage_options | {"max_retries": "2", "init_backoff": "0.01"}
    s3.fail("GetObject", 100)
    with pytest.raises(StorageError, match=r"cannot open: the server answers 503 .*SlowDown") as caught:
        storage.open_source(s3.url("a.bin"), ObjectStores(options))
    one_line(caught.value)
    assert len(s3.log) == 3


def test_lost_responses_are_requested_again(s3: Any) -> None:
    s3.put("a.bin", DATA)
    s3.lose_answer("GetObject", 2)
    with storage.open_source(s3.url("a.bin"), ObjectStores(s3.storage_options | {"init_backoff": 0.01})) as source:
        s3.lose_answer("GetObject", 1)
        assert source.read_at(0, 5) == DATA[:5]


@pytest.mark.parametrize(
    ("status", "code", "problem", "number"),
    [
        (403, "AccessDenied", "cannot open: access denied (AccessDenied", "EACCES"),
        (403, "InvalidAccessKeyId", "cannot open: access denied (InvalidAccessKeyId", "EACCES"),
        (401, "Unauthorized", "cannot open: access denied (Unauthorized", "EACCES"),
        (400, "BadRequest", "cannot open: the server answers 400 Bad Request (BadRequest", "EIO"),
    ],
)
def test_server_refusals_are_reported_on_one_line(s3: Any, status: int, code: str, problem: str, number: str) -> None:
    import errno

    s3.put("a.bin", DATA)
    s3.fail("GetObject", 9, status=status, code=code)
    with pytest.raises(StorageError) as caught:
        opened(s3, "a.bin")
    assert problem in one_line(caught.value)
    assert caught.value.errno == getattr(errno, number)


def test_a_long_answer_is_not_cut_within_a_secret() -> None:
    """A part of a secret would not be recognized as one."""
    secret = hashlib.sha256(b"secret").hexdigest()
    redaction.remember({"aws_secret_access_key": secret})
    for before in range(200, 320):
        text = first_line(OSError(f"{'x' * before} {secret} and more"))
        assert secret[:6] not in text, before


def test_missing_objects(s3: Any, stores: ObjectStores) -> None:
    import errno

    s3.put("there", DATA)
    paths = {
        s3.url("nothing.parquet"): "there is no such object",
        s3.url("nothing"): "there is no such object",
        s3.url("nothing/"): "there is no such object or folder",
        s3.url("no*thing"): "no object matches the pattern",
        "s3://no-such-bucket-at-all/a.parquet": "there is no such bucket",
        "s3://no-such-bucket-at-all/a": "there is no such bucket",
        "s3://no-such-bucket-at-all/a/*.parquet": "there is no such bucket",
    }
    for path, problem in paths.items():
        with pytest.raises(StorageError, match=problem) as caught:
            storage.list_files(path, stores)
        assert one_line(caught.value).startswith(f"{path}: ")
        assert caught.value.errno == errno.ENOENT
    with pytest.raises(StorageError, match="there is no such object"):
        storage.open_source(s3.url("nothing.parquet"), stores)


def test_no_network(s3: Any) -> None:
    import errno

    options = s3.storage_options | {"aws_endpoint": "http://127.0.0.1:9", "max_retries": 1, "init_backoff": 0.01}
    with pytest.raises(StorageError, match="cannot open: Connection refused") as caught:
        storage.open_source(s3.url("a.bin"), ObjectStores(options))
    assert caught.value.errno == errno.ECONNREFUSED
    one_line(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"aws_regoin": "x"}, "aws_regoin"),
        ({"timeout": "soon"}, "soon"),
        ({"allow_http": "perhaps"}, "perhaps"),
        ({"max_retries": "many"}, "many"),
        ({"azure_storage_account_name": "x"}, "azure_storage_account_name"),
    ],
)
def test_options_that_mean_nothing(s3: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(StorageError, match=problem) as caught:
        parquet_bloom.prune(s3.url("a"), "key = 1", storage_options=s3.storage_options | options)
    one_line(caught.value)


def test_options_and_a_file_system_exclude_each_other(s3: Any) -> None:
    from pyarrow.fs import LocalFileSystem

    with pytest.raises(StorageError, match="give one of the two"):
        parquet_bloom.open("a", LocalFileSystem(), storage_options=s3.storage_options)


# ------------------------------------------------------------------------------------------------------------
# Names
# ------------------------------------------------------------------------------------------------------------

STRANGE = [
    "a b",
    "ü/é\N{SNOWMAN}",
    "100%",
    "%41",
    "a#b",
    "a?b=c&d",
    "a+b",
    "~a",
    "a;b,c@d",
    "'\"",
    "a=1/b",
    "[x]",
    "a\\b",
    "\N{PILE OF POO}",
]


@pytest.mark.ci
@pytest.mark.parametrize("key", STRANGE)
def test_keys_are_taken_as_they_stand(s3: Any, stores: ObjectStores, key: str) -> None:
    s3.put(f"in/{key}", key.encode() * 9)
    s3.put("in/other.bin", b"x")
    with storage.open_source(s3.url(f"in/{key}"), stores) as source:
        assert source.read_at(0, source.size) == key.encode() * 9
        assert source.identity.path == f"in/{key}"
    assert set(storage.list_files(s3.url("in/"), stores)) == {s3.url(f"in/{key}"), s3.url("in/other.bin")}
    assert storage.list_files(s3.url(f"in/{key}"), stores) == [s3.url(f"in/{key}")]
    with storage.create(s3.url(f"out/{key}"), stores) as new:
        new.write(b"written")
        new.commit()
    assert s3.get(f"out/{key}") == b"written"


def test_other_schemes_of_the_same_store(s3: Any, stores: ObjectStores) -> None:
    s3.put("in/a.bin", DATA)
    name = f"s3a://{s3.bucket}/in/a.bin"
    assert storage.list_files(f"s3a://{s3.bucket}/in", stores) == [name]
    with storage.open_source(name, stores) as one, opened(s3, "in/a.bin") as other:
        assert one.identity == other.identity
        assert one.name == name
    assert storage.same_place(name, s3.url("in/a.bin"), stores)


@pytest.mark.parametrize(
    ("url", "options", "kind", "key", "message"),
    [
        ("s3://bucket/a/b", {}, "S3", "a/b", "s3://bucket"),
        ("s3a://bucket/a/b", {}, "S3", "a/b", "s3://bucket"),
        ("S3://bucket/a/b", {}, "S3", "a/b", "s3://bucket"),
        ("gs://bucket/a b", {}, "GCS", "a b", "gs://bucket"),
        ("gcs://bucket/a/b", {}, "GCS", "a/b", "gs://bucket"),
        ("az://box/a/b", {"account_name": "acc"}, "Azure", "a/b", "az://box at acc"),
        ("azure://box/a", {"azure_storage_account_name": "acc"}, "Azure", "a", "az://box at acc"),
        ("adl://box/a", {"account_name": "acc"}, "Azure", "a", "az://box at acc"),
        ("abfs://box/a", {"account_name": "acc"}, "Azure", "a", "abfs://box at acc"),
        ("abfss://box@acc.dfs.core.windows.net/a/b", {}, "Azure", "a/b", "abfss://box@acc.dfs.core.windows.net"),
        ("https://host/a/b%20c", {}, "HTTP", "a/b c", "https://host"),
        ("https://host/a/b%2Fc", {}, "HTTP", "", "https://host "),
        ("https://host/a/b?c", {}, "HTTP", "", "https://host "),
        ("https://host/a/b", {}, "HTTP", "a/b", "https://host"),
    ],
)
def test_where_urls_lead(url: str, options: dict[str, str], kind: str, key: str, message: str) -> None:
    location = ObjectStores(options).locate(url)
    assert location is not None
    assert (location.kind, location.key, location.name) == (kind, key, url)
    assert location.label.startswith(message)
    assert type(location.store).__name__ == f"{kind}Store"


def test_stores_are_shared(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def store(options: dict[str, Any] | None) -> Any:
        location = ObjectStores(options).locate("s3://bucket/a")
        assert location is not None
        return location

    assert store(s3.storage_options).store is store(dict(s3.storage_options)).store
    assert store(s3.storage_options).store is not store(s3.storage_options | {"aws_region": "eu-west-1"}).store
    plain = store(None)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere:1")
    moved = store(None)
    assert moved.store is not plain.store
    assert moved.label == "s3://bucket at http://elsewhere:1"


def test_settings_from_the_environment(s3: Any, monkeypatch: pytest.MonkeyPatch, filtered: bytes) -> None:
    s3.put("a.parquet", filtered)
    for name, value in s3.storage_options.items():
        monkeypatch.setenv(name.upper() if name.startswith("aws_") else f"AWS_{name.upper()}", value)
    report = parquet_bloom.prune(s3.url("a.parquet"), f"key = {KEYS[0]}", cache=None)
    assert report.selected == {s3.url("a.parquet"): [0]}


@pytest.mark.ci
def test_a_store_of_the_callers(s3: Any, filtered: bytes) -> None:
    from obstore.store import MemoryStore, S3Store

    s3.put("in/a.parquet", filtered)
    config = {name: value for name, value in s3.storage_options.items() if name.startswith("aws_")}
    memory = MemoryStore()
    memory.put("in/a.parquet", filtered)
    for store in (S3Store(s3.bucket, config=config, client_options={"allow_http": True}), memory):
        assert storage.list_files("in", store) == ["in/a.parquet"]
        assert storage.list_files("in/*.parquet", store) == ["in/a.parquet"]
        result = parquet_bloom.read_table("in/", f"key = {KEYS[15_000]}", filesystem=store)
        assert result.column("other").to_pylist() == [15_000]
        report = parquet_bloom.embed("in/a.parquet", ["other"], output="out/b.parquet", filesystem=store)
        assert report.num_filters == 4
        assert parquet_bloom.prune("out/b.parquet", "other = 5", filesystem=store, cache=None).selected_row_groups == 1
    with storage.open_source("in/a.parquet", memory) as source:
        assert source.identity.etag is None  # its etags count from 0 in each such store: nothing to cache by
    with storage.open_source("in/a.parquet", memory) as source:
        memory.put("in/a.parquet", filtered)
        with pytest.raises(ConcurrentChangeError):
            source.read_at(0, 4)


# Past defects of reading from object stores


@pytest.mark.parametrize("kind", [LocalStore, MemoryStore])
def test_chunks_that_were_read_with_the_filters_around_them(kind: type, tmp_path: Path) -> None:
    """One request read filters and the chunk between them, and reading that chunk was a ValueError."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": range(6), "b": range(6)})
    filters = {name: {"ndv": 2, "fpp": 0.01} for name in table.column_names}
    pq.write_table(table, path, row_group_size=2, write_statistics=False, bloom_filter_options=filters)
    surgery.with_filter_moved_between_row_groups(path, "a")
    data = path.read_bytes()
    store = kind(tmp_path) if kind is LocalStore else kind()
    store.put("a.parquet", data)
    scan = parquet_bloom.dataset(["a.parquet"], filesystem=store).scan("a = 3 OR b = 1")
    assert scan.to_arrow() == table.take([1, 3])
