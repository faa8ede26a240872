"""Pages are as long as their headers say, and inside their column chunk: looked at before pyarrow decodes them.

Where pyarrow streams a column chunk it makes room for what a header says before it reads, and fills with zeros what
does not come (`BufferedInputStream::Read`): a header of 20 bytes takes 2 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ..errors import MalformedFooterError
from ..metadata.page_index import PAGE_HEADER_BYTES, read_page_header
from ..storage import Source
from ..storage.seekable import Positioned

_MAX_HEADER_BYTES = 1 << 24  # bytes: pyarrow reads none that is longer


class PageClaimError(ValueError):
    """A page claims more than its column chunk has, or is none."""


@dataclass
class _Pages:
    """Where a column chunk's next page begins.

    Attributes
    ----------
    at, end : offsets of that page and of the chunk's end, in the file.
    num_values : how many are still to come; pyarrow reads no page behind the last.
    """

    at: int
    end: int
    num_values: int

    @property
    def left(self) -> bool:
        return self.at < self.end and self.num_values > 0

    def skip_page(self, data: bytes | memoryview) -> bool:
        """Pass the page whose first bytes these are; whether they were enough."""
        try:
            header = read_page_header(data)
        except MalformedFooterError as error:
            if len(data) < min(_MAX_HEADER_BYTES, self.end - self.at):
                return False
            raise PageClaimError(f"there is no page at {self.at}: {error}") from error
        if header.num_bytes > self.end - self.at:
            left = self.end - self.at
            raise PageClaimError(f"the page at {self.at} claims {header.num_bytes} bytes where there are {left}")
        self.at += header.num_bytes
        if not header.is_dictionary:
            self.num_values -= header.num_values
        return True


def require_pages(source: Source, start: int, end: int, num_values: int) -> None:
    """Look at the header of each page of a column chunk: a read each, so of files at hand.

    Raises
    ------
    PageClaimError
    StorageError
    """
    pages = _Pages(start, min(end, source.size), num_values)
    length = PAGE_HEADER_BYTES
    while pages.left:
        enough = pages.skip_page(source.read_at(pages.at, min(length, pages.end - pages.at)))
        length = PAGE_HEADER_BYTES if enough else min(length * 16, _MAX_HEADER_BYTES)


class CheckedPages(Positioned):
    """A file object over one column chunk that is read from front to back: bytes are looked at as they come by.

    Reading raises PageClaimError when a page's header has come that claims too much.
    """

    def __init__(self, file: pa.NativeFile, start: int, end: int, num_values: int) -> None:
        size = file.size()
        super().__init__(size)
        self._file = file
        self._pages = _Pages(start, min(end, size), num_values)
        self._seen = start  # up to where
        self._held = b""  # what was seen of the next page's header

    def read(self, size: int | None = -1) -> bytes:
        left = self._size - self._position
        self._file.seek(self._position)
        data: bytes = self._file.read(left if size is None or size < 0 else min(size, left))
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
        if not pages.left:
            return
        if offset > self._seen:
            raise PageClaimError(f"its pages are not read in order: at {offset}, seen up to {self._seen}")
        self._held += data[self._seen - offset :]
        self._seen = max(self._seen, offset + len(data))
        with memoryview(self._held) as held:
            first = self._seen - len(held)
            while (
                pages.left and pages.at < self._seen and pages.skip_page(held[pages.at - first :][:_MAX_HEADER_BYTES])
            ):
                pass
        self._held = self._held[pages.at - first :]
