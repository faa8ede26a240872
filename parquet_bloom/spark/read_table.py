"""Reading Delta and Iceberg tables with Spark, without their jars: only the files that can hold a match."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, FloatType, StructType

from ..errors import ParquetBloomError
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..tables.open_table import find_table
from ..tables.table_snapshot import ReadTable, Table
from .condition.condition import Condition, read_condition
from .plan.classic_session import NO_FILTERS
from .plan.column_trust import Rules
from .plan.index_evidence import Index
from .plan.lake_paths import resolve_names
from .session.session_settings import CannotPush, iter_types, local_path, log, select_columns
from .table_scan import (
    NO_BOUNDS,
    OPTIONS,
    TablePredicate,
    TableScan,
    plan_table,
    require_spark_type,
    scan_natively,
    to_spark_schema,
)
from .table_tasks import read_in_tasks


def read_table(
    spark: SparkSession,
    table: Any,
    where: Any = None,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: MetadataCache | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Read a Delta or Iceberg table with Spark, but only the files that can hold a matching row. No jar is needed.

    Files are chosen on the driver: by partition values and statistics in the table's metadata before any is opened,
    then by their own statistics and Bloom filters. The DataFrame is Spark's own scan of them, as far as it shows a file
    as the table does. Other files are read by this package in Spark's tasks, with the table's names and types: those
    with deleted rows, with columns that the table has renamed, and with columns of other types.

    Parameters
    ----------
    spark : the session, classic or Connect.
    table : the table's folder; what `parquet_bloom.delta` or `parquet_bloom.iceberg` returns; or a table of deltalake
        or pyiceberg. Its metadata is read now: rows are those of one version.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything. Literals
        without a zone are in the session's.
    columns : names of the columns to return; None for all. Files that tasks read cost less with few columns.
    storage_options : settings of the files' store, as for `parquet_bloom.prune`; they are sent to the executors.
        Spark's own scan uses the session's.
    cache : cache of footers, to which those read now are added; None for the one that the process shares.
    index : an index of the table: its folder, or an open one. Files that it excludes are not opened.

    Returns
    -------
    pyspark.sql.DataFrame
        The matching rows, with the table's columns, which may all be null.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        The table has no such column.
    UnreadableColumnError
        Spark has no type for a column, or no way to read it shows what the table has; leave it out by `columns`.
    StorageError
        There is no such table, or no index.
    ParquetBloomError
        It is no table, its metadata is not understood, or a file cannot be read.
    """
    given = _find_table(table, storage_options)
    snapshot = given.read_snapshot()
    opened = ReadTable(snapshot, given)
    schema = to_spark_schema(snapshot.schema)
    for name in snapshot.schema.names if columns is None else columns:
        if name in snapshot.schema.names:
            require_spark_type(snapshot.schema, name, opened.name)
    empty = spark.createDataFrame([], schema)
    names = resolve_names(empty, columns)
    condition = None if where is None else read_condition(empty, where)
    predicate = TablePredicate.of(condition, snapshot.partition_values.column_names)
    read = _list_read_columns(schema, names, condition, predicate)
    options = storage_options or opened.storage_options
    rules = Rules.of(spark, OPTIONS)
    footers = SHARED_CACHE if cache is None else cache
    scan = plan_table(opened, predicate, read.names, rules, storage_options=options, index=index, cache=footers)
    frame = _read_files(spark, opened, scan, read, condition, predicate, options)
    frame = select_columns(empty, read.names) if frame is None else frame
    return select_columns(frame if condition is None else frame.where(condition.where), names)


def _find_table(table: Any, storage_options: Mapping[str, Any] | None) -> Table:
    """Return a table; raise ParquetBloomError if what is given is none."""
    path = os.fsdecode(table) if isinstance(table, str | os.PathLike | bytes) else None
    local = None if path is None else local_path(path)
    found = find_table(table if local is None else local, storage_options)
    if found is None:
        way = "a URL of one is given by parquet_bloom.delta or parquet_bloom.iceberg"
        problem = f"{type(table).__name__} is no table" if path is None else "it is no Delta or Iceberg table"
        raise ParquetBloomError(f"{problem}; {way}, plain files are read by read_parquet", path=path)
    return found


def _list_read_columns(
    schema: StructType, names: Sequence[str], condition: Condition | None, predicate: TablePredicate
) -> StructType:
    """Return the columns that are read: of the result and of the condition, or all where Spark alone knows which."""
    if condition is None:
        wanted = {*names}
    elif predicate.node is None or condition.unknown:
        return schema
    else:
        wanted = {*names, *(field.path[0] for field in (condition.fields or {}).values())}
    fields = [field for field in schema.fields if field.name in wanted]
    return StructType(fields or schema.fields[:1])


def _read_files(
    spark: SparkSession,
    table: ReadTable,
    scan: TableScan,
    schema: StructType,
    condition: Condition | None,
    predicate: TablePredicate,
    storage_options: Mapping[str, Any] | None,
) -> DataFrame | None:
    """Return a DataFrame over the files of a scan; None if there are none."""
    snapshot, frames, others = table.read_snapshot(), [], scan.others
    is_known = condition is None or not (predicate.node is None or condition.unknown or condition.meets_zero_or_nan)
    options = {} if is_known and not scan.untrusted else dict(NO_FILTERS)
    has_floats = any(isinstance(part, FloatType | DoubleType) for part in iter_types(schema))
    if condition is not None and has_floats and (condition.meets_zero_or_nan or not predicate.follows_bounds):
        options |= NO_BOUNDS
    if scan.native:
        try:
            paths = [plan.path for plan in scan.native]
            frames.append(scan_natively(spark, snapshot, paths, schema, options))
        except CannotPush as error:
            log.warning("all files are read by Python tasks: %s", error)
            scan.require_tasks(error)
            others = [*scan.native, *others]
    if others:
        frames.append(read_in_tasks(spark, snapshot, others, schema, predicate.rows, storage_options))
    return reduce(lambda one, other: one.unionAll(other), frames) if frames else None
