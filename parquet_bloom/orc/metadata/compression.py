"""Streams of an ORC file: chunks with a header of three bytes each, compressed or as they were."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import MalformedOrcError
from .codecs import Decompressor, decompress, find_decompressor

_HEADER_BYTES = 3

MAX_STREAM_BYTES = 1 << 28
"""Bytes of unpacked metadata that are held at most."""

MAX_FOOTER_BYTES = 1 << 26
"""The same of a footer, of the file or of a stripe: as objects it takes several times as much."""


class Compression:
    """How the streams of one file are packed.

    Parameters
    ----------
    name : the codec.
    block_size : bytes that a chunk becomes at most.
    """

    def __init__(self, name: str, block_size: int):
        self.name = name
        self.block_size = block_size
        self._unpack: Decompressor | None = None

    def plain(self, stream: bytes, limit: int = MAX_STREAM_BYTES) -> bytes:
        """A stream as it was before.

        Parameters
        ----------
        limit : what it may become at most, in bytes.

        Raises
        ------
        MalformedOrcError
            It is no such stream.
        ParquetBloomError
            Its codec's library is not installed.
        """
        if self.name == "none":
            return stream
        parts: list[bytes] = []
        total = 0
        for chunk in self._chunks(stream):
            parts.append(chunk)
            total += len(chunk)
            if total > limit:
                raise MalformedOrcError(f"a stream becomes more than {limit} bytes")
        return b"".join(parts)

    def num_bytes(self, stream: bytes) -> int:
        """How long a stream was before; as `plain`, but holds no more than a chunk."""
        return len(stream) if self.name == "none" else sum(map(len, self._chunks(stream)))

    def _chunks(self, stream: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(stream):
            header = int.from_bytes(stream[start : start + _HEADER_BYTES], "little")
            start += _HEADER_BYTES
            length, original = header >> 1, header & 1
            if len(stream) < start + length:
                left = max(0, len(stream) - start)
                raise MalformedOrcError(f"a chunk is said to have {length} bytes, {left} are left")
            chunk = stream[start : start + length]
            if length > self.block_size:  # what would not become smaller is kept as it was
                raise MalformedOrcError(f"a chunk has {length} bytes; {self.block_size} are the most")
            if not original:
                self._unpack = self._unpack or find_decompressor(self.name)
                chunk = decompress(chunk, self.block_size, self._unpack)
            yield chunk
            start += length
