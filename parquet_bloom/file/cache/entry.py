"""The entry of one file in the metadata caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...metadata.filter_header import MAX_HEADER_BYTES
from ...metadata.footer import Footer
from ...metadata.page_index import CachedPageIndex
from ...metadata.renamed_footer import RenamedFooter
from ...storage import Extents

# Estimates of memory.
_FIXED_BYTES = 4096  # Python objects, per footer
_LEAF_BYTES = 1024  # per column: what is derived from its part of the schema, which files share
_CHUNK_BYTES = 256  # per column chunk: its statistics
_PAGES_BYTES = 256  # per column chunk whose page index was looked up
_HEADER_BYTES = MAX_HEADER_BYTES + 160  # per filter: its header, and its entries in tables


@dataclass(eq=False)
class CachedFooter:
    """The cache entry of one file.

    Attributes
    ----------
    footer : the footer.
    filter_headers : {offset: bytes at that offset} of the filter headers that were read.
    pages : {(row group, leaf index): page index}; None where the page index cannot be used.
    page_headers : {offset of a column chunk: its page headers} of large chunks of local files; see `PageHeaders`.
    columns : `ColumnStatistics` of `file.statistics`, by the leaf's number.
    derived : values that readers have computed from the footer, by the readers' keys, so as to compute them once.
    extents : other ranges that were read, kept for objects in a store, whose filters are probed again and again.
    original : the entry that this one shows in another way; None for the file's own.
    int96_unit : unit of Arrow's timestamps for INT96 ones; None for nanoseconds, which only cover 1677 to 2262.
    """

    footer: Footer
    filter_headers: dict[int, bytes] = field(default_factory=dict)
    pages: dict[tuple[int, int], CachedPageIndex | None] = field(default_factory=dict)
    page_headers: dict[int, bytes] = field(default_factory=dict)
    columns: dict[int, Any] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    extents: Extents = field(default_factory=Extents)
    original: CachedFooter | None = None
    int96_unit: str | None = None

    def show(self, names: Sequence[bytes] | None, int96_unit: str | None) -> CachedFooter:
        """Return an entry of the same file, with other names in its schema (see `RenamedFooter`) or another unit."""
        footer = self.footer if names is None else RenamedFooter(self.footer, names)
        shown = CachedFooter(footer, self.filter_headers, self.pages, self.page_headers, extents=self.extents)
        shown.original, shown.int96_unit = self, int96_unit
        return shown

    @property
    def spare_bytes(self) -> int:
        """Estimate of the memory that `drop_spare` gives back."""
        headers = sum(_PAGES_BYTES + len(one) for one in list(self.page_headers.values())) if self.page_headers else 0
        return self.extents.num_bytes + headers

    def drop_spare(self) -> None:
        """Drop what the file's footer is used without, at the price of reading it again: extents and page headers."""
        self.extents.clear()
        self.page_headers.clear()

    @property
    def num_bytes(self) -> int:
        """Estimate of the memory needed besides `spare_bytes`, once every column and every header is read."""
        footer = self.footer
        columns = -(-len(footer.chunks) // max(1, footer.num_row_groups))
        tables = footer.chunks.nbytes + footer.row_groups.nbytes
        chunks = len(footer.chunks) * _CHUNK_BYTES + footer.num_filters * _HEADER_BYTES
        pages = 0
        if self.pages:
            pages = sum(_PAGES_BYTES + (index.num_bytes if index else 0) for index in list(self.pages.values()))
        return _FIXED_BYTES + len(footer.data) + tables + columns * _LEAF_BYTES + chunks + pages
