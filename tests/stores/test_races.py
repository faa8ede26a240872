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


def report(field: Field) -> str:
    """Say how the races ended, and when those that ended badly were played."""
    lines = [f"{field.store.version()}: {dict(field.outcomes.most_common())}"]
    lines += [f"    {outcome}: {moment}; {error}" for outcome, moment, error in field.bad[:10]]
    return "\n".join(lines)


# For moto, tests/unit/storage/objects/test_s3_conditions.py plays every moment.
@pytest.mark.parametrize(
    "store",
    ["radosgw", *(pytest.param(name, marks=pytest.mark.long) for name in ("swift", "s3rver", "moto"))],
    indirect=True,
)
def test_ten_races(field: Field) -> None:
    races.run(field, 10, at_writes=True)
    print(report(field))
    assert not field.bad, report(field)


@pytest.mark.long
@pytest.mark.parametrize("store", STORES, indirect=True)
def test_two_hundred_races(field: Field) -> None:
    races.run(field, 200)
    print(report(field))
    assert not field.bad, report(field)


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_which_objects_are_replaced(field: Field) -> None:
    replaced = {"moto": {"tiny", "small", "large"}, "radosgw": {"tiny", "small"}}.get(field.store.name, set())
    for size, in_parts in races.OBJECTS:
        field.outcomes.clear()
        requests = field.requests(size, in_parts, new_bucket=True)
        assert field.outcomes == {races.OURS if size in replaced else races.REFUSED: 1}, (size, in_parts)
        if size in replaced:
            assert ("CompleteMultipartUpload" if size == "large" else "PutObject") in requests


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
        assert field.race(Moment("small", False, False, False, number, after), blindly)
    assert field.outcomes == {races.LOST: 2}
    field.race(Moment("small", False, False, False, 0, False), blindly)
    field.race(Moment("small", False, False, False, 1, True), blindly)
    field.race(Moment("small", False, False, False, 2, False), blindly)
    assert field.outcomes == {races.LOST: 2, races.OURS_OF_THEIRS: 1, races.THEIRS_LATER: 1, races.OURS: 1}


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

    assert field.race(Moment("large", False, False, False, 2, False), copied)
    assert field.outcomes == {races.MIXED: 1}


@pytest.mark.parametrize(
    ("final", "replaced", "written", "error", "outcome"),
    [
        ("old", None, False, None, races.FALSE_SUCCESS),
        ("old", None, False, StorageError("no"), races.REFUSED),
        ("old", None, True, StorageError("no"), races.WRITTEN_FIRST),
        ("old", None, False, ConcurrentChangeError("changed"), races.FALSE_ALARM),
        ("old", "old", False, StorageError("no"), races.LOST),
        ("ours", None, True, None, races.OURS),
        ("ours", None, True, StorageError("no"), races.FALSE_FAILURE),
        ("ours", "old", True, None, races.LOST),
        ("theirs", "old", False, None, races.FALSE_SUCCESS),
        ("theirs", "ours", True, None, races.THEIRS_LATER),
        ("theirs", "old", True, ConcurrentChangeError("changed"), races.REFUSED_LATE),
        ("theirs", "old", False, StorageError("no"), races.REFUSED),
        ("theirs", "mixture", True, None, races.MIXED),
        ("mixture", "old", True, None, races.MIXED),
        ("ours_of_theirs", "old", True, None, races.OURS_OF_THEIRS),
    ],
)
def test_judgements(final: str, replaced: str | None, written: bool, error: StorageError | None, outcome: str) -> None:
    names = ("old", "theirs", "ours", "ours_of_theirs")
    versions = Versions(*(name.encode() for name in names))
    before = replaced.encode() if replaced else None
    assert judge(versions, final.encode(), before, replaced is not None, written, error) == outcome
