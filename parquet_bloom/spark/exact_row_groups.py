"""Exact row groups as a DataFrame: by Spark's own reader in classic sessions, else by pyarrow in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, VariantType

from ..errors import ParquetBloomError, first_line
from ..file.bloom_file import BloomFile, open
from ..file.metadata_cache import MetadataCache
from ..metadata.thrift_compact import read_struct
from ..scan.model.scan_plan import FilePlan
from ..scan.plan_report import PruneReport
from ..storage import Source, open_source
from .jobs.file_tasks import TaskLimits, iter_numbers
from .plan.catalyst_plan import CatalystListing, merge_options, read_file_schema
from .plan.column_trust import Rules
from .session.jvm import DATASOURCES, EXPRESSIONS, JavaObject, Jvm, find_defaults, iter_elements
from .session.session_settings import CannotPush, iter_types, quote, use_driver_python
from .source.source_reader import (
    CHANGED,
    FilePartition,
    FilePartitionReader,
    find_reading_problem,
    pack_row_groups,
    read_file_state,
)

_CATALYST = "org.apache.spark.sql.catalyst"
_MAX_UNUSED = 1000  # columns; each placeholder takes some calls
_TASKS_PER_CORE = 4
_SEPARATOR = "|"
_TOTAL_COMPRESSED_SIZE = 6  # field of RowGroup
_UNREAD = "is not read by this DataFrame: select it before read_parquet or pruned, or give row_groups=False"


@dataclass(frozen=True)
class RowGroupScan:
    """A scan of row groups by Spark's own reader, in place of a relation of an analyzed plan.

    Attributes
    ----------
    logical : the relation.
    physical : its only scan in the physical plan, with the filters that Spark pushes down to it.
    listing, report : its files, and the plan of each.
    cache : of the files' footers.
    options : further options of the reader.
    """

    jvm: Jvm
    logical: JavaObject
    physical: JavaObject
    listing: CatalystListing
    report: PruneReport
    cache: MetadataCache
    options: Mapping[str, str]

    def make_node(self) -> JavaObject:
        """Make the node.

        Columns of the relation that the DataFrame does not use are not read. Spark still lets a later condition, or
        sort order, name them; the query then fails.

        Raises
        ------
        CannotPush
            Spark cannot read exactly these row groups.
        """
        jvm, physical, relation = self.jvm, self.physical, self.logical.relation()
        if physical.bucketedScan():
            raise CannotPush("the table is bucketed")
        # Structs with all of their fields, whose positions the plan uses: Spark's scan may read some fields only.
        attributes = {item.exprId().id(): item for item in iter_elements(self.logical.output())}
        extracted = _find_extracted(self.logical)
        read = [(item.exprId().id(), item.name()) for item in iter_elements(physical.output())]
        found = [attributes.get(key) or extracted.get(name) for key, name in read]
        needed = {None if item is None else item.exprId().id(): item for item in found}
        num_partitions = relation.partitionSchema().size()
        num_unused = relation.dataSchema().size() + num_partitions - len(needed)
        if None in needed or len(needed) != physical.requiredSchema().size() + num_partitions:
            raise CannotPush("the query reads metadata columns")
        if num_unused > _MAX_UNUSED:
            raise CannotPush(f"{num_unused:,} columns are not used")
        selected = [i for i, file in enumerate(self.report.files) if file.selected]
        rows = self._make_rdd(self._make_file_ranges(selected))
        plan = _make_logical_rdd(jvm, jvm.seq(needed.values()), rows.union(self._make_change_check(selected)))
        placeholders = _make_placeholders(jvm, [item for key, item in attributes.items() if key not in needed])
        columns = [item if key in needed else next(placeholders) for key, item in attributes.items()]
        project = jvm.package(f"{_CATALYST}.plans.logical.Project")(jvm.seq(columns), plan)
        return _with_unread_source(jvm, project, self.logical)

    def _make_file_ranges(self, selected: Sequence[int]) -> list[JavaObject]:
        """Make Spark's PartitionedFile for each row group."""
        jvm = self.jvm
        partitioned_file = jvm.package(f"{DATASOURCES}.PartitionedFile")
        spark_path = jvm.package("org.apache.spark.paths.SparkPath")
        defaults = find_defaults(jvm, f"{DATASOURCES}.PartitionedFile")
        ranges = []
        positions = iter(selected)
        for directory in self.listing.select(selected):
            for file in iter_elements(directory.files()):
                i = next(positions)
                path, status = spark_path.fromFileStatus(file.fileStatus()), (file.getModificationTime(), file.getLen())
                for offset in self._find_offsets(self.report.files[i], self.listing.states[i]):
                    ranges.append(
                        partitioned_file(directory.values(), path, offset, 1, defaults[5](), *status, defaults[8]())
                    )
        return ranges

    def _find_offsets(self, plan: FilePlan, listed: tuple[int, int]) -> list[int]:
        """Return the offsets of a file's row groups, after checking that it is the one that was planned and listed."""
        try:
            with open_source(plan.path, self.report.filesystem) as source:
                file = BloomFile(source, self.cache)
                if plan.selected_in(file) != plan.selected:
                    raise CannotPush(f"{plan.path}: it was changed meanwhile")
                midpoints = find_midpoints(file)
                _check_listed(source, listed)
        except ParquetBloomError as error:
            raise CannotPush(str(error)) from error
        return [midpoints[row_group] for row_group in plan.selected]

    def _make_rdd(self, ranges: list[JavaObject]) -> JavaObject:
        """Make the RDD that reads ranges of files, as Spark's own scan does."""
        jvm, relation, physical = self.jvm, self.logical.relation(), self.physical
        merged = merge_options(relation, {**self.options, "returning_batch": "false"})
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
        file_options = jvm.package(f"{_CATALYST}.FileSourceOptions")(merged)
        rdd = jvm.package(f"{DATASOURCES}.FileScanRDD")
        return rdd(jvm.session, reader, jvm.seq(partitions), rows, defaults[5](), defaults[6](), file_options)

    def _make_change_check(self, selected: Sequence[int]) -> JavaObject:
        """Make an RDD without rows, whose tasks fail if a file has changed since it was listed.

        Spark's source of binary files reads the state of each file in its tasks. As this is an RDD, Spark cannot push a
        condition into it that would skip the check.
        """
        jvm, relation, listing = self.jvm, self.logical.relation(), self.listing
        files = jvm.package(f"{DATASOURCES}.binaryfile.BinaryFileFormat")
        cache = jvm.package(f"{DATASOURCES}.FileStatusCache").getOrCreate(jvm.session)
        paths = [listing.java_paths.apply(i) for i in selected]
        for directory in listing.select(selected):
            for file in iter_elements(directory.files()):  # so that they are not listed again
                statuses = jvm.array("org.apache.hadoop.fs.FileStatus", [file.fileStatus()])
                cache.putLeafFiles(file.getPath(), statuses)
        options = merge_options(relation, {"recursiveFileLookup": "true"})  # folders' names mean nothing
        arguments = jvm.session, jvm.seq(paths), options, jvm.none(), cache, jvm.none(), jvm.none()
        index = jvm.package(f"{DATASOURCES}.InMemoryFileIndex")(*arguments)
        schemas = _make_struct(jvm, []), files.schema(), jvm.none()
        binary_files = relation.copy(index, *schemas, files(), relation.options(), relation.sparkSession())
        frame = DataFrame(jvm.session.baseRelationToDataFrame(binary_files), jvm.spark)
        expected = [_SEPARATOR.join((listing.paths[i], *map(str, listing.states[i]))) for i in selected]
        state = F.concat_ws(_SEPARATOR, "path", "length", F.unix_millis("modificationTime"))
        problem = F.concat("path", F.lit(f": {CHANGED}"))
        unchanged = F.when(state.isin(expected), F.lit(False)).otherwise(F.raise_error(problem).cast("boolean"))
        # Without this choice of columns the tasks would read the contents, too, and refuse files of more than 2 GiB.
        states = frame.select("path", "length", "modificationTime").where(unchanged)
        return states._jdf.queryExecution().toRdd()


