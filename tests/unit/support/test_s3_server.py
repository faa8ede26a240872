"""The S3 server of the tests refuses what S3 refuses, injects faults, and counts."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

MIB = 1 << 20


@pytest.fixture
def client(s3: Any) -> Any:
    """A client that asks once."""
    config = Config(retries={"mode": "standard", "total_max_attempts": 1})
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    client = boto3.client("s3", endpoint_url=s3.endpoint, region_name="us-east-1", config=config, **keys)
    yield client
    client.close()


def refused(call: Any, status: int, code: str, **arguments: Any) -> Any:
    """The error of a call that must fail so."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]) == (status, code)
    return answer["Error"]


def begin(client: Any, s3: Any, key: str = "a") -> dict[str, str]:
    upload = client.create_multipart_upload(Bucket=s3.bucket, Key=key)["UploadId"]
    return {"Bucket": s3.bucket, "Key": key, "UploadId": upload}


def test_an_object_goes_there_and_back_and_is_counted(s3: Any, client: Any) -> None:
    client.put_object(Bucket=s3.bucket, Key="ü b/+%#?.parquet", Body=b"0123456789")
    assert s3.get("ü b/+%#?.parquet") == b"0123456789"
    got = client.get_object(Bucket=s3.bucket, Key="ü b/+%#?.parquet", Range="bytes=2-4")
    assert got["Body"].read() == b"234"
    put, get = s3.log
    assert (put.method, put.operation, put.sent, put.status) == ("PUT", "PutObject", 10, 200)
    assert put.key == get.key == "ü b/+%#?.parquet"
    assert (get.method, get.operation, get.range, get.received, get.status) == ("GET", "GetObject", "bytes=2-4", 3, 206)


def test_reads_are_bound_to_an_etag(s3: Any, client: Any) -> None:
    etag = s3.put("a", b"old")
    where = {"Bucket": s3.bucket, "Key": "a"}
    assert client.get_object(**where, IfMatch=etag)["Body"].read() == b"old"
    assert client.head_object(**where, IfMatch=etag)["ContentLength"] == 3
    s3.put("a", b"new")
    assert refused(client.get_object, 412, "PreconditionFailed", **where, IfMatch=etag)["Condition"] == "If-Match"
    refused(client.head_object, 412, "412", **where, IfMatch=etag)
    refused(client.get_object, 304, "304", **where, IfNoneMatch=s3.head("a").etag)


def test_ranges_past_the_end_are_refused(s3: Any, client: Any) -> None:
    s3.put("a", b"0123456789")
    s3.put("empty", b"")
    get = client.get_object
    assert get(Bucket=s3.bucket, Key="a", Range="bytes=8-20")["Body"].read() == b"89"
    assert get(Bucket=s3.bucket, Key="a", Range="bytes=-20")["Body"].read() == b"0123456789"
    refused(get, 416, "InvalidRange", Bucket=s3.bucket, Key="a", Range="bytes=10-12")
    refused(get, 416, "InvalidRange", Bucket=s3.bucket, Key="a", Range="bytes=-0")
    refused(get, 416, "InvalidRange", Bucket=s3.bucket, Key="empty", Range="bytes=-8")


def test_writes_are_bound_to_an_etag(s3: Any, client: Any) -> None:
    where = {"Bucket": s3.bucket, "Key": "a", "Body": b"mine"}
    refused(client.put_object, 404, "NoSuchKey", **where, IfMatch='"0"')
    etag = s3.put("a", b"old")
    refused(client.put_object, 412, "PreconditionFailed", **where, IfNoneMatch="*")
    s3.put("a", b"new")
    refused(client.put_object, 412, "PreconditionFailed", **where, IfMatch=etag)
    assert s3.get("a") == b"new"
    client.put_object(**where, IfMatch=s3.head("a").etag)
    assert s3.get("a") == b"mine"


def test_an_upload_is_completed_on_its_condition_only(s3: Any, client: Any) -> None:
    etag = s3.put("a", b"old")
    upload = begin(client, s3)
    part = {"PartNumber": 1, "ETag": client.upload_part(**upload, PartNumber=1, Body=b"mine")["ETag"]}
    s3.put("a", b"new")
    parts = {"MultipartUpload": {"Parts": [part]}}
    refused(client.complete_multipart_upload, 412, "PreconditionFailed", **upload, **parts, IfMatch=etag)
    refused(client.complete_multipart_upload, 412, "PreconditionFailed", **upload, **parts, IfNoneMatch="*")
    assert s3.get("a") == b"new"
    assert s3.uploads() == [upload["UploadId"]]
    s3.delete("a")
    refused(client.complete_multipart_upload, 404, "NoSuchKey", **upload, **parts, IfMatch=etag)
    client.complete_multipart_upload(**upload, **parts, IfNoneMatch="*")
    assert s3.get("a") == b"mine"
    assert s3.uploads() == []
    other = {**upload, "UploadId": "none"}
    refused(client.complete_multipart_upload, 404, "NoSuchUpload", **other, **parts)
    refused(client.upload_part, 404, "NoSuchUpload", **other, PartNumber=1, Body=b"")


