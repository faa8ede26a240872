"""`drop`: remove filters from a Parquet file. Those at its tail are cut off, others become unreferenced bytes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ..errors import ParquetBloomError
from ..metadata.footer import SchemaLeaf
from ..redaction import shown_redacted
from ..storage import resolve_filesystem
from ..util.messages import count
from .bloom_file import BloomFile
from .file_columns import find_leaf
from .file_rewrite import (
    Owner,
    RewriteReport,
    Sink,
    Span,
    cut_tail,
    open_for_edit,
    refuse_managed,
    refuse_uneditable,
    rewrite_file,
    write_footer,
)
from .many_files import OnError, Progress, RunOptions, process_paths
from .tabular_report import Kind

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem, Paths


@dataclass(frozen=True)
class DroppedFilter:
    """One filter that was dropped.

    Attributes
    ----------
    row_group, column : the column chunk.
    num_bytes : size of header and bitset; None where neither the footer nor the filter's own header gives it.
    freed : whether its bytes were removed from the file; otherwise they stay in it, unused.
    """

    row_group: int
    column: str
    num_bytes: int | None
    freed: bool


@shown_redacted
@dataclass
class DropReport(RewriteReport):
    """The result of `drop`, of one file or of many: then the sums over them, and `files` has theirs.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced. What was given, for many files.
    changed : whether a file was written: False when there was nothing to drop, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    filters : filters that were dropped; in a dry run, those that would be.
    kept : number of filters that stay in the file.
    dead_bytes : bytes of dropped filters that stay in the file unused: pages or page indexes follow them.
    seconds : time taken.

    As a table it has a row for each filter that was dropped.
    """

    filters: list[DroppedFilter] = field(default_factory=list)

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "output": "path",
        "row_group": "int",
        "column": "text",
        "num_bytes": "int",
        "freed": "bool",
    }

    @property
    def bytes_freed(self) -> int:
        """Number of bytes by which the file became smaller."""
        return self.old_size - self.new_size

    def __str__(self) -> str:
        stays = f"{count(self.kept, 'filter')} {'stays' if self.kept == 1 else 'stay'}"
        return self.summarize(f"nothing to drop, {stays}" if self.kept else "nothing to drop", "would lose ")


def drop(
    paths: Paths,
    columns: str | Iterable[str] | None = None,
    *,
    output: FilePath | None = None,
    dry_run: bool = False,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    on_error: OnError = "finish",
) -> DropReport:
    """Drop Bloom filters from Parquet files; their data pages and all other metadata stay byte for byte.

    Filters directly before the footer are removed from the file, and filters of other columns among them move up; a
    file whose filters were all embedded becomes, byte for byte, what it was before. Elsewhere, between row groups or
    before page indexes, only the footer stops pointing to the filters.

    Parameters
    ----------
    paths : a file, a folder, a pattern, or a list of them, as in `prune`.
    columns : dotted paths of leaf columns; None for all that have filters.
    output : file to write, for a single file; None replaces each file itself, as `embed` does.
    dry_run : write nothing; the report describes what would be done.
    filesystem, storage_options : as in `embed`.
    progress : called after each file with (done, in all).
    threads : files processed at a time; None for one per processor, and more of remote files.
    on_error : as in `embed`.

    Returns
    -------
    DropReport
        Of the file, or of many files, as that of `embed`.

    Raises
    ------
    FilesFailedError, ManagedTableError
        As in `embed`.
    ParquetBloomError
        One of its subclasses, with the file unchanged: unknown column, encrypted or signed footer, not a Parquet file,
        truncated file, a file changed meanwhile, no permission, no space.

    Notes
    -----
    Broken filters are dropped as well; their bytes stay in the file, as their extent is not certain.

    Examples
    --------
    >>> parquet_bloom.drop("lake", ["id"]).num_filters
    8
    """
    started = time.perf_counter()
    names = _parse_names(columns)
    filesystem = resolve_filesystem(filesystem, storage_options)

    def drop_one(path: FilePath, progress: Progress | None, threads: int) -> DropReport:
        report = drop_file(path, names, output=output, dry_run=dry_run, filesystem=filesystem)
        if progress:
            progress(1, 1)
        return report

    run = RunOptions(filesystem, threads, progress, on_error, waits=True)
    report = process_paths(paths, drop_one, DropReport.combine, run, output=output, refuse=refuse_managed)
    report.seconds = time.perf_counter() - started
    return report


def drop_file(
    path: FilePath,
    columns: str | Iterable[str] | None = None,
    *,
    output: FilePath | None = None,
    dry_run: bool = False,
    filesystem: FileSystem | None = None,
) -> DropReport:
    """Drop Bloom filters from one file; the parameters are those of `drop`."""
    started = time.perf_counter()
    names = _parse_names(columns)
    of_orc = "its filters are in its stripes, and go only when its rows are written anew without them"
    with open_for_edit(path, output, filesystem, of_orc=of_orc) as (file, target):
        job = _DropJob(file, file.leaves if names is None else [find_leaf(file.leaves, name) for name in names])
        report = DropReport(file.path, file.path if target is None else os.fspath(target), old_size=file.source.size)
        report.filters, report.kept, report.dead_bytes = job.filters, job.kept, job.tail.dead_bytes
        report.new_size = file.source.size
        if job.needed or target is not None:
            report.changed = rewrite_file(file, target, filesystem, dry_run, lambda new: job.write(new, report))
    report.seconds = time.perf_counter() - started
    return report


def _parse_names(columns: str | Iterable[str] | None) -> list[str] | None:
    """Check the columns' names; an empty list is an error, as it does not mean all columns."""
    if columns is None:
        return None
    try:
        names = [columns] if isinstance(columns, str) else list(columns)
    except TypeError:
        raise ParquetBloomError(f"columns must be a list of dotted paths, not {columns!r}") from None
    for name in names:
        if not isinstance(name, str):
            raise ParquetBloomError(f"a column must be given as a dotted path, not {name!r}")
    if not names:
        raise ParquetBloomError("no columns given whose filters should be dropped; None means all columns")
    return names


