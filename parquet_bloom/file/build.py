"""A filter built from the hashes of one column chunk: counted, sized, filled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..core import sizing
from ..core.distinct import HashSet
from ..core.xxh64 import hash_keys
from ..filter import SplitBlockBloomFilter
from ..hashing import arrays, literals
from ..hashing.physical import ColumnType
from .options import FilterOptions


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


def build_filter(batches: Iterable[pa.Array], column_type: ColumnType, options: FilterOptions) -> BuiltFilter:
    """Build the filter of a column chunk.

    Parameters
    ----------
    batches : its stored values, as storage arrays (see `hashing.arrays`).
    column_type, options : its type, and how large the filter shall be.

    Notes
    -----
    The bits are those of every other writer for the same values and size, but for two additions that keep other
    readers from losing rows: a column with a zero gets both signed zeros (DataFusion and Spark probe for the literal's
    only), and float16 values are also hashed as float32 (as DuckDB probes for them).
    """
    zeros = literals.hashes((0.0,), column_type) if column_type.signed_zero else None
    half = column_type.signed_zero and column_type.length == 2
    distinct = HashSet() if options.ndv is None else None
    made = SplitBlockBloomFilter(options.num_bytes(0)) if distinct is None else None
    extra: list[np.ndarray] = []
    for array in batches:
        hashes = hash_keys(arrays.keys_of(array))
        if zeros is not None and np.isin(hashes, zeros).any():
            extra.append(zeros)
        if half:
            extra.append(_as_float32(array))
        if distinct is not None:
            distinct.add(hashes)
        elif made is not None:
            made.insert_hashes(hashes)
    ndv = None
    if distinct is not None:
        ndv = len(distinct)
        keys = distinct.to_array()
        made = SplitBlockBloomFilter(options.num_bytes(ndv + sum(map(len, extra)) if half else ndv))
        made.insert_hashes(keys)
    assert made is not None
    for hashes in extra:
        made.insert_hashes(hashes)
    return BuiltFilter(made, ndv, made.fpp if ndv is None else sizing.fpp_for(ndv, made.num_bytes))


def _as_float32(array: pa.Array) -> np.ndarray:
    """Distinct hashes of float16 values (and of both zeros when one occurs) widened to float32."""
    wide = np.unique(arrays.floats_of(array.drop_null()).astype(np.float32))
    if (wide == 0).any():
        wide = np.append(wide, np.array([0.0, -0.0], np.float32))
    return arrays.hash_array(pa.array(wide, pa.float32()))
