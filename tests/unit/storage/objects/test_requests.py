"""Requests to object stores: which are sent again, how many at once, and when they are given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parquet_bloom import errors, storage
from parquet_bloom.storage.objects import object_listing, store_client
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.request_limits import LIST_PAGE
from parquet_bloom.storage.objects.store_client import PARALLEL_REQUESTS

LOGIN = b"<html><head><title>Sign in</title></head><body><p>Sign in to this network</p></body></html>"


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    yield
    object_listing._NO_TABLE.clear()


@pytest.fixture
def quick(s3: Any) -> Any:
    """Options under which failures are final soon."""
    return s3.storage_options | {"init_backoff": 0.001, "max_backoff": 0.01}


@pytest.fixture
def released(s3: Any) -> Iterator[threading.Event]:
    """An event that ends what holds requests back."""
    event = threading.Event()
    yield event
    event.set()


def listed(s3: Any, options: Any, folder: str = "t/") -> list[str]:
    return storage.list_files(s3.url(folder), ObjectStores(options))


def is_listing_of_t(request: Any) -> bool:
    return bool(request.query.get("prefix") == "t/")


# ------------------------------------------------------------------------------------------------------------ listings


@pytest.mark.parametrize("raw", [b"<ListBucketResult><Contents><Key>t/0", b"", LOGIN, LOGIN[:60]])
def test_a_response_that_is_not_a_listing_is_requested_again(s3: Any, quick: Any, raw: bytes) -> None:
    keys = [f"t/{number}.parquet" for number in range(5)]
    for key in keys:
        s3.put(key, b"x")
    s3.fail("ListObjects", status=200, raw=raw, when=is_listing_of_t)
    assert listed(s3, quick) == [s3.url(key) for key in keys]


@pytest.mark.ci
@pytest.mark.parametrize("raw", [b"<ListBucketResult><Contents><Key>t/0", LOGIN])
def test_no_page_of_a_long_listing_is_lost(s3: Any, quick: Any, raw: bytes) -> None:
    keys = [f"t/{number:05}.parquet" for number in range(2 * LIST_PAGE + 500)]
    for key in keys:
        s3.put(key, b"x")
    for page in (1, 2):
        s3.fail("ListObjects", status=200, raw=raw, when=is_listing_of_t, skip=page)
    assert listed(s3, quick) == [s3.url(key) for key in keys]


def test_a_store_that_never_lists_is_not_taken_for_an_empty_folder(s3: Any, quick: Any) -> None:
    s3.put("t/a.parquet", b"x")
    s3.fail("ListObjects", times=1000, status=200, raw=LOGIN)
    for folder in ("t/", "t", ""):
        with pytest.raises(errors.StorageError, match="no such object or folder; the whole bucket is listed as empty"):
            listed(s3, quick, folder)


def test_an_object_deleted_while_a_page_is_checked_is_not_a_failure(s3: Any, quick: Any) -> None:
    for number in range(1000):
        s3.put(f"t/{number:04}", b"x")

    def delete(request: Any) -> None:
        s3.delete("t/0998")
        s3.delete("t/0999")
        s3.put("t/1000", b"x")

    checked = s3.before("ListObjects", delete, when=lambda request: "start-after" in request.query)
    # Files listed before are still reported, and new ones too.
    assert listed(s3, quick) == [s3.url(f"t/{number:04}") for number in range(1001)]
    assert checked.happened == 1


def test_requests_of_listings_are_counted(s3: Any, quick: Any) -> None:
    for number in range(LIST_PAGE + 5):
        s3.put(f"t/{number:05}.parquet", b"x")
    s3.fail("ListObjects", when=is_listing_of_t)
    requests = storage.RequestCount()
    storage.list_entries(s3.url("t/"), ObjectStores(quick), requests=requests)
    assert requests.number == len(s3.log) - 1 == 2 + 4  # two pages, four signs of a table; not the busy answer


# ------------------------------------------------------------------------------------------------------- side by side


def test_a_store_that_is_busy_answers_all_in_the_end(s3: Any, quick: Any) -> None:
    """Each request beyond the fourth that is under way is refused, so that none of many gets through by luck alone."""
    data = os.urandom(40 * 256 * 1024)
    s3.put("a.bin", data)
    under_way, lock = [0], threading.Lock()

    def begin(request: Any) -> None:
        from support.servers.s3_server import Refusal

        with lock:
            if under_way[0] == 4:
                raise Refusal(503, "SlowDown")
            under_way[0] += 1

    def end(request: Any) -> None:
        with lock:
            under_way[0] -= 1

    with ObjectSource(ObjectStores(quick | {"max_retries": 100}).locate(s3.url("a.bin"))) as source:
        s3.before("GetObject", begin, times=10_000)
        s3.after("GetObject", end, times=10_000)
        spans = [(number * 256 * 1024, 1000) for number in range(40)]
        assert source.read_ranges(spans) == [data[offset : offset + length] for offset, length in spans]
        assert source.requests == 1 + 40  # however often they were sent


def test_many_requests_are_under_way_together(s3: Any, quick: Any) -> None:
    """No answer comes before as many requests as may be under way have arrived."""
    s3.put("a.bin", os.urandom(PARALLEL_REQUESTS * 100_000))
    together = threading.Barrier(PARALLEL_REQUESTS, timeout=60)
    with ObjectSource(ObjectStores(quick).locate(s3.url("a.bin"))) as source:
        s3.before("GetObject", lambda request: together.wait(), times=PARALLEL_REQUESTS)
        source.read_ranges([(number * 100_000, 10) for number in range(PARALLEL_REQUESTS)])
    assert not together.broken


# -------------------------------------------------------------------------------------------------------------- limits


def read_tail(object_stores: ObjectStores, url: str) -> None:
    ObjectSource(object_stores.locate(url)).close()


def read_ranges(object_stores: ObjectStores, url: str) -> None:
    entry = storage.list_entries(url.rpartition("/")[0] + "/", object_stores)[0]
    with storage.open_source(entry.path, object_stores, entry) as source:
        source.read_ranges([(0, 10), (200_000, 10)])


def list_folder(object_stores: ObjectStores, url: str) -> None:
    storage.list_files(url.rpartition("/")[0] + "/", object_stores)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("operation", "act"),
    [("GetObject", read_tail), ("GetObject", read_ranges), ("ListObjects", list_folder)],
)
def test_a_request_without_an_answer_is_given_up(
    s3: Any, released: threading.Event, operation: str, act: Callable[[ObjectStores, str], None]
) -> None:
    s3.put("t/a.parquet", os.urandom(300_000))
    options = s3.storage_options | {"timeout": 0.2, "retry_timeout": 0.5, "max_retries": 100}
    s3.before(operation, lambda request: released.wait(60), times=1000)
    with pytest.raises(errors.StorageError, match=r"s3://.*: no answer within [\d.]+ s"):
        act(ObjectStores(options), s3.url("t/a.parquet"))


@pytest.mark.ci
def test_ctrl_c_ends_what_waits_for_answers(s3: Any, released: threading.Event) -> None:
    """The program is sent SIGINT once it waits; without heeding it, it would wait for its limits, an hour."""
    for number in range(100):
        s3.put(f"t/{number}.parquet", b"x" * 100)
    request_sent = threading.Event()

    def hold(request: Any) -> None:
        request_sent.set()
        released.wait(60)

    s3.before("GetObject", hold, times=1000)
    options = s3.storage_options | {"timeout": 3600, "retry_timeout": 3600}
    program = textwrap.dedent(f"""
        import signal, parquet_bloom
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            parquet_bloom.prune({s3.url("t/")!r}, "id = 1", storage_options={options!r})
        except KeyboardInterrupt:
            print("interrupted")
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert request_sent.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=50)[0].strip() == "interrupted"
    assert process.returncode == 0


