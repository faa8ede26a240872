"""core/decode/snappy.pyx: the front of a compressed page, compared with the codec that pyarrow has."""

from __future__ import annotations

import pyarrow as pa
from taking import is_compared

from parquet_bloom.core.decode.snappy import unpack_front

ALLOWED = (ValueError,)

SNAPPY = pa.Codec("snappy")
MOST = 1 << 20


def announced(data: bytes) -> int:
    """The size in front; 0 where there is none."""
    size = 0
    for i, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    return 0


def run(data: bytes) -> None:
    if len(data) < 2:
        return
    requested, data = int.from_bytes(data[:2], "little"), data[2:]
    size = min(announced(data), MOST)  # the caller knows the size from the page's header, which it has bounded
    expected = None
    try:
        if is_compared(data):
            expected = SNAPPY.decompress(data, decompressed_size=size, asbytes=True)
    except (pa.ArrowException, OSError):
        pass
    result = unpack_front(data, size, requested)
    assert len(result) >= min(requested, size)
    if expected is not None:
        assert result.tobytes() == expected[: len(result)]


def seeds() -> list[bytes]:
    texts = [
        b"",
        b"a",
        b"ab" * 40,
        bytes(range(200)),
        b"abcdefghijklmnopqrstuvwxyz" * 9,
        bytes(1000),
        bytes(range(256)) * 5,
    ]
    return [len(text).to_bytes(2, "little") + SNAPPY.compress(text, asbytes=True) for text in texts]
