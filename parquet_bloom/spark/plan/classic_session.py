"""Pruning in classic sessions: the plan stays as it is, over the files that can have matching rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from ...errors import ParquetBloomError, first_line
from ...file.bloom_file import BloomFile
from ...file.metadata_cache import MetadataCache
from ...metadata.thrift_compact import read_struct
from ...predicate import tree
from ...predicate.tree import Contains
from ...redaction import redacted
from ...scan.model.scan_plan import FilePlan
from ...scan.plan_report import PruneReport
from ...storage import Source, open_source
from ..condition.from_catalyst import PushedPredicate, read_filters
from ..session.jvm import DATASOURCES, EXPRESSIONS, Jvm, class_name, find_defaults, iter_elements
from ..session.session_settings import CannotPush, find_leaves, log
from ..source.source_reader import CHANGED, read_file_state
from .catalyst_plan import (
    CatalystListing,
    ParquetScan,
    find_scans,
    inline_tables,
    make_dataframe,
    merge_options,
    replace_relations,
    with_unread_source,
)
from .column_trust import Rules, SparkCompatibility, refuse_field_ids
from .spark_planner import ListedFiles, PlannedScan, ScanPlanner

_CATALYST = "org.apache.spark.sql.catalyst"


def drop_time_conditions(jvm: Jvm, frame: DataFrame) -> DataFrame:
    """Remove conditions on the current time from the filters of a DataFrame; it then has the rows of any time.

    Raises
    ------
    CannotPush
        Something other than a filter depends on the current time.
    """
    clock = _TimeDetector(jvm)
    analyzed = frame._jdf.queryExecution().analyzed()
    if not clock.in_plan(analyzed):
        return frame
    plan = _rebuild(jvm, analyzed, clock)
    if clock.in_plan(plan):
        raise CannotPush("a part of the query depends on the time when it runs")
    return make_dataframe(jvm, plan)


def _rebuild(jvm: Jvm, node: Any, clock: _TimeDetector) -> Any:
    children = [_rebuild(jvm, child, clock) for child in iter_elements(node.children())]
    if class_name(node) != "Filter":
        return node.withNewChildren(jvm.seq(children)) if children else node
    (child,) = children
    for conjunct in _iter_conjuncts(node.condition()):
        filtered = _make_filter(jvm, conjunct, child)
        if not clock.in_plan(_make_filter(jvm, conjunct, clock.empty_plan)):
            child = filtered
    return child


def _make_filter(jvm: Jvm, condition: Any, child: Any) -> Any:
    return jvm.package(f"{_CATALYST}.plans.logical.Filter")(condition, child)


def _iter_conjuncts(condition: Any) -> Iterator[Any]:
    if class_name(condition) != "And":
        yield condition
        return
    for child in iter_elements(condition.children()):
        yield from _iter_conjuncts(child)


class _TimeDetector:
    """Detector of expressions that Spark's planner replaces by the current time, user and the like."""

    def __init__(self, jvm: Jvm):
        trees = jvm.package(f"{_CATALYST}.trees.TreePattern")
        self._functions = trees.CURRENT_LIKE()
        rule = jvm.package(f"{_CATALYST}.optimizer.SpecialDatetimeValues$")
        self._texts = getattr(rule, "MODULE$")  # 'now', 'today' and the like, cast to timestamps and dates
        self.empty_plan = jvm.package(f"{_CATALYST}.plans.logical.OneRowRelation")()

    def in_plan(self, plan: Any) -> bool:
        """Return True if a plan, or a subquery of it, depends on the time when it runs."""
        if plan.containsPattern(self._functions):
            return True
        plans: Sequence[Any] = [plan, *iter_elements(plan.subqueriesAll())]
        return any(not self._texts.apply(item).fastEquals(item) for item in plans)


_MAX_UNUSED = 1000  # columns; each placeholder takes some calls
_TASKS_PER_CORE = 4
_SEPARATOR = "|"
_TOTAL_COMPRESSED_SIZE = 6  # field of RowGroup
_UNREAD = "is not read by this DataFrame: select it before read_parquet or pruned, or give row_groups=False"


