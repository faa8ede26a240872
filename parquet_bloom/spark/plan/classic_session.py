"""Pruning in classic sessions: a file index in the place of Spark's, which leaves out files by their filters."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from ...errors import ParquetBloomError, first_line
from ...file.bloom_file import BloomFile
from ...predicate import tree
from ...predicate.tree import Contains, IsNotNull, MapLookup, VariantLookup
from ...redaction import redacted
from ...scan.plan_report import PruneReport
from ...storage import open_source
from ..condition.from_catalyst import PushedPredicate, read_filters
from ..exact_row_groups import RowGroupScan
from ..session.jvm import DATASOURCES, EXPRESSIONS, JVM_ERRORS, JavaObject, Jvm, iter_elements
from ..session.session_settings import CannotPush, find_leaves, log
from .catalyst_plan import (
    OUR_INDEXES,
    CatalystListing,
    find_listing,
    find_relations,
    find_spark_index,
    inline_tables,
    make_dataframe,
    read_file_schema,
    replace_index,
    replace_relations,
)
from .column_trust import Rules, SparkCompatibility, refuse_field_ids
from .spark_planner import ListedFiles, PlannedScan, ScanPlanner

MIN_SKIPPED_ROWS = 5_000_000
"""Number of rows that must be skipped for exact row groups to be worth their planning and additional tasks."""

NO_FILTERS = {"parquet.filter.bloom.enabled": "false"}

_NUMBERS = itertools.count()
_gateway_lock = threading.Lock()


@dataclass(frozen=True)
class _Decision:
    """The files of a scan that can have matching rows.

    Attributes
    ----------
    filters : the filters of the scan.
    listed, selected : the directories and files, all of them and those that are read.
    share : number of files that are read as a part of all files.
    """

    filters: JavaObject
    listed: JavaObject
    selected: JavaObject
    share: float
    predicate: PushedPredicate
    listing: CatalystListing
    result: PlannedScan

    @property
    def trusted(self) -> bool:
        """Whether Spark's own probes can rely on the filters: they may lack some forms of zero and NaN, or be wrong."""
        return not (self.result.untrusted or self.predicate.meets_zero_or_nan)


