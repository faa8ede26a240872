"""Objects replaced on S3: whole or not at all, whatever gets lost, fails, or is written by others meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scale import sampled
from support.servers.s3_server import Refusal

from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, StorageError, TruncatedFileError
from parquet_bloom.storage import Rewrite
from parquet_bloom.storage.objects import s3_rewrite, store_proofs
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.object_state import quoted

ROOT = Path(__file__).parents[4]
MIB = 1 << 20
TAIL = b"filters and footer"
CUT = 100  # bytes at the end of the old object that the new one does not have

# The requests of one rewrite, after the first read, on a bucket that has shown what it does. Those of a line are made
# side by side, and may come in any order.
METADATA_READS = ["HeadObject", "GetObjectTagging", "GetObjectAcl"]
STEPS = {
    "small": [
        *METADATA_READS,
        "GetObject",  # the front
        *METADATA_READS,
        "PutObject",
        "GetObject",  # what was written
    ],
    "large": [
        *METADATA_READS,
        "CreateMultipartUpload",
        *["UploadPartCopy", "UploadPartCopy", "GetObject", "GetObject", "GetObject", "GetObject"],
        "UploadPart",
        *METADATA_READS,
        "CompleteMultipartUpload",
        *["GetObject", "GetObject", "GetObject", "GetObject", "GetObject"],  # samples and the end
    ],
}
LARGE_ANSWERS = ["CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload"]  # those with a body
READ_OPERATIONS = ("GetObject", "HeadObject", "GetObjectTagging", "GetObjectAcl")
LAST = ("PutObject", "CompleteMultipartUpload")
COMMIT = {size: next(number for number, step in enumerate(steps) if step in LAST) for size, steps in STEPS.items()}
STEP_OF_SIZE = [(size, step) for size in STEPS for step in range(len(STEPS[size]))]
AT_EACH_STEP = sampled(STEP_OF_SIZE, 6)
PART = 20_000  # in place of S3's 5 MiB, but for a few tests
OLD = {"small": np.random.default_rng(1).bytes(3000), "large": np.random.default_rng(2).bytes(2 * PART + 5000)}
NEW = {size: old[:-CUT] + TAIL for size, old in OLD.items()}
THEIRS = b"another writer's object"


@pytest.fixture(autouse=True)
def quick(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a modest object, and no pauses between attempts."""
    s3.limit_parts(smallest=PART)
    monkeypatch.setattr(s3_rewrite, "MIN_PART", PART)
    monkeypatch.setattr(s3_rewrite, "COPIED_PART", PART)
    s3.storage_options |= {"init_backoff": 0, "max_backoff": 0, "max_retries": 2}
    monkeypatch.setattr("parquet_bloom.storage.objects.s3_rewrite._RANDOM", random.Random(1))
    for name in (
        "_show_put",
        "_show_upload",
    ):  # what is written before the first write, which test_s3_conditions covers
        monkeypatch.setattr(store_proofs, name, lambda *given: store_proofs.ConditionSupport(quoted, quoted, ""))


def opened(s3: Any, key: str = "a.parquet") -> ObjectSource:
    """An object as embed opens it; the log then begins anew."""
    location = ObjectStores(s3.storage_options).locate(s3.url(key))
    assert location is not None
    source = ObjectSource(location)
    s3.clear_log()
    return source


def write(new: Rewrite, length: int) -> None:
    """All steps of a rewrite but the opening."""
    with new:
        new.copy_prefix(length)
        new.write(TAIL[:7])
        new.write(TAIL[7:])
        assert new.tell() == length + len(TAIL)
        new.commit()


def replace(s3: Any, size: str, harm: Callable[[], None] = lambda: None) -> ParquetBloomError | None:
    """Write the old object and rewrite it; `harm` is done when it has been opened. Returns the error."""
    s3.put("a.parquet", OLD[size])
    caught: ParquetBloomError | None = None
    with opened(s3) as source:
        harm()
        try:
            write(s3_rewrite.rewrite_in_place(source), source.size - CUT)
        except ParquetBloomError as error:
            caught = error
    if caught is not None:
        assert caught.path == s3.url("a.parquet")
        assert "\n" not in str(caught)
    return caught


