"""core/decode/snappy.pyx: fronts of compressed pages, and pages in pairs, compared with the codec that pyarrow has."""

from __future__ import annotations

import pyarrow as pa
from taking import is_compared

from parquet_bloom.core.decode.snappy import unpack_front, unpack_pair

ALLOWED = (ValueError,)

SNAPPY = pa.Codec("snappy")
MOST = 1 << 20
_TEXT = b"abcdefg" * 40 + bytes(range(256)) * 3
_SOUND = SNAPPY.compress(_TEXT, asbytes=True)


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
    beside(data, size)
    result = unpack_front(data, size, requested)
    assert len(result) >= min(requested, size)
    if expected is not None:
        assert result.tobytes() == expected[: len(result)]


def beside(data: bytes, size: int) -> None:
    """A block decompressed in turn with others, sound, cut off or the same, gives what it gives alone."""
    try:
        alone: bytes | None = unpack_front(data, size, size).tobytes()
    except ValueError:
        alone = None
    cut = data[: len(data) * 2 // 3]
    for other, other_size, other_text in (
        (_SOUND, len(_TEXT), _TEXT),
        (data, size, alone),
        (cut, announced(cut), None),
    ):
        if other_size > MOST:
            continue
        for swapped in (False, True):
            try:
                if swapped:
                    second, first = unpack_pair(other, other_size, data, size)
                else:
                    first, second = unpack_pair(data, size, other, other_size)
            except ValueError:
                assert alone is None or other_text is None
                continue
            assert first.tobytes() == alone
            assert other_text is None or second.tobytes() == other_text


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
