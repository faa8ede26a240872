"""A filter built from the hashes of one column chunk: counted, sized, filled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..core import sbbf, sizing
from ..core.distinct import HashSet
from ..core.xxh64 import hash_keys
from ..filter import SplitBlockBloomFilter
from ..hashing import arrays, literals
from ..hashing.physical import ColumnType, Kind
from .options import FilterOptions

PIECE_ROWS = 1 << 15  # hashed at once: few enough that their hashes are still in a near cache when they are counted


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
    """Builds filters, one after the other: the memory it counts values in serves for all of them."""

    def __init__(self) -> None:
        self._distinct = HashSet()

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
        that keep other readers from losing rows; see `_twins`.
        """
        twins = HashSet()
        made, ndv = None, None
        if options.ndv is not None:
            made = SplitBlockBloomFilter(options.num_bytes(0))
        self._distinct.clear(max(0, num_values))
        for array in _pieces(batches):
            keys = arrays.keys_of(array)
            if column_type.kind is Kind.FLOAT:
                twins.add(_twins(array, column_type))
            if made is None:
                self._distinct.add(hash_keys(keys))
            else:
                sbbf.insert_keys(made, keys)
        if made is None:
            ndv = len(self._distinct)
            made = SplitBlockBloomFilter(options.num_bytes(ndv + len(twins) if column_type.length == 2 else ndv))
            self._distinct.fill(made)
        twins.fill(made)
        return BuiltFilter(made, ndv, made.fpp if ndv is None else sizing.fpp_for(ndv + len(twins), made.num_bytes))


def _pieces(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
    """The same values, at most PIECE_ROWS at once."""
    for array in batches:
        if len(array) <= PIECE_ROWS:
            yield array
        else:
            yield from (array.slice(start, PIECE_ROWS) for start in range(0, len(array), PIECE_ROWS))


def _twins(array: pa.Array, column_type: ColumnType) -> np.ndarray:
    """Hashes under which other readers look for the floats of an array, beyond those of the stored values.

    Zero equals zero, but DataFusion and Spark probe for the literal's sign alone: both are added when one occurs. NaN
    has many encodings, and Spark probes for the canonical one. DuckDB looks for a float16 as a float32.
    """
    floats = arrays.floats_of(array.drop_null())
    if column_type.length == 2:
        # By their bits: a sort of floats rewrites NaNs, on each processor in its own way.
        wide = np.unique(floats.astype(np.float32).view(np.uint32)).view(np.float32)
        found = [arrays.hash_array(pa.array(wide)), _special(floats, ColumnType("FLOAT", Kind.FLOAT, 4))]
    else:
        found = []
    return np.concatenate([*found, _special(floats, column_type)])


def _special(floats: np.ndarray, column_type: ColumnType) -> np.ndarray:
    """Hashes of both zeros if there is one among the floats, and of the canonical NaN if there is a NaN."""
    values = ([0.0] if (floats == 0).any() else []) + ([math.nan] if np.isnan(floats).any() else [])
    return literals.hashes(values, column_type)
