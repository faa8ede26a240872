"""Filters and threads: several that change one filter lose nothing, and a call that uses several does what one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import memory
from parquet_bloom.errors import FilterTypeError, UnsupportedTypeError


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls in threads of their own that begin together; their results or exceptions, in order."""
    gate = threading.Barrier(len(calls))
    results: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        gate.wait()
        try:
            results[number] = calls[number]()
        except Exception as error:
            results[number] = error

    running = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return results


# ------------------------------------------------------------------------------------------------------------
# Several threads change one filter
# ------------------------------------------------------------------------------------------------------------

THREADS = 4
NUM_BYTES = 4 << 20


@pytest.fixture(scope="module")
def hashes() -> np.ndarray:
    """Twelve keys a block: few enough that a bit that was lost is not set by another key.

    In the order of their blocks, so that threads which take every fourth meet in the same ones.
    """
    return np.sort(np.random.default_rng(3).integers(0, 2**64, 12 * NUM_BYTES // 32, dtype=np.uint64))


@pytest.fixture(scope="module")
def filter_bytes(hashes) -> bytes:
    bloom_filter = SplitBlockBloomFilter(NUM_BYTES)
    bloom_filter.insert_hashes(hashes)
    return bloom_filter.to_bytes()


def by_hashes(bloom_filter: SplitBlockBloomFilter, part: np.ndarray) -> None:
    bloom_filter.insert_hashes(part)


def by_values(bloom_filter: SplitBlockBloomFilter, part: np.ndarray) -> None:
    bloom_filter.insert(part)


def by_merge(bloom_filter: SplitBlockBloomFilter, part: np.ndarray) -> None:
    other = SplitBlockBloomFilter(NUM_BYTES)
    other.insert_hashes(part)
    bloom_filter.merge(other)


@pytest.mark.parametrize("insert", [by_hashes, by_merge])
def test_nothing_is_lost(insert, hashes, filter_bytes):
    parts = [np.ascontiguousarray(hashes[i::THREADS]) for i in range(THREADS)]
    for _ in range(8):
        bloom_filter = SplitBlockBloomFilter(NUM_BYTES)
        assert at_once(*(lambda part=part: insert(bloom_filter, part) for part in parts)) == [None] * THREADS  # noqa: B023
        assert bloom_filter.check_hashes(hashes).all()
        assert bloom_filter.to_bytes() == filter_bytes


def test_no_value_is_lost(hashes):
    alone = SplitBlockBloomFilter(NUM_BYTES)
    alone.insert(hashes)
    bloom_filter = SplitBlockBloomFilter(NUM_BYTES)
    parts = np.array_split(hashes, THREADS)
    at_once(*(lambda part=part: bloom_filter.insert(part) for part in parts))
    assert bloom_filter.check(hashes).all()
    assert bloom_filter == alone
    assert bloom_filter.column_type == alone.column_type


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.insert([1]),
        lambda made: made.insert(pa.chunked_array([np.arange(1 << 20), [3]]), threads=2),
        lambda made: made.insert_hashes(np.ones(1, np.uint64)),
        lambda made: made.merge(SplitBlockBloomFilter.from_bitset(b"\1" * 32)),
    ],
)
def test_changes_wait_for_each_other(change):
    created = SplitBlockBloomFilter(32)
    changing = threading.Thread(target=change, args=(created,))
    with created._lock:
        changing.start()
        changing.join(0.05)
        assert changing.is_alive()
        assert created.fill == 0
        assert not created.check_hashes(np.ones(1, np.uint64)).any()  # probes wait for nobody
        assert 1 not in SplitBlockBloomFilter.from_bitset(created)
    changing.join()
    assert created.fill > 0
    assert not created._lock.locked()


def test_the_lock_is_free_after_an_error():
    bloom_filter = SplitBlockBloomFilter(32)
    bloom_filter.insert([1])
    for wrong in (lambda: bloom_filter.insert(["a"]), lambda: bloom_filter.insert([True]),
                  lambda: bloom_filter.insert_hashes([1]),
                  lambda: bloom_filter.merge(SplitBlockBloomFilter(64))):  # fmt: skip
        with pytest.raises((FilterTypeError, UnsupportedTypeError, ValueError)):
            wrong()
        assert not bloom_filter._lock.locked()


def test_a_filter_is_bound_to_one_type():
    """Two threads that insert the first values of two types: one of them gets an error."""
    for _ in range(30):
        bloom_filter = SplitBlockBloomFilter(4096)
        texts, numbers = at_once(lambda: bloom_filter.insert(["a", "b"]), lambda: bloom_filter.insert([1, 2]))  # noqa: B023
        assert (texts is None) != (numbers is None)
        assert isinstance(texts or numbers, FilterTypeError)
        assert bloom_filter.check(["a", "b"] if texts is None else [1, 2]).all()


