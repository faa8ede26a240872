"""Objects replaced on S3: whole or not at all, whatever gets lost, fails, or is written by others meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scale import sampled
from support.servers.s3_objects import (
    CUT,
    KEY,
    NEW,
    OLD,
    PART,
    SIZES,
    TAIL,
    is_of_object,
    opened,
    operations,
    replace,
    write,
)
from support.servers.s3_server import Refusal

from parquet_bloom.errors import ConcurrentChangeError, StorageError, TruncatedFileError
from parquet_bloom.storage.objects import s3_client
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.object_state import PROBE
from parquet_bloom.storage.objects.request_limits import RequestLimits
from parquet_bloom.storage.objects.s3_requests import Requests
from parquet_bloom.storage.objects.s3_rewrite import PartSizes, rewrite_in_place

ROOT = Path(__file__).parents[4]
MIB = 1 << 20

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
THEIRS = b"another writer's object"
OTHER_KEY = "b c/d.parquet"


@pytest.fixture(autouse=True)
def quick(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a modest object, no pauses between attempts, and samples that differ."""
    s3.limit_parts(smallest=PART)
    s3.storage_options |= {"init_backoff": 0, "max_backoff": 0, "max_retries": 2}
    monkeypatch.setattr("parquet_bloom.storage.objects.s3_rewrite._RANDOM", random.Random(1))


def rewritten(s3: Any, size: str, harm: Callable[[], Any] = lambda: None) -> Any:
    """Write the old object and rewrite it; `harm` is done when it has been opened. Returns the error."""
    s3.put(KEY, OLD[size])
    error = replace(s3, size, harm)
    assert error is None or isinstance(error, KeyboardInterrupt) or error.path == s3.url(KEY)
    return error


@pytest.mark.parametrize("size", STEPS)
def test_what_is_copied_is_not_sent(s3: Any, size: str) -> None:
    assert rewritten(s3, size) is None
    assert s3.get(KEY) == NEW[size]
    assert sorted(operations(s3)) == sorted(STEPS[size])
    assert s3.uploads() == []
    log = [request for request in s3.log if is_of_object(request)]
    sent = sum(request.sent for request in log if request.operation in ("PutObject", "UploadPart"))
    assert sent == (len(NEW["small"]) if size == "small" else len(TAIL))
    assert sum(request.received for request in log) < 20_000
    if size == "large":
        copied = sorted(request.range for request in log if request.operation == "UploadPartCopy")
        half = (len(OLD[size]) - CUT) // 2
        assert copied == [f"bytes=0-{half - 1}", f"bytes={half}-{len(OLD[size]) - CUT - 1}"]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("size", "length", "sizes", "copied", "uploaded"),
    [
        (10 * MIB + 100, 5 * MIB - 1, PartSizes(), 0, []),
        (10 * MIB + 100, 5 * MIB, PartSizes(), 1, [len(TAIL)]),
        (10 * MIB + 100, 10 * MIB - 1, PartSizes(), 1, [len(TAIL)]),
        (50 * PART + 7, 50 * PART, SIZES, 50, [len(TAIL)]),
        (50 * PART + 7, 50 * PART, SIZES._replace(most_copied=3), 3, [len(TAIL)]),
        (50 * PART + 7, PART, SIZES._replace(uploaded=30_000), 1, [30_000, 30_000, 40_000 + len(TAIL)]),
    ],
)
def test_parts_are_of_the_sizes_that_are_allowed(
    s3: Any, size: int, length: int, sizes: PartSizes, copied: int, uploaded: list[int]
) -> None:
    s3.limit_parts(sizes.smallest, 2 * PART - 1 if copied == 50 else 5 << 30)
    old = np.random.default_rng(3).bytes(size)
    more = bytes(100_000) if len(uploaded) > 1 else b""
    s3.put(KEY, old)
    with opened(s3) as source, rewrite_in_place(source, sizes) as new:
        new.copy_prefix(length)
        for start in range(0, len(more), 15_000):
            new.write(more[start : start + 15_000])
        new.write(TAIL)
        new.commit()
    assert s3.get(KEY) == old[:length] + more + TAIL
    assert operations(s3).count("UploadPartCopy") == copied
    assert [one.sent for one in s3.log if one.operation == "UploadPart" and is_of_object(one)] == uploaded


