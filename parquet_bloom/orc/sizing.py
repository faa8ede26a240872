"""Sizes of filters of ORC's writers, which depend on the row index stride and the fpp, not on the values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.hash.orc_murmur3 import size_for

STRIDE = 10_000
"""Default number of rows of a row group."""


_MAX_BITS = (1 << 31) - 64


def num_bits(expected: int, fpp: float) -> int:
    """Return the number of bits of a filter for `expected` values; see `orc_murmur3.size_for`, also for errors."""
    return size_for(expected, fpp)[0]


def num_hash_functions(expected: int, fpp: float) -> int:
    """Return the number of bits that each value sets in a filter for `expected` values."""
    return size_for(expected, fpp)[1]


def fpp_for(ndv: float, bits: int, hash_functions: int) -> float:
    """Return the false-positive probability of a filter with `ndv` distinct values."""
    return float(-math.expm1(-hash_functions * ndv / bits)) ** hash_functions


@dataclass(frozen=True)
class StrideSizing:
    """Size in bytes of the filters of `ndv` distinct values; a `file.advise.survey.Sizing`.

    Attributes
    ----------
    stride : rows of a row group. A stripe without a row index is one row group, and would be divided into several with
        a row index.
    """

    stride: int = STRIDE

    def __call__(self, ndv: int, fpp: float) -> int:
        # A stride may be any number: the size is limited to that of ORC's largest filters.
        bits = num_bits(self.stride, fpp) if -self.stride * math.log(fpp) < _MAX_BITS * math.log(2) ** 2 else _MAX_BITS
        return max(1, -(-ndv // self.stride)) * bits // 8
