"""The size of a filter, by the exact false-positive model of a split-block Bloom filter.

A filter of `z` blocks that holds `ndv` distinct keys has a Poisson-distributed number of keys in each block, with mean
`lam = ndv / z`. A block with i keys answers "maybe" to an absent one with probability (1 - (31/32)^i)^8. Their mixture
is the model (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007); the closed formula that
most writers use ignores that keys are distributed unevenly over blocks, and gives too small filters.
"""

from __future__ import annotations

import math
from functools import lru_cache

MIN_BYTES = 32
MAX_BYTES = 128 * 1024 * 1024
BLOCK_BYTES = 32
WORDS = 8
WORD_BITS = 32

_MISS = 1.0 - 1.0 / WORD_BITS  # probability that one key leaves a given bit of a word unset
_FEW = 64  # keys in a block on average, above which the expanded formula is used


def _num_terms(lam: float) -> int:
    """Return the number of keys that a block does not reach, as far as a double shows, if it has `lam` on average."""
    return int(lam + 12 * math.sqrt(lam) + 40)


_MAYBE = [(1 - _MISS**keys) ** WORDS for keys in range(_num_terms(_FEW))]  # of a block that holds so many keys


def fpp_for(ndv: float, num_bytes: int) -> float:
    """Return the false-positive probability of a filter of `num_bytes` bytes that holds `ndv` distinct keys.

    Examples
    --------
    >>> round(parquet_bloom.fpp_for(1_000_000, 1 << 20), 3)
    0.027
    """
    if num_bytes < BLOCK_BYTES:
        raise ValueError(f"a filter has at least {BLOCK_BYTES} bytes, not {num_bytes}")
    if not ndv >= 0:
        raise ValueError(f"the number of distinct values cannot be negative: {ndv}")
    return _evaluate_model(ndv / (num_bytes // BLOCK_BYTES))


@lru_cache(1 << 12)  # files of one lake mostly have as many rows, and often as many distinct values
def _evaluate_model(lam: float) -> float:
    """Return the false-positive probability for a mean number of keys in a block."""
    if math.isinf(lam):
        return 1.0
    if lam >= _FEW:
        # (1 - q^i)^8 expanded; E[q^(k i)] of a Poisson variable is exp(-lam (1 - q^k)). Exact, and without cancellation
        # here, where the result is not much smaller than its terms.
        return math.fsum((-1) ** k * math.comb(WORDS, k) * math.exp(-lam * (1 - _MISS**k)) for k in range(WORDS + 1))
    term = math.exp(-lam)
    terms = []
    for keys in range(1, _num_terms(lam)):
        term *= lam / keys
        terms.append(term * _MAYBE[keys])
    return math.fsum(terms)


def size_for(ndv: float, fpp: float = 0.01, power_of_two: bool = True) -> int:
    """Return the size in bytes of the smallest filter that holds `ndv` distinct keys at `fpp` or better.

    Parameters
    ----------
    ndv : number of distinct values, 0 or more.
    fpp : target false-positive probability, between 0 and 1.
    power_of_two : True for the smallest power of two (which all readers accept), False for the smallest multiple of 32.

    Returns
    -------
    Between 32 bytes and 128 MiB, the largest size that readers accept. A filter that would be larger gets this size,
    and its real fpp is `fpp_for(ndv, size)`.

    Examples
    --------
    >>> parquet_bloom.size_for(1_000_000, fpp=0.01)
    2097152
    """
    if not 0 < fpp < 1:
        raise ValueError(f"fpp must lie between 0 and 1, not {fpp}")
    if not ndv >= 0:
        raise ValueError(f"the number of distinct values cannot be negative: {ndv}")
    # Start with a byte per key, which is close to the result, as evaluating the model is slow.
    size = 1 << (int(min(max(ndv, MIN_BYTES), MAX_BYTES)) - 1).bit_length()
    while size < MAX_BYTES and fpp_for(ndv, size) > fpp:
        size *= 2
    while size > MIN_BYTES and fpp_for(ndv, size // 2) <= fpp:
        size //= 2
    if power_of_two or size == MIN_BYTES or fpp_for(ndv, size) > fpp:
        return size
    too_small, sufficient = size // 2 // BLOCK_BYTES, size // BLOCK_BYTES
    while sufficient - too_small > 1:
        middle = (too_small + sufficient) // 2
        if fpp_for(ndv, middle * BLOCK_BYTES) > fpp:
            too_small = middle
        else:
            sufficient = middle
    return sufficient * BLOCK_BYTES


def ndv_for(num_set_bits: int, num_bytes: int) -> float:
    """Estimate the number of distinct keys in a filter of `num_bytes` bytes with `num_set_bits` set bits; inf if full.

    The expected share of set bits after n keys is 1 - exp(-n / (32 z)): each key sets one bit of 32 in each word of one
    of z blocks.
    """
    num_blocks = num_bytes // BLOCK_BYTES
    unset = 1 - num_set_bits / (num_blocks * BLOCK_BYTES * 8)
    return -WORD_BITS * num_blocks * math.log(unset) if unset > 0 else math.inf


def draft_size_for(ndv: float, fpp: float = 0.01) -> int:
    """Return the size in bytes that writers of the format's drafts gave a filter for `ndv` distinct keys.

    -8 ndv / ln(1 - fpp^(1/8)) bits, truncated to an integer, then the next power of two from 32 bytes to 128 MiB. The
    formula assumes that keys are distributed evenly over blocks: the real probability (see `fpp_for`) is worse than
    `fpp`, unless rounding compensates for it.

    Source: the first draft's text; BloomFilter::OptimalNumOfBits of Arrow C++ before release 12 for the rounding.
    """
    if not 0 < fpp < 1:
        raise ValueError(f"fpp must lie between 0 and 1, not {fpp}")
    if not ndv >= 0:
        raise ValueError(f"the number of distinct values cannot be negative: {ndv}")
    bits_a_key = -8 / math.log1p(-(fpp ** (1 / 8)))
    num_bits = int(min(bits_a_key * ndv, 8 * MAX_BYTES))
    return 1 << (max(num_bits, 8 * MIN_BYTES) - 1).bit_length() - 3
