"""Secrets in texts: recognized ones, and texts that are not secrets."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator

import pytest

from parquet_bloom import redaction
from parquet_bloom.errors import StorageError
from parquet_bloom.redaction import LibraryError, redacted, without_secrets


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    redaction.forget()
    yield
    redaction.forget()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@host/x?a=b: no", "https://...@host/x?...: no"),
        ("s3://key:pass@bucket/x", "s3://...@bucket/x"),
        ("https://token@host", "https://...@host"),
        ("http://user:pa/ss#word@host/x", "http://...@host/x"),
        ("http://user:cut-of", "http://..."),
        ("abfss://c:key@a/x", "abfss://...@a/x"),
        ("'https://h/a?b=c', x", "'https://h/a?...', x"),
        ("https://h/a#access_token=b", "https://h/a#..."),
        ("url: /b/k?X-Amz-Signature=abc&x=1 (Caused", "url: /b/k?X-Amz-Signature=...&x=1 (Caused"),
        ("https%3A%2F%2Fh%3FX-Amz-Signature%3Dabc%26", "https%3A%2F%2Fh%3FX-Amz-Signature%3D..."),
        ("az://c/a?sv=1&sig=abc", "az://c/a?sv=...&sig=..."),
        ("aws_secret_access_key=abc", "aws_secret_access_key=..."),
        ("{'Authorization': 'Bearer abc'}", "{'Authorization': 'Bearer ...'}"),
        ("<StringToSign>a\nb</StringToSign>", "<StringToSign>...</StringToSign>"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----..."),
    ],
)
def test_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080: Connection refused",
        "s3://lake/day=*/part-?.parquet: no object matches the pattern",
        "http://[2001:db8::1]/x@y",
        "abfss://container@account.dfs.core.windows.net/x",
        "the option 'aws_secret_access_key' is not understood",
        "file:///tmp/a:b@c, and http://host or https://host",
        "there is a basic authentication",
        "day=2026-01-31/key=5/token=a/a.parquet: row group 3, column 'user.id': the bitset is cut short",
    ],
)
def test_shown(text: str) -> None:
    assert redacted(text) == text


def test_values_in_every_form() -> None:
    redaction.remember({"aws_secret_access_key": "se/cr+et=", "aws_region": "eu-west-1", "token": "short"})
    assert redacted("se/cr+et= se%2Fcr%2Bet%3D se/cr%2Bet%3D eu-west-1 short") == "... ... ... eu-west-1 short"
    redaction.remember({"default_headers": {"Authorization": b"Basic dXNlcjpwYXNzd29yZA=="}})
    assert redacted("dXNlcjpwYXNzd29yZA== or password") == "... or ..."


def test_a_value_that_begins_as_another_one_is_hidden_whole() -> None:
    redaction.remember({"password": "winter", "aws_secret_access_key": "winter-is-long"})
    assert redacted("winter-is-long, winter, midwinter-is-longer") == "..., ..., mid...er"


def test_values_are_bounded() -> None:
    redaction.remember({"aws_secret_access_key": "of-the-store"})
    for number in range(2000):
        redaction.remember_url(f"https://host/a?sig=signature{number}")
    assert redacted("of-the-store signature1999 signature0") == "... ... signature0"
    assert len(redaction.VALUES.forms) < 3000


class Stubborn(Exception):
    def __str__(self) -> str:
        return "asks the JVM: https://user:password@host"


def fail(user: str) -> None:
    try:
        try:
            raise KeyError(f"https://{user}@host/?x=1")
        except KeyError as error:
            raise OSError(5, f"https://{user}@host", f"s3://{user}@b") from error
    except OSError as error:
        raise StorageError("cannot open it", path="a") from error


def test_chains_are_cleaned() -> None:
    with pytest.raises(StorageError) as caught:
        fail("u:password")
    text = "".join(traceback.format_exception(caught.value))
    assert "u:password@" not in text
    assert "KeyError" in text
    cause = caught.value.__cause__
    assert isinstance(cause, OSError)
    assert (cause.errno, cause.filename) == (5, "s3://...@b")


def test_what_was_being_handled_is_cleaned_too() -> None:
    """A traceback shows it as well, where nothing was raised from it."""
    error = OSError("cannot be handled")
    error.__context__ = KeyError("https://u:password@host/?x=1")
    assert without_secrets(error) is error
    assert str(error.__context__) == "'https://...@host/?...'"


def test_unchangeable_attributes_are_replaced() -> None:
    error = without_secrets(Stubborn())
    assert isinstance(error, LibraryError)
    assert str(error) == "Stubborn: asks the JVM: https://...@host"
    plain = ValueError("nothing secret")
    assert without_secrets(plain) is plain


@pytest.mark.parametrize("piece", ["https://", "a:", "a.b://", "x-amz-", "?token", "secret:", "sig=", "Bearer ", "a@"])
def test_no_text_takes_long(piece: str) -> None:
    started = time.perf_counter()
    redacted("http://" + piece * (200_000 // len(piece)))
    assert time.perf_counter() - started < 5


def test_columns_and_folders_may_be_called_as_secrets_are() -> None:
    for text in ("/lake/password=abc/part-0.parquet", "a.parquet: column 'password': 3 values"):
        assert redaction.redacted(text) == text
