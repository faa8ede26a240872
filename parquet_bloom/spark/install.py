"""A FileIndex for Spark's planner that leaves out files by their filters, for every query on a DataFrame."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.metadata_cache import MetadataCache
from ..predicate.tree import IsNotNull, leaves
from .plan.catalyst_plan import (
    OUR_INDEXES,
    find_listing,
    find_relations,
    find_spark_index,
    read_file_schema,
    replace_index,
    replace_relations,
)
from .plan.classic_session import evaluate_files, format_error, read_predicate
from .plan.column_trust import refuse_field_ids
from .plan.index_evidence import Index, open_index
from .plan.spark_planner import ScanPlanner
from .session.jvm import DATASOURCES, Jvm, is_classic
from .session.session_settings import CannotPush, find_field, ignores_case, log

_NUMBERS = itertools.count()
_gateway_lock = threading.Lock()


def install(
    table: DataFrame | str,
    columns: str | Iterable[str] | None = None,
    *,
    max_fraction: float = 0.5,
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Return a DataFrame of which every query reads only the files that can hold a match.

    The files' statistics and Bloom filters are evaluated each time that Spark plans a scan of the DataFrame, for any
    query: SQL on a view of it, a subquery, a join. The conditions are those that Spark itself pushes to the scan.
    Within the remaining files, Spark skips row groups as usual.

    Parameters
    ----------
    table : a DataFrame, or the name of a table or view in the active session. It is not changed.
    columns : dotted names of the columns whose conditions are evaluated; None for all.
    max_fraction, cache, storage_options : as for `pruned`.
    index : as for `pruned`; it stays open. Files that are indexed later are read, unless other evidence excludes them,
        until the caller refreshes the open index that was passed.

    Returns
    -------
    pyspark.sql.DataFrame
        The same rows. Create a view of it (`createOrReplaceTempView`) to query it by SQL. Files that are added later
        are seen after `REFRESH TABLE`, as usual. In case of doubt or failure, Spark reads its own list of files, and
        the logger `parquet_bloom.spark` says why.

    Raises
    ------
    ParquetBloomError
        The session uses Spark Connect, which does not expose the planner: use `pruned` or the data source there. Or
        the DataFrame reads no Parquet files.
    UnknownColumnError
        A column is in none of its files.
    StorageError
        The index does not exist.
    BrokenIndexError
        The index is corrupt.
    """
    frame = _resolve_frame(table)
    spark = frame.sparkSession
    lake_index = None if index is None else open_index(index, storage_options)
    planner = ScanPlanner("driver", max_fraction, cache, storage_options, False, index=lake_index)
    jvm = Jvm(spark)
    relations = [(node, original) for node in find_relations(jvm, frame) if (original := _find_index(node)) is not None]
    if not relations:
        raise ParquetBloomError("the DataFrame reads no Parquet files that Spark itself has listed")
    with _gateway_lock:
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    schemas = [read_file_schema(node.relation()) for node, _ in relations]
    names = None if columns is None else _resolve_names(columns, schemas, ignores_case(spark))
    replacements, indexes = [], []
    for (node, original), schema in zip(relations, schemas, strict=True):
        relation = node.relation()
        options = jvm.mapping(relation.options())
        bloom_index = BloomFileIndex(_switch_session(jvm, relation), original, schema, options, names, planner)
        indexes.append(bloom_index)
        replacements.append((node, replace_index(node, bloom_index)))
    new_frame = replace_relations(jvm, frame, replacements)
    for bloom_index in indexes:
        bloom_index.is_in_place = True
    return new_frame


def _find_index(node: Any) -> Any:
    """Return Spark's own index of a relation's files; None for an index that does not list plain files."""
    try:
        return find_spark_index(node.relation())
    except CannotPush as doubt:
        log.info("a part of the DataFrame is left to Spark: %s", doubt)
        return None


def _switch_session(jvm: Jvm, relation: Any) -> Jvm:
    """Return the JVM handle for the session that reads a relation; a global view may belong to another session."""
    session = relation.sparkSession()
    if session.equals(jvm.session):
        return jvm
    return Jvm(SparkSession(jvm.spark.sparkContext, session))


