"""A position in a file, as pyarrow wants it of Python's file objects."""

from __future__ import annotations

import io
import os


class Positioned(io.RawIOBase):
    """A readable file of a known size, with a position of its own; what reads is added by who derives from it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position
