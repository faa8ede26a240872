"""Search of a whole column chunk for the rows with certain values, without decoding the others.

Each page is decompressed, and its stored values are compared where they are: no arrays are made. A page in dictionary
encoding is searched for the numbers of matching entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError
from ...metadata.footer import Leaf
from ...metadata.page_index import PLAIN, OffsetIndex, read_pages
from ...metadata.page_match import Targets, count_values, find_rows, match_numbers, match_plain
from .rows import Page, Unsupported, decompress, split_page, value_width


class ChunkMatches(NamedTuple):
    """The rows of a column chunk with one of some values.

    Attributes
    ----------
    rows : of the row group, ascending; int64.
    targets : the number of the target that each of them has; int32.
    index : where the chunk's pages are, by their headers; None if a page has no rows.
    """

    rows: NDArray[np.int64]
    targets: NDArray[np.int32]
    index: OffsetIndex | None


class _Chunk(NamedTuple):
    """A column chunk: its leaf, the number of its codec, its dictionary page, and its data pages."""

    leaf: Leaf
    codec: int | None
    dictionary: Page | None
    pages: list[Page]


def search_chunk(
    leaf: Leaf, codec: int | None, data: memoryview, start: int, num_rows: int, targets: Targets
) -> ChunkMatches:
    """Find the rows of a column chunk whose value is, byte for byte, one of some targets.

    Parameters
    ----------
    leaf, codec : a column directly below the root, and the number of its codec.
    data, start : all bytes of the chunk, and their offset in the file.
    num_rows : of the row group.

    Raises
    ------
    Unsupported
        The chunk has to be decoded by pyarrow, which reports what is wrong with it, if anything is.
    """
    try:
        headers = read_pages(data)
        pages = [Page(header, data[at : at + header.num_bytes]) for at, header in headers]
        dictionary = pages.pop(0) if pages and pages[0].header.is_dictionary else None
        if any(page.header.is_dictionary for page in pages):
            raise Unsupported("a dictionary page follows data pages")
        counts = [page.header.num_values for page in pages]
        if sum(counts) != num_rows:
            raise Unsupported(f"pages of {sum(counts)} rows in a row group of {num_rows}")
        rows, numbers = _search(_Chunk(leaf, codec, dictionary, pages), targets)
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(str(error)) from error
    index = None
    if all(counts) and pages:
        offsets = np.array([start + at for at, header in headers if not header.is_dictionary], np.int64)
        sizes = np.array([page.header.num_bytes for page in pages], np.int64)
        index = OffsetIndex(offsets, sizes, np.cumsum([0, *counts], dtype=np.int64))
    return ChunkMatches(rows, numbers, index)


def _search(chunk: _Chunk, targets: Targets) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows that match, and the numbers of their targets."""
    by_entry = _search_dictionary(chunk, targets)
    rows, numbers, before = [], [], 0
    for page in chunk.pages:
        matches = _search_page(chunk, page, targets, by_entry)
        if matches is not None and len(matches[0]):
            rows.append(matches[0] + before)
            numbers.append(matches[1])
        before += page.header.num_values
    if len(rows) == 1:
        return rows[0], numbers[0]
    return np.concatenate([np.empty(0, np.int64), *rows]), np.concatenate([np.empty(0, np.int32), *numbers])


def _search_dictionary(chunk: _Chunk, targets: Targets) -> NDArray[np.int32] | None:
    """Return the number of the target that each entry of the dictionary is, or -1; None if there is no dictionary."""
    if chunk.dictionary is None:
        return None
    header = chunk.dictionary.header
    entries = decompress(chunk.dictionary.body, chunk.codec, header.unpacked_bytes)
    positions, numbers = match_plain(entries, value_width(chunk.leaf), header.num_values, targets)
    by_entry = np.full(header.num_values, -1, np.int32)
    by_entry[positions] = numbers
    return by_entry


def _search_page(
    chunk: _Chunk, page: Page, targets: Targets, by_entry: NDArray[np.int32] | None
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """Return the rows of a page that match, counted from its first one, and their targets; None if none does."""
    header = page.header
    if header.needs_dictionary and by_entry is not None and not (by_entry >= 0).any():
        return None
    levels, values = split_page(page, chunk.codec, chunk.leaf.required, 1)
    count = header.num_values if chunk.leaf.required else count_values(levels, header.num_values)
    if not count:
        return None
    if header.needs_dictionary:
        if by_entry is None or not len(values):
            raise Unsupported("a page of dictionary numbers is empty, or has no dictionary")
        matches, numbers = match_numbers(values[1:], values[0], count, by_entry)
    elif header.encoding == PLAIN:
        matches, numbers = match_plain(values, value_width(chunk.leaf), count, targets)
    else:
        raise Unsupported(f"encoding {header.encoding}")
    if count < header.num_values:
        matches = find_rows(levels, header.num_values, matches)
    return matches, numbers
