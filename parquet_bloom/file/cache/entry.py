"""What the caches keep of one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...metadata.filter_header import MAX_HEADER_BYTES
from ...metadata.footer import Footer
from ...metadata.page_index import CachedPageIndex
from ...storage import Extents

_FIXED_BYTES = 4096  # of Python's objects, a footer


_LEAF_BYTES = 4096  # a column: its part of the schema, and what is made of it


_CHUNK_BYTES = 256  # a column chunk: its facts


_PAGES_BYTES = 256  # a column chunk whose page index was looked for


_HEAD_BYTES = MAX_HEADER_BYTES + 160  # a filter: its header, and its places in tables


@dataclass(eq=False)
class CachedFooter:
    """What a footer cache holds of a file.

    Attributes
    ----------
    footer : the footer.
    filter_headers : {offset: the bytes that stand there} of filters' headers that were read.
    pages : {(row group, leaf's number): what is known of its pages}; None where the page index cannot be used.
    derived : what readers have computed from the footer, each under a key of its own: it is computed once a file.
    extents : other ranges of the file that were read: of objects in a store, whose filters are asked again and again.
    """

    footer: Footer
    filter_headers: dict[int, bytes] = field(default_factory=dict)
    pages: dict[tuple[int, int], CachedPageIndex | None] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    extents: Extents = field(default_factory=Extents)

    @property
    def num_bytes(self) -> int:
        """Memory it takes at most, by estimate, without the extents: with every column and every header read."""
        footer = self.footer
        num_filters = int((footer.chunks["filter_offset"] != -1).sum())
        columns = -(-len(footer.chunks) // max(1, footer.num_row_groups))
        tables = footer.chunks.nbytes + footer.row_groups.nbytes
        of_chunks = len(footer.chunks) * _CHUNK_BYTES + num_filters * _HEAD_BYTES
        pages = sum(_PAGES_BYTES + (known.num_bytes if known else 0) for known in list(self.pages.values()))
        return _FIXED_BYTES + len(footer.data) + tables + columns * _LEAF_BYTES + of_chunks + pages
