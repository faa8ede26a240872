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
from .scan.orc_columns import OrcTrust, names_by_place, refuse_settings
from .scan.parquet_columns import Rules
from .scan.planner import ProbeOn, ScanPlanner
from .session.fallback import CannotPush, log
from .session.fields import Field, select_columns
from .session.paths import path_list
from .session.settings import ignores_case


def read_orc(
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
    **options: Any,
) -> DataFrame:
    """Read ORC files with Spark, but only those that can hold a row that matches.

    The files' statistics and Bloom filters are asked before Spark scans anything; the DataFrame is Spark's own scan of
    the files that are left, under the same predicate, so that its tasks skip row groups as well. Where filters that
    were asked are broken, and where zero, NaN, or a day before 1582-10-15 is looked for, its tasks skip nothing: they
    would lose rows. Timestamps are found by statistics alone: ORC stores wall clocks, and each JVM's zone tells which
    instants they are.

    Parameters
    ----------
    spark : the session, classic or Connect.
    path : what `spark.read.orc` takes, or a list of that. A path that exists is never taken for a pattern.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything.
    schema : as for `spark.read.schema`.
    base_path : the folder that partitions begin at; None for the path itself.
    columns : names of the columns wanted; None for all.
    storage_options, probe_on, max_fraction : see `pruned`.
    **options : as for `spark.read.options`, `mergeSchema` among them.

    Returns
    -------
    pyspark.sql.DataFrame
        Rows and schema are those of `spark.read.orc(path).where(where)`. Where anything is in doubt, it is that very
        DataFrame, and the logger `parquet_bloom.spark` says why; it also is when most of the files are left.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        A column is named that is not there.
    ManagedTableError
        The path lies in a Delta, Iceberg or Hudi table: its old files would return removed rows.
    StorageError
        There is no such path.
    """
    probing = ScanPlanner(probe_on, max_fraction, None, storage_options, False, fresh=True)
    paths = path_list(path)
    if base_path is not None:
        options["basePath"] = os.fsdecode(base_path)
    for one in paths:
        refuse_table(spark, one, storage_options)
    frame = open_paths(spark, "orc", paths, schema, options)
    names = resolve_names(frame, columns)
    if where is None:
        return select_columns(frame, names)
    asked = adapt_to_orc(read_condition(frame, where))
    try:
        found = _OrcReread(frame, paths, options, misleads=asked.misleads).restrict(asked.condition, probing, names)
    except CannotPush as doubt:
        log.warning("all files are read: %s", doubt)
        found = _unskipped(frame) if asked.misleads else frame
    return select_columns(found.where(asked.condition.where), names)


@dataclass
class _OrcReread(Reread):
    """A DataFrame that is known to read some paths of ORC files, and nothing else.

    Attributes
    ----------
    misleads : whether Spark's tasks lose rows if they are told of the condition.
    """

    misleads: bool = False

    def find_compatibility(self, fields: Mapping[str, Field], layout: Layout) -> OrcTrust:
        given = OrcTrust.of(fields, Rules(ignores_case(self.spark)))
        return OrcTrust(given.fields, given.rules, names_by_place(self.schema.names, layout.columns))

    def check_settings(self) -> None:
        refuse_settings(self.spark, self.options)

    def restrict(self, condition: Condition, planner: ScanPlanner, names: Sequence[str]) -> DataFrame:
        scan, layout = self.scan(condition, planner)
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        misled = scan.untrusted or self.misleads
        if not misled and report.selected_files > planner.max_fraction * report.total_files:
            return self.frame
        frame = self.read("orc", list(report.selected), layout, {})
        return _unskipped(frame) if misled else frame


def _unskipped(frame: DataFrame) -> DataFrame:
    """A DataFrame whose scans are told of no conditions that are put on it.

    No reader's option keeps Spark's tasks from asking filters of ORC files, and a setting of the session would hold for
    all. A condition is not moved past another that is no plain function of a row; this one is true of all.
    """
    return frame.where(F.spark_partition_id() >= 0)
