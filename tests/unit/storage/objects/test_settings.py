"""Settings of stores: both clients speak to the store that they name, and mistakes are reported on one line."""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore import UNSIGNED

import parquet_bloom
from parquet_bloom.errors import StorageError
from parquet_bloom.storage.objects import s3_client
from parquet_bloom.storage.objects.location import make_store_handle
from parquet_bloom.storage.objects.request_limits import RequestLimits, seconds

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


@pytest.mark.ci
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


@pytest.mark.ci
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


# The limits of requests, read from the settings that a store was made with


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30), ("500ms", 0.5), ("1 minute 30s", 90), ("2", 2), (2, 2), (0.5, 0.5), (timedelta(seconds=7), 7)],
)
def test_durations(text: object, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "5s later", None])
def test_invalid_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        seconds(text)


def test_options_reach_the_limits() -> None:
    options = {"timeout": "3s", "connect_timeout": 1, "max_retries": 2, "retry_timeout": 4, "max_backoff": 0.25}
    limits = RequestLimits.from_store(make_store_handle("s3://lake", options, "s3://lake/a").store)
    assert limits == RequestLimits(3.0, 1.0, 2, 0.1, 0.25, 4.0)


def test_defaults() -> None:
    assert RequestLimits.from_store(make_store_handle("s3://lake", {}, "s3://lake/a").store) == RequestLimits()
    assert RequestLimits.from_store(object()) == RequestLimits()


def test_pauses_double_up_to_the_longest() -> None:
    limits = RequestLimits(init_backoff=1.0, max_backoff=4.0)
    for tries, longest in ((1, 1), (2, 2), (3, 4), (4, 4), (5000, 4)):
        assert limits.pause(tries) == longest


# Errors of callers about stores and paths are reported on one line, by an exception of the project


S3_KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "aws_region": "us-east-1"}


@pytest.mark.parametrize(
    "endpoint", ["localhost:9000", "nonsense", "", "http://", "http:///x", "http://a b", "http://[", "ftp://h"]
)
def test_an_endpoint_that_is_not_a_url(endpoint: str) -> None:
    with pytest.raises(StorageError, match=r"^s3://b/a\.parquet: (?!.*\n)"):
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=S3_KEYS | {"endpoint": endpoint})


@pytest.mark.parametrize("path", ["a.parquet", "lake/"])
def test_a_panic_of_obstore_is_an_error(path: str) -> None:
    from obstore.store import S3Store

    store = S3Store("b", endpoint="nonsense", access_key_id="a", secret_access_key="b", region="us-east-1")
    with pytest.raises(StorageError, match=f"^{path}: cannot (open|list it): "):
        parquet_bloom.prune(path, "id = 1", filesystem=store)


def test_http_that_is_not_allowed_says_what_allows_it(s3: Any) -> None:
    options = {name: value for name, value in s3.storage_options.items() if name != "allow_http"}
    with pytest.raises(StorageError, match="allow_http=true"):
        parquet_bloom.prune(s3.url("a.parquet"), "id = 1", storage_options=options)


@pytest.mark.parametrize("options", ["aws_region=x", [("aws_region", "x")], 7])
def test_options_that_are_not_a_mapping(options: Any) -> None:
    with pytest.raises(StorageError, match="storage_options must be a mapping"):
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=options)


def test_a_pause_without_end() -> None:
    with pytest.raises(StorageError, match="a retry option is not a number"):
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=S3_KEYS | {"init_backoff": 1e300})


@pytest.mark.parametrize("path", [None, 5, [None], ["a.parquet", 5]])
@pytest.mark.parametrize(
    "ask", [parquet_bloom.prune, parquet_bloom.read_table, lambda path, _: parquet_bloom.dataset(path)]
)
def test_no_path(ask: Any, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parquet_bloom.write_table(pa.table({"id": [1]}), "a.parquet", ["id"])
    with pytest.raises(StorageError, match=r"a path (is|must be) a string or a path object, not (NoneType|int)"):
        ask(path, "id = 1")


def test_a_folder_is_not_a_writable_object(s3: Any, tmp_path: Path) -> None:
    table, options = pa.table({"id": [1]}), s3.storage_options
    parquet_bloom.write_table(table, s3.url("a.parquet"), ["id"], storage_options=options)
    with pytest.raises(StorageError, match="the URL does not name an object"):
        parquet_bloom.write_table(table, s3.url("lake/"), ["id"], storage_options=options)
    with pytest.raises(StorageError, match="the URL does not name an object"):
        parquet_bloom.embed(s3.url("a.parquet"), ["id"], output=s3.url("lake/"), storage_options=options)
    assert s3.get("lake") is None
