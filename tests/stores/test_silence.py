"""A store that falls silent in the middle of embedding in place: the call ends in time, and the object is whole."""

from __future__ import annotations

import time

import pytest
from proxy import Unanswered
from races import Field, Moment

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

RETRY_TIMEOUT = 2.0
BUSY = 20.0  # seconds that a busy machine may add; without the limits a call would take 30 s and more
LIMITS = {"timeout": "1s", "connect_timeout": "1s", "max_retries": "2", "retry_timeout": f"{RETRY_TIMEOUT}s"}


def silent_from(field: Field, size: str, number: int, after: bool) -> float:
    """Embed while nothing is answered from a request on; returns the seconds that the call took from then."""
    store, proxy, versions = field.store, field.proxy, field.versions(size)
    bucket = store.create_bucket()
    store.put(bucket, "a.parquet", versions.old)
    begun: list[float] = []

    def silent() -> None:
        begun.append(time.monotonic())
        raise Unanswered

    proxy.clear()
    for later in range(number, number + 100):
        proxy.at(later, silent, after=after)
    options = store.options(proxy.endpoint) | LIMITS
    with pytest.raises(ParquetBloomError):
        parquet_bloom.embed(store.url(bucket, "a.parquet"), ["id"], storage_options=options)
    seconds = time.monotonic() - begun[0]
    proxy.settle()
    assert store.get(bucket, "a.parquet") in (versions.old, versions.ours)
    return seconds


@pytest.mark.long
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("store", ["radosgw", "swift", "moto"], indirect=True)
def test_at_every_step(field: Field, size: str) -> None:
    field.play(Moment(size, new_bucket=True))
    requests = field.operations()
    late = []
    for number, operation in enumerate(requests):
        for after in (False, True):
            if after and number == len(requests) - 1:
                continue  # no later request could end the call with an error
            seconds = silent_from(field, size, number, after)
            if seconds > RETRY_TIMEOUT + 1 + BUSY:
                late.append((number, operation, after, round(seconds, 1)))
    assert not late
