"""Murmur3 of arrays of keys: widths, layouts, slices and bitmaps, compared with a slow twin and published values."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from support.writers import drafts

from parquet_bloom.core.hash.murmur3 import hash_keys, hash_one
from parquet_bloom.core.keys import Keys
from parquet_bloom.hashing.arrow_keys import keys_of


def twin(value: bytes, seed: int) -> int:
    return drafts.murmur3_x64_128(value, seed)[0]


def test_published_values():
    """Of the 128 bits that other projects publish in hex, the first 64 as the little-endian number they are."""
    for value, expected in (
        (b"", 0x0000000000000000),
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"hello, world", 0x342FAC623A5EBC8E),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ):
        assert hash_one(value) == expected, value
    # As smhasher verifies: keys of 0 to 255 bytes, each with another seed, and the hash of all hashes.
    hashes = b""
    for length in range(256):
        words = drafts.murmur3_x64_128(bytes(range(length)), 256 - length)
        hashes += b"".join(word.to_bytes(8, "little") for word in words)
    assert twin(hashes, 0) & 0xFFFFFFFF == 0x6384BA69


@pytest.mark.parametrize("seed", [0, 1, drafts.SEED, 2**32 - 1])
def test_one_value(seed):
    for length in (*range(131), 2**16 + 9):
        value = random.Random(length).randbytes(length)
        for form in (value, bytearray(value), np.frombuffer(value, np.uint8)):
            assert hash_one(form, seed) == twin(value, seed)


def test_fixed_widths():
    for width in (1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33):
        data = random.Random(width).randbytes(width * 50)
        expected = [twin(data[i : i + width], drafts.SEED) for i in range(0, len(data), width)]
        assert hash_keys(Keys.fixed(data, width, 50), drafts.SEED).tolist() == expected
        assert hash_keys(Keys.fixed(data, width, 40, 7), drafts.SEED).tolist() == expected[7:47]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_variable_widths_and_nulls(kind):
    for start in (0, 1, 9):
        rng = random.Random(start)
        values = [None if rng.random() < 0.2 else rng.randbytes(rng.randrange(60)) for _ in range(200)]
        array = pa.array(values, kind).slice(start, 150)
        expected = [twin(value, 7) for value in values[start : start + 150] if value is not None]
        assert hash_keys(keys_of(array), 7).tolist() == expected


def test_no_keys_hashes_and_invalid_keys():
    assert hash_keys(Keys.fixed(b"", 8, 0)).tolist() == []
    assert hash_keys(keys_of(pa.array([None, None], pa.int64()))).tolist() == []
    assert hash_keys(keys_of(pa.array([b"", b""]))).tolist() == [0, 0]
    hashes = np.array([1, 2**64 - 1], np.uint64)
    assert hash_keys(Keys.hashed(hashes), 5).tolist() == hashes.tolist()  # they stay what they are
    with pytest.raises(TypeError):
        hash_keys(None)
    with pytest.raises(TypeError):
        hash_one("text")
    for seed in (-1, 2**32):
        with pytest.raises(OverflowError):
            hash_one(b"", seed)
