"""Shared parts of `embed` and `drop`: opening the file, refusing unsupported files, replacing it, the new footer."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ..errors import (
    BrokenFilterError,
    EncryptedFileError,
    ErrorContext,
    MalformedFooterError,
    ManagedTableError,
    NotParquetError,
    ParquetBloomError,
    StorageError,
    UnreadableColumnError,
)
from ..metadata.filter_header import MAX_HEADER_BYTES, read_header
from ..metadata.footer import MAGIC, ORC_MAGIC, TAIL_BYTES, Footer, SchemaLeaf
from ..metadata.footer_rewrite import splice_filter_locations
from ..redaction import shown_redacted
from ..storage import Source, managed_table, open_source, rewrite, same_place
from ..storage.local.local_rewrite import delete_leftover, displaced_from, is_of_exchange, leftovers_below
from ..util.messages import count
from .bloom_file import BloomFile
from .chunk_filter import ChunkFilter
from .identity import chunk_bytes_fingerprint, footer_fingerprint
from .many_files import FileReports
from .tabular_report import TabularReport

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem

Owner = tuple[int, int]
"""The column chunk of a filter: (row group, leaf index)."""

Span = tuple[int, int]
"""The location of a filter: (offset, length with its header)."""


class Sink(Protocol):
    """The destination of a new file: the part of `storage.Rewrite` that is used here."""

    def copy_prefix(self, length: int) -> None: ...
    def copy_range(self, offset: int, length: int) -> None: ...
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
    Nothing is cut, and nothing moves, if values may refer to bytes of the file.
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
    if file.footer.later_types:
        dead_bytes += sum(length for owner, (_, length) in spans.items() if owner in removed)
        return Tail(file.footer.start, dead_bytes=dead_bytes)
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


class _ByteCounter:
    """A sink that only counts the bytes of a new file."""

    def __init__(self) -> None:
        self._position = 0

    def copy_prefix(self, length: int) -> None:
        self._position = length

    def copy_range(self, offset: int, length: int) -> None:
        self._position += length

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self._position += length
        return length

    def tell(self) -> int:
        return self._position


# ---------------------------------------------------------------------------------------------------- the file


@shown_redacted
@dataclass
class RewriteReport(FileReports, TabularReport):
    """The result of changing the filters of a file, or the sums over many files.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced.
    changed : whether a file was written: False when there was nothing to do, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    kept, dead_bytes : see the subclasses.
    seconds : time taken.
    filters : filters that were changed.
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

    @classmethod
    def combine(cls, path: str, reports: Sequence[Self]) -> Self:
        """Make the report of many files. Its time is the sum of theirs, until `seconds` is set."""
        total = cls(path, path, changed=any(report.changed for report in reports))
        for report in reports:
            total.old_size += report.old_size
            total.new_size += report.new_size
            total.kept += report.kept
            total.dead_bytes += report.dead_bytes
            total.seconds += report.seconds
            total.filters += report.filters
        return total

    @property
    def num_filters(self) -> int:
        """Number of filters that were changed: written or dropped."""
        return len(self.filters)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {
            "file": self.path,
            "output": self.output,
            "filters": self.num_filters,
            "kept": self.kept,
            "dead_bytes": self.dead_bytes,
            "new_size": self.new_size,
            "changed": self.changed,
            "seconds": round(self.seconds, 6),
        }

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        read = attrgetter(*list(self._columns)[2:])
        for file in self.files:
            for each in file.filters:
                yield file.path, file.output, *read(each)

    def summarize(self, nothing: str, planned: str) -> str:
        """Format one line, or for many files a table.

        Parameters
        ----------
        nothing : says that there was nothing to do with a file.
        planned : introduces what would be done in a dry run.
        """
        if not self.is_single:
            return self._format_files(planned)
        if not self.changed and not self.filters:
            return f"{self.path}: {nothing}"
        text = f"{self.output}: {'' if self.changed else planned}{count(self.num_filters, 'filter')}"
        text += f", {self.new_size - self.old_size:+,} bytes"
        return text + (f", {count(self.dead_bytes, 'dead byte')}" if self.dead_bytes else "")

    def _format_files(self, planned: str) -> str:
        def cells(report: RewriteReport) -> tuple[str, ...]:
            growth = f"{report.new_size - report.old_size:+,}"
            return f"{report.num_filters:,}", f"{report.kept:,}", growth, "yes" if report.changed else "no"

        done = "" if self.changed or not self.filters else planned
        summary = f"{self.path}: {done}{count(self.num_filters, 'filter')} in {count(len(self), 'file')}"
        summary += f", {self.new_size - self.old_size:+,} bytes"
        summary += f", {count(self.dead_bytes, 'dead byte')}" if self.dead_bytes else ""
        return self.format_table(("filters", "kept", "bytes", "written"), cells, summary)


