"""Filters embedded into a Parquet file that exists: its data copied, filters and the new footer put behind it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import BrokenFilterError, ParquetBloomError
from ...metadata.filter_header import write_header
from ...metadata.footer import Footer, Leaf
from ...redaction import shown_redacted
from ...storage import resolve_filesystem
from ...util.threads import in_order, processors
from ..chunk_filter import ChunkFilter
from ..column_hashes import count_values
from ..reader import BloomFile
from ..values import ColumnReader
from .build import BuiltFilter, FilterBuilder
from .options import ColumnPlan, Columns, FilterOptions, parse_columns, plan_columns
from .rewrite import (
    RewriteReport,
    open_for_edit,
    refuse_filters_beyond,
    refuse_pages_beyond,
    refuse_uneditable,
    rewrite_file,
    write_footer,
)
from .tail_layout import Sink, Tail, cut_tail, keep_tail

Progress = Callable[[int, int], None]
"""Called with (column chunks done, column chunks in all)."""


@dataclass(frozen=True)
class EmbeddedFilter:
    """One filter that was written.

    Attributes
    ----------
    row_group, column : the column chunk.
    ndv : distinct values counted in it; None when the caller gave a number.
    num_bytes : size of the bitset.
    fpp : false-positive probability by the exact model.
    """

    row_group: int
    column: str
    ndv: int | None
    num_bytes: int
    fpp: float


@shown_redacted
@dataclass
class EmbedReport(RewriteReport):
    """What `embed` did.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced.
    changed : whether a file was written: False when there was nothing to add, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    filters : those that were written; in a dry run, those that would be.
    kept : number of filters of the chosen columns that were there and stayed.
    dead_bytes : bytes of replaced filters, and of a footer that was kept, that stay in the file unused.
    seconds : time taken.
    """

    filters: list[EmbeddedFilter] = field(default_factory=list)

    @property
    def bytes_added(self) -> int:
        """How much larger the file became."""
        return self.new_size - self.old_size

    def __str__(self) -> str:
        return self.summarize(f"nothing to add, {self.kept} filters are there", "would get ")


def embed(
    path: Any,
    columns: Columns,
    *,
    fpp: float = 0.01,
    power_of_two: bool = True,
    output: Any = None,
    replace: bool = False,
    keep_footer: bool = False,
    dry_run: bool = False,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> EmbedReport:
    """Embed Bloom filters into a Parquet file; its data pages and all other metadata stay byte for byte.

    Parameters
    ----------
    path : the file.
    columns : dotted paths of leaf columns: a list, `{"user.id": 0.001}` for a column's own fpp, or
        `{"trace": {"fpp": 0.01, "ndv": 1_000_000}}` to give the number of distinct values instead of counting them.
    fpp : false-positive probability wanted of each filter.
    power_of_two : False takes the smallest sufficient multiple of 32 bytes; not every reader accepts that.
    output : file to write; None replaces the file itself, atomically: on the local file system, and on S3 by URL. There
        (with boto3) the store copies the data, and only the chosen columns are downloaded, filters and footer uploaded.
    replace : build filters anew where there are some; by default those that exist are kept.
    keep_footer : leave all bytes of the file where they are, its footer too, which costs as many as that has: who has
        the file's length from a list made before, as Spark has, then reads the file as it was and does not fail.
    dry_run : build the filters, so that the report can tell their sizes, and write nothing.
    filesystem, storage_options : as in `prune`, for both paths; elsewhere than on the local file system and on S3 an
        `output` is needed.
    progress : called after each column chunk with (done, in all).
    threads : column chunks that are worked on at once; None for one a processor.

    Returns
    -------
    EmbedReport

    Raises
    ------
    ParquetBloomError
        One of its subclasses, with nothing changed: unknown or BOOLEAN column, encrypted or signed footer, not a
        Parquet file, truncated file, a table's file, a broken filter in a chosen column (without `replace`) or one
        that is said to reach beyond the footer's beginning, pages that cannot be decoded, a file changed meanwhile, no
        permission, no space.

    Notes
    -----
    Filters are sized from the data: distinct hashes are counted in each row group, and the exact model gives the size.
    Memory, for each thread: the hashes of one column chunk's distinct values, its filter, and what pyarrow needs to
    decode the chunk.
    """
    started = time.perf_counter()
    asked = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ParquetBloomError(f"threads must be a number from 1 on, not {threads!r}")
    filesystem = resolve_filesystem(filesystem, storage_options)
    with open_for_edit(path, output, filesystem) as (file, target):
        job = _EmbedJob(file, plan_columns(file.leaves, asked, file.path), replace, keep_footer)
        report = EmbedReport(file.path, file.path if target is None else os.fspath(target), old_size=file.source.size)
        report.kept, report.dead_bytes = job.kept, job.tail.dead_bytes
        report.new_size = file.source.size
        if job.todo or target is not None:
            workers = threads or processors()
            report.changed = rewrite_file(
                file, target, filesystem, dry_run, lambda new: job.write(new, report, progress, workers)
            )
    report.seconds = time.perf_counter() - started
    return report


class _EmbedJob:
    """Which filters are built, which stay, and where they come to stand.

    Attributes
    ----------
    todo : (row group, plan) of each filter to be built, in file order.
    kept : number of filters of the chosen columns that stay as they are.
    tail : how much of the file is copied, and which filters behind that move.
    dropped : number of filters taken out for which there is no new one.
    """

    def __init__(self, file: BloomFile, plans: list[ColumnPlan], replace: bool, keep_footer: bool):
        self.file = file
        self.footer = file.footer
        self.replace = replace
        self.kept = 0
        self.todo: list[tuple[int, ColumnPlan]] = []
        self._readers: dict[int, ColumnReader] = {}
        refuse_uneditable(self.footer, [plan.leaf for plan in plans])
        refuse_pages_beyond(file)
        for row_group in range(self.footer.num_row_groups):
            for plan in plans:
                if self._wanted(row_group, plan):
                    self.todo.append((row_group, plan))
        self.tail = Tail(self.footer.start)
        self.dropped = 0
        replaced = {(row_group, plan.leaf.index) for row_group, plan in self.todo}
        if self.todo:
            refuse_filters_beyond(file, replaced)
        if self.todo and (replace or keep_footer):
            tail = keep_tail if keep_footer else cut_tail
            self.tail = tail(file, file.chunks(), replaced)

    def _wanted(self, row_group: int, plan: ColumnPlan) -> bool:
        if count_values(self.footer, row_group, plan.leaf) == 0:
            return False  # no rows, nothing to find
        chunk = self.file.chunk(row_group, plan.leaf)
        if chunk is None or self.replace:
            return True
        if chunk.problem and not self._rightly_empty(row_group, plan, chunk):
            raise BrokenFilterError(
                f"{chunk.problem}; replace it to have it built anew", row_group=row_group, column=plan.leaf.name
            )
        self.kept += 1
        return False

    def _rightly_empty(self, row_group: int, plan: ColumnPlan, chunk: ChunkFilter) -> bool:
        """Whether a filter has no bit set because there are no values, where the footer does not count the nulls."""
        if self.file.has_values(row_group, plan.leaf) is False:
            return True
        return chunk.is_empty_without_null_count and self._reader(plan.leaf).all_null(row_group)

    def _reader(self, leaf: Leaf) -> ColumnReader:
        """One a column, not one a chunk: it describes all row groups."""
        if leaf.index not in self._readers:
            self._readers[leaf.index] = ColumnReader(self.file.source, self.footer, leaf)
        return self._readers[leaf.index]

    def write(self, new: Sink, report: EmbedReport, progress: Progress | None, threads: int) -> bool:
        """Write the whole new file, filters being built while its data is copied; whether it is another one."""
        readers = {plan.leaf.index: self._reader(plan.leaf) for _, plan in self.todo}
        own = threading.local()

        def build(job: tuple[int, ColumnPlan]) -> BuiltFilter:
            row_group, plan = job
            values = readers[plan.leaf.index].read_occurring(row_group)
            num_values = int(self.footer.chunk(row_group, plan.leaf)["num_values"])
            if not hasattr(own, "builder"):
                own.builder = FilterBuilder()
            built: BuiltFilter = own.builder.build(values, plan.column_type, plan.options, num_values)
            return built

        places: dict[tuple[int, int], tuple[int, int] | None] = {}
        jobs = {(row_group, plan.leaf.index): plan for row_group, plan in self.todo}
        done = 0
        with in_order(build, self.todo, threads) as built:
            new.copy_prefix(self.tail.cut)
            for owner in sorted(jobs.keys() | self.tail.moved.keys()):
                if owner in self.tail.moved:
                    places[owner] = self.tail.move(owner, self.file, new)
                    continue
                places[owner] = write_filter(new, next(built), self.footer, owner[0], jobs[owner].leaf, report)
                if places[owner] is None and self.file.chunk(owner[0], jobs[owner].leaf) is not None:
                    self.dropped += 1
                done += 1
                if progress:
                    progress(done, len(self.todo))
        write_footer(new, self.footer, places)
        report.new_size = new.tell()
        return bool(report.filters or self.dropped)


def write_filter(
    new: Sink, built: BuiltFilter, footer: Footer, row_group: int, leaf: Leaf, report: EmbedReport
) -> tuple[int, int] | None:
    """Append header and bitset, note them in the report, and say where they stand: (offset, length).

    Nothing is written where no value was found and the footer does not tell so: an empty filter on values that may be
    there is one that no reader should trust.
    """
    if built.empty and footer.has_values(row_group, leaf) is not False:
        return None
    offset = new.tell()
    new.write(write_header(built.filter.num_bytes))
    new.write(built.filter)
    report.filters.append(EmbeddedFilter(row_group, leaf.name, built.ndv, built.filter.num_bytes, built.fpp))
    return offset, new.tell() - offset
