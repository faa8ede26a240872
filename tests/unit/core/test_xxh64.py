"""XXH64 of arrays of keys: every width, layout, slice and bitmap, compared with the xxhash package."""

from __future__ import annotations

import gc
import random

import numpy as np
import pyarrow as pa
import pytest
from support.oracle import oracle

from parquet_bloom.core.hash.xxh64 import Keys, hash_keys, hash_one

WIDTHS = range(1, 131)
# Around the bytes of a bitmap, the 64 bits of a word, and the keys that are hashed at one go.
LENGTHS = (0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 700)
INT64_MAX = 2**63 - 1


def bitmap(valid: list[bool], offset: int = 0, seed: int = 0) -> bytes:
    """Make an Arrow bitmap whose bit number `offset` is the first of `valid`; the bits before and after are random."""
    rng = random.Random(seed)
    bits = [rng.random() < 0.5 for _ in range(offset)] + list(valid)
    bits += [rng.random() < 0.5 for _ in range(-len(bits) % 8 + 8)]
    return np.packbits(bits, bitorder="little").tobytes()


def variable(values: list[bytes], *, wide: bool = False, offset: int = 0, validity: bytes | None = None) -> Keys:
    """Make keys of `values[offset:]`, in buffers that begin before and end after them."""
    starts = np.cumsum([5, *map(len, values)]).astype(np.int64 if wide else np.int32)
    data = b"#" * 5 + b"".join(values) + b"behind"
    return Keys.variable(starts, data, len(values) - offset, offset, validity, wide)


@pytest.mark.parametrize("width", WIDTHS)
def test_fixed_widths(width):
    data = random.Random(width).randbytes(width * 300)
    expected = [oracle.xxh64(data[i : i + width]) for i in range(0, len(data), width)]
    assert hash_keys(Keys.fixed(data, width, 300)).tolist() == expected
    assert hash_keys(Keys.fixed(data, width, 290, 7)).tolist() == expected[7:297]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 8, 77])
def test_variable_widths(wide, offset):
    """All lengths from 0 to 130, shuffled."""
    rng = random.Random(offset)
    values = [rng.randbytes(length) for length in range(131) for _ in range(3)]
    rng.shuffle(values)
    expected = [oracle.xxh64(value) for value in values]
    assert hash_keys(variable(values, wide=wide)).tolist() == expected
    assert hash_keys(variable(values, wide=wide, offset=offset)).tolist() == expected[offset:]


@pytest.mark.parametrize("length", range(131))
def test_one_value(length):
    value = random.Random(length).randbytes(length)
    for form in (value, bytearray(value), memoryview(value), np.frombuffer(value, np.uint8)):
        assert hash_one(form) == oracle.xxh64(value)


