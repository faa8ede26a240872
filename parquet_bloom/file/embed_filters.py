"""`embed`: add filters to an existing Parquet file, by copying its data and appending filters and a new footer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ..errors import BrokenFilterError, UnsupportedTypeError
from ..metadata.filter_header import write_header
from ..metadata.footer import Footer, SchemaLeaf
from ..redaction import shown_redacted
from ..storage import resolve_filesystem
from ..util.messages import count
from ..util.threads import in_order, processors
from .bloom_file import BloomFile
from .chunk_filter import ChunkFilter
from .column_hashes import count_values
from .column_reader import ColumnReader
from .file_rewrite import (
    RewriteReport,
    Sink,
    Tail,
    cut_tail,
    keep_tail,
    open_for_edit,
    refuse_filters_beyond,
    refuse_managed,
    refuse_pages_beyond,
    refuse_uneditable,
    rewrite_file,
    write_footer,
)
from .filter_builder import BuiltFilter, ColumnPlan, Columns, FilterBuilder, FilterOptions, parse_columns, plan_columns
from .many_files import OnError, Progress, RunOptions, process_paths
from .tabular_report import Kind

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem, Paths

ChooseColumns = Callable[[BloomFile], Mapping[str, FilterOptions]]
"""Returns the columns of an opened file that get filters, {dotted path: options}."""

_DUCKDB_INTERVALS = b"duckdb.interval_bloom_filter"
_CONVERTED_INTERVAL = 21


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
    """The result of `embed`, of one file or of many: then the sums over them, and `files` has theirs.

    Attributes
    ----------
    path, output : the file read and the file written; equal when it was replaced. What was given, for many files.
    changed : whether a file was written: False when there was nothing to add, and in a dry run.
    old_size, new_size : bytes of the file before and after; in a dry run, as it would be.
    filters : filters that were written; in a dry run, those that would be.
    kept : number of existing filters of the chosen columns that stayed.
    dead_bytes : unused bytes in the file, of replaced filters and of a footer that was kept.
    seconds : time taken.

    As a table it has a row for each filter that was written.
    """

    filters: list[EmbeddedFilter] = field(default_factory=list)

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "output": "path",
        "row_group": "int",
        "column": "text",
        "ndv": "int",
        "num_bytes": "int",
        "fpp": "float",
    }

    @property
    def bytes_added(self) -> int:
        """Number of bytes by which the file became larger."""
        return self.new_size - self.old_size

    def __str__(self) -> str:
        present = f"{count(self.kept, 'filter')} {'is' if self.kept == 1 else 'are'} there"
        return self.summarize(f"nothing to add, {present}", "would get ")


def embed(
    paths: Paths,
    columns: Columns,
    *,
    fpp: float = 0.01,
    power_of_two: bool = True,
    output: FilePath | None = None,
    replace: bool = False,
    keep_footer: bool = False,
    dry_run: bool = False,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    on_error: OnError = "finish",
) -> EmbedReport:
    """Embed Bloom filters into Parquet files; their data pages and all other metadata stay byte for byte.

    Parameters
    ----------
    paths : a file, a folder, a pattern, or a list of them, as in `prune`.
    columns : dotted paths of leaf columns: a list, `{"user.id": 0.001}` for a column's own fpp, or
        `{"trace": {"fpp": 0.01, "ndv": 1_000_000}}` to give the number of distinct values instead of counting them.
    fpp : target false-positive probability of each filter.
    power_of_two : False takes the smallest sufficient multiple of 32 bytes; not every reader accepts that.
    output : file to write, for a single file; None replaces each file itself, atomically: on the local file system, and
        on S3 by URL. There (with boto3) the store copies the data; only the chosen columns are downloaded, filters and
        footer uploaded.
    replace : rebuild existing filters; by default they are kept.
    keep_footer : leave all bytes of the file in place, including its footer, at the cost of the footer's size: a reader
        that has the file's old length from an earlier listing, as Spark does, then reads the file as it was.
    dry_run : build the filters, so that the report has their sizes, but write nothing.
    filesystem, storage_options : as in `prune`, for both paths; `output` is required unless the file is on the local
        file system or on S3.
    progress : called with (done, total): after each column chunk of a single file, after each file of many.
    threads : column chunks processed at a time, of one file or of as many; None for one per processor.
    on_error : what happens when one of many files fails, which is then as it was. "finish": the others are processed,
        then FilesFailedError is raised; "raise": the error of the first such file is raised, without beginning others;
        "report": nothing is raised, see the report's `errors`; or a function that is called with each error.

    Returns
    -------
    EmbedReport
        Of the file; or of many files, with the sums of their figures: iterate over it, or take its `files`, for the
        report of each, and its `errors` for those that failed. Files that have the filters are not written again.

    Raises
    ------
    FilesFailedError
        Some of many files failed. `errors` is {path: error}, `report` that of the others.
    ManagedTableError
        A path is in a Delta, Iceberg, Hudi or Paimon table or below a streaming sink, which record the sizes of files.
    ParquetBloomError
        One of its subclasses, with the file unchanged: unknown or BOOLEAN column, encrypted or signed footer, not a
        Parquet file, truncated file, a broken filter in a chosen column (without `replace`) or one that extends beyond
        the beginning of the footer, pages that cannot be decoded, a file changed meanwhile, no permission, no space.

    Notes
    -----
    Filters are sized from the data: distinct hashes are counted in each row group, and the exact model gives the size.
    Memory, for each thread: the hashes of one column chunk's distinct values, its filter, and a page of it, stored and
    decompressed. Pages of other encodings than PLAIN and dictionaries, or that do not agree with their headers, are
    decoded by pyarrow, which needs some memory too.

    Examples
    --------
    >>> report = parquet_bloom.embed("lake", ["request"], fpp=0.001)
    >>> len(report.files)
    4
    >>> report[0].filters[0].ndv
    10000
    """
    started = time.perf_counter()
    requested = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    filesystem = resolve_filesystem(filesystem, storage_options)
    options = RewriteOptions(output, replace, keep_footer, dry_run, filesystem)

    def embed_one(path: FilePath, progress: Progress | None, threads: int) -> EmbedReport:
        return embed_file(path, requested, options, progress, threads)

    run = RunOptions(filesystem, threads, progress, on_error)
    report = process_paths(paths, embed_one, EmbedReport.combine, run, output=output, refuse=refuse_managed)
    report.seconds = time.perf_counter() - started
    return report


@dataclass(frozen=True)
class RewriteOptions:
    """How filters are embedded into a file.

    Attributes
    ----------
    output, replace, keep_footer, dry_run : as in `embed`.
    filesystem : of the file, resolved.
    """

    output: FilePath | None = None
    replace: bool = False
    keep_footer: bool = False
    dry_run: bool = False
    filesystem: FileSystem | None = None


def embed_file(
    path: FilePath,
    columns: Mapping[str, FilterOptions] | ChooseColumns,
    options: RewriteOptions,
    progress: Progress | None = None,
    threads: int | None = None,
) -> EmbedReport:
    """Embed Bloom filters into one file; see `embed`.

    Parameters
    ----------
    columns : dotted path and options of each filter; or a function that returns them for the opened file.
    progress : called after each column chunk with (done, in all).
    threads : column chunks processed at a time; None for one per processor.
    """
    started = time.perf_counter()
    filesystem = options.filesystem
    of_orc = "only its writer can make its filters; `advise` reports how"
    with open_for_edit(path, options.output, filesystem, of_orc=of_orc) as (file, target):
        chosen = columns(file) if callable(columns) else columns
        plans = plan_columns(file.leaves, chosen, file.path)
        job = _EmbedJob(file, plans, options.replace, options.keep_footer)
        report = EmbedReport(file.path, file.path if target is None else os.fspath(target), old_size=file.source.size)
        report.kept, report.dead_bytes = job.kept, job.tail.dead_bytes
        report.new_size = file.source.size
        if job.todo or target is not None:
            workers = threads or processors()
            report.changed = rewrite_file(
                file, target, filesystem, options.dry_run, lambda new: job.write(new, report, progress, workers)
            )
    report.seconds = time.perf_counter() - started
    return report


def embed_in_table(
    path: str,
    output: str,
    choose: ChooseColumns,
    *,
    filesystem: FileSystem | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    threads: int | None = None,
) -> EmbedReport:
    """Write a table's file with filters to another path, which the caller then commits to the table.

    Nothing is written if there is nothing to add.

    Parameters
    ----------
    choose : returns the columns that get filters, {dotted path in the file: options}; none for a file that has none.
    filesystem : of both paths, resolved.
    path, output, dry_run, progress, threads : as in `embed`.
    """
    started = time.perf_counter()
    with open_for_edit(path, output, filesystem, in_table=True) as (file, target):
        job = _EmbedJob(file, plan_columns(file.leaves, choose(file), file.path), False, False)
        report = EmbedReport(file.path, output, old_size=file.source.size, new_size=file.source.size, kept=job.kept)
        if job.todo:
            workers = threads or processors()
            report.changed = rewrite_file(
                file, target, filesystem, dry_run, lambda new: job.write(new, report, progress, workers), copies=False
            )
    report.seconds = time.perf_counter() - started
    return report


def lacks_filters(path: str, choose: ChooseColumns, filesystem: FileSystem | None = None) -> bool:
    """Return whether `embed_in_table` has anything to add, as far as can be told without reading values."""
    with open_for_edit(path, None, filesystem, in_table=True) as (file, _):
        return bool(_EmbedJob(file, plan_columns(file.leaves, choose(file), file.path), False, False).todo)


def _refuse_duckdb_intervals(file: BloomFile, leaves: Iterable[SchemaLeaf]) -> None:
    """Raise UnsupportedTypeError if DuckDB would probe new filters by other bytes than those that are stored.

    A footer with this key makes DuckDB 2.0 probe filters of INTERVAL columns by a normalised form, in which 30 days are
    a month. Filters of the stored bytes would hide rows from it.
    """
    if _DUCKDB_INTERVALS not in file.footer.key_value_metadata:
        return
    for leaf in leaves:
        if leaf.converted == _CONVERTED_INTERVAL:
            problem = (
                "an INTERVAL column of a file by DuckDB gets no filter: DuckDB would probe it by normalised intervals "
                f"(its footer has the key {_DUCKDB_INTERVALS.decode()}), and miss rows"
            )
            raise UnsupportedTypeError(problem, path=file.path, column=leaf.name)


class _EmbedJob:
    """The filters to build and to keep, and the resulting layout of the file's tail.

    Attributes
    ----------
    todo : (row group, plan) of each filter to build, in file order.
    kept : number of filters of the chosen columns that stay unchanged.
    tail : how much of the file is copied, and which filters after that move.
    dropped : number of filters removed without a replacement.
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
        if not replace:
            file.prefetch(file.chunks(columns={plan.leaf.name for plan in plans}))
        for row_group in range(self.footer.num_row_groups):
            for plan in plans:
                if self._needs_filter(row_group, plan):
                    self.todo.append((row_group, plan))
        self.tail = Tail(self.footer.start)
        self.dropped = 0
        replaced = {(row_group, plan.leaf.index) for row_group, plan in self.todo}
        if self.todo:
            refuse_filters_beyond(file, replaced)
            _refuse_duckdb_intervals(file, [plan.leaf for _, plan in self.todo])
        if self.todo and (replace or keep_footer):
            tail = keep_tail if keep_footer else cut_tail
            self.tail = tail(file, file.chunks(), replaced)

    def _needs_filter(self, row_group: int, plan: ColumnPlan) -> bool:
        if count_values(self.file, row_group, plan.leaf) == 0:
            return False  # without rows there is nothing to find
        chunk = self.file.chunk(row_group, plan.leaf)
        if chunk is None or self.replace:
            return True
        if chunk.problem and not self._rightly_empty(row_group, plan, chunk):
            raise BrokenFilterError(
                f"{chunk.problem}; use replace to rebuild it", row_group=row_group, column=plan.leaf.name
            )
        self.kept += 1
        return False

    def _rightly_empty(self, row_group: int, plan: ColumnPlan, chunk: ChunkFilter) -> bool:
        """Return whether a filter has no bit set because there are no values, even if the footer has no null count."""
        if self.file.has_values(row_group, plan.leaf) is False:
            return True
        return chunk.is_empty_without_null_count and self._reader(plan.leaf).all_null(row_group)

    def _reader(self, leaf: SchemaLeaf) -> ColumnReader:
        """Return the reader of a column, which is shared by all its chunks."""
        if leaf.index not in self._readers:
            self._readers[leaf.index] = ColumnReader(self.file.source, self.footer, leaf)
        return self._readers[leaf.index]

    def write(self, new: Sink, report: EmbedReport, progress: Progress | None, threads: int) -> bool:
        """Write the new file, building filters while its data is copied; return whether it differs from the old one."""
        readers = {plan.leaf.index: self._reader(plan.leaf) for _, plan in self.todo}
        thread_state = threading.local()
        # Copying in the kernel takes a processor of its own: the sooner it ends, the sooner the disk has all it writes.
        copies_beside = self.file.source.path is not None and threads > 1 and threads >= processors()
        slots = threading.Semaphore(threads - copies_beside)

        def build(job: tuple[int, ColumnPlan]) -> BuiltFilter:
            row_group, plan = job
            values = readers[plan.leaf.index].read_occurring(row_group)
            num_values = count_values(self.file, row_group, plan.leaf)
            if not hasattr(thread_state, "builder"):
                thread_state.builder = FilterBuilder()
            with slots:
                built: BuiltFilter = thread_state.builder.build(values, plan.column_type, plan.options, num_values)
            return built

        locations: dict[tuple[int, int], tuple[int, int] | None] = {}
        jobs = {(row_group, plan.leaf.index): plan for row_group, plan in self.todo}
        done = 0
        # With one thread a pool would take longer than it saves, for a small file more than half of its time.
        building = in_order(build, self.todo, threads) if threads > 1 else nullcontext(map(build, self.todo))
        with building as built:
            new.copy_prefix(self.tail.cut)
            slots.release()
            for owner in sorted(jobs.keys() | self.tail.moved.keys()):
                if owner in self.tail.moved:
                    locations[owner] = self.tail.move(owner, self.file, new)
                    continue
                locations[owner] = write_filter(new, next(built), self.footer, owner[0], jobs[owner].leaf, report)
                if locations[owner] is None and self.file.chunk(owner[0], jobs[owner].leaf) is not None:
                    self.dropped += 1
                done += 1
                if progress:
                    progress(done, len(self.todo))
        write_footer(new, self.footer, locations)
        report.new_size = new.tell()
        return bool(report.filters or self.dropped)


def write_filter(
    new: Sink, built: BuiltFilter, footer: Footer, row_group: int, leaf: SchemaLeaf, report: EmbedReport
) -> tuple[int, int] | None:
    """Append header and bitset, add them to the report, and return their (offset, length).

    Returns None and writes nothing if there were no values but the footer does not confirm this: no reader should trust
    an empty filter of a column chunk that may have values.
    """
    if built.empty and footer.has_values(row_group, leaf) is not False:
        return None
    offset = new.tell()
    new.write(write_header(built.filter.num_bytes))
    new.write(built.filter)
    report.filters.append(EmbeddedFilter(row_group, leaf.name, built.ndv, built.filter.num_bytes, built.fpp))
    return offset, new.tell() - offset
