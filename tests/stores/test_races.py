"""In-place embedding against another writer, on every store: nobody's write is lost, and nothing is mixed.

Where a store does not heed what the way relies on, the call has to refuse before it writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import races
from races import Field, Moment, Versions, judge
from servers import cases

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError, StorageError

STORES = cases("radosgw", "swift", "s3rver", "moto", "moto-lax")


# For moto, tests/unit/storage/objects/test_s3_conditions.py plays every moment.
@pytest.mark.parametrize(
    "store",
    ["radosgw", *(pytest.param(name, marks=pytest.mark.long) for name in ("swift", "s3rver", "moto"))],
    indirect=True,
)
def test_ten_races(field: Field) -> None:
    races.run(field, 10, at_writes=True)


@pytest.mark.long
@pytest.mark.parametrize("store", STORES, indirect=True)
def test_two_hundred_races(field: Field) -> None:
    races.run(field, 200)


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_which_objects_are_replaced(field: Field) -> None:
    replaced = {"moto": {"tiny", "small", "large"}, "radosgw": {"tiny", "small"}}.get(field.store.name, set())
    for size, in_parts in races.OBJECTS:
        assert field.play(Moment(size, in_parts, new_bucket=True)) == (size in replaced, False)
        if size in replaced:
            assert ("CompleteMultipartUpload" if size == "large" else "PutObject") in field.operations()


# Of the judge


@pytest.mark.parametrize("store", ["moto-lax"], indirect=True)
def test_a_write_that_is_lost_is_noticed(field: Field, tmp_path: Path) -> None:
    def blindly(url: str, options: dict[str, str]) -> None:
        client = field.store.new_client(field.proxy.endpoint)
        target = dict(zip(("Bucket", "Key"), url.removeprefix("s3://").split("/", 1), strict=True))
        path = tmp_path / "a.parquet"
        path.write_bytes(client.get_object(**target)["Body"].read())
        parquet_bloom.embed(path, ["id"])
        client.put_object(**target, Body=path.read_bytes())
        client.close()

    for number, after in ((0, True), (1, False)):
        with pytest.raises(AssertionError, match="LOST"):
            field.play(Moment("small", number=number, after=after), blindly)
    for number, after, came in ((0, False, True), (1, True, True), (2, False, False)):  # before, after, never
        assert field.play(Moment("small", number=number, after=after), blindly) == (True, came)


@pytest.mark.parametrize("store", ["moto-lax"], indirect=True)
def test_a_mixture_is_noticed(field: Field) -> None:
    def copied(url: str, options: dict[str, str]) -> None:
        client = field.store.new_client(field.proxy.endpoint)
        target = dict(zip(("Bucket", "Key"), url.removeprefix("s3://").split("/", 1), strict=True))
        old = client.get_object(**target)["Body"].read()
        upload = client.create_multipart_upload(**target)["UploadId"]
        span = {"CopySourceRange": f"bytes=0-{5 * 2**20 - 1}", "PartNumber": 1}
        first = client.upload_part_copy(**target, UploadId=upload, CopySource=target, **span)["CopyPartResult"]["ETag"]
        last = client.upload_part(**target, UploadId=upload, PartNumber=2, Body=old[5 * 2**20 :])["ETag"]
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in ((1, first), (2, last))]
        client.complete_multipart_upload(**target, UploadId=upload, MultipartUpload={"Parts": parts})
        client.close()

    with pytest.raises(AssertionError, match="MIXED"):
        field.play(Moment("large", number=2), copied)


def test_what_is_said_falsely_is_noticed() -> None:
    versions = Versions(b"old", b"theirs", b"ours", b"ours of theirs")
    no, other = StorageError("no"), ConcurrentChangeError("changed")
    for final, seen, written, error in (
        (b"old", [], False, None),
        (b"old", [], True, no),
        (b"old", [], False, other),
        (b"ours", [], True, no),
        (b"theirs", [b"old"], False, None),
    ):
        with pytest.raises(AssertionError):
            judge(versions, final, seen, written, error)
    for final, seen, written, error in ((b"old", [], False, no), (b"theirs", [b"old"], True, other)):
        judge(versions, final, seen, written, error)
