"""Exactly some row groups, read by Spark's own scan: its tasks are given ranges of files that hold one row group each.

So that types, calendars and settings are Spark's own. For classic sessions. Spark finds no row group, and says nothing,
in a file that has been replaced since; so tasks beside the scan look whether the files still are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...errors import ParquetBloomError
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...scan.model.plan import FilePlan
from ...storage import Source, open_source
from ..arrow.row_groups import CHANGED, file_state
from ..session.fallback import CannotPush
from ..session.jvm import DATASOURCES, EXPRESSIONS, Jvm, defaults_of, elements
from .catalyst_plan import Listing, ParquetScan, beside_source, options_with
from .midpoints import midpoints

_MAX_UNUSED = 1000  # columns that are stood in for, some calls each
_A_CORE = 4  # tasks
_BETWEEN = "|"
_UNREAD = "is not read by this DataFrame: select it before read_parquet or pruned, or give row_groups=False"


def row_group_scan(
    scan: ParquetScan,
    listing: Listing,
    decisions: Sequence[FilePlan],
    options: dict[str, str],
    filesystem: Any,
    cache: MetadataCache,
) -> Any:
    """The node that gives the rows of some row groups in the place of a relation of the analysed plan.

    Columns of the relation that the DataFrame does not use are not read. Spark lets a later condition, or order, name
    them all the same; that is an error then.

    Parameters
    ----------
    decisions : on each file of the listing, in its order.
    options : for the reader, beside those that it has.
    filesystem, cache : as the files were asked by.

    Raises
    ------
    Doubt
        Spark cannot be told to read just these.
    """
    jvm, physical, relation = scan.jvm, scan.physical, scan.relation
    if physical.bucketedScan():
        raise CannotPush("the table is bucketed")
    # Whole structs, which the plan counts the fields of: Spark's scan may read some of the fields only.
    own = {item.exprId().id(): item for item in elements(scan.logical.output())}
    needed = {item.exprId().id(): own.get(item.exprId().id()) for item in elements(physical.output())}
    wanted = len(list(scan.schema)) + relation.partitionSchema().size()
    num_read = physical.requiredSchema().size() + relation.partitionSchema().size()
    if None in needed.values() or len(needed) != num_read:
        raise CannotPush("metadata columns are asked for")
    if wanted - len(needed) > _MAX_UNUSED:
        raise CannotPush(f"{wanted - len(needed):,} columns are not used")
    kept = [place for place, decision in enumerate(decisions) if decision.selected]
    rows = _rdd(scan, _pieces(scan, listing, decisions, kept, filesystem, cache), options)
    made = _logical(jvm, jvm.seq(needed.values()), rows.union(_check(scan, listing, kept)))
    unread = _unread(jvm, [item for number, item in own.items() if number not in needed])
    columns = [item if number in needed else next(unread) for number, item in own.items()]
    project = jvm.package("org.apache.spark.sql.catalyst.plans.logical.Project")(jvm.seq(columns), made)
    return beside_source(jvm, project, scan.logical)


def _unread(jvm: Jvm, items: list[Any]) -> Iterator[Any]:
    """What stands for columns that are not read: Spark drops it, unless somebody names them later on."""
    errors = [F.raise_error(F.lit(f"'{item.name()}' {_UNREAD}")) for item in items]
    typed = [Column(error._jc.cast(item.dataType())) for error, item in zip(errors, items, strict=True)]
    made = jvm.spark.range(0).select(*typed)._jdf.queryExecution().analyzed().projectList()
    alias = jvm.package(f"{EXPRESSIONS}.Alias")
    for item, named in zip(items, elements(made), strict=True):
        what = item.name(), item.exprId(), item.qualifier(), jvm.some(item.metadata()), jvm.nil
        yield alias(named.child(), *what)


def _pieces(
    scan: ParquetScan,
    listing: Listing,
    decisions: Sequence[FilePlan],
    kept: Sequence[int],
    filesystem: Any,
    cache: MetadataCache,
) -> list[Any]:
    """Spark's PartitionedFile of each row group."""
    jvm = scan.jvm
    made = jvm.package(f"{DATASOURCES}.PartitionedFile")
    of_path = jvm.package("org.apache.spark.paths.SparkPath")
    defaults = defaults_of(jvm, f"{DATASOURCES}.PartitionedFile")
    pieces = []
    left = iter(kept)
    for directory in listing.directories_of(kept):
        values = directory.values()
        for file in elements(directory.files()):
            place = next(left)
            decision = decisions[place]
            path, status = of_path.fromFileStatus(file.fileStatus()), (file.getModificationTime(), file.getLen())
            try:
                with open_source(decision.path, filesystem) as source:
                    opened = BloomFile(source, cache)
                    if decision.selected_in(opened) != decision.selected:
                        raise CannotPush(f"{decision.path}: it was changed meanwhile")
                    middles = midpoints(opened)
                    _compare(source, listing.states[place])
            except ParquetBloomError as error:
                raise CannotPush(str(error)) from error
            for row_group in decision.selected:
                where = (middles[row_group], 1)
                pieces.append(made(values, path, *where, defaults[5](), *status, defaults[8]()))
    return pieces