@pytest.mark.ci
@pytest.mark.parametrize("front", [0, 100, PART, 2 * PART])
@pytest.mark.parametrize("length", [100, PART, 3 * PART])
def test_ranges_are_copied_too(s3: Any, front: int, length: int) -> None:
    """What is written before a range becomes a part of its own, of the least size that is allowed."""
    old = np.random.default_rng(4).bytes(9 * PART)
    s3.put(KEY, old)
    with opened(s3) as source, rewrite_in_place(source, SIZES) as new:
        new.copy_prefix(front)
        new.write(TAIL)
        new.copy_range(2 * PART + 7, length)
        new.write(TAIL)
        new.copy_range(6 * PART, length)
        new.copy_range(9 * PART, 0)
        new.write(TAIL)
        assert new.tell() == front + 2 * length + 3 * len(TAIL)
        new.commit()
    first, second = old[2 * PART + 7 : 2 * PART + 7 + length], old[6 * PART : 6 * PART + length]
    assert s3.get(KEY) == old[:front] + TAIL + first + TAIL + second + TAIL
    sent = sum(one.sent for one in s3.log if one.operation in ("PutObject", "UploadPart") and is_of_object(one))
    assert sent < 3 * PART + 3 * len(TAIL)
    assert operations(s3).count("UploadPartCopy") >= (length == 3 * PART) * 2


def test_ranges_are_inside_the_object(s3: Any) -> None:
    s3.put(KEY, OLD["small"])
    with opened(s3) as source, rewrite_in_place(source, SIZES) as new, pytest.raises(TruncatedFileError):
        new.copy_range(2999, 2)
    assert s3.get(KEY) == OLD["small"]


@pytest.mark.ci
@pytest.mark.parametrize("key", ["ü b", "a+b c%20d%2Bé", "x=1/p#q?versionId=7&r", "日本/語'\"!*()~"])
@pytest.mark.parametrize("size", STEPS)
def test_odd_keys(s3: Any, key: str, size: str) -> None:
    s3.put(key, OLD[size])
    with opened(s3, key) as source:
        write(rewrite_in_place(source, SIZES), source.size - CUT)
    assert s3.get(key) == NEW[size]


@pytest.mark.parametrize("size", STEPS)
def test_nothing_is_begun_where_nothing_is_written(s3: Any, size: str) -> None:
    s3.put(KEY, OLD[size])
    with opened(s3) as source, rewrite_in_place(source, SIZES):
        pass
    with opened(s3) as source, rewrite_in_place(source, SIZES) as new, pytest.raises(TruncatedFileError):
        new.copy_prefix(len(OLD[size]) + 1)
    with opened(s3) as source, rewrite_in_place(source, SIZES) as new:
        new.copy_prefix(len(OLD[size]) - CUT)
    assert s3.get(KEY) == OLD[size]
    assert s3.uploads() == []


# One thing goes wrong, once


@pytest.mark.ci
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer"])
def test_transient_failures_are_retried(s3: Any, size: str, step: int, way: str) -> None:
    faults: list[Any] = []
    assert rewritten(s3, size, lambda: faults.append(getattr(s3, way)(skip=step, when=is_of_object))) is None
    assert faults[0].happened == 1
    assert s3.get(KEY) == NEW[size]
    # The upload whose number never came back is the one thing that cannot be cleared up.
    assert len(s3.uploads()) == ((STEPS[size][step], way) == ("CreateMultipartUpload", "lose_answer"))


@pytest.mark.parametrize("operation", ["UploadPartCopy", "CompleteMultipartUpload"])
def test_an_error_in_an_answer_that_begins_well_is_one(s3: Any, operation: str) -> None:
    fault = s3.fail(operation, status=200, code="InternalError")
    assert rewritten(s3, "large") is None
    assert fault.happened == 1
    assert s3.get(KEY) == NEW["large"]


