"""How large ORC's writers make a filter: by the row index stride and an fpp, whatever the values are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.hash.orc_murmur3 import size_for

STRIDE = 10_000
"""Rows of a row group, unless the writer is told otherwise."""


_MOST_BITS = (1 << 31) - 64


def num_bits(expected: int, fpp: float) -> int:
    """Bits of a filter that is made for so many values; see `core.orc_hash.size_for`, which has the same errors."""
    return size_for(expected, fpp)[0]


def num_hash_functions(expected: int, fpp: float) -> int:
    """How many bits each value sets in such a filter."""
    return size_for(expected, fpp)[1]


def fpp_for(ndv: float, bits: int, hash_functions: int) -> float:
    """How often a filter that holds so many distinct values says "maybe" to one that it does not."""
    return float(-math.expm1(-hash_functions * ndv / bits)) ** hash_functions


@dataclass(frozen=True)
class StrideSizing:
    """Bytes of the filters of so many distinct values, as `file.survey.Sizing`: those of a row group hardly matter.

    Attributes
    ----------
    stride : rows of a row group. A stripe without a row index is one by itself, and would be several with it.
    """

    stride: int = STRIDE

    def __call__(self, ndv: int, fpp: float) -> int:
        # A stride may be any number: where the filter would be larger than ORC has any, it is as large as they get.
        bits = (
            num_bits(self.stride, fpp) if -self.stride * math.log(fpp) < _MOST_BITS * math.log(2) ** 2 else _MOST_BITS
        )
        return max(1, -(-ndv // self.stride)) * bits // 8