@pytest.mark.parametrize("size", STEPS)
def test_what_is_copied_is_not_sent(s3: Any, size: str) -> None:
    assert replace(s3, size) is None
    assert s3.get("a.parquet") == NEW[size]
    assert sorted(s3.operations()) == sorted(STEPS[size])
    assert s3.uploads() == []
    sent = sum(request.sent for request in s3.log if request.operation in ("PutObject", "UploadPart"))
    assert sent == (len(NEW["small"]) if size == "small" else len(TAIL))
    assert sum(request.received for request in s3.log) < 20_000
    if size == "large":
        copied = sorted(request.range for request in s3.log if request.operation == "UploadPartCopy")
        half = (len(OLD[size]) - CUT) // 2
        assert copied == [f"bytes=0-{half - 1}", f"bytes={half}-{len(OLD[size]) - CUT - 1}"]


@pytest.mark.parametrize("length", [5 * MIB - 1, 5 * MIB, 10 * MIB - 1])
def test_around_the_smallest_part_of_s3(s3: Any, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.limit_parts()
    monkeypatch.setattr(s3_rewrite, "MIN_PART", 5 * MIB)
    monkeypatch.setattr(s3_rewrite, "COPIED_PART", 5 * MIB)
    old = np.random.default_rng(3).bytes(10 * MIB + 100)
    s3.put("a.parquet", old)
    with opened(s3) as source:
        write(s3_rewrite.rewrite_in_place(source), length)
    assert s3.get("a.parquet") == old[:length] + TAIL
    assert s3.operations().count("UploadPartCopy") == (length >= 5 * MIB)


def test_a_part_holds_no_more_than_may_be_copied_at_once(s3: Any) -> None:
    data = np.random.default_rng(4).bytes(50 * PART + 7)
    s3.put("a.parquet", data)
    s3.limit_parts(PART, 2 * PART - 1)
    with opened(s3) as source:
        write(s3_rewrite.rewrite_in_place(source), len(data))
    assert s3.get("a.parquet") == data + TAIL
    assert s3.operations().count("UploadPartCopy") == 50


def test_there_are_no_more_parts_than_an_upload_may_have(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_rewrite, "_MAX_COPIED_PARTS", 3)
    data = np.random.default_rng(4).bytes(50 * PART + 7)
    s3.put("a.parquet", data)
    with opened(s3) as source:
        write(s3_rewrite.rewrite_in_place(source), len(data))
    assert s3.get("a.parquet") == data + TAIL
    assert s3.operations().count("UploadPartCopy") == 3


def test_a_long_tail_goes_in_several_parts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_rewrite, "UPLOADED_PART", 30_000)
    s3.put("a.parquet", OLD["large"])
    tail = np.random.default_rng(3).bytes(100_000)
    with opened(s3) as source, s3_rewrite.rewrite_in_place(source) as new:
        new.copy_prefix(PART)
        for start in range(0, len(tail), 15_000):
            new.write(tail[start : start + 15_000])
        new.commit()
    assert s3.get("a.parquet") == OLD["large"][:PART] + tail
    sent = [request.sent for request in s3.log if request.operation == "UploadPart"]
    assert sent == [30_000, 30_000, 40_000]


@pytest.mark.parametrize("key", ["ü b", "a+b c%20d%2Bé", "x=1/p#q?versionId=7&r", "日本/語'\"!*()~"])
@pytest.mark.parametrize("size", STEPS)
def test_odd_keys(s3: Any, key: str, size: str) -> None:
    s3.put(key, OLD[size])
    with opened(s3, key) as source:
        write(s3_rewrite.rewrite_in_place(source), source.size - CUT)
    assert s3.get(key) == NEW[size]


@pytest.mark.parametrize("size", STEPS)
def test_nothing_is_begun_where_nothing_is_written(s3: Any, size: str) -> None:
    s3.put("a.parquet", OLD[size])
    with opened(s3) as source, s3_rewrite.rewrite_in_place(source):
        pass
    with opened(s3) as source, s3_rewrite.rewrite_in_place(source) as new, pytest.raises(TruncatedFileError):
        new.copy_prefix(len(OLD[size]) + 1)
    with opened(s3) as source, s3_rewrite.rewrite_in_place(source) as new:
        new.copy_prefix(len(OLD[size]) - CUT)
    assert s3.get("a.parquet") == OLD[size]
    assert s3.uploads() == []


# One thing goes wrong, once


