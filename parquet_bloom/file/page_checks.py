"""The pages of a column chunk by their headers, and checks before pyarrow decodes them: they have the chunk's rows.

When pyarrow streams a column chunk it allocates the size given in a page header before it reads, and fills missing
bytes with zeros (`BufferedInputStream::Read`): a header of 20 bytes can take 2 GiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import MalformedFooterError, UnusualPageError
from ..metadata.footer import Footer, SchemaLeaf
from ..metadata.page_index import MAX_PAGES, PAGE_HEADER_BYTES
from ..metadata.thrift_compact import index_window
from ..storage import Source
from ..storage.source import SeekableFile

ReadRange = Callable[[int, int], bytes | memoryview]
"""Returns a range of a file, given its offset and length."""

_MAX_HEADER_BYTES = 1 << 24  # pyarrow reads no longer header
_DICTIONARY_PAGE = 2
_CODECS, _ENCODINGS = range(8), (0, *range(2, 10))  # by the format's numbers
_NAMES_OF_LATER = {10: " (ALP)"}
_WALK_BYTES = 1 << 16
_NO_PAGES = np.empty((0, 14), np.int64)


class PageClaimError(UnusualPageError):
    """A page claims more bytes than its column chunk has, or is not a page."""


@dataclass
class PageWalk:
    """The position of a column chunk's next page.

    Attributes
    ----------
    offset, end : offsets of that page and of the chunk's end, in the file.
    num_values : number of remaining values; pyarrow reads no page after the last one.
    """

    offset: int
    end: int
    num_values: int

    @property
    def remaining(self) -> bool:
        return self.offset < self.end and self.num_values > 0

    def find(self, data: bytes | memoryview) -> NDArray[np.int64]:
        """Return the headers of the pages that begin in some bytes from `offset` on, as `index_window` does.

        There are none if `data` ends within the first one.

        Raises
        ------
        PageClaimError
        """
        available = self.end - self.offset
        try:
            return index_window(data, available, self.num_values, MAX_PAGES)
        except MalformedFooterError as error:
            if len(data) < min(_MAX_HEADER_BYTES, available):
                return _NO_PAGES
            raise PageClaimError(f"there is no page at {self.offset}: {error}") from error

    def skip(self, pages: NDArray[np.int64]) -> int:
        """Go on behind pages that `find` returned; return how many bytes they have.

        Raises
        ------
        PageClaimError
            The last one has more bytes than the chunk.
        """
        if not len(pages):
            return 0
        first, header_bytes, size = pages[-1, :3].tolist()
        at, num_bytes = self.offset + first, header_bytes + size
        if num_bytes > self.end - at:
            raise PageClaimError(f"the page at {at} claims {num_bytes} bytes where there are {self.end - at}")
        self.offset = at + num_bytes
        self.num_values -= sum(count for kind, count in pages[:, 3:5].tolist() if kind != _DICTIONARY_PAGE)
        return int(first + num_bytes)

    def windows(
        self, read: ReadRange, window: int, once: bool = False
    ) -> Iterator[tuple[memoryview, NDArray[np.int64]]]:
        """Yield the bytes of the next whole pages, and their headers as `find` returns them.

        Parameters
        ----------
        read : returns a range of the file, given its offset and length.
        window : bytes to read at once; larger pages are read one by one.
        once : whether no byte may be read twice, which takes a copy of those that were read before their page.

        Raises
        ------
        PageClaimError
            Where pages should be there are none, or one does not end within the chunk.
        """
        data, wanted = memoryview(b""), window
        while self.remaining:
            if wanted:
                kept = bytes(data) if once else b""
                data = memoryview(b"")  # frees what was read before
                fresh = read(self.offset + len(kept), min(wanted, self.end - self.offset) - len(kept))
                data = memoryview(kept + fresh if kept else fresh).cast("B")
            pages = self.find(data)
            length = sum(pages[-1, :3].tolist()) if len(pages) else 0
            whole = pages[:-1] if length > len(data) else pages
            wanted = window
            if len(whole):
                length = self.skip(whole)
                yield data[:length], whole
                data = data[length:]
                wanted = 0 if len(data) else window
            elif not len(pages):
                wanted = max(window, 16 * len(data))
            elif length > self.end - self.offset:
                self.skip(pages)  # an error
            elif 4 * length > window:  # with the header of the next one, so that few bytes are read twice
                wanted = length + PAGE_HEADER_BYTES


def require_pages(source: Source, walk: PageWalk) -> None:
    """Check the header of each page of a column chunk. Takes one read per page, so use it for local files.

    Raises
    ------
    PageClaimError
    StorageError
    """
    length = PAGE_HEADER_BYTES
    while walk.remaining:
        found = walk.skip(walk.find(source.read_at(walk.offset, min(length, walk.end - walk.offset))))
        length = PAGE_HEADER_BYTES if found else min(length * 16, _MAX_HEADER_BYTES)


def require_value_per_row(source: Source, footer: Footer, row_group: int, leaf: SchemaLeaf) -> None:
    """Raise MalformedFooterError if a column without lists does not have one value for each row of its row group.

    Where the footer says so, its pages are asked: some writers counted a column's values wrong. Readers take as many
    rows from the pages as the row group declares, so that pages with more would be cut off.
    """
    record = footer.chunk(row_group, leaf)
    if footer.has_value_per_row(row_group, leaf, record):
        return
    declared, num_rows = int(record["num_values"]), footer.num_rows_of(row_group)
    start = footer.first_page(row_group, leaf)
    most = np.iinfo(np.int64).max
    walk, stored = PageWalk(start, start + int(record["compressed_size"]), most), None
    try:
        if 0 < start <= walk.end <= footer.start:
            require_pages(source, walk)
            stored = int(most - walk.num_values)
    except PageClaimError:
        pass  # the pages cannot be counted
    if stored == num_rows:
        return
    pages = "its pages cannot be counted" if stored is None else f"its pages have {stored}"
    problem = f"metadata: {declared} values in {num_rows} rows, and {pages}"
    raise MalformedFooterError(problem, row_group=row_group, column=leaf.name)


def find_unknown(source: Source, footer: Footer, row_group: int, leaf: SchemaLeaf) -> str | None:
    """Return which codec, encoding or kind of page of a column chunk is not known, as in later formats, or None.

    It says why a chunk could not be read. The pages of local files are asked, of others the footer.
    """
    record = footer.chunk(row_group, leaf)
    if record["encrypted"] or record["external"]:
        return None
    if footer.codec(record) not in _CODECS:
        return f"codec {record['codec']} is not known"
    encodings = footer.encodings(record)
    if source.path is not None:
        start = footer.first_page(row_group, leaf)
        walk = PageWalk(start, min(start + int(record["compressed_size"]), source.size), int(record["num_values"]))
        try:
            encodings = [
                number for _, pages in walk.windows(source.read_at, _WALK_BYTES) for number in pages[:, 5].tolist()
            ]
        except PageClaimError as error:
            return str(error)
    for number in encodings:
        if number not in _ENCODINGS:
            return f"encoding {number}{_NAMES_OF_LATER.get(number, '')} is not known"
    return None


class RangeFile(SeekableFile):
    """A file object for pyarrow over a file of which a function reads ranges.

    Parameters
    ----------
    size, read : of the file; and what returns a range of it, given its offset and length.
    walk : the pages of a column chunk to be read from front to back, which are checked on the way: reading raises
        PageClaimError after a page header that claims too much. None for no check.
    """

    def __init__(self, size: int, read: ReadRange, walk: PageWalk | None = None) -> None:
        super().__init__(size)
        self._read, self._walk = read, walk
        self._checked_up_to = 0 if walk is None else walk.offset
        self._buffer = b""  # read part of the next page's header

    def read(self, size: int | None = -1) -> bytes | memoryview:
        remaining = max(0, self._size - self._position)
        data = self._read(self._position, remaining if size is None or size < 0 else min(size, remaining))
        if self._walk is not None and self._walk.remaining:
            self._check_pages(self._walk, self._position, data)
        self._position += len(data)
        return data

    def _check_pages(self, walk: PageWalk, offset: int, data: bytes | memoryview) -> None:
        if offset > self._checked_up_to:
            raise PageClaimError(f"its pages are not read in order: at {offset}, checked up to {self._checked_up_to}")
        self._buffer += data[self._checked_up_to - offset :]
        self._checked_up_to = max(self._checked_up_to, offset + len(data))
        first = self._checked_up_to - len(self._buffer)
        view, found = memoryview(self._buffer), 1
        while found and walk.remaining and walk.offset < self._checked_up_to:
            found = walk.skip(walk.find(view[walk.offset - first :]))
        self._buffer = self._buffer[walk.offset - first :]
