"""Checks of the pages of a column chunk, made before pyarrow decodes them: they are inside of it, and have its rows.

When pyarrow streams a column chunk it allocates the size given in a page header before it reads, and fills missing
bytes with zeros (`BufferedInputStream::Read`): a header of 20 bytes can take 2 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import MalformedFooterError
from ..metadata.footer import Footer, Leaf
from ..metadata.page_index import PAGE_HEADER_BYTES, read_page_header
from ..storage import Source
from ..storage.source import SeekableFile

_MAX_HEADER_BYTES = 1 << 24  # pyarrow reads no longer header


class PageClaimError(ValueError):
    """A page claims more bytes than its column chunk has, or is not a page."""


@dataclass
class _Pages:
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

    def skip_page(self, data: bytes | memoryview) -> bool:
        """Skip the page that begins with these bytes; False if they do not contain its entire header."""
        try:
            header = read_page_header(data)
        except MalformedFooterError as error:
            if len(data) < min(_MAX_HEADER_BYTES, self.end - self.offset):
                return False
            raise PageClaimError(f"there is no page at {self.offset}: {error}") from error
        available = self.end - self.offset
        if header.num_bytes > available:
            problem = f"the page at {self.offset} claims {header.num_bytes} bytes where there are {available}"
            raise PageClaimError(problem)
        self.offset += header.num_bytes
        if not header.is_dictionary:
            self.num_values -= header.num_values
        return True


def require_pages(source: Source, start: int, end: int, num_values: int) -> None:
    """Check the header of each page of a column chunk. Takes one read per page, so use it for local files.

    Raises
    ------
    PageClaimError
    StorageError
    """
    _skip_all(source, _Pages(start, min(end, source.size), num_values))


def _skip_all(source: Source, pages: _Pages) -> None:
    length = PAGE_HEADER_BYTES
    while pages.remaining:
        is_complete = pages.skip_page(source.read_at(pages.offset, min(length, pages.end - pages.offset)))
        length = PAGE_HEADER_BYTES if is_complete else min(length * 16, _MAX_HEADER_BYTES)


def require_value_per_row(source: Source, footer: Footer, row_group: int, leaf: Leaf) -> None:
    """Raise MalformedFooterError if a column without lists does not have one value for each row of its row group.

    Where the footer says so, its pages are asked: some writers counted a column's values wrong. Readers take as many
    rows from the pages as the row group declares, so that pages with more would be cut off.
    """
    record = footer.chunk(row_group, leaf)
    if footer.has_value_per_row(row_group, leaf, record):
        return
    declared, num_rows = int(record["num_values"]), footer.num_rows_of(row_group)
    start = footer.first_page(row_group, leaf)
    end = start + int(record["compressed_size"])
    try:
        stored = _count_values(source, start, end) if 0 < start <= end <= footer.start else None
    except PageClaimError:
        stored = None
    if stored == num_rows:
        return
    pages = "its pages cannot be counted" if stored is None else f"its pages have {stored}"
    problem = f"metadata: {declared} values in {num_rows} rows, and {pages}"
    raise MalformedFooterError(problem, row_group=row_group, column=leaf.name)


def _count_values(source: Source, start: int, end: int) -> int:
    """Count the values of all pages of a column chunk, by their headers."""
    most = np.iinfo(np.int64).max
    pages = _Pages(start, end, most)
    _skip_all(source, pages)
    return int(most - pages.num_values)


class CheckedPages(SeekableFile):
    """A file object over one column chunk that is read from front to back and checked on the way.

    Reading raises PageClaimError after a page header that claims too much.
    """

    def __init__(self, file: pa.NativeFile, start: int, end: int, num_values: int) -> None:
        size = file.size()
        super().__init__(size)
        self._file = file
        self._pages = _Pages(start, min(end, size), num_values)
        self._checked_up_to = start
        self._buffer = b""  # read part of the next page's header

    def read(self, size: int | None = -1) -> bytes:
        remaining = self._size - self._position
        self._file.seek(self._position)
        data: bytes = self._file.read(remaining if size is None or size < 0 else min(size, remaining))
        self._check_pages(self._position, data)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        self._file.close()
        super().close()

    def _check_pages(self, offset: int, data: bytes) -> None:
        pages = self._pages
        if not pages.remaining:
            return
        if offset > self._checked_up_to:
            raise PageClaimError(f"its pages are not read in order: at {offset}, checked up to {self._checked_up_to}")
        self._buffer += data[self._checked_up_to - offset :]
        self._checked_up_to = max(self._checked_up_to, offset + len(data))
        with memoryview(self._buffer) as view:
            first = self._checked_up_to - len(view)
            while (
                pages.remaining
                and pages.offset < self._checked_up_to
                and pages.skip_page(view[pages.offset - first :][:_MAX_HEADER_BYTES])
            ):
                pass
        self._buffer = self._buffer[pages.offset - first :]
