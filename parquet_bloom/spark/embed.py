"""Filters embedded into all files of a lake by Spark's executors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from ..errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ..file.reader import open
from ..file.write.embed import embed as embed_file
from ..file.write.options import Columns, FilterOptions, parse_columns, plan_columns
from ..file.write.rewrite import refuse_managed
from ..storage import is_url, object_location, resolve_filesystem
from .jobs.packing import sizes_of
from .jobs.run import Outcome, find_files, run
from .report import EmbedJobReport, FileResult
from .scan.column_names import names_in
from .session.settings import ignores_case

_ATTEMPTS = 3
_LOOKED_INTO = 32  # files that the driver itself looks into for the columns; the rest is a job


def embed(
    spark: SparkSession,
    path: Any,
    columns: Columns,
    *,
    fpp: float = 0.01,
    replace: bool = False,
    keep_footer: bool = False,
    power_of_two: bool = True,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> EmbedJobReport:
    """Embed Bloom filters into every Parquet file below a path, on Spark's executors, at once.

    Each file is replaced whole or not at all, by one task; a task that is run again finds the filters there and changes
    nothing. A file that cannot be done does not stop the others: see the report.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : a file or folder that driver and executors both see, the URL of an object on S3 or of a folder of them
        (`s3://` or `s3a://`), or a list; hidden files (`_SUCCESS`, `.crc`) are passed over, partitions' folders are
        not.
    columns : dotted paths of leaf columns, as for `parquet_bloom.embed`. Names match as they do in the session:
        whatever their case, unless `spark.sql.caseSensitive` is set. A file that lacks some of them gets the others.
    fpp, replace, keep_footer, power_of_two : as for `parquet_bloom.embed`.
    dry_run : build the filters, so that the report can tell their sizes, and write nothing.
    storage_options : of the URLs' stores, as for `parquet_bloom.embed`. They are sent to the executors, which open the
        store themselves; without them both take what their environment says.

    Returns
    -------
    EmbedJobReport
        One result a file, with totals; `to_dataframe(spark)` makes rows of them.

    Raises
    ------
    StorageError
        There is no such path, or no file there can be replaced in place.
    ManagedTableError
        It lies in a Delta, Iceberg or Hudi table, or below a streaming sink, where the sizes of files are recorded.
    UnknownColumnError
        No file has one of the columns. Nothing was changed.
    UnsupportedTypeError
        A column's type cannot have a filter. Nothing was changed.
    ParquetBloomError
        The Spark job itself failed: files that were done are done, and asking again does the rest.
    """
    started = time.perf_counter()
    options = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    if not isinstance(dry_run, bool):
        raise ParquetBloomError(f"dry_run must be True or False, not {dry_run!r}")
    named, entries = find_files(path, storage_options)
    files = [entry.path for entry in entries]
    _refuse(named, storage_options, dry_run)
    ignore_case = ignores_case(spark)
    _check_columns(spark, files, _ColumnCheck(options, ignore_case, storage_options))
    work = _Embed(options, replace, ignore_case, dry_run, keep_footer, storage_options)
    outcomes = run(spark, "embed", files, work, storage_options, sizes_of(entries))
    return EmbedJobReport([_result(outcome) for outcome in outcomes], time.perf_counter() - started, dry_run)


def _refuse(paths: Sequence[str], storage_options: Mapping[str, Any] | None, dry_run: bool) -> None:
    """Raise for what is not to be changed, or cannot be."""
    filesystem = resolve_filesystem(None, storage_options)
    for path in paths:
        refuse_managed(path, filesystem)
        place = object_location(path, filesystem) if is_url(path) else None
        if place is not None and place.kind != "S3" and not dry_run:
            raise StorageError("only local files, and objects on S3, can be replaced in place", path=path)


@dataclass(frozen=True)
class _ColumnCheck:
    """What a file has of the columns, and what is wrong with them as columns of filters."""

    options: dict[str, FilterOptions]
    ignore_case: bool
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> tuple[frozenset[str], ParquetBloomError | None]:
        with open(path, storage_options=self.storage_options) as file:
            found = names_in(file, self.options, self.ignore_case)
            try:
                plan_columns(file.leaves, {found[name]: self.options[name] for name in found}, path)
            except ParquetBloomError as error:
                return frozenset(found), error
        return frozenset(found), None


def _check_columns(spark: SparkSession, files: Sequence[str], look: _ColumnCheck) -> None:
    """Raise unless each column is in some file, and of a type that can have a filter there.

    Commonly the first file has them all, and no other is opened here.
    """
    unknown, readable = dict(look.options), False

    def take(found: frozenset[str], problem: ParquetBloomError | None) -> None:
        if problem is not None:
            raise problem
        for name in found & unknown.keys():
            del unknown[name]

    for path in files[:_LOOKED_INTO]:
        try:
            seen = replace(look, options=dict(unknown))(path)
        except ParquetBloomError:
            continue  # its task will say so
        readable = True
        take(*seen)
        if not unknown:
            return
    look = replace(look, options=dict(unknown))
    for outcome in run(spark, "look for the columns", files[_LOOKED_INTO:], look, look.storage_options):
        if outcome.result is not None:
            readable = True
            take(*outcome.result)
    if readable and unknown:
        several = f" in any of {len(files):,} files" if len(files) > 1 else ""
        raise UnknownColumnError(f"no such column{several}", path=None if several else files[0], column=min(unknown))


@dataclass(frozen=True)
class _Embed:
    """What a task does to a file."""

    options: dict[str, FilterOptions]
    replace: bool
    ignore_case: bool
    dry_run: bool = False
    keep_footer: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> FileResult:
        for attempt in range(1, _ATTEMPTS + 1):
            with open(path, storage_options=self.storage_options) as file:
                names = names_in(file, self.options, self.ignore_case)
            missing = tuple(name for name in self.options if name not in names)
            if not names:
                return FileResult(path, "unchanged", missing=missing)
            columns = {names[name]: asdict(self.options[name]) for name in names}
            try:
                done = embed_file(
                    path,
                    columns,
                    replace=self.replace,
                    keep_footer=self.keep_footer,
                    dry_run=self.dry_run,
                    storage_options=self.storage_options,
                    threads=1,
                )
            except ConcurrentChangeError:
                # Often the same task elsewhere (speculation, a lost executor that lives on): see what it left.
                if attempt == _ATTEMPTS:
                    raise
                continue
            status = "would embed" if self.dry_run and done.filters else "embedded" if done.changed else "unchanged"
            return FileResult(path, status, done.bytes_added, done.num_filters, done.kept, missing)
        raise AssertionError("the last attempt returns or raises")


def _result(outcome: Outcome[FileResult]) -> FileResult:
    if outcome.result is None:
        return FileResult(outcome.path, "failed", seconds=outcome.seconds, error=outcome.error)
    return replace(outcome.result, seconds=outcome.seconds)
