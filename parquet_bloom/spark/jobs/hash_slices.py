"""Ranges of hashes that a part of an index is sliced into, and how Spark is told which task writes which."""

from __future__ import annotations

from dataclasses import dataclass

_SEED = 42  # of Spark's hash function
_MASK = 2**32 - 1
LAST_HASH = 2**64 - 1


@dataclass(frozen=True)
class Slices:
    """So many ranges that tile all hashes, of about the same size.

    Parameters
    ----------
    count : how many; fewer where `prefix_bits` do not tell so many apart.
    prefix_bits : top bits of a hash that are kept: all hashes that have them in common lie in one slice.
    """

    count: int
    prefix_bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", max(1, min(self.count, 1 << self.prefix_bits)))

    def firsts(self) -> list[int]:
        """The first hash of each."""
        below = 64 - self.prefix_bits
        return [(number << self.prefix_bits) // self.count << below for number in range(self.count)]

    def range_of(self, number: int) -> tuple[int, int]:
        """The first and the last hash of one."""
        firsts = self.firsts()
        return firsts[number], firsts[number + 1] - 1 if number + 1 < self.count else LAST_HASH

    def targets(self) -> list[int]:
        """For each a number by which `repartition(count, number)` gives it a partition of its own.

        Spark puts rows where the hash of the number says. Were that another one, then slices would share partitions,
        which takes longer, and is right as well.
        """
        found: dict[int, int] = {}
        number = 0
        while len(found) < self.count:
            found.setdefault(spark_hash(number) % self.count, number)
            number += 1
        return [found[place] for place in range(self.count)]


def spark_hash(number: int) -> int:
    """What Spark's function `hash` makes of an INT: Murmur3 of 32 bits, as a signed number.

    Source: https://github.com/aappleby/smhasher (MurmurHash3_x86_32), of one block.
    """
    block = number * 0xCC9E2D51 & _MASK
    block = _rotated(block, 15) * 0x1B873593 & _MASK
    state = (_rotated(_SEED ^ block, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (state >> 31 << 32)


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