def test_parts_are_copied_on_conditions_and_within_bounds(s3: Any, client: Any) -> None:
    etag = s3.put("a", bytes(6 * MIB))
    upload = begin(client, s3) | {"PartNumber": 1, "CopySource": {"Bucket": s3.bucket, "Key": "a"}}
    copy = client.upload_part_copy
    refused(copy, 400, "InvalidArgument", **upload, CopySourceRange=f"bytes=0-{6 * MIB}")
    refused(copy, 412, "PreconditionFailed", **upload, CopySourceIfMatch='"0"')
    refused(copy, 404, "NoSuchKey", **upload | {"CopySource": {"Bucket": s3.bucket, "Key": "b"}})
    s3.put("b", bytes(5 * MIB))
    small = upload | {"CopySource": {"Bucket": s3.bucket, "Key": "b"}}
    refused(copy, 400, "InvalidRequest", **small, CopySourceRange="bytes=0-9")
    s3.limit_parts(copied=5 * MIB)
    refused(copy, 400, "InvalidRequest", **upload, CopySourceIfMatch=etag)
    copied = copy(**upload, CopySourceIfMatch=etag, CopySourceRange=f"bytes=0-{5 * MIB - 1}")
    assert copied["CopyPartResult"]["ETag"]
    refused(client.copy_object, 412, "PreconditionFailed", **_copy_of(s3), CopySourceIfMatch='"0"')


def _copy_of(s3: Any) -> dict[str, Any]:
    return {"Bucket": s3.bucket, "Key": "c", "CopySource": {"Bucket": s3.bucket, "Key": "a"}}


def test_small_parts_and_wrong_digests_are_refused(s3: Any, client: Any) -> None:
    upload = begin(client, s3)
    of_nothing = "1B2M2Y8AsgTpgAmY7PhCfg=="
    refused(client.upload_part, 400, "BadDigest", **upload, PartNumber=1, Body=b"x", ContentMD5=of_nothing)
    parts = [
        {"PartNumber": number, "ETag": client.upload_part(**upload, PartNumber=number, Body=b"x")["ETag"]}
        for number in (1, 2)
    ]
    refused(client.complete_multipart_upload, 400, "EntityTooSmall", **upload, MultipartUpload={"Parts": parts})
    s3.limit_parts(smallest=1)
    client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get("a") == b"xx"


def test_faults_hit_the_requests_they_are_meant_for(s3: Any, client: Any) -> None:
    where = {"Bucket": s3.bucket, "Key": "a"}
    s3.put("a", b"old")
    slow = s3.fail("GetObject", times=2, skip=1, when=lambda request: request.key == "a")
    client.get_object(**where)
    for _ in range(2):
        refused(client.get_object, 503, "SlowDown", **where)
    client.get_object(**where)
    assert slow.happened == 2

    s3.lose_request("PutObject")
    with pytest.raises(ConnectionClosedError):
        client.put_object(**where, Body=b"new")
    assert s3.get("a") == b"old"
    s3.lose_answer("PutObject")
    with pytest.raises(ConnectionClosedError):
        client.put_object(**where, Body=b"new")
    assert s3.get("a") == b"new"
    assert [request.status for request in s3.log] == [200, 503, 503, 200, 0, 0]


def test_something_can_happen_between_two_requests(s3: Any, client: Any) -> None:
    etag = s3.put("a", b"old")
    s3.before("PutObject", lambda request: s3.put("a", b"theirs"))
    refused(client.put_object, 412, "PreconditionFailed", Bucket=s3.bucket, Key="a", Body=b"mine", IfMatch=etag)
    assert s3.get("a") == b"theirs"


def test_obstore_reads_by_the_options(s3: Any) -> None:
    obstore = pytest.importorskip("obstore")
    s3.put("x/ü b.parquet", b"0123456789")
    options = dict(s3.storage_options)
    http = {"allow_http": options.pop("allow_http")}
    store = obstore.store.S3Store(s3.bucket, config=options, client_options=http)
    answer = obstore.get(store, "x/ü b.parquet", options={"range": {"suffix": 4}})
    assert bytes(answer.bytes()) == b"6789"
    assert answer.meta["e_tag"] == s3.head("x/ü b.parquet").etag
    assert [entry["path"] for entry in obstore.list(store).collect()] == ["x/ü b.parquet"]
