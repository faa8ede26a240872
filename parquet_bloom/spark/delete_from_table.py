"""Delete rows of a Delta or Iceberg table: executors search for them and write files anew, the driver commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from ..change.commit_rows import DeletesPlanner, FileRewriter, Mode, WriteAnew
from ..change.delete_rows import Appended, DeleteReport, check_arguments, delete_found
from ..change.erase_files import Outcomes
from ..errors import ParquetBloomError
from ..tables.embed.embed_table import open_target
from ..tables.embed.table_target import LiveFile
from .jobs.run_files import run
from .search_rows import ExecutorSearch

if TYPE_CHECKING:
    import os

    from pyiceberg.catalog import Catalog

    from ..util.given_types import Predicate, RowKeys, TableSource


def delete(
    spark: SparkSession,
    table: TableSource,
    keys: DataFrame | RowKeys | os.PathLike[str] | None = None,
    on: str | Sequence[str] | None = None,
    *,
    where: Predicate | None = None,
    dialect: str | None = None,
    mode: Mode = "hide",
    dry_run: bool = False,
    retries: int = 10,
    appended: Appended = "take",
    catalog: Catalog | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
) -> DeleteReport:
    """Delete the rows of a Delta or Iceberg table that have one of some keys, or meet a predicate, by one commit.

    Executors search the files, and the driver gets the positions of the rows, 8 bytes for each, and commits that they
    are deleted. Files that are written anew without them, as by `parquet_bloom.delete` with `mode="rewrite"`, are
    written by executors.

    Parameters
    ----------
    spark : the session, classic or Connect.
    table, where, dialect, mode, dry_run, retries, appended, catalog, timezone : as for `parquet_bloom.delete`. Driver
        and executors both see the table's files by the same paths or URLs.
    keys, on : as for `parquet_bloom.delete`; or keys as a DataFrame with columns of these names, of the types of the
        table's columns, or both integers. For a key of one column, or a function of one such as `lower(email)`, it may
        be its only column, of any name. Up to a million different keys are sent to the executors; Spark joins more of
        them with the table's. Nulls equal nothing, and are counted in the report.
    storage_options : settings of a Delta table's store; they are sent to the executors.

    Raises
    ------
    ConcurrentChangeError, PredicateError, UnknownColumnError, ParquetBloomError
        As `parquet_bloom.delete`; also if the Spark job failed. Nothing was committed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.delete(spark, "events", [4, 5], on="id"))  # doctest: +SKIP
    """
    check_arguments(mode, retries, appended)
    search = ExecutorSearch(spark, keys, on, where, dialect, timezone)
    target = open_target(table, catalog, storage_options)
    deletes = DeletesPlanner(target, mode, dry_run, write=write_on_executors(spark, storage_options))
    return delete_found(deletes, search.find, storage_options, retries, appended)


def write_on_executors(spark: SparkSession, storage_options: Mapping[str, Any] | None) -> WriteAnew:
    """Return what has executors write files anew; a task that is run again writes the same file to the same path."""

    def write(files: Sequence[LiveFile], rewriter: FileRewriter) -> Outcomes:
        sizes = [file.size for file in files]
        for outcome in run(spark, "rewrite", [file.path for file in files], rewriter, storage_options, sizes):
            if outcome.result is None:
                text = (outcome.error or "the task was lost").removeprefix(f"{outcome.path}: ")
                yield ParquetBloomError(text, path=outcome.path)
            else:
                yield outcome.result

    return write
