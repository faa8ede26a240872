"""The limits of requests, read from the settings that a store was made with."""

from __future__ import annotations

from datetime import timedelta

import pytest

from parquet_bloom.storage.objects.location import make_store_handle
from parquet_bloom.storage.objects.request_limits import RequestLimits, seconds


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