def make_row_group_scan(
    scan: ParquetScan,
    listing: CatalystListing,
    decisions: Sequence[FilePlan],
    options: dict[str, str],
    filesystem: Any,
    cache: MetadataCache,
) -> Any:
    """Make a node that reads some row groups, to replace a relation of the analyzed plan.

    Columns of the relation that the DataFrame does not use are not read. Spark still lets a later condition, or sort
    order, name them; the query then fails.

    Parameters
    ----------
    decisions : the plan of each file of the listing, in its order.
    options : further options of the reader.
    filesystem, cache : file system and cache that the files were planned with.

    Raises
    ------
    CannotPush
        Spark cannot read exactly these row groups.
    """
    jvm, physical, relation = scan.jvm, scan.physical, scan.relation
    if physical.bucketedScan():
        raise CannotPush("the table is bucketed")
    # Structs with all of their fields, whose positions the plan uses: Spark's scan may read some fields only.
    attributes = {item.exprId().id(): item for item in iter_elements(scan.logical.output())}
    needed = {item.exprId().id(): attributes.get(item.exprId().id()) for item in iter_elements(physical.output())}
    num_columns = len(list(scan.schema)) + relation.partitionSchema().size()
    num_read = physical.requiredSchema().size() + relation.partitionSchema().size()
    if None in needed.values() or len(needed) != num_read:
        raise CannotPush("the query reads metadata columns")
    if num_columns - len(needed) > _MAX_UNUSED:
        raise CannotPush(f"{num_columns - len(needed):,} columns are not used")
    selected = [i for i, decision in enumerate(decisions) if decision.selected]
    rows = _make_rdd(scan, _make_file_ranges(scan, listing, decisions, selected, filesystem, cache), options)
    plan = _make_logical_rdd(jvm, jvm.seq(needed.values()), rows.union(_make_change_check(scan, listing, selected)))
    placeholders = _make_placeholders(jvm, [item for key, item in attributes.items() if key not in needed])
    columns = [item if key in needed else next(placeholders) for key, item in attributes.items()]
    project = jvm.package("org.apache.spark.sql.catalyst.plans.logical.Project")(jvm.seq(columns), plan)
    return with_unread_source(jvm, project, scan.logical)


def _make_placeholders(jvm: Jvm, items: list[Any]) -> Iterator[Any]:
    """Make placeholders for columns that are not read: Spark drops them unless a later operation uses them."""
    errors = [F.raise_error(F.lit(f"'{item.name()}' {_UNREAD}")) for item in items]
    typed = [Column(error._jc.cast(item.dataType())) for error, item in zip(errors, items, strict=True)]
    expressions = jvm.spark.range(0).select(*typed)._jdf.queryExecution().analyzed().projectList()
    alias = jvm.package(f"{EXPRESSIONS}.Alias")
    for item, named in zip(items, iter_elements(expressions), strict=True):
        arguments = item.name(), item.exprId(), item.qualifier(), jvm.some(item.metadata()), jvm.nil
        yield alias(named.child(), *arguments)


def _make_file_ranges(
    scan: ParquetScan,
    listing: CatalystListing,
    decisions: Sequence[FilePlan],
    selected: Sequence[int],
    filesystem: Any,
    cache: MetadataCache,
) -> list[Any]:
    """Make Spark's PartitionedFile for each row group."""
    jvm = scan.jvm
    partitioned_file = jvm.package(f"{DATASOURCES}.PartitionedFile")
    spark_path = jvm.package("org.apache.spark.paths.SparkPath")
    defaults = find_defaults(jvm, f"{DATASOURCES}.PartitionedFile")
    ranges = []
    positions = iter(selected)
    for directory in listing.select(selected):
        values = directory.values()
        for file in iter_elements(directory.files()):
            i = next(positions)
            decision = decisions[i]
            path, status = spark_path.fromFileStatus(file.fileStatus()), (file.getModificationTime(), file.getLen())
            try:
                with open_source(decision.path, filesystem) as source:
                    bloom_file = BloomFile(source, cache)
                    if decision.selected_in(bloom_file) != decision.selected:
                        raise CannotPush(f"{decision.path}: it was changed meanwhile")
                    midpoints = find_midpoints(bloom_file)
                    _check_listed(source, listing.states[i])
            except ParquetBloomError as error:
                raise CannotPush(str(error)) from error
            for row_group in decision.selected:
                offset, length = midpoints[row_group], 1
                ranges.append(partitioned_file(values, path, offset, length, defaults[5](), *status, defaults[8]()))
    return ranges


