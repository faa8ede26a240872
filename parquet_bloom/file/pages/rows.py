"""Pages as they are stored, and their decompression with codecs that compiled code does not know."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnusualPageError
from ...metadata.footer import Leaf
from ...metadata.page_index import PageHeader, read_page_header
from .decompress import SNAPPY, UNCOMPRESSED, decompress

_MOST_UNPACKED = 32 << 20  # bytes of pages that are decompressed together

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Page(NamedTuple):
    """A page as stored in a file.

    Attributes
    ----------
    header : its header.
    data : all its bytes, header included.
    """

    header: PageHeader
    data: memoryview

    @classmethod
    def of(cls, data: memoryview, compressed: bool = False) -> Page:
        """Parse the page that some bytes begin with; MalformedFooterError if there is none.

        Parameters
        ----------
        compressed : whether it is compressed whatever its header says.
        """
        header = read_page_header(data)
        return cls(header._replace(compressed=True) if compressed else header, data)

    @property
    def body(self) -> memoryview:
        """The bytes after the header."""
        return self.data[self.header.header_bytes :]


def unpack_pages(
    data: memoryview, pages: NDArray[np.int64], codec: int | None
) -> tuple[memoryview, NDArray[np.int64], int]:
    """Decompress pages with a codec that compiled code does not know.

    Parameters
    ----------
    data, pages : the bytes of pages, and the table that `index_pages` made of them.

    Returns
    -------
    (data, pages, codec) : the same pages, with the codec that they are compressed with now.

    Raises
    ------
    UnusualPageError
        There is no such codec here, or a page is malformed or large.
    """
    if codec in (UNCOMPRESSED, SNAPPY):
        return data, pages, codec
    if int(pages[:, 6].clip(min=0).sum()) > _MOST_UNPACKED:  # all pages are in memory at once
        raise UnusualPageError("the pages are large")
    try:
        bodies = [
            _unpack_body(Page.of(data[row[0] : row[0] + row[1] + row[2]], bool(row[10])), codec)
            for row in pages.tolist()
        ]
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise UnusualPageError(str(error)) from error  # pyarrow reports what is wrong, if anything is
    table, position = pages.copy(), 0
    for number, body in enumerate(bodies):
        table[number, :3] = position, 0, len(body)
        table[number, 6] = len(body)
        position += len(body)
    return memoryview(b"".join(bodies)), table, UNCOMPRESSED


def _unpack_body(page: Page, codec: int | None) -> memoryview:
    """Decompress what follows the header of a page."""
    header, body = page.header, page.body
    if header.is_dictionary and not header.num_values:
        return body[:0]
    if header.version == 1:
        return decompress(body, codec, header.unpacked_bytes)
    if header.compressed and header.repeat_bytes >= 0 and 0 <= header.level_bytes <= len(body) - header.repeat_bytes:
        end = header.level_bytes + header.repeat_bytes
        values = decompress(body[end:], codec, header.unpacked_bytes - end) if header.num_values else b""
        return memoryview(b"".join((body[:end], values)))
    return decompress(body, UNCOMPRESSED, header.unpacked_bytes)


def byte_width(leaf: Leaf) -> int:
    """Return the bytes per value; 0 for byte arrays."""
    width = _WIDTHS.get(leaf.physical, leaf.length or 0)
    if not width and leaf.physical != "BYTE_ARRAY":
        raise UnusualPageError(leaf.physical)
    return width
