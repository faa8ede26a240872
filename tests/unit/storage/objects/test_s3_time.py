"""A store that does not answer: the call ends in time, an interrupt ends it at once, and no object is half done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.scale import sampled
from support.servers.s3_objects import KEY, NEW, OLD, PART, replace

from parquet_bloom.errors import StorageError
from parquet_bloom.storage.objects import s3_client
from parquet_bloom.storage.objects.request_limits import RequestLimits
from parquet_bloom.storage.objects.s3_requests import Requests
from parquet_bloom.storage.objects.store_proofs import NAME

LIMIT = 1.5  # seconds, more than a busy machine takes for a request
BUSY = 60.0  # seconds that a busy machine may add; without the limits a call would take 300 s and more
STEPS = {"small": 9 + 6, "large": 20 + 9}  # of a rewrite, after what a bucket shows once
AT_EACH_STEP = sampled([(size, step) for size, steps in STEPS.items() for step in range(steps)], 12)


@pytest.fixture(autouse=True)
def limits(s3: Any) -> None:
    """Several parts of a modest object, and little time for a request."""
    s3.limit_parts(smallest=PART)
    s3.storage_options |= {"retry_timeout": LIMIT, "timeout": 300, "init_backoff": 0.01}


def rewrite(s3: Any, size: str, harm: Callable[[], Any]) -> BaseException | None:
    """Rewrite an object; `harm` is done when it has been opened. Returns the error, an interrupt included."""
    s3.put(KEY, OLD[size])
    return replace(s3, size, harm)


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
    final = s3.get(KEY)
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
    assert s3.get(KEY) in (OLD[size], NEW[size])
    assert s3.uploads() == []


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
