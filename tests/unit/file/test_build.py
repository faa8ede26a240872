"""Building filters: exact counts, exact sizes, the same bits on every way to them."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import sizing
from parquet_bloom.file.filter_builder import FilterBuilder, FilterOptions
from parquet_bloom.hashing.column_type import from_arrow

INT64 = from_arrow(pa.int64())
ROWS = 180_000  # more than a set in fast caches counts, and than are inserted at once


@functools.cache
def shapes() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    unique = rng.integers(-(2**63), 2**63 - 1, ROWS)
    return {
        "none": unique[:0],
        "one": unique[:1],
        "all different": unique,
        "all equal": np.repeat(unique[:1], ROWS),
        "ten": rng.choice(unique[:10], ROWS),
        "each twice, far apart": np.concatenate([unique[: ROWS // 2]] * 2),
        "each twice, side by side": np.repeat(unique[: ROWS // 2], 2),
        "different at first, then the same": np.concatenate([unique[: ROWS // 6], np.repeat(unique[:10], ROWS // 12)]),
        "the same at first, then different": np.concatenate([np.repeat(unique[:10], ROWS // 12), unique[: ROWS // 6]]),
        "skewed": unique[rng.zipf(1.3, ROWS) % len(unique)],
    }


@pytest.mark.ci
@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("power_of_two", [True, False])
@pytest.mark.parametrize("promised", [0, ROWS, 10**12])
def test_counts_sizes_and_bits_are_exact(shape, power_of_two, promised):
    """Whatever was promised about their number, and in memory that another chunk was built in."""
    values = shapes()[shape]
    distinct = np.unique(values)
    options = FilterOptions(0.01, None, power_of_two)
    expected = SplitBlockBloomFilter(sizing.size_for(len(distinct), 0.01, power_of_two))
    expected.insert(distinct)
    builder = FilterBuilder()
    for _ in range(2):
        built = builder.build([pa.array(values[:777]), pa.array(values[777:])], INT64, options, promised)
        assert built.ndv == len(distinct)
        assert built.filter == expected
        assert built.empty == (len(distinct) == 0)
        assert built.fpp == sizing.fpp_for(len(distinct), expected.num_bytes)
        builder.build([pa.array(np.arange(5000))], INT64, options, 5000)


def test_an_unreadable_chunk_leaves_no_files():
    def broken():
        yield pa.array(range(ROWS))
        raise OSError("gone")

    builder = FilterBuilder()
    with pytest.raises(OSError, match="gone"):
        builder.build(broken(), INT64, FilterOptions(), ROWS)
    built = builder.build([pa.array([1, 2, 2])], INT64, FilterOptions(), 3)
    expected = SplitBlockBloomFilter(built.filter.num_bytes)
    expected.insert([1, 2], pa.int64())
    assert built.ndv == 2
    assert built.filter == expected


def test_filters_do_not_share_memory():
    builder = FilterBuilder()
    values = pa.array(range(ROWS))
    first = builder.build([values], INT64, FilterOptions(), ROWS).filter
    before = first.to_bytes()
    builder.build([pa.array(range(ROWS, 2 * ROWS))], INT64, FilterOptions(), ROWS)
    assert first.to_bytes() == before
