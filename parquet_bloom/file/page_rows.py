"""Single rows out of data pages, without decoding the pages: a page of its own that has these rows alone.

A page is decompressed, but of its values only those wanted are looked at. They are copied as they are stored into a
plain page, which pyarrow decodes, so that what they mean is left to it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.snappy import unpack_front
from ..errors import MalformedFooterError
from ..metadata.compact import I32, STRUCT, write_struct
from ..metadata.footer import Leaf
from ..metadata.page_index import PLAIN, RLE, PageHeader, read_page_header
from ..metadata.page_values import find_values, take_byte_arrays, take_hybrid

MOST_BYTES = 64 << 20
"""Of a page when decompressed: larger ones are left to pyarrow."""

_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_MORE_BYTES = 4096  # than the share of a page's bytes that its rows would take if all were alike
_UNCOMPRESSED, _SNAPPY, _ZSTD = 0, 1, 6


class Unsupported(Exception):
    """A page that is read as a whole: of another encoding or codec, or not quite right."""


class RowsOfPage(NamedTuple):
    """Some rows of a data page.

    Attributes
    ----------
    page : the page, header included.
    rows : its rows that are wanted, ascending, counted from its first one.
    """

    page: memoryview
    rows: NDArray[np.int64]


def plain_page(leaf: Leaf, codec: int | None, dictionary: memoryview, pages: Sequence[RowsOfPage]) -> bytes:
    """A plain, uncompressed data page of the rows wanted.

    Parameters
    ----------
    leaf, codec : a column directly below the root, and the number of its codec.
    dictionary : its dictionary page; empty if there is none, or the pages make no use of it.
    pages : where the rows are.

    Raises
    ------
    Unsupported
        The pages have to be decoded by pyarrow.
    """
    try:
        values, valid = zip(*(_of_page(leaf, codec, dictionary, *page) for page in pages), strict=True)
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(str(error)) from error  # pyarrow tells what is wrong with it, if anything is
    num_rows = sum(map(len, valid))
    levels = b""
    if not leaf.required:
        bits = np.packbits(np.concatenate(valid), bitorder="little").tobytes()
        runs = _varint(len(bits) << 1 | 1) + bits
        levels = struct.pack("<I", len(runs)) + runs
    return _page(b"".join([levels, *values]), num_rows, PLAIN, RLE)


def unpacked_page(page: memoryview, codec: int | None) -> bytes:
    """The same page decompressed: of version 1, or a dictionary's, and compressed by Snappy.

    Raises
    ------
    Unsupported
        It is another one, or broken.
    """
    header = read_page_header(page)
    if codec != _SNAPPY or header.version != 1 or (header.level_encoding != RLE and not header.is_dictionary):
        raise Unsupported(f"codec {codec}")
    try:
        body = bytes(_unpacked(page[header.header_bytes :], codec, header.unpacked_bytes))
    except ValueError as error:
        raise Unsupported(str(error)) from error
    return _page(body, header.num_values, header.encoding, None if header.is_dictionary else RLE)


def _page(body: bytes, num_values: int, encoding: int, level_encoding: int | None) -> bytes:
    """A page of version 1 that is not compressed; without levels it is a dictionary's."""
    described = [(1, I32, num_values), (2, I32, encoding)]
    if level_encoding is None:
        kind, number = 2, 7
    else:
        kind, number = 0, 5
        described += [(3, I32, level_encoding), (4, I32, level_encoding)]
    return write_struct([(1, I32, kind), (2, I32, len(body)), (3, I32, len(body)), (number, STRUCT, described)]) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _of_page(
    leaf: Leaf, codec: int | None, dictionary: memoryview, page: memoryview, rows: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.bool_]]:
    """The values of some rows, plain-encoded, and which of the rows have one."""
    header = read_page_header(page)
    share = (int(rows[-1]) + 1) / header.num_values
    try:
        return _of_front(leaf, codec, dictionary, page, header, rows, share)
    except (MalformedFooterError, ValueError, Unsupported):  # the values stand further behind than the rows
        return _of_front(leaf, codec, dictionary, page, header, rows, 1)


def _of_front(
    leaf: Leaf,
    codec: int | None,
    dictionary: memoryview,
    page: memoryview,
    header: PageHeader,
    rows: NDArray[np.int64],
    share: float,
) -> tuple[bytes, NDArray[np.bool_]]:
    """The same, from the front of the page: a little more than a share of it."""
    levels, values = _parts(page, header, codec, leaf.required, share)
    valid, numbers = np.ones(len(rows), bool), rows
    if not leaf.required:
        valid, numbers = find_values(levels, header.num_values, rows)
    if not len(numbers):
        return b"", valid
    if header.needs_dictionary:
        if not len(values):
            raise Unsupported("a page of dictionary numbers is empty")
        numbers = take_hybrid(values[1:], values[0], numbers)
        described = read_page_header(dictionary)
        if numbers.max() >= described.num_values:
            raise Unsupported("a number is not in the dictionary")
        values = _unpacked(dictionary[described.header_bytes :], codec, described.unpacked_bytes)
    elif header.encoding != PLAIN:
        raise Unsupported(f"encoding {header.encoding}")
    return _taken(leaf, values, numbers), valid


def _parts(
    page: memoryview, header: PageHeader, codec: int | None, required: bool, share: float
) -> tuple[memoryview, memoryview]:
    """The definition levels and the values of a data page."""
    body = page[header.header_bytes :]
    if header.version == 1:
        body = _unpacked(body, codec, header.unpacked_bytes, share)
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
    return body[:end], _unpacked(body[end:], codec, header.unpacked_bytes - end, share)


def _unpacked(data: memoryview, codec: int | None, size: int, share: float = 1) -> memoryview:
    """Bytes decompressed, or a share of them at least, by codecs that say for certain how many they become."""
    if codec == _UNCOMPRESSED:
        return data
    if not 0 < size <= MOST_BYTES:
        raise Unsupported(f"{size} bytes")
    if codec == _SNAPPY:
        return unpack_front(data, size, min(size, int(size * share) + _MORE_BYTES)).data
    if codec == _ZSTD:  # pyarrow finds fewer bytes an error
        return memoryview(pa.Codec("zstd").decompress(data, decompressed_size=size)).cast("B")
    raise Unsupported(f"codec {codec}")


def _taken(leaf: Leaf, values: memoryview, numbers: NDArray[np.int64]) -> bytes:
    """Some of the plain-encoded values."""
    if leaf.physical == "BYTE_ARRAY":
        return take_byte_arrays(values, numbers)
    width = _WIDTHS.get(leaf.physical, leaf.length or 0)
    if not width:
        raise Unsupported(leaf.physical)
    if (int(numbers.max()) + 1) * width > len(values):
        raise Unsupported("values are missing")
    return np.frombuffer(values, f"V{width}", len(values) // width)[numbers].tobytes()