@pytest.mark.parametrize("length", [2**16, 2**20 + 13])
def test_a_long_value(length):
    value = random.Random(length).randbytes(length)
    assert hash_one(value) == oracle.xxh64(value)
    assert hash_keys(Keys.fixed(value, length, 1)).tolist() == [oracle.xxh64(value)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("offset", range(17))
def test_nulls_are_left_out_at_any_bit_offset(length, offset):
    rng = random.Random(f"{length} {offset}")
    valid = [rng.random() < 0.6 for _ in range(length)]
    validity = bitmap(valid, offset, seed=length)
    values = [rng.randbytes(rng.randrange(40)) for _ in range(offset + length)]
    fixed = rng.randbytes(8 * (offset + length))
    keep = [offset + i for i, good in enumerate(valid) if good]
    for wide in (False, True):
        keys = variable(values, wide=wide, offset=offset, validity=validity)
        assert len(keys) == length
        assert hash_keys(keys).tolist() == [oracle.xxh64(values[i]) for i in keep]
    keys = Keys.fixed(fixed, 8, length, offset, validity)
    assert hash_keys(keys).tolist() == [oracle.xxh64(fixed[8 * i : 8 * i + 8]) for i in keep]


@pytest.mark.parametrize("good", [False, True])
def test_all_null_and_none_null(good):
    keys = Keys.fixed(bytes(4 * 500), 4, 500, 0, bitmap([good] * 500))
    assert hash_keys(keys).tolist() == [oracle.xxh64(bytes(4))] * (500 if good else 0)


def test_nothing_to_hash():
    """Arrow arrays without values have no buffers."""
    nothing = [
        Keys.fixed(None, 8, 0),
        Keys.fixed(b"", 8, 0),
        Keys.variable(None, None, 0),
        Keys.variable(b"", b"", 0, wide=True),
        Keys.variable(None, None, 0, validity=b""),
    ]
    for keys in nothing:
        hashes = hash_keys(keys)
        assert hashes.dtype == np.uint64
        assert hashes.shape == (0,)


def test_empty_values_need_no_data():
    for data in (None, b""):
        assert hash_keys(Keys.variable(np.zeros(4, np.int32), data, 3)).tolist() == [oracle.xxh64(b"")] * 3


def test_keys_at_odd_addresses():
    raw = random.Random(1).randbytes(1 + 8 * 20)
    expected = [oracle.xxh64(raw[1 + 8 * i : 9 + 8 * i]) for i in range(20)]
    assert hash_keys(Keys.fixed(memoryview(raw)[1:], 8, 20)).tolist() == expected


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


@pytest.mark.parametrize(
    "arguments",
    [
        (bytes(64), 0, 1),
        (bytes(64), -8, 1),
        (bytes(64), 8, -1),
        (bytes(64), 8, 1, -1),
        (bytes(64), 8, 9),
        (bytes(64), 8, 8, 1),
        (bytes(64), 8, 1, 8),
        (bytes(63), 8, 8),
        (bytes(64), 65, 1),
        (b"", 8, 1),
        (bytes(64), 8, 1, INT64_MAX),
        (bytes(64), 8, INT64_MAX, 1),
        (bytes(64), 8, 2**62, 2**62),
        (bytes(64), INT64_MAX, INT64_MAX, INT64_MAX),
        (bytes(64), 8, 8, 0, b""),
        (bytes(800), 8, 9, 0, b"\xff"),
        (bytes(800), 8, 8, 1, b"\xff"),
        (bytes(800), 8, 1, 8, b"\xff"),
    ],
)
def test_fixed_keys_outside_of_their_buffers_are_refused(arguments):
    with pytest.raises(ValueError):
        Keys.fixed(*arguments)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("offsets", "data", "length", "offset"),
    [
        ([0, 1, 2], b"ab", 3, 0),
        ([0, 1, 2], b"ab", 2, 1),
        ([0, 1, 2], b"ab", 1, 2),
        ([0, 1, 2], b"ab", 0, -1),
        ([0, 1, 2], b"ab", -1, 0),
        ([0, 1, 3], b"ab", 2, 0),
        ([0, 1, 2], None, 2, 0),
        ([-1, 1, 2], b"ab", 2, 0),
        ([2, 1, 0], b"ab", 2, 0),
        ([0, 1, 2], b"ab", INT64_MAX, 0),
        ([0, 1, 2], b"ab", 1, INT64_MAX),
        ([0, 1, 2], b"ab", 2**62, 2**62),
        ([0, 1, 2**31 - 1], b"ab", 2, 0),
        ([], b"ab", 1, 0),
        ([0], b"ab", 1, 0),
    ],
)
def test_variable_keys_outside_of_their_buffers_are_refused(offsets, data, length, offset, wide):
    starts = np.array(offsets, np.int64 if wide else np.int32)
    with pytest.raises(ValueError):
        Keys.variable(starts, data, length, offset, None, wide)


def test_offsets_of_the_other_width_are_refused():
    with pytest.raises(ValueError, match="offsets"):
        Keys.variable(np.zeros(4, np.int32), b"", 3, 0, None, True)


def test_short_bitmaps_of_variable_keys_are_refused():
    with pytest.raises(ValueError, match="bitmap"):
        Keys.variable(np.zeros(10, np.int32), b"", 9, 0, b"\xff")


@pytest.mark.parametrize("values", [None, "text", 5, np.arange(10)[::2]])
def test_invalid_buffers_are_refused(values):
    with pytest.raises((TypeError, ValueError, BufferError)):
        Keys.fixed(values, 1, 5)


def test_keys_are_made_in_two_ways_only():
    with pytest.raises(TypeError, match=r"Keys\.fixed"):
        Keys()
    with pytest.raises(TypeError):
        hash_keys(None)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("offsets", [[0, 4, 2, 8], [0, -1, 2, 8], [0, 2**31 - 1, 2, 8], [3, 2, 8, 8]])
def test_offsets_that_fall_are_refused(wide, offsets):
    """Such keys are undefined, and memory outside of the data would be read."""
    with pytest.raises(ValueError, match=r"fall|outside"):
        Keys.variable(np.array(offsets, np.int64 if wide else np.int32), bytes(8), 3, wide=wide)
