"""Build the index of a lake with Spark: executors hash and sort the values, the driver commits the segments once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession

from ..errors import ParquetBloomError
from ..lake import index_manifest as manifests
from ..lake import lake_files as sources
from ..lake import layouts
from ..lake.index_manifest import IndexManifest
from ..lake.index_reports import AppendReport
from ..lake.index_snapshot import IndexSnapshotReader, open_segments
from ..lake.index_writer import AddedFiles, commit, is_table_of, select_unindexed
from ..lake.learn_weights import with_learnt_weights
from ..lake.liveness import LivenessCheck
from ..lake.units import ZONE, Units
from ..predicate.key_expression import TUPLE, KeyExpression
from ..storage import is_url, resolve_filesystem
from ..storage.index_folder import Folder
from ..tables.open_table import find_table
from ..tables.table_locations import require_inside
from ..tables.table_snapshot import Table, TableFiles
from .jobs.index_job import SegmentJobs
from .jobs.run_files import resolve_paths

if TYPE_CHECKING:
    from ..util.given_types import Lake, Paths, TableObject

TASK_MEMORY = 256 * 1024 * 1024


def build_index(
    spark: SparkSession,
    paths: Paths | TableObject | TableFiles | None,
    columns: Sequence[str] | str,
    output: str | os.PathLike[str],
    *,
    lake: Lake | None = None,
    layout: Literal["postings"] = "postings",
    granularity: Literal["file", "row_group", "zone"] | None = None,
    zone_rows: int | None = None,
    remainder_bits: int | None = None,
    expected_values: int | None = None,
    storage_options: Mapping[str, object] | None = None,
    index_storage_options: Mapping[str, object] | None = None,
    memory_limit: int = TASK_MEMORY,
    slices: int | None = None,
) -> AppendReport:
    """Index Parquet files on Spark's executors: `LakeIndex.create` and `append` in one job.

    The index is created if it does not exist and appended to otherwise; indexed files that have not changed are
    skipped. The index changes only when the job commits, and then has all files: a job that fails or is interrupted
    leaves nothing in it and can be started again. A file that cannot be read does not stop the others: it is not
    indexed, and therefore remains a candidate for every value.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file, folder or pattern that driver and executors both see, a URL on an object store, or a list of them; a
        Delta or Iceberg table, as `read_table` takes it, or its file list; None for the lake of an existing index.
    columns : dotted names of the columns to index, as the files spell them. They must match those of an existing
        index.
    output : the folder of the index, which driver and executors both see and may write to, or a URL.
    lake : for a new index, the lake as for `LakeIndex.create`; folders, patterns and tables in `paths` are recorded as
        well.
    layout : must be "postings", the only layout that Spark builds.
    granularity, zone_rows, remainder_bits, expected_values : as for `LakeIndex.create`; optional for an existing index.
    storage_options : of the lake's store, as for `parquet_bloom.prune`; they are sent to the executors.
    index_storage_options : of the index's store. Default: those of the lake.
    memory_limit : approximate number of bytes for the values that a task sorts; the rest is spilled to the executor's
        disk.
    slices : number of files that each column's values are written to, by as many tasks; None to choose by the lake's
        size.

    Returns
    -------
    AppendReport
        As of `LakeIndex.append`. Files that changed in any way are indexed again, even if their values did not.

    Raises
    ------
    StorageError
        The path does not exist, or the index cannot be written.
    ManagedTableError
        A folder belongs to a table, and is not its root.
    UnknownColumnError
        A column is in none of the files.
    IndexInUseError
        Another writer is at work.
    ParquetBloomError
        A setting differs from that of the index, or the Spark job failed; the index is unchanged.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.build_index(spark, "lake", ["id"], "ids.index")  # doctest: +SKIP
    """
    if layout != layouts.POSTINGS:
        problem = f"Spark builds indexes of the layout 'postings', not {layout!r}: append to others by LakeIndex.append"
        raise ParquetBloomError(problem, path=output)
    if not isinstance(memory_limit, int) or memory_limit < 1 << 20:
        raise ParquetBloomError(f"memory_limit must be at least 1 MiB in bytes, got {memory_limit!r}")
    if slices is not None and (not isinstance(slices, int) or not 1 <= slices <= 4096):
        raise ParquetBloomError(f"slices must be a number from 1 to 4096, got {slices!r}")
    names = layouts.parse_columns(columns)
    if any(isinstance(name, KeyExpression) and name.function == TUPLE for name in names):
        problem = "Spark builds indexes of single columns: append to one of several together by LakeIndex.append"
        raise ParquetBloomError(problem, path=output)
    units = None if granularity is None and zone_rows is None else Units.parse(granularity or ZONE, zone_rows)
    index_options = storage_options if index_storage_options is None else index_storage_options
    folder_path = os.path.abspath(output) if not is_url(os.fspath(output)) else output
    folder = Folder(folder_path, resolve_filesystem(None, index_options))
    lake_files = resolve_filesystem(None, storage_options)
    requested = _RequestedIndex(names, units, zone_rows is not None, remainder_bits, expected_values)
    settings = layouts.make_settings(layout, remainder_bits, None, expected_values)
    table = None if paths is None or isinstance(paths, Mapping | TableFiles) else find_table(paths, storage_options)
    if table is not None:
        paths = _list_table(table)
    elif not (paths is None or isinstance(paths, (Mapping, TableFiles))):
        paths = resolve_paths(paths)
    roots = sources.resolve_roots(sources.LakeAccess(lake, lake_files, storage_options))
    folder.make()
    with folder.lock(undo=True):
        if manifests.numbers_in(folder.names()):
            manifest, segments = open_segments(folder)
        else:
            created_units = units or Units()
            manifest = IndexManifest(
                0, names, layout, created_units.granularity, settings, zone_rows=created_units.zone_rows
            )
            segments = []
        try:
            requested.check(manifest, folder)
            if paths is None and not manifest.lake:
                raise ParquetBloomError(
                    "there is no index yet, so its lake is not known: give a path", path=folder.path
                )
            listing = sources.list_lake(manifest.lake if paths is None else paths, lake_files, storage_options)
            roots = sources.merge_roots(manifest.lake, roots)
            roots = sources.merge_roots(roots, listing.roots, is_table_of(manifest, listing))
            sources.require_outside(folder.path, roots)
            live = LivenessCheck(names, lake_files).check(segments, listing, verify=False)
            todo = select_unindexed(listing.entries, live)
            report = AppendReport(unchanged=len(listing.entries) - len(todo))
            manifest = with_learnt_weights(manifest, todo, lake_files, listing.table_columns)
            jobs = SegmentJobs(
                spark,
                folder,
                manifest,
                listing.named,
                storage_options,
                index_options,
                memory_limit,
                slices,
                report,
                listing.table_columns,
            )
            new_segments = jobs.build_segments(todo)
            indexed = [sources.name_of(entry.path, lake_files) for entry in todo if entry.path not in report.failed]
            before = IndexSnapshotReader(manifest, segments, live)
            commit(folder, before, AddedFiles(new_segments, indexed, roots, listing.snapshot), memory_limit, report)
            return report
        finally:
            for segment in segments:
                segment.close()


def _list_table(table: Table) -> TableFiles:
    """Return the file list of a table, at the version that it names."""
    snapshot = table.read_snapshot()
    try:
        require_inside([file.path for file in snapshot.files], snapshot.root)
        outside = False
    except ParquetBloomError:  # the table was given so
        outside = True
    return TableFiles.of(snapshot, outside)


@dataclass(frozen=True)
class _RequestedIndex:
    """The settings that a caller asks for; the index may exist already with others."""

    columns: tuple[str, ...]
    units: Units | None
    has_zone_rows: bool
    remainder_bits: int | None
    expected_values: int | None

    def check(self, manifest: IndexManifest, folder: Folder) -> None:
        """Raise if an existing index has other settings than those requested."""
        problem = None
        if manifest.layout != layouts.POSTINGS:
            problem = f"the index has the layout {manifest.layout!r}, which Spark does not build: use LakeIndex"
        elif set(self.columns) != set(manifest.columns):
            problem = f"the index has the columns {', '.join(manifest.columns)}"
        elif self.units is not None and self.units.granularity != manifest.granularity:
            problem = f"the index has the granularity {manifest.granularity!r}"
        elif self.units is not None and self.has_zone_rows and self.units != manifest.units:
            problem = f"the index has {manifest.units}"
        elif (self.remainder_bits, self.expected_values) != (None, None):
            settings = layouts.make_settings(manifest.layout, self.remainder_bits, None, self.expected_values)
            if settings != dict(manifest.settings):
                problem = f"the index has other settings: {dict(manifest.settings)}, not {settings}"
        if problem is not None:
            raise ParquetBloomError(problem, path=folder.path)
