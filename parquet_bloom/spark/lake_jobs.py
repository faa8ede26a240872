"""Embed filters into all files of a lake on Spark's executors."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ..errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ..file.advice_report import SAMPLE, AdviceReport, LakeSurvey, make_survey_task
from ..file.bloom_file import BloomFile, open
from ..file.embed_filters import RewriteOptions, embed_file
from ..file.file_columns import find_columns
from ..file.file_rewrite import refuse_managed
from ..file.filter_builder import Columns, FilterOptions, parse_columns, plan_columns
from ..file.verify_file import VerifyReport, verify_parquet
from ..scan.survey_files import survey
from ..storage import is_url, object_location, resolve_filesystem
from .job_report import EmbedJobReport, FileResult, FileVerdict, VerifyJobReport
from .jobs.file_tasks import Outcome, find_sizes
from .jobs.run_files import find_files, run
from .session.session_settings import ignores_case, path_list

if TYPE_CHECKING:
    from ..util.given_types import Paths


def match_columns(file: BloomFile, names: Iterable[str], ignore_case: bool) -> dict[str, str]:
    """Return {requested name: the file's spelling} for the requested columns that a file has."""
    matches = {}
    for name in names:
        leaves = find_columns(file.leaves, name, ignore_case)
        if leaves:
            matches[name] = leaves[0].name if len(leaves) == 1 else name  # if ambiguous, the caller's lookup reports it
    return matches


_MAX_ATTEMPTS = 3
_MAX_DRIVER_FILES = 32  # files that the driver opens to check the columns; a job checks the others


def embed(
    spark: SparkSession,
    paths: Paths,
    columns: Columns,
    *,
    fpp: float = 0.01,
    replace: bool = False,
    keep_footer: bool = False,
    power_of_two: bool = True,
    dry_run: bool = False,
    storage_options: Mapping[str, object] | None = None,
) -> EmbedJobReport:
    """Embed Bloom filters into every Parquet file below a path, in one job on Spark's executors.

    One task replaces each file, atomically; a task that is run again finds the filters present and changes nothing. A
    file that fails does not stop the others: see the report.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file or folder that driver and executors both see, the URL of an object on S3 or of a folder of them
        (`s3://` or `s3a://`), or a list; hidden files (`_SUCCESS`, `.crc`) are skipped, partition folders are not.
    columns : dotted paths of leaf columns, as for `parquet_bloom.embed`. Names match as they do in the session:
        without regard to case, unless `spark.sql.caseSensitive` is set. A file that lacks some of them gets the others.
    fpp, replace, keep_footer, power_of_two : as for `parquet_bloom.embed`.
    dry_run : build the filters to report their sizes, and write nothing.
    storage_options : of the URLs' stores, as for `parquet_bloom.embed`. They are sent to the executors, which open the
        store themselves; without them driver and executors use their environments.

    Returns
    -------
    EmbedJobReport
        One result per file, with totals; `to_dataframe(spark)` converts them to rows.

    Raises
    ------
    StorageError
        The path does not exist, or its files cannot be replaced in place.
    ManagedTableError
        The path is in a Delta, Iceberg or Hudi table, or below a streaming sink, which record the sizes of files.
    UnknownColumnError
        No file has one of the columns. Nothing was changed.
    UnsupportedTypeError
        A column's type cannot have a filter. Nothing was changed.
    ParquetBloomError
        The Spark job failed. Files that were finished keep their filters; run it again for the others.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.embed(spark, "lake", ["id"]))  # doctest: +SKIP
    """
    started = time.perf_counter()
    options = parse_columns(columns, FilterOptions(fpp, None, power_of_two))
    if not isinstance(dry_run, bool):
        raise ParquetBloomError(f"dry_run must be True or False, not {dry_run!r}")
    listed, entries = find_files(paths, storage_options)
    files = [entry.path for entry in entries]
    _refuse_paths(listed, storage_options, dry_run)
    ignore_case = ignores_case(spark)
    _check_columns(spark, files, _ColumnCheck(options, ignore_case, storage_options))
    task = _Embed(options, replace, ignore_case, dry_run, keep_footer, storage_options)
    outcomes = run(spark, "embed", files, task, storage_options, find_sizes(entries))
    return EmbedJobReport([_make_result(outcome) for outcome in outcomes], time.perf_counter() - started, dry_run)


def _refuse_paths(paths: Sequence[str], storage_options: Mapping[str, Any] | None, dry_run: bool) -> None:
    """Raise for paths that must not or cannot be changed in place."""
    filesystem = resolve_filesystem(None, storage_options)
    for path in paths:
        refuse_managed(path, filesystem)
        location = object_location(path, filesystem) if is_url(path) else None
        if location is not None and location.kind != "S3" and not dry_run:
            raise StorageError("only local files, and objects on S3, can be replaced in place", path=path)


@dataclass(frozen=True)
class _ColumnCheck:
    """Task that reports the requested columns that a file has, and why one of them cannot have a filter."""

    options: dict[str, FilterOptions]
    ignore_case: bool
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> tuple[frozenset[str], ParquetBloomError | None]:
        with open(path, storage_options=self.storage_options) as file:
            names = match_columns(file, self.options, self.ignore_case)
            try:
                plan_columns(file.leaves, {names[name]: self.options[name] for name in names}, path)
            except ParquetBloomError as error:
                return frozenset(names), error
        return frozenset(names), None


def _check_columns(spark: SparkSession, files: Sequence[str], check: _ColumnCheck) -> None:
    """Raise unless each column is in some file, and of a type that can have a filter there.

    Usually the first file has all columns, and the driver opens no other.
    """
    missing, readable = dict(check.options), False

    def record(names: frozenset[str], problem: ParquetBloomError | None) -> None:
        if problem is not None:
            raise problem
        for name in names & missing.keys():
            del missing[name]

    for path in files[:_MAX_DRIVER_FILES]:
        try:
            result = replace(check, options=dict(missing))(path)
        except ParquetBloomError:
            continue  # its embedding task reports the error
        readable = True
        record(*result)
        if not missing:
            return
    check = replace(check, options=dict(missing))
    for outcome in run(spark, "look for the columns", files[_MAX_DRIVER_FILES:], check, check.storage_options):
        if outcome.result is not None:
            readable = True
            record(*outcome.result)
    if readable and missing:
        scope = f" in any of {len(files):,} files" if len(files) > 1 else ""
        raise UnknownColumnError(f"no such column{scope}", path=None if scope else files[0], column=min(missing))


@dataclass(frozen=True)
class _Embed:
    """Task that embeds the filters into one file."""

    options: dict[str, FilterOptions]
    replace: bool
    ignore_case: bool
    dry_run: bool = False
    keep_footer: bool = False
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> FileResult:
        filesystem = resolve_filesystem(None, self.storage_options)
        options = RewriteOptions(None, self.replace, self.keep_footer, self.dry_run, filesystem)
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            names: dict[str, str] = {}
            try:
                result = embed_file(path, partial(self._choose, names), options, threads=1)
            except _NoColumns:
                return FileResult(path, "unchanged", missing=tuple(self.options))
            except ConcurrentChangeError:
                # Often another attempt at this task (speculation, an executor considered lost): check its result.
                if attempt == _MAX_ATTEMPTS:
                    raise
                continue
            missing = tuple(name for name in self.options if name not in names)
            status = "would embed" if self.dry_run and result.filters else "embedded" if result.changed else "unchanged"
            return FileResult(path, status, result.bytes_added, result.num_filters, result.kept, missing)
        raise AssertionError("the last attempt returns or raises")

    def _choose(self, names: dict[str, str], file: BloomFile) -> dict[str, FilterOptions]:
        """Return the columns of a file that get filters, and put their names, {requested: the file's}, into `names`."""
        names.update(match_columns(file, self.options, self.ignore_case))
        if not names:
            raise _NoColumns
        return {names[name]: self.options[name] for name in names}


class _NoColumns(Exception):
    """A file has none of the columns."""


def _make_result(outcome: Outcome[FileResult]) -> FileResult:
    if outcome.result is None:
        return FileResult(outcome.path, "failed", seconds=outcome.seconds, error=outcome.error)
    return replace(outcome.result, seconds=outcome.seconds)


def advise(
    spark: SparkSession,
    paths: Paths,
    columns: Iterable[str] | None = None,
    *,
    sample: int = SAMPLE,
    fpp: float = 0.01,
    storage_options: Mapping[str, object] | None = None,
) -> AdviceReport:
    """Recommend columns that deserve filters, with reasons: `parquet_bloom.advise` as one job on Spark's executors.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file or folder that driver and executors both see, the URL of an object or of a folder of them, or a list.
    columns, sample, fpp : as for `parquet_bloom.advise`; names are spelled as in the files.
    storage_options : as for `parquet_bloom.prune`; they are sent to the executors.

    Returns
    -------
    AdviceReport
        The report that `parquet_bloom.advise` gives.

    Raises
    ------
    StorageError, ManagedTableError
        The path does not exist, or a table tracks the files in its metadata.
    UnknownColumnError
        No file has one of the columns.
    ParquetBloomError
        The Spark job failed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.advise(spark, "lake"))  # doctest: +SKIP
    """
    _, entries = find_files(paths, storage_options)
    files = [entry.path for entry in entries]
    tasks, options = make_survey_task(files, columns, sample, fpp, storage_options=storage_options, look=survey)
    sizes = [size if tasks.per_file.get(file) else 0 for file, size in zip(files, find_sizes(entries), strict=True)]
    outcomes = run(spark, "advise", files, tasks, storage_options, sizes)
    results = ((outcome.path, outcome.result, outcome.error) for outcome in outcomes)
    surveys = LakeSurvey(tasks)
    surveys.add(results)
    return surveys.make_report(path_list(paths), options.fpp)


def verify(
    spark: SparkSession,
    paths: Paths,
    data: bool = True,
    *,
    columns: Iterable[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> VerifyJobReport:
    """Check the filters of every Parquet file below a path, in one job on Spark's executors.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file or folder that driver and executors both see, the URL of an object or of a folder of them, or a list.
    data : also read the filtered columns and probe every value: a filter must not reject any.
    columns : dotted paths of the columns whose filters are checked; None for all. Names match as they do in the
        session; files that lack some of them are checked for the others.
    storage_options : as for `parquet_bloom.prune`; they are sent to the executors.

    Returns
    -------
    VerifyJobReport
        One verdict per file, with totals. Problems with a file or a filter are reported, not raised.

    Raises
    ------
    StorageError
        The path does not exist.
    ManagedTableError
        A folder holds a Delta, Iceberg or Hudi table, or the output of a streaming sink: it may contain removed files.
    UnknownColumnError
        No file has one of the columns.
    ParquetBloomError
        The Spark job failed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.verify(spark, "lake"))  # doctest: +SKIP
    """
    started = time.perf_counter()
    names = None if columns is None else tuple([columns] if isinstance(columns, str) else columns)
    _, entries = find_files(paths, storage_options)
    files = [entry.path for entry in entries]
    task = _Verify(data, names, ignores_case(spark), storage_options)
    outcomes = run(spark, "verify", files, task, storage_options, find_sizes(entries) if data else None)
    matched = {name for outcome in outcomes if outcome.result for name in outcome.result[0]}
    if names is not None and any(outcome.result for outcome in outcomes) and not matched >= {*names}:
        raise UnknownColumnError("no such column in any file", column=min({*names} - matched))
    return VerifyJobReport([_make_verdict(outcome, data) for outcome in outcomes], time.perf_counter() - started)


@dataclass(frozen=True)
class _Verify:
    """Task that checks the filters of one file, and returns its names of the requested columns with the report."""

    data: bool
    columns: tuple[str, ...] | None
    ignore_case: bool
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> tuple[tuple[str, ...], VerifyReport]:
        filesystem = resolve_filesystem(None, self.storage_options)
        if self.columns is None:
            return (), verify_parquet(path, self.data, filesystem=filesystem)
        with open(path, filesystem) as file:
            names = match_columns(file, self.columns, self.ignore_case)
        report = verify_parquet(path, self.data, names.values(), filesystem)
        return tuple(names), report


def _make_verdict(outcome: Outcome[tuple[tuple[str, ...], VerifyReport]], data: bool) -> FileVerdict:
    if outcome.result is None:
        return FileVerdict(outcome.path, "failed", seconds=outcome.seconds, error=outcome.error)
    chunks = outcome.result[1].chunks
    problems = tuple(str(chunk) for chunk in chunks if chunk.problem)
    return FileVerdict(
        outcome.path,
        "bad" if problems else "good" if chunks else "no filters",
        len(chunks),
        sum(chunk.num_values or 0 for chunk in chunks) if data else None,
        problems,
        tuple(str(chunk) for chunk in chunks if chunk.note and not chunk.problem),
        outcome.seconds,
    )
