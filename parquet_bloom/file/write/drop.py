"""Filters taken out of a Parquet file again: those at its tail leave it, others become bytes that nothing points to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import ParquetBloomError
from ...metadata.footer import Leaf
from ...redaction import shown_redacted
from ...storage import resolve_filesystem
from ..columns import find_leaf
from ..reader import BloomFile
from .rewrite import RewriteReport, open_for_edit, refuse_uneditable, rewrite_file, write_footer
from .tail_layout import Owner, Sink, Span, cut_tail


@dataclass(frozen=True)
class DroppedFilter:
    """One filter that was taken out.

    Attributes
    ----------
    row_group, column : the column chunk.
    num_bytes : of header and bitset; None where neither the footer nor the filter's own header tells.
    freed : whether its bytes left the file; else they stay in it, unused.
    """

    row_group: int
    column: str
    num_bytes: int | None
    freed: bool


@shown_redacted
@dataclass
class DropReport(RewriteReport):
    """What `drop` did.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced.
    changed : whether a file was written: False when there was nothing to drop, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    filters : those that were taken out; in a dry run, those that would be.
    kept : number of filters that stay in the file.
    dead_bytes : bytes of dropped filters that stay in the file unused: pages or page indexes stand behind them.
    seconds : time taken.
    """

    filters: list[DroppedFilter] = field(default_factory=list)

    @property
    def bytes_freed(self) -> int:
        """How much smaller the file became."""
        return self.old_size - self.new_size

    def __str__(self) -> str:
        return self.summarize(f"nothing to drop, {self.kept} filters stay", "would lose ")


def drop(
    path: Any,
    columns: str | Iterable[str] | None = None,
    *,
    output: Any = None,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DropReport:
    """Take Bloom filters out of a Parquet file; its data pages and all other metadata stay byte for byte.

    Filters that stand right before the footer leave the file, those of other columns among them move up; a file whose
    filters all were embedded is then, byte for byte, what it was before. Elsewhere, between row groups or before page
    indexes, only the footer stops pointing to them.

    Parameters
    ----------
    path : the file.
    columns : dotted paths of leaf columns; None for all that have filters.
    output : file to write; None replaces the file itself, as `embed` does.
    dry_run : write nothing; the report tells what would be.
    filesystem, storage_options : as in `embed`.

    Returns
    -------
    DropReport

    Raises
    ------
    ParquetBloomError
        One of its subclasses, with nothing changed: unknown column, encrypted or signed footer, not a Parquet file,
        truncated file, a table's file, a file changed meanwhile, no permission, no space.

    Notes
    -----
    Broken filters are dropped as well; their own bytes stay, as nothing tells for sure which these are.
    """
    started = time.perf_counter()
    names = _parse_names(columns)
    filesystem = resolve_filesystem(filesystem, storage_options)
    with open_for_edit(path, output, filesystem) as (file, target):
        job = _DropJob(file, file.leaves if names is None else [find_leaf(file.leaves, name) for name in names])
        report = DropReport(file.path, file.path if target is None else os.fspath(target), old_size=file.source.size)
        report.filters, report.kept, report.dead_bytes = job.filters, job.kept, job.tail.dead_bytes
        report.new_size = file.source.size
        if job.needed or target is not None:
            report.changed = rewrite_file(file, target, filesystem, dry_run, lambda new: job.write(new, report))
    report.seconds = time.perf_counter() - started
    return report


def _parse_names(columns: str | Iterable[str] | None) -> list[str] | None:
    """The columns' names, checked: that none is given is not the same as that all are meant."""
    if columns is None:
        return None
    try:
        names = [columns] if isinstance(columns, str) else list(columns)
    except TypeError:
        raise ParquetBloomError(f"columns are dotted paths, in a list, not {columns!r}") from None
    for name in names:
        if not isinstance(name, str):
            raise ParquetBloomError(f"a column is named by its dotted path, not by {name!r}")
    if not names:
        raise ParquetBloomError("no column is named whose filters should be dropped; None stands for all")
    return names


class _DropJob:
    """Which filters go, and what then becomes of the bytes at the file's tail.

    Attributes
    ----------
    filters : those that go, by row group and then in schema order.
    kept : number of filters that stay.
    tail : how much of the file is copied, and which filters behind that move.
    """

    def __init__(self, file: BloomFile, leaves: Iterable[Leaf]) -> None:
        self.file = file
        refuse_uneditable(file.footer, ())  # before anything of the columns is asked
        chosen = {leaf.index for leaf in leaves}
        chunks = [*file.chunks()]
        found = [chunk for chunk in chunks if chunk.leaf.index in chosen]
        refuse_uneditable(file.footer, {chunk.leaf.index: chunk.leaf for chunk in found}.values())
        file.read_headers(chunks)
        self._owners: list[Owner] = [(chunk.row_group, chunk.leaf.index) for chunk in found]
        self.kept = len(chunks) - len(found)
        self.tail = cut_tail(file, chunks, {*self._owners})
        self.filters = []
        for chunk in found:
            header = None if chunk.header_problem else chunk.header
            num_bytes = chunk.length if header is None else header.total_bytes
            freed = header is not None and chunk.offset >= self.tail.cut
            self.filters.append(DroppedFilter(chunk.row_group, chunk.column, num_bytes, freed))

    @property
    def needed(self) -> bool:
        """Whether the file becomes another one."""
        return bool(self.filters) or self.tail.cut < self.file.footer.start

    def write(self, new: Sink, report: DropReport) -> bool:
        """Write the whole new file; whether it is another one."""
        places: dict[Owner, Span | None] = dict.fromkeys(self._owners)
        new.copy_prefix(self.tail.cut)
        for owner in sorted(self.tail.moved, key=lambda owner: self.tail.moved[owner]):
            places[owner] = self.tail.move(owner, self.file, new)
        write_footer(new, self.file.footer, places)
        report.new_size = new.tell()
        return self.needed
