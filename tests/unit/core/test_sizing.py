"""Sizes of filters: the exact model compared with slow sums, and the sizes that follow from it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from support.oracle import oracle

from parquet_bloom.core.bloom import sizing


@pytest.mark.parametrize("keys_per_block", [0, 1e-3, 0.1, 1, 5, 20, 63, 63.9, 64, 64.1, 100, 300])
def test_model_is_the_poisson_mixture(keys_per_block):
    """Both sides of 64 keys per block, where the form of the sum changes."""
    for num_bytes in (32, 64, 96, 1024, 32 * 1001, 2**20):
        ndv = round(keys_per_block * num_bytes / 32)
        assert sizing.fpp_for(ndv, num_bytes) == pytest.approx(oracle.exact_fpp(ndv, num_bytes), rel=1e-9, abs=1e-300)


def test_known_rates_and_sizes():
    assert sizing.fpp_for(0, 32) == 0
    assert 0 < sizing.fpp_for(1e-9, 32) < 1e-15  # near (1/32)^8 by the Poisson model
    assert sizing.fpp_for(10_000, 32) == pytest.approx(1)
    assert sizing.fpp_for(math.inf, 32) == 1
    assert sizing.size_for(1_000_000, 0.01) == sizing.size_for(1_000_000) == 2_097_152
    assert sizing.size_for(1_000_000, 0.01, power_of_two=False) == 1_316_160
    assert oracle.exact_fpp(1_000_000, 1_316_160) <= 0.01 < oracle.exact_fpp(1_000_000, 1_316_128)
    largest = sizing.size_for(101_000_000, 0.01, False)
    assert largest < sizing.MAX_BYTES
    assert sizing.fpp_for(101_000_000, largest) <= 0.01
    for power_of_two in (True, False):
        assert sizing.size_for(0, 0.01, power_of_two) == sizing.size_for(1, 0.9, power_of_two) == 32
        for ndv in (10**9, 10**15, math.inf):
            assert sizing.size_for(ndv, 0.01, power_of_two) == 128 * 2**20
        assert sizing.size_for(10_000, 1e-300, power_of_two) == 128 * 2**20


def test_table_of_the_closed_formula():
    """Bits a key of the usual closed formula, what that really gives, and what is really needed."""
    ndv = 10_000_000
    for queried, formula, really, needed in (
        (0.1, 5.77, 0.1136, 5.99),
        (0.05, 6.87, 0.0606, 7.23),
        (0.01, 9.68, 0.0146, 10.53),
        (0.001, 14.61, 0.0021, 16.89),
        (0.0001, 21.05, 0.00033, 26.34),
    ):
        assert formula == pytest.approx(-8 / math.log(1 - queried ** (1 / 8)), abs=0.01)
        assert sizing.fpp_for(ndv, int(formula * ndv / 8)) == pytest.approx(really, rel=0.03)
        assert 8 * sizing.size_for(ndv, queried, False) / ndv == pytest.approx(needed, abs=0.01)


@pytest.mark.parametrize("power_of_two", [True, False])
@pytest.mark.parametrize("fpp", [0.5, 0.1, 0.05, 0.01, 0.001, 1e-5, 1e-9])
def test_the_smallest_size_that_keeps_the_promise(fpp, power_of_two):
    for ndv in (0, 1, 2, 7, 8, 31, 32, 33, 100, 999, 1000, 12_345, 1_000_000):
        num_bytes = sizing.size_for(ndv, fpp, power_of_two)
        smaller = num_bytes // 2 if power_of_two else num_bytes - 32
        assert num_bytes % 32 == 0
        assert not power_of_two or num_bytes & (num_bytes - 1) == 0
        if num_bytes < sizing.MAX_BYTES:
            assert oracle.fpp_float(ndv, num_bytes) <= fpp * (1 + 1e-9)
        if num_bytes > sizing.MIN_BYTES:
            assert oracle.fpp_float(ndv, smaller) > fpp * (1 - 1e-9)
    if fpp in (0.5, 0.01, 0.001):
        for ndv in (3, 10, 40, 101, 333):
            assert sizing.size_for(ndv, fpp, power_of_two) == oracle.smallest_num_bytes(ndv, fpp, power_of_two)


def test_more_keys_or_less_room_are_never_better():
    for num_bytes in (32, 96, 4096, 2**20):
        rates = [sizing.fpp_for(ndv, num_bytes) for ndv in range(0, 80 * num_bytes // 32, max(1, num_bytes // 64))]
        assert all(before <= after for before, after in itertools.pairwise(rates))
    for ndv in (1, 1000, 123_456):
        rates = [sizing.fpp_for(ndv, 32 * num_blocks) for num_blocks in range(1, 3000)]
        assert all(before >= after for before, after in itertools.pairwise(rates))
    for power_of_two in (True, False):
        sizes = [sizing.size_for(ndv, 0.01, power_of_two) for ndv in range(0, 5000, 7)]
        assert sizes == sorted(sizes)
        sizes = [sizing.size_for(5000, fpp, power_of_two) for fpp in (0.5, 0.1, 0.05, 0.01, 0.001, 1e-5, 1e-9)]
        assert sizes == sorted(sizes)


def test_sizes_and_rates_that_make_no_sense_are_refused():
    for fpp in (0, 1, -0.1, 1.5, math.nan, math.inf):
        with pytest.raises(ValueError, match="between 0 and 1"):
            sizing.size_for(10, fpp)
    for ndv in (-1, -0.5, -math.inf, math.nan):
        for call in (sizing.size_for, lambda ndv: sizing.fpp_for(ndv, 32)):
            with pytest.raises(ValueError, match="negative"):
                call(ndv)
    for num_bytes in (0, 31, -32):
        with pytest.raises(ValueError, match="32"):
            sizing.fpp_for(1, num_bytes)
    for ndv, fpp in ((-1, 0.1), (math.nan, 0.1), (1, 0), (1, 1), (1, math.nan)):
        with pytest.raises(ValueError):
            sizing.draft_size_for(ndv, fpp)


def test_number_of_values_from_the_set_bits():
    """The estimate inverts the mean share of bits that keys set."""
    for num_blocks in (1, 10, 1000):
        for keys in (0.1, 1, 10, 50):
            bits = 256 * num_blocks * (1 - math.exp(-keys / 32))
            assert sizing.ndv_for(bits, 32 * num_blocks) == pytest.approx(keys * num_blocks)
    assert sizing.ndv_for(0, 32) == 0
    assert sizing.ndv_for(256, 32) == math.inf
    assert sizing.ndv_for(2 * 256, 64 + 7) == math.inf  # odd bytes at the end hold no bits


def test_sizes_by_the_drafts_formula():
    for ndv, fpp, num_bytes in (
        *((0, 0.01, 32), (1, 0.01, 32), (26, 0.01, 32), (27, 0.01, 64), (1000, 0.01, 2048), (10_000, 0.05, 16384)),
        *((1_000_000, 0.01, 2**21), (1_000_000, 0.001, 2**21), (10**9, 0.01, 2**27), (10**18, 0.5, 2**27)),
    ):
        assert sizing.draft_size_for(ndv, fpp) == num_bytes
        bits = -8 * ndv / np.log(1 - fpp ** (1 / 8))
        assert num_bytes in (32, 2**27) or num_bytes * 4 < int(bits) <= num_bytes * 8
    # The fraction of a bit is cut off: 256.9 bits are 256, which are 32 bytes.
    assert sizing.draft_size_for(1, (1 - np.exp(-8 / 256.9)) ** 8) == 32
    assert sizing.draft_size_for(1, (1 - np.exp(-8 / 257.1)) ** 8) == 64
