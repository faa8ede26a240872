"""Reading with Spark: only the files, or exactly the row groups, that can hold a match."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import ParquetBloomError, PredicateError
from ..file.cache.memory import MetadataCache
from ..predicate import parse
from ..predicate.tree import all_of
from ..scan.report import PruneReport
from .condition.condition import Condition, as_condition, filter_frame, read_condition
from .plan.classic import ClassicPlan
from .plan.connect import find_source, replace_source
from .plan.open import open_paths, refuse_table, resolve_names
from .plan.reread import Reread
from .scan.lake_index import Index, opened_index
from .scan.planner import ProbeOn, ScanPlanner
from .session.fallback import CannotPush, log
from .session.fields import select_columns
from .session.jvm import is_classic
from .session.paths import path_list


def read_parquet(
    spark: SparkSession,
    path: Any,
    where: Any = None,
    *,
    schema: StructType | str | None = None,
    base_path: str | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    index: Index | None = None,
    **options: Any,
) -> DataFrame:
    """Read Parquet files with Spark, but only those that can hold a row that matches.

    The files' statistics and Bloom filters are asked before Spark scans anything; the DataFrame is Spark's own scan of
    the files that are left, under the same predicate, so that its tasks skip row groups as well.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : what `spark.read.parquet` takes, or a list of that. A path that exists is never taken for a pattern.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything.
    schema : as for `spark.read.schema`.
    base_path : the folder that partitions begin at; None for the path itself.
    columns : names of the columns wanted; None for all.
    storage_options, probe_on, max_fraction, row_groups, cache, index : see `pruned`.
    **options : as for `spark.read.options`.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.parquet(path).where(where)`. Where anything is in doubt, it is that
        very DataFrame, and the logger `parquet_bloom.spark` says why; it also is when most of the files are left.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column is named that is not there.
    ManagedTableError
        The path lies in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        There is no such path, or no index where one is said to be.
    BrokenIndexError
        The index is not as it was written.
    """
    probing = ScanPlanner(probe_on, max_fraction, cache, storage_options, row_groups, fresh=True)
    paths = path_list(path)
    if base_path is not None:
        options["basePath"] = os.fsdecode(base_path)
    for one in paths:
        refuse_table(spark, one, storage_options)
    frame = open_paths(spark, "parquet", paths, schema, options)
    names = resolve_names(frame, columns)
    if where is None:
        return select_columns(frame, names)
    with opened_index(index, storage_options) as lake_index:
        probing = replace(probing, index=lake_index)
        return _pruned(frame, where, probing, names, Reread(frame, paths, options))


def pruned(
    df: DataFrame,
    where: Any,
    *,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """`df.where(where)`, reading only the files that can hold a row that matches.

    In classic sessions `df` may be any DataFrame, of tables, views and joins too: each scan of Parquet files in its
    plan for which Spark itself finds a condition is narrowed. In Spark Connect it has to be a plain
    `spark.read.parquet`, with or without conditions of its own.

    Parameters
    ----------
    df : the DataFrame; it is not changed.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists.
    probe_on : where the files are asked: on the "driver", by threads, or on the "executors", by a job of Spark's;
        "auto" takes the driver, unless it does not see the files.
    max_fraction : if more than this fraction of the files is left, all are read: opening them costs little more then.
    row_groups : whether exactly the row groups are read that can hold a match; "auto" where Spark itself cannot skip
        them (INT96 and timestamp_ntz columns, elements of arrays), few are left, and many rows are spared by it. Such
        a DataFrame knows no `_metadata` column, nor columns that `df` leaves out: to name one later is an error.
    cache : footers that are known, and to which those read now are added; None for those that the process shares.
    storage_options : settings of the files' store, as for `parquet_bloom.prune`; without any, Spark's own are used in
        classic sessions.
    index : an index of the lake that the files are in, as its folder or open. Files that it rules out are not looked
        into, nor read. It is asked about files that are what they were when they were indexed, by columns that Spark
        reads as they are stored.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `df.where(where)`. Where anything is in doubt it is that DataFrame, and the logger
        `parquet_bloom.spark` says why.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column is named that is not there.
    StorageError
        There is no index where one is said to be.
    BrokenIndexError
        The index is not as it was written.
    """
    probing = ScanPlanner(probe_on, max_fraction, cache, storage_options, row_groups)
    check_frame(df)
    with opened_index(index, storage_options) as lake_index:
        return _pruned(df, where, replace(probing, index=lake_index), df.columns, None)


def explain_prune(
    df: DataFrame,
    where: Any,
    *,
    probe_on: ProbeOn = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> PruneReport:
    """What `pruned` finds: a decision for each file and row group, with its reason.

    Files in partitions that Spark itself passes over are not in it; those that an index rules out are, unopened.
    Parameters and errors are those of `pruned`.

    Raises
    ------
    PredicateError
        Spark does not understand the condition, or nothing can be asked of the files; the message says why.
    """
    probing = ScanPlanner(probe_on, cache=cache, storage_options=storage_options)
    check_frame(df)
    with opened_index(index, storage_options) as lake_index:
        return _explained(df, where, replace(probing, index=lake_index))


def _explained(df: DataFrame, where: Any, probing: ScanPlanner) -> PruneReport:
    if is_classic(df.sparkSession):
        plan = ClassicPlan(_filtered(df, where), probing)
        reports = plan.reports
        if not reports:
            raise PredicateError(f"no file can be asked: {'; '.join(plan.doubts)}")
        merged = reports[0]
        for report in reports[1:]:
            merged.files += report.files
            merged.requests += report.requests
            merged.bytes_read += report.bytes_read
        return merged
    try:
        reread, condition = _of_connect(df, where)
        return reread.scan(condition, probing)[0].report
    except CannotPush as doubt:
        raise PredicateError(f"no file can be asked: {doubt}") from None


def check_frame(df: Any) -> None:
    """Refuse what is no DataFrame.

    Raises
    ------
    ParquetBloomError
    """
    if not isinstance(df, DataFrame):
        raise ParquetBloomError(f"df is a Spark DataFrame, not {type(df).__name__}")


def _pruned(
    frame: DataFrame, where: Any, probing: ScanPlanner, names: Sequence[str], reread: Reread | None
) -> DataFrame:
    """The DataFrame under a condition; `reread` is what it reads, if that is known."""
    if is_classic(frame.sparkSession):
        return ClassicPlan(select_columns(_filtered(frame, where), names), probing).restrict()
    condition = read_condition(frame, where)
    try:
        if reread is None:
            source, whole = _of_connect(frame, where, condition)
            found = replace_source(frame, source.restrict(whole, probing, names))
        else:
            found = reread.restrict(condition, probing, names)
    except CannotPush as doubt:
        log.warning("all files are read: %s", doubt)
        found = frame
    return select_columns(found.where(condition.where), names)


def _of_connect(frame: DataFrame, where: Any, condition: Condition | None = None) -> tuple[Reread, Condition]:
    """What a Connect DataFrame reads, and all conditions on it.

    Raises
    ------
    Doubt
        It is no plain read, or a condition is no plain function of a row.
    """
    source = find_source(frame)
    reread = Reread(source.frame, source.paths, source.options)
    condition = condition or read_condition(frame, where)
    several = [condition, *(read_condition(source.frame, inner) for inner in source.conditions)]
    for one in several:
        if one.is_nondeterministic:
            raise CannotPush(one.problem)
    known = [one for one in several if one.node is not None]
    if not known:
        return reread, condition
    node = all_of(one.node for one in known if one.node is not None)
    fields = {name: item for one in known for name, item in (one.fields or {}).items()}
    unknown = tuple(text for one in several for text in (one.unknown or ((one.problem,) if one.node is None else ())))
    return reread, replace(known[0], where=condition.where, node=node, fields=fields, unknown=unknown)


def _filtered(frame: DataFrame, where: Any) -> DataFrame:
    """The DataFrame under a condition, checked by Spark."""
    return filter_frame(frame, where if isinstance(where, str | Column) else as_condition(frame, parse(where))[0])