def test_merging_both_ways_and_with_itself():
    first, second = SplitBlockBloomFilter(1 << 16), SplitBlockBloomFilter(1 << 16)
    first.insert([1])
    second.insert([2])
    at_once(lambda: first.merge(second), lambda: second.merge(first), lambda: first.merge(first))
    assert first.check([1, 2]).all()
    assert first.merge(second) == second.merge(first)


def test_probes_meanwhile(hashes):
    """Values that were inserted before are found at any time."""
    bloom_filter = SplitBlockBloomFilter(NUM_BYTES)
    before, later = hashes[:1000], hashes[1000:]
    bloom_filter.insert_hashes(before)
    done = threading.Event()

    def probe() -> bool:
        result = True
        while not done.is_set():
            result = result and bool(bloom_filter.check_hashes(before).all())
        return result

    def insert() -> None:
        try:
            for part in np.array_split(later, 50):
                bloom_filter.insert_hashes(part)
        finally:
            done.set()

    assert at_once(probe, insert) == [True, None]


# ------------------------------------------------------------------------------------------------------------
# One call, several threads
# ------------------------------------------------------------------------------------------------------------


KEYS = np.arange(1_600_000)  # so many that three threads pay
TEXTS = pa.array(KEYS).cast(pa.string()).filter(pa.array(KEYS % 7 != 3), null_selection_behavior="emit_null")
WITH_NULLS = pa.concat_arrays([TEXTS[:900_000], pa.nulls(70, pa.string()), TEXTS[900_000:]])
VALUES = {
    "one array": pa.array(KEYS),
    "sliced": pa.array(KEYS)[777:],
    "with nulls": WITH_NULLS[1:],
    "chunks": pa.chunked_array([WITH_NULLS[:10], WITH_NULLS[:0], WITH_NULLS[10:600_000], WITH_NULLS[600_000:]]),
    "a dictionary": pa.array(KEYS % 1000).cast(pa.string()).dictionary_encode(),
    "numpy": KEYS - 500.5,
    "a list": WITH_NULLS.to_pylist(),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", VALUES)
def test_threads_do_what_one_does(name):
    values = VALUES[name]
    alone, bloom_filter = SplitBlockBloomFilter(1 << 20), SplitBlockBloomFilter(1 << 20)
    some = values[:1_100_000]
    alone.insert(some)
    bloom_filter.insert(some, threads=2)
    assert bloom_filter == alone
    assert bloom_filter.column_type == alone.column_type
    answers = bloom_filter.check(values, threads=3)
    assert answers.dtype == np.bool_
    assert np.array_equal(answers, alone.check(values))
    assert answers[: len(some)].all()
    assert name == "a dictionary" or not answers.all()


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_numbers_of_threads_that_cannot_be(threads):
    bloom_filter = SplitBlockBloomFilter(32)
    for call in (lambda: bloom_filter.insert([1], threads=threads), lambda: bloom_filter.check([1], threads=threads)):
        with pytest.raises(ValueError, match="threads"):
            call()
    assert bloom_filter.fill == 0


@pytest.mark.parametrize("nothing", [[], [None], pa.chunked_array([], pa.int64()), pa.nulls(500)])
def test_nothing(nothing):
    bloom_filter = SplitBlockBloomFilter(32)
    bloom_filter.insert(nothing, threads=4)
    assert bloom_filter.fill == 0
    assert bloom_filter.check(nothing, threads=4).tolist() == [True] * len(nothing)


@pytest.mark.ci
def test_errors_come_through():
    bloom_filter = SplitBlockBloomFilter(32)
    bloom_filter.insert(pa.array([1], pa.int32()))
    for call in (
        lambda: bloom_filter.insert(TEXTS, threads=4),
        lambda: bloom_filter.check(TEXTS, threads=4),
    ):
        with pytest.raises(FilterTypeError):
            call()
        assert not bloom_filter._lock.locked()
    unbound = SplitBlockBloomFilter(32)
    with pytest.raises(UnsupportedTypeError):
        unbound.insert(np.ones(len(KEYS), np.bool_), threads=4)
    assert unbound.column_type is None
    with pytest.raises(ValueError, match="read-only"):
        SplitBlockBloomFilter.from_bitset(bytes(32)).insert(KEYS, threads=4)
    assert not SplitBlockBloomFilter.from_bitset(bytes(32)).check(KEYS, threads=4).any()


def test_no_memory_for_another_bitset(monkeypatch):
    def refuse(num_bytes: int) -> Any:
        raise MemoryError(num_bytes)

    bloom_filter = SplitBlockBloomFilter(32)
    monkeypatch.setattr(memory, "zeros", refuse)
    with pytest.raises(MemoryError):
        bloom_filter.insert(KEYS, threads=2)
    assert not bloom_filter._lock.locked()