@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer"])
def test_transient_failures_are_retried(s3: Any, size: str, step: int, way: str) -> None:
    faults: list[Any] = []
    assert replace(s3, size, lambda: faults.append(getattr(s3, way)(skip=step))) is None
    assert faults[0].happened == 1
    assert s3.get("a.parquet") == NEW[size]
    # The upload whose number never came back is the one thing that cannot be cleared up.
    assert len(s3.uploads()) == ((STEPS[size][step], way) == ("CreateMultipartUpload", "lose_answer"))


@pytest.mark.parametrize("operation", ["UploadPartCopy", "CompleteMultipartUpload"])
def test_an_error_in_an_answer_that_begins_well_is_one(s3: Any, operation: str) -> None:
    fault = s3.fail(operation, status=200, code="InternalError")
    assert replace(s3, "large") is None
    assert fault.happened == 1
    assert s3.get("a.parquet") == NEW["large"]


# Something goes wrong for good


@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("way", ["refuse", "fail", "lose_request", "lose_answer"])
def test_permanent_failures_leave_the_old_object_or_the_new_one(
    s3: Any, size: str, step: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = {"status": 403, "code": "AccessDenied"} if way == "refuse" else {}
    begin = s3.fail if way == "refuse" else getattr(s3, way)
    error = replace(s3, size, lambda: begin(times=1000, skip=step, **refusal) and None)
    assert isinstance(error, StorageError)
    if way == "lose_answer" and step == COMMIT[size]:
        assert "cannot tell whether it was written" in str(error)
    if step > COMMIT[size]:
        assert "it was written, but cannot be read back to be checked" in str(error)
    done = step > COMMIT[size] or (way == "lose_answer" and step == COMMIT[size])
    assert s3.get("a.parquet") == (NEW[size] if done else OLD[size])


@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
def test_a_refused_write_is_cleaned_up(s3: Any, size: str, step: int) -> None:
    met: list[str] = []

    def refuse(request: Any) -> None:
        met.append(request.operation)
        raise Refusal(403, "AccessDenied")

    error = replace(s3, size, lambda: s3.before(None, refuse, skip=step) and None)
    assert s3.uploads() == []
    if met == ["GetObjectAcl"]:  # not everybody may, and a new object then has the bucket's default
        assert error is None
        return
    assert isinstance(error, StorageError)
    assert "AccessDenied" in str(error) or met == ["HeadObject"]  # whose answer has no body
    assert error.errno == 13
    assert s3.get("a.parquet") == (NEW[size] if step > COMMIT[size] else OLD[size])


def test_an_upload_that_someone_aborts_is_an_error(s3: Any) -> None:
    def abort(request: Any) -> None:
        client = s3.client()
        client.abort_multipart_upload(Bucket=s3.bucket, Key="a.parquet", UploadId=s3.uploads()[0])
        client.close()

    for operation in ("UploadPartCopy", "UploadPart", "CompleteMultipartUpload"):
        s3.before(operation, abort)
        error = replace(s3, "large")
        assert isinstance(error, StorageError)
        assert "NoSuchUpload" in str(error)
        assert s3.get("a.parquet") == OLD["large"]


@pytest.mark.parametrize("raw", [b"", b"<html>welcome</html>", b"<html><p>welcome"])
@pytest.mark.parametrize("size", STEPS)
def test_an_invalid_answer_is_refused(s3: Any, size: str, raw: bytes) -> None:
    for operation in [*METADATA_READS, *(LARGE_ANSWERS if size == "large" else ["PutObject"])]:
        fault = s3.fail(operation, status=200, raw=raw, times=1000)
        error = replace(s3, size)
        assert isinstance(error, (StorageError, ConcurrentChangeError)), operation
        fault.times = 0
        assert s3.get("a.parquet") == OLD[size]
        if operation != "CreateMultipartUpload":
            assert s3.uploads() == []


def test_an_upload_that_is_gone_because_it_was_completed_is_done(s3: Any) -> None:
    s3.lose_answer("CompleteMultipartUpload")
    s3.fail("CompleteMultipartUpload", status=404, code="NoSuchUpload", skip=1)
    assert replace(s3, "large") is None
    assert beside(s3, "large") is None
    assert s3.get("a.parquet") == OLD["large"]
    assert s3.get("b c/d.parquet") == NEW["large"]


def test_a_conflict_that_is_none_of_another_writer_leaves_the_old_object(s3: Any) -> None:
    for size in STEPS:
        s3.fail(LAST, status=409, code="ConditionalRequestConflict")
        error = replace(s3, size)
        assert isinstance(error, StorageError)
        assert "ConditionalRequestConflict" in str(error)
        assert s3.get("a.parquet") == OLD[size]
        assert s3.uploads() == []


# Others write


@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("deed", ["replaced", "removed", "replaced and the answer lost"])
def test_another_writer_wins_at_every_moment(s3: Any, size: str, step: int, when: str, deed: str) -> None:
    def meddle(request: Any) -> None:
        if deed == "removed":
            s3.delete("a.parquet")
        else:
            s3.put("a.parquet", THEIRS)
        if "lost" in deed:
            raise ConnectionResetError

    error = replace(s3, size, lambda: getattr(s3, when)(None, meddle, skip=step) and None)
    done = step > COMMIT[size] or (step == COMMIT[size] and when == "after" and "lost" not in deed)
    if not done:
        assert isinstance(error, ConcurrentChangeError)
        assert ("removed" if deed == "removed" else "changed") in str(error)
    else:
        assert error is None  # they came after us
    assert s3.get("a.parquet") == (None if deed == "removed" else THEIRS)
    begun = STEPS[size][step] == "CreateMultipartUpload" and when == "after"
    assert len(s3.uploads()) == (begun and "lost" in deed)  # no client got its number


def test_another_writer_before_the_first_look_is_noticed(s3: Any) -> None:
    for size in STEPS:
        error = replace(s3, size, lambda: s3.put("a.parquet", THEIRS) and None)
        assert isinstance(error, ConcurrentChangeError)
        assert s3.get("a.parquet") == THEIRS
        assert set(s3.operations()) <= set(METADATA_READS)


def test_what_is_copied_is_what_was_read_even_if_it_comes_back(s3: Any) -> None:
    theirs = bytes(len(OLD["large"]))
    gone = s3.before(
        "UploadPartCopy", lambda request: s3.put("a.parquet", theirs), times=2
    )  # they run at the same time
    back: list[None] = []
    s3.after("UploadPartCopy", lambda request: back.append(s3.put("a.parquet", OLD["large"])), times=2)
    assert isinstance(replace(s3, "large"), ConcurrentChangeError)
    while len(back) < gone.happened:  # the server may still be at the copy that was given up
        time.sleep(0.01)
    assert s3.get("a.parquet") == OLD["large"]


@pytest.mark.parametrize("size", STEPS)
def test_of_two_at_once_one_wins_and_one_is_refused(s3: Any, size: str) -> None:
    s3.put("a.parquet", OLD[size])
    with (
        opened(s3) as mine,
        opened(s3) as yours,
        s3_rewrite.rewrite_in_place(mine) as first,
        s3_rewrite.rewrite_in_place(yours) as second,
    ):
        for new, text in ((first, b"first"), (second, b"second")):
            new.copy_prefix(mine.size - CUT)
            new.write(text)
        first.commit()
        with pytest.raises(ConcurrentChangeError):
            second.commit()
    assert s3.get("a.parquet") == OLD[size][:-CUT] + b"first"
    assert s3.uploads() == []


# The process ends


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises, even where the tests are a shell's background job, for which it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
def test_an_interrupt_aborts_the_upload(s3: Any, size: str, step: int) -> None:
    s3.put("a.parquet", OLD[size])
    with opened(s3) as source:
        s3.before(None, lambda request: os.kill(os.getpid(), signal.SIGINT), skip=step)
        with pytest.raises(KeyboardInterrupt):
            write(s3_rewrite.rewrite_in_place(source), source.size - CUT)
    # What was sent when the interrupt came may still be carried out; S3 then has it as it was or as it was to be.
    assert s3.get("a.parquet") in (OLD[size], NEW[size])
    assert s3.uploads() == []


CHILD = """
import json, sys
from parquet_bloom.storage.objects import object_state, s3_rewrite, store_proofs
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource

quoted = object_state.quoted
store_proofs._show_put = store_proofs._show_upload = lambda *given: store_proofs.ConditionSupport(quoted, quoted, "")
options, url, part, cut, tail = json.loads(sys.stdin.read())
s3_rewrite.MIN_PART = s3_rewrite.COPIED_PART = part
with ObjectSource(ObjectStores(options).locate(url)) as source, s3_rewrite.rewrite_in_place(source) as new:
    new.copy_prefix(source.size - cut)
    new.write(tail.encode())
    new.commit()
"""


@pytest.mark.ci
@pytest.mark.crash
@pytest.mark.parametrize(
    ("when", "size", "step"),
    [
        ("after", "large", 3),
        ("before", "large", 5),
        ("before", "large", COMMIT["large"]),
        ("after", "large", COMMIT["large"]),
        ("after", "large", COMMIT["large"] + 1),
        ("before", "small", COMMIT["small"]),
        ("after", "small", COMMIT["small"]),
    ],
)
def test_a_process_that_is_killed_leaves_a_whole_object(s3: Any, when: str, size: str, step: int) -> None:
    s3.put("a.parquet", OLD[size])
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, cwd=ROOT) as child:

        def kill(request: Any) -> None:
            child.kill()
            child.wait()
            raise ConnectionResetError  # its request does not arrive, or is not answered

        fault = getattr(s3, when)(None, kill, skip=1 + step)  # one more: the child opens the object
        child.communicate(json.dumps([s3.storage_options, s3.url("a.parquet"), PART, CUT, TAIL.decode()]).encode())
    assert (fault.happened, child.returncode) == (1, -signal.SIGKILL)
    done = step > COMMIT[size] or (step == COMMIT[size] and when == "after")
    assert s3.get("a.parquet") == (NEW[size] if done else OLD[size])


