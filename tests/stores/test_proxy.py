"""The proxy applies the configured faults, and nothing else."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from proxy import HTML, Proxy, proxied
from servers import Store

DATA = bytes(range(256)) * 40


@pytest.fixture
def proxy(moto: Store) -> Iterator[Proxy]:
    with proxied(moto.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(moto: Store) -> str:
    bucket = moto.create_bucket()
    moto.put(bucket, "a", DATA)
    return bucket


def get(proxy: Proxy, bucket: str, method: str = "GET", timeout: float = 5) -> tuple[int, bytes]:
    """Ask once, with a signature that moto does not look at."""
    key = "Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    connection = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=timeout)
    try:
        connection.request(method, f"/{bucket}/a", headers={"Authorization": f"AWS4-HMAC-SHA256 {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("store", ["radosgw", "swift", "s3rver", "moto"], indirect=True)
def test_signed_requests_pass(store: Store) -> None:
    bucket = store.create_bucket()
    with proxied(store.endpoint) as proxy:
        client = store.new_client(proxy.endpoint)
        target: dict[str, Any] = {"Bucket": bucket, "Key": "a b/ü+%"}
        client.put_object(**target, Body=DATA, Metadata={"owner": "lake"})
        head = client.head_object(**target)
        assert (head["ContentLength"], head["Metadata"]) == (len(DATA), {"owner": "lake"})
        assert client.get_object(**target)["Body"].read() == DATA
        client.delete_object(**target)
        client.close()
        assert proxy.operations() == ["PutObject", "HeadObject", "GetObject", "DeleteObject"]
        first = proxy.log[0]
        assert (first.bucket, first.key, first.sent) == (bucket, "a b/ü+%", len(DATA))


def test_answers_of_its_own(proxy: Proxy, bucket: str) -> None:
    proxy.answer("GetObject")
    proxy.answer("GetObject", 200, HTML, skip=1)
    assert [get(proxy, bucket)[0] for _ in range(3)] == [503, 200, 200]
    proxy.clear()
    proxy.answer("GetObject", 200, HTML)
    assert get(proxy, bucket) == (200, HTML)
    assert get(proxy, bucket) == (200, DATA)


@pytest.mark.parametrize("after", [False, True])
def test_no_answer(proxy: Proxy, bucket: str, moto: Store, after: bool) -> None:
    proxy.silence("DeleteObject", after=after)
    with pytest.raises(TimeoutError):
        get(proxy, bucket, "DELETE", timeout=0.3)
    assert moto.get(bucket, "a") == (None if after else DATA)
    assert proxy.log[0].status == 0


def test_half_an_answer(proxy: Proxy, bucket: str) -> None:
    proxy.cut("GetObject")
    with pytest.raises(http.client.IncompleteRead) as caught:
        get(proxy, bucket)
    assert caught.value.partial == DATA[: len(DATA) // 2]
    proxy.before("GetObject", _lost)
    with pytest.raises(http.client.RemoteDisconnected):
        get(proxy, bucket)
    assert get(proxy, bucket) == (200, DATA)


def _lost(request: Any) -> None:
    raise ConnectionResetError


def test_between_two_requests(proxy: Proxy, bucket: str, moto: Store) -> None:
    proxy.at(0, lambda: moto.put(bucket, "a", b"1") and None, after=True)
    proxy.at(2, lambda: moto.put(bucket, "a", b"2") and None)
    assert [get(proxy, bucket)[1] for _ in range(4)] == [DATA, b"1", b"2", b"2"]


def test_it_waits_for_what_a_client_has_left(proxy: Proxy, bucket: str, moto: Store) -> None:
    proxy.before("DeleteObject", lambda request: time.sleep(0.5))
    with pytest.raises(TimeoutError):
        get(proxy, bucket, "DELETE", timeout=0.1)
    proxy.settle()
    assert moto.get(bucket, "a") is None


def test_delay(proxy: Proxy, bucket: str) -> None:
    proxy.delay = 0.2
    begin = time.monotonic()
    assert get(proxy, bucket) == (200, DATA)
    assert time.monotonic() - begin >= 0.2


def test_inner_errors_are_raised(bucket: str, moto: Store) -> None:
    def wrong() -> None:
        raise ZeroDivisionError

    proxy = Proxy(moto.endpoint)
    proxy.at(0, wrong)
    with pytest.raises((http.client.HTTPException, OSError)):
        get(proxy, bucket)
    with pytest.raises(ZeroDivisionError):
        proxy.check()
    proxy.close()
