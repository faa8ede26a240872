"""Changing the filters of a file that exists: what is refused, which bytes at its tail go, and its new footer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..errors import (
    BrokenFilterError,
    EncryptedFileError,
    MalformedFooterError,
    ManagedTableError,
    NotParquetError,
    ParquetBloomError,
    Place,
    UnreadableColumnError,
)
from ..metadata.filter_header import MAX_HEADER_BYTES, read_header
from ..metadata.footer import MAGIC, ORC_MAGIC, TAIL_BYTES, Footer, Leaf
from ..storage import Source, managed_table, open_source, rewrite, same_place
from .reader import BloomFile, ChunkFilter

Owner = tuple[int, int]
"""Whose filter it is: (row group, leaf index)."""

Span = tuple[int, int]
"""Where a filter stands: (offset, length with its header)."""


class Sink(Protocol):
    """Where a new file goes: what is used of `storage.Rewrite`."""

    def copy_prefix(self, length: int) -> None: ...
    def write(self, data: Any) -> int: ...
    def tell(self) -> int: ...


class _Tally:
    """Keeps nothing of a new file but its length."""

    def __init__(self) -> None:
        self._position = 0

    def copy_prefix(self, length: int) -> None:
        self._position = length

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self._position += length
        return length

    def tell(self) -> int:
        return self._position


# ---------------------------------------------------------------------------------------------------- the whole


@dataclass
class RewriteReport:
    """What became of a file whose filters were changed.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced.
    changed : whether a file was written: False when there was nothing to do, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    kept, dead_bytes : as the report says that is made of it.
    seconds : time taken.
    filters : those that were changed.
    """

    path: str
    output: str
    changed: bool = False
    old_size: int = 0
    new_size: int = 0
    kept: int = 0
    dead_bytes: int = 0
    seconds: float = 0.0
    filters: list[Any] = field(default_factory=list)

    @property
    def num_filters(self) -> int:
        """Number of filters that were changed: written, or taken out."""
        return len(self.filters)

    def told(self, nothing: str, planned: str) -> str:
        """One line; `nothing` says that nothing was to be done, `planned` leads what would be."""
        if not self.changed and not self.filters:
            return f"{self.path}: {nothing}"
        text = f"{self.output}: {'' if self.changed else planned}{self.num_filters} filters"
        text += f", {self.new_size - self.old_size:+,} bytes"
        return text + (f", {self.dead_bytes:,} dead bytes" if self.dead_bytes else "")


@contextmanager
def editing(path: Any, output: Any, filesystem: Any) -> Iterator[tuple[BloomFile, Any]]:
    """Open a file whose filters are to be changed, and tell where the result goes: None for its own place.

    Raises
    ------
    ParquetBloomError
        A table keeps books on it, or it is no Parquet file. Errors inside the `with` statement get its path.
    """
    for place in (path, output):
        refuse_managed(place, filesystem)
    with open_source(path, filesystem) as source:
        file = _parquet(source)
        try:
            if source.read_at(0, len(MAGIC)) != MAGIC:
                raise NotParquetError("not a Parquet file: it does not begin with PAR1")
            yield file, None if output is None or same_place(path, output, filesystem) else output
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise


def rewritten(file: BloomFile, target: Any, filesystem: Any, dry_run: bool, write: Callable[[Sink], bool]) -> bool:
    """Let `write` make the new file, and put it in its place if it is another one; whether that was done."""
    if dry_run:
        write(_Tally())
        return False
    with rewrite(file.source, target, filesystem) as new:
        if not write(new) and target is None:
            return False
        new.commit()
        return True


def refuse_managed(path: Any, filesystem: Any = None) -> None:
    """Raise ManagedTableError for a file that a table format or a streaming sink keeps books on."""
    reason = None if path is None else managed_table(path, filesystem)
    if reason:
        raise ManagedTableError(
            f"{reason}; its files' sizes are recorded there, so write new files and commit them through the table",
            path=path,
        )


def refuse_uneditable(footer: Footer, leaves: Iterable[Leaf]) -> None:
    """Raise for files whose footer cannot be changed, or in which the data of chosen columns is not."""
    if footer.encrypted:
        raise EncryptedFileError(
            "the footer is signed, or columns are encrypted: it cannot be changed without the keys"
        )
    for leaf in leaves:
        for row_group in range(footer.num_row_groups):
            record = footer.chunk(row_group, leaf)
            place: Place = {"row_group": row_group, "column": leaf.name}
            if record["encrypted"]:
                raise EncryptedFileError("the column is encrypted", **place)
            if record["external"]:
                raise UnreadableColumnError("the column chunk's data is in another file", **place)


def refuse_pages_beyond(file: BloomFile) -> None:
    """Raise for files whose footer takes pages to reach beyond its own beginning, where new filters are to stand."""
    footer, chunks = file.footer, file.footer.chunks
    beyond = np.flatnonzero((footer.first_pages + chunks["compressed_size"] > footer.start) & (chunks["external"] == 0))
    if len(beyond):
        row_group, column = file._owner(int(beyond[0]))
        problem = "metadata: the column chunk's pages are said to reach beyond the footer's beginning"
        raise MalformedFooterError(problem, row_group=row_group, column=column)


# ---------------------------------------------------------------------------------------------------- the tail


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


def whole_tail(file: BloomFile, filters: Iterable[ChunkFilter], removed: Collection[Owner]) -> Tail:
    """Nothing goes, the footer neither: who knows the file by the length that it has now can still read it there."""
    dead = [
        chunk.header.header_bytes + chunk.num_bytes
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
            doubtful = max(doubtful, chunk.offset)  # nothing that it may mean is moved
            if owner in removed and not chunk.location_problem:
                dead_bytes += chunk.length or 0
            continue
        spans[owner] = (chunk.offset, chunk.header.header_bytes + chunk.num_bytes)
    cut = first = file.footer.start
    sought = -1  # where there is no footer
    for (offset, length), owner in sorted(((span, owner) for owner, span in spans.items()), reverse=True):
        if offset + length < first != sought:
            first = sought = _before_footers(file, first, offset + length)
        if offset + length == first and offset > doubtful:
            first = offset
            if owner in removed:
                cut = offset
        elif owner in removed:
            dead_bytes += length
    last = max((offset + length for offset, length in spans.values() if offset < first), default=0)
    unused = _unused_before(file, _before_footers(file, first, last))
    if unused < first:
        cut = unused
    moved = {owner: span for owner, span in spans.items() if span[0] >= cut and owner not in removed}
    return Tail(cut, moved, dead_bytes)


def _before_footers(file: BloomFile, end: int, least: int) -> int:
    """Where the footers begin that end right before `end`, not below `least`: this file's, kept by `embed`."""
    pages = file.footer.data_ranges()
    while end > least:
        tail = file.source.read_at(end - TAIL_BYTES, TAIL_BYTES) if end > TAIL_BYTES + len(MAGIC) else b""
        start = end - TAIL_BYTES - int.from_bytes(tail[:4], "little")
        if not tail.endswith(MAGIC) or start < max(least, len(MAGIC)):
            break
        if ((pages[:, 0] < end) & (pages[:, 1] > start)).any():
            break
        try:
            kept = Footer(file.source.read_at(start, end - TAIL_BYTES - start), start)
        except ParquetBloomError:
            break
        if not _same_data(kept, file.footer):
            break
        end = start
    return end


