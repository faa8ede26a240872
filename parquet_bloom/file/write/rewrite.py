"""Shared parts of `embed` and `drop`: opening the file, refusing unsupported files, replacing it, the new footer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ...errors import (
    BrokenFilterError,
    EncryptedFileError,
    ErrorContext,
    MalformedFooterError,
    ManagedTableError,
    NotParquetError,
    ParquetBloomError,
    UnreadableColumnError,
)
from ...metadata.footer import MAGIC, ORC_MAGIC, Footer, Leaf
from ...metadata.footer_rewrite import splice_filter_locations
from ...redaction import shown_redacted
from ...storage import Source, managed_table, open_source, rewrite, same_place
from ...util.wording import count
from ..many import FileReports
from ..reader import BloomFile
from .tail_layout import Owner, Sink, Span


class _ByteCounter:
    """A sink that only counts the bytes of a new file."""

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


# ---------------------------------------------------------------------------------------------------- the file


@shown_redacted
@dataclass
class RewriteReport(FileReports):
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
    path: Any, output: Any, filesystem: Any, *, of_orc: str = "", in_table: bool = False
) -> Iterator[tuple[BloomFile, Any]]:
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
    target: Any,
    filesystem: Any,
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


def refuse_managed(path: Any, filesystem: Any = None) -> None:
    """Raise ManagedTableError for a file that a table format or a streaming sink tracks in its metadata."""
    reason = None if path is None else managed_table(path, filesystem)
    if reason:
        raise ManagedTableError(
            f"{reason}; its files' sizes are recorded there, so write new files and commit them through the table",
            path=path,
        )


def refuse_uneditable(footer: Footer, leaves: Iterable[Leaf]) -> None:
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
