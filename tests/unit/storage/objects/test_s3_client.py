"""boto3's client speaks to the store that obstore's options name."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import pytest
from botocore import UNSIGNED

from parquet_bloom.errors import StorageError
from parquet_bloom.storage.objects import s3_client

PATH = "s3://lake/a.parquet"
KEYS = {"aws_access_key_id": "ours", "aws_secret_access_key": "secret", "aws_region": "eu-central-1"}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


def url(client: Any) -> str:
    """Return the address that a request for an object goes to."""
    signed: str = client.generate_presigned_url("head_object", Params={"Bucket": "lake", "Key": "k"})
    return signed.partition("?")[0]


def credentials(client: Any) -> tuple[str, str, str | None]:
    result = client._request_signer._credentials.get_frozen_credentials()
    return result.access_key, result.secret_key, result.token


def test_options_have_several_names() -> None:
    client = s3_client.connect("lake", KEYS | {"AWS_SESSION_TOKEN": "token"}, PATH)
    assert credentials(client) == ("ours", "secret", "token")
    assert client.meta.region_name == "eu-central-1"
    plain = {"access_key_id": "ours", "secret_access_key": "secret", "token": "t", "default_region": "eu-west-1"}
    client = s3_client.connect("lake", plain, PATH)
    assert credentials(client) == ("ours", "secret", "t")
    assert client.meta.region_name == "eu-west-1"


@pytest.mark.parametrize("name", ["aws_endpoint", "endpoint", "aws_endpoint_url", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_has_the_bucket_in_the_path(name: str) -> None:
    client = s3_client.connect("lake", KEYS | {name: "http://127.0.0.1:9000", "allow_http": "true"}, PATH)
    assert url(client) == "http://127.0.0.1:9000/lake/k"


def test_an_endpoint_with_the_bucket_in_its_name() -> None:
    options = KEYS | {"virtual_hosted_style_request": "true"}
    client = s3_client.connect("lake", options | {"endpoint": "http://lake.store.example:9000"}, PATH)
    assert url(client) == "http://lake.store.example:9000/k"
    assert url(s3_client.connect("lake", options, PATH)).startswith("https://lake.s3.")
    with pytest.raises(StorageError, match="does not begin with the bucket's name"):
        s3_client.connect("lake", options | {"endpoint": "http://store.example"}, PATH)


def test_the_environment_counts_where_no_option_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9001")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    client = s3_client.connect("lake", {}, PATH)
    assert url(client) == "http://127.0.0.1:9001/lake/k"
    assert client.meta.region_name == "us-west-2"
    assert credentials(client) == ("theirs", "hidden", None)
    client = s3_client.connect("lake", KEYS | {"endpoint": "http://127.0.0.1:9002"}, PATH)
    assert url(client) == "http://127.0.0.1:9002/lake/k"
    assert credentials(client) == ("ours", "secret", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "later")
    assert credentials(s3_client.connect("lake", {}, PATH))[0] == "later"


def test_without_a_signature() -> None:
    assert s3_client.connect("lake", {"skip_signature": "true"}, PATH).meta.config.signature_version is UNSIGNED


def test_clients_are_made_once() -> None:
    assert s3_client.connect("lake", KEYS, PATH) is s3_client.connect("lake", dict(KEYS), PATH)
    assert s3_client.connect("lake", KEYS, PATH) is not s3_client.connect("lake", KEYS | {"aws_region": "x-1"}, PATH)


@pytest.mark.parametrize("name", ["aws_sse_customer_key_base64", "aws_role_arn", "request_payer", "colour"])
def test_options_that_it_cannot_follow_are_named(name: str) -> None:
    with pytest.raises(StorageError, match=rf"^{PATH}: the option '{name}' is not supported .* elsewhere$"):
        s3_client.connect("lake", KEYS | {name: "x"}, PATH)


def test_options_without_meaning_are_passed_over() -> None:
    s3_client.connect("lake", KEYS | {"timeout": "30s", "bucket": "lake", "aws_conditional_put": "etag"}, PATH)


@pytest.mark.parametrize(
    ("version", "is_old"), [("1.36.0", False), ("1.100.2", False), ("2.0", False), ("1.35.99", True)]
)
def test_an_old_boto3_is_distinguished_from_a_newer_one(
    version: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.__version__", version)
    with pytest.raises(StorageError, match=r"needs boto3 1\.36 or newer") if is_old else nullcontext():
        s3_client.connect("lake", KEYS, PATH)


def test_an_endpoint_that_is_none_is_an_error_of_ours() -> None:
    with pytest.raises(StorageError, match="cannot make an S3 client"):
        s3_client.connect("lake", KEYS | {"endpoint": "no url"}, PATH)


def test_without_credentials_and_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    client = s3_client.connect("lake", {"region": "eu-central-1"}, PATH)
    error = failure(client)
    assert str(s3_client.make_error(error, "look", PATH)) == f"{PATH}: look: Unable to locate credentials"
    client = s3_client.connect("lake", KEYS | {"endpoint": "http://127.0.0.1:9"}, PATH)
    error = failure(client)
    assert "look: Could not connect to the endpoint" in str(s3_client.make_error(error, "look", PATH))
    assert (s3_client.http_status(error), s3_client.error_code(error)) == (0, "")


def failure(client: Any) -> Exception:
    with pytest.raises(s3_client.failure_types()) as caught:
        client.head_object(Bucket="lake", Key="k")
    return caught.value
