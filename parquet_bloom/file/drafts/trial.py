"""Which variant a filter is of, found out by values that its column chunk holds.

Each variant that the header allows is tried: under the right one no value is denied, under the others most are. One is
believed only if it is the only one left, and if so many values passed that chance does not explain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.bloom import sbbf
from ...core.bloom.variants import MASK, MURMUR3, SEED, VARIANTS, XXH64, Variant
from ...core.hash import murmur3, xxh64
from ...hashing import arrow as arrays
from ...metadata.filter_header import FilterHeader
from ..values import ColumnReader

ENOUGH_VALUES = 1024
"""Distinct values that are tried of a column chunk: what they cannot tell, more would hardly."""

CHANCE = 1e-9
"""What is left counts if a filter of quite another kind would pass with a smaller chance than this."""

Hashes = dict[str, NDArray[np.uint64]]
"""Some distinct values of a column chunk as keys: {hash: uint64 array}, in one order."""


def read_some_hashes(reader: ColumnReader, row_group: int) -> Hashes:
    """Up to ENOUGH_VALUES distinct values of a column chunk, the first ones.

    Raises
    ------
    UnreadableColumnError
    """
    found = {name: np.empty(0, np.uint64) for name in (XXH64, MURMUR3)}
    for array in reader.batches(row_group):
        keys = arrays.keys_of(array)
        both = {XXH64: xxh64.hash_keys(keys), MURMUR3: murmur3.hash_keys(keys, SEED)}
        _, first = np.unique(np.concatenate([found[XXH64], both[XXH64]]), return_index=True)
        first = np.sort(first)[:ENOUGH_VALUES]
        found = {name: np.concatenate([found[name], both[name]])[first] for name in found}
        if len(first) == ENOUGH_VALUES:
            break
    return found


def candidates(header: FilterHeader) -> list[Variant]:
    """The variants that a header, as `read_any` reads it, allows."""
    power_of_two = not header.num_bytes & (header.num_bytes - 1)
    return [one for one in VARIANTS if one.header == header.form and (power_of_two or one.block != MASK)]


@dataclass(frozen=True)
class Trial:
    """What some values told of a filter, or of several.

    Attributes
    ----------
    fitting : the variants under which no value was denied.
    chance : that one which has nothing to do with the filters would be among them.
    num_values : how many distinct values were tried, filter by filter.
    """

    fitting: tuple[Variant, ...]
    chance: float
    num_values: int

    @classmethod
    def of(cls, header: FilterHeader, bitset: np.ndarray, values: Hashes) -> Trial:
        """Try a filter's variants."""
        num_values, num_blocks = len(values[XXH64]), len(bitset) // sbbf.BLOCK_BYTES
        fitting = tuple(
            one
            for one in candidates(header)
            if sbbf.check_hashes(bitset, one.placed(values[one.hash], num_blocks)).all()
        )
        # Two choices of a block agree on one key in num_blocks; where there is one block, always.
        passes = sbbf.measure(bitset)[1] + (1 / num_blocks if num_blocks > 1 else 0)
        return cls(fitting, min(1.0, passes) ** num_values, num_values)

    @classmethod
    def together(cls, trials: Sequence[Trial]) -> Trial:
        """What the trials of several filters of one variant tell, one at least."""
        fitting = tuple(one for one in trials[0].fitting if all(one in trial.fitting for trial in trials))
        chance = float(np.prod([trial.chance for trial in trials]))
        return cls(fitting, chance, sum(trial.num_values for trial in trials))

    @property
    def problem(self) -> str | None:
        """Why the variant cannot be said, or None."""
        if not self.fitting:
            return "no variant fits: under each, the filter denies values of its column"
        if not self.num_values:
            return "its variant cannot be said: its column has no values to tell it by"
        if len(self.fitting) > 1:
            return f"its variant cannot be said: {' and '.join(map(str, self.fitting))} fit"
        if self.chance > CHANCE:
            return f"its variant cannot be said: {self.num_values} distinct values are too few to tell it by"
        return None

    def of_single_blocks(self) -> Trial:
        """The same, for filters of one block, where every choice of a block is the same one."""
        hashes = {one.hash: one for one in reversed(self.fitting)}
        return Trial(tuple(reversed(hashes.values())), self.chance, self.num_values)
