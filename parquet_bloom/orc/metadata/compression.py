"""Streams of an ORC file: chunks with a header of three bytes, compressed or original."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import MalformedOrcError
from .codecs import Decompressor, decompress, find_decompressor

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
