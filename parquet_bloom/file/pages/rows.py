"""Extraction of single rows from data pages, without decoding the pages.

A page is decompressed, but only the requested values are copied, as they are stored: `plain` turns them into arrays, or
pyarrow decodes a page made of them alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError, UnusualPageError
from ...metadata.footer import Leaf
from ...metadata.page_index import PLAIN, PLAIN_DICTIONARY, RLE, PageHeader, read_page_header
from ...metadata.page_values import find_equal, find_values, take_byte_arrays, take_fixed, take_hybrid
from ...metadata.thrift_compact import I32, STRUCT, write_struct
from .decompress import SNAPPY, UNCOMPRESSED, decompress

T = TypeVar("T")

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


class PageRows(NamedTuple):
    """Some rows of a data page.

    Attributes
    ----------
    page : the page.
    rows : its requested rows, ascending, counted from its first row.
    """

    page: Page
    rows: NDArray[np.int64]


class PlainRows(NamedTuple):
    """The values of some rows.

    Attributes
    ----------
    values : plain-encoded, of the rows that have one.
    valid : whether a row has one.
    """

    values: bytes
    valid: NDArray[np.bool_]

    def page(self, leaf: Leaf) -> bytes:
        """Make a plain-encoded, uncompressed data page of these rows."""
        levels = b""
        if not leaf.required:
            bits = np.packbits(self.valid, bitorder="little").tobytes()
            runs = _encode_varint(len(bits) << 1 | 1) + bits
            levels = struct.pack("<I", len(runs)) + runs
        return _encode_page(levels + self.values, len(self.valid), PLAIN, RLE)


def extract_rows(leaf: Leaf, codec: int | None, dictionary: Page | None, pages: Sequence[PageRows]) -> PlainRows:
    """Extract some rows from pages.

    Parameters
    ----------
    leaf, codec : a column directly below the root, and the number of its codec.
    dictionary : its dictionary page; None if there is none, or the pages do not use it.
    pages : where the rows are.

    Raises
    ------
    UnusualPageError
        The pages have to be decoded by pyarrow.
    """
    decoded = _decode_pages(leaf, codec, dictionary, pages, partial(_take_values, leaf))
    if len(decoded) == 1:
        return PlainRows(*decoded[0])
    values, valid = zip(*decoded, strict=True)
    return PlainRows(b"".join(values), np.concatenate(valid))


def find_equal_rows(
    leaf: Leaf, codec: int | None, dictionary: Page | None, pages: Sequence[PageRows], targets: list[bytes]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Find the rows of pages whose value is, byte for byte, one of some target values.

    Parameters
    ----------
    leaf, codec, dictionary, pages : as in `extract_rows`.
    targets : stored values, without length prefixes.

    Returns
    -------
    (positions, target_numbers) : the positions of these rows among those of all pages, ascending; and which target each
        has.

    Raises
    ------
    UnusualPageError
        As in `extract_rows`.
    """
    positions, numbers, before = [], [], 0
    find = partial(_find_equal_values, leaf, targets)
    for (matches, which), valid in _decode_pages(leaf, codec, dictionary, pages, find):
        positions.append((matches if valid.all() else np.flatnonzero(valid)[matches]) + before)
        numbers.append(which)
        before += len(valid)
    return np.concatenate(positions), np.concatenate(numbers).astype(np.int32)


def decompress_page(page: Page, codec: int | None) -> bytes:
    """Decompress a dictionary page or a data page of version 1 that is compressed with Snappy.

    Raises
    ------
    UnusualPageError
        It is another kind of page, or malformed.
    """
    header = page.header
    if codec != SNAPPY or header.version != 1 or (header.level_encoding != RLE and not header.is_dictionary):
        raise UnusualPageError(f"codec {codec}")
    try:
        body = bytes(decompress(page.body, codec, header.unpacked_bytes))
    except ValueError as error:
        raise UnusualPageError(str(error)) from error
    return _encode_page(body, header.num_values, header.encoding, None if header.is_dictionary else RLE)


def _encode_page(body: bytes, num_values: int, encoding: int, level_encoding: int | None) -> bytes:
    """Encode an uncompressed page of version 1; without `level_encoding`, a dictionary page."""
    fields = [(1, I32, num_values), (2, I32, encoding)]
    if level_encoding is None:
        kind, number = 2, 7
    else:
        kind, number = 0, 5
        fields += [(3, I32, level_encoding), (4, I32, level_encoding)]
    return write_struct([(1, I32, kind), (2, I32, len(body)), (3, I32, len(body)), (number, STRUCT, fields)]) + body


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _decode_pages(
    leaf: Leaf,
    codec: int | None,
    dictionary: Page | None,
    pages: Sequence[PageRows],
    take: Callable[[memoryview, NDArray[np.int64]], T],
) -> list[tuple[T, NDArray[np.bool_]]]:
    """Apply `take` to the values of each page's rows; return its results, and which of the rows have a value.

    Parameters
    ----------
    take : called with plain-encoded values, and the numbers of those that the rows have.
    """
    try:
        return [_decode_page(leaf, codec, dictionary, page, rows, take) for page, rows in pages]
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise UnusualPageError(str(error)) from error  # pyarrow reports what is wrong, if anything is


