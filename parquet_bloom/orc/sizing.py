"""How large ORC's writers make a filter: by the row index stride and an fpp, whatever the values are.

Source: `BloomFilter` of ORC's Java library and its twin in C++, which write the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

STRIDE = 10_000
"""Rows of a row group, unless the writer is told otherwise."""

WORD_BITS = 64


def num_bits(expected: int, fpp: float) -> int:
    """Bits of a filter that is made for so many values; up to a word more than the formula asks for, never none more.

    Raises
    ------
    ValueError
        `expected` is not above 0, or `fpp` not between 0 and 1.
    """
    if expected < 1 or not 0 < fpp < 1:
        raise ValueError(f"no filter is made for {expected} values at an fpp of {fpp}")
    bits = int(-expected * math.log(fpp) / math.log(2) ** 2)
    return bits + WORD_BITS - bits % WORD_BITS


def num_hash_functions(expected: int, fpp: float) -> int:
    """How many bits each value sets in such a filter."""
    return max(1, math.floor(num_bits(expected, fpp) / expected * math.log(2) + 0.5))


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
        return max(1, -(-ndv // self.stride)) * num_bits(self.stride, fpp) // 8
