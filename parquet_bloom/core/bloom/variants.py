"""Variants of the split-block filter: the current format, and the drafts before it.

They differ in the hash, in how its upper half selects a block, and in the header before the bitset. The eight bits in
a block have been the same since the first draft.

The compiled kernels implement the current hash and block selection only. For a draft, the keys are hashed first, and
the upper half of each hash is replaced by one for which the current selection gives the block of the draft's.
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
"""In place of a variant's name: detect the variant by the values of each column chunk."""

SEED = 0x512D6A8A
"""Seed of the drafts' Murmur3. The drafts do not specify it; it was determined from files."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The hash, block selection and header of a filter.

    Attributes
    ----------
    hash : XXH64 (seed 0), or MURMUR3 (the first 64 bits of x64_128, seed 0x512D6A8A).
    block : how the hash's upper half selects one of z blocks: multiply-shift is `upper * z >> 32`, mask is `upper % z`,
        which is a bit mask if z is a power of two.
    header : raw (three little-endian numbers of 4 bytes), thrift3 (Thrift without the field for the compression) or
        thrift4 (with it).

    Examples
    --------
    >>> parquet_bloom.types.Variant.of("murmur3+mask+raw").hash
    'MURMUR3'
    """

    hash: str
    block: str
    header: str

    @classmethod
    def of(cls, given: Variant | str | None) -> Variant:
        """Return the variant of a name; None is the current format.

        Raises
        ------
        ValueError
            There is no variant of that name.
        """
        if given is None:
            return FINAL
        variant = given if isinstance(given, Variant) else NAMED.get(given)
        if variant not in VARIANTS:
            raise ValueError(f"there is no variant {str(given)!r}; there are {', '.join(NAMED)}")
        return variant

    @property
    def name(self) -> str:
        """The name of the variant: "final", or its hash, block and header."""
        return FINAL_NAME if self == FINAL else f"{self.hash.lower()}+{self.block}+{self.header}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_native(self) -> bool:
        """Return whether the kernels support it directly."""
        return self.hash == XXH64 and self.block == MULTIPLY_SHIFT

    def hash_keys(self, keys: Keys) -> NDArray[np.uint64]:
        """Return the hashes of the valid keys, in order; nulls are omitted."""
        return xxh64.hash_keys(keys) if self.hash == XXH64 else murmur3.hash_keys(keys, SEED)

    def placed(self, hashes: NDArray[np.uint64], num_blocks: int) -> NDArray[np.uint64]:
        """Return hashes for which multiply-shift selects the block that this variant selects for the given ones."""
        if self.block == MULTIPLY_SHIFT:
            return hashes
        z = np.uint64(num_blocks)
        block = (hashes >> _HALF) % z
        # The smallest upper half for which multiply-shift selects the block: below 2^32, as z is below 2^31.
        upper = ((block << _HALF) + (z - _ONE)) // z
        return (upper << _HALF) | (hashes & _LOWER)

    def keys_for(self, keys: Keys, num_blocks: int) -> Keys:
        """Convert keys to those that the kernels take for a bitset of `num_blocks`; for a draft, nulls are omitted."""
        return keys if self.is_native else Keys.hashed(self.placed(self.hash_keys(keys), num_blocks))


_HALF, _LOWER, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1)

FINAL_NAME = "final"
FINAL = Variant(XXH64, MULTIPLY_SHIFT, THRIFT4)
"""The current format."""

VARIANTS = (
    FINAL,
    *(Variant(hash, block, RAW) for hash in (MURMUR3, XXH64) for block in (MASK, MULTIPLY_SHIFT)),
    *(Variant(hash, block, THRIFT3) for hash in (MURMUR3, XXH64) for block in (MASK, MULTIPLY_SHIFT)),
    Variant(XXH64, MASK, THRIFT4),
)
"""All variants that files may have: Murmur3 had been dropped when headers got their fourth field."""

NAMED = {variant.name: variant for variant in VARIANTS}
