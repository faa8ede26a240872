"""Guarantees of a filter: no false negatives, the requested rate of false positives, and evenly spread bits."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.oracle import OracleFilter

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import sizing

pytestmark = pytest.mark.default

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=300)


def of(hashes: list[int]) -> np.ndarray:
    return np.array(hashes, np.uint64)


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)


def oracle_of(num_bytes: int, hashes: list[int]) -> OracleFilter:
    exact = OracleFilter(num_bytes)
    for value in hashes:
        exact.insert_hash(value)
    return exact


# ------------------------------------------------------------------------------------------------------------
# The same as the oracle
# ------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), HASHES, HASHES)
def test_bits_and_answers_are_the_oracles(num_blocks, inserted, queried):
    bloom_filter, exact = SplitBlockBloomFilter(32 * num_blocks), oracle_of(32 * num_blocks, inserted)
    bloom_filter.insert_hashes(of(inserted))
    assert bloom_filter.to_bytes() == exact.to_bytes()
    assert bloom_filter.check_hashes(of(inserted)).all()
    assert bloom_filter.check_hashes(of(queried)).tolist() == [exact.check_hash(value) for value in queried]
    assert bloom_filter.fill == pytest.approx(exact.fill)
    assert bloom_filter.fpp == pytest.approx(exact.fpp)


@given(st.integers(1, 40), HASHES, HASHES)
def test_merging_is_the_filter_of_both(num_blocks, some, others):
    first, second = SplitBlockBloomFilter(32 * num_blocks), SplitBlockBloomFilter(32 * num_blocks)
    first.insert_hashes(of(some))
    second.insert_hashes(of(others))
    untouched = second.to_bytes()
    assert first.merge(second) is first
    assert first.to_bytes() == oracle_of(32 * num_blocks, some + others).to_bytes()
    assert second.to_bytes() == untouched


@given(st.integers(1, 48), HASHES, st.sampled_from([0.5, 0.1, 0.01, 1e-6]))
def test_folding_halves_as_often_as_the_rate_allows(num_blocks, hashes, fpp):
    bloom_filter = SplitBlockBloomFilter(32 * num_blocks)
    bloom_filter.insert_hashes(of(hashes))
    before = bloom_filter.to_bytes()
    folded = bloom_filter.fold(fpp=fpp)
    assert bloom_filter.to_bytes() == before
    exact = oracle_of(32 * num_blocks, hashes)
    while exact.num_blocks % 2 == 0 and exact.fold().fpp <= fpp:
        exact = exact.fold()
    assert folded.to_bytes() == exact.to_bytes()
    assert folded.to_bytes() == oracle_of(folded.num_bytes, hashes).to_bytes()
    assert folded.check_hashes(of(hashes)).all()


# ------------------------------------------------------------------------------------------------------------
# The requested rate
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fpp", [0.1, 0.05, 0.01, 0.001])
def test_measured_rate_is_the_requested_one(fpp):
    """Exact sizes, and so many probes that their chance is worth 1 % at most (one standard deviation)."""
    ndv, probes = 100_000, min(4_000_000, int(1e4 / fpp))
    bloom_filter = SplitBlockBloomFilter.from_ndv(ndv, fpp, power_of_two=False)
    bloom_filter.insert(np.arange(ndv))
    measured = bloom_filter.check(np.arange(ndv, ndv + probes)).mean()
    assert measured == pytest.approx(fpp, rel=0.1)
    assert bloom_filter.fpp == pytest.approx(measured, rel=0.1)
    assert bloom_filter.fpp == pytest.approx(sizing.fpp_for(ndv, bloom_filter.num_bytes), rel=0.05)


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("ndv", [700, 5_000, 90_000])
def test_powers_of_two_are_better_than_requested(ndv, fpp):
    bloom_filter = SplitBlockBloomFilter.from_ndv(ndv, fpp)
    bloom_filter.insert_hashes(random_hashes(ndv, 1))
    measured = bloom_filter.check_hashes(random_hashes(1_000_000, 2)).mean()
    assert measured <= 1.1 * fpp
    assert measured == pytest.approx(bloom_filter.fpp, rel=0.1, abs=2e-5)


@pytest.mark.parametrize("keys_per_block", [0.01, 0.3, 3, 10, 24, 60, 150])
@pytest.mark.parametrize("num_blocks", [512, 3000])
def test_estimated_number_of_values(num_blocks, keys_per_block):
    """Within 5 % as long as bits are unset; past that the estimate knows only that there are many."""
    ndv = int(num_blocks * keys_per_block)
    bloom_filter = SplitBlockBloomFilter(32 * num_blocks)
    assert bloom_filter.ndv_estimate == 0
    bloom_filter.insert_hashes(random_hashes(ndv, num_blocks))
    assert bloom_filter.ndv_estimate == pytest.approx(ndv, rel=0.05)
    assert bloom_filter.fill == pytest.approx(1 - math.exp(-ndv / (32 * num_blocks)), rel=0.03)


def test_a_full_filter_has_any_number_of_values():
    full = SplitBlockBloomFilter.from_bitset(b"\xff" * 64)
    assert full.ndv_estimate == math.inf
    assert (full.fill, full.fpp) == (1, 1)


# ------------------------------------------------------------------------------------------------------------
# All of the bits
# ------------------------------------------------------------------------------------------------------------

DENSITY_BLOCKS, DENSITY_KEYS = 4096, 100_000  # 1 % of absent keys pass


def assert_evenly_spread(bitset: bytes, num_blocks: int, num_keys: int) -> None:
    """Every bit position of every word is set as often as chance has it, and every region of blocks is used alike.

    Raises AssertionError otherwise. A position's share is that of `num_blocks` draws (its standard deviation is below
    0.8 %), and it may be five standard deviations off.
    """
    words = np.frombuffer(bitset, "<u4").reshape(num_blocks, 8)
    bits = (words[:, :, np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1
    expected = 1 - math.exp(-num_keys / (32 * num_blocks))
    deviation = math.sqrt(expected * (1 - expected) / num_blocks)
    position = bits.mean(axis=0)
    assert position.shape == (8, 32)
    assert np.abs(position - expected).max() < 5 * deviation, "a bit of the block is set too often or too rarely"
    word = bits.mean(axis=(0, 2))
    assert np.abs(word - expected).max() < 5 * deviation / math.sqrt(32), "a word is used too much or too little"
    region = bits.reshape(64, -1).mean(axis=1)
    # Keys of a region are Poisson-distributed, and its bits come eight at a time.
    keys = num_keys / 64
    assert np.abs(region / expected - 1).max() < 5 / math.sqrt(keys), "some blocks are used too much or too little"


def assert_right_rate(bitset: bytes, num_keys: int) -> None:
    bloom_filter = SplitBlockBloomFilter.from_bitset(bitset)
    measured = bloom_filter.check_hashes(random_hashes(1_000_000, 77)).mean()
    assert measured == pytest.approx(sizing.fpp_for(num_keys, len(bitset)), rel=0.1), "the rate is another"


def test_bits_are_spread_evenly():
    hashes = random_hashes(DENSITY_KEYS, 5)
    bloom_filter = SplitBlockBloomFilter(32 * DENSITY_BLOCKS)
    bloom_filter.insert_hashes(hashes)
    assert_evenly_spread(bloom_filter.to_bytes(), DENSITY_BLOCKS, DENSITY_KEYS)
    assert_right_rate(bloom_filter.to_bytes(), DENSITY_KEYS)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(range(DENSITY_KEYS), pa.int32()),
        pa.array(range(0, 1000 * DENSITY_KEYS, 1000), pa.int64()),
        pa.array([f"user-{i:06}" for i in range(DENSITY_KEYS)]),
        pa.array([f"{i:036}" for i in range(DENSITY_KEYS)]),
        pa.array([i.to_bytes(16, "big") for i in range(DENSITY_KEYS)], pa.binary(16)),
    ],
    ids=["int32", "int64", "short texts", "long texts", "fixed"],
)
def test_bits_of_real_keys_are_spread_evenly(values):
    """Keys that differ little: what spreads them is the hash."""
    bloom_filter = SplitBlockBloomFilter(32 * DENSITY_BLOCKS)
    bloom_filter.insert(values)
    assert_evenly_spread(bloom_filter.to_bytes(), DENSITY_BLOCKS, DENSITY_KEYS)
    assert_right_rate(bloom_filter.to_bytes(), DENSITY_KEYS)