# Something goes wrong for good


@pytest.mark.ci
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer"])
def test_permanent_failures_leave_the_old_object_or_the_new_one(s3: Any, size: str, step: int, way: str) -> None:
    error = rewritten(s3, size, lambda: getattr(s3, way)(times=1000, skip=step, when=is_of_object))
    assert isinstance(error, StorageError)
    if way == "lose_answer" and step == COMMIT[size]:
        assert "cannot tell whether it was written" in str(error)
    if step > COMMIT[size]:
        assert "it was written, but cannot be read back to be checked" in str(error)
    done = step > COMMIT[size] or (way == "lose_answer" and step == COMMIT[size])
    assert s3.get(KEY) == (NEW[size] if done else OLD[size])


@pytest.mark.ci
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
def test_a_refused_write_is_cleaned_up(s3: Any, size: str, step: int) -> None:
    met: list[str] = []

    def refuse(request: Any) -> None:
        met.append(request.operation)
        raise Refusal(403, "AccessDenied")

    error = rewritten(s3, size, lambda: s3.before(None, refuse, skip=step, when=is_of_object) and None)
    assert s3.uploads() == []
    if met == ["GetObjectAcl"]:  # not everybody may, and a new object then has the bucket's default
        assert error is None
        return
    assert isinstance(error, StorageError)
    assert "AccessDenied" in str(error) or met == ["HeadObject"]  # whose answer has no body
    assert error.errno == 13
    assert s3.get(KEY) == (NEW[size] if step > COMMIT[size] else OLD[size])


@pytest.mark.ci
def test_an_upload_that_someone_aborts_is_an_error(s3: Any) -> None:
    def abort(request: Any) -> None:
        client = s3.client()
        client.abort_multipart_upload(Bucket=s3.bucket, Key=KEY, UploadId=s3.uploads()[0])
        client.close()

    for operation in ("UploadPartCopy", "UploadPart", "CompleteMultipartUpload"):
        s3.before(operation, abort)
        error = rewritten(s3, "large")
        assert isinstance(error, StorageError)
        assert "NoSuchUpload" in str(error)
        assert s3.get(KEY) == OLD["large"]


@pytest.mark.ci
@pytest.mark.parametrize("raw", [b"", b"<html>welcome</html>", b"<html><p>welcome"])
@pytest.mark.parametrize("size", STEPS)
def test_an_invalid_answer_is_refused(s3: Any, size: str, raw: bytes) -> None:
    for operation in [*METADATA_READS, *(LARGE_ANSWERS if size == "large" else ["PutObject"])]:
        fault = s3.fail(operation, status=200, raw=raw, times=1000)
        error = rewritten(s3, size)
        assert isinstance(error, (StorageError, ConcurrentChangeError)), operation
        fault.times = 0
        assert s3.get(KEY) == OLD[size]
        if operation != "CreateMultipartUpload":
            assert s3.uploads() == []


def test_an_upload_that_is_gone_because_it_was_completed_is_done(s3: Any) -> None:
    s3.lose_answer("CompleteMultipartUpload")
    s3.fail("CompleteMultipartUpload", status=404, code="NoSuchUpload", skip=1)
    assert rewritten(s3, "large") is None
    assert beside(s3, "large") is None
    assert s3.get(KEY) == OLD["large"]
    assert s3.get(OTHER_KEY) == NEW["large"]


def test_a_conflict_that_is_none_of_another_writer_leaves_the_old_object(s3: Any) -> None:
    for size in STEPS:
        s3.fail(LAST, status=409, code="ConditionalRequestConflict")
        error = rewritten(s3, size)
        assert isinstance(error, StorageError)
        assert "ConditionalRequestConflict" in str(error)
        assert s3.get(KEY) == OLD[size]
        assert s3.uploads() == []


# Others write


