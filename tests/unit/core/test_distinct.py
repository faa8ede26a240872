"""The set of distinct hashes, compared with Python's."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.oracle import OracleFilter

from parquet_bloom.core.bloom import sbbf
from parquet_bloom.core.bloom.distinct import HashSet

HASHES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**32, 2**63, 2**64 - 1])
# Hashes that all want the first slots, and those that want the last ones.
CROWDED = st.integers(0, 2**40) | st.integers(0, 2**40).map(lambda h: 2**64 - 1 - h)
MANY = 400_000


def of(hashes: list[int]) -> np.ndarray:
    return np.array(hashes, np.uint64)


def assert_holds(distinct: HashSet, expected: set[int]) -> None:
    assert len(distinct) == len(expected)
    array = distinct.to_array()
    assert array.dtype == np.uint64
    assert len(array) == len(expected)
    assert set(array.tolist()) == expected


@given(st.lists(st.lists(HASHES | CROWDED, max_size=200), max_size=6), st.sampled_from([0, 3000, 10**5]))
def test_it_holds_what_was_added(batches, announced):
    distinct, expected = HashSet(announced), set()
    for batch in batches:
        hashes = of(batch)
        hashes.flags.writeable = False
        distinct.add(hashes)
        expected.update(batch)
        assert_holds(distinct, expected)


@pytest.mark.parametrize("order", ["as drawn", "ascending", "descending"])
def test_growing(order):
    """Through several sizes, for hashes that differ in any bits, and with many duplicates."""
    for step in (1, 2**20, 2**44, 2**54):
        drawn = np.random.default_rng(step).integers(0, 5000, 12_000, dtype=np.uint64) * np.uint64(step)
        if order != "as drawn":
            drawn = np.sort(drawn)[:: 1 if order == "ascending" else -1].copy()
        distinct, expected = HashSet(), set()
        for start in range(0, len(drawn), 1000):
            distinct.add(drawn[start : start + 1000])
            expected.update(drawn[start : start + 1000].tolist())
            assert len(distinct) == len(expected)
        assert_holds(distinct, expected)


@pytest.mark.ci
def test_uneven_hashes_take_no_longer():
    """Neither sorted rows nor crafted keys may fill single buckets: this once took minutes."""
    numbers = np.arange(MANY, dtype=np.uint64)
    drawn = np.random.default_rng(1).integers(0, 2**64, MANY, dtype=np.uint64)
    for shape, hashes in {
        "ascending": np.sort(drawn),  # rows sorted by their hash: ClickHouse can
        "descending": np.sort(drawn)[::-1].copy(),
        "upper bits alike": numbers + np.uint64(2**63),
        "lower bits alike": numbers << np.uint64(40),
        "bits in the middle alike": (numbers << np.uint64(56)) + numbers,  # even in buckets, crowded inside of them
        "repeated in turn": drawn[:1000].repeat(MANY // 1000).reshape(1000, -1).T.reshape(-1).copy(),
        "repeated in runs": drawn[:1000].repeat(MANY // 1000),
        "all equal": np.full(MANY, drawn[0]),
        "even at first": np.concatenate([drawn[: MANY // 2], numbers[: MANY // 2]]),
    }.items():
        unique, inserted = np.unique(hashes), np.zeros(1 << 15, np.uint8)
        sbbf.insert_hashes(inserted, hashes)
        for expected in (0, MANY):
            started = time.process_time()
            distinct = HashSet(expected)
            for start in range(0, MANY, 1 << 16):
                distinct.add(hashes[start : start + (1 << 16)])
            array = distinct.to_array()
            assert time.process_time() - started < 20, shape  # seconds, of minutes
            assert np.array_equal(np.sort(array), unique), shape
            filled = np.zeros(1 << 15, np.uint8)
            distinct.fill(filled)
            assert np.array_equal(filled, inserted), shape


def test_more_than_is_made_room_for():
    """Across the size from which the number of buckets grows instead of their size."""
    count = 4_300_000
    different = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # odd: no two products are equal
    distinct = HashSet(count)
    distinct.add(different)
    distinct.add(different[::7].copy())
    assert len(distinct) == count


def test_room_for_what_is_expected():
    """The expected number may be wrong, and must not allocate all memory."""
    hashes = np.random.default_rng(3).integers(0, 2**64, 5000, dtype=np.uint64)
    for expected in (0, 1, 511, 512, 513, 100_000, 10**12, 2**63, 2**64 - 1):
        distinct = HashSet(expected)
        distinct.add(hashes)
        assert_holds(distinct, set(hashes.tolist()))


@pytest.mark.parametrize("counted", [True, False])
def test_filling_a_filter(counted):
    for count in (0, 1, 100, 3000, 20_000):
        hashes = np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)
        hashes[:1] = 0
        distinct = HashSet()
        distinct.add(hashes)
        distinct.add(hashes[: count // 2])
        if counted:  # or repetitions are still there
            assert len(distinct) == count
        exact = OracleFilter(96)
        for value in hashes.tolist():
            exact.insert_hash(value)
        bitset = bytearray(96)
        distinct.fill(bitset)
        assert bytes(bitset) == exact.to_bytes()
    with pytest.raises(ValueError):
        HashSet().fill(bytearray(31))


@pytest.mark.parametrize("common", [0, 1, 3000, 20_000])
@pytest.mark.parametrize("others", [0, 1, 20_000])
def test_counting_with_others(common, others):
    rng = np.random.default_rng(common)
    hashes = np.unique(rng.integers(0, 2**64, 50_000, dtype=np.uint64))
    rng.shuffle(hashes)
    counted = HashSet()
    counted.add(np.repeat(hashes[:20_000], 2))
    given = np.concatenate([hashes[:common], hashes[20_000 : 20_000 + others]])
    assert counted.count_with(given) == 20_000 + others
    assert counted.count_with(given[:0]) >= 20_000


def test_zero_is_a_hash_like_others():
    """0 is what memory for hashes is filled with; all ones is the value in its slot."""
    distinct = HashSet()
    assert len(distinct) == 0
    assert distinct.to_array().tolist() == []
    distinct.add(of([0, 0]))
    assert_holds(distinct, {0})
    distinct.add(of([5, 0]))
    assert_holds(distinct, {0, 5})
    many = HashSet()  # which are held against those that came last, and at first there are none
    many.add(np.arange(5000, dtype=np.uint64))
    assert_holds(many, set(range(5000)))
    edges = of([0, 2**64 - 1, 1])
    for value in edges:
        counted = HashSet()
        assert counted.at_most == 0
        counted.add(np.full(5000, value, np.uint64))
        assert_holds(counted, {int(value)})
        counted.clear()
        assert len(counted) == counted.at_most == 0
        counted.add(np.tile(edges, 2000))
        assert sorted(counted.to_array().tolist()) == sorted(edges.tolist())
        assert 3 <= counted.at_most <= 6000


def test_invalid_hashes_are_refused():
    for hashes in (None, np.zeros(3), np.zeros(3, np.uint32), np.zeros((2, 2), np.uint64)):
        with pytest.raises((TypeError, ValueError)):
            HashSet().add(hashes)


@pytest.mark.ci
def test_chosen_repetitions_do_not_take_memory():
    """Two alternating values fill one bucket after the other; mixing moves them, including duplicates.

    Run where no more may be had than a hash's 64 bytes and the room made in advance, many times over.
    """
    script = (
        "import resource, numpy as np\n"
        "from parquet_bloom.core.bloom.distinct import HashSet\n"
        "rng = np.random.default_rng(3)\n"
        "def turns(bits):\n"
        "    pairs = rng.integers(0, 2**64, (1 << bits, 2), dtype=np.uint64)\n"
        "    return np.repeat(pairs, 8000, axis=0).ravel()\n"
        "crowd = np.arange(60_000, dtype=np.uint64) + np.uint64(3 << 55)\n"
        "parts = [rng.integers(0, 2**64, 5000, dtype=np.uint64), turns(8),\n"
        "         rng.integers(0, 2**55, 20_000, dtype=np.uint64), turns(9), crowd]\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = HashSet(20_000_000)\n"
        "for part in parts:\n"
        "    for start in range(0, len(part), 1000):\n"  # few at once: such are not sifted first
        "        found.add(part[start : start + 1000])\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"  # what follows takes as much as is allowed
        "assert len(found) == len(np.unique(np.concatenate(parts)))\n"
        "print((after - before) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200  # MiB
