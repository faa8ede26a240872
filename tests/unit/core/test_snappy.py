"""Decompressing the beginning of Snappy data gives the original bytes; invalid data gives an error or other bytes."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.core.decode.snappy import Scratch, unpack_front, unpack_pair

SNAPPY = pa.Codec("snappy")


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


BROKEN = [
    (b"", 0),
    (b"\x80", 0),
    (b"\x80\x80\x80\x80\x80\x01", 1 << 35),
    (b"\x05\x10abcde", 4),  # of another size
    (b"\x05\x10abcd", 5),  # a literal cut off
    (b"\x05\xf0", 5),  # its length cut off
    (b"\x05\x14abcdef", 5),  # more than there is room for
    (b"\x05\x01\x01", 5),  # a copy from in front of the beginning
    (b"\x05\x00a\x01\x00", 5),  # a copy from nowhere
    (b"\x05\x00a\x02\x01", 5),  # a copy cut off
    (b"\x05\x00a\x3e\x01\x00", 5),  # a copy of more than there is room for
    (b"\x05\x00a", 5),
]


@pytest.mark.parametrize(("packed", "size"), BROKEN)
def test_broken(packed, size) -> None:
    with pytest.raises(ValueError, match="snappy"):
        unpack_front(packed, size, max(size, 1))


def test_pairs() -> None:
    """Two blocks in turn give what each gives alone, whichever ends first."""
    rng = random.Random(4)
    for _ in range(40):
        every = [*texts(rng), *texts(rng)]
        rng.shuffle(every)
        for one, other in itertools.pairwise(every):
            first, second = unpack_pair(compress(one), len(one), compress(other), len(other))
            assert (first.tobytes(), second.tobytes()) == (one, other)
    text = b"abcdefg" * 999
    packed = compress(text)
    assert [part.tobytes() for part in unpack_pair(packed, len(text), packed, len(text))] == [text, text]


@pytest.mark.parametrize(("packed", "size"), BROKEN)
def test_broken_pairs(packed: bytes, size: int) -> None:
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
