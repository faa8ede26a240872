"""Single rows out of data pages, without decoding the pages.

A page is decompressed, but of its values only those wanted are looked at, and copied as they are stored: what they mean
is left to `plain_values`, or in a page that has them alone to pyarrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.decode.snappy import unpack_front
from ...errors import MalformedFooterError
from ...metadata.footer import Leaf
from ...metadata.page_index import PLAIN, RLE, PageHeader, read_page_header
from ...metadata.page_values import find_equal, find_values, take_byte_arrays, take_fixed, take_hybrid
from ...metadata.thrift_compact import I32, STRUCT, write_struct

T = TypeVar("T")

MAX_PAGE_BYTES = 64 << 20
"""Of a page when decompressed: larger ones are left to pyarrow."""

_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_EXTRA_BYTES = 4096  # than the share of a page's bytes that its rows would take if all were alike
_UNCOMPRESSED, _SNAPPY, _ZSTD = 0, 1, 6


class Unsupported(Exception):
    """A page that is read as a whole: of another encoding or codec, or not quite right."""


class Page(NamedTuple):
    """A page as it stands in a file.

    Attributes
    ----------
    header : what its header says.
    data : all its bytes, header included.
    """

    header: PageHeader
    data: memoryview

    @classmethod
    def of(cls, data: memoryview) -> Page:
        """The page that some bytes begin with; MalformedFooterError if there is none."""
        return cls(read_page_header(data), data)

    @property
    def body(self) -> memoryview:
        """What is behind the header."""
        return self.data[self.header.header_bytes :]


class PageRows(NamedTuple):
    """Some rows of a data page.

    Attributes
    ----------
    page : the page.
    rows : its rows that are wanted, ascending, counted from its first one.
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
        """They alone in a data page that is plain and not compressed."""
        levels = b""
        if not leaf.required:
            bits = np.packbits(self.valid, bitorder="little").tobytes()
            runs = _encode_varint(len(bits) << 1 | 1) + bits
            levels = struct.pack("<I", len(runs)) + runs
        return _encode_page(levels + self.values, len(self.valid), PLAIN, RLE)


def extract_rows(leaf: Leaf, codec: int | None, dictionary: Page | None, pages: Sequence[PageRows]) -> PlainRows:
    """Some rows out of pages.

    Parameters
    ----------
    leaf, codec : a column directly below the root, and the number of its codec.
    dictionary : its dictionary page; None if there is none, or the pages make no use of it.
    pages : where the rows are.

    Raises
    ------
    Unsupported
        The pages have to be decoded by pyarrow.
    """
    found = _decode_pages(leaf, codec, dictionary, pages, partial(_take_values, leaf))
    if len(found) == 1:
        return PlainRows(*found[0])
    values, valid = zip(*found, strict=True)
    return PlainRows(b"".join(values), np.concatenate(valid))


