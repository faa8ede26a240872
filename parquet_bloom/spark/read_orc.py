"""Reading ORC files with Spark: only those that can hold a match."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .condition.condition import Condition, read_condition
from .condition.for_orc import adapt_to_orc
from .partitions.layout import Layout
from .plan.open import open_paths, refuse_table, resolve_names
from .plan.reread import Reread
from .scan.orc_columns import OrcCompatibility, file_column_names, refuse_settings
from .scan.parquet_columns import Rules
from .scan.planner import ProbeOn, ScanPlanner
from .session.fallback import CannotPush, log
from .session.fields import Field, select_columns
from .session.paths import path_list
from .session.settings import ignores_case


def read_orc(
    spark: SparkSession,
    paths: Any,
    where: Any = None,
    *,
    schema: StructType | str | None = None,
    base_path: str | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    **options: Any,
) -> DataFrame:
    """Read ORC files with Spark, but only those that can hold a matching row.

    The files' statistics and Bloom filters are evaluated before Spark scans anything; the DataFrame is Spark's own scan
    of the remaining files, under the same predicate, so that its tasks skip row groups as well. If a probed filter is
    broken, or the condition is about zero, NaN, or a day before 1582-10-15, its tasks skip nothing: they would lose
    rows. Timestamps are compared with statistics alone: ORC stores wall clocks, and each JVM's time zone decides which
    instants they are.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : as for `spark.read.orc`, or a list of paths. An existing path is never treated as a pattern.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything.
    schema : as for `spark.read.schema`.
    base_path : the folder below which partition folders begin; None for the path itself.
    columns : names of the columns to return; None for all.
    storage_options, probe_on, max_fraction : see `pruned`.
    **options : as for `spark.read.options`, including `mergeSchema`.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.orc(path).where(where)`. In case of doubt it is that DataFrame, and the
        logger `parquet_bloom.spark` says why; so it is when most of the files remain.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column does not exist.
    ManagedTableError
        The path is in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        The path does not exist.
    """
    planner = ScanPlanner(probe_on, max_fraction, None, storage_options, False, fresh=True)
    paths = path_list(paths)
    if base_path is not None:
        options["basePath"] = os.fsdecode(base_path)
    for single_path in paths:
        refuse_table(spark, single_path, storage_options)
    frame = open_paths(spark, "orc", paths, schema, options)
    names = resolve_names(frame, columns)
    if where is None:
        return select_columns(frame, names)
    stored = adapt_to_orc(read_condition(frame, where))
    try:
        pruned_frame = _OrcReread(frame, paths, options, misleads=stored.misleads).restrict(
            stored.condition, planner, names
        )
    except CannotPush as doubt:
        log.warning("all files are read: %s", doubt)
        pruned_frame = _disable_pushdown(frame) if stored.misleads else frame
    return select_columns(pruned_frame.where(stored.condition.where), names)


@dataclass
class _OrcReread(Reread):
    """A DataFrame that is known to read some paths of ORC files and nothing else.

    Attributes
    ----------
    misleads : whether Spark's tasks lose rows if the condition is pushed to them.
    """

    misleads: bool = False

    def find_compatibility(self, fields: Mapping[str, Field], layout: Layout) -> OrcCompatibility:
        compatibility = OrcCompatibility.of(fields, Rules(ignores_case(self.spark)))
        return OrcCompatibility(
            compatibility.fields, compatibility.rules, file_column_names(self.schema.names, layout.columns)
        )

    def check_settings(self) -> None:
        refuse_settings(self.spark, self.options)

    def restrict(self, condition: Condition, planner: ScanPlanner, names: Sequence[str]) -> DataFrame:
        scan, layout = self.scan(condition, planner)
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        unsafe = scan.untrusted or self.misleads
        if not unsafe and report.selected_files > planner.max_fraction * report.total_files:
            return self.frame
        frame = self.read("orc", list(report.selected), layout, {})
        return _disable_pushdown(frame) if unsafe else frame


def _disable_pushdown(frame: DataFrame) -> DataFrame:
    """Return a DataFrame to whose scans Spark pushes no conditions.

    No option of a reader keeps Spark's tasks from probing the filters of ORC files, and a setting of the session would
    apply to all queries. Spark does not move a condition past a nondeterministic one; this one is always true.
    """
    return frame.where(F.spark_partition_id() >= 0)