def _unused_before(file: BloomFile, end: int) -> int:
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
        place += header.header_bytes + header.num_bytes
    return start if place == end else end


# ---------------------------------------------------------------------------------------------------- the footer


def write_footer(new: Sink, footer: Footer, places: Mapping[Owner, Span | None]) -> None:
    """Append the footer with the filters' new places; it is read back first, as nothing may be wrong with it."""
    data = footer.splice(places)
    check_splice(footer, Footer(data, new.tell()), places)
    new.write(data)
    new.write(len(data).to_bytes(4, "little"))
    new.write(MAGIC)


def check_splice(old: Footer, new: Footer, places: Mapping[Owner, Span | None]) -> None:
    """Raise MalformedFooterError unless `new` says what `old` says, but for the places of filters."""
    if not _same_data(old, new):
        raise MalformedFooterError("metadata: the new footer does not say what the old one does; nothing was written")
    expected = old.chunks[["filter_offset", "filter_length"]].tolist()
    for (row_group, column), place in places.items():
        expected[int(new.row_groups["first_chunk"][row_group]) + column] = place or (-1, -1)
    if new.chunks[["filter_offset", "filter_length"]].tolist() != expected:
        raise MalformedFooterError("metadata: the new footer does not hold the filters' places; nothing was written")


def _same_data(one: Footer, other: Footer) -> bool:
    """Whether two footers speak of the same column chunks."""
    same = ("row_group", "column", "physical_type", "num_values", "compressed_size", "data_page_offset")
    return len(one.chunks) == len(other.chunks) and all((one.chunks[name] == other.chunks[name]).all() for name in same)


def _parquet(source: Source) -> BloomFile:
    """An opened file, if it is Parquet's; ORC's is told as what it is."""
    try:
        return BloomFile(source)
    except NotParquetError as error:
        if (
            source.size > len(ORC_MAGIC)
            and source.read_at(source.size - len(ORC_MAGIC) - 1, len(ORC_MAGIC)) == ORC_MAGIC
        ):
            problem = "an ORC file: only who writes it can make its filters, with it; `advise` tells how"
            raise NotParquetError(problem, path=source.name) from error
        raise