def find_equal_rows(
    leaf: Leaf, codec: int | None, dictionary: Page | None, pages: Sequence[PageRows], wanted: list[bytes]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Those rows of pages whose value is, byte for byte, one of some others.

    Parameters
    ----------
    leaf, codec, dictionary, pages : as in `extract_rows`.
    wanted : values as they are stored, without length.

    Returns
    -------
    (places, values) : the places of these rows among those of all pages, ascending; and the value of each.

    Raises
    ------
    Unsupported
        As in `extract_rows`.
    """
    places, values, before = [], [], 0
    for (found, which), valid in _decode_pages(
        leaf, codec, dictionary, pages, partial(_find_equal_values, leaf, wanted)
    ):
        places.append((found if valid.all() else np.flatnonzero(valid)[found]) + before)
        values += [wanted[number] for number in which.tolist()]
        before += len(valid)
    return np.concatenate(places), values


def decompress_page(page: Page, codec: int | None) -> bytes:
    """The same page decompressed: of version 1, or a dictionary's, and compressed by Snappy.

    Raises
    ------
    Unsupported
        It is another one, or broken.
    """
    header = page.header
    if codec != _SNAPPY or header.version != 1 or (header.level_encoding != RLE and not header.is_dictionary):
        raise Unsupported(f"codec {codec}")
    try:
        body = bytes(_decompress(page.body, codec, header.unpacked_bytes))
    except ValueError as error:
        raise Unsupported(str(error)) from error
    return _encode_page(body, header.num_values, header.encoding, None if header.is_dictionary else RLE)


def _encode_page(body: bytes, num_values: int, encoding: int, level_encoding: int | None) -> bytes:
    """A page of version 1 that is not compressed; without levels it is a dictionary's."""
    described = [(1, I32, num_values), (2, I32, encoding)]
    if level_encoding is None:
        kind, number = 2, 7
    else:
        kind, number = 0, 5
        described += [(3, I32, level_encoding), (4, I32, level_encoding)]
    return write_struct([(1, I32, kind), (2, I32, len(body)), (3, I32, len(body)), (number, STRUCT, described)]) + body


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
    """What is made of the values of each page's rows, and which of the rows have one.

    Parameters
    ----------
    take : is given plain-encoded values and numbers of those that the rows have.
    """
    try:
        return [_decode_page(leaf, codec, dictionary, page, rows, take) for page, rows in pages]
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(str(error)) from error  # pyarrow tells what is wrong with it, if anything is


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
    except (MalformedFooterError, ValueError, Unsupported):  # the values stand further behind than the rows
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
    """Values of the front of the page (a little more than a share of it), numbers of the rows', which rows have one."""
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
            raise Unsupported("a page of dictionary numbers is empty, or has no dictionary")
        numbers = take_hybrid(values[1:], values[0], numbers)
        if numbers.max() >= dictionary.header.num_values:
            raise Unsupported("a number is not in the dictionary")
        values = _decompress(dictionary.body, codec, dictionary.header.unpacked_bytes)
    elif header.encoding != PLAIN:
        raise Unsupported(f"encoding {header.encoding}")
    return values, numbers, valid


def _split_page(page: Page, codec: int | None, required: bool, share: float) -> tuple[memoryview, memoryview]:
    """The definition levels and the values of a data page."""
    header, body = page.header, page.body
    if header.version == 1:
        body = _decompress(body, codec, header.unpacked_bytes, share)
        if required:
            return body[:0], body
        if header.level_encoding != RLE or len(body) < 4:
            raise Unsupported(f"levels of encoding {header.level_encoding}")
        end = 4 + int.from_bytes(body[:4], "little")
        if end > len(body):
            raise Unsupported("the levels are cut off")
        return body[4:end], body[end:]
    end = header.level_bytes
    if header.repeat_bytes > 0 or not 0 <= end <= len(body) or (end == 0) != required:
        raise Unsupported("levels of another kind of column")
    codec = codec if header.compressed else _UNCOMPRESSED
    return body[:end], _decompress(body[end:], codec, header.unpacked_bytes - end, share)


def _decompress(data: memoryview, codec: int | None, size: int, share: float = 1) -> memoryview:
    """Bytes decompressed, or a share of them at least, by codecs that say for certain how many they become."""
    if codec == _UNCOMPRESSED:
        return data
    if not 0 < size <= MAX_PAGE_BYTES:
        raise Unsupported(f"{size} bytes")
    if codec == _SNAPPY:
        return unpack_front(data, size, min(size, int(size * share) + _EXTRA_BYTES)).data
    if codec == _ZSTD:  # pyarrow finds fewer bytes an error
        return memoryview(pa.Codec("zstd").decompress(data, decompressed_size=size)).cast("B")
    raise Unsupported(f"codec {codec}")


def _width(leaf: Leaf) -> int:
    """Bytes of a value; 0 of byte arrays."""
    width = _WIDTHS.get(leaf.physical, leaf.length or 0)
    if not width and leaf.physical != "BYTE_ARRAY":
        raise Unsupported(leaf.physical)
    return width


def _take_values(leaf: Leaf, values: memoryview, numbers: NDArray[np.int64]) -> bytes:
    """Some of the plain-encoded values."""
    width = _width(leaf)
    return take_fixed(values, width, numbers) if width else take_byte_arrays(values, numbers)


def _find_equal_values(
    leaf: Leaf, wanted: list[bytes], values: memoryview, numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places in `numbers` of values that are one of those wanted, and which one."""
    width = _width(leaf)
    if (np.diff(numbers) >= 0).all():
        return find_equal(values, width, numbers, wanted)
    # Those of a dictionary: an entry is looked at once, and never copied, however many rows have it.
    num_entries = int(numbers.max()) + 1
    if num_entries > len(values) // (width or 4):
        raise Unsupported("values are missing")
    found, which = find_equal(values, width, np.arange(num_entries), wanted)
    which_of = np.full(num_entries, -1, np.int64)
    which_of[found] = which
    of_rows = which_of[numbers]
    places = np.flatnonzero(of_rows >= 0)
    return places, of_rows[places]