def find_midpoints(file: BloomFile) -> list[int]:
    """Return the offset by which parquet-java assigns each row group to a range of the file.

    That is the start of its first column chunk plus half of its compressed size: a range of one byte there selects
    exactly this row group.

    Raises
    ------
    CannotPush
        The footer does not determine the offsets.
    """
    footer = file.footer
    groups, chunks = footer.row_groups, footer.chunks
    if len(groups) and (groups["num_columns"] < 1).any():
        raise CannotPush(f"{file.path}: a row group has no columns")
    first = chunks[groups["first_chunk"]]
    data, dictionary = first["data_page_offset"], first["dictionary_page_offset"]
    if (first["meta_start"] < 0).any() or (data < 0).any() or (dictionary == 0).any():
        raise CannotPush(f"{file.path}: the footer lacks the offset of a row group")
    starts = np.where((dictionary > 0) & (dictionary < data), dictionary, data)
    sizes = np.add.reduceat(chunks["compressed_size"], groups["first_chunk"]) if len(groups) else starts
    for row_group, start in enumerate(groups["start"].tolist()):
        total_size = read_struct(footer.data, start)[0].get(_TOTAL_COMPRESSED_SIZE)
        if total_size is not None:
            sizes[row_group] = total_size
    midpoints = (starts + sizes // 2).tolist()
    if len(set(midpoints)) < len(midpoints) or (sizes < 0).any():
        raise CannotPush(f"{file.path}: two row groups have the same midpoint")
    return midpoints


def _make_rdd(scan: ParquetScan, ranges: list[Any], options: dict[str, str]) -> Any:
    """Make the RDD that reads ranges of files, as Spark's own scan does."""
    jvm, relation, physical = scan.jvm, scan.relation, scan.physical
    merged = merge_options(relation, options | {"returning_batch": "false"})
    conf = jvm.session.sessionState().newHadoopConfWithOptions(merged)
    fields = [relation.dataSchema().apply(name) for name in physical.requiredSchema().fieldNames()]
    schemas = (relation.dataSchema(), relation.partitionSchema(), _make_struct(jvm, fields))
    filters = physical.pushedDownFilters()
    reader = relation.fileFormat().buildReaderWithPartitionValues(jvm.session, *schemas, filters, merged, conf)
    tasks = max(1, min(len(ranges), _TASKS_PER_CORE * jvm.spark.sparkContext.defaultParallelism))
    file_partition = jvm.package(f"{DATASOURCES}.FilePartition")
    partitions = [
        file_partition(i, jvm.array(f"{DATASOURCES}.PartitionedFile", ranges[i::tasks])) for i in range(tasks)
    ]
    rows = _make_struct(jvm, [*fields, *iter_elements(relation.partitionSchema())])
    defaults = find_defaults(jvm, f"{DATASOURCES}.FileScanRDD")
    file_options = jvm.package("org.apache.spark.sql.catalyst.FileSourceOptions")(merged)
    rdd = jvm.package(f"{DATASOURCES}.FileScanRDD")
    return rdd(jvm.session, reader, jvm.seq(partitions), rows, defaults[5](), defaults[6](), file_options)


def _make_logical_rdd(jvm: Jvm, output: Any, rdd: Any) -> Any:
    name = "org.apache.spark.sql.execution.LogicalRDD"
    defaults = find_defaults(jvm, name)
    first = [output, rdd, *(defaults[number]() for number in (3, 4, 5, 6))]
    # The second list of parameters begins with the session; the others depend on the version of Spark.
    rest = [defaults[i](*first) for i in sorted(defaults) if i >= 8]
    return jvm.package(name)(*first, jvm.session, *rest)


def _make_struct(jvm: Jvm, fields: list[Any]) -> Any:
    return jvm.package("org.apache.spark.sql.types.StructType")(
        jvm.array("org.apache.spark.sql.types.StructField", fields)
    )


def _check_listed(source: Source, listed: tuple[int, int]) -> None:
    """Check that a file is the one that Spark listed, by whose size and time its tasks detect changes."""
    size, modified_ns = read_file_state(source)
    modified_ms = modified_ns // 1_000_000 if isinstance(modified_ns, int) else listed[1]
    if (size, modified_ms) != listed:
        raise CannotPush(f"{source.name}: it was changed after Spark listed it")


def _make_change_check(scan: ParquetScan, listing: CatalystListing, selected: Sequence[int]) -> Any:
    """Make an RDD without rows, whose tasks fail if a file has changed since it was listed.

    Spark's source of binary files reads the state of each file in its tasks. As this is an RDD, Spark cannot push a
    condition into it that would skip the check.
    """
    jvm, relation = scan.jvm, scan.relation
    files = jvm.package(f"{DATASOURCES}.binaryfile.BinaryFileFormat")
    schema = files.schema()
    index = scan.make_index(listing.select(selected), partitioned=False)
    binary_files = relation.copy(
        index, _make_struct(jvm, []), schema, jvm.none(), files(), relation.options(), relation.sparkSession()
    )
    frame = DataFrame(jvm.session.baseRelationToDataFrame(binary_files), jvm.spark)
    expected = [_SEPARATOR.join((listing.paths[i], *map(str, listing.states[i]))) for i in selected]
    state = F.concat_ws(_SEPARATOR, "path", "length", F.unix_millis("modificationTime"))
    problem = F.concat("path", F.lit(f": {CHANGED}"))
    unchanged = F.when(state.isin(expected), F.lit(False)).otherwise(F.raise_error(problem).cast("boolean"))
    # Without this choice of columns the tasks would read the contents, too, and refuse files of more than 2 GiB.
    states = frame.select("path", "length", "modificationTime").where(unchanged)
    return states._jdf.queryExecution().toRdd()


_JVM_ERRORS = (Py4JError, PySparkException)  # pyspark converts some exceptions of the JVM to its own

MIN_SKIPPED_ROWS = 5_000_000
"""Number of rows that must be skipped for exact row groups to be worth their planning and additional tasks."""

NO_FILTERS = {"parquet.filter.bloom.enabled": "false"}


@dataclass
class _PlannedScan:
    """One scan of a plan, with its files and the decision about each."""

    scan: ParquetScan
    predicate: PushedPredicate
    listing: CatalystListing
    result: PlannedScan


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
