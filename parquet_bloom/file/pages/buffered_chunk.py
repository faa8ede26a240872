"""A column chunk whose bytes are read once: they are at hand, or somebody sees them as they come by."""

from __future__ import annotations

from typing import NamedTuple

from ...storage import Source
from ...storage.seekable import Positioned
from ..fingerprint import StreamedChunk


class BufferedChunk(NamedTuple):
    """Bytes of a file that are in memory, and where they begin."""

    offset: int
    data: memoryview


class BufferedChunkFile(Positioned):
    """A file object over an opened file that reads nothing twice of one column chunk; all else is read from the file.

    Parameters
    ----------
    source : the file.
    chunk : bytes that are in memory, or what sees those that are read.
    """

    def __init__(self, source: Source, chunk: BufferedChunk | StreamedChunk) -> None:
        super().__init__(source.size)
        self._source, self._chunk = source, chunk

    def read(self, size: int | None = -1) -> bytes | memoryview:
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._read(self._position, length)
        self._position += len(data)
        return data

    def _read(self, offset: int, length: int) -> bytes | memoryview:
        chunk = self._chunk
        if isinstance(chunk, BufferedChunk):
            start = offset - chunk.offset
            if start >= 0 and start + length <= len(chunk.data):
                return chunk.data[start : start + length]
            return self._source.read_at(offset, length)
        data = self._source.read_at(offset, length)
        chunk.feed(offset, data)
        return data
