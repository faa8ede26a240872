"""Public functions: plan a scan, and read the rows that match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import ParquetBloomError
from ..file.cache.memory import SHARED_CACHE, MetadataCache
from ..predicate import parse, tree
from ..storage import Entry, RequestCount, entry_for_identity, list_entries, resolve_filesystem
from .evaluate.lake_index import open_lake_index
from .evaluate.planner import plan_scan
from .evaluate.zones import open_zone_indexes
from .model.partitions import parse_partitions
from .model.row_selection import RowRangesByGroup
from .read.reader import iter_selected, read_selected
from .read.row_ranges import find_row_ranges
from .report import PruneReport

if TYPE_CHECKING:
    from .evaluate.lake_index import Index
    from .evaluate.zones import Zones


def prune(
    paths: Any,
    where: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    ignore_case: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    threads: int | None = None,
    cache: MetadataCache | None = SHARED_CACHE,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> PruneReport:
    """Find the row groups that can contain a matching row, from statistics and Bloom filters alone.

    Parameters
    ----------
    paths : a file, a folder, a pattern, or a list of them: local paths, or URLs of object stores (`s3://`, `gs://`,
        `az://`, `abfss://`) or web servers (`https://`). None for the live files of `index`. Parquet and ORC files
        may be mixed: the format is recognised by a file's last bytes.
    where : SQL text (`"user_id = 42 AND day IN ('a', 'b')"`), pyarrow's `filters=` lists, a pyarrow expression, or a
        predicate tree.
    filesystem : pyarrow or fsspec file system, or an obstore store, whose keys the paths then are; None for local
        paths and URLs.
    storage_options : settings of the URLs' stores by obstore's names (`aws_endpoint`, `aws_access_key_id`,
        `google_service_account`, `azure_storage_account_name`, `allow_http`, `timeout`, `max_retries`); the defaults
        are taken from the environment.
    timezone : zone of timestamps written without one, where a column holds instants.
    dialect : sqlglot dialect of SQL text; None for generic SQL.
    ignore_case : match column names whatever their case.
    progress : called after each file with (done, in all).
    on_error : called with the error of a file that cannot be read, which is then left out of the report; without it,
        the error of the first such file is raised.
    threads : files planned concurrently. Default: 1 for local files, which gain nothing while their footers are in
        memory, and 64 for remote ones. Local files with cached footers are read by as many threads as there are
        processors.
    cache : cached footers, to which those read now are added; None for none. The default cache is shared by all calls
        of the process and takes 256 MiB at most.
    partitioning : "hive" reads folders `name=value` below a given folder (for a given file: in its path) as columns,
        int64, date32 or string, if all files have them: files that they rule out are not opened. A file's own column
        of such a name is ignored, as in Spark, DuckDB and polars. None reads no columns from folders.
    index : a lake index, which rules out files before they are opened: its folder, on the same file system as the
        files, or an open `LakeIndex`. Files that it does not contain, or that have changed since, are planned without
        it; if it cannot be read, all files are, and `index_doubts` says so. Without `paths` the files are those that
        were live when it was opened.
    zones : zone indexes, by `zones.build`, which rule out rows of the remaining row groups: a path, on the same file
        system as the files, an open `ZoneIndex`, or a list of them. Zones of files that have changed since they were
        indexed are not used, nor those that cannot be read, and `zone_doubts` says so; embedding filters into a file
        does not count as a change.

    Returns
    -------
    PruneReport
        `selected` is {path: [row groups]}. Every matching row is in a selected row group; row groups with evidence that
        cannot be used are selected, and `doubts` says why.

    Raises
    ------
    PredicateError
        The predicate cannot be parsed.
    UnknownColumnError
        No file has a column of the predicate.
    ManagedTableError
        A folder belongs to a Delta, Iceberg or Hudi table or a streaming sink, whose old files contain removed rows.
    StorageError
        There is no such path, or no index or zones at the given path.
    ParquetBloomError
        A file is neither a Parquet nor an ORC file, or cannot be read.
    """
    node = parse(where, dialect=dialect)
    filesystem = resolve_filesystem(filesystem, storage_options)
    options: dict[str, Any] = {"timezone": timezone, "ignore_case": ignore_case, "progress": progress}
    options |= {"on_error": on_error, "threads": threads, "cache": cache}
    of_lake, columns = paths is None, tree.columns(node)
    listing = RequestCount()
    with (
        open_lake_index(index, filesystem, storage_options, of_lake=of_lake, columns=columns) as view,
        open_zone_indexes(zones, filesystem) as zone_view,
    ):
        if of_lake and view is not None:
            filesystem, paths, entries = view.list_files(filesystem)
        else:
            entries = _list_entries(paths, filesystem, cache, listing)
        partitions = parse_partitions([entry.path for entry in entries], partitioning, paths)
        if of_lake and view is not None:
            partitions = view.keep_confirmed(partitions, entries)
        if partitioning is None:
            options["named"] = lambda name: any(f"{name}=" in entry.path for entry in entries)
        report = plan_scan(entries, node, partitions, filesystem=filesystem, index=view, zones=zone_view, **options)
        report.requests += listing.number
        return PruneReport.of(report)


def _list_entries(paths: Any, filesystem: Any, cache: MetadataCache | None, requests: RequestCount) -> list[Entry]:
    is_cached = (
        cache is not None
        and isinstance(paths, str)
        and entry_for_identity(paths, filesystem, cache.last_identity(paths))
    )
    # An object that was opened before is not a folder, so listing it would be a wasted request.
    return [Entry(paths)] if is_cached else list_entries(paths, filesystem, requests=requests)


def read_table(
    paths: Any,
    where: Any,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> pa.Table:
    """Read the rows that match a predicate, from the row groups that can contain one alone.

    Parameters
    ----------
    paths : a file, a folder, or a list of them; None for the files of `index`.
    where : SQL text, pyarrow's `filters=` lists, a `pyarrow.compute.Expression`, or a predicate tree.
    columns : top-level columns (or dotted leaves, as in `pyarrow.parquet`) of the result; None for all. One that only
        some of the files have is null in the others.
    filesystem, storage_options, timezone, dialect, progress, partitioning, index, zones : as in `prune`.

    Returns
    -------
    pyarrow.Table
        Columns as `pyarrow.parquet.read_table` and `pyarrow.orc.read_table` give them, rows in file order. Files whose
        columns differ are combined as by `pyarrow.concat_tables(promote_options="permissive")`; a column that is a
        dictionary in some files only is not one in the result. Partition columns (int64, date32 or string) come after
        the files' own, or replace a file's column of the same name.

    Raises
    ------
    PredicateError
        The predicate cannot be parsed, or a literal cannot be compared exactly with a column.
    UnknownColumnError
        No file has a column of the result or of the predicate.
    UnreadableColumnError
        A column of an ORC file has timestamps outside of 1677 to 2262, which pyarrow cannot count in nanoseconds.
    ManagedTableError
        As in `prune`; or the files are those of an index over a Delta or Iceberg table that may have deleted rows of
        the selected files: Iceberg by delete files, Delta by deletion vectors, if that feature is on.
    ParquetBloomError
        As in `prune`.
    """
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"timezone": timezone, "progress": progress, "partitioning": partitioning}
    options |= {"filesystem": filesystem, "storage_options": storage_options}
    report = prune(paths, node, index=index, zones=zones, **options)
    return read_selected(report, node, columns, filesystem=report.filesystem, timezone=timezone)


def iter_batches(
    paths: Any,
    where: Any,
    columns: Sequence[str] | None = None,
    *,
    batch_size: int = 65_536,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> pa.RecordBatchReader:
    """Read the rows that match a predicate in batches; at most one row group (in ORC, stripe) is in memory.

    Parameters
    ----------
    paths, where, columns, filesystem, storage_options, timezone, dialect, progress, partitioning, index, zones : as in
        `read_table`.
    batch_size : maximum rows of a batch; a batch has rows of one row group, and is never empty.

    Returns
    -------
    pyarrow.RecordBatchReader
        Iterates over record batches with the schema of `read_table`; engines that read Arrow streams can read it. Row
        groups are selected now, and read as the batches are consumed.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `read_table`; errors in the row groups are raised when they are read.
    """
    if batch_size < 1:
        raise ParquetBloomError(f"batch_size must be at least 1, got {batch_size}")
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"timezone": timezone, "progress": progress, "partitioning": partitioning}
    options |= {"filesystem": filesystem, "storage_options": storage_options}
    report = prune(paths, node, index=index, zones=zones, **options)
    schema, batches = iter_selected(report, node, columns, batch_size=batch_size, timezone=timezone)
    return pa.RecordBatchReader.from_batches(schema, batches)


def row_ranges(
    paths: Any,
    where: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> dict[str, RowRangesByGroup]:
    """Find the rows that can match, without reading values.

    Parameters
    ----------
    paths, where, filesystem, storage_options, timezone, dialect, partitioning, index, zones : as in `prune`.

    Returns
    -------
    {path: {row group: [(start, stop), ...]}} of the files and row groups that `prune` selects, with `stop` excluded.
    Rows are counted from the first row of their row group. A row group is listed whole unless a valid page index or
    zones rule out rows; it may have no ranges at all. Row groups of ORC files are always listed whole.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `prune`.
    """
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"filesystem": filesystem, "storage_options": storage_options, "timezone": timezone}
    return find_row_ranges(prune(paths, node, partitioning=partitioning, index=index, zones=zones, **options))
