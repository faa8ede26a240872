"""File objects that read the bytes of one column chunk only once."""

from __future__ import annotations

from typing import NamedTuple

from ...storage import Source
from ...storage.source import SeekableFile
from ..fingerprint import StreamedChunk


class BufferedChunk(NamedTuple):
    """Bytes of a file that are in memory, and their offset."""

    offset: int
    data: memoryview


class BufferedChunkFile(SeekableFile):
    """A file object over an opened file that shares the bytes of one column chunk.

    Parameters
    ----------
    source : the file.
    chunk : bytes in memory, which are not read again, or an object that is fed all bytes that are read.
    """

    def __init__(self, source: Source, chunk: BufferedChunk | StreamedChunk) -> None:
        super().__init__(source.size)
        self._source, self._chunk = source, chunk

    def read(self, size: int | None = -1) -> bytes | memoryview:
        remaining = max(0, self._size - self._position)
        length = remaining if size is None or size < 0 else min(size, remaining)
        data = self.read_at(self._position, length)
        self._position += len(data)
        return data

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        """Return a range of the file."""
        chunk = self._chunk
        if isinstance(chunk, BufferedChunk):
            start = offset - chunk.offset
            if start >= 0 and start + length <= len(chunk.data):
                return chunk.data[start : start + length]
            return self._source.read_at(offset, length)
        data = self._source.read_at(offset, length)
        chunk.feed(offset, data)
        return data
