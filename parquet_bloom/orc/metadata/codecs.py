"""Compressed bytes of an ORC file, one chunk at a time, never to more than they may become.

Codecs that neither Python nor pyarrow lends come from the extra `orc`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

from ...errors import MalformedOrcError, ParquetBloomError, first_line

NAMES = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
"""By their number in the postscript."""

_MAX_LZO_BYTES = 1 << 20  # each of its bytes becomes 255 at most
_MAX_WINDOW_BITS = 24  # as a power of two; chunks of more than 2^23 bytes are not read

Decompressor = Callable[[bytes, int], bytes]
"""Takes a chunk and what it may become at most; raises ValueError, or an error of its library, for anything else."""


def find_decompressor(name: str) -> Decompressor:
    """What unpacks the chunks of a codec.

    Raises
    ------
    ParquetBloomError
        Its library is not installed.
    """
    found = {"zlib": _decompress_zlib, "snappy": _decompress_snappy, "zstd": _decompress_zstd}.get(name)
    return found or (_find_lz4() if name == "lz4" else _find_lzo())


def decompress(chunk: bytes, limit: int, how: Decompressor) -> bytes:
    """A chunk, unpacked to at most `limit` bytes.

    Raises
    ------
    MalformedOrcError
        It is no such chunk, or would become more.
    """
    try:
        found = how(chunk, limit)
    except (ParquetBloomError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        problem = f"a chunk of {len(chunk)} bytes cannot be unpacked: {first_line(error)}"
        raise MalformedOrcError(problem) from error
    if len(found) > limit:
        raise MalformedOrcError(f"a chunk becomes {len(found)} bytes; {limit} are the most")
    return found


def _decompress_zlib(chunk: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    found = stream.decompress(chunk, limit + 1)
    if len(found) <= limit and not stream.eof:
        raise ValueError("it is cut off")
    return found


def _decompress_snappy(chunk: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in chunk[:5]:  # snappy says in front how much comes out
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
    if len(chunk) > 5 and chunk[5] >> 3 > _MAX_WINDOW_BITS - 10:  # room is made for all of it
        raise ValueError("its window is too wide")
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        return bytes(stream.read(limit + 1))


def read_zstd_size(frame: bytes) -> int | None:
    """What a zstd frame says that it becomes; None if it does not say. Source: RFC 8878, section 3.1.1."""
    if frame[:4] != b"\x28\xb5\x2f\xfd" or len(frame) < 5:
        raise ValueError("it is no zstd frame")
    described = frame[4]
    single, width = described >> 5 & 1, (0, 2, 4, 8)[described >> 6]
    width = width or single
    if not width:
        return None
    start = 5 + (not single) + (0, 1, 2, 4)[described & 3]
    if len(frame) < start + width:
        raise ValueError("it is cut off")
    size = int.from_bytes(frame[start : start + width], "little")
    return size + 256 if width == 2 else size


def _require_at_most(size: int, limit: int) -> int:
    if size > limit:
        raise MalformedOrcError(f"a chunk is said to become {size} bytes; {limit} are the most")
    return size


def _decompress_with_arrow(codec: str, chunk: bytes, size: int) -> bytes:
    if not size:
        return b""
    return bytes(pa.Codec(codec).decompress(chunk, size, asbytes=True))


def _missing_library(codec: str) -> ParquetBloomError:
    return ParquetBloomError(f"to read {codec} takes another library: pip install 'parquet-bloom[orc]'")


def _find_lz4() -> Decompressor:
    try:
        import lz4.block
    except ImportError:
        raise _missing_library("lz4") from None
    # Its own call makes room for all that is allowed; a block of LZ4 holds at most 255 bytes for each of its own.
    return lambda chunk, limit: lz4.block.decompress(chunk, uncompressed_size=min(limit, 255 * len(chunk) + 64))


def _find_lzo() -> Decompressor:
    try:
        from lzallright import LZOCompressor
    except ImportError:
        raise _missing_library("lzo") from None

    def unpack_lzo(chunk: bytes, limit: int) -> bytes:
        if len(chunk) > _MAX_LZO_BYTES:  # the library takes no limit: room grows with what comes out
            raise ValueError(f"more than {_MAX_LZO_BYTES} bytes of LZO are not read")
        return bytes(LZOCompressor.decompress(chunk, limit))

    return unpack_lzo
