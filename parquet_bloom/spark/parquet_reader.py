"""Reading Parquet files with Spark: only the files, or exactly the row groups, that can hold a match."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import ParquetBloomError, PredicateError
from ..file.metadata_cache import MetadataCache
from ..predicate import parse
from ..predicate.tree import all_of
from ..scan.plan_report import PruneReport
from .condition.condition import Condition, as_condition, filter_frame, read_condition
from .plan.classic_session import ClassicPlan
from .plan.connect_session import find_source, replace_source
from .plan.index_evidence import Index, use_index
from .plan.lake_paths import open_paths, refuse_table, resolve_names
from .plan.reread import Reread
from .plan.spark_planner import ProbeOn, ScanPlanner
from .session.jvm import is_classic
from .session.session_settings import CannotPush, log, path_list, select_columns

if TYPE_CHECKING:
    from ..util.given_types import Paths, Predicate


def read_parquet(
    spark: SparkSession,
    paths: Paths,
    where: Column | Predicate | None = None,
    *,
    schema: StructType | str | None = None,
    base_path: str | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    index: Index | None = None,
    **options: Any,
) -> DataFrame:
    """Read Parquet files with Spark, but only those that can hold a matching row.

    The files' statistics and Bloom filters are evaluated before Spark scans anything; the DataFrame is Spark's own scan
    of the remaining files, under the same predicate, so that its tasks skip row groups as well.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : as for `spark.read.parquet`, or a list of paths. An existing path is never treated as a pattern.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything.
    schema : as for `spark.read.schema`.
    base_path : the folder below which partition folders begin; None for the path itself.
    columns : names of the columns to return; None for all.
    storage_options, probe_on, max_fraction, row_groups, cache, index : see `pruned`.
    **options : as for `spark.read.options`.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.parquet(path).where(where)`. In case of doubt it is that DataFrame, and
        the logger `parquet_bloom.spark` says why; so it is when most of the files remain.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column does not exist.
    ManagedTableError
        The path is in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        The path or the index does not exist.
    BrokenIndexError
        The index is corrupt.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.read_parquet(spark, "lake", "id = 1401181143").show()  # doctest: +SKIP
    """
    planner = ScanPlanner(probe_on, max_fraction, cache, storage_options, row_groups, fresh=True)
    paths = path_list(paths)
    if base_path is not None:
        options["basePath"] = os.fsdecode(base_path)
    for single_path in paths:
        refuse_table(spark, single_path, storage_options)
    frame = open_paths(spark, "parquet", paths, schema, options)
    names = resolve_names(frame, columns)
    if where is None:
        return select_columns(frame, names)
    with use_index(index, storage_options) as lake_index:
        planner = replace(planner, index=lake_index)
        return _prune(frame, where, planner, names, Reread(frame, paths, options))


def pruned(
    df: DataFrame,
    where: Column | Predicate,
    *,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, object] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Return `df.where(where)`, reading only the files that can hold a matching row.

    In classic sessions `df` may be any DataFrame, including tables, views and joins: each scan of Parquet files in its
    plan to which Spark itself pushes a condition is restricted. In Spark Connect it must be a plain
    `spark.read.parquet`, optionally with conditions.

    Parameters
    ----------
    df : the DataFrame; it is not changed.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists.
    probe_on : where the files are evaluated: on the "driver", by threads, or on the "executors", by a Spark job;
        "auto" takes the driver, unless it cannot see the files.
    max_fraction : if more than this fraction of the files remains, all are read: skipping the others would save little.
    row_groups : whether exactly the row groups that can hold a match are read; "auto" where Spark itself cannot skip
        them (INT96 and timestamp_ntz columns, elements of arrays), few remain, and that saves many rows. Such a
        DataFrame has no `_metadata` column, nor columns that `df` leaves out: to name one later is an error.
    cache : cache of footers, to which those read now are added; None for the cache that the process shares.
    storage_options : settings of the files' store, as for `parquet_bloom.prune`; without any, Spark's own are used in
        classic sessions.
    index : an index of the lake that the files are in: its folder, or an open one. Files that it excludes are neither
        opened nor read. It is used for files that have not changed since they were indexed, and for columns that Spark
        reads as they are stored.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `df.where(where)`. In case of doubt it is that DataFrame, and the logger
        `parquet_bloom.spark` says why.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column does not exist.
    StorageError
        The index does not exist.
    BrokenIndexError
        The index is corrupt.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.pruned(spark.read.parquet("lake"), "id = 1401181143").count()  # doctest: +SKIP
    """
    planner = ScanPlanner(probe_on, max_fraction, cache, storage_options, row_groups)
    check_frame(df)
    with use_index(index, storage_options) as lake_index:
        return _prune(df, where, replace(planner, index=lake_index), df.columns, None)


def explain_prune(
    df: DataFrame,
    where: Column | Predicate | None = None,
    *,
    probe_on: ProbeOn = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, object] | None = None,
    index: Index | None = None,
) -> PruneReport:
    """Report what `pruned` would do: a decision for each file and row group, with its reason.

    `print(report)` has the totals, `print(report.explain())` the decisions. The report leaves out files in partitions
    that Spark itself skips, and includes those that an index excludes, as unopened. Parameters and errors are those of
    `pruned`; without `where` the conditions are those that the DataFrame has itself.

    Raises
    ------
    PredicateError
        Spark does not understand the condition, or it cannot be evaluated on the files; the message says why.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> print(bloom.explain_prune(spark.read.parquet("lake"), "id = 1401181143").explain())  # doctest: +SKIP
    """
    planner = ScanPlanner(probe_on, cache=cache, storage_options=storage_options)
    check_frame(df)
    with use_index(index, storage_options) as lake_index:
        return _explain(df, "true" if where is None else where, replace(planner, index=lake_index))


def _explain(df: DataFrame, where: Any, planner: ScanPlanner) -> PruneReport:
    if is_classic(df.sparkSession):
        plan = ClassicPlan(_filter(df, where), planner)
        reports = plan.reports
        if not reports:
            doubts = "; ".join(plan.doubts) or "it names no column of Parquet files"
            raise PredicateError(f"the condition cannot be evaluated on any file: {doubts}")
        merged = reports[0]
        for report in reports[1:]:
            merged.files += report.files
            merged.requests += report.requests
            merged.bytes_read += report.bytes_read
        return merged
    try:
        reread, condition = _resolve_connect(df, where)
        return reread.scan(condition, planner)[0].report
    except CannotPush as error:
        raise PredicateError(f"the condition cannot be evaluated on any file: {error}") from None


def check_frame(df: Any) -> None:
    """Raise unless the argument is a DataFrame.

    Raises
    ------
    ParquetBloomError
    """
    if not isinstance(df, DataFrame):
        raise ParquetBloomError(f"df must be a Spark DataFrame, got {type(df).__name__}")


def _prune(
    frame: DataFrame, where: Any, planner: ScanPlanner, names: Sequence[str], reread: Reread | None
) -> DataFrame:
    """Return the DataFrame under a condition; `reread` is what the DataFrame reads, if that is known."""
    if is_classic(frame.sparkSession):
        return ClassicPlan(select_columns(_filter(frame, where), names), planner).restrict()
    condition = read_condition(frame, where)
    try:
        if reread is None:
            source, all_conditions = _resolve_connect(frame, where, condition)
            pruned_frame = replace_source(frame, source.restrict(all_conditions, planner, names))
        else:
            pruned_frame = reread.restrict(condition, planner, names)
    except CannotPush as error:
        log.warning("all files are read: %s", error)
        pruned_frame = frame
    return select_columns(pruned_frame.where(condition.where), names)


def _resolve_connect(frame: DataFrame, where: Any, condition: Condition | None = None) -> tuple[Reread, Condition]:
    """Return what a Connect DataFrame reads, and all conditions on it.

    Raises
    ------
    CannotPush
        It is not a plain read, or a condition is not a deterministic function of a row.
    """
    source = find_source(frame)
    reread = Reread(source.frame, source.paths, source.options)
    condition = condition or read_condition(frame, where)
    conditions = [condition, *(read_condition(source.frame, inner) for inner in source.conditions)]
    for item in conditions:
        if item.is_nondeterministic:
            raise CannotPush(item.problem)
    usable = [item for item in conditions if item.node is not None]
    if not usable:
        return reread, condition
    node = all_of(item.node for item in usable if item.node is not None)
    fields = {name: field for item in usable for name, field in (item.fields or {}).items()}
    skipped = tuple(
        text for item in conditions for text in (item.unknown or ((item.problem,) if item.node is None else ()))
    )
    return reread, replace(usable[0], where=condition.where, node=node, fields=fields, unknown=skipped)


def _filter(frame: DataFrame, where: Any) -> DataFrame:
    """Return the DataFrame under a condition that Spark has checked."""
    return filter_frame(frame, where if isinstance(where, str | Column) else as_condition(frame, parse(where))[0])