class _DropJob:
    """The filters to drop, and the resulting layout of the file's tail.

    Attributes
    ----------
    filters : the filters to drop, by row group and then in schema order.
    kept : number of filters that stay.
    tail : how much of the file is copied, and which filters after that move.
    """

    def __init__(self, file: BloomFile, leaves: Iterable[SchemaLeaf]) -> None:
        self.file = file
        refuse_uneditable(file.footer, ())  # before anything else is read
        indices = {leaf.index for leaf in leaves}
        chunks = [*file.chunks()]
        dropped = [chunk for chunk in chunks if chunk.leaf.index in indices]
        refuse_uneditable(file.footer, {chunk.leaf.index: chunk.leaf for chunk in dropped}.values())
        file.read_headers(chunks)
        self._owners: list[Owner] = [(chunk.row_group, chunk.leaf.index) for chunk in dropped]
        self.kept = len(chunks) - len(dropped)
        self.tail = cut_tail(file, chunks, {*self._owners})
        self.filters = []
        for chunk in dropped:
            header = None if chunk.header_problem else chunk.header
            num_bytes = chunk.length if header is None else header.total_bytes
            freed = header is not None and chunk.offset >= self.tail.cut
            self.filters.append(DroppedFilter(chunk.row_group, chunk.column, num_bytes, freed))

    @property
    def needed(self) -> bool:
        """True when the file changes."""
        return bool(self.filters) or self.tail.cut < self.file.footer.start

    def write(self, new: Sink, report: DropReport) -> bool:
        """Write the new file; return whether it differs from the old one."""
        locations: dict[Owner, Span | None] = dict.fromkeys(self._owners)
        new.copy_prefix(self.tail.cut)
        for owner in sorted(self.tail.moved, key=lambda owner: self.tail.moved[owner]):
            locations[owner] = self.tail.move(owner, self.file, new)
        write_footer(new, self.file.footer, locations)
        report.new_size = new.tell()
        return self.needed
