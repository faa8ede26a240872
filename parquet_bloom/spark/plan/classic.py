"""Pruning in classic sessions: the plan stays as it is, over the files that can have matching rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from ...errors import ParquetBloomError, first_line
from ...file.reader import BloomFile
from ...predicate import tree
from ...predicate.tree import Contains
from ...redaction import redacted
from ...scan.report import PruneReport
from ...storage import open_source
from ..condition.from_catalyst import PushedPredicate, read_filters
from ..scan.parquet_columns import Rules, refuse_field_ids
from ..scan.planner import ScanPlanner
from ..scan.scan import Scan
from ..scan.trust import SparkCompatibility
from ..session.fallback import CannotPush, log
from ..session.fields import find_leaves
from ..session.jvm import Jvm
from .catalyst_plan import Listing, ParquetScan, find_scans, inline_tables, replace_relations
from .current_time import drop_time_conditions
from .native_row_groups import make_row_group_scan

_JVM_ERRORS = (Py4JError, PySparkException)  # pyspark converts some exceptions of the JVM to its own

MIN_SKIPPED_ROWS = 5_000_000
"""Number of rows that must be skipped for exact row groups to be worth their planning and additional tasks."""

NO_FILTERS = {"parquet.filter.bloom.enabled": "false"}


@dataclass
class _PlannedScan:
    """One scan of a plan, with its files and the decision about each."""

    scan: ParquetScan
    predicate: PushedPredicate
    listing: Listing
    result: Scan


@dataclass
class ClassicPlan:
    """The scans of a DataFrame, and the files that pruning selects for each.

    Parameters
    ----------
    frame : the DataFrame, including its conditions.
    planner : planner that decides which files and row groups are read.

    Attributes
    ----------
    doubts : reasons that scans are not pruned.
    """

    frame: DataFrame
    planner: ScanPlanner
    doubts: list[str] = field(default_factory=list)
    _planned: list[_PlannedScan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._jvm = Jvm(self.frame.sparkSession)
        self._inlined = self.frame
        for scan in self._find_scans():
            try:
                planned = self._evaluate(scan)
            except (CannotPush, ParquetBloomError, *_JVM_ERRORS) as error:
                self._fall_back(error)
            else:
                self._planned.append(planned)

    def _find_scans(self) -> list[ParquetScan]:
        try:
            refuse_field_ids(self.frame.sparkSession)
            if self.frame.isStreaming:
                self._fall_back(CannotPush("the DataFrame is a stream"))
                return []
            plan = self.frame._jdf.queryExecution().analyzed()
            if not plan.deterministic() or "Sample" in self._jvm.list_nodes(plan)[1]:
                # The result of rand(7) for a row, or whether a sample has it, depends on the rows that are read before.
                self._fall_back(CannotPush("a part of the query is not a plain function of a row"))
                return []
            self._inlined = inline_tables(self._jvm, self.frame)
            scans = find_scans(self._jvm, drop_time_conditions(self._jvm, self._inlined))
        except (CannotPush, *_JVM_ERRORS) as error:
            self._fall_back(error)
            return []
        return scans

    def _fall_back(self, error: Exception) -> None:
        self.doubts.append(format_error(error))
        log.warning("all files are read: %s", self.doubts[-1])

    def _evaluate(self, scan: ParquetScan) -> _PlannedScan:
        predicate = read_predicate(self._jvm, scan.filters, scan.schema)
        listing = scan.list_files()
        result = evaluate_files(self._jvm, predicate, listing, scan.options, self.planner)
        return _PlannedScan(scan, predicate, listing, result)

    @property
    def reports(self) -> list[PruneReport]:
        """The report of each scan."""
        return [planned.result.report for planned in self._planned]

    def restrict(self) -> DataFrame:
        """Return the DataFrame over the files that can have matching rows."""
        new = []
        for planned in self._planned:
            try:
                relation = self._restrict(planned)
            except (CannotPush, *_JVM_ERRORS) as error:
                self._fall_back(error)
                continue
            if relation is not None:
                new.append((planned.scan.logical, relation))
        if not new:
            return self.frame
        try:
            return replace_relations(self._jvm, self._inlined, new)
        except _JVM_ERRORS as error:
            self._fall_back(error)
            return self.frame

    def _restrict(self, planned: _PlannedScan) -> Any:
        """Return the relation that replaces that of a scan, or None to leave it unchanged."""
        selected = [i for i, file in enumerate(planned.result.report.files) if file.selected]
        # Spark's own probes cannot rely on the filters if they may lack some forms of zero and NaN, or are wrong.
        trusted = not (planned.result.untrusted or planned.predicate.meets_zero_or_nan)
        options = {} if trusted else NO_FILTERS
        if selected and self._reads_row_groups(planned):
            try:
                report = planned.result.report
                cache = self.planner.footers
                return make_row_group_scan(
                    planned.scan, planned.listing, report.files, options, report.filesystem, cache
                )
            except (CannotPush, *_JVM_ERRORS) as error:
                log.warning("whole files are read, not row groups: %s", format_error(error))
        if trusted and len(selected) > self.planner.max_fraction * len(planned.listing.uris):
            return None
        return planned.scan.restrict(planned.listing, selected, options)

    def _reads_row_groups(self, planned: _PlannedScan) -> bool:
        """Return True if exact row groups are to be read instead of whole files."""
        report = planned.result.report
        files = [file for file in report.files if file.selected]
        total, selected = sum(len(file.row_groups) for file in files), report.selected_row_groups
        if self.planner.row_groups != "auto":
            return self.planner.row_groups and selected < total
        skipped_rows = sum(group.num_rows for file in files for group in file.row_groups if not group.read)
        if 2 * selected > total or skipped_rows < MIN_SKIPPED_ROWS:
            return False
        try:
            with open_source(files[0].path, report.filesystem) as source:
                return _exceeds_spark(planned.predicate, BloomFile(source, self.planner.footers))
        except ParquetBloomError:
            return False


def read_predicate(
    jvm: Jvm, filters: Any, schema: StructType, columns: frozenset[str] | None = None
) -> PushedPredicate:
    """Read the predicate that files are pruned by from the filters of a scan.

    Parameters
    ----------
    filters : Scala's Seq of expressions over the files' columns, all of which hold for every row of the result.
    schema : the schema that the files are read with.
    columns : columns whose conditions are used; None for all.

    Raises
    ------
    CannotPush
        Pruning cannot use any of the filters.
    """
    predicate = read_filters(jvm, filters, schema)
    if columns is not None:
        predicate = predicate.restrict_to(columns)
    if predicate.node is None:
        reasons = "; ".join(predicate.unknown)
        raise CannotPush(reasons or "neither statistics nor filters can answer the condition")
    if predicate.unknown:
        log.info("left to Spark alone: %s", "; ".join(predicate.unknown))
    return predicate


def evaluate_files(
    jvm: Jvm, predicate: PushedPredicate, listing: Listing, options: Mapping[str, str], planner: ScanPlanner
) -> Scan:
    """Evaluate a predicate on the statistics and filters of the files of a scan.

    Parameters
    ----------
    options : options of the reader.

    Raises
    ------
    CannotPush
        The predicate has nothing that can be evaluated.
    """
    if predicate.node is None:
        raise CannotPush("the condition has nothing that can be evaluated")
    compatibility = SparkCompatibility.of(predicate.fields, Rules.of(jvm.spark, options))
    return planner.scan(
        jvm.spark, listing.uris, predicate.node, compatibility, options=options, states=lambda: listing.states
    )


def _exceeds_spark(predicate: PushedPredicate, file: BloomFile) -> bool:
    """Return True if the predicate has a column by which Spark's own tasks cannot skip row groups."""
    assert predicate.node is not None
    for leaf in tree.leaves(predicate.node):
        field = predicate.fields[leaf.column]
        if isinstance(leaf, Contains) or isinstance(field.type, TimestampNTZType):
            return True
        if isinstance(field.type, TimestampType):
            leaves = find_leaves(file.leaves, field, ignore_case=True)
            if any(leaf.physical == "INT96" for leaf in leaves):
                return True
    return False


def format_error(error: Exception) -> str:
    """Format an error in one line; Java exceptions without their stack trace."""
    if isinstance(error, Py4JError) and getattr(error, "java_exception", None) is not None:
        return redacted(str(error.java_exception.toString())).splitlines()[0]
    return first_line(error)
