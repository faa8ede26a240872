"""An index in an object store, over a lake there: what it asks for, and that two writers cannot both have their way."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import IndexInUseError, ParquetBloomError, StorageError
from parquet_bloom.lake.lake_index import LakeIndex

BUSY = 60.0  # seconds that a busy machine may add; without the limits a call would take minutes


def parquet(first: int, count: int = 100) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(first, first + count))}), sink, row_group_size=30)
    return sink.getvalue()


@pytest.fixture
def index(s3: Any) -> Iterator[LakeIndex]:
    for number in range(8):
        s3.put(f"lake/day={number}/a b é.parquet", parquet(100 * number))
    created = LakeIndex.create(s3.url("index"), "id", storage_options=s3.storage_options)
    created.append(s3.url("lake"))
    with created:
        yield created


def opened(s3: Any, **options: Any) -> LakeIndex:
    return LakeIndex.open(s3.url("index"), storage_options=s3.storage_options, **options)


def file(s3: Any, number: int) -> str:
    return s3.url(f"lake/day={number}/a b é.parquet")


def find_paths(index: LakeIndex, value: int) -> set[str]:
    return {candidate.path for candidate in index.lookup("id", [value])[0]}


def test_every_value_is_found(s3: Any, index: LakeIndex) -> None:
    for value, answer in zip(range(800), index.lookup("id", range(800)), strict=True):
        assert file(s3, value // 100) in {candidate.path for candidate in answer}
    assert find_paths(index, 9_000) == set()
    assert index.check(sample=8).problems == []


@pytest.mark.ci
def test_a_lookup_is_one_small_request(s3: Any, index: LakeIndex) -> None:
    index.append_batches((f"other/{n}", {"id": pa.array(range(10_000 * n, 10_000 * (n + 1)))}) for n in range(1, 40))
    index.compact()
    with opened(s3, live=False) as again:
        again.lookup("id", [1])
        s3.clear_log()
        answer = again.lookup("id", [205_000])
        assert [candidate.path for candidate in answer[0]] == ["other/20"]
        assert s3.operations() == ["GetObject"]
        assert answer.requests == 1
        assert 1_000 < answer.bytes_read < 50_000
        s3.clear_log()
        again.lookup("id", list(range(10_000, 390_000, 1_000)))
        assert len(s3.operations()) <= 10  # close blocks are read together


@pytest.mark.ci
def test_grams_are_asked_of_objects(s3: Any) -> None:
    for number in range(8):
        sink = io.BytesIO()
        texts = [f"{number} line {line} of the log" for line in range(100)]
        pq.write_table(pa.table({"t": texts}), sink, row_group_size=30, use_dictionary=False)
        s3.put(f"lake/{number}.parquet", sink.getvalue())
    options = {"storage_options": s3.storage_options}
    with LakeIndex.create(s3.url("index"), ["grams(t)"], granularity="row_group", **options) as index:
        assert index.append(s3.url("lake")).added == 8
        assert index.check(sample=8).problems == []
    with opened(s3) as index:
        plan = parquet_bloom.prune(s3.url("lake"), "t LIKE '%5 line 42 of%'", index=index, **options)
        assert list(plan.selected.values()) == [[1]]
        assert list(plan.selected) == [s3.url("lake/5.parquet")]
        assert parquet_bloom.prune(s3.url("lake"), "contains(t, '8 line')", index=index, **options).selected == {}
        rows = parquet_bloom.read_table(s3.url("lake"), "t LIKE '3 line 7_ %'", index=index, **options)
        assert rows["t"].to_pylist() == [f"3 line {line} of the log" for line in range(70, 80)]


def test_opening_lists_the_lake_and_opens_nothing_of_it(s3: Any, index: LakeIndex) -> None:
    s3.clear_log()
    opened(s3).close()
    assert not any("lake/" in request.key for request in s3.log if request.operation == "GetObject")
    assert s3.operations().count("ListObjectsV2") <= 2


@pytest.mark.ci
def test_new_changed_and_deleted_objects(s3: Any, index: LakeIndex) -> None:
    s3.put("lake/day=9/new.parquet", parquet(5_000))
    s3.put("lake/day=3/a b é.parquet", parquet(7_000))
    s3.delete("lake/day=4/a b é.parquet")
    index.refresh()
    assert set(index.unindexed) == {s3.url("lake/day=9/new.parquet"), file(s3, 3)}
    assert find_paths(index, 450) == set(index.unindexed)
    report = index.append()
    assert (report.added, report.replaced, report.unchanged) == (1, 1, 6)
    assert find_paths(index, 450) == set()
    assert find_paths(index, 7_001) == {file(s3, 3)}
    index.compact()
    assert find_paths(index, 7_001) == {file(s3, 3)}
    assert find_paths(index, 301) == set()
    assert find_paths(index, 501) == {file(s3, 5)}


@pytest.mark.ci
def test_embedding_makes_nothing_stale(s3: Any, index: LakeIndex) -> None:
    for number in range(8):
        parquet_bloom.embed(file(s3, number), ["id"], storage_options=s3.storage_options)
    index.refresh()
    assert index.unindexed == []
    assert find_paths(index, 123) == {file(s3, 1)}
    index.append()
    s3.clear_log()
    with opened(s3) as again:
        assert again.unindexed == []
    assert not any("lake/" in request.key for request in s3.log if request.operation == "GetObject")


def test_the_other_spelling_of_the_scheme(s3: Any, index: LakeIndex) -> None:
    report = index.append(s3.url("lake").replace("s3://", "s3a://"))
    assert (report.added, report.unchanged) == (0, 8)


@pytest.mark.ci
def test_two_writers_at_once(s3: Any, index: LakeIndex) -> None:
    s3.put("lake/day=8/x.parquet", parquet(8_000))
    results: list[Any] = []
    both = threading.Barrier(2)

    def write() -> None:
        with opened(s3) as own_index:
            both.wait()
            try:
                results.append(own_index.append().added)
            except IndexInUseError as error:
                results.append(str(error))

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Both, one after the other, or one of them; never half of each.
    assert results.count(1) == 1
    assert all(result in (0, 1) or "another writer has changed the index meanwhile" in result for result in results)
    index.refresh()
    assert index.unindexed == []
    assert find_paths(index, 8_001) == {s3.url("lake/day=8/x.parquet")}
    assert find_paths(index, 1) == {file(s3, 0)}


def test_a_store_that_overwrites_is_refused(s3: Any) -> None:
    s3.before("PutObject", lambda put: s3.delete(put.key), times=9, when=lambda put: "manifest-" in put.key)
    with pytest.raises(StorageError, match="If-None-Match"):
        LakeIndex.create(s3.url("other"), "id", storage_options=s3.storage_options)
    with pytest.raises(StorageError, match="there is no index"):
        LakeIndex.open(s3.url("other"), storage_options=s3.storage_options)


@pytest.mark.ci
def test_the_store_fails(s3: Any, index: LakeIndex) -> None:
    # So large that opening it has not read all of it.
    index.append_batches([("other/0", {"id": pa.array(range(1_000, 200_000))})])
    index.compact()
    with opened(s3) as again:
        s3.fail("GetObject", status=403, times=1000)
        answer = again.lookup("id", [5])
        files = {file(s3, number) for number in range(8)}
        assert {candidate.path for candidate in answer[0]} == files | {"other/0"}
        assert answer.doubts
    with pytest.raises(ParquetBloomError):
        opened(s3)


# A store that does not answer


def do(s3: Any, what: str, **limits: Any) -> None:
    """Make a change, or open it, where a request may take so long."""
    options = s3.storage_options | limits
    if what == "create":
        LakeIndex.create(s3.url("other"), "id", storage_options=options).close()
        return
    if what == "write":
        parquet_bloom.write_table(pa.table({"id": [1]}), s3.url("out.parquet"), ["id"], storage_options=options)
        return
    with LakeIndex.open(s3.url("index"), storage_options=options, live=False) as opened_index:
        if what == "append":
            s3.put("lake/more.parquet", parquet(5000))
            opened_index.append(s3.url("lake/more.parquet"))
        elif what == "compact":
            opened_index.compact()


@pytest.mark.ci
@pytest.mark.parametrize("operation", ["GetObject", "PutObject", "ListObjects"])
@pytest.mark.parametrize("what", ["open", "create", "append", "compact", "write"])
def test_no_answer_ends_the_call_in_time(s3: Any, index: LakeIndex, what: str, operation: str) -> None:
    begun: list[float] = []

    def silent(request: Any) -> None:
        begun.append(time.monotonic())
        s3._never(request)

    s3.before(operation, silent, times=1000)
    try:
        do(s3, what, timeout=0.3, retry_timeout=0.6)
    except StorageError as error:
        assert "no answer within" in str(error)  # noqa: PT017
    else:
        assert not begun
    assert not begun or time.monotonic() - begun[0] < 0.6 + 1 + BUSY


def interrupted(s3: Any, operation: str, call: Callable[[], Any]) -> bool:
    """Interrupt a call at its first request of a kind, which is not answered; returns whether it came to that."""
    begun: list[float] = []
    lock = threading.Lock()

    def interrupt(request: Any) -> None:
        with lock:
            first = not begun
            begun.append(time.monotonic())
        if first:
            os.kill(os.getpid(), signal.SIGINT)
        s3._never(request)

    s3.before(operation, interrupt, times=1000)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        call()
    except KeyboardInterrupt:
        assert time.monotonic() - begun[0] < 1 + BUSY
    else:
        assert not begun
    finally:
        signal.signal(signal.SIGINT, before)
    return bool(begun)


@pytest.mark.ci
@pytest.mark.parametrize("operation", ["GetObject", "PutObject", "ListObjects"])
@pytest.mark.parametrize("what", ["open", "create", "append", "compact", "write"])
def test_an_interrupt_ends_the_call_within_a_second(s3: Any, index: LakeIndex, what: str, operation: str) -> None:
    came = interrupted(s3, operation, lambda: do(s3, what))
    assert came or operation != "ListObjects"


@pytest.mark.ci
def test_an_interrupt_ends_a_large_upload_within_a_second(s3: Any) -> None:
    table = pa.table({"id": pa.array(os.urandom(5 << 20) for _ in range(8))})
    url, options = s3.url("large"), s3.storage_options
    assert interrupted(s3, "UploadPart", lambda: parquet_bloom.write_table(table, url, ["id"], storage_options=options))
