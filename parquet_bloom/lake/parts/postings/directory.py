"""Directory of a part's blocks: in memory if it is small, else read as needed."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from ....errors import BrokenIndexError
from ..part import Sections

MOST_BYTES = 8 << 20
"""A directory up to this size is kept in memory."""

_PAGE = 512  # blocks
_PAGES = 256
_OFFSET = struct.Struct("<q")
_TWO = struct.Struct("<qq")


class BlockDirectory:
    """Offsets of a part's blocks, and the end of the last one.

    Ranges are validated: they lie in the section of blocks, and are no longer than the largest block.

    Parameters
    ----------
    sections : the part's file.
    num_blocks : number of blocks.
    largest : length of the largest block.
    most_bytes : size up to which the directory is kept in memory.

    Raises
    ------
    BrokenIndexError
        There is no such directory, or it is damaged.
    StorageError
        It cannot be read.
    """

    def __init__(self, sections: Sections, num_blocks: int, largest: int, most_bytes: int = MOST_BYTES):
        self.num_blocks = num_blocks
        self._source = sections.source
        self._section = sections.section("directory")
        self._num_bytes = sections.section("blocks").length
        self._largest = largest
        if self._section.length != 8 * (num_blocks + 1):
            problem = f"its directory has {self._section.length} bytes, {num_blocks} blocks need {8 * (num_blocks + 1)}"
            raise BrokenIndexError(problem, path=self._source.name)
        self._data = sections.read("directory") if self._section.length <= most_bytes else None
        self._offsets = None if self._data is None else np.frombuffer(self._data, np.int64)
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, block: int) -> tuple[int, int]:
        """Return the start and the end of a block.

        Raises
        ------
        BrokenIndexError, StorageError, TruncatedFileError
            The directory cannot be read, or is damaged there.
        """
        if self._data is not None:
            start, end = _TWO.unpack_from(self._data, 8 * block)
        else:
            start, end = _TWO.unpack_from(self._page(block // _PAGE), 8 * (block % _PAGE))
        if not (0 <= start <= end <= self._num_bytes and end - start <= self._largest):
            raise self.make_error(block)
        return start, end

    def find_many(self, blocks: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the starts and ends of blocks, and which of them are invalid; see `find`."""
        if self._offsets is not None:
            starts, ends = self._offsets[blocks], self._offsets[blocks + 1]
        else:
            offsets = self._section.offset + 8 * blocks
            data = self._source.gather(offsets, np.full(len(blocks), _TWO.size, np.int64))
            starts, ends = data.view(np.int64).reshape(-1, 2).T
        return starts, ends, self._find_invalid(starts, ends)

    def neighbours(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the starts and ends of consecutive blocks, and which of them are invalid."""
        if self._offsets is not None:
            offsets = self._offsets[first : first + count + 1]
        else:
            data = self._source.read_at(self._section.offset + 8 * first, 8 * (count + 1))
            offsets = np.frombuffer(data, np.int64)
        return offsets[:-1], offsets[1:], self._find_invalid(offsets[:-1], offsets[1:])

    def _find_invalid(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (starts < 0) | (ends < starts) | (ends > self._num_bytes) | (ends - starts > self._largest)

    def make_error(self, block: int) -> BrokenIndexError:
        return BrokenIndexError(f"its directory is damaged at block {block}", path=self._source.name)

    def _page(self, number: int) -> bytes:
        with self._lock:
            page = self._pages.get(number)
            if page is not None:
                self._pages.move_to_end(number)
                return page
        start = number * _PAGE * _OFFSET.size
        length = min((_PAGE + 1) * _OFFSET.size, self._section.length - start)
        page = self._source.read_at(self._section.offset + start, length)
        with self._lock:
            self._pages[number] = page
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return page