@contextmanager
def open_for_edit(
    path: FilePath, output: FilePath | None, filesystem: FileSystem | None, *, of_orc: str = "", in_table: bool = False
) -> Iterator[tuple[BloomFile, FilePath | None]]:
    """Open a file in order to change its filters; also return the output, None for replacing the file itself.

    Parameters
    ----------
    of_orc : what the error of an ORC file says besides.
    in_table : the caller commits the output to the table that tracks the file, so that is no reason to refuse it.

    Raises
    ------
    ParquetBloomError
        A table tracks the file in its metadata, or it is not a Parquet file. Errors inside the `with` statement get its
        path.
    """
    for one in () if in_table else (path, output):
        refuse_managed(one, filesystem)
    with open_source(path, filesystem) as source:
        file = _open_parquet(source, of_orc)
        try:
            if source.read_at(0, len(MAGIC)) != MAGIC:
                raise NotParquetError("not a Parquet file: it does not begin with PAR1")
            yield file, None if output is None or same_place(path, output, filesystem) else output
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise


def rewrite_file(
    file: BloomFile,
    target: FilePath | None,
    filesystem: FileSystem | None,
    dry_run: bool,
    write: Callable[[Sink], bool],
    *,
    copies: bool = True,
) -> bool:
    """Let `write` make the new file, and commit it if it differs from the old one; return whether it was committed.

    Without `copies`, a target that would not differ is not written either.
    """
    if dry_run:
        write(_ByteCounter())
        return False
    with rewrite(file.source, target, filesystem) as new:
        if not write(new) and (target is None or not copies):
            return False
        new.commit()
        return True


def refuse_managed(path: FilePath | None, filesystem: FileSystem | None = None) -> None:
    """Raise ManagedTableError for a file that a table format or a streaming sink tracks in its metadata."""
    reason = None if path is None else managed_table(path, filesystem)
    if reason:
        raise ManagedTableError(
            f"{reason}; its files' sizes are recorded there, so write new files and commit them through the table",
            path=path,
        )


def refuse_uneditable(footer: Footer, leaves: Iterable[SchemaLeaf]) -> None:
    """Raise for files whose footer cannot be changed, or that do not contain the data of chosen columns."""
    if footer.encrypted:
        raise EncryptedFileError(
            "the footer is signed, or columns are encrypted: it cannot be changed without the keys"
        )
    for leaf in leaves:
        for row_group in range(footer.num_row_groups):
            record = footer.chunk(row_group, leaf)
            context: ErrorContext = {"row_group": row_group, "column": leaf.name}
            if record["encrypted"]:
                raise EncryptedFileError("the column is encrypted", **context)
            if record["external"]:
                raise UnreadableColumnError("the column chunk's data is in another file", **context)


def refuse_pages_beyond(file: BloomFile) -> None:
    """Raise for files whose footer claims that pages extend beyond its own beginning, where new filters are written."""
    footer, chunks = file.footer, file.footer.chunks
    beyond = np.flatnonzero((footer.first_pages + chunks["compressed_size"] > footer.start) & (chunks["external"] == 0))
    if len(beyond):
        row_group, column = file._find_owner(int(beyond[0]))
        problem = "metadata: the column chunk's pages are said to reach beyond the footer's beginning"
        raise MalformedFooterError(problem, row_group=row_group, column=column)


def refuse_filters_beyond(file: BloomFile, replaced: Collection[Owner]) -> None:
    """Raise for a filter that is not replaced and claims to extend beyond the footer's beginning.

    Only this shows that it is broken: if other bytes were written there, readers would take it for a valid filter, and
    it would deny values.
    """
    start = file.footer.start
    if file.footer.filters_apart:
        return
    unchanged = [chunk for chunk in file.chunks() if (chunk.row_group, chunk.leaf.index) not in replaced]
    beyond = [chunk for chunk in unchanged if chunk.offset + (chunk.length or 1) > start]
    # Of those whose length only their headers tell, any but the last would contain the beginning of another filter.
    for chunk in sorted((chunk for chunk in unchanged if chunk.length is None), key=lambda chunk: chunk.offset)[-1:]:
        with suppress(BrokenFilterError):
            if chunk.offset + chunk.header.total_bytes > start:
                beyond.append(chunk)
    for chunk in beyond[:1]:
        problem = "the filter is said to reach beyond the footer's beginning; drop it, or replace it"
        raise BrokenFilterError(problem, row_group=chunk.row_group, column=chunk.column)


