"""A store that does not answer: the call ends in time, an interrupt ends it at once, and no object is half done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.scale import sampled

from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage.objects import s3_client, s3_rewrite
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.request_limits import RequestLimits
from parquet_bloom.storage.objects.s3_requests import Requests
from parquet_bloom.storage.objects.store_proofs import NAME
from parquet_bloom.util.threads import in_order

TAIL = b"filters and footer"
PART = 20_000
CUT = 100
OLD = {"small": np.random.default_rng(1).bytes(3000), "large": np.random.default_rng(2).bytes(2 * PART + 5000)}
NEW = {size: old[:-CUT] + TAIL for size, old in OLD.items()}
LIMIT = 1.5  # seconds, more than a busy machine takes for a request
BUSY = 60.0  # seconds that a busy machine may add; without the limits a call would take 300 s and more
STEPS = {"small": 9 + 6, "large": 20 + 9}  # of a rewrite, after what a bucket shows once
AT_EACH_STEP = sampled([(size, step) for size, steps in STEPS.items() for step in range(steps)], 12)


@pytest.fixture(autouse=True)
def limits(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a modest object, and little time for a request."""
    s3.limit_parts(smallest=PART)
    monkeypatch.setattr(s3_rewrite, "MIN_PART", PART)
    monkeypatch.setattr(s3_rewrite, "COPIED_PART", PART)
    s3.storage_options |= {"retry_timeout": LIMIT, "timeout": 300, "init_backoff": 0.01}


def rewrite(s3: Any, size: str, harm: Callable[[], Any]) -> BaseException | None:
    """Rewrite an object; `harm` is done when it has been opened. Returns the error, an interrupt included."""
    s3.put("a.parquet", OLD[size])
    location = ObjectStores(s3.storage_options).locate(s3.url("a.parquet"))
    assert location is not None
    with ObjectSource(location) as source:
        harm()
        try:
            with s3_rewrite.rewrite_in_place(source) as new:
                new.copy_prefix(len(OLD[size]) - CUT)
                new.write(TAIL)
                new.commit()
        except (ParquetBloomError, KeyboardInterrupt) as error:
            return error
    return None


@pytest.mark.ci
@pytest.mark.parametrize(("times", "carried_out"), [(1000, False), (1, True)])
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
def test_an_answer_that_never_comes_ends_the_call_in_time(
    s3: Any, size: str, step: int, times: int, carried_out: bool
) -> None:
    hang = s3.hang_after if carried_out else s3.hang
    begun = 0.0
    fault: Any = None

    def harm() -> None:
        nonlocal begun, fault
        fault = hang(None, times=times, skip=step)
        begun = time.monotonic()

    for limit in (LIMIT, 5 * LIMIT, 20 * LIMIT):
        remaining = {*s3.uploads(), *s3._server.objects.get_bucket(s3.bucket).keys}
        s3.storage_options["retry_timeout"] = limit
        error = rewrite(s3, size, harm)
        took = time.monotonic() - begun
        if fault.happened or error is None:
            break
        # The machine is so busy that an earlier request took longer than the limit.
        fault.times = 0
    assert fault.happened
    # What comes before the step takes its own time, on a busy machine, too.
    assert took < limit + 1 + BUSY
    final = s3.get("a.parquet")
    assert final in (OLD[size], NEW[size])
    if error is None:  # the access control list, which need not be readable; or the clean-up
        assert final == NEW[size]
        return
    assert isinstance(error, StorageError)
    text = str(error)
    if final == NEW[size]:
        assert "cannot tell whether it was written" in text or "it was written, but cannot be read back" in text
    for key in s3._server.objects.get_bucket(s3.bucket).keys:
        assert NAME not in key or key in text or key in remaining
    for upload in s3.uploads():
        assert upload in text or upload in remaining or carried_out  # no client got its number


@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
def test_an_interrupt_ends_the_call_within_a_second(s3: Any, size: str, step: int) -> None:
    s3.storage_options |= {"retry_timeout": 300}
    begun: list[float] = []

    def interrupt(request: Any) -> None:
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        s3._never(request)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        error = rewrite(s3, size, lambda: s3.before(None, interrupt, skip=step))
        took = time.monotonic() - begun[0]
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(error, KeyboardInterrupt)
    assert took < 1 + BUSY
    assert s3.get("a.parquet") in (OLD[size], NEW[size])
    assert s3.uploads() == []


def test_an_interrupt_where_nothing_answers_any_more(s3: Any) -> None:
    s3.storage_options |= {"retry_timeout": 300}
    begun: list[float] = []

    def interrupt(request: Any) -> None:
        if not begun:
            begun.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        s3._never(request)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        error = rewrite(s3, "large", lambda: s3.before(None, interrupt, skip=9 + 5, times=1000))
        took = time.monotonic() - begun[0]
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(error, KeyboardInterrupt)
    assert took < 1 + BUSY
    assert s3.uploads()[0] in error.__notes__[0]


