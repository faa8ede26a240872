"""The keys of the kernel benchmark: generated once, in Arrow's layout, and written to files that every peer maps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

KINDS = ("int64", "36-byte", "4-32-byte")  # 36 bytes: a UUID as text
NUM_INT64 = 4_194_304
NUM_STRINGS = 2_097_152
BITS_PER_KEY = 10.5  # of a filter with an fpp of 1 %


@dataclass(frozen=True)
class KeySet:
    """Values, and for strings the int32 offsets of their bytes."""

    values: np.ndarray
    offsets: np.ndarray | None

    def repeated(self, distinct: int, count: int) -> KeySet:
        """Repeat the first `distinct` keys, `count` in all."""
        indices = np.arange(count) % distinct
        if self.offsets is None:
            return KeySet(self.values[indices], None)
        lengths = np.diff(self.offsets)[indices]
        once = self.values[: self.offsets[distinct]]
        offsets = _offsets(lengths)
        return KeySet(np.resize(once, offsets[-1]), offsets)

    def save(self, stem: Path) -> list[str]:
        """Write the files; return their paths in the form that peers take."""
        self.values.tofile(stem.with_suffix(".values"))
        if self.offsets is None:
            return [f"{stem}.values", "-"]
        self.offsets.tofile(stem.with_suffix(".offsets"))
        return [f"{stem}.values", f"{stem}.offsets"]


def capacity(num_bytes: int) -> int:
    """Return the number of keys that fill a filter to an fpp of 1 %."""
    return int(8 * num_bytes / BITS_PER_KEY)


def make(kind: str, count: int, seed: int) -> KeySet:
    """Make random keys; those of two seeds are disjoint (except a few of the shortest strings)."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    if kind == "int64":
        return KeySet(rng.integers(-(2**63), 2**63, count, dtype=np.int64), None)
    if kind == "36-byte":
        return KeySet(_uuids(rng, count).ravel(), np.arange(0, 36 * count + 1, 36, dtype=np.int32))
    offsets = _offsets(rng.integers(4, 33, count))
    return KeySet(rng.integers(0, 256, offsets[-1], dtype=np.uint8), offsets)


def _uuids(rng: np.random.Generator, count: int) -> np.ndarray:
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[rng.integers(0, 16, (count, 32), dtype=np.uint8)]
    texts = np.full((count, 36), ord("-"), np.uint8)
    taken = 0
    for start, length in ((0, 8), (9, 4), (14, 4), (19, 4), (24, 12)):
        texts[:, start : start + length] = digits[:, taken : taken + length]
        taken += length
    return texts


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