@dataclass(eq=False)
class BloomFileIndex:
    """Implementation of Spark's FileIndex in Python, called through py4j.

    Attributes
    ----------
    node, original : the relation in the analyzed plan that it is for, and its own index, which lists the files.
    planner : how the files are evaluated.
    columns : names of the columns whose conditions are evaluated; None for all.
    is_in_place : whether the plan with this index is complete.
    decisions : what was decided for scans before; it holds for all scans that have the same filters, and others.
    doubts : reasons that scans are not pruned.
    """

    jvm: Jvm
    node: JavaObject
    original: JavaObject
    planner: ScanPlanner
    columns: frozenset[str] | None = None
    is_in_place: bool = False
    decisions: list[_Decision] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        relation = self.node.relation()
        self.schema = read_file_schema(relation)
        self._options = self.jvm.mapping(relation.options())
        self._number = next(_NUMBERS)
        self._name = f"BloomFileIndex {self._number} over {self.original.toString()}"
        OUR_INDEXES[self._name] = self

    def listFiles(self, partition_filters: JavaObject, data_filters: JavaObject) -> JavaObject:
        """Return the directories and files to be read under the filters."""
        listed = self.original.listFiles(partition_filters, data_filters)
        for decision in self.decisions:
            if decision.filters.diff(data_filters).isEmpty() and decision.listed.equals(listed):
                return decision.selected
        try:
            if not data_filters.isEmpty():
                return self._decide(listed, data_filters, skips_not_null=True).selected
        except CannotPush as doubt:
            log.info("all files are read: %s", doubt)
        except Exception as error:  # raising would fail the query
            log.warning("all files are read: %s", format_error(error))
        except BaseException as error:
            # py4j reports only exceptions to the JVM: on any other error the JVM, and with it the session, would hang.
            raise ParquetBloomError(f"interrupted by {type(error).__name__} while files were evaluated") from None
        return listed

    def decide(self, scan: JavaObject) -> None:
        """Decide now, for good, which files a scan in a physical plan reads, or note why all of them."""
        filters = scan.dataFilters()
        has_subquery = self.jvm.package(f"{EXPRESSIONS}.SubqueryExpression").hasSubquery
        static = self.jvm.seq(item for item in iter_elements(scan.partitionFilters()) if not has_subquery(item))
        try:
            self.decisions.append(self._decide(self.original.listFiles(static, filters), filters))
        except (CannotPush, ParquetBloomError, *JVM_ERRORS) as error:
            self.doubts.append(format_error(error))

    def _decide(self, listed: JavaObject, filters: JavaObject, skips_not_null: bool = False) -> _Decision:
        refuse_field_ids(self.jvm.spark)
        predicate = read_predicate(self.jvm, filters, self.schema, self.columns)
        assert predicate.node is not None
        if skips_not_null and all(isinstance(leaf, IsNotNull) for leaf in tree.leaves(predicate.node)):
            # Spark adds this for every column in a join or an expression; few files have only nulls.
            raise CannotPush("the condition says only that columns are not null")
        listing = find_listing(self.jvm, self.original, listed)
        result = evaluate_files(self.jvm, predicate, listing, self._options, self.planner)
        decision = _Decision(filters, listed, listed, 1.0, predicate, listing, result)
        positions = [position for position, file_plan in enumerate(result.report.files) if file_plan.selected]
        share = len(positions) / max(1, len(listing.uris))
        if decision.trusted and share > self.planner.max_fraction:
            return decision
        return replace(decision, selected=self.jvm.seq(listing.select(positions)), share=share)

    def rootPaths(self) -> JavaObject:
        return self.original.rootPaths()

    def inputFiles(self) -> JavaObject:
        return self.original.inputFiles()

    def refresh(self) -> None:
        self.decisions.clear()
        self.original.refresh()

    def sizeInBytes(self) -> int:
        share = sum(decision.share for decision in self.decisions) if self.decisions else 1.0
        size: int = self.original.sizeInBytes()  # by which Spark decides what it broadcasts; may be the largest LONG
        return min(size, int(size * share))

    def partitionSchema(self) -> JavaObject:
        return self.original.partitionSchema()

    def isTimeTravel(self) -> bool:
        return False

    def metadataOpsTimeNs(self) -> JavaObject:
        return self.original.metadataOpsTimeNs()

    def toString(self) -> str:
        return self._name

    def equals(self, other: JavaObject) -> bool:
        if other is None:
            return False
        # Also equal to Spark's own index: that is how Spark detects that a query reads the table that it overwrites.
        # Not while the plan is rewritten: Spark keeps the old part of a plan if the new one equals it.
        return other.toString() == self._name or (self.is_in_place and bool(self.original.equals(other)))

    def hashCode(self) -> int:
        return self._number

    class Java:
        """The Java interface that py4j implements by this class."""

        implements: ClassVar = [f"{DATASOURCES}.FileIndex"]


def make_indexes(frame: DataFrame, planner: ScanPlanner) -> tuple[list[BloomFileIndex], list[CannotPush]]:
    """Make a file index for each relation over Parquet files that Spark lists; return the doubts about others, too."""
    jvm = Jvm(frame.sparkSession)
    indexes, doubts = [], []
    for node in find_relations(jvm, frame):
        try:
            relation = node.relation()
            original = find_spark_index(relation)
        except CannotPush as doubt:
            doubts.append(doubt)
        else:
            indexes.append(BloomFileIndex(_switch_session(jvm, relation), node, original, planner))
    return indexes, doubts


