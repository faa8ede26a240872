"""Streams of an ORC file: chunks with a header of three bytes, compressed or original."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

from ..errors import MalformedOrcError, ParquetBloomError, first_line

NAMES = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
"""Codecs in the order of their numbers in the postscript."""

_MAX_LZO_BYTES = 1 << 20  # each byte expands to 255 bytes at most
_MAX_WINDOW_BITS = 24  # chunks have at most 2^23 bytes

Decompressor = Callable[[bytes, int], bytes]
"""Decompresses a chunk, given its maximum size; raises ValueError or an error of its library for invalid chunks."""


def find_decompressor(name: str) -> Decompressor:
    """Return the decompressor of a codec.

    Raises
    ------
    ParquetBloomError
        Its library is not installed.
    """
    decompressor = {"zlib": _decompress_zlib, "snappy": _decompress_snappy, "zstd": _decompress_zstd}.get(name)
    return decompressor or (_find_lz4() if name == "lz4" else _find_lzo())


def decompress(chunk: bytes, limit: int, decompressor: Decompressor) -> bytes:
    """Decompress a chunk to at most `limit` bytes.

    Raises
    ------
    MalformedOrcError
        The chunk is invalid, or would become larger.
    """
    try:
        data = decompressor(chunk, limit)
    except (ParquetBloomError, MemoryError):
        raise
    except Exception as error:  # each library raises different errors
        problem = f"a chunk of {len(chunk)} bytes cannot be decompressed: {first_line(error)}"
        raise MalformedOrcError(problem) from error
    if len(data) > limit:
        raise MalformedOrcError(f"a chunk decompresses to {len(data)} bytes, more than the maximum of {limit}")
    return data


def _decompress_zlib(chunk: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    data = stream.decompress(chunk, limit + 1)
    if len(data) <= limit and not stream.eof:
        raise ValueError("it is cut off")
    return data


def _decompress_snappy(chunk: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in chunk[:5]:  # the decompressed size comes first
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("it has no length")
    return _decompress_with_arrow("snappy", chunk, _require_at_most(size, limit))


def _decompress_zstd(chunk: bytes, limit: int) -> bytes:
    size = read_zstd_size(chunk)
    if size is not None:
        return _decompress_with_arrow("zstd", chunk, _require_at_most(size, limit))
    if len(chunk) > 5 and chunk[5] >> 3 > _MAX_WINDOW_BITS - 10:  # the window is allocated in full
        raise ValueError("its window is too wide")
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        return bytes(stream.read(limit + 1))


def read_zstd_size(frame: bytes) -> int | None:
    """Return the decompressed size in the header of a zstd frame, or None. Source: RFC 8878, section 3.1.1."""
    if frame[:4] != b"\x28\xb5\x2f\xfd" or len(frame) < 5:
        raise ValueError("it is not a zstd frame")
    descriptor = frame[4]
    single, width = descriptor >> 5 & 1, (0, 2, 4, 8)[descriptor >> 6]
    width = width or single
    if not width:
        return None
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    if len(frame) < start + width:
        raise ValueError("it is cut off")
    size = int.from_bytes(frame[start : start + width], "little")
    return size + 256 if width == 2 else size


def _require_at_most(size: int, limit: int) -> int:
    if size > limit:
        raise MalformedOrcError(f"a chunk has a stated size of {size} bytes, more than the maximum of {limit}")
    return size


def _decompress_with_arrow(codec: str, chunk: bytes, size: int) -> bytes:
    if not size:
        return b""
    return bytes(pa.Codec(codec).decompress(chunk, size, asbytes=True))


def _missing_library(codec: str) -> ParquetBloomError:
    return ParquetBloomError(f"reading {codec} needs another library: pip install 'parquet-bloom[orc]'")


def _find_lz4() -> Decompressor:
    try:
        import lz4.block
    except ImportError:
        raise _missing_library("lz4") from None
    # The library allocates the maximum size; a byte of an LZ4 block expands to 255 bytes at most.
    return lambda chunk, limit: lz4.block.decompress(chunk, uncompressed_size=min(limit, 255 * len(chunk) + 64))


def _find_lzo() -> Decompressor:
    try:
        from lzallright import LZOCompressor
    except ImportError:
        raise _missing_library("lzo") from None

    def unpack_lzo(chunk: bytes, limit: int) -> bytes:
        if len(chunk) > _MAX_LZO_BYTES:  # the library has no limit: its buffer grows with the output
            raise ValueError(f"more than {_MAX_LZO_BYTES} bytes of LZO are not read")
        return bytes(LZOCompressor.decompress(chunk, limit))

    return unpack_lzo


_HEADER_BYTES = 3

MAX_STREAM_BYTES = 1 << 28
"""Maximum number of decompressed bytes of a metadata stream."""

MAX_FOOTER_BYTES = 1 << 26
"""Maximum number of decompressed bytes of a footer of a file or stripe, whose objects need several times as much."""


class Compression:
    """The compression of one file.

    Parameters
    ----------
    name : the codec.
    block_size : maximum number of decompressed bytes of a chunk.
    """

    def __init__(self, name: str, block_size: int):
        self.name = name
        self.block_size = block_size
        self._decompressor: Decompressor | None = None

    def plain(self, stream: bytes, limit: int = MAX_STREAM_BYTES) -> bytes:
        """Decompress a stream.

        Parameters
        ----------
        limit : maximum number of decompressed bytes.

        Raises
        ------
        MalformedOrcError
            The stream is invalid.
        ParquetBloomError
            The library of the codec is not installed.
        """
        if self.name == "none":
            return stream
        parts: list[bytes] = []
        total = 0
        for chunk in self._decompress_chunks(stream):
            parts.append(chunk)
            total += len(chunk)
            if total > limit:
                raise MalformedOrcError(f"a stream decompresses to more than {limit} bytes")
        return b"".join(parts)

    def num_bytes(self, stream: bytes) -> int:
        """Return the decompressed size of a stream, with only one chunk in memory; raises as `plain` does."""
        return len(stream) if self.name == "none" else sum(map(len, self._decompress_chunks(stream)))

    def _decompress_chunks(self, stream: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(stream):
            header = int.from_bytes(stream[start : start + _HEADER_BYTES], "little")
            start += _HEADER_BYTES
            length, original = header >> 1, header & 1
            if len(stream) < start + length:
                remaining = max(0, len(stream) - start)
                raise MalformedOrcError(f"a chunk has a stated length of {length} bytes, but {remaining} remain")
            chunk = stream[start : start + length]
            if length > self.block_size:  # incompressible chunks are stored as they are
                raise MalformedOrcError(f"a chunk has {length} bytes, more than the maximum of {self.block_size}")
            if not original:
                self._decompressor = self._decompressor or find_decompressor(self.name)
                chunk = decompress(chunk, self.block_size, self._decompressor)
            yield chunk
            start += length
