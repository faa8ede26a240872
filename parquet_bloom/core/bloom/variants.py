"""Variants of the split-block filter: today's format, and the drafts before it.

What differs is the hash, how its upper half chooses a block, and the header in front of the bitset. The eight bits in
a block were the same from the first draft on.

The compiled kernels know today's hash and block choice alone. For a draft, the keys are hashed first, and the upper
half of each hash is replaced by one that today's choice sends to the block that the draft's chooses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..hash import murmur3, xxh64
from ..keys import Keys

XXH64, MURMUR3 = "XXH64", "MURMUR3"
MULTIPLY_SHIFT, MASK = "multiply-shift", "mask"
RAW, THRIFT3, THRIFT4 = "raw", "thrift3", "thrift4"

DETECT = "detect"
"""In place of a variant's name: let the values of each column chunk tell."""

SEED = 0x512D6A8A
"""Of the drafts' Murmur3. Their texts leave it out; it is what the files hold."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How a filter takes keys, and what stands in front of its bitset.

    Attributes
    ----------
    hash : XXH64 (seed 0), or MURMUR3 (the first 64 bits of x64_128, seed 0x512D6A8A).
    block : how the hash's upper half chooses one of z blocks: multiply-shift is `upper * z >> 32`, mask is `upper % z`,
        which is a bit mask where z is a power of two.
    header : raw (three little-endian numbers of 4 bytes), thrift3 (Thrift without the field that names a compression)
        or thrift4 (with it).

    Examples
    --------
    >>> Variant.of("murmur3+mask+raw").hash
    'MURMUR3'
    """

    hash: str
    block: str
    header: str

    @classmethod
    def of(cls, given: Variant | str | None) -> Variant:
        """The variant that a name means; None is today's format.

        Raises
        ------
        ValueError
            There is no variant of that name.
        """
        if given is None:
            return FINAL
        found = given if isinstance(given, Variant) else NAMED.get(given)
        if found not in VARIANTS:
            raise ValueError(f"there is no variant {str(given)!r}; there are {', '.join(NAMED)}")
        return found

    @property
    def name(self) -> str:
        """The name that means it: "final", or its hash, block and header."""
        return FINAL_NAME if self == FINAL else f"{self.hash.lower()}+{self.block}+{self.header}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_native(self) -> bool:
        """Whether the kernels take its keys as they are."""
        return self.hash == XXH64 and self.block == MULTIPLY_SHIFT

    def hash_keys(self, keys: Keys) -> NDArray[np.uint64]:
        """The hashes of the valid keys, in order; nulls are left out."""
        return xxh64.hash_keys(keys) if self.hash == XXH64 else murmur3.hash_keys(keys, SEED)

    def placed(self, hashes: NDArray[np.uint64], num_blocks: int) -> NDArray[np.uint64]:
        """Hashes that multiply-shift sends where this variant's block choice sends these, among so many blocks."""
        if self.block == MULTIPLY_SHIFT:
            return hashes
        z = np.uint64(num_blocks)
        block = (hashes >> _HALF) % z
        # The smallest upper half that multiply-shift sends to the block: below 2^32, as z is below 2^31.
        upper = ((block << _HALF) + (z - _ONE)) // z
        return (upper << _HALF) | (hashes & _LOWER)

    def keys_for(self, keys: Keys, num_blocks: int) -> Keys:
        """Keys as the kernels take them for a bitset of so many blocks; of a draft, those under a null are left out."""
        return keys if self.is_native else Keys.hashed(self.placed(self.hash_keys(keys), num_blocks))


_HALF, _LOWER, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1)

FINAL_NAME = "final"
FINAL = Variant(XXH64, MULTIPLY_SHIFT, THRIFT4)
"""Today's format."""

VARIANTS = (
    FINAL,
    *(Variant(hash, block, RAW) for hash in (MURMUR3, XXH64) for block in (MASK, MULTIPLY_SHIFT)),
    *(Variant(hash, block, THRIFT3) for hash in (MURMUR3, XXH64) for block in (MASK, MULTIPLY_SHIFT)),
    Variant(XXH64, MASK, THRIFT4),
)
"""All that a file may hold: Murmur3 had gone when headers got their fourth field."""

NAMED = {variant.name: variant for variant in VARIANTS}
