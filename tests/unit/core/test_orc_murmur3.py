"""ORC's hashes and bits, compared with a slow twin and with values of its writers."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import orc_oracle

from parquet_bloom.core.hash import orc_murmur3 as orc_hash

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
HASHES = st.integers(0, (1 << 64) - 1)


def hash_texts(texts: list[bytes]) -> list[int]:
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return orc_hash.hash_bytes(b"".join(texts), offsets).tolist()


def test_known_hashes() -> None:
    assert orc_hash.hash_longs(np.array([-1])).tolist() == [0x5BCA868437950D03]
    assert hash_texts([b"hello"]) == [0x3928100018224141]
    assert orc_oracle.wang(-1) == 0x5BCA868437950D03
    assert orc_oracle.murmur(b"hello") == 0x3928100018224141


@given(st.lists(LONGS, max_size=20))
def test_longs(values: list[int]) -> None:
    assert orc_hash.hash_longs(np.array(values, np.int64)).tolist() == list(map(orc_oracle.wang, values))


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_bytes(texts: list[bytes]) -> None:
    assert hash_texts(texts) == list(map(orc_oracle.murmur, texts))


@pytest.mark.parametrize("offsets", [[], [0, 4], [-1, 2], [2, 1, 3], [4], [0, 1 << 62, 3]])
def test_offsets_outside_of_the_data(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets must ascend"):
        orc_hash.hash_bytes(b"abc", np.array(offsets, np.int64))


@given(st.lists(HASHES, max_size=12), st.integers(1, 255), st.integers(1, 40))
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


@pytest.mark.parametrize(("num_bytes", "functions"), [(0, 1), (8, 0), (8, 256), (8, -1)])
def test_invalid_filters(num_bytes: int, functions: int) -> None:
    hashes = np.array([1], np.uint64)
    for act in (orc_hash.check, orc_hash.insert):
        with pytest.raises(ValueError, match=r"a bitset has|a filter has"):
            act(bytearray(num_bytes), hashes, functions)


def test_read_only_bits_are_checked_and_not_changed() -> None:
    assert orc_hash.check(bytes(8), np.array([5], np.uint64), 3).tolist() == [False]
    with pytest.raises((ValueError, BufferError)):
        orc_hash.insert(bytes(8), np.array([5], np.uint64), 3)


@given(st.integers(1, 10_000_000), st.floats(1e-9, 0.999))
def test_sizes(count: int, fpp: float) -> None:
    least = int(-count * math.log(fpp) / math.log(2) ** 2)
    num_bits, functions = orc_hash.size_for(count, fpp)
    assert num_bits % 64 == 0
    assert 0 < num_bits - least <= 64
    assert functions == max(1, math.floor(num_bits / count * math.log(2) + 0.5))


def test_known_sizes() -> None:
    assert orc_hash.size_for(10_000, 0.01) == (95_872, 7)
    aligned = next(n for n in range(1, 100_000) if int(-n * math.log(0.01) / math.log(2) ** 2) % 64 == 0)
    assert orc_hash.size_for(aligned, 0.01)[0] == int(-aligned * math.log(0.01) / math.log(2) ** 2) + 64


@pytest.mark.parametrize(("count", "fpp"), [(0, 0.1), (-1, 0.1), (1, 0.0), (1, 1.0), (1, math.nan), (1 << 40, 0.01)])
def test_sizes_that_cannot_be(count: int, fpp: float) -> None:
    with pytest.raises(ValueError, match=r"num_values must be at least 1|less than"):
        orc_hash.size_for(count, fpp)


def test_density_and_false_positives() -> None:
    """A filter with its intended number of values is half full, and has its intended false-positive rate."""
    draw = random.Random(5)
    num_bits, functions = orc_hash.size_for(5_000, 0.02)
    bits = bytearray(num_bits // 8)
    values = draw.sample(range(1 << 62), 45_000)
    orc_hash.insert(bits, orc_hash.hash_longs(np.array(values[:5_000])), functions)
    fill = sum(byte.bit_count() for byte in bits) / num_bits
    assert 0.47 < fill < 0.53
    matches = orc_hash.check(bits, orc_hash.hash_longs(np.array(values[5_000:])), functions)
    assert 0.015 < matches.mean() < 0.025
