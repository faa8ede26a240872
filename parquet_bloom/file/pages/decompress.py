"""Decompression of page bodies, of which the page's header claims the size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from ...core.decode.lz4 import count_unpacked
from ...core.decode.snappy import unpack_front
from ...errors import UnusualPageError

MAX_PAGE_BYTES = 64 << 20
"""Limit of a decompressed page: larger ones are left to pyarrow."""

UNCOMPRESSED, SNAPPY, _GZIP, _BROTLI, _ZSTD, _LZ4_RAW = 0, 1, 2, 4, 6, 7
KNOWN_CODECS = UNCOMPRESSED, SNAPPY, _GZIP, _BROTLI, _ZSTD, _LZ4_RAW
_STREAMED = {_GZIP: "gzip", _BROTLI: "brotli"}


def decompress(data: memoryview, codec: int | None, size: int) -> memoryview:
    """Decompress bytes, and check that they are as many as claimed.

    Parameters
    ----------
    data, codec : compressed bytes, and the number of their codec.
    size : claimed number of decompressed bytes.

    Raises
    ------
    UnusualPageError
        There is no such codec here, the size is out of bounds, or the bytes are invalid or of another size.
    """
    if codec == UNCOMPRESSED or len(data) == size == 0:
        if len(data) != size:
            raise UnusualPageError(f"{len(data)} bytes that are not compressed, instead of {size}")
        return data
    if not 0 <= size <= MAX_PAGE_BYTES:
        raise UnusualPageError(f"{size} bytes")
    if codec == SNAPPY:
        return unpack_front(data, size, size).data
    if codec == _ZSTD:  # pyarrow raises an error if there are fewer bytes
        with _naming_damage():
            return memoryview(pa.Codec("zstd").decompress(data, decompressed_size=size)).cast("B")
    if codec == _LZ4_RAW:
        return _decompress_lz4(data, size)
    if codec in _STREAMED:
        with _naming_damage(), pa.CompressedInputStream(pa.BufferReader(data), _STREAMED[codec]) as stream:
            result = memoryview(stream.read_buffer(size + 1)).cast("B")
        if len(result) != size:
            raise UnusualPageError(f"{len(result)} bytes were compressed, not {size}")
        return result
    raise UnusualPageError(f"codec {codec}")


@contextmanager
def _naming_damage() -> Iterator[None]:
    """Raise UnusualPageError where Arrow cannot decompress."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise UnusualPageError(str(error)) from error


def _decompress_lz4(data: memoryview, size: int) -> memoryview:
    unpacked = count_unpacked(data)  # pyarrow does not report if there are fewer bytes
    if unpacked != size:
        raise UnusualPageError(f"{unpacked} bytes were compressed, not {size}")
    with _naming_damage():
        return memoryview(pa.Codec("lz4_raw").decompress(data, decompressed_size=size)).cast("B")