def _find_extracted(logical: JavaObject) -> dict[str, JavaObject]:
    """Return the columns of a relation with Variants, by name: a scan has others of these names, of extracted paths."""
    schema = read_file_schema(logical.relation())
    with_variants = {
        item.name for item in schema.fields if any(isinstance(kind, VariantType) for kind in iter_types(item.dataType))
    }
    return {item.name(): item for item in iter_elements(logical.output()) if item.name() in with_variants}


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


def _check_listed(source: Source, listed: tuple[int, int]) -> None:
    """Check that a file is the one that Spark listed, by whose size and time its tasks detect changes."""
    size, modified_ns = read_file_state(source)
    modified_ms = modified_ns // 1_000_000 if isinstance(modified_ns, int) else listed[1]
    if (size, modified_ms) != listed:
        raise CannotPush(f"{source.name}: it was changed after Spark listed it")


def _make_struct(jvm: Jvm, fields: list[JavaObject]) -> JavaObject:
    return jvm.package("org.apache.spark.sql.types.StructType")(
        jvm.array("org.apache.spark.sql.types.StructField", fields)
    )


def _make_logical_rdd(jvm: Jvm, output: JavaObject, rdd: JavaObject) -> JavaObject:
    name = "org.apache.spark.sql.execution.LogicalRDD"
    defaults = find_defaults(jvm, name)
    first = [output, rdd, *(defaults[number]() for number in (3, 4, 5, 6))]
    # The second list of parameters begins with the session; the others depend on the version of Spark.
    rest = [defaults[i](*first) for i in sorted(defaults) if i >= 8]
    return jvm.package(name)(*first, jvm.session, *rest)