# Another object of the bucket


def beside(s3: Any, size: str) -> ParquetBloomError | None:
    """As `replace`, to another key, where an object exists already."""
    s3.put("a.parquet", OLD[size])
    s3.put("b c/d.parquet", THEIRS)
    with opened(s3) as source:
        new = s3_rewrite.rewrite_elsewhere(source, source.location.at("b c/d.parquet"))
        assert new is not None
        try:
            write(new, source.size - CUT)
        except ParquetBloomError as error:
            assert s3.get("b c/d.parquet") == THEIRS
            return error
    return None


@pytest.mark.parametrize("size", STEPS)
def test_another_object_is_written_the_same_way(s3: Any, size: str) -> None:
    assert beside(s3, size) is None
    writes = [operation for operation in s3.operations() if operation not in READ_OPERATIONS]
    assert sorted(writes) == sorted(step for step in STEPS[size] if step not in READ_OPERATIONS)
    assert s3.get("b c/d.parquet") == NEW[size]
    assert s3.get("a.parquet") == OLD[size]


@pytest.mark.ci
@pytest.mark.parametrize("size", STEPS)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer"])
def test_another_object_is_written_whatever_gets_lost(s3: Any, size: str, way: str) -> None:
    for operation in dict.fromkeys(step for step in STEPS[size] if step not in READ_OPERATIONS):
        getattr(s3, way)(operation)
        assert beside(s3, size) is None
        assert s3.get("b c/d.parquet") == NEW[size]
        s3.fail(operation, status=403, code="AccessDenied")
        error = beside(s3, size)
        assert isinstance(error, StorageError)
        assert error.path == s3.url("b c/d.parquet")


