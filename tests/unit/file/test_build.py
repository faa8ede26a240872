"""Building filters: exact counts, exact sizes, the same bits on every way to them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import sbbf, sizing
from parquet_bloom.core.bloom.distinct import HashSet
from parquet_bloom.file import filter_builder
from parquet_bloom.file.filter_builder import FilterBuilder, FilterOptions
from parquet_bloom.hashing.column_type import from_arrow

INT64 = from_arrow(pa.int64())


@pytest.fixture(params=[20, 1 << 16])
def few_keys(request, monkeypatch):
    """Set the number of keys below which a filter is built in one piece."""
    monkeypatch.setattr(filter_builder, "FEW_KEYS", request.param)
    monkeypatch.setattr(filter_builder, "PIECE_ROWS", 1000)
    return request.param


def shapes() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    unique = rng.integers(-(2**63), 2**63 - 1, 30_000)
    return {
        "none": unique[:0],
        "one": unique[:1],
        "all different": unique,
        "all equal": np.repeat(unique[:1], 30_000),
        "ten": rng.choice(unique[:10], 30_000),
        "each twice, far apart": np.concatenate([unique[:15_000]] * 2),
        "each twice, side by side": np.repeat(unique[:15_000], 2),
        "different at first, then the same": np.concatenate([unique[:5_000], np.repeat(unique[:10], 2_500)]),
        "the same at first, then different": np.concatenate([np.repeat(unique[:10], 2_500), unique[:5_000]]),
        "skewed": unique[rng.zipf(1.3, 30_000) % len(unique)],
    }


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("power_of_two", [True, False])
@pytest.mark.parametrize("promised", [0, 1, 30_000, 10**12])
def test_counts_sizes_and_bits_are_exact(few_keys, shape, power_of_two, promised):
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


def test_an_unreadable_chunk_leaves_no_files(few_keys):
    def broken():
        yield pa.array(range(2500))
        raise OSError("gone")

    builder = FilterBuilder()
    with pytest.raises(OSError, match="gone"):
        builder.build(broken(), INT64, FilterOptions(), 5000)
    built = builder.build([pa.array([1, 2, 2])], INT64, FilterOptions(), 3)
    expected = SplitBlockBloomFilter(built.filter.num_bytes)
    expected.insert([1, 2], pa.int64())
    assert built.ndv == 2
    assert built.filter == expected


def test_filters_do_not_share_memory(few_keys):
    builder = FilterBuilder()
    values = pa.array(range(3000))
    first = builder.build([values], INT64, FilterOptions(), 3000).filter
    before = first.to_bytes()
    builder.build([pa.array(range(10_000, 13_000))], INT64, FilterOptions(), 3000)
    assert first.to_bytes() == before


@pytest.mark.parametrize("common", [0, 1, 3000, 20_000])
@pytest.mark.parametrize("others", [0, 1, 20_000])
def test_count_with(common, others):
    rng = np.random.default_rng(common)
    hashes = np.unique(rng.integers(0, 2**64, 50_000, dtype=np.uint64))
    rng.shuffle(hashes)
    counted = HashSet()
    counted.add(np.repeat(hashes[:20_000], 2))
    given = np.concatenate([hashes[:common], hashes[20_000 : 20_000 + others]])
    assert counted.count_with(given) == 20_000 + others
    assert counted.count_with(given[:0]) >= 20_000


def test_hashes_that_a_set_remembers_are_those_it_has():
    """0 is what memory for them is filled with; all ones is the value in its slot."""
    edges = np.array([0, 2**64 - 1, 1], np.uint64)
    for value in edges:
        counted = HashSet()
        assert counted.at_most == 0
        counted.add(np.full(5000, value, np.uint64))
        assert len(counted) == 1
        assert counted.to_array().tolist() == [value]
        counted.clear()
        assert len(counted) == counted.at_most == 0
        counted.add(np.tile(edges, 2000))
        assert sorted(counted.to_array().tolist()) == sorted(edges.tolist())
        assert 3 <= counted.at_most <= 6000


def test_insert_new_needs_room():
    keys = sbbf.Keys.hashed(np.arange(10, dtype=np.uint64))
    room = np.empty(10, np.uint64)
    with pytest.raises(ValueError, match="no room for 10 hashes"):
        sbbf.insert_new(np.zeros(32, np.uint8), keys, room, room[:9])
    nothing = sbbf.Keys.hashed(np.empty(0, np.uint64))
    assert sbbf.insert_new(np.zeros(32, np.uint8), nothing, room[:0], room[:0]) == (0, 0)