def test_a_thread_that_is_given_up_ends_its_upload(s3: Any) -> None:
    s3.storage_options |= {"retry_timeout": 300}
    for key in ("a.parquet", "b.parquet"):
        s3.put(key, OLD["large"])
    hung = threading.Event()

    def embed(key: str) -> None:
        if key == "a.parquet":
            assert hung.wait(BUSY)
            raise StorageError("enough")
        location = ObjectStores(s3.storage_options).locate(s3.url(key))
        assert location is not None
        with ObjectSource(location) as source, s3_rewrite.rewrite_in_place(source) as new:
            new.copy_prefix(len(OLD["large"]) - CUT)

    s3.before(
        "UploadPartCopy", lambda request: (hung.set(), s3._never(request)), when=lambda request: not hung.is_set()
    )
    begun = time.monotonic()
    with pytest.raises(StorageError, match="enough"), in_order(embed, ["a.parquet", "b.parquet"], 2) as done:
        list(done)
    assert time.monotonic() - begun < 5 + BUSY
    assert s3.uploads() == []
    assert [key for key in s3._server.objects.get_bucket(s3.bucket).keys if NAME in key] == []


# Requests by themselves


@pytest.fixture
def head(s3: Any) -> Callable[..., Any]:
    """A HEAD of an object of one byte, by a client that tries everything once."""
    s3.put("a", b"x")
    options = {name: text for name, text in s3.storage_options.items() if name.startswith("aws_")}
    client = s3_client.connect(s3.bucket, options, "a")
    return lambda: client.head_object(Bucket=s3.bucket, Key="a")


def test_tries_are_counted_and_paused(s3: Any, head: Any) -> None:
    fault = s3.fail("HeadObject", times=1000)
    begun = time.monotonic()
    with pytest.raises(s3_client.failure_types()):
        Requests(RequestLimits(max_retries=3, init_backoff=0.1, max_backoff=0.2)).send(head)
    assert fault.happened == 4
    assert 0.05 + 0.1 + 0.1 < time.monotonic() - begun < 1.5 + BUSY


def test_permanent_failures_are_not_retried(s3: Any, head: Any) -> None:
    for status, code in (
        (403, "AccessDenied"),
        (404, "NoSuchKey"),
        (412, "PreconditionFailed"),
        (501, "No"),
        (409, "C"),
    ):
        fault = s3.fail("HeadObject", times=1000, status=status, code=code)
        with pytest.raises(s3_client.failure_types()):
            Requests(RequestLimits()).send(head)
        assert fault.happened == 1
        fault.times = 0


def test_a_try_has_a_time_of_its_own(s3: Any, head: Any) -> None:
    fault = s3.hang("HeadObject", times=2)
    begun = time.monotonic()
    Requests(RequestLimits(timeout=0.2, init_backoff=0)).send(head)
    assert fault.happened == 2
    assert time.monotonic() - begun < 1.5 + BUSY


def test_a_late_answer_is_handed_on(s3: Any, head: Any) -> None:
    s3.before("HeadObject", lambda request: time.sleep(0.5))
    late: list[Any] = []
    came = threading.Event()

    def take(answer: Any) -> None:
        late.append(answer)
        came.set()

    with pytest.raises(s3_client.NoS3AnswerError, match=r"no answer within 0\.\d s"):
        Requests(RequestLimits(retry_timeout=0.2)).send(head, take)
    assert came.wait(BUSY)
    assert late[0]["ContentLength"] == 1


def test_the_first_error_gives_up_what_is_beside(s3: Any, head: Any) -> None:
    fault = s3.hang("HeadObject", times=3)
    begun = time.monotonic()
    requests = Requests(RequestLimits())

    def fail() -> None:
        raise StorageError("no")

    with pytest.raises(StorageError):
        requests.together([fail, *[lambda: requests.send(head)] * 3])
    assert time.monotonic() - begun < 1 + BUSY
    fault.times = 0
    assert requests.together([lambda: requests.send(head)] * 2)[1]["ContentLength"] == 1


def test_an_upload_whose_number_comes_late_is_aborted(s3: Any) -> None:
    # The time is over before the answer comes; the thread that waited for it aborts the upload.
    fault = s3.after("CreateMultipartUpload", lambda request: time.sleep(LIMIT + 0.5), skip=1)
    error = rewrite(s3, "large", lambda: None)
    assert isinstance(error, StorageError)
    assert "no answer" in str(error)
    assert fault.happened == 1
    end = time.monotonic() + BUSY
    while s3.uploads() and time.monotonic() < end:
        time.sleep(0.05)
    assert s3.uploads() == []


def test_the_limits_are_the_stores() -> None:
    options = {"aws_region": "x", "timeout": "7s", "connect_timeout": 3, "max_retries": 2, "retry_timeout": 11}
    location = ObjectStores(options).locate("s3://lake/a")
    assert location is not None
    limits = RequestLimits.from_store(location.store)
    assert (limits.timeout, limits.connect_timeout, limits.max_retries, limits.retry_timeout) == (7, 3, 2, 11)
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "x"}
    config = s3_client.connect("lake", keys, "a", limits).meta.config
    assert (config.read_timeout, config.connect_timeout, config.retries["total_max_attempts"]) == (7, 3, 1)