def _resolve_frame(table: DataFrame | str) -> DataFrame:
    if isinstance(table, str):
        try:
            spark = SparkSession.active()
        except PySparkException:
            problem = "there is no active Spark session in which to look up the table: pass a DataFrame"
            raise ParquetBloomError(problem) from None
        frame = spark.table(table)
    else:
        frame = table
    if not is_classic(frame.sparkSession):
        problem = (
            "install needs a classic session: Spark Connect does not expose the planner; use pruned or the data source"
        )
        raise ParquetBloomError(problem)
    if frame.isStreaming:
        raise ParquetBloomError("install needs a batch DataFrame: this one is a stream")
    return frame


def _resolve_names(columns: str | Iterable[str], schemas: list[StructType], ignore_case: bool) -> frozenset[str]:
    """Return the columns' names as the schemas spell them."""
    resolved: set[str] = set()
    for name in [columns] if isinstance(columns, str) else columns:
        try:
            fields = [field for schema in schemas if (field := find_field(schema, name, ignore_case)) is not None]
        except CannotPush as doubt:
            raise UnknownColumnError(str(doubt), column=name) from None
        if not fields:
            raise UnknownColumnError("no such column", column=name)
        resolved.update(field.name for field in fields)
    return frozenset(resolved)


@dataclass(eq=False)
class BloomFileIndex:
    """Implementation of Spark's FileIndex in Python, called through py4j.

    Attributes
    ----------
    original : Spark's own index, which lists the files.
    schema, options : how the files are read.
    columns : names of the columns whose conditions are evaluated; None for all.
    planner : how the files are evaluated.
    is_in_place : whether the plan with this index is complete.
    """

    jvm: Jvm
    original: Any
    schema: StructType
    options: Mapping[str, str]
    columns: frozenset[str] | None
    planner: ScanPlanner
    is_in_place: bool = False

    def __post_init__(self) -> None:
        self._number = next(_NUMBERS)
        self._name = f"BloomFileIndex {self._number} over {self.original.toString()}"
        OUR_INDEXES[self._name] = self

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:
        """Return the directories and files to be read under the filters."""
        directories = self.original.listFiles(partition_filters, data_filters)
        try:
            return self._prune_directories(directories, data_filters)
        except CannotPush as doubt:
            log.info("all files are read: %s", doubt)
        except Exception as error:  # raising would fail the query
            log.warning("all files are read: %s", format_error(error))
        except BaseException as error:
            # py4j reports only exceptions to the JVM: on any other error the JVM, and with it the session, would hang.
            raise ParquetBloomError(f"interrupted by {type(error).__name__} while files were evaluated") from None
        return directories

    def _prune_directories(self, directories: Any, filters: Any) -> Any:
        if filters.isEmpty():
            return directories
        refuse_field_ids(self.jvm.spark)
        predicate = read_predicate(self.jvm, filters, self.schema, self.columns)
        if predicate.node is not None and all(isinstance(leaf, IsNotNull) for leaf in leaves(predicate.node)):
            # Spark adds this for every column in a join or an expression; few files have only nulls.
            raise CannotPush("the condition says only that columns are not null")
        listing = find_listing(self.jvm, self.original, directories)
        scan = evaluate_files(self.jvm, predicate, listing, self.options, self.planner)
        selected = [position for position, file_plan in enumerate(scan.report.files) if file_plan.selected]
        if len(selected) > self.planner.max_fraction * len(listing.uris):
            return directories
        return self.jvm.seq(listing.select(selected))

    def rootPaths(self) -> Any:
        return self.original.rootPaths()

    def inputFiles(self) -> Any:
        return self.original.inputFiles()

    def refresh(self) -> None:
        self.original.refresh()

    def sizeInBytes(self) -> int:
        return self.original.sizeInBytes()

    def partitionSchema(self) -> Any:
        return self.original.partitionSchema()

    def isTimeTravel(self) -> bool:
        return False

    def metadataOpsTimeNs(self) -> Any:
        return self.original.metadataOpsTimeNs()

    def toString(self) -> str:
        return self._name

    def equals(self, other: Any) -> bool:
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