def place_indexes(frame: DataFrame, indexes: Mapping[BloomFileIndex, Mapping[str, str]]) -> DataFrame:
    """Return a DataFrame with indexes in the place of Spark's own, each with further options of the reader."""
    jvm = Jvm(frame.sparkSession)
    with _gateway_lock:
        ensure_callback_server_started(frame.sparkSession.sparkContext._gateway)  # type: ignore[no-untyped-call]
    for index in indexes:
        index.is_in_place = False
    placed = [(index.node, replace_index(index.node, index, options)) for index, options in indexes.items()]
    result = replace_relations(jvm, frame, placed)
    for index in indexes:
        index.is_in_place = True
    return result


def _switch_session(jvm: Jvm, relation: JavaObject) -> Jvm:
    """Return the JVM handle for the session that reads a relation; a global view may belong to another session."""
    session = relation.sparkSession()
    if session.equals(jvm.session):
        return jvm
    return Jvm(SparkSession(jvm.spark.sparkContext, session))


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

    def __post_init__(self) -> None:
        self._jvm = Jvm(self.frame.sparkSession)
        self._scans: dict[BloomFileIndex, list[JavaObject]] = {}
        self._inlined = self._installed = self.frame
        self._made: dict[BloomFileIndex, Mapping[str, str]] = {}
        self._depends_on_time = False
        try:
            self._plan_scans()
        except (CannotPush, *JVM_ERRORS) as error:
            self._fall_back(format_error(error))

    def _plan_scans(self) -> None:
        refuse_field_ids(self.frame.sparkSession)
        if self.frame.isStreaming:
            raise CannotPush("the DataFrame is a stream")
        plan = self.frame._jdf.queryExecution().analyzed()
        if not plan.deterministic() or "Sample" in self._jvm.list_nodes(plan)[1]:
            # The result of rand(7) for a row, or whether a sample has it, depends on the rows that are read before.
            raise CannotPush("a part of the query is not a plain function of a row")
        self._inlined = inline_tables(self._jvm, self.frame)
        indexes, doubts = make_indexes(self._inlined, self.planner)
        for doubt in doubts:
            self._fall_back(str(doubt))
        if not indexes and not doubts:
            raise CannotPush("nothing in the plan reads Parquet files that Spark lists itself")
        self._depends_on_time = _depends_on_time(self._jvm, plan)
        self._made = {index: {} for index in indexes}
        self._installed = place_indexes(self._inlined, self._made)
        physical = self._installed._jdf.queryExecution().sparkPlan()
        by_name = {index.toString(): index for index in indexes}
        for scan in self._jvm.find_nodes(physical, "FileSourceScanExec"):
            index = by_name.get(scan.relation().location().toString())
            if index is not None:
                self._scans.setdefault(index, []).append(scan)
                index.decide(scan)
        for index in self._scans:
            # When Spark plans again what it has listed may be old, and the index closed.
            index.planner = replace(index.planner, fresh=False, index=None)
            for text in index.doubts:
                self._fall_back(text)

    def _fall_back(self, doubt: str) -> None:
        self.doubts.append(doubt)
        log.warning("all files are read: %s", doubt)

    @property
    def reports(self) -> list[PruneReport]:
        """The report of each scan."""
        return [decision.result.report for index in self._scans for decision in index.decisions]

    def restrict(self) -> DataFrame:
        """Return the DataFrame over the files that can have matching rows."""
        try:
            frame, indexes = self._inlined, dict[BloomFileIndex, Mapping[str, str]]()
            row_groups = {index: node for index in self._scans if (node := self._read_row_groups(index)) is not None}
            for index in self._scans:
                trusted = all(decision.trusted for decision in index.decisions)
                is_pruned = any(decision.selected is not decision.listed for decision in index.decisions)
                if index not in row_groups and is_pruned:
                    indexes[index] = {} if trusted else NO_FILTERS
            if indexes and indexes == self._made:  # a plan of its own, which Spark makes when the rows are asked for
                return make_dataframe(self._jvm, self._installed._jdf.queryExecution().analyzed())
            if row_groups:
                frame = replace_relations(self._jvm, frame, [(index.node, node) for index, node in row_groups.items()])
            return place_indexes(frame, indexes) if indexes else frame
        except JVM_ERRORS as error:
            self._fall_back(format_error(error))
            return self.frame

    def _read_row_groups(self, index: BloomFileIndex) -> JavaObject | None:
        """Return a node that reads exact row groups in the place of a relation; None if whole files are read."""
        if len(index.decisions) != 1 or not self._prefers_row_groups(index.decisions[0]):
            return None
        ((scan, *others), (decision,)) = self._scans[index], index.decisions
        options = {} if decision.trusted else NO_FILTERS
        try:
            if others:
                raise CannotPush("several scans in the plan are of one relation")
            if self._depends_on_time:
                raise CannotPush("a part of the query depends on the time when it runs")
            report, cache = decision.result.report, self.planner.footers
            return RowGroupScan(self._jvm, index.node, scan, decision.listing, report, cache, options).make_node()
        except (CannotPush, *JVM_ERRORS) as error:
            log.warning("whole files are read, not row groups: %s", format_error(error))
            return None

    def _prefers_row_groups(self, decision: _Decision) -> bool:
        """Return True if exact row groups are to be read instead of whole files."""
        report = decision.result.report
        files = [file for file in report.files if file.selected]
        total, selected = sum(len(file.row_groups) for file in files), report.selected_row_groups
        if self.planner.row_groups != "auto" or not files:
            return bool(files) and self.planner.row_groups is True and selected < total
        skipped_rows = sum(group.num_rows for file in files for group in file.row_groups if not group.read)
        if 2 * selected > total or skipped_rows < MIN_SKIPPED_ROWS:
            return False
        try:
            with open_source(files[0].path, report.filesystem) as source:
                return _exceeds_spark(decision.predicate, BloomFile(source, self.planner.footers))
        except ParquetBloomError:
            return False


