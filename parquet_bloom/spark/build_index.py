"""The index of a lake made by Spark: executors hash and sort its values, the driver puts them in place, once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import SparkSession

from ..errors import ParquetBloomError
from ..lake import manifest as manifests
from ..lake.build.append import commit, select_unknown
from ..lake.files import listing as sources
from ..lake.files.liveness import LivenessCheck
from ..lake.manifest import Manifest
from ..lake.parts import layouts
from ..lake.reports import AppendReport
from ..lake.snapshot import open_segments
from ..storage import Folder, is_url, resolve_filesystem
from ..tables.files import TableFiles
from .jobs.index_job import SegmentJobs
from .jobs.run import named_paths

TASK_MEMORY = 256 * 1024 * 1024


def build_index(
    spark: SparkSession,
    path: Any,
    columns: Sequence[str] | str,
    index_path: str | os.PathLike[str],
    *,
    lake: Any = None,
    layout: Literal["postings"] = "postings",
    granularity: Literal["file", "row_group"] | None = None,
    remainder_bits: int | None = None,
    expected_values: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index_options: Mapping[str, Any] | None = None,
    memory_limit: int = TASK_MEMORY,
    slices: int | None = None,
) -> AppendReport:
    """Index Parquet files on Spark's executors; what `LakeIndex.create` and `append` do, at once.

    The index is made if it is not there, and else appended to: files that it knows, and that are what they were, are
    left alone. It is what it was until the last moment, and then has all files; a job that failed, or was interrupted,
    leaves nothing in it, and may be started again. A file that cannot be read does not stop the others: it is not
    indexed, and so a candidate for every value.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : a file, folder or pattern that driver and executors both see, a URL on an object store, or a list of them; a
        table's file list; None for the lake of an index that is there.
    columns : dotted names of the columns to index, as the files spell them. Those of an index that is there.
    index_path : the folder of the index: one that driver and executors both see and may write to, or a URL.
    lake : for a new index, what `LakeIndex.create` takes; `path`, as far as it is folders, patterns or a table, is
        remembered besides.
    layout : only "postings" is made by Spark.
    granularity, remainder_bits, expected_values : as for `LakeIndex.create`; of an index that is there they may be left
        out.
    storage_options : of the lake's store, as for `parquet_bloom.prune`; they are sent to the executors.
    index_options : of the index's store; those of the lake if they are not given.
    memory_limit : bytes for the values that a task sorts, about; the rest waits on the executor's disk.
    slices : files that each column's values are written to, by as many tasks; None to choose by the lake's size.

    Returns
    -------
    AppendReport
        As of `LakeIndex.append`. Files at which something is new are indexed again, also those whose values are not.

    Raises
    ------
    StorageError
        There is no such path, or the index cannot be written.
    ManagedTableError
        A folder belongs to a table: give its file list.
    UnknownColumnError
        None of the files has one of the columns.
    IndexInUseError
        Another writer is at work.
    ParquetBloomError
        A setting is not that of the index, or the Spark job itself failed; the index is what it was.
    """
    if layout != layouts.POSTINGS:
        problem = f"Spark builds indexes of the layout 'postings', not {layout!r}: append to those by LakeIndex.append"
        raise ParquetBloomError(problem, path=index_path)
    if not isinstance(memory_limit, int) or memory_limit < 1 << 20:
        raise ParquetBloomError(f"memory_limit is a number of bytes, 1 MiB at least, not {memory_limit!r}")
    if slices is not None and (not isinstance(slices, int) or not 1 <= slices <= 4096):
        raise ParquetBloomError(f"slices are a number from 1 to 4096, not {slices!r}")
    names = layouts.parse_columns(columns)
    if granularity is not None:
        layouts.require_granularity(granularity)
    index_options = storage_options if index_options is None else index_options
    shared = os.path.abspath(index_path) if not is_url(os.fspath(index_path)) else index_path
    folder = Folder(shared, resolve_filesystem(None, index_options))
    lake_files = resolve_filesystem(None, storage_options)
    wanted = _Wanted(names, granularity, remainder_bits, expected_values)
    settings = layouts.make_settings(layout, remainder_bits, None, expected_values)
    named = named_paths(path) if not (path is None or isinstance(path, (Mapping, TableFiles))) else path
    roots = sources.resolve_roots(lake, lake_files, storage_options)
    folder.make()
    with folder.lock():
        if manifests.numbers_in(folder.names()):
            manifest, segments = open_segments(folder)
        else:
            manifest, segments = Manifest(0, names, layout, granularity or "file", settings), []
        try:
            wanted.check(manifest, folder)
            if named is None and not manifest.lake:
                raise ParquetBloomError("there is no index yet whose lake it could be: give a path", path=folder.path)
            listing = sources.list_lake(manifest.lake if named is None else named, lake_files, storage_options)
            roots = sources.merge_roots(sources.merge_roots(manifest.lake, roots), listing.roots)
            sources.require_outside(folder.path, roots)
            live = LivenessCheck(names, lake_files).judge(segments, listing, verify=False)
            todo = select_unknown(listing.entries, live)
            report = AppendReport(unchanged=len(listing.entries) - len(todo))
            build = SegmentJobs(
                spark, folder, manifest, listing.named, storage_options, index_options, memory_limit, slices, report
            )
            made = build.segments(todo)
            known = [sources.name_of(entry.path, lake_files) for entry in todo if entry.path not in report.failed]
            commit(folder, manifest, segments, live, made, known, roots, listing.snapshot, memory_limit, report)
            return report
        finally:
            for segment in segments:
                segment.close()


@dataclass(frozen=True)
class _Wanted:
    """What a caller says of an index, which may be there already."""

    columns: tuple[str, ...]
    granularity: str | None
    remainder_bits: int | None
    expected_values: int | None

    def check(self, manifest: Manifest, folder: Folder) -> None:
        """Raise unless an index is what is wanted."""
        problem = None
        if manifest.layout != layouts.POSTINGS:
            problem = f"it is an index of the layout {manifest.layout!r}, which Spark does not build: use LakeIndex"
        elif set(self.columns) != set(manifest.columns):
            problem = f"it is an index of the columns {', '.join(manifest.columns)}"
        elif self.granularity not in (None, manifest.granularity):
            problem = f"it is an index of granularity {manifest.granularity!r}"
        elif (self.remainder_bits, self.expected_values) != (None, None):
            settings = layouts.make_settings(manifest.layout, self.remainder_bits, None, self.expected_values)
            if settings != dict(manifest.settings):
                problem = f"it is an index of other settings: {dict(manifest.settings)}, not {settings}"
        if problem is not None:
            raise ParquetBloomError(problem, path=folder.path)
