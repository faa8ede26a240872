"""XXH64 of arrays of keys: values, bitmaps and slices, and buffers that do not hold the keys they should.

Every width and layout is hashed by every instruction set in `test_kernels.py`.
"""

from __future__ import annotations

import gc
import random

import numpy as np
import pyarrow as pa
import pytest
from support.oracle import oracle

from parquet_bloom.core.hash.xxh64 import Keys, hash_keys, hash_one

INT64_MAX = 2**63 - 1


def bitmap(valid: list[bool], offset: int = 0, seed: int = 0) -> bytes:
    """Make an Arrow bitmap whose bit number `offset` is the first of `valid`; the bits before and after are random."""
    rng = random.Random(seed)
    bits = [rng.random() < 0.5 for _ in range(offset)] + list(valid)
    bits += [rng.random() < 0.5 for _ in range(-len(bits) % 8 + 8)]
    return np.packbits(bits, bitorder="little").tobytes()


def test_one_value():
    for length in (*range(131), 2**16, 2**20 + 13):
        value = random.Random(length).randbytes(length)
        for form in (value, bytearray(value), memoryview(value), np.frombuffer(value, np.uint8)):
            assert hash_one(form) == oracle.xxh64(value)
    assert hash_keys(Keys.fixed(value, length, 1)).tolist() == [oracle.xxh64(value)]


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 700])
def test_nulls_are_left_out_at_any_bit_offset(length):
    """Around the bytes of a bitmap, the 64 bits of a word, and the keys that are hashed at one go."""
    for offset in (*range(17), 77):
        rng = random.Random(f"{length} {offset}")
        valid = [rng.random() < 0.6 for _ in range(length)]
        validity = bitmap(valid, offset, seed=length)
        values = [rng.randbytes(rng.randrange(40)) for _ in range(offset + length)]
        fixed = rng.randbytes(8 * (offset + length))
        keep = [offset + i for i, good in enumerate(valid) if good]
        starts, data = np.cumsum([5, *map(len, values)]), b"#" * 5 + b"".join(values) + b"behind"
        for wide in (False, True):
            keys = Keys.variable(starts.astype(np.int64 if wide else np.int32), data, length, offset, validity, wide)
            assert len(keys) == length
            assert hash_keys(keys).tolist() == [oracle.xxh64(values[i]) for i in keep]
        keys = Keys.fixed(fixed, 8, length, offset, validity)
        assert hash_keys(keys).tolist() == [oracle.xxh64(fixed[8 * i : 8 * i + 8]) for i in keep]
    for good in (False, True):
        keys = Keys.fixed(bytes(4 * length), 4, length, 0, bitmap([good] * length))
        assert hash_keys(keys).tolist() == [oracle.xxh64(bytes(4))] * (length if good else 0)


def test_nothing_to_hash():
    """Arrow arrays without values have no buffers, and empty values need no data."""
    for keys in (
        Keys.fixed(None, 8, 0),
        Keys.fixed(b"", 8, 0),
        Keys.variable(None, None, 0),
        Keys.variable(b"", b"", 0, wide=True),
        Keys.variable(None, None, 0, validity=b""),
    ):
        hashes = hash_keys(keys)
        assert hashes.dtype == np.uint64
        assert hashes.shape == (0,)
    for data in (None, b""):
        assert hash_keys(Keys.variable(np.zeros(4, np.int32), data, 3)).tolist() == [oracle.xxh64(b"")] * 3


@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()])
def test_slices_of_arrow_arrays(arrow_type):
    rng = random.Random(3)
    values = [rng.choice([None, rng.randbytes(rng.randrange(50))]) for _ in range(400)]
    array = pa.array(values, arrow_type)
    for start, stop in ((0, 400), (1, 3), (13, 399), (256, 400), (400, 400)):
        part = array.slice(start, stop - start)
        validity, offsets, data = part.buffers()
        keys = Keys.variable(offsets, data, len(part), part.offset, validity, arrow_type == pa.large_binary())
        assert hash_keys(keys).tolist() == [oracle.xxh64(v) for v in values[start:stop] if v is not None]


@pytest.mark.ci
def test_memory_stays_alive_with_the_keys():
    def make() -> Keys:
        data = np.arange(100_000, dtype=np.int64)
        return Keys.fixed(data, 8, len(data), 0, bitmap([True] * len(data)))

    keys = make()
    gc.collect()
    other = [np.full(100_000, 7, np.int64) for _ in range(5)]  # takes the memory that was freed, if it was
    expected = [oracle.xxh64(i.to_bytes(8, "little")) for i in (0, 1, 99_999)]
    assert hash_keys(keys)[[0, 1, 99_999]].tolist() == expected
    assert len(other) == 5


def test_fixed_keys_outside_of_their_buffers_are_refused():
    many = bytes(64)
    for arguments in (
        *((many, 0, 1), (many, -8, 1), (many, 8, -1), (many, 8, 1, -1), (many, 8, 9), (many, 8, 8, 1), (many, 8, 1, 8)),
        *((bytes(63), 8, 8), (many, 65, 1), (b"", 8, 1), (many, 8, 1, INT64_MAX), (many, 8, INT64_MAX, 1)),
        *((many, 8, 2**62, 2**62), (many, INT64_MAX, INT64_MAX, INT64_MAX), (many, 8, 8, 0, b"")),
        *((bytes(800), 8, 9, 0, b"\xff"), (bytes(800), 8, 8, 1, b"\xff"), (bytes(800), 8, 1, 8, b"\xff")),
    ):
        with pytest.raises(ValueError):
            Keys.fixed(*arguments)


@pytest.mark.parametrize("wide", [False, True])
def test_variable_keys_outside_of_their_buffers_are_refused(wide):
    kind = np.int64 if wide else np.int32
    for offsets, length, offset in (
        *(([0, 1, 2], 3, 0), ([0, 1, 2], 2, 1), ([0, 1, 2], 1, 2), ([0, 1, 2], 0, -1), ([0, 1, 2], -1, 0)),
        *(([0, 1, 3], 2, 0), ([-1, 1, 2], 2, 0), ([2, 1, 0], 2, 0), ([0, 1, 2], INT64_MAX, 0)),
        *(([0, 1, 2], 1, INT64_MAX), ([0, 1, 2], 2**62, 2**62), ([0, 1, 2**31 - 1], 2, 0), ([], 1, 0), ([0], 1, 0)),
    ):
        with pytest.raises(ValueError):
            Keys.variable(np.array(offsets, kind), b"ab", length, offset, None, wide)
    with pytest.raises(ValueError):
        Keys.variable(np.array([0, 1, 2], kind), None, 2, 0, None, wide)
    for offsets in ([0, 4, 2, 8], [0, -1, 2, 8], [0, 2**31 - 1, 2, 8], [3, 2, 8, 8]):  # memory beside would be read
        with pytest.raises(ValueError, match=r"fall|outside"):
            Keys.variable(np.array(offsets, kind), bytes(8), 3, wide=wide)


def test_other_invalid_buffers_are_refused():
    with pytest.raises(ValueError, match="offsets"):
        Keys.variable(np.zeros(4, np.int32), b"", 3, 0, None, True)
    with pytest.raises(ValueError, match="bitmap"):
        Keys.variable(np.zeros(10, np.int32), b"", 9, 0, b"\xff")
    for values in (None, "text", 5, np.arange(10)[::2]):
        with pytest.raises((TypeError, ValueError, BufferError)):
            Keys.fixed(values, 1, 5)
    with pytest.raises(TypeError, match=r"Keys\.fixed"):
        Keys()
    with pytest.raises(TypeError):
        hash_keys(None)
