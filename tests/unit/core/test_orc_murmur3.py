"""ORC's hashes and bits, compared with a slow twin and with values of its writers."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import orc_oracle

from parquet_bloom.core.hash import orc_murmur3 as orc_hash


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20), st.lists(st.binary(max_size=40), max_size=10))
def test_hashes_are_the_twins(values: list[int], texts: list[bytes]) -> None:
    values, texts = [-1, *values], [b"hello", *texts]
    hashes = orc_hash.hash_longs(np.array(values, np.int64)).tolist()
    assert hashes == list(map(orc_oracle.wang, values))
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    of_texts = orc_hash.hash_bytes(b"".join(texts), offsets).tolist()
    assert of_texts == list(map(orc_oracle.murmur, texts))
    assert (hashes[0], of_texts[0]) == (0x5BCA868437950D03, 0x3928100018224141)  # as its writers have them


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=12), st.integers(1, 255), st.integers(1, 40))
def test_bits(hashes: list[int], functions: int, num_bytes: int) -> None:
    """The bits are those of the twin, the memory around them is not changed, and all inserted values are found."""
    around = np.zeros(num_bytes + 16, np.uint8)
    orc_hash.insert(around[8:-8], np.array(hashes, np.uint64), functions)
    assert bytes(around) == bytes(8) + orc_oracle.bitset(hashes, functions, 8 * num_bytes) + bytes(8)
    bits = around[8:-8]
    assert orc_hash.check(bits, np.array(hashes, np.uint64), functions).all()
    others = [(hashed ^ 0x9E3779B97F4A7C15) for hashed in hashes]
    expected = [
        all(bits[at // 8] >> at % 8 & 1 for at in orc_oracle.positions(hashed, functions, 8 * num_bytes))
        for hashed in others
    ]
    assert orc_hash.check(bits, np.array(others, np.uint64), functions).tolist() == expected


def test_invalid_input_is_refused() -> None:
    for offsets in ([], [0, 4], [-1, 2], [2, 1, 3], [4], [0, 1 << 62, 3]):
        with pytest.raises(ValueError, match="offsets must ascend"):
            orc_hash.hash_bytes(b"abc", np.array(offsets, np.int64))
    hashes = np.array([1], np.uint64)
    for num_bytes, functions in ((0, 1), (8, 0), (8, 256), (8, -1)):
        for act in (orc_hash.check, orc_hash.insert):
            with pytest.raises(ValueError, match=r"a bitset has|a filter has"):
                act(bytearray(num_bytes), hashes, functions)
    assert orc_hash.check(bytes(8), hashes, 3).tolist() == [False]
    with pytest.raises((ValueError, BufferError)):
        orc_hash.insert(bytes(8), hashes, 3)  # read-only
    for count, fpp in ((0, 0.1), (-1, 0.1), (1, 0.0), (1, 1.0), (1, math.nan), (1 << 40, 0.01)):
        with pytest.raises(ValueError, match=r"num_values must be at least 1|less than"):
            orc_hash.size_for(count, fpp)


@given(st.integers(1, 10_000_000), st.floats(1e-9, 0.999))
def test_sizes(count: int, fpp: float) -> None:
    least = int(-count * math.log(fpp) / math.log(2) ** 2)
    num_bits, functions = orc_hash.size_for(count, fpp)
    assert num_bits % 64 == 0
    assert 0 < num_bits - least <= 64
    assert functions == max(1, math.floor(num_bits / count * math.log(2) + 0.5))


def test_known_sizes_and_rates() -> None:
    """A filter with its intended number of values is half full, and has its intended false-positive rate."""
    assert orc_hash.size_for(10_000, 0.01) == (95_872, 7)
    aligned = next(n for n in range(1, 100_000) if int(-n * math.log(0.01) / math.log(2) ** 2) % 64 == 0)
    assert orc_hash.size_for(aligned, 0.01)[0] == int(-aligned * math.log(0.01) / math.log(2) ** 2) + 64
    num_bits, functions = orc_hash.size_for(5_000, 0.02)
    bits = bytearray(num_bits // 8)
    values = random.Random(5).sample(range(1 << 62), 45_000)
    orc_hash.insert(bits, orc_hash.hash_longs(np.array(values[:5_000])), functions)
    assert 0.47 < sum(byte.bit_count() for byte in bits) / num_bits < 0.53
    matches = orc_hash.check(bits, orc_hash.hash_longs(np.array(values[5_000:])), functions)
    assert 0.015 < matches.mean() < 0.025
