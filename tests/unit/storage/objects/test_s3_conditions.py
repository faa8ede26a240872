"""Before the first write in place a store shows what it does; one that does not keep its word is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from support.servers.s3_objects import CUT, KEY, NEW, OLD, PART, SIZES, TAIL, operations, replace

from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, StorageError
from parquet_bloom.storage.objects import store_proofs
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.object_state import PROBE
from parquet_bloom.storage.objects.s3_rewrite import rewrite_in_place

THEIRS = {size: np.random.default_rng(3).bytes(len(old)) for size, old in OLD.items()}
PUT, COPY, COMPLETE = "PutObject", "UploadPartCopy", "CompleteMultipartUpload"
WRITES = (PUT, "CreateMultipartUpload", "UploadPart", COPY, COMPLETE)


@pytest.fixture(autouse=True)
def quick(s3: Any) -> None:
    """Several parts of a modest object, and no pauses between attempts."""
    s3.limit_parts(smallest=PART)
    s3.storage_options |= {"init_backoff": 0, "max_backoff": 0, "max_retries": 2}


def probes(s3: Any) -> list[str]:
    """Keys of probes that were left, and of every version of them."""
    with s3._server.lock:
        return [key for key in s3._server.objects.get_bucket(s3.bucket).keys if PROBE in key]


def on_object(s3: Any) -> list[str]:
    """Return the requests that write the object."""
    return [request.operation for request in s3.log if request.operation in WRITES and request.key == KEY]


def of_probe(s3: Any) -> list[str]:
    return operations(s3, of_object=False)


# What is shown


SHOWN = {
    # Written, a false etag, the right one; then what it has, and away with it.
    "small": [PUT, PUT, PUT, "HeadObject", "GetObjectAcl", "DeleteObject"],
    "large": [
        *[PUT, "CreateMultipartUpload", COPY, COPY, COMPLETE, COMPLETE],
        *["HeadObject", "GetObjectAcl", "DeleteObject"],
    ],
}


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_a_bucket_shows_it_once(s3: Any, size: str) -> None:
    for shown in (SHOWN[size], []):
        s3.put(KEY, OLD[size])
        assert replace(s3, size) is None
        assert s3.get(KEY) == NEW[size]
        assert of_probe(s3) == shown
        assert (probes(s3), s3.uploads()) == ([], [])


def test_each_bucket_shows_it_for_itself(s3: Any) -> None:
    """One endpoint may stand before stores of several kinds, and a client serves all of its buckets."""
    s3.put(KEY, OLD["small"])
    location = ObjectStores(s3.storage_options).locate(s3.url(KEY))
    assert location is not None
    with ObjectSource(location) as source:
        setting = rewrite_in_place(source, SIZES)._proof_context()
    setting.client.create_bucket(Bucket=f"{s3.bucket}-2")
    for bucket, shown in ((s3.bucket, SHOWN["small"]), (s3.bucket, []), (f"{s3.bucket}-2", SHOWN["small"])):
        s3.clear_log()
        store_proofs.prove_put(setting._replace(bucket=bucket), {"Metadata": {}})
        assert of_probe(s3) == shown, bucket


def test_only_what_is_needed_is_shown(s3: Any) -> None:
    s3.conditions(ignored=[COPY, COMPLETE])
    s3.put(KEY, OLD["small"])
    assert replace(s3, "small") is None
    s3.conditions(ignored=[PUT])
    s3.put(KEY, OLD["large"])
    assert replace(s3, "large") is None
    assert s3.get(KEY) == NEW["large"]


@pytest.mark.ci
def test_threads_wait_for_the_one_that_asks(s3: Any) -> None:
    s3.delay(0.01)
    errors: list[Any] = []
    for number in range(6):
        s3.put(f"lake/{number}.parquet", OLD["small"])

    def embed(number: int) -> None:
        location = ObjectStores(s3.storage_options).locate(s3.url(f"lake/{number}.parquet"))
        assert location is not None
        try:
            with ObjectSource(location) as source, rewrite_in_place(source, SIZES) as new:
                new.copy_prefix(100)
                new.commit()
        except ParquetBloomError as error:
            errors.append(error)

    for ignored in ([], [PUT]):
        s3.conditions(ignored=ignored)
        store_proofs._PROOFS.clear()
        s3.clear_log()
        threads = [threading.Thread(target=embed, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({request.key for request in s3.log if PROBE in request.key}) == 1
    assert sorted(error.path for error in errors) == [s3.url(f"lake/{number}.parquet") for number in range(6)]
    assert probes(s3) == []


# What is refused


@pytest.mark.ci
@pytest.mark.parametrize("way", ["ignored", "unknown", "refused"])
@pytest.mark.parametrize(("size", "operation"), [("small", PUT), ("large", COPY), ("large", COMPLETE)])
def test_a_store_that_does_not_keep_its_word_is_refused_before_anything_is_written(
    s3: Any, size: str, operation: str, way: str
) -> None:
    s3.conditions(**{way: [operation]})
    etag = s3.put(KEY, OLD[size])
    for _ in range(2):  # the second time without asking again
        error = replace(s3, size)
        assert isinstance(error, StorageError)
        assert not isinstance(error, ConcurrentChangeError)
        text = "ignores" if way == "ignored" else "cannot do conditional writes"
        assert text in str(error)
        assert operation in str(error)
        assert str(error).endswith("give an output elsewhere (output=)")
        assert f"at {s3.endpoint.removeprefix('http://')}" in str(error)
        assert "Werkzeug" in str(error) or "werkzeug" in str(error)  # what the server calls itself
        assert s3.head(KEY).etag == etag
        assert on_object(s3) == []
        assert (probes(s3), s3.uploads()) == ([], [])
    assert of_probe(s3) == []


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_each_condition_has_the_spelling_that_the_store_takes(s3: Any, size: str) -> None:
    for bare in ([PUT], [COPY], [COMPLETE], [COPY, COMPLETE]):
        s3.conditions(bare=bare)
        store_proofs._PROOFS.clear()
        s3.put(KEY, OLD[size])
        assert replace(s3, size) is None
        assert s3.get(KEY) == NEW[size]


def test_another_key_gets_a_plain_upload_where_copies_are_refused(s3: Any) -> None:
    for way in ("unknown", "refused"):
        s3.conditions(**{way: [COPY]})
        s3.put(KEY, OLD["large"])
        assert replace(s3, "large", target="lake/b.parquet") is None
        assert s3.get("lake/b.parquet") == NEW["large"]
        assert "UploadPart" in s3.operations()
        assert (of_probe(s3), s3.uploads()) == ([], [])
        s3.before(COPY, lambda request: s3.put(KEY, THEIRS["large"]))
        assert isinstance(replace(s3, "large", target="lake/b.parquet"), ConcurrentChangeError)
        assert s3.get("lake/b.parquet") == NEW["large"]


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_forbidden_operations_are_named(s3: Any, size: str) -> None:
    s3.put(KEY, OLD[size])
    for operation, permission in ((PUT, "s3:PutObject"), ("DeleteObject", "s3:DeleteObject")):
        fault = s3.fail(
            operation, status=403, code="AccessDenied", times=1000, when=lambda request: PROBE in request.key
        )
        error = replace(s3, size)
        assert isinstance(error, StorageError)
        assert permission in str(error)
        assert "AccessDenied" in str(error)
        assert on_object(s3) == []
        assert s3.get(KEY) == OLD[size]
        if operation == "DeleteObject":
            assert [key for key in probes(s3) if key in str(error)] == probes(s3) != []
        fault.times = 0
    assert replace(s3, size) is None  # that it could not be shown is not remembered


# The probe is always cleared away


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
@pytest.mark.parametrize("way", ["fail", "lose_request", "lose_answer", "refuse"])
def test_nothing_is_left_whatever_goes_wrong_once(s3: Any, size: str, way: str) -> None:
    refusal = {"status": 403, "code": "AccessDenied"} if way == "refuse" else {}
    for step in range(len(SHOWN[size])):
        store_proofs._PROOFS.clear()
        s3.put(KEY, OLD[size])
        harm = s3.fail if way == "refuse" else getattr(s3, way)
        fault = harm(skip=step, when=lambda request: PROBE in request.key, **refusal)
        error = replace(s3, size)
        assert fault.happened == 1
        lost = way == "lose_answer" and SHOWN[size][step] == "CreateMultipartUpload"  # no client got its number
        retained = way == "refuse" and SHOWN[size][step] == "DeleteObject" and error is not None
        # A version that may not be deleted is deleted as anybody deletes.
        if way == "refuse" and (SHOWN[size][step] not in ("GetObjectAcl", "DeleteObject") or retained):
            assert isinstance(error, StorageError)
            assert s3.get(KEY) == OLD[size]
        else:
            assert error is None
            assert s3.get(KEY) == NEW[size]
        assert len(s3.uploads()) == lost
        assert len(probes(s3)) == retained
        for key in probes(s3):
            s3.delete(key)
        for upload in s3.uploads():
            with s3._server.lock:
                del s3._server.objects.get_bucket(s3.bucket).multiparts[upload]


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_no_version_of_it_is_left_if_an_answer_gets_lost(s3: Any, client: Any, size: str) -> None:
    client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    for step in range(len(SHOWN[size])):
        store_proofs._PROOFS.clear()
        s3.put(KEY, OLD[size])
        fault = s3.lose_answer(skip=step, when=lambda request: PROBE in request.key)
        assert replace(s3, size) is None
        assert fault.happened == 1
        assert PROBE not in str(client.list_objects_v2(Bucket=s3.bucket))
        answer = client.list_object_versions(Bucket=s3.bucket)
        assert not [entry for entry in answer["Versions"] if PROBE in entry["Key"]]


# Another writer, on every kind of store


KINDS: dict[str, dict[str, list[str]]] = {
    "heeds all": {},
    "ignores PUT's": {"ignored": [PUT]},
    "ignores copies'": {"ignored": [COPY]},
    "ignores the end's": {"ignored": [COMPLETE]},
    "ignores all": {"ignored": [PUT, COPY, COMPLETE, "GetObject", "HeadObject"]},
    "bare": {"bare": [PUT, COPY, COMPLETE]},
    "501": {"unknown": [PUT, COPY, COMPLETE]},
    "refuses": {"refused": [PUT, COPY, COMPLETE]},
}


RACES = [
    *((size, kind, "before") for size in OLD for kind in KINDS),
    *((size, kind, "after") for size in OLD for kind in ("heeds all", "ignores all")),
]
FAST = [race for race in RACES if race[0] == "small" or race[1] in ("heeds all", "501")]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("size", "kind", "when"),
    [*FAST, *(pytest.param(*race, marks=pytest.mark.long) for race in RACES if race not in FAST)],
)
def test_another_writer_at_every_moment_loses_nothing(s3: Any, size: str, kind: str, when: str) -> None:
    s3.conditions(**KINDS[kind])
    ends = set()
    for step in count():
        if step % 2:  # the others on a bucket that has shown it
            store_proofs._PROOFS.clear()
        s3.put(KEY, OLD[size])
        replaced: list[bytes] = []

        def meddle(request: Any, replaced: list[bytes] = replaced) -> None:
            replaced.append(s3.get(KEY))
            s3.put(KEY, THEIRS[size])

        fault = getattr(s3, when)(None, meddle, skip=step)
        error = replace(s3, size)
        if not fault.happened:
            fault.times = 0
            break
        ends.add(judged(s3, size, error, replaced[0]))
        assert (probes(s3), s3.uploads()) == ([], [])
    refused = kind not in ("heeds all", "bare") and (kind, size) not in (
        ("ignores PUT's", "large"),
        ("ignores copies'", "small"),
        ("ignores the end's", "small"),
    )
    assert ends <= ({"refused"} if refused else {"theirs", "theirs after ours", "ours of theirs"}) | {"theirs"}


def judged(s3: Any, size: str, error: ParquetBloomError | None, replaced: bytes) -> str:
    """In a word how a race ended; an assertion fails if a write is lost, or two are mixed."""
    final = s3.get(KEY)
    if error is None:
        if final == THEIRS[size][:-CUT] + TAIL:
            return "ours of theirs"
        assert (final, replaced) == (THEIRS[size], NEW[size])
        return "theirs after ours"
    assert final == THEIRS[size]
    assert replaced == OLD[size]
    return "theirs" if isinstance(error, ConcurrentChangeError) else "refused"


# A store that shows one thing and does another


def forget(s3: Any, **conditions: list[str]) -> None:
    """Let the bucket show that it heeds conditions, and from then on not heed these."""
    for size in OLD:
        s3.put(KEY, OLD[size])
        assert replace(s3, size) is None
    s3.conditions(**conditions)


@pytest.mark.ci
def test_a_mixture_is_noticed_and_said(s3: Any, client: Any) -> None:
    forget(s3, ignored=[COPY, COMPLETE])
    for versioned in (False, True):
        if versioned:
            client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
        s3.put(KEY, OLD["large"])
        version = s3.head(KEY).version_id
        # Theirs is there while parts are copied, and at no other time.
        s3.before(COPY, lambda request: s3.put(KEY, THEIRS["large"]))
        s3.after(COPY, lambda request: s3.put(KEY, OLD["large"]), skip=1)
        error = replace(s3, "large")
        if "not what was planned" not in str(error):
            assert isinstance(error, ConcurrentChangeError)  # a sample of the copied range met them
            continue
        assert isinstance(error, ConcurrentChangeError)
        assert s3.head(KEY).etag.strip('"') in str(error)
        assert (f"kept as {version}" if versioned else "keeps no versions") in str(error)


@pytest.mark.ci
def test_the_last_look_notices_what_no_condition_would(s3: Any) -> None:
    forget(s3, ignored=[PUT, COMPLETE])
    for size, theirs in THEIRS.items():
        s3.put(KEY, OLD[size])
        s3.before("HeadObject", lambda request, theirs=theirs: s3.put(KEY, theirs), skip=1)
        assert isinstance(replace(s3, size), ConcurrentChangeError)
        assert s3.get(KEY) == THEIRS[size]
        assert on_object(s3)[-1:] != [COMPLETE if size == "large" else PUT]


# Tags, metadata, access control lists


@pytest.fixture
def tagged(s3: Any, client: Any) -> Callable[[str], None]:
    def write(size: str) -> None:
        client.put_object(Bucket=s3.bucket, Key=KEY, Body=OLD[size], Tagging="team=lake")

    return write


def test_tags_that_an_upload_would_lose_are_kept_by_refusing(s3: Any, client: Any, tagged: Any) -> None:
    s3.drop_tags()
    tagged("large")
    error = replace(s3, "large")
    assert isinstance(error, StorageError)
    assert "does not keep what a multipart upload gives to an object: tags" in str(error)
    assert on_object(s3) == []
    assert s3.get(KEY) == OLD["large"]
    tagged("small")
    assert replace(s3, "small") is None
    assert client.get_object_tagging(Bucket=s3.bucket, Key=KEY)["TagSet"] == [{"Key": "team", "Value": "lake"}]


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_where_nothing_is_said_of_tags_there_are_none(s3: Any, client: Any, size: str) -> None:
    s3.drop_tags()
    object_key = {"Bucket": s3.bucket, "Key": KEY}
    s3.put(KEY, b"")
    for _ in range(2):
        upload = client.create_multipart_upload(**object_key)["UploadId"]
        part = client.upload_part(**object_key, UploadId=upload, PartNumber=1, Body=OLD[size])["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
        client.complete_multipart_upload(**object_key, UploadId=upload, MultipartUpload=parts)
        assert "TagSet" not in client.get_object_tagging(**object_key)
        assert replace(s3, size) is None
        assert s3.get(KEY) == NEW[size]
    assert (of_probe(s3), probes(s3), s3.uploads()) == ([], [], [])


@pytest.mark.parametrize("size", OLD)
def test_missing_tags_of_a_store_that_has_tags_are_doubted(s3: Any, tagged: Any, size: str) -> None:
    tagged(size)
    s3.fail("GetObjectTagging", status=200, raw=b"", times=1000, when=lambda request: request.key == KEY)
    error = replace(s3, size)
    assert "the response has no TagSet" in str(error)
    assert on_object(s3) == []
    assert (probes(s3), s3.uploads()) == ([], [])


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_concurrent_changes_are_not_undone(s3: Any, client: Any, size: str) -> None:
    object_key = {"Bucket": s3.bucket, "Key": KEY}
    deeds: dict[str, Callable[[Any], Any]] = {
        "tags": lambda request: client.put_object_tagging(
            **object_key, Tagging={"TagSet": [{"Key": "team", "Value": "other"}]}
        ),
        "access control list": lambda request: client.put_object_acl(**object_key, ACL="public-read"),
        "metadata": lambda request: client.put_object(**object_key, Body=OLD[size], Metadata={"owner": "other"}),
    }
    s3.put(KEY, OLD[size])
    assert replace(s3, size) is None
    for what, deed in deeds.items():
        s3.put(KEY, OLD[size])
        s3.before("GetObject", deed, skip=1)  # the first one opens it
        error = replace(s3, size)
        assert isinstance(error, ConcurrentChangeError), what
        assert f"another writer changed its {what} meanwhile" in str(error)
        assert s3.get(KEY) == OLD[size]


@pytest.mark.parametrize("size", OLD)
def test_an_access_control_list_is_kept(s3: Any, client: Any, size: str) -> None:
    object_key = {"Bucket": s3.bucket, "Key": KEY}
    everybody = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'
    client.put_object(**object_key, Body=OLD[size], GrantRead=everybody, GrantFullControl='id="admin"')
    before = client.get_object_acl(**object_key)
    assert len(before["Grants"]) == 2
    assert replace(s3, size) is None
    assert s3.get(KEY) == NEW[size]
    after = client.get_object_acl(**object_key)
    order = str
    assert sorted(after["Grants"], key=order) == sorted(before["Grants"], key=order)


@pytest.mark.parametrize("size", OLD)
def test_a_grant_that_no_new_object_can_have_is_not_lost(s3: Any, size: str) -> None:
    grants = (
        "<Grant><Grantee><EmailAddress>a@b.example</EmailAddress></Grantee><Permission>READ</Permission></Grant>",
        "<Grant><Grantee><ID>x</ID></Grantee><Permission>WRITE</Permission></Grant>",
        "<Grant><Grantee><ID>x</ID></Grantee></Grant>",  # as s3rver has it
    )
    s3.put(KEY, OLD[size])
    for grant in grants:
        raw = f"<AccessControlPolicy><AccessControlList>{grant}</AccessControlList></AccessControlPolicy>".encode()
        s3.fail("GetObjectAcl", status=200, raw=raw)
        error = replace(s3, size)
        assert "access control list has a grant" in str(error)
        assert on_object(s3) == []


@pytest.mark.parametrize("size", OLD)
def test_another_accounts_object_is_left_to_it(s3: Any, size: str) -> None:
    raw = b"<AccessControlPolicy><Owner><ID>them</ID></Owner><AccessControlList/></AccessControlPolicy>"
    s3.fail("GetObjectAcl", status=200, raw=raw, when=lambda request: request.key == KEY)
    s3.put(KEY, OLD[size])
    assert "belongs to another account (them)" in str(replace(s3, size))
    assert on_object(s3) == []


@pytest.mark.ci
@pytest.mark.parametrize("status", [403, 501])
def test_an_unreadable_acl_is_the_buckets_default(s3: Any, status: int) -> None:
    s3.fail("GetObjectAcl", status=status, code="AccessDenied", times=1000)
    s3.put(KEY, OLD["large"])
    assert replace(s3, "large") is None


@pytest.mark.ci
@pytest.mark.parametrize("size", OLD)
def test_unavoidable_losses_are_reported(s3: Any, client: Any, size: str) -> None:
    object_key = {"Bucket": s3.bucket, "Key": KEY}

    def write() -> None:
        client.put_object(**object_key, Body=OLD[size], Tagging="team=lake", CacheControl="max-age=60")

    write()
    assert replace(s3, size) is None
    write()
    last = COMPLETE if size == "large" else PUT
    s3.after(last, lambda request: client.put_object_tagging(**object_key, Tagging={"TagSet": []}), skip=1)
    error = replace(s3, size)
    assert error is None or "the store did not keep: tags" in str(error)
    assert store_proofs.WAY_OUT not in str(error)


def test_a_copy_that_does_not_find_the_key_is_an_upload(s3: Any) -> None:
    # Ceph's gateway does not find what has a percent sign in its name.
    s3.put(KEY, OLD["large"])
    s3.fail(COPY, times=10, status=404, code="NoSuchKey")
    assert replace(s3, "large", target="lake/b.parquet") is None
    assert s3.get("lake/b.parquet") == NEW["large"]
    assert s3.uploads() == []