def test_another_object_is_not_made_of_two_versions(s3: Any) -> None:
    for operation, skip in (
        ("UploadPartCopy", 0),
        (READ_OPERATIONS, 1),
        ("HeadObject", 0),
    ):  # opening it, a sample, and a last look
        s3.before(operation, lambda request: s3.put("a.parquet", THEIRS), skip=skip)
        error = beside(s3, "large")
        assert isinstance(error, ConcurrentChangeError)
        assert error.path == s3.url("a.parquet")
        assert s3.uploads() == []


# What an object has besides its bytes


@pytest.fixture
def client(s3: Any) -> Iterator[Any]:
    client = s3.client()
    yield client
    client.close()


RICH = {
    "Metadata": {"owner": "lake", "parquet-bloom-run": "an earlier one", "x_y": "=?UTF-8?B?w7w=?="},
    "ContentType": "application/vnd.apache.parquet",
    "CacheControl": "max-age=60",
    "ContentDisposition": 'attachment; filename="a.parquet"',
    "ContentEncoding": "identity",
    "ContentLanguage": "de",
    "StorageClass": "STANDARD_IA",
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": "arn:aws:kms:us-east-1:123456789012:key/1",
    "Expires": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
}


@pytest.mark.parametrize("size", STEPS)
def test_the_new_object_has_what_the_old_one_had(s3: Any, client: Any, size: str) -> None:
    object_key = {"Bucket": s3.bucket, "Key": "a.parquet"}
    client.put_object(**object_key, Body=OLD[size], Tagging="team=a%20%2B%20b%3D%40&k=", **RICH)
    for _ in range(2):  # its own metadata does not pile up
        with opened(s3) as source:
            write(s3_rewrite.rewrite_in_place(source), len(OLD[size]) - CUT)
    assert s3.get("a.parquet") == NEW[size]
    head = client.head_object(**object_key)
    queried = dict(RICH)
    metadata = head["Metadata"]
    assert len(metadata.pop("parquet-bloom-run")) == 32
    assert metadata == {"owner": "lake", "x_y": "=?UTF-8?B?w7w=?="}
    del queried["Metadata"]
    assert {name: head.get(name) for name in queried} == queried
    tags = {tag["Key"]: tag["Value"] for tag in client.get_object_tagging(**object_key)["TagSet"]}
    assert tags == {"team": "a + b=@", "k": ""}