def _make_placeholders(jvm: Jvm, items: list[JavaObject]) -> Iterator[JavaObject]:
    """Make placeholders for columns that are not read: Spark drops them unless a later operation uses them."""
    errors = [F.raise_error(F.lit(f"'{item.name()}' {_UNREAD}")) for item in items]
    typed = [Column(error._jc.cast(item.dataType())) for error, item in zip(errors, items, strict=True)]
    expressions = jvm.spark.range(0).select(*typed)._jdf.queryExecution().analyzed().projectList()
    alias = jvm.package(f"{EXPRESSIONS}.Alias")
    for item, named in zip(items, iter_elements(expressions), strict=True):
        arguments = item.name(), item.exprId(), item.qualifier(), jvm.some(item.metadata()), jvm.nil
        yield alias(named.child(), *arguments)


def _with_unread_source(jvm: Jvm, node: JavaObject, relation: JavaObject) -> JavaObject:
    """Return a node that replaces a relation, joined with that relation, of which no rows are read.

    Spark refuses to overwrite a table, or a folder, only if it finds it in the plan that reads it. The join is an anti
    join with no rows, which Spark's optimizer removes.
    """
    false = jvm.package(f"{EXPRESSIONS}.Literal").FalseLiteral()
    nothing = jvm.package(f"{_CATALYST}.plans.logical.Filter")(false, relation.newInstance())
    kind = getattr(jvm.package(f"{_CATALYST}.plans.LeftAnti$"), "MODULE$")
    hint = jvm.package(f"{_CATALYST}.plans.logical.JoinHint").NONE()
    return jvm.package(f"{_CATALYST}.plans.logical.Join")(node, nothing, kind, jvm.none(), hint)


@dataclass(frozen=True)
class RowGroupColumns:
    """The columns that tasks give of row groups.

    Attributes
    ----------
    in_files : columns in the files.
    in_folders : columns in the files' paths; Spark itself converts their texts to values.
    names : all columns of the result, in order.
    """

    in_files: Sequence[StructField]
    in_folders: Sequence[StructField]
    names: Sequence[str]


def read_row_groups(
    spark: SparkSession,
    files: Mapping[str, Sequence[int]],
    folders: Mapping[str, tuple[str | None, ...]],
    columns: RowGroupColumns,
    rules: Rules,
) -> DataFrame:
    """Make a DataFrame over row groups of files, several of them in each task (see `jobs.file_tasks`).

    Parameters
    ----------
    folders : {file: texts of the partition columns}.

    Raises
    ------
    CannotPush
        pyarrow reads a column in another way than Spark, or not at all.
    """
    partitions, sizes = [], []
    for path, row_groups in files.items():
        try:
            with open(path) as file:
                problem = find_reading_problem(file, columns.in_files, rules)
                state = read_file_state(file.source)
                sizes += [_count_bytes(file, row_group) for row_group in row_groups]
        except (ParquetBloomError, pa.ArrowException, OSError) as error:
            raise CannotPush(first_line(error)) from error
        if problem:
            raise CannotPush(f"{path}: {problem}")
        partitions += [FilePartition(path, (row_group,), state, folders.get(path, ())) for row_group in row_groups]
    fields = (*columns.in_files, *(StructField(field.name, StringType()) for field in columns.in_folders))
    reader = FilePartitionReader(fields, tuple(field.name for field in columns.in_folders), (), rules)
    tasks = pack_row_groups(partitions, sizes, TaskLimits.of(spark))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    with use_driver_python(spark):
        rows = numbers.mapInArrow(_RowGroupTask(tasks, reader), StructType([*fields]))
    casts = {field.name: field for field in columns.in_folders}

    def column(name: str) -> Column:
        if name not in casts:
            return F.col(quote(name))
        return F.col(quote(name)).cast(casts[name].dataType).alias(name, metadata=casts[name].metadata)

    return rows.select(*map(column, columns.names))


def _count_bytes(file: BloomFile, row_group: int) -> int:
    """Return the size of a row group's column chunks, as far as the footer makes sense."""
    group = file.footer.row_groups[row_group]
    first = int(group["first_chunk"])
    sizes = file.footer.chunks["compressed_size"][first : first + int(group["num_columns"])]
    return min(max(0, sum(sizes.tolist())), file.source.size)


@dataclass(frozen=True)
class _RowGroupTask:
    """The function of a task: it gets positions in `tasks` and returns the rows of those row groups."""

    tasks: Sequence[Sequence[FilePartition]]
    reader: FilePartitionReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in iter_numbers(batches):
            for partition in self.tasks[task]:
                yield from self.reader.batches(partition)