@pytest.mark.ci
@pytest.mark.parametrize("requests", ["ObjectSource(place)", "place.client.list_first(['a', 'b'])"])
def test_the_process_ends_with_requests_under_way(s3: Any, released: threading.Event, requests: str) -> None:
    s3.put("t/a.parquet", b"x" * 100)
    s3.before(("GetObject", "ListObjects"), lambda request: released.wait(60), times=1000)
    program = textwrap.dedent(f"""
        import threading, time
        from parquet_bloom.storage.objects import store_client
        from parquet_bloom.storage.objects.location import ObjectStores
        from parquet_bloom.storage.objects.object_source import ObjectSource

        place = ObjectStores({s3.storage_options!r}).locate({s3.url("t/a.parquet")!r})
        threading.Thread(target=lambda: {requests}, daemon=True).start()
        while not store_client._activity.running:
            time.sleep(0.01)
        print("under way", flush=True)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout.strip()) == (0, "under way"), done.stderr
    assert "destroyed" not in done.stderr


def test_requests_at_the_very_end_are_reported(s3: Any) -> None:
    s3.put("t/a.parquet", b"x" * 100)
    program = textwrap.dedent(f"""
        import atexit
        from parquet_bloom import errors
        from parquet_bloom.storage.objects.location import ObjectStores
        from parquet_bloom.storage.objects.object_source import ObjectSource

        place = ObjectStores({s3.storage_options!r}).locate({s3.url("t/a.parquet")!r})

        def late():
            try:
                ObjectSource(place)
            except errors.StorageError as error:
                print(error)

        atexit.register(late)  # before the first request, and so called after the last one may begin
        ObjectSource(place)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    expected = f"{s3.url('t/a.parquet')}: cannot open: the interpreter is ending"
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, expected, "")


@pytest.mark.ci
def test_the_end_waits_for_requests_that_are_answered_soon(s3: Any, released: threading.Event) -> None:
    """Else a thread would come back from obstore to an interpreter that is ending, and Rust abort the process."""
    s3.put("a.bin", b"x" * 100)
    s3.before("GetObject", lambda request: released.wait(60), times=1000)
    program = textwrap.dedent(f"""
        import threading, time
        from parquet_bloom.storage.objects import store_client
        from parquet_bloom.storage.objects.location import ObjectStores
        from parquet_bloom.storage.objects.object_source import ObjectSource

        place = ObjectStores({s3.storage_options!r}).locate({s3.url("a.bin")!r})
        threading.Thread(target=lambda: (ObjectSource(place), print("answered", flush=True)), daemon=True).start()
        while not store_client._activity.running:
            time.sleep(0.01)
        store_client._GIVE_UP = 60
        print("under way", flush=True)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "under way\n"
        time.sleep(0.3)  # for the end to begin
        assert process.poll() is None
        released.set()
        process.communicate(timeout=50)
    assert process.returncode == 0


def test_threads_of_requests_end_when_they_are_idle() -> None:
    threads = store_client.RequestThreads(3, idle_seconds=0.01)
    used = {future.result(120) for future in [threads.submit(threading.current_thread) for _ in range(50)]}
    assert len(used) <= 3
    for thread in used:
        thread.join(120)
        assert not thread.is_alive()
    assert threads.submit(int).result(120) == 0
