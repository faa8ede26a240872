"""Ranges of hashes that a part of an index is sliced into, and how Spark routes each to a task."""

from __future__ import annotations

from dataclasses import dataclass

_SEED = 42  # of Spark's hash function
_MASK = 2**32 - 1
LAST_HASH = 2**64 - 1


@dataclass(frozen=True)
class Slices:
    """Ranges of about equal size that together cover all hashes.

    Parameters
    ----------
    count : number of slices; reduced to the number that `prefix_bits` can distinguish.
    prefix_bits : number of leading bits of a hash that are stored: hashes that share them are in one slice.
    """

    count: int
    prefix_bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", max(1, min(self.count, 1 << self.prefix_bits)))

    def firsts(self) -> list[int]:
        """Return the first hash of each slice."""
        below = 64 - self.prefix_bits
        return [(number << self.prefix_bits) // self.count << below for number in range(self.count)]

    def range_of(self, number: int) -> tuple[int, int]:
        """Return the first and the last hash of a slice."""
        firsts = self.firsts()
        return firsts[number], firsts[number + 1] - 1 if number + 1 < self.count else LAST_HASH

    def targets(self) -> list[int]:
        """Return for each slice a number with which `repartition(count, number)` gives it a separate partition.

        Spark chooses a partition by the hash of the number. If its hash function differed from `spark_hash`, slices
        would share partitions: slower, but still correct.
        """
        target_by_slice: dict[int, int] = {}
        number = 0
        while len(target_by_slice) < self.count:
            target_by_slice.setdefault(spark_hash(number) % self.count, number)
            number += 1
        return [target_by_slice[i] for i in range(self.count)]


def spark_hash(number: int) -> int:
    """Return Spark's `hash` of an INT: 32-bit Murmur3 as a signed number.

    Source: https://github.com/aappleby/smhasher (MurmurHash3_x86_32), for one block.
    """
    block = number * 0xCC9E2D51 & _MASK
    block = _rotate_left(block, 15) * 0x1B873593 & _MASK
    state = (_rotate_left(_SEED ^ block, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (state >> 31 << 32)


def _rotate_left(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
