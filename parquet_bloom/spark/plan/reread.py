"""Pruning without access to a plan, as in Spark Connect: the selected files are read anew, in the same way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...errors import ParquetBloomError
from ...predicate import tree
from ..condition.condition import Condition
from ..exact_row_groups import RowGroupColumns, read_row_groups
from ..session.session_settings import (
    CannotPush,
    SparkField,
    file_uri,
    ignores_case,
    listed_path,
    log,
    select_columns,
    setting,
)
from ..spark_partitions import Layout, find_layout, find_partition_values
from .column_trust import Rules, SparkCompatibility, refuse_field_ids
from .spark_planner import ListedFiles, PlannedScan, ScanPlanner

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_listing_lock = threading.Lock()


@dataclass
class Reread:
    """A DataFrame that reads some paths and nothing else.

    Attributes
    ----------
    frame : the DataFrame, with all rows of the paths.
    paths, options : arguments of the reader.
    """

    frame: DataFrame
    paths: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.frame.sparkSession

    @property
    def schema(self) -> StructType:
        """The schema of the DataFrame."""
        return self.frame.schema

    def find_compatibility(self, fields: Mapping[str, SparkField], layout: Layout) -> SparkCompatibility:
        """Return how Spark reads the columns of the files.

        Parameters
        ----------
        fields : the columns of the condition, by their names in it.
        """
        return SparkCompatibility.of(fields, Rules.of(self.spark, self.options))

    def check_settings(self) -> None:
        """Raise CannotPush if Spark finds the columns of files by rules that are not supported here."""
        refuse_field_ids(self.spark)

    def scan(self, condition: Condition, planner: ScanPlanner) -> tuple[PlannedScan, Layout]:
        """Decide for each file whether it can have matching rows.

        Raises
        ------
        CannotPush
            The condition, the session or the paths do not allow pruning.
        """
        if condition.node is None or condition.fields is None:
            raise CannotPush(condition.problem)
        self.check_settings()
        ignore_case = ignores_case(self.spark)
        uris = self.frame.inputFiles()
        try:
            layout = find_layout(sorted(map(listed_path, uris)), self.paths, self.options, self.schema, ignore_case)
            in_files = {name: item for name, item in condition.fields.items() if item.path[0] not in layout.columns}
            compatibility = self.find_compatibility(in_files, layout)
            files = list(map(listed_path, uris))
            node, values = find_partition_values(condition.node, condition.fields, layout, self.schema, files)
            if node is None:
                raise CannotPush("the values of partition columns are not certain")
            listed = ListedFiles(uris, {name: str(value) for name, value in self.options.items()})
            scan = planner.scan(self.spark, listed, node, compatibility, values)
            # By the paths that layout and Spark's reader know, whatever they are called in the store.
            decisions = zip(uris, scan.report.files, strict=True)
            scan.report.files = [replace(decision, path=listed_path(uri)) for uri, decision in decisions]
        except ParquetBloomError as error:
            raise CannotPush(str(error)) from error
        return scan, layout

    def restrict(self, condition: Condition, planner: ScanPlanner, names: Sequence[str]) -> DataFrame:
        """Return a DataFrame with all matching rows and as few others as possible; the condition is not applied.

        Raises
        ------
        CannotPush
            The files cannot be pruned.
        """
        scan, layout = self.scan(condition, planner)
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        is_selective = 2 * report.selected_row_groups <= report.total_row_groups
        if planner.row_groups is True and not scan.unreadable and is_selective:
            try:
                return self._row_groups(scan, condition, layout, names)
            except CannotPush as error:
                log.warning("whole files are read, not row groups: %s", error)
        # Spark's own probes cannot rely on the filters if they may lack some forms of zero and NaN, or are wrong.
        trusted = not (scan.untrusted or condition.meets_zero_or_nan)
        if trusted and report.selected_files > planner.max_fraction * report.total_files:
            return self.frame
        return self._files(list(report.selected), layout, trusted)

    def _files(self, files: Sequence[str], layout: Layout, trusted: bool) -> DataFrame:
        options = {} if trusted else {"parquet.filter.bloom.enabled": "false"}
        return self.read("parquet", files, layout, options)

    def read(self, kind: str, files: Sequence[str], layout: Layout, options: Mapping[str, str]) -> DataFrame:
        """Return Spark's scan of some of the files.

        Parameters
        ----------
        kind : format of the files.
        options : further options of the reader.

        Raises
        ------
        CannotPush
            Spark infers another schema from them.
        """
        reader = self.spark.read.schema(self.schema).options(**self.options).options(**options)
        if layout.base_path is not None and not any(name.lower() == "basepath" for name in self.options):
            reader = reader.option("basePath", layout.base_path)
        with listed_by_driver(self.spark, len(files)):
            frame = reader.format(kind).load(list(map(file_uri, files)))
            frame = select_columns(frame, self.schema.names)
            is_same = frame.schema == self.schema
        if not is_same:
            raise CannotPush("Spark infers another schema from some of the files than from all")
        return frame

    def _row_groups(self, scan: PlannedScan, condition: Condition, layout: Layout, names: Sequence[str]) -> DataFrame:
        assert condition.node is not None
        assert condition.fields is not None
        rules = Rules.of(self.spark, self.options)
        columns = {condition.fields[name].path[0] for name in tree.columns(condition.node)}
        fields = [item for item in self.schema.fields if item.name in columns.union(names)]
        in_files = [item for item in fields if item.name not in layout.columns]
        in_folders = [self.schema[name] for name in layout.columns]
        shown = RowGroupColumns(in_files, in_folders, [item.name for item in fields])
        return read_row_groups(self.spark, scan.report.selected, layout.values, shown, rules)


@contextmanager
def listed_by_driver(spark: SparkSession, num_paths: int) -> Iterator[None]:
    """Keep Spark from starting a job to list known files, by a setting that is restored afterwards."""
    with _listing_lock:
        previous = spark.conf.get(_LISTING, None)
        if num_paths <= int(setting(spark, _LISTING) or 0):
            yield
            return
        spark.conf.set(_LISTING, str(num_paths))
        try:
            yield
        finally:
            if previous is None:
                spark.conf.unset(_LISTING)
            else:
                spark.conf.set(_LISTING, previous)
