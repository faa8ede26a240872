"""Sizes of filters in Lance, whose limits differ from those of `core.bloom.sizing`.

Source: Lance's index file and its reference reader; the sum is Putze, Sanders, Singler: Cache-, Hash- and
Space-Efficient Bloom Filters (2007).
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..core.bloom.sizing import MAX_BYTES, MIN_BYTES

_MAX_KEYS_PER_BLOCK = 749  # the sum goes from here down to 0
_MAX_KEYS_PER_BIT = 2  # with more keys a filter is assumed to always answer "maybe"


def _log_match_probability(keys: int) -> float:
    """Return the logarithm of the probability that a block of `keys` keys answers "maybe" for another key."""
    return -math.inf if keys == 0 else 8 * math.log(1 - (31 / 32) ** keys)


_LOG_MATCH_PROBABILITIES = [_log_match_probability(keys) for keys in range(_MAX_KEYS_PER_BLOCK + 1)]
_LOG_FACTORIALS = [math.lgamma(keys + 1) for keys in range(_MAX_KEYS_PER_BLOCK + 1)]


def lance_fpp(items: int, num_bytes: int) -> float:
    """Return the false-positive probability that Lance computes for a filter of `num_bytes` bytes with `items` keys."""
    if items == 0:
        return 0.0
    if items / (8 * num_bytes) > _MAX_KEYS_PER_BIT:
        return 1.0
    mean = 256 * items / (8 * num_bytes)
    total = 0.0
    for keys in range(_MAX_KEYS_PER_BLOCK, -1, -1):  # the small terms first, as Lance adds them
        total += math.exp(keys * math.log(mean) - mean - _LOG_FACTORIALS[keys] + _LOG_MATCH_PROBABILITIES[keys])
    return min(total, 1.0)


def lance_num_bytes(items: int, probability: float) -> int:
    """Return the size in bytes of a filter that Lance makes for a number of items.

    Parameters
    ----------
    items : keys expected in a zone, 1 or more.
    probability : false-positive probability, between 0 and 1.

    Returns
    -------
    The smallest power of two from 32 bytes to 128 MiB that meets the probability; 128 MiB where none does.

    Examples
    --------
    >>> lance_num_bytes(8192, 0.00057)
    32768
    """
    if isinstance(items, bool) or not isinstance(items, int) or not 1 <= items < 1 << 63:
        raise ValueError(f"items must be an integer of at least 1, got {items!r}")
    if not 0 < probability < 1:
        raise ValueError(f"the probability must be between 0 and 1, got {probability!r}")
    return _find_num_bytes(items, float(probability))


@lru_cache(maxsize=256)
def _find_num_bytes(items: int, probability: float) -> int:
    size = MIN_BYTES
    while size < MAX_BYTES and lance_fpp(items, size) > probability:
        size *= 2
    return size
