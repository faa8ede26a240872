"""Put rows of a DataFrame into a Delta or Iceberg table: executors search and write files, the driver commits."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..change.commit_rows import DeletesPlanner, Planned, commit, make_source
from ..change.find_rows import FoundRows
from ..change.fit_rows import fit
from ..change.upsert_rows import (
    SHOWN_KEYS,
    UpsertReport,
    WhenMatched,
    check_arguments,
    make_twice_error,
    require_keys,
    select_filtered,
)
from ..errors import ParquetBloomError, UnreadableColumnError
from ..redaction import shown_redacted
from ..tables.embed.embed_table import open_target
from ..tables.embed.new_files import NewFiles
from ..tables.embed.table_target import NewFile, RowFileWriter, TableState
from .delete_from_table import write_on_executors
from .jobs.file_tasks import find_secrets
from .jobs.run_files import collect_results, run_with_progress
from .locate_rows import find_key_type, locate, select_keys
from .search_rows import ExecutorSearch
from .session.session_settings import quote, use_driver_python
from .spark_arrow import arrow_field, find_unknown_type

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ..util.given_types import TableSource


_ROWS_OF_TASK = 1 << 20  # that a task has in memory, and writes into one file of each partition


def upsert(
    spark: SparkSession,
    table: TableSource,
    rows: DataFrame,
    on: str | Sequence[str],
    *,
    when_matched: WhenMatched = "update",
    dry_run: bool = False,
    retries: int = 10,
    catalog: Catalog | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> UpsertReport:
    """Put rows into a Delta or Iceberg table, in place of those with the same keys, by one commit.

    Executors search the files for the keys, as by `parquet_bloom.spark.delete`, and write the rows into new files; the
    driver commits. The rows are computed once and kept by the executors (`DataFrame.localCheckpoint`), so that those
    that are written are those whose keys were looked for. What an attempt at a task that was lost has written is not
    part of the table; a vacuum deletes it.

    Parameters
    ----------
    spark : the session, classic or Connect.
    table, when_matched, dry_run, retries, catalog : as for `parquet_bloom.upsert`. Driver and executors both see the
        table's files by the same paths or URLs.
    rows : with all columns of the table, in any order. Columns of the key have the types of the table's, or both are
        integers; other values are converted where that loses nothing.
    on : the column of the key, or several columns that are the key together.
    storage_options : settings of a Delta table's store; they are sent to the executors.

    Raises
    ------
    PredicateError, UnknownColumnError, ConcurrentChangeError, ParquetBloomError
        As `parquet_bloom.upsert`; also if the Spark job failed. Nothing was committed.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.upsert(spark, "events", spark.read.parquet("changes"), on="id"))  # doctest: +SKIP
    """
    started = time.perf_counter()
    names = check_arguments(on, when_matched, retries)
    if not isinstance(rows, DataFrame):
        raise ParquetBloomError(f"rows must be a Spark DataFrame, got {type(rows).__name__}")
    unknown = find_unknown_type(rows.schema)
    if unknown is not None:
        raise UnreadableColumnError(f"rows cannot have values of the type {unknown.simpleString()}")
    target = open_target(table, catalog, storage_options)
    deletes = DeletesPlanner(target, dry_run=dry_run, write=write_on_executors(spark, storage_options))
    key = names[0] if len(names) == 1 else names
    kept = rows.localCheckpoint()
    given = kept.count()
    num_kept = num_null = 0

    def plan(state: TableState, new_files: NewFiles) -> Planned:
        nonlocal num_kept, num_null
        schema = state.snapshot.schema
        empty = pa.schema([arrow_field(field) for field in kept.schema.fields]).empty_table()
        fit(empty, schema, target.name)
        require_keys(schema, names, target.name)
        num_null = given - _count_distinct(kept, schema, names, target.name)
        source = make_source(target, state, storage_options)
        found, fresh = FoundRows({}), kept
        if source is not None and when_matched == "update":
            found = ExecutorSearch(spark, kept, key, None, None, "UTC").find(source)
        elif source is not None:
            located = locate(spark, source.table, key, kept, storage_options=source.storage_options)
            fresh = _leave_out(kept, located, names).localCheckpoint()
        num_rows = given if fresh is kept else fresh.count()
        num_kept = given - num_rows
        added: list[NewFile] = []
        if num_rows and dry_run:
            target.make_row_writer(state)  # refuses what it would refuse
        elif num_rows:
            write = _WriteRows(target.make_row_writer(state), schema, select_filtered(schema, names), target.name)
            frame = _divide(fresh, num_rows, sorted(state.not_in_files))
            added = _write(spark, frame, write, new_files, storage_options)
            if sum(file.num_rows for file in added) != num_rows:
                problem = "the Spark job has written another number of rows than it got"
                raise ParquetBloomError(problem, path=target.name)
        return deletes.plan(state, found.rows, "upsert", new_files, tuple(added))

    done = commit(target, plan, retries=retries, dry_run=dry_run)
    return UpsertReport(
        **done.describe(target, dry_run, started),
        added=tuple(file.path for file in done.planned.change.added),
        num_added=given - num_kept,
        num_kept=num_kept,
        num_null_keys=num_null,
    )


def _count_distinct(rows: DataFrame, schema: pa.Schema, names: Sequence[str], path: str) -> int:
    """Return how many rows have a key without nulls.

    Raises
    ------
    PredicateError
        Two of them have the same, or their keys are of another type than the table's.
    """
    types = [schema.field(name) for name in names]
    of_key = find_key_type(types[0].type if len(names) == 1 else pa.struct(types))
    keys = select_keys(rows, names[0] if len(names) == 1 else names, of_key).dropna()
    columns = [F.col(quote(name)) for name in keys.columns]
    groups = keys.groupBy(*columns).agg(F.count(F.lit(1)).alias("number"))
    twice = groups.where("number > 1").limit(SHOWN_KEYS).drop("number").toArrow()
    if twice.num_rows:
        shown = [tuple(row.values()) for row in twice.to_pylist()]
        raise make_twice_error(shown, groups.where("number > 1").count(), names, path)
    return groups.count()


def _leave_out(rows: DataFrame, located: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the rows whose keys are not among those that were located."""
    key = F.col("key")
    parts = [key] if len(names) == 1 else [key.getField(name) for name in names]
    others = [f"located {number}" for number in range(len(names))]
    known = located.select([part.alias(name) for part, name in zip(parts, others, strict=True)]).distinct()
    equal = (F.col(quote(name)) == F.col(quote(other)) for name, other in zip(names, others, strict=True))
    return rows.join(known, reduce(and_, equal), "left_anti")


