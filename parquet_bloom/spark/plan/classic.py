"""Pruning in classic sessions: the plan stays as it is, over the files that can hold a match."""

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
from ..session.jvm import Jvm, class_name, nodes
from .catalyst_plan import Listing, ParquetScan, find_scans, replace_relations, with_tables_inlined
from .current_time import without_clock
from .native_row_groups import row_group_scan

_OF_JAVA = (Py4JError, PySparkException)  # pyspark turns the JVM's exceptions into its own

MIN_SKIPPED_ROWS = 5_000_000
"""Rows that Spark has to be spared for exact row groups to be worth their planning, and the tasks beside the scan."""

NO_FILTERS = {"parquet.filter.bloom.enabled": "false"}


@dataclass
class _Found:
    """What was found out about one scan of a plan."""

    scan: ParquetScan
    question: PushedPredicate
    listing: Listing
    judged: Scan


@dataclass
class ClassicPlan:
    """A DataFrame's scans, and what pruning makes of them.

    Parameters
    ----------
    frame : the DataFrame, its conditions included.
    probing : how files are asked.

    Attributes
    ----------
    doubts : why files are read all the same.
    """

    frame: DataFrame
    probing: ScanPlanner
    doubts: list[str] = field(default_factory=list)
    _found: list[_Found] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._jvm = Jvm(self.frame.sparkSession)
        self._inlined = self.frame
        for scan in self._scans():
            try:
                found = self._judge(scan)
            except (CannotPush, ParquetBloomError, *_OF_JAVA) as error:
                self._doubt(error)
            else:
                self._found.append(found)

    def _scans(self) -> list[ParquetScan]:
        try:
            refuse_field_ids(self.frame.sparkSession)
            if self.frame.isStreaming:
                self._doubt(CannotPush("the DataFrame is a stream"))
                return []
            plan = self.frame._jdf.queryExecution().analyzed()
            if not plan.deterministic() or any(class_name(node) == "Sample" for node in nodes(plan)):
                # What rand(7) gives to a row, or a sample takes, depends on the rows that are read before it.
                self._doubt(CannotPush("a part of the query is no plain function of a row"))
                return []
            self._inlined = with_tables_inlined(self._jvm, self.frame)
            scans = find_scans(self._jvm, without_clock(self._jvm, self._inlined))
        except (CannotPush, *_OF_JAVA) as error:
            self._doubt(error)
            return []
        return scans

    def _doubt(self, error: Exception) -> None:
        self.doubts.append(format_error(error))
        log.warning("all files are read: %s", self.doubts[-1])

    def _judge(self, scan: ParquetScan) -> _Found:
        question = read_predicate(self._jvm, scan.filters, scan.schema)
        listing = scan.listing()
        return _Found(scan, question, listing, evaluate_files(self._jvm, question, listing, scan.options, self.probing))

    @property
    def reports(self) -> list[PruneReport]:
        """What was found of each scan."""
        return [found.judged.report for found in self._found]

    def narrowed(self) -> DataFrame:
        """The DataFrame over the files that can hold a match."""
        new = []
        for found in self._found:
            try:
                relation = self._narrowed(found)
            except (CannotPush, *_OF_JAVA) as error:
                self._doubt(error)
                continue
            if relation is not None:
                new.append((found.scan.logical, relation))
        if not new:
            return self.frame
        try:
            return replace_relations(self._jvm, self._inlined, new)
        except _OF_JAVA as error:
            self._doubt(error)
            return self.frame

    def _narrowed(self, found: _Found) -> Any:
        """A relation in the place of one scan's; None where it is as well as it is."""
        kept = [place for place, decision in enumerate(found.judged.report.files) if decision.selected]
        # Spark may only trust filters as far as they can be: of zero and NaN other writers know one form of several.
        trusted = not (found.judged.untrusted or found.question.meets_zero_or_nan)
        options = {} if trusted else NO_FILTERS
        if kept and self._wants_row_groups(found):
            try:
                report = found.judged.report
                cache = self.probing.footers
                return row_group_scan(found.scan, found.listing, report.files, options, report.filesystem, cache)
            except (CannotPush, *_OF_JAVA) as error:
                log.warning("whole files are read, not row groups: %s", format_error(error))
        if trusted and len(kept) > self.probing.max_fraction * len(found.listing.uris):
            return None
        return found.scan.narrowed(found.listing, kept, options)

    def _wants_row_groups(self, found: _Found) -> bool:
        files = [decision for decision in found.judged.report.files if decision.selected]
        in_files, left = sum(len(file.row_groups) for file in files), found.judged.report.selected_row_groups
        if self.probing.row_groups != "auto":
            return self.probing.row_groups and left < in_files
        skipped = sum(one.num_rows for file in files for one in file.row_groups if not one.read)
        if 2 * left > in_files or skipped < MIN_SKIPPED_ROWS:
            return False
        try:
            with open_source(files[0].path, found.judged.report.filesystem) as source:
                return _beyond_spark(found.question, BloomFile(source, self.probing.footers))
        except ParquetBloomError:
            return False


def read_predicate(
    jvm: Jvm, filters: Any, schema: StructType, columns: frozenset[str] | None = None
) -> PushedPredicate:
    """What files are to be asked.

    Parameters
    ----------
    filters : what all rows hold that are wanted: Scala's Seq of expressions over the files' columns.
    schema : how the files are read.
    columns : those that are asked for; None for all.

    Raises
    ------
    Doubt
        There is nothing to ask.
    """
    question = read_filters(jvm, filters, schema)
    if columns is not None:
        question = question.about(columns)
    if question.node is None:
        reasons = "; ".join(question.unknown)
        raise CannotPush(reasons or "the condition says nothing that statistics or filters could answer")
    if question.unknown:
        log.info("left to Spark alone: %s", "; ".join(question.unknown))
    return question


def evaluate_files(
    jvm: Jvm, question: PushedPredicate, listing: Listing, options: Mapping[str, str], probing: ScanPlanner
) -> Scan:
    """Ask the files of a scan.

    Parameters
    ----------
    options : the reader's.

    Raises
    ------
    Doubt
        There is nobody who could be asked.
    """
    if question.node is None:
        raise CannotPush("there is nothing to ask")
    trust = SparkCompatibility.of(question.fields, Rules.of(jvm.spark, options))
    return probing.scan(jvm.spark, listing.uris, question.node, trust, options=options, states=lambda: listing.states)


def _beyond_spark(question: PushedPredicate, file: BloomFile) -> bool:
    """Whether a column is asked for that Spark's own tasks cannot skip by."""
    assert question.node is not None
    for leaf in tree.leaves(question.node):
        field = question.fields[leaf.column]
        if isinstance(leaf, Contains) or isinstance(field.type, TimestampNTZType):
            return True
        if isinstance(field.type, TimestampType):
            leaves = find_leaves(file.leaves, field, ignore_case=True)
            if any(leaf.physical == "INT96" for leaf in leaves):
                return True
    return False


def format_error(error: Exception) -> str:
    """An error in one line: of Java's, the exception without its stack."""
    if isinstance(error, Py4JError) and getattr(error, "java_exception", None) is not None:
        return redacted(str(error.java_exception.toString())).splitlines()[0]
    return first_line(error)
