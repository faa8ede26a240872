"""Public functions that plan or read one scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from ..errors import NoFilesError, ParquetBloomError
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..predicate import parse
from .plan_report import PruneReport
from .scan import Scan
from .scan_options import ScanOptions
from .scan_source import ScanSource

if TYPE_CHECKING:
    from ..util.given_types import DatasetSource, FileSystem, Predicate
    from .plan.index_level import Index
    from .plan.zone_level import Zones


def prune(
    paths: DatasetSource | None,
    where: Predicate,
    *,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    case_sensitive: bool = True,
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
    dialect : of SQL text: "spark", or another one that sqlglot knows (extra `dialects`); None for generic SQL.
    case_sensitive : False to match column names whatever their case.
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
        A folder belongs to a Delta, Iceberg, Hudi or Paimon table or a streaming sink, whose old files have removed
        rows.
    StorageError
        There is no such path, or no index or zones at the given path.
    ParquetBloomError
        A file is neither a Parquet nor an ORC file, or cannot be read.

    Examples
    --------
    >>> parquet_bloom.prune("lake", "id = 1401181143").selected
    {'lake/day=2026-01-30/a.parquet': [0]}
    """
    source = ScanSource(paths, filesystem, storage_options, index, zones, partitioning, cache).resolve()
    options = ScanOptions(timezone, not case_sensitive, threads, progress, on_error)
    return source.plan(parse(where, dialect=dialect), options)


def read_table(
    paths: DatasetSource | None,
    where: Predicate,
    columns: Sequence[str] | None = None,
    *,
    filesystem: FileSystem | None = None,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
    dialect: str | None = None,
    case_sensitive: bool = True,
    threads: int | None = None,
    cache: MetadataCache | None = SHARED_CACHE,
    progress: Callable[[int, int], None] | None = None,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
    variant: Literal["json"] | None = None,
) -> pa.Table:
    """Read the rows that match a predicate, from the row groups that can contain one alone.

    Parameters
    ----------
    paths : a file, a folder, or a list of them; None for the files of `index`.
    where : SQL text, pyarrow's `filters=` lists, a `pyarrow.compute.Expression`, or a predicate tree.
    columns : top-level columns (or dotted leaves, as in `pyarrow.parquet`) of the result; None for all. One that only
        some of the files have is null in the others.
    filesystem, storage_options, timezone, dialect, case_sensitive, threads, cache, progress, partitioning, index,
        zones : as in `prune`.
    variant : "json" for Variants as JSON texts; None for structs of binary columns, as pyarrow gives them, which
        of shredded ones differ from file to file.

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
        As in `prune`.
    ParquetBloomError
        As in `prune`; or there are no files, as in `dataset` (a Delta or Iceberg table without files has no rows); or
        it cannot be determined which rows of a file a Delta or Iceberg table has deleted.

    Examples
    --------
    >>> parquet_bloom.read_table("lake", "id = 1401181143", ["id", "country"]).to_pylist()
    [{'id': 1401181143, 'country': 'pl'}]
    """
    source = ScanSource(paths, filesystem, storage_options, index, zones, partitioning, cache, variant=variant)
    options = ScanOptions(timezone, not case_sensitive, threads, progress)
    scan = Scan(source.resolve(), parse(where, dialect=dialect), columns, options)
    plan = scan.plan()
    if not plan.files and plan.table is None:
        raise NoFilesError("no files to read: there are none in what was given", path=_describe(paths, index))
    return scan.to_arrow()


def _describe(paths: object, index: Index | None) -> str:
    return str(index if paths is None else paths)