def _divide(rows: DataFrame, num_rows: int, partitions: Sequence[str]) -> DataFrame:
    """Return rows as tasks get them: those of few partitions each, so that there are few files."""
    num_tasks = -(-num_rows // _ROWS_OF_TASK)
    if partitions and num_tasks > 1:
        return rows.repartitionByRange(num_tasks, *(F.col(quote(name)) for name in partitions))
    return rows.repartition(num_tasks)


def _write(
    spark: SparkSession,
    rows: DataFrame,
    write: _WriteRows,
    new_files: NewFiles,
    storage_options: Mapping[str, Any] | None,
) -> list[NewFile]:
    """Write rows by a job, and return the files."""

    def job() -> list[bytes]:
        with use_driver_python(spark):
            return [bytes(row["data"]) for row in rows.mapInArrow(write, "data BINARY").collect()]

    results = collect_results(
        [write], find_secrets(storage_options), lambda: run_with_progress(spark, "upsert", 1, 1, job)
    )
    files: list[NewFile] = []
    errors: list[ParquetBloomError] = []
    for paths, written, error in map(pickle.loads, results):
        new_files.expect(paths)
        files += written
        errors += [] if error is None else [error]
    if errors:
        raise errors[0]
    return files


@shown_redacted
@dataclass(frozen=True)
class _WriteRows:
    """Function for `mapInArrow`: rows to the files that they were written into, as `_write` reads them.

    Attributes
    ----------
    schema, table : the table's, and its name.
    filters : columns that get filters.
    """

    writer: RowFileWriter
    schema: pa.Schema
    filters: Sequence[str]
    table: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        paths, files, problem = [], [], None
        try:
            rows = fit(pa.Table.from_batches(held), self.schema, self.table)
            for path, file in self.writer(rows, self.filters):
                paths.append(path)
                files += [] if file is None else [file]
        except ParquetBloomError as error:  # Spark would try again
            problem = error
        result = pickle.dumps((paths, files, problem))
        yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["data"])
