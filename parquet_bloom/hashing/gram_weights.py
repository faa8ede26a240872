"""Weights of pairs of bytes, which decide what of a text is a gram: the rarer a pair, the heavier it is."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_keys
from ..core.index.grams import NUM_PAIRS, count_pairs, list_grams
from ..core.keys import Keys
from .arrow_keys import keys_of

_MOST_ASKED = 8  # grams of a piece: each takes a read of the index, and the shorter ones say less
_LEVELS_A_BIT = 10  # levels of rarity between a number of pairs and half of it
_SCATTER = np.uint64(0x9E3779B97F4A7C15)  # orders pairs of one level: as one order as any other, and the same for ever


def hash_grams(grams: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the hashes of grams, as `core.index.grams` has them: each packed into eight bytes."""
    packed = np.array([int.from_bytes(gram, "little") for gram in grams], "<u8")
    return hash_keys(Keys.fixed(packed, 8, len(packed)))


@dataclass(frozen=True)
class GramWeights:
    """Weights that a sample of texts gave.

    Attributes
    ----------
    levels : how rare each pair is, 0 to 255 (65,536 bytes, the pair's first byte in the upper half of its number).
    """

    levels: bytes

    def __post_init__(self) -> None:
        if len(self.levels) != NUM_PAIRS:
            raise ValueError(f"there are {NUM_PAIRS} levels, not {len(self.levels)}")

    @cached_property
    def array(self) -> NDArray[np.uint16]:
        """The weights, as `core.index.grams` takes them."""
        order = np.arange(NUM_PAIRS, dtype=np.uint64) * _SCATTER >> np.uint64(56)
        weights = np.frombuffer(self.levels, np.uint8) * np.uint16(256) + order.astype(np.uint16)
        weights.flags.writeable = False
        return weights

    def choose_grams(self, text: bytes) -> list[bytes]:
        """Return grams that every text with this piece has: the longest eight that are no parts of others of them."""
        spans = sorted({*list_grams(text, self.array)}, key=lambda span: (span[0], -span[1]))
        chosen, end = [], 0
        for first, last in spans:
            if last > end:
                chosen.append(text[first:last])
                end = last
        return sorted(dict.fromkeys(chosen), key=len, reverse=True)[:_MOST_ASKED]

    @cached_property
    def text(self) -> str:
        """What a manifest has of them."""
        return b64encode(zlib.compress(self.levels, 9)).decode()

    @classmethod
    def from_text(cls, text: str) -> GramWeights:
        """Read weights back from a manifest.

        Raises
        ------
        ValueError
            They are damaged.
        """
        decompressor = zlib.decompressobj()
        try:
            levels = decompressor.decompress(b64decode(text, validate=True), NUM_PAIRS + 1)
        except zlib.error as error:
            raise ValueError(f"the weights of grams are damaged: {error}") from None
        weights = cls(levels)
        if not decompressor.eof or decompressor.unused_data:  # without its end, where their checksum is
            raise ValueError("the weights of grams are damaged: they do not end where they should")
        weights.__dict__["text"] = text  # compressing them again takes longer than a lookup
        return weights


@dataclass
class PairCounts:
    """Counts the pairs of bytes in a sample of texts.

    Attributes
    ----------
    num_bytes : of the texts so far.
    """

    num_bytes: int = 0
    _counts: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(NUM_PAIRS, np.uint32))

    def add(self, texts: pa.Array | Keys) -> None:
        self.num_bytes += count_pairs(keys_of(texts), self._counts)

    def to_weights(self) -> GramWeights:
        common = np.rint(_LEVELS_A_BIT * np.log2(self._counts + 1.0))
        return GramWeights((255 - np.minimum(common, 255)).astype(np.uint8).tobytes())
