"""The public functions: plan a scan, and read the rows that match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import ParquetBloomError
from ..file.cache.memory import SHARED_CACHE, MetadataCache
from ..predicate import parse, tree
from ..storage import Entry, RequestCount, entry_for_identity, list_entries, resolve_filesystem
from .evaluate.lake_index import open_lake_index
from .evaluate.planner import prune_entries
from .evaluate.zones import open_zone_indexes
from .model.partitions import partitions_of
from .read.reader import iter_selected, read_selected
from .read.row_ranges import RowRangesByGroup, ranges_of
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
    """Find the row groups that can hold a row that matches, from statistics and Bloom filters alone.

    Parameters
    ----------
    paths : a file, a folder, a pattern, or a list of them: local paths, or URLs of object stores (`s3://`, `gs://`,
        `az://`, `abfss://`) or web servers (`https://`). None stands for the live files of `index`. Parquet and ORC
        files may lie side by side: their last bytes tell which is which.
    where : SQL text (`"user_id = 42 AND day IN ('a', 'b')"`), pyarrow's `filters=` lists, a pyarrow expression, or a
        predicate tree.
    filesystem : pyarrow or fsspec file system, or a store of obstore's, whose keys the paths then are; None for local
        paths and URLs.
    storage_options : settings of the URLs' stores by obstore's names (`aws_endpoint`, `aws_access_key_id`,
        `google_service_account`, `azure_storage_account_name`, `allow_http`, `timeout`, `max_retries`); what is not
        given is taken from the environment.
    timezone : zone of timestamps written without one, where a column holds instants.
    dialect : sqlglot dialect of SQL text; None for the common ground.
    ignore_case : match column names whatever their case.
    progress : called after each file with (done, in all).
    on_error : called with the error of a file that cannot be read, which is then left out of the report; without it,
        the error is raised, that of the first such file.
    threads : how many files are looked at at a time; None for one local file, for which more bring nothing while their
        footers are in memory, and 64 others, which are waited for. Local files whose footers the cache knows are
        visited by as many as there are processors.
    cache : footers that are known, and to which those read now are added; None for none. The one that is used when
        nothing is said is shared by all calls of the process and takes 256 MiB at most.
    partitioning : "hive" takes folders `name=value` below a given folder (of a given file: in its path) as columns,
        int64, date32 or string, if all files have them: files that they rule out are not opened. A file's own column
        of such a name is not looked at, as in Spark, DuckDB and polars. None takes them as mere names.
    index : an index of the lake, which rules out files before they are opened: its folder, on the same file system as
        the files, or an open `LakeIndex`. Files that it does not know, or that are no longer what was indexed, are
        judged as without it; so is everything if it cannot be read, and `index_doubts` says so. Without `paths` its
        files are those that were live when it was opened.
    zones : zone indexes, by `zones.build`, which rule out rows of the row groups that are read otherwise: a path, on
        the same file system as the files, an open `ZoneIndex`, or a list of them. Zones of files that are no longer
        what was indexed are not used, nor those that cannot be read, and `zone_doubts` says so; filters may have been
        embedded into the files.

    Returns
    -------
    PruneReport
        `selected` is {path: [row groups]}. Every row that matches is in a selected row group; what is doubtful is
        selected, and `doubts` says why.

    Raises
    ------
    PredicateError
        The predicate is not understood.
    UnknownColumnError
        No file has a column that the predicate names.
    ManagedTableError
        A folder belongs to a Delta, Iceberg or Hudi table or a streaming sink, whose old files hold removed rows.
    StorageError
        There is no such path, or no index or zones at all where they are said to be.
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
            filesystem, paths, entries = view.lake(filesystem)
        else:
            entries = _listed(paths, filesystem, cache, listing)
        partitions = partitions_of([entry.path for entry in entries], partitioning, paths)
        if of_lake and view is not None:
            partitions = view.confirmed(partitions, entries)
        if partitioning is None:
            options["named"] = lambda name: any(f"{name}=" in entry.path for entry in entries)
        report = prune_entries(entries, node, partitions, filesystem=filesystem, index=view, zones=zone_view, **options)
        report.requests += listing.number
        return PruneReport.of(report)


def _listed(paths: Any, filesystem: Any, cache: MetadataCache | None, requests: RequestCount) -> list[Entry]:
    known = (
        cache is not None
        and isinstance(paths, str)
        and entry_for_identity(paths, filesystem, cache.last_identity(paths))
    )
    # An object that was opened before is no folder, which is what listing would ask.
    return [Entry(paths)] if known else list_entries(paths, filesystem, requests=requests)


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
    """Read the rows that match a predicate, opening only row groups that can hold one.

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
        columns differ are joined as `pyarrow.concat_tables(promote_options="permissive")` does; a column that is a
        dictionary in some of them only is none. Columns that stand in the names of folders come behind the files' own
        (int64, date32 or string), or in the place of a file's column of the same name.

    Raises
    ------
    PredicateError
        The predicate is not understood, or a literal cannot be compared exactly with a column.
    UnknownColumnError
        No file has a column that is wanted, or that the predicate names.
    UnreadableColumnError
        A column of an ORC file holds timestamps beyond 1677 to 2262, which pyarrow cannot count in nanoseconds.
    ManagedTableError
        As in `prune`; or the files are those of an index over a Delta or Iceberg table, which may have deleted rows of
        those that are to be read: Iceberg by delete files, Delta by deletion vectors, where it has that feature.
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
    """Read the rows that match a predicate a batch at a time: no more than one row group (of ORC, stripe) is in memory.

    Parameters
    ----------
    paths, where, columns, filesystem, storage_options, timezone, dialect, progress, partitioning, index, zones : as in
        `read_table`.
    batch_size : rows of a batch at most; a batch holds rows of one row group, and none is empty.

    Returns
    -------
    pyarrow.RecordBatchReader
        Iterates over record batches of one schema, that of `read_table`; engines that take Arrow's streams take it
        too. Row groups are chosen at once, and read as the batches are asked for.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `read_table`; for what is in the row groups, when they are read.
    """
    if batch_size < 1:
        raise ParquetBloomError(f"a batch of {batch_size} rows cannot be: at least 1")
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
    """Find the rows that can match, without reading a value.

    Parameters
    ----------
    paths, where, filesystem, storage_options, timezone, dialect, partitioning, index, zones : as in `prune`.

    Returns
    -------
    {path: {row group: [(first row, row behind the last one), ...]}} of files and row groups that `prune` selects. Rows
    are counted from the beginning of their row group. A row group is there whole unless it has a page index that is
    usable and rules rows out, or zones do; ranges may be none at all. Row groups of ORC files are there whole.

    Raises
    ------
    PredicateError, ParquetBloomError
        As in `prune`.
    """
    node = parse(where, dialect=dialect)
    options: dict[str, Any] = {"filesystem": filesystem, "storage_options": storage_options, "timezone": timezone}
    return ranges_of(prune(paths, node, partitioning=partitioning, index=index, zones=zones, **options))
