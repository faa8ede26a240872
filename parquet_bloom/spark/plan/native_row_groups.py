"""Exact row groups, read by Spark's own scan: its tasks get ranges of files that select one row group each.

Types, calendars and settings are thus Spark's own. For classic sessions only. In a file that has been replaced since,
Spark would find no row group and report no error, so additional tasks check that the files are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...errors import ParquetBloomError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...metadata.thrift_compact import read_struct
from ...scan.model.plan import FilePlan
from ...storage import Source, open_source
from ..arrow.row_groups import CHANGED, read_file_state
from ..session.fallback import CannotPush
from ..session.jvm import DATASOURCES, EXPRESSIONS, Jvm, find_defaults, iter_elements
from .catalyst_plan import Listing, ParquetScan, merge_options, with_unread_source

_MAX_UNUSED = 1000  # columns; each placeholder takes some calls
_TASKS_PER_CORE = 4
_SEPARATOR = "|"
_TOTAL_COMPRESSED_SIZE = 6  # field of RowGroup
_UNREAD = "is not read by this DataFrame: select it before read_parquet or pruned, or give row_groups=False"


def make_row_group_scan(
    scan: ParquetScan,
    listing: Listing,
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
    listing: Listing,
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


def _make_change_check(scan: ParquetScan, listing: Listing, selected: Sequence[int]) -> Any:
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
