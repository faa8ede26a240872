"""The counted size of an LZ4 block is that of its bytes, and a block that is cut off is refused."""

import random
from contextlib import suppress

import pyarrow as pa
import pytest

from parquet_bloom.core.decode.lz4 import count_unpacked

LZ4 = pa.Codec("lz4_raw")


def test_sizes() -> None:
    rng = random.Random(1)
    for size in [1, 2, 14, 15, 16, 30, 269, 270, 271, 5000, 70_000, 1 << 20]:
        for data in (rng.randbytes(size), bytes(size), bytes(rng.choices(b"ab", k=size)), rng.randbytes(40) * size):
            assert count_unpacked(LZ4.compress(data, asbytes=True)) == len(data)


@pytest.mark.parametrize(
    ("block", "size"),
    [
        (b"\x00", 0),
        (b"\x02", 0),  # the match of the last token does not count
        (b"\x10a", 1),
        (b"\xf0\x00" + b"a" * 15, 15),
        (b"\xf0\xff\x01" + b"a" * 271, 271),
        (b"\x11a\x01\x00\x10b", 7),
        (b"\x1fa\x01\x00\xff\x00\x00", 275),
    ],
)
def test_blocks_by_hand(block: bytes, size: int) -> None:
    assert count_unpacked(block) == size


@pytest.mark.parametrize(
    "block", [b"", b"\x10", b"\x20a", b"\xf0", b"\xf0\xff", b"\x10a\x01", b"\x10a\x01\x00", b"\x1fa\x01\x00"]
)
def test_cut_off(block: bytes) -> None:
    with pytest.raises(ValueError, match="lz4"):
        count_unpacked(block)


def test_damage_is_counted_as_it_decompresses() -> None:
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