def _depends_on_time(jvm: Jvm, plan: JavaObject) -> bool:
    """Return True if a plan has expressions that Spark's planner replaces by the current time, user and the like."""
    catalyst = "org.apache.spark.sql.catalyst"
    if plan.containsPattern(jvm.package(f"{catalyst}.trees.TreePattern").CURRENT_LIKE()):
        return True
    # 'now', 'today' and the like, cast to timestamps and dates
    texts = getattr(jvm.package(f"{catalyst}.optimizer.SpecialDatetimeValues$"), "MODULE$")
    return any(not texts.apply(item).fastEquals(item) for item in (plan, *iter_elements(plan.subqueriesAll())))


def read_predicate(
    jvm: Jvm, filters: JavaObject, schema: StructType, columns: frozenset[str] | None = None
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
    jvm: Jvm, predicate: PushedPredicate, listing: CatalystListing, options: Mapping[str, str], planner: ScanPlanner
) -> PlannedScan:
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
    listed = ListedFiles(listing.uris, options, lambda: listing.states)
    return planner.scan(jvm.spark, listed, predicate.node, compatibility)


def _exceeds_spark(predicate: PushedPredicate, file: BloomFile) -> bool:
    """Return True if the predicate has a column by which Spark's own tasks cannot skip row groups."""
    assert predicate.node is not None
    for leaf in tree.leaves(predicate.node):
        column = predicate.fields[leaf.column]
        if isinstance(leaf, Contains | MapLookup | VariantLookup) or isinstance(column.type, TimestampNTZType):
            return True
        if isinstance(column.type, TimestampType):
            leaves = find_leaves(file.leaves, column, ignore_case=True)
            if any(leaf.physical == "INT96" for leaf in leaves):
                return True
    return False


def format_error(error: Exception) -> str:
    """Format an error in one line; Java exceptions without their stack trace."""
    if isinstance(error, Py4JError) and getattr(error, "java_exception", None) is not None:
        return redacted(str(error.java_exception.toString())).splitlines()[0]
    return first_line(error)