def _decode_page(
    leaf: Leaf,
    codec: int | None,
    dictionary: Page | None,
    page: Page,
    rows: NDArray[np.int64],
    take: Callable[[memoryview, NDArray[np.int64]], T],
) -> tuple[T, NDArray[np.bool_]]:
    share = (int(rows[-1]) + 1) / page.header.num_values
    try:
        values, numbers, valid = _decode_front(leaf, codec, dictionary, page, rows, share)
        return take(values, numbers), valid
    except (MalformedFooterError, ValueError):  # the share was too small: sizes of values differ
        values, numbers, valid = _decode_front(leaf, codec, dictionary, page, rows, 1)
        return take(values, numbers), valid


def _decode_front(
    leaf: Leaf,
    codec: int | None,
    dictionary: Page | None,
    page: Page,
    rows: NDArray[np.int64],
    share: float,
) -> tuple[memoryview, NDArray[np.int64], NDArray[np.bool_]]:
    """Return values of the page's front, of at least `share`; the numbers of the rows' values; which rows have one."""
    header = page.header
    levels, values = _split_page(page, codec, leaf.required, share)
    if leaf.required:
        valid, numbers = np.ones(len(rows), bool), rows
    else:
        valid, numbers = find_values(levels, header.num_values, rows)
    if not len(numbers):
        return values[:0], numbers, valid
    if header.needs_dictionary:
        if dictionary is None or not len(values):
            raise UnusualPageError("a page of dictionary numbers is empty, or has no dictionary")
        numbers = take_hybrid(values[1:], values[0], numbers)
        if numbers.max() >= dictionary.header.num_values:
            raise UnusualPageError("a number is not in the dictionary")
        if dictionary.header.encoding not in (PLAIN, PLAIN_DICTIONARY):
            raise UnusualPageError(f"a dictionary of encoding {dictionary.header.encoding}")
        values = decompress(dictionary.body, codec, dictionary.header.unpacked_bytes)
    elif header.encoding != PLAIN:
        raise UnusualPageError(f"encoding {header.encoding}")
    return values, numbers, valid


def _split_page(page: Page, codec: int | None, required: bool, share: float) -> tuple[memoryview, memoryview]:
    """Return the definition levels and the values of a data page."""
    header, body = page.header, page.body
    if header.version == 1:
        body = decompress(body, codec, header.unpacked_bytes, share)
        if required:
            return body[:0], body
        if header.level_encoding != RLE or len(body) < 4:
            raise UnusualPageError(f"levels of encoding {header.level_encoding}")
        end = 4 + int.from_bytes(body[:4], "little")
        if end > len(body):
            raise UnusualPageError("the levels are cut off")
        return body[4:end], body[end:]
    end = header.level_bytes
    if header.repeat_bytes != 0 or not 0 <= end <= len(body) or (end == 0) != required:
        raise UnusualPageError("levels of another kind of column")
    codec = codec if header.compressed else UNCOMPRESSED
    return body[:end], decompress(body[end:], codec, header.unpacked_bytes - end, share)


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


def _take_values(leaf: Leaf, values: memoryview, numbers: NDArray[np.int64]) -> bytes:
    """Copy some of the plain-encoded values."""
    width = byte_width(leaf)
    return take_fixed(values, width, numbers) if width else take_byte_arrays(values, numbers)


def _find_equal_values(
    leaf: Leaf, targets: list[bytes], values: memoryview, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions in `numbers` of values that are one of the targets, and which one each is."""
    width = byte_width(leaf)
    if (np.diff(numbers) >= 0).all():
        return find_equal(values, width, numbers, targets)
    # Dictionary indices: an entry is compared once, and never copied, however many rows have it.
    num_entries = int(numbers.max()) + 1
    if num_entries > len(values) // (width or 4):
        raise UnusualPageError("values are missing")
    matches, which = find_equal(values, width, np.arange(num_entries), targets)
    target_by_entry = np.full(num_entries, -1, np.int64)
    target_by_entry[matches] = which
    target_by_row = target_by_entry[numbers]
    positions = np.flatnonzero(target_by_row >= 0)
    return positions, target_by_row[positions]
