"""The page index: where the pages of a column chunk stand, which rows they hold, and what their values are bounded by.

Source: PageIndex.md of the format; parquet.thrift, OffsetIndex and ColumnIndex. An index is believed only as far as it
is consistent; what reads pages by it looks at their own headers too (see `read_page_header`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MalformedFooterError
from .footer import Statistics
from .thrift_compact import pages_agree, read_page_header_fields, read_page_locations, read_struct

MAX_INDEX_BYTES = 1 << 20
"""Longer indexes are not read. Their pages would be so many, or their bounds so long, that they would cost more than
they save; and what a hostile one makes us allocate is a small multiple of its bytes."""

MAX_PAGES = 4096
"""Of a column chunk with more pages the index is not used: they are too small to be worth choosing among."""

PAGE_HEADER_BYTES = 512
"""Read of a page for its header alone: more than it takes, unless it repeats long statistics."""

_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
ASCENDING, DESCENDING = 1, 2


@dataclass(frozen=True, eq=False)
class OffsetIndex:
    """The data pages of a column chunk, one after the other without gaps.

    Attributes
    ----------
    offsets, sizes : where each page begins in the file, and its bytes, header included.
    rows : first row of each page, in the row group; behind them the number of rows, so that page i holds the rows
        from rows[i] to rows[i + 1].
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]

    @property
    def num_pages(self) -> int:
        return len(self.offsets)

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of all pages."""
        return int(self.sizes.sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The rows of each page."""
        return np.diff(self.rows)

    def find_pages(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The page of each row."""
        return np.searchsorted(self.rows, rows, "right") - 1


@dataclass(frozen=True)
class ColumnIndex:
    """What is known of the values of each page.

    Attributes
    ----------
    null_pages : whether a page has nothing but nulls.
    min_values, max_values : plain-encoded bounds, which need not be values of the page; without meaning in null pages.
    null_counts : nulls of each page; None where the index does not say.
    order : ASCENDING or DESCENDING if bounds of both kinds are said to be so from page to page; else anything.
    """

    null_pages: list[bool]
    min_values: list[bytes]
    max_values: list[bytes]
    null_counts: list[int] | None
    order: Any = None

    def statistics(self, page: int) -> Statistics:
        """The bounds of a page, as those of a column chunk are given. There are none for a null page."""
        null_count = None if self.null_counts is None else self.null_counts[page]
        if self.null_pages[page]:
            return Statistics(null_count, None, None, None, None)
        return Statistics(null_count, self.min_values[page], self.max_values[page], None, None)


@dataclass(eq=False)
class CachedPageIndex:
    """What has been read of a column chunk's page index, and how far it is confirmed.

    Attributes
    ----------
    index : where the pages stand.
    start : where the chunk begins; up to the first data page it is the dictionary's.
    codec : number of the codec that its pages are compressed by.
    num_bytes : memory that this takes, by estimate.
    confirmed : so many pages, from the first one on, say the same of themselves in their headers.
    bounds : what is known of their values; None where there is nothing, or nothing was asked for yet.
    bounds_read : whether it was asked for.
    told : what was made of the bounds by who asked for them.
    """

    index: OffsetIndex
    start: int
    codec: int | None
    num_bytes: int
    confirmed: int = 0
    bounds: ColumnIndex | None = None
    bounds_read: bool = False
    told: Any = None

    @property
    def is_confirmed(self) -> bool:
        """Whether all pages are."""
        return self.confirmed == self.index.num_pages

    def header_spans(self, pages: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Ranges of the file that hold the headers of some pages: (offset, length)."""
        lengths = np.minimum(self.index.sizes[pages], PAGE_HEADER_BYTES)
        return list(zip(self.index.offsets[pages].tolist(), lengths.tolist(), strict=True))

    def headers_agree(self, pages: NDArray[np.int64], heads: memoryview) -> bool:
        """Whether data pages say of themselves what the index matches_header of them.

        Parameters
        ----------
        heads : the bytes of the ranges of `header_spans`, one behind the other.
        """
        sizes = self.index.sizes[pages]
        return pages_agree(heads, np.minimum(sizes, PAGE_HEADER_BYTES), sizes, self.index.counts[pages])

    def matches_header(self, page: int, header: PageHeader) -> bool:
        """Whether a data page, by its header, is what the index matches_header of it."""
        index = self.index
        same = header.num_bytes == index.sizes[page] and header.num_values == index.counts[page]
        return bool(same) and not header.is_dictionary


class PageHeader(NamedTuple):
    """The header in front of a page.

    Attributes
    ----------
    is_dictionary : whether it is a dictionary page, else one of data.
    num_values : its values, nulls included.
    num_bytes : the page's bytes in the file, header included.
    needs_dictionary : whether its values are numbers of a dictionary's entries.
    version : 1 or 2, of a data page.
    header_bytes : the header's own bytes.
    unpacked_bytes : bytes behind the header when decompressed, levels included; -1 where it does not say.
    encoding, level_encoding : numbers of the values' encoding and, in version 1, of the definition levels'.
    repeat_bytes, level_bytes : bytes of the levels that stand uncompressed in front of the values in version 2.
    compressed : whether what is behind the header (in version 2: the values) is compressed by the column's codec.
    """

    is_dictionary: bool
    num_values: int
    num_bytes: int
    needs_dictionary: bool
    version: int = 1
    header_bytes: int = 0
    unpacked_bytes: int = -1
    encoding: int = -1
    level_encoding: int = -1
    repeat_bytes: int = -1
    level_bytes: int = -1
    compressed: bool = True


def read_offset_index(data: bytes, num_rows: int) -> OffsetIndex:
    """Decode the OffsetIndex of a column chunk in a row group of `num_rows` rows.

    Raises
    ------
    MalformedFooterError
        The bytes are no OffsetIndex, or one whose pages overlap, leave gaps, or do not hold ascending rows from 0 on.
    """
    offsets, sizes, first_rows = np.ascontiguousarray(read_page_locations(data, MAX_PAGES).T)
    if not len(offsets):
        raise MalformedFooterError("page index: it has no pages")
    rows = np.append(first_rows, num_rows)
    if (offsets <= 0).any() or (sizes <= 0).any() or (offsets[:-1] + sizes[:-1] != offsets[1:]).any():
        raise MalformedFooterError("page index: the pages do not follow one another")
    if rows[0] != 0 or (rows[:-1] >= rows[1:]).any():
        raise MalformedFooterError(f"page index: the pages do not divide {num_rows} rows among them")
    return OffsetIndex(offsets, sizes, rows)


def read_column_index(data: bytes, index: OffsetIndex) -> ColumnIndex:
    """Decode the ColumnIndex that goes with an OffsetIndex.

    Raises
    ------
    MalformedFooterError
        The bytes are no ColumnIndex, or it is about another number of pages, or contradicts itself on nulls.
    """
    found = read_struct(data)[0]
    null_pages, low, high = _read_list(found, 1, bool), _read_list(found, 2, bytes), _read_list(found, 3, bytes)
    null_counts = _read_list(found, 5, int) if 5 in found else None
    for values in (null_pages, low, high, null_counts):
        if values is not None and len(values) != index.num_pages:
            raise MalformedFooterError(f"page index: bounds of {len(values)} pages where there are {index.num_pages}")
    if null_counts is not None:
        for is_null, count, num_rows in zip(null_pages, null_counts, np.diff(index.rows).tolist(), strict=True):
            if not 0 <= count <= num_rows or is_null != (count == num_rows):
                raise MalformedFooterError(f"page index: {count} nulls in a page of {num_rows} rows")
    return ColumnIndex(null_pages, low, high, null_counts, found.get(4))


def read_page_header(data: bytes | memoryview) -> PageHeader:
    """Decode the header of the page that `data` begins with.

    Raises
    ------
    MalformedFooterError
        There is none, it does not end within `data`, or is neither a data page's nor a dictionary's.
    """
    found = read_page_header_fields(data)
    kind, size, encoding = found["kind"], found["size"], found["encoding"]
    if size < 0 or found["num_values"] < 0:
        raise MalformedFooterError("page index: there is no page where it matches_header")
    return PageHeader(
        is_dictionary=kind == _DICTIONARY_PAGE,
        num_values=found["num_values"],
        num_bytes=found["header_bytes"] + size,
        needs_dictionary=encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY),
        version=2 if kind == _DATA_PAGE_V2 else 1,
        header_bytes=found["header_bytes"],
        unpacked_bytes=found["unpacked"],
        encoding=encoding,
        level_encoding=found["level_encoding"],
        repeat_bytes=found["repeat_bytes"],
        level_bytes=found["level_bytes"],
        compressed=bool(found["compressed"]),
    )


def _read_list(found: dict[int, Any], number: int, kind: type) -> list[Any]:
    values: Sequence[Any] = found.get(number, ())
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise MalformedFooterError(f"page index: field {number} is missing, or of another type")
    return values
