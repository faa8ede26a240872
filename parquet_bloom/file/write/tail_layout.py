"""Which bytes before a file's footer go, stay or move when its filters are changed."""

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
"""Whose filter it is: (row group, leaf index)."""

Span = tuple[int, int]
"""Where a filter stands: (offset, length with its header)."""


class Sink(Protocol):
    """Where a new file goes: what is used of `storage.Rewrite`."""

    def copy_prefix(self, length: int) -> None: ...
    def write(self, data: Any) -> int: ...
    def tell(self) -> int: ...


@dataclass
class Tail:
    """What becomes of the bytes before the footer.

    Attributes
    ----------
    cut : how much of the file is copied: up to the footer, or to the first filter at its tail that goes.
    moved : filters behind `cut` that stay, and are copied as they are.
    dead_bytes : bytes of filters before `cut` that nothing will point to any more, and of a footer that is kept.
    """

    cut: int
    moved: dict[Owner, Span] = field(default_factory=dict)
    dead_bytes: int = 0

    def move(self, owner: Owner, file: BloomFile, new: Sink) -> Span:
        """Copy a filter that stays, and tell its new place."""
        offset = new.tell()
        new.write(file.source.read_at(*self.moved[owner]))
        return offset, new.tell() - offset


def keep_tail(file: BloomFile, filters: Iterable[ChunkFilter], removed: Collection[Owner]) -> Tail:
    """Nothing goes, the footer neither: who knows the file by the length that it has now can still read it there."""
    dead = [
        chunk.header.total_bytes
        for chunk in filters
        if (chunk.row_group, chunk.leaf.index) in removed and not chunk.header_problem
    ]
    return Tail(file.source.size, dead_bytes=file.source.size - file.footer.start + sum(dead))


def cut_tail(file: BloomFile, filters: Iterable[ChunkFilter], removed: Collection[Owner]) -> Tail:
    """Find the filters that stand, without a gap, right before the footer: those that are removed go, the others move.

    What earlier changes left there unused goes with them, footers too. `filters` are all that the file has.
    """
    spans: dict[Owner, Span] = {}
    doubtful = dead_bytes = 0
    for chunk in filters:
        owner = (chunk.row_group, chunk.leaf.index)
        if chunk.header_problem:
            doubtful = max(doubtful, chunk.offset)  # nothing that it may mean is moved, or comes to stand there
            if owner in removed and not chunk.location_problem:
                dead_bytes += chunk.length or 0
            continue
        spans[owner] = (chunk.offset, chunk.header.total_bytes)
    kept = _OldFooters(file)
    cut = first = file.footer.start
    sought = -1  # where nothing ends that was kept
    for (offset, length), owner in sorted(((span, owner) for owner, span in spans.items()), reverse=True):
        if offset + length < first != sought:
            sought = kept.find_start(first, max(offset + length, doubtful + 1))
            if sought < first:
                cut = first = sought
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
"""That are looked for in a file; a file that is made for it could hold millions, and take hours."""


class _OldFooters:
    """Footers of this very file that `embed` has kept, and the filters to which these alone point."""

    def __init__(self, file: BloomFile) -> None:
        self._file = file
        self._pages = file.footer.data_ranges()
        self._filters: dict[int, int] = {}  # where one ends: where it begins
        self._found = 0

    @cached_property
    def _plain(self) -> bytes:
        """What such a footer says but for filters."""
        return _strip_filters(self._file.footer)

    def find_start(self, end: int, least: int) -> int:
        """Where they begin that fill the file up to `end`, but not below `least`; `end` if none do."""
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
        """Where a footer begins that ends there, with its length and mark; its filters are noted."""
        if end <= least + TAIL_BYTES or self._found >= _MAX_FOOTERS:
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
        self._found += 1
        if kept.filters_apart:
            there = kept.chunks[kept.chunks["filter_offset"] != -1]
            ends = there["filter_offset"] + there["filter_length"]
            self._filters.update(zip(ends.tolist(), there["filter_offset"].tolist(), strict=True))
        return start

    def _filter(self, end: int) -> int | None:
        """Where a filter begins that a footer has pointed to, and that ends there."""
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
    """Where filters begin that the footer does not point to and that fill the file up to `end`; `end` if none do.

    All other bytes that the footer does not mention are kept: who wrote them may know what they are.
    """
    footer = file.footer
    if not footer.filters_apart:
        return end
    filters = footer.chunks[footer.chunks["filter_offset"] != -1]
    ends = [*(filters["filter_offset"] + filters["filter_length"]).tolist(), *footer.data_ranges()[:, 1].tolist()]
    if any(end < known <= footer.start for known in footer.data_ranges()[:, 1].tolist()):
        return end
    start = place = max((known for known in ends if known <= end), default=len(MAGIC))
    while place < end:
        try:
            header = read_header(file.source.read_at(place, min(MAX_HEADER_BYTES, end - place)))
        except BrokenFilterError:
            return end
        if header.problem:
            return end
        place += header.total_bytes
    return start if place == end else end


def _strip_filters(footer: Footer) -> bytes:
    """The footer's bytes as they are without any filter's place: the same before and after filters are embedded."""
    chunks = footer.chunks[(footer.chunks["filter_offset"] != -1) | (footer.chunks["filter_fields"] > 0)]
    owners = zip(chunks["row_group"].tolist(), chunks["column"].tolist(), strict=True)
    return splice_filter_locations(footer, dict.fromkeys(owners))
