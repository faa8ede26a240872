"""The page index: offsets of the pages of a column chunk, their rows, and bounds of their values.

Source: PageIndex.md of the format; parquet.thrift, OffsetIndex and ColumnIndex. An index is trusted only as far as it
is consistent; readers of pages also check the pages' own headers (see `read_page_header`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import MalformedFooterError
from .footer import Statistics
from .thrift_compact import pages_agree, read_page_header_fields, read_page_locations, read_struct

MAX_INDEX_BYTES = 1 << 20
"""Longer indexes are not read. They would have so many pages, or such long bounds, that they cost more than they save.
The limit also bounds memory: a hostile index makes us allocate a small multiple of its bytes."""

MAX_PAGES = 4096
"""The index of a column chunk with more pages is not used: such small pages are not worth selecting."""

PAGE_HEADER_BYTES = 512
"""Bytes read of a page to get its header: enough, unless the header repeats long statistics."""

_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 2, 3, 7, 8
ASCENDING, DESCENDING = 1, 2

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class OffsetIndex:
    """The data pages of a column chunk, one after the other without gaps.

    Attributes
    ----------
    offsets, sizes : offset of each page in the file, and its size in bytes, header included.
    rows : first row of each page, in the row group, followed by the number of rows, so that page i holds the rows from
        rows[i] to rows[i + 1].
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]

    @property
    def num_pages(self) -> int:
        return len(self.offsets)

    @cached_property
    def num_bytes(self) -> int:
        """Total size of the pages in bytes."""
        return int(self.sizes.sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each page."""
        return np.diff(self.rows)

    def find_pages(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the page of each row."""
        return np.searchsorted(self.rows, rows, "right") - 1


@dataclass(frozen=True)
class ColumnIndex:
    """Bounds and null counts of the values of each page.

    Attributes
    ----------
    null_pages : whether a page has nothing but nulls.
    min_values, max_values : plain-encoded bounds, which need not be values of the page; meaningless in null pages.
    null_counts, nan_counts : nulls of each page, and NaNs; None where the index does not say.
    order : ASCENDING or DESCENDING if the bounds of both kinds are declared ordered from page to page; else anything.
    """

    null_pages: list[bool]
    min_values: list[bytes]
    max_values: list[bytes]
    null_counts: list[int] | None
    order: object = None
    nan_counts: list[int] | None = None

    def statistics(self, page: int) -> Statistics:
        """Return the bounds of a page as column chunk statistics. Null pages have no bounds.

        The format has nothing that tells whether they are values of the page, or cut, as most writers cut long ones.
        """
        null_count = None if self.null_counts is None else self.null_counts[page]
        if self.null_pages[page]:
            return Statistics(null_count, None, None, None, None)
        return Statistics(null_count, self.min_values[page], self.max_values[page], None, None)


@dataclass(eq=False)
class CachedPageIndex:
    """A column chunk's page index as far as it was read, and how many of its pages are confirmed.

    Attributes
    ----------
    index : the offset index.
    start : offset of the chunk; a dictionary page fills it up to the first data page.
    num_bytes : memory that the entry takes, by estimate.
    confirmed : number of pages, from the first one on, whose headers agree with the index.
    bounds : the column index; None where there is none, or it was not read yet.
    bounds_read : whether reading the column index was attempted.
    statistics : what readers have derived from the bounds.
    """

    index: OffsetIndex
    start: int
    num_bytes: int
    confirmed: int = 0
    bounds: ColumnIndex | None = None
    bounds_read: bool = False
    statistics: object = None

    @property
    def is_confirmed(self) -> bool:
        """True when all pages are confirmed."""
        return self.confirmed == self.index.num_pages

    def header_spans(self, pages: NDArray[np.int64], most: int = PAGE_HEADER_BYTES) -> list[tuple[int, int]]:
        """Return the ranges of the file that hold the headers of some pages, of `most` bytes: (offset, length)."""
        lengths = np.minimum(self.index.sizes[pages], most)
        return list(zip(self.index.offsets[pages].tolist(), lengths.tolist(), strict=True))

    def headers_agree(self, pages: NDArray[np.int64], heads: memoryview, most: int = PAGE_HEADER_BYTES) -> bool:
        """Return whether the headers of data pages agree with the index.

        Parameters
        ----------
        heads : the concatenated bytes of the ranges of `header_spans`.
        """
        sizes = self.index.sizes[pages]
        return pages_agree(heads, np.minimum(sizes, most), sizes, self.index.counts[pages])


class PageHeader(NamedTuple):
    """The header of a page.

    Attributes
    ----------
    is_dictionary : whether it is a dictionary page, as opposed to a data page.
    num_values : number of values, nulls included.
    num_bytes : size of the page in the file, header included.
    needs_dictionary : whether its values are indices into a dictionary.
    version : 1 or 2, of a data page.
    header_bytes : size of the header.
    encoding : number of the encoding of its values.
    """

    is_dictionary: bool
    num_values: int
    num_bytes: int
    needs_dictionary: bool
    version: int = 1
    header_bytes: int = 0
    encoding: int = -1


def read_offset_index(data: bytes, num_rows: int) -> OffsetIndex:
    """Decode the OffsetIndex of a column chunk in a row group of `num_rows` rows.

    Raises
    ------
    MalformedFooterError
        The bytes are not an OffsetIndex, or its pages overlap, leave gaps, or do not hold ascending rows from 0 on.
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
        The bytes are not a ColumnIndex, or it has another number of pages, or inconsistent counts.
    """
    fields = read_struct(data)[0]
    null_pages, low, high = _read_list(fields, 1, bool), _read_list(fields, 2, bytes), _read_list(fields, 3, bytes)
    null_counts, nan_counts = (_read_list(fields, number, int) if number in fields else None for number in (5, 8))
    for values in (null_pages, low, high, null_counts, nan_counts):
        if values is not None and len(values) != index.num_pages:
            raise MalformedFooterError(f"page index: bounds of {len(values)} pages where there are {index.num_pages}")
    if null_counts is not None:
        for is_null, count, num_rows in zip(null_pages, null_counts, np.diff(index.rows).tolist(), strict=True):
            if not 0 <= count <= num_rows or is_null != (count == num_rows):
                raise MalformedFooterError(f"page index: {count} nulls in a page of {num_rows} rows")
    if nan_counts is not None and min(nan_counts) < 0:
        raise MalformedFooterError(f"page index: {min(nan_counts)} NaNs in a page")
    return ColumnIndex(null_pages, low, high, null_counts, fields.get(4), nan_counts)


def read_page_header(data: bytes | memoryview) -> PageHeader:
    """Decode the header of the page that `data` begins with.

    Raises
    ------
    MalformedFooterError
        There is no header, it does not end within `data`, or its page is neither a data page nor a dictionary page.
    """
    fields = read_page_header_fields(data)
    kind, size, encoding = fields["kind"], fields["size"], fields["encoding"]
    if size < 0 or fields["num_values"] < 0:
        raise MalformedFooterError("page index: there is no page where it says")
    return PageHeader(
        is_dictionary=kind == _DICTIONARY_PAGE,
        num_values=fields["num_values"],
        num_bytes=fields["header_bytes"] + size,
        needs_dictionary=encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY),
        version=2 if kind == _DATA_PAGE_V2 else 1,
        header_bytes=fields["header_bytes"],
        encoding=encoding,
    )


def _read_list(fields: dict[int, object], number: int, kind: type[T]) -> list[T]:
    values = fields.get(number)
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise MalformedFooterError(f"page index: field {number} is missing, or of another type")
    return values
