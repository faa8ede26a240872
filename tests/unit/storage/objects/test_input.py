"""Errors of callers about stores and paths are reported on one line, by an exception of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.errors import StorageError

KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "aws_region": "us-east-1"}


@pytest.mark.parametrize(
    "endpoint", ["localhost:9000", "nonsense", "", "http://", "http:///x", "http://a b", "http://[", "ftp://h"]
)
def test_an_endpoint_that_is_not_a_url(endpoint: str) -> None:
    with pytest.raises(StorageError, match=r"^s3://b/a\.parquet: (?!.*\n)"):
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=KEYS | {"endpoint": endpoint})


def test_an_endpoint_of_the_environment_that_is_not_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(StorageError, match="the endpoint 'localhost:9000' is not a URL"):
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=KEYS)


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
        parquet_bloom.prune("s3://b/a.parquet", "id = 1", storage_options=KEYS | {"init_backoff": 1e300})


@pytest.mark.parametrize("path", [None, 5, [None], ["a.parquet", 5]])
@pytest.mark.parametrize(
    "ask", [parquet_bloom.prune, parquet_bloom.read_table, lambda path, _: parquet_bloom.dataset(path)]
)
def test_no_path(ask: Any, path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parquet_bloom.write_table(pa.table({"id": [1]}), "a.parquet", ["id"])
    with pytest.raises(StorageError, match=r"a path (is|must be) a string or a path object, not (NoneType|int)"):
        ask(path, "id = 1")


@pytest.mark.parametrize("path", [None, 5])
def test_no_path_to_open(path: Any) -> None:
    for ask in (parquet_bloom.open, parquet_bloom.verify, lambda location: parquet_bloom.embed(location, ["id"])):
        with pytest.raises(StorageError, match=r"a path (is|must be) a string or a path object"):
            ask(path)


def test_a_path_of_characters_that_no_name_has() -> None:
    with pytest.raises(StorageError, match="characters that no file's name can"):
        parquet_bloom.prune("/tmp/\ud800.parquet", "id = 1")


def test_a_path_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet_bloom.write_table(pa.table({"id": [1]}), path, ["id"])
    assert parquet_bloom.read_table(str(path).encode(), "id = 1")["id"].to_pylist() == [1]


def test_a_folder_is_not_a_writable_object(s3: Any, tmp_path: Path) -> None:
    table, options = pa.table({"id": [1]}), s3.storage_options
    parquet_bloom.write_table(table, s3.url("a.parquet"), ["id"], storage_options=options)
    with pytest.raises(StorageError, match="the URL does not name an object"):
        parquet_bloom.write_table(table, s3.url("lake/"), ["id"], storage_options=options)
    with pytest.raises(StorageError, match="the URL does not name an object"):
        parquet_bloom.embed(s3.url("a.parquet"), ["id"], output=s3.url("lake/"), storage_options=options)
    assert s3.get("lake") is None