def _rdd(scan: ParquetScan, pieces: list[Any], options: dict[str, str]) -> Any:
    """What reads them, as Spark's own scan has it."""
    jvm, relation, physical = scan.jvm, scan.relation, scan.physical
    merged = options_with(relation, options | {"returning_batch": "false"})
    conf = jvm.session.sessionState().newHadoopConfWithOptions(merged)
    fields = [relation.dataSchema().apply(name) for name in physical.requiredSchema().fieldNames()]
    schemas = (relation.dataSchema(), relation.partitionSchema(), _struct(jvm, fields))
    filters = physical.pushedDownFilters()
    reader = relation.fileFormat().buildReaderWithPartitionValues(jvm.session, *schemas, filters, merged, conf)
    tasks = max(1, min(len(pieces), _A_CORE * jvm.spark.sparkContext.defaultParallelism))
    file_partition = jvm.package(f"{DATASOURCES}.FilePartition")
    partitions = [
        file_partition(number, jvm.array(f"{DATASOURCES}.PartitionedFile", pieces[number::tasks]))
        for number in range(tasks)
    ]
    rows = _struct(jvm, [*fields, *elements(relation.partitionSchema())])
    defaults = defaults_of(jvm, f"{DATASOURCES}.FileScanRDD")
    file_options = jvm.package("org.apache.spark.sql.catalyst.FileSourceOptions")(merged)
    rdd = jvm.package(f"{DATASOURCES}.FileScanRDD")
    return rdd(jvm.session, reader, jvm.seq(partitions), rows, defaults[5](), defaults[6](), file_options)


def _logical(jvm: Jvm, output: Any, rdd: Any) -> Any:
    name = "org.apache.spark.sql.execution.LogicalRDD"
    defaults = defaults_of(jvm, name)
    first = [output, rdd, *(defaults[number]() for number in (3, 4, 5, 6))]
    # The second list of parameters begins with the session; how it goes on depends on Spark's version.
    rest = [defaults[number](*first) for number in sorted(defaults) if number >= 8]
    return jvm.package(name)(*first, jvm.session, *rest)


def _struct(jvm: Jvm, fields: list[Any]) -> Any:
    return jvm.package("org.apache.spark.sql.types.StructType")(
        jvm.array("org.apache.spark.sql.types.StructField", fields)
    )


def _compare(source: Source, listed: tuple[int, int]) -> None:
    """Spark's list, by which its tasks know a file again, must be of the file that was asked."""
    size, modified_ns = file_state(source)
    known_ms = modified_ns // 1_000_000 if isinstance(modified_ns, int) else listed[1]
    if (size, known_ms) != listed:
        raise CannotPush(f"{source.name}: Spark listed it before it was changed")


def _check(scan: ParquetScan, listing: Listing, kept: Sequence[int]) -> Any:
    """An RDD without rows, whose tasks fail if a file is another one by now than the one that was listed.

    Spark's source of binary files asks for the state of each file in its tasks. As an RDD nothing can be pushed into it
    that would leave out the question.
    """
    jvm, relation = scan.jvm, scan.relation
    files = jvm.package(f"{DATASOURCES}.binaryfile.BinaryFileFormat")
    schema = files.schema()
    index = scan.index(listing.directories_of(kept), partitioned=False)
    asked = relation.copy(
        index, _struct(jvm, []), schema, jvm.none(), files(), relation.options(), relation.sparkSession()
    )
    frame = DataFrame(jvm.session.baseRelationToDataFrame(asked), jvm.spark)
    known = [_BETWEEN.join((listing.paths[place], *map(str, listing.states[place]))) for place in kept]
    found = F.concat_ws(_BETWEEN, "path", "length", F.unix_millis("modificationTime"))
    problem = F.concat("path", F.lit(f": {CHANGED}"))
    same = F.when(found.isin(known), F.lit(False)).otherwise(F.raise_error(problem).cast("boolean"))
    return frame.where(same)._jdf.queryExecution().toRdd()
