"""Layout of the bytes before a file's footer when its filters change: which are removed, kept or moved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ...errors import BrokenFilterError, ParquetBloomError
from ...metadata.filter_header import MAX_HEADER_BYTES, read_header
from ...metadata.footer import MAGIC, TAIL_BYTES, Footer
from ...metadata.footer_rewrite import splice_filter_locations
from ..chunk_filter import ChunkFilter
from ..reader import BloomFile

Owner = tuple[int, int]
"""The column chunk of a filter: (row group, leaf index)."""

Span = tuple[int, int]
"""The location of a filter: (offset, length with its header)."""


class Sink(Protocol):
    """The destination of a new file: the part of `storage.Rewrite` that is used here."""

    def copy_prefix(self, length: int) -> None: ...
    def write(self, data: Any) -> int: ...
    def tell(self) -> int: ...


@dataclass
class Tail:
    """The layout of the bytes before the new footer.

    Attributes
    ----------
    cut : how much of the file is copied: up to the footer, or to the first removed filter at its tail.
    moved : filters after `cut` that stay, and are copied unchanged.
    dead_bytes : bytes before `cut` that become unreferenced: removed filters, and a footer that is kept.
    """

    cut: int
    moved: dict[Owner, Span] = field(default_factory=dict)
    dead_bytes: int = 0

    def move(self, owner: Owner, file: BloomFile, new: Sink) -> Span:
        """Copy a filter that stays, and return its new location."""
        offset = new.tell()
        new.write(file.source.read_at(*self.moved[owner]))
        return offset, new.tell() - offset


def keep_tail(file: BloomFile, filters: Iterable[ChunkFilter], removed: Collection[Owner]) -> Tail:
    """Keep all bytes, also the footer: readers that know the file's current length can still read it."""
    dead = [
        chunk.header.total_bytes
        for chunk in filters
        if (chunk.row_group, chunk.leaf.index) in removed and not chunk.header_problem
    ]
    return Tail(file.source.size, dead_bytes=file.source.size - file.footer.start + sum(dead))


def cut_tail(file: BloomFile, filters: Iterable[ChunkFilter], removed: Collection[Owner]) -> Tail:
    """Find the filters that are, without a gap, directly before the footer; removed ones are cut, the others move.

    Unused bytes that earlier changes left there, footers included, are cut as well. `filters` are all of the file's.
    """
    spans: dict[Owner, Span] = {}
    doubtful = dead_bytes = 0
    for chunk in filters:
        owner = (chunk.row_group, chunk.leaf.index)
        if chunk.header_problem:
            doubtful = max(doubtful, chunk.offset)  # its extent is unknown: nothing after its beginning may change
            if owner in removed and not chunk.location_problem:
                dead_bytes += chunk.length or 0
            continue
        spans[owner] = (chunk.offset, chunk.header.total_bytes)
    kept = _OldFooters(file)
    cut = first = file.footer.start
    searched = -1  # an offset where no kept footer or its filter ends
    for (offset, length), owner in sorted(((span, owner) for owner, span in spans.items()), reverse=True):
        if offset + length < first != searched:
            searched = kept.find_start(first, max(offset + length, doubtful + 1))
            if searched < first:
                cut = first = searched
        if offset + length == first and offset > doubtful:
            first = offset
            if owner in removed:
                cut = offset
        elif owner in removed:
            dead_bytes += length
    last = max((offset + length for offset, length in spans.values() if offset < first), default=0)
    unused = _find_unused_filters(file, kept.find_start(first, max(last, doubtful + 1)))
    if unused < first:
        cut = unused
    moved = {owner: span for owner, span in spans.items() if span[0] >= cut and owner not in removed}
    return Tail(cut, moved, dead_bytes)


_MAX_FOOTERS = 1000
"""Limit of old footers searched for in a file: a crafted file could hold millions, and take hours."""


class _OldFooters:
    """Earlier footers of the file that `embed` has kept, and the filters that only these point to."""

    def __init__(self, file: BloomFile) -> None:
        self._file = file
        self._pages = file.footer.data_ranges()
        self._filters: dict[int, int] = {}  # {end: start}
        self._num_footers = 0

    @cached_property
    def _plain(self) -> bytes:
        """The footer without filter locations, which earlier footers have in common with it."""
        return _strip_filters(self._file.footer)

    def find_start(self, end: int, least: int) -> int:
        """Return the start of the old footers and filters that fill the file up to `end`; at least `least`."""
        least = max(least, len(MAGIC))
        while end > least:
            start = self._footer(end, least)
            if start is None:
                start = self._filter(end)
            if start is None or start < least or self._holds_pages(start, end):
                break
            end = start
        return end

    def _footer(self, end: int, least: int) -> int | None:
        """Return the start of an old footer that ends at `end`, with length and magic, and record its filters."""
        if end <= least + TAIL_BYTES or self._num_footers >= _MAX_FOOTERS:
            return None
        tail = self._file.source.read_at(end - TAIL_BYTES, TAIL_BYTES)
        start = end - TAIL_BYTES - int.from_bytes(tail[:4], "little")
        if not tail.endswith(MAGIC) or start < least or self._holds_pages(start, end):
            return None
        try:
            kept = Footer(self._file.source.read_at(start, end - TAIL_BYTES - start), start)
            if _strip_filters(kept) != self._plain:
                return None
        except ParquetBloomError:
            return None
        self._num_footers += 1
        if kept.filters_apart:
            filters = kept.chunks[kept.chunks["filter_offset"] != -1]
            ends = filters["filter_offset"] + filters["filter_length"]
            self._filters.update(zip(ends.tolist(), filters["filter_offset"].tolist(), strict=True))
        return start

    def _filter(self, end: int) -> int | None:
        """Return the start of a filter that an old footer points to and that ends at `end`."""
        start = self._filters.get(end)
        if start is None:
            return None
        try:
            header = read_header(self._file.source.read_at(start, min(MAX_HEADER_BYTES, end - start)))
        except BrokenFilterError:
            return None
        return None if header.problem or start + header.total_bytes != end else start

    def _holds_pages(self, start: int, end: int) -> bool:
        return bool(((self._pages[:, 0] < end) & (self._pages[:, 1] > start)).any())


def _find_unused_filters(file: BloomFile, end: int) -> int:
    """Return the start of unreferenced filters that fill the file up to `end`; `end` if there are none.

    All other bytes that the footer does not reference are kept: their writer may use them.
    """
    footer = file.footer
    if not footer.filters_apart:
        return end
    filters = footer.chunks[footer.chunks["filter_offset"] != -1]
    ends = [*(filters["filter_offset"] + filters["filter_length"]).tolist(), *footer.data_ranges()[:, 1].tolist()]
    if any(end < data_end <= footer.start for data_end in footer.data_ranges()[:, 1].tolist()):
        return end
    start = offset = max((used_end for used_end in ends if used_end <= end), default=len(MAGIC))
    while offset < end:
        try:
            header = read_header(file.source.read_at(offset, min(MAX_HEADER_BYTES, end - offset)))
        except BrokenFilterError:
            return end
        if header.problem:
            return end
        offset += header.total_bytes
    return start if offset == end else end


def _strip_filters(footer: Footer) -> bytes:
    """Return the footer's bytes without any filter location: the same before and after filters are embedded."""
    chunks = footer.chunks[(footer.chunks["filter_offset"] != -1) | (footer.chunks["filter_fields"] > 0)]
    owners = zip(chunks["row_group"].tolist(), chunks["column"].tolist(), strict=True)
    return splice_filter_locations(footer, dict.fromkeys(owners))