# ---------------------------------------------------------------------------------------------------- the footer


def write_footer(new: Sink, footer: Footer, locations: Mapping[Owner, Span | None]) -> None:
    """Append the footer with the filters' new locations, after decoding and checking it."""
    data = splice_filter_locations(footer, locations)
    check_splice(footer, Footer(data, new.tell()), locations)
    new.write(data)
    new.write(len(data).to_bytes(4, "little"))
    new.write(MAGIC)


def check_splice(old: Footer, new: Footer, locations: Mapping[Owner, Span | None]) -> None:
    """Raise MalformedFooterError unless `new` equals `old` except for the filters' locations."""
    same = ("row_group", "column", "physical_type", "num_values", "compressed_size", "data_page_offset")
    if len(old.chunks) != len(new.chunks) or any((old.chunks[name] != new.chunks[name]).any() for name in same):
        raise MalformedFooterError("metadata: the new footer does not say what the old one does; nothing was written")
    expected = old.chunks[["filter_offset", "filter_length"]].tolist()
    for (row_group, column), span in locations.items():
        expected[int(new.row_groups["first_chunk"][row_group]) + column] = span or (-1, -1)
    if new.chunks[["filter_offset", "filter_length"]].tolist() != expected:
        raise MalformedFooterError("metadata: the new footer lacks the filters' locations; nothing was written")


def _open_parquet(source: Source, of_orc: str) -> BloomFile:
    """Open a Parquet file; the error for an ORC file says that it is one."""
    try:
        return BloomFile(source)
    except NotParquetError as error:
        if (
            source.size > len(ORC_MAGIC)
            and source.read_at(source.size - len(ORC_MAGIC) - 1, len(ORC_MAGIC)) == ORC_MAGIC
        ):
            raise NotParquetError(f"an ORC file: {of_orc}", path=source.name) from error
        raise


@shown_redacted
@dataclass(frozen=True)
class Leftover:
    """A file left behind by a killed writer.

    Attributes
    ----------
    path, num_bytes : the file.
    deleted : whether it was deleted, or in a dry run would be.
    reason : why it is kept, or was already gone; None if it was deleted.
    """

    path: str
    num_bytes: int
    deleted: bool
    reason: str | None = None


def sweep(folder: str | os.PathLike[str], *, dry_run: bool = False) -> Iterator[Leftover]:
    """Delete files left behind by killed writers in a local folder and below it.

    Files whose writer is still running are skipped. New files that were never finished are deleted. A file that was
    exchanged with its replacement is deleted if it is the one that the writer had read, as its name says, or if both
    hold the same rows; else it is kept, as another writer may have put it there in the moment of the exchange.

    Parameters
    ----------
    folder : the folder to search; links to folders in it are not followed.
    dry_run : delete nothing.

    Raises
    ------
    StorageError
        A folder cannot be listed, or a file in it cannot be deleted.
    """
    for path in leftovers_below(folder):
        try:
            num_bytes = os.lstat(path).st_size
        except OSError:
            continue  # its writer has just finished, or another process sweeps
        reason = _find_reason_to_keep(path)
        if reason is None and not dry_run and not delete_leftover(path):
            reason = "another process has removed it"
        yield Leftover(path, num_bytes, reason is None, reason)


def _find_reason_to_keep(path: str) -> str | None:
    folder, name = os.path.split(path)
    target = displaced_from(name)
    if target is None or is_of_exchange(path):
        return None
    try:
        with open_source(path) as source:
            ours = _fingerprint_rows(source)
    except ParquetBloomError as error:
        return f"it may be another writer's, and cannot be read: {error.problem}"
    try:
        with open_source(os.path.join(folder, target)) as source:
            theirs = _fingerprint_rows(source)
    except StorageError:
        return f"there is no {target} beside it"
    except ParquetBloomError as error:
        return f"{target} cannot be read: {error.problem}"
    return None if ours == theirs else f"it holds other rows than {target}"


def _fingerprint_rows(source: Source) -> tuple[int, int]:
    """Return fingerprints that are equal for files that differ only in their filters."""
    file = BloomFile(source)
    fingerprints = footer_fingerprint(file.footer), chunk_bytes_fingerprint(source, file.footer, file.leaves)
    source.check_unchanged()
    return fingerprints