@pytest.mark.ci
@pytest.mark.parametrize(("size", "step"), AT_EACH_STEP)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("deed", ["replaced", "removed", "replaced and the answer lost"])
def test_another_writer_wins_at_every_moment(s3: Any, size: str, step: int, when: str, deed: str) -> None:
    def meddle(request: Any) -> None:
        if deed == "removed":
            s3.delete(KEY)
        else:
            s3.put(KEY, THEIRS)
        if "lost" in deed:
            raise ConnectionResetError

    error = rewritten(s3, size, lambda: getattr(s3, when)(None, meddle, skip=step, when=is_of_object) and None)
    done = step > COMMIT[size] or (step == COMMIT[size] and when == "after" and "lost" not in deed)
    if not done:
        assert isinstance(error, ConcurrentChangeError)
        assert ("removed" if deed == "removed" else "changed") in str(error)
    else:
        assert error is None  # they came after us
    assert s3.get(KEY) == (None if deed == "removed" else THEIRS)
    begun = STEPS[size][step] == "CreateMultipartUpload" and when == "after"
    assert len(s3.uploads()) == (begun and "lost" in deed)  # no client got its number


def test_another_writer_before_the_first_look_is_noticed(s3: Any) -> None:
    for size in STEPS:
        error = rewritten(s3, size, lambda: s3.put(KEY, THEIRS) and None)
        assert isinstance(error, ConcurrentChangeError)
        assert s3.get(KEY) == THEIRS
        assert set(operations(s3)) <= set(METADATA_READS)


def test_what_is_copied_is_what_was_read_even_if_it_comes_back(s3: Any) -> None:
    theirs = bytes(len(OLD["large"]))
    gone = s3.before(
        "UploadPartCopy", lambda request: s3.put(KEY, theirs), times=2, when=is_of_object
    )  # they run at the same time
    back: list[None] = []
    s3.after("UploadPartCopy", lambda request: back.append(s3.put(KEY, OLD["large"])), times=2, when=is_of_object)
    assert isinstance(rewritten(s3, "large"), ConcurrentChangeError)
    while len(back) < gone.happened:  # the server may still be at the copy that was given up
        time.sleep(0.01)
    assert s3.get(KEY) == OLD["large"]


@pytest.mark.ci
@pytest.mark.parametrize("size", STEPS)
def test_of_two_at_once_one_wins_and_one_is_refused(s3: Any, size: str) -> None:
    s3.put(KEY, OLD[size])
    with (
        opened(s3) as mine,
        opened(s3) as yours,
        rewrite_in_place(mine, SIZES) as first,
        rewrite_in_place(yours, SIZES) as second,
    ):
        for new, text in ((first, b"first"), (second, b"second")):
            new.copy_prefix(mine.size - CUT)
            new.write(text)
        first.commit()
        with pytest.raises(ConcurrentChangeError):
            second.commit()
    assert s3.get(KEY) == OLD[size][:-CUT] + b"first"
    assert s3.uploads() == []


# The process ends