@pytest.mark.parametrize("size", STEPS)
def test_tags_that_cannot_be_read_are_not_lost(s3: Any, size: str) -> None:
    s3.fail("GetObjectTagging", status=403, code="AccessDenied")
    error = replace(s3, size)
    assert "s3:GetObjectTagging" in str(error)
    assert s3.get("a.parquet") == OLD[size]
    s3.fail("GetObjectTagging", status=501, code="NotImplemented")
    assert replace(s3, size) is None
    assert s3.get("a.parquet") == NEW[size]


def test_what_is_locked_is_left_alone(s3: Any, client: Any) -> None:
    bucket = s3.bucket + "-locked"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    put = {"Bucket": bucket, "Key": "a.parquet", "Body": b"x" * 1000}
    until = datetime(2040, 1, 1, tzinfo=UTC)
    for lock in (
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until},
        {"ObjectLockLegalHoldStatus": "ON"},
    ):
        client.put_object(**put, **lock)
        location = ObjectStores(s3.storage_options).locate(f"s3://{bucket}/a.parquet")
        assert location is not None
        with ObjectSource(location) as source, pytest.raises(StorageError, match=r"object lock|legal hold"):
            write(s3_rewrite.rewrite_in_place(source), 500)
        assert client.get_object(Bucket=bucket, Key="a.parquet")["Body"].read() == b"x" * 1000


@pytest.mark.parametrize("size", STEPS)
def test_in_a_versioned_bucket_the_old_object_stays_as_a_version(s3: Any, client: Any, size: str) -> None:
    client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    object_key = {"Bucket": s3.bucket, "Key": "a.parquet"}
    first = client.put_object(**object_key, Body=OLD[size])["VersionId"]
    with opened(s3) as source:
        write(s3_rewrite.rewrite_in_place(source), len(OLD[size]) - CUT)
    assert client.get_object(**object_key)["Body"].read() == NEW[size]
    assert client.get_object(**object_key, VersionId=first)["Body"].read() == OLD[size]
    assert len(client.list_object_versions(Bucket=s3.bucket)["Versions"]) == 2
    with opened(s3) as source, s3_rewrite.rewrite_in_place(source) as new:
        new.copy_prefix(1)
        client.delete_object(**object_key)  # a delete marker
        with pytest.raises(ConcurrentChangeError, match="removed"):
            new.commit()


# The way to S3


def test_other_stores_are_refused(s3: Any) -> None:
    from obstore.store import MemoryStore

    store = MemoryStore()
    store.put("a.parquet", b"x" * 100)
    location = ObjectStores(store=store).locate("a.parquet")
    assert location is not None
    with ObjectSource(location) as source, pytest.raises(StorageError, match="on S3 only; give an output elsewhere"):
        s3_rewrite.rewrite_in_place(source)


def test_a_store_of_the_callers_with_a_prefix(s3: Any) -> None:
    from obstore.store import S3Store

    s3.put("deep/er/a.parquet", OLD["small"])
    options = {name: text for name, text in s3.storage_options.items() if name.startswith("aws_")}
    store = S3Store(s3.bucket, prefix="deep", config=options, client_options={"allow_http": True})
    location = ObjectStores(store=store).locate("er/a.parquet")
    assert location is not None
    with ObjectSource(location) as source:
        write(s3_rewrite.rewrite_in_place(source), len(OLD["small"]) - CUT)
    assert s3.get("deep/er/a.parquet") == NEW["small"]
