"""A filter built from the hashes of one column chunk: counted, sized, filled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...core.bloom import memory, sbbf, sizing
from ...core.bloom.distinct import HashSet
from ...core.hash.xxh64 import Keys, hash_keys
from ...filter import SplitBlockBloomFilter
from ...hashing import arrow as arrays
from ...hashing import coerce as literals
from ...hashing.column_type import ColumnType, Kind
from .options import FilterOptions

PIECE_ROWS = 1 << 15  # inserted at once: few enough that their hashes are still in a near cache when they are counted
FEW_KEYS = 1 << 16  # that a set counts in near caches
MOST_EXPECTED = 1 << 22  # keys that room is made for in advance: 32 MiB, and a filter of 8 MiB


@dataclass(frozen=True)
class BuiltFilter:
    """A filter and what it was built from.

    Attributes
    ----------
    filter : the filter.
    ndv : distinct stored values of the column chunk; None when the caller gave a number and they were not counted.
    fpp : false-positive probability that the exact model gives for its size and keys.
    """

    filter: SplitBlockBloomFilter
    ndv: int | None
    fpp: float

    @property
    def empty(self) -> bool:
        """Whether it was built from no value."""
        return not (self.filter.fill if self.ndv is None else self.ndv)


class FilterBuilder:
    """Builds filters, one after the other: the memory it counts values in serves for all of them.

    How large a filter shall be is known when its keys are counted. A few distinct keys are counted in a set. When they
    get more, a filter counts them that is large enough for all that may come: a key that sets a bit in it never came
    before. Those that set none, repetitions and a few that collide, are the only ones that the set still has to look
    up. At last that filter is folded to its size.
    """

    def __init__(self) -> None:
        self._set = HashSet()
        self._bitset: np.ndarray | None = None
        self._fresh = np.empty(0, np.uint64)  # hashes of the keys that set a bit: all different
        self._num_fresh = 0
        self._seen = np.empty(PIECE_ROWS, np.uint64)

    def build(
        self, batches: Iterable[pa.Array], column_type: ColumnType, options: FilterOptions, num_values: int = 0
    ) -> BuiltFilter:
        """Build the filter of a column chunk.

        Parameters
        ----------
        batches : its stored values, as storage arrays (see `hashing.arrays`).
        column_type, options : its type, and how large the filter shall be.
        num_values : about how many values will come, if that is known.

        Notes
        -----
        The bits are those of every other writer for the same values and size, but for additions to columns of floats
        that keep other readers from losing rows; see `_alternative_hashes`.
        """
        expected = min(max(num_values, 0), MOST_EXPECTED)
        counted = options.ndv is None
        twins = HashSet()
        self._set.clear(expected)
        self._num_fresh = 0
        self._bitset = None if counted else memory.zeros(options.num_bytes(0))
        for array in _split_batches(batches):
            keys = arrays.keys_of(array)
            if column_type.kind is Kind.FLOAT:
                twins.add(_alternative_hashes(array, column_type))
            if not counted:
                sbbf.insert_keys(self._bitset, keys)
            elif self._bitset is not None:
                self._insert(self._bitset, keys)
            else:
                self._set.add(hash_keys(keys))
                if self._set.at_most > FEW_KEYS and len(self._set) > FEW_KEYS:
                    self._go_on(max(expected, 4 * FEW_KEYS), options)
        ndv = self._set.count_with(self._fresh[: self._num_fresh]) if counted else None
        if ndv is not None:
            self._resize(options.num_bytes(ndv + len(twins) if column_type.length == 2 else ndv))
        twins.fill(self._bitset)
        made, self._bitset = SplitBlockBloomFilter.from_bitset(self._bitset), None
        return BuiltFilter(made, ndv, made.fpp if ndv is None else sizing.fpp_for(ndv + len(twins), made.num_bytes))

    def _go_on(self, expected: int, options: FilterOptions) -> None:
        """From here on a filter counts."""
        hashes = self._set.to_array()
        self._num_fresh = len(hashes)
        self._make_room(max(expected, len(hashes)))
        self._fresh[: len(hashes)] = hashes
        self._bitset = memory.zeros(options.num_bytes(expected))
        self._set.fill(self._bitset)
        self._set.clear(expected)

    def _make_room(self, num_hashes: int) -> None:
        if len(self._fresh) < num_hashes:
            larger = memory.zeros(8 * num_hashes).view(np.uint64)
            larger[: len(self._fresh)] = self._fresh
            self._fresh = larger

    def _insert(self, bitset: np.ndarray, keys: Keys) -> None:
        if len(self._fresh) < self._num_fresh + len(keys):
            self._make_room(2 * (self._num_fresh + len(keys)))
        num_fresh, num_seen = sbbf.insert_new(bitset, keys, self._fresh[self._num_fresh :], self._seen)
        self._num_fresh += num_fresh
        self._set.add(self._seen[:num_seen])

    def _resize(self, size: int) -> None:
        """Make it a filter of `size` bytes with the same keys."""
        bitset = self._bitset
        # Two blocks that are folded into one are those between which a larger filter chooses: the bits are the same as
        # if it had been filled at the smaller size.
        while bitset is not None and len(bitset) > size and len(bitset) % (2 * size) == 0:
            bitset = sbbf.fold(bitset)
        if bitset is None or len(bitset) != size:
            bitset = memory.zeros(size)
            sbbf.insert_hashes(bitset, self._fresh[: self._num_fresh])
            self._set.fill(bitset)
        self._bitset = bitset


def _split_batches(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The same values, at most PIECE_ROWS at once."""
    for array in batches:
        if len(array) <= PIECE_ROWS:
            yield array
        else:
            yield from (array.slice(start, PIECE_ROWS) for start in range(0, len(array), PIECE_ROWS))


def _alternative_hashes(array: pa.Array, column_type: ColumnType) -> np.ndarray:
    """Hashes under which other readers look for the floats of an array, beyond those of the stored values.

    Zero equals zero, but DataFusion and Spark probe for the literal's sign alone: both are added when one occurs. NaN
    has many encodings, and Spark probes for the canonical one. DuckDB looks for a float16 as a float32.
    """
    floats = arrays.floats_of(array.drop_null())
    if column_type.length == 2:
        # By their bits: a sort of floats rewrites NaNs, on each processor in its own way.
        wide = np.unique(floats.astype(np.float32).view(np.uint32)).view(np.float32)
        found = [arrays.hash_array(pa.array(wide)), _special_hashes(floats, ColumnType("FLOAT", Kind.FLOAT, 4))]
    else:
        found = []
    return np.concatenate([*found, _special_hashes(floats, column_type)])


def _special_hashes(floats: np.ndarray, column_type: ColumnType) -> np.ndarray:
    """Hashes of both zeros if there is one among the floats, and of the canonical NaN if there is a NaN."""
    values = ([0.0] if (floats == 0).any() else []) + ([math.nan] if np.isnan(floats).any() else [])
    return literals.hashes(values, column_type)