CHILD = """
import json, sys
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.s3_rewrite import PartSizes, rewrite_in_place

options, url, part, cut, tail = json.loads(sys.stdin.read())
sizes = PartSizes(smallest=part, copied=part)
with ObjectSource(ObjectStores(options).locate(url)) as source, rewrite_in_place(source, sizes) as new:
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
    s3.put(KEY, OLD[size])
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, cwd=ROOT) as child:

        def kill(request: Any) -> None:
            child.kill()
            child.wait()
            raise ConnectionResetError  # its request does not arrive, or is not answered

        fault = getattr(s3, when)(None, kill, skip=1 + step, when=is_of_object)  # one more: the child opens the object
        child.communicate(json.dumps([s3.storage_options, s3.url(KEY), PART, CUT, TAIL.decode()]).encode())
    assert (fault.happened, child.returncode) == (1, -signal.SIGKILL)
    done = step > COMMIT[size] or (step == COMMIT[size] and when == "after")
    assert s3.get(KEY) == (NEW[size] if done else OLD[size])


# Another object of the bucket


def beside(s3: Any, size: str) -> Any:
    """As `rewritten`, to another key, where an object exists already."""
    s3.put(KEY, OLD[size])
    s3.put(OTHER_KEY, THEIRS)
    error = replace(s3, size, target=OTHER_KEY)
    assert error is None or s3.get(OTHER_KEY) == THEIRS
    return error


@pytest.mark.parametrize("size", STEPS)
def test_another_object_is_written_the_same_way(s3: Any, size: str) -> None:
    assert beside(s3, size) is None
    writes = [operation for operation in operations(s3) if operation not in READ_OPERATIONS]
    assert sorted(writes) == sorted(step for step in STEPS[size] if step not in READ_OPERATIONS)
    assert s3.get(OTHER_KEY) == NEW[size]
    assert s3.get(KEY) == OLD[size]


@pytest.mark.ci
@pytest.mark.parametrize("size", STEPS)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer"])
def test_another_object_is_written_whatever_gets_lost(s3: Any, size: str, way: str) -> None:
    for operation in dict.fromkeys(step for step in STEPS[size] if step not in READ_OPERATIONS):
        getattr(s3, way)(operation)
        assert beside(s3, size) is None
        assert s3.get(OTHER_KEY) == NEW[size]
        s3.fail(operation, status=403, code="AccessDenied")
        error = beside(s3, size)
        assert isinstance(error, StorageError)
        assert error.path == s3.url(OTHER_KEY)


def test_another_object_is_not_made_of_two_versions(s3: Any) -> None:
    for operation, skip in (
        ("UploadPartCopy", 0),
        (READ_OPERATIONS, 1),
        ("HeadObject", 0),
    ):  # opening it, a sample, and a last look
        s3.before(operation, lambda request: s3.put(KEY, THEIRS), skip=skip)
        error = beside(s3, "large")
        assert isinstance(error, ConcurrentChangeError)
        assert error.path == s3.url(KEY)
        assert s3.uploads() == []


# What an object has besides its bytes


RICH = {
    "Metadata": {"owner": "lake", "parquet-bloom-run": "an earlier one", "x_y": "=?UTF-8?B?w7w=?="},
    "ContentType": "application/vnd.apache.parquet",
    "CacheControl": "max-age=60",
    "ContentDisposition": "attachment; filename=KEY",
    "ContentEncoding": "identity",
    "ContentLanguage": "de",
    "StorageClass": "STANDARD_IA",
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": "arn:aws:kms:us-east-1:123456789012:key/1",
    "Expires": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
}


@pytest.mark.ci
@pytest.mark.parametrize("size", STEPS)
def test_the_new_object_has_what_the_old_one_had(s3: Any, client: Any, size: str) -> None:
    object_key = {"Bucket": s3.bucket, "Key": KEY}
    client.put_object(**object_key, Body=OLD[size], Tagging="team=a%20%2B%20b%3D%40&k=", **RICH)
    for _ in range(2):  # its own metadata does not pile up
        with opened(s3) as source:
            write(rewrite_in_place(source, SIZES), len(OLD[size]) - CUT)
    assert s3.get(KEY) == NEW[size]
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
    error = rewritten(s3, size)
    assert "s3:GetObjectTagging" in str(error)
    assert s3.get(KEY) == OLD[size]
    s3.fail("GetObjectTagging", status=501, code="NotImplemented")
    assert rewritten(s3, size) is None
    assert s3.get(KEY) == NEW[size]


def test_what_is_locked_is_left_alone(s3: Any, client: Any) -> None:
    bucket = s3.bucket + "-locked"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    put = {"Bucket": bucket, "Key": KEY, "Body": b"x" * 1000}
    until = datetime(2040, 1, 1, tzinfo=UTC)
    for lock in (
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until},
        {"ObjectLockLegalHoldStatus": "ON"},
    ):
        client.put_object(**put, **lock)
        location = ObjectStores(s3.storage_options).locate(f"s3://{bucket}/{KEY}")
        assert location is not None
        with ObjectSource(location) as source, pytest.raises(StorageError, match=r"object lock|legal hold"):
            write(rewrite_in_place(source), 500)
        assert client.get_object(Bucket=bucket, Key=KEY)["Body"].read() == b"x" * 1000


@pytest.mark.ci
@pytest.mark.parametrize("size", STEPS)
def test_in_a_versioned_bucket_the_old_object_stays_as_a_version(s3: Any, client: Any, size: str) -> None:
    client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    object_key = {"Bucket": s3.bucket, "Key": KEY}
    first = client.put_object(**object_key, Body=OLD[size])["VersionId"]
    with opened(s3) as source:
        write(rewrite_in_place(source, SIZES), len(OLD[size]) - CUT)
    assert client.get_object(**object_key)["Body"].read() == NEW[size]
    assert client.get_object(**object_key, VersionId=first)["Body"].read() == OLD[size]
    assert len(client.list_object_versions(Bucket=s3.bucket)["Versions"]) == 2
    with opened(s3) as source, rewrite_in_place(source, SIZES) as new:
        new.copy_prefix(1)
        client.delete_object(**object_key)  # a delete marker
        with pytest.raises(ConcurrentChangeError, match="removed"):
            new.commit()


# The way to S3


def test_a_store_of_the_callers_with_a_prefix(s3: Any) -> None:
    from obstore.store import S3Store

    s3.put("deep/er/a.parquet", OLD["small"])
    options = {name: text for name, text in s3.storage_options.items() if name.startswith("aws_")}
    store = S3Store(s3.bucket, prefix="deep", config=options, client_options={"allow_http": True})
    location = ObjectStores(store=store).locate("er/a.parquet")
    assert location is not None
    with ObjectSource(location) as source:
        write(rewrite_in_place(source, SIZES), len(OLD["small"]) - CUT)
    assert s3.get("deep/er/a.parquet") == NEW["small"]


# A store that does not answer: the call ends in time, an interrupt ends it at once, and no object is half done


LIMIT = 1.5  # seconds, more than a busy machine takes for a request
BUSY = 60.0  # seconds that a busy machine may add; without the time_limits a call would take 300 s and more
TIMED_STEPS = {"small": 9 + 6, "large": 20 + 9}  # of a rewrite, after what a bucket shows once
AT_EACH_TIMED_STEP = sampled([(size, step) for size, steps in TIMED_STEPS.items() for step in range(steps)], 12)


@pytest.fixture
def time_limits(s3: Any) -> None:
    """Several parts of a modest object, and little time for a request."""
    s3.limit_parts(smallest=PART)
    s3.storage_options |= {"retry_timeout": LIMIT, "timeout": 300, "init_backoff": 0.01}


@pytest.mark.usefixtures("time_limits")
@pytest.mark.ci
@pytest.mark.parametrize(("times", "carried_out"), [(1000, False), (1, True)])
@pytest.mark.parametrize(("size", "step"), AT_EACH_TIMED_STEP)
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
        error = rewritten(s3, size, harm)
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
        assert PROBE not in key or key in text or key in remaining
    for upload in s3.uploads():
        assert upload in text or upload in remaining or carried_out  # no client got its number


@pytest.mark.ci
@pytest.mark.usefixtures("time_limits")
@pytest.mark.parametrize(("size", "step"), AT_EACH_TIMED_STEP)
def test_an_interrupt_ends_the_call_within_a_second(s3: Any, size: str, step: int) -> None:
    s3.storage_options |= {"retry_timeout": 300}
    begun: list[float] = []

    def interrupt(request: Any) -> None:
        begun.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        s3._never(request)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        error = rewritten(s3, size, lambda: s3.before(None, interrupt, skip=step))
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


@pytest.mark.ci
@pytest.mark.usefixtures("time_limits")
def test_an_upload_whose_number_comes_late_is_aborted(s3: Any) -> None:
    # The time is over before the answer comes; the thread that waited for it aborts the upload.
    fault = s3.after("CreateMultipartUpload", lambda request: time.sleep(LIMIT + 0.5), skip=1)
    error = rewritten(s3, "large", lambda: None)
    assert isinstance(error, StorageError)
    assert "no answer" in str(error)
    assert fault.happened == 1
    end = time.monotonic() + BUSY
    while s3.uploads() and time.monotonic() < end:
        time.sleep(0.05)
    assert s3.uploads() == []
