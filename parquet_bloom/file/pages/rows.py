"""Pages as they are stored, and their decompression with codecs that compiled code does not know."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import UnusualPageError
from ...metadata.footer import Leaf
from ...metadata.page_index import PageHeader
from .decompress import SNAPPY, UNCOMPRESSED, decompress

_MOST_UNPACKED = 32 << 20  # bytes of pages that are decompressed together
_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3

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
    bodies = [_unpack_body(row, data[row[0] + row[1] : row[0] + row[1] + row[2]], codec) for row in pages.tolist()]
    table, position = pages.copy(), 0
    for number, body in enumerate(bodies):
        table[number, :3] = position, 0, len(body)
        table[number, 6] = len(body)
        position += len(body)
    return memoryview(b"".join(bodies)), table, UNCOMPRESSED


def _unpack_body(page: list[int], body: memoryview, codec: int | None) -> memoryview:
    """Decompress what follows the header of a page, given as a row of the table."""
    kind, num_values, unpacked, repeat_bytes, level_bytes, compressed = (page[i] for i in (3, 4, 6, 8, 9, 10))
    if kind == _DICTIONARY_PAGE and not num_values:
        return body[:0]
    if kind != _DATA_PAGE_V2:
        return decompress(body, codec, unpacked)
    if compressed and repeat_bytes >= 0 and 0 <= level_bytes <= len(body) - repeat_bytes:
        end = level_bytes + repeat_bytes
        values = decompress(body[end:], codec, unpacked - end) if num_values else b""
        return memoryview(b"".join((body[:end], values)))
    return decompress(body, UNCOMPRESSED, unpacked)


def byte_width(leaf: Leaf) -> int:
    """Return the bytes per value; 0 for byte arrays."""
    width = _WIDTHS.get(leaf.physical, leaf.length or 0)
    if not width and leaf.physical != "BYTE_ARRAY":
        raise UnusualPageError(leaf.physical)
    return width
