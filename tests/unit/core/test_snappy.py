"""Snappy and LZ4: data and sizes are those of the codec; invalid data gives an error or other bytes."""

import itertools
import random
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.core.decode.lz4 import count_unpacked
from parquet_bloom.core.decode.snappy import Scratch, unpack_front, unpack_pair

SNAPPY, LZ4 = pa.Codec("snappy"), pa.Codec("lz4_raw")


def compress(data):
    return SNAPPY.compress(data, asbytes=True)


def texts(rng):
    """Make data that compresses to long literals, near and far copies, and overlapping copies."""
    length = rng.choice([0, 1, 7, 60, 61, 300, 5000, 70_000])
    yield rng.randbytes(length)
    yield bytes(rng.choices(b"ab", k=length))
    yield bytes(rng.choices(b"0123456789abcdef", k=length))
    yield bytes([rng.randrange(256)]) * length
    piece = rng.randbytes(rng.randrange(1, 40))
    yield piece * (length // len(piece))


def test_any_front() -> None:
    rng = random.Random(1)
    for _ in range(60):
        for text in texts(rng):
            packed = compress(text)
            assert unpack_front(packed, len(text), len(text)).tobytes() == text
            for expected in (0, rng.randrange(len(text) + 1), len(text) + 100):
                front = unpack_front(packed, len(text), expected).tobytes()
                assert len(front) >= min(expected, len(text))
                assert text.startswith(front)


def test_copies_with_four_byte_offsets() -> None:
    # A literal of 70,000 bytes, and a copy of 64 of them from 66,000 bytes back: no encoder of today writes one.
    text = random.Random(2).randbytes(70_000)
    size = 70_064
    head = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    literal = bytes([62 << 2]) + (len(text) - 1).to_bytes(3, "little") + text
    packed = head + literal + bytes([63 << 2 | 3]) + (66_000).to_bytes(4, "little")
    assert unpack_front(packed, size, size).tobytes() == text + text[4000:4064]
    assert SNAPPY.decompress(packed, size, asbytes=True) == text + text[4000:4064]


def test_pairs() -> None:
    """Two blocks in turn give what each gives alone, whichever ends first."""
    rng = random.Random(4)
    for _ in range(40):
        every = [*texts(rng), *texts(rng)]
        rng.shuffle(every)
        for one, other in itertools.pairwise([*every, every[-1]]):
            first, second = unpack_pair(compress(one), len(one), compress(other), len(other))
            assert (first.tobytes(), second.tobytes()) == (one, other)


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        *((b"", 0), (b"\x80", 0), (b"\x80\x80\x80\x80\x80\x01", 1 << 35)),
        (b"\x05\x10abcde", 4),  # of another size
        (b"\x05\x10abcd", 5),  # a literal cut off
        (b"\x05\xf0", 5),  # its length cut off
        (b"\x05\x14abcdef", 5),  # more than there is room for
        (b"\x05\x01\x01", 5),  # a copy from in front of the beginning
        (b"\x05\x00a\x01\x00", 5),  # a copy from nowhere
        (b"\x05\x00a\x02\x01", 5),  # a copy cut off
        (b"\x05\x00a\x3e\x01\x00", 5),  # a copy of more than there is room for
        (b"\x05\x00a", 5),
    ],
)
def test_broken_data_is_refused_alone_and_in_pairs(packed: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="snappy"):
        unpack_front(packed, size, max(size, 1))
    for text in (b"", b"a" * 1000, bytes(range(256)) * 20):
        with pytest.raises(ValueError, match="snappy"):
            unpack_pair(packed, size, compress(text), len(text))
        with pytest.raises(ValueError, match="snappy"):
            unpack_pair(compress(text), len(text), packed, size)
    with pytest.raises(ValueError, match="below 0"):
        unpack_pair(compress(b"a"), 1, compress(b"a"), -1)


def test_scratch_is_used_again_only_once_nothing_refers_to_it() -> None:
    scratch = Scratch()
    text = b"parquet bloom " * 500
    packed = compress(text)
    kept = [part for _ in range(30) for part in unpack_pair(packed, len(text), packed, len(text), scratch)]
    assert all(part.tobytes() == text for part in kept)
    assert not any(np.shares_memory(one, other) for one, other in itertools.pairwise(kept))
    scratch = Scratch()
    addresses = {scratch.take(size).__array_interface__["data"][0] for size in (1000, 900, 1000)}
    assert len(addresses) == 1
    view = memoryview(scratch.take(1000))[5:10]
    assert not np.shares_memory(np.asarray(view), scratch.take(1000))


def test_sizes_of_lz4_are_counted() -> None:
    rng = random.Random(1)
    for size in [1, 2, 14, 15, 16, 30, 269, 270, 271, 5000, 70_000, 1 << 20]:
        for data in (rng.randbytes(size), bytes(size), bytes(rng.choices(b"ab", k=size)), rng.randbytes(40) * size):
            assert count_unpacked(LZ4.compress(data, asbytes=True)) == len(data)
    for block, size in (
        *((b"\x00", 0), (b"\x02", 0), (b"\x10a", 1)),  # the match of the last token does not count
        *((b"\xf0\x00" + b"a" * 15, 15), (b"\xf0\xff\x01" + b"a" * 271, 271)),
        *((b"\x11a\x01\x00\x10b", 7), (b"\x1fa\x01\x00\xff\x00\x00", 275)),
    ):
        assert count_unpacked(block) == size
    for cut in (b"", b"\x10", b"\x20a", b"\xf0", b"\xf0\xff", b"\x10a\x01", b"\x10a\x01\x00", b"\x1fa\x01\x00"):
        with pytest.raises(ValueError, match="lz4"):
            count_unpacked(cut)


def test_damaged_lz4_is_counted_as_it_decompresses() -> None:
    """What the codec leaves of a room of other bytes are those that the block does not fill."""
    rng, agreed = random.Random(2), 0
    for _ in range(3000):
        data = bytes(rng.choices(b"abcdefgh", k=rng.randrange(1, 200)))
        block = bytearray(LZ4.compress(data, asbytes=True))
        block[rng.randrange(len(block))] = rng.randrange(256)
        with suppress(ValueError):
            size = count_unpacked(bytes(block))
            if 0 < size < 10_000:
                with suppress(OSError):
                    LZ4.decompress(bytes(block), decompressed_size=size)
                    with pytest.raises(OSError):
                        LZ4.decompress(bytes(block), decompressed_size=size - 1)
                    agreed += 1
    assert agreed > 1000
