"""Decompression of page bodies, of which the page's header claims the size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.decode.lz4 import count_unpacked
from ...core.decode.snappy import unpack_front
from ...errors import UnusualPageError

MAX_PAGE_BYTES = 64 << 20
"""Limit of a decompressed page: larger ones are left to pyarrow."""

UNCOMPRESSED, SNAPPY, _GZIP, _BROTLI, _ZSTD, _LZ4_RAW = 0, 1, 2, 4, 6, 7
KNOWN_CODECS = UNCOMPRESSED, SNAPPY, _GZIP, _BROTLI, _ZSTD, _LZ4_RAW
_STREAMED = {_GZIP: "gzip", _BROTLI: "brotli"}

_MOST_UNPACKED = 32 << 20  # bytes of pages that are decompressed together
_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3
_EXTRA_BYTES = 4096  # decompressed beyond the share of a page that its rows would take if all had the same size


def decompress(data: memoryview, codec: int | None, size: int, share: float = 1) -> memoryview:
    """Decompress bytes, or at least a share of them, after checking that they are as many as claimed.

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
    if not 0 < size <= MAX_PAGE_BYTES:
        raise UnusualPageError(f"{size} bytes")
    if codec == SNAPPY:
        return unpack_front(data, size, size if share == 1 else min(size, int(size * share) + _EXTRA_BYTES)).data
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


def unpack_pages(
    data: memoryview, pages: NDArray[np.int64], codec: int | None
) -> tuple[memoryview, NDArray[np.int64], int]:
    """Decompress pages with a codec that compiled code does not know.

    Parameters
    ----------
    data, pages : the bytes of pages, and the table that `index_pages` made of them.

    Returns
    -------
    (data, pages, codec) : the same pages, with the codec that they are compressed with now.

    Raises
    ------
    UnusualPageError
        There is no such codec here, or a page is malformed or large.
    """
    if codec in (UNCOMPRESSED, SNAPPY):
        return data, pages, codec
    if int(pages[:, 6].clip(min=0).sum()) > _MOST_UNPACKED:  # all pages are in memory at once
        raise UnusualPageError("the pages are large")
    bodies = [_unpack_body(row, data[row[0] + row[1] : row[0] + row[1] + row[2]], codec) for row in pages.tolist()]
    table, position = pages.copy(), 0
    for number, body in enumerate(bodies):
        table[number, :3] = position, 0, len(body)
        table[number, 6] = len(body)
        position += len(body)
    return memoryview(b"".join(bodies)), table, UNCOMPRESSED


def _unpack_body(page: list[int], body: memoryview, codec: int | None) -> memoryview:
    """Decompress what follows the header of a page, given as a row of the table."""
    kind, num_values, unpacked, repeat_bytes, level_bytes, compressed = (page[i] for i in (3, 4, 6, 8, 9, 10))
    if kind == _DICTIONARY_PAGE and not num_values:
        return body[:0]
    if kind != _DATA_PAGE_V2:
        return decompress(body, codec, unpacked)
    if compressed and repeat_bytes >= 0 and 0 <= level_bytes <= len(body) - repeat_bytes:
        end = level_bytes + repeat_bytes
        values = decompress(body[end:], codec, unpacked - end) if num_values else b""
        return memoryview(b"".join((body[:end], values)))
    return decompress(body, UNCOMPRESSED, unpacked)
