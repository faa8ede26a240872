"""A FileIndex for Spark's planner that leaves out files by their filters: whatever query is asked of a DataFrame."""

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
from ..file.cache.memory import MetadataCache
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
from .plan.classic import evaluate_files, format_error, read_predicate
from .scan.lake_index import Index, open_index
from .scan.parquet_columns import refuse_field_ids
from .scan.planner import ScanPlanner
from .session.fallback import CannotPush, log
from .session.fields import find_field
from .session.jvm import DATASOURCES, Jvm, is_classic
from .session.settings import ignores_case

_NUMBERS = itertools.count()
_starting = threading.Lock()


def install(
    table: DataFrame | str,
    columns: str | Iterable[str] | None = None,
    *,
    max_fraction: float = 0.5,
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """A DataFrame of which every query reads only the files that can hold a match.

    The files' statistics and Bloom filters are asked each time that Spark plans a scan of it, whatever the query: SQL
    on a view of it, a subquery, a join. The conditions are those that Spark itself brings to the scan. Inside the
    files that are left, Spark skips row groups as it does without this.

    Parameters
    ----------
    table : a DataFrame, or the name of a table or view in the active session. It is not changed.
    columns : dotted names of the columns whose conditions are asked; None for all.
    max_fraction, cache, storage_options : as for `pruned`.
    index : as for `pruned`; it stays open. What is added to it later is known when an open one that was given is
        refreshed; until then such files are read, if nothing else rules them out.

    Returns
    -------
    pyspark.sql.DataFrame
        The same rows. Make a view of it (`createOrReplaceTempView`) to ask it by SQL. Files that are added later are
        seen after `REFRESH TABLE`, as ever. Where anything is in doubt, or goes wrong, Spark's own list of files
        counts, and the logger `parquet_bloom.spark` says why.

    Raises
    ------
    ParquetBloomError
        The session is one of Spark Connect, which has no planner at hand: use `pruned` or the data source there. Or
        nothing that the DataFrame reads is a Parquet file.
    UnknownColumnError
        No file of it has one of the columns.
    StorageError
        There is no index where one is said to be.
    BrokenIndexError
        The index is not as it was written.
    """
    frame = _frame(table)
    spark = frame.sparkSession
    lake_index = None if index is None else open_index(index, storage_options)
    probing = ScanPlanner("driver", max_fraction, cache, storage_options, False, index=lake_index)
    jvm = Jvm(spark)
    relations = [(node, own) for node in find_relations(frame) if (own := _index(node)) is not None]
    if not relations:
        raise ParquetBloomError("the DataFrame reads no Parquet files by a list of Spark's own")
    with _starting:
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    schemas = [read_file_schema(node.relation()) for node, _ in relations]
    names = None if columns is None else _names(columns, schemas, ignores_case(spark))
    new, indexes = [], []
    for (node, original), schema in zip(relations, schemas, strict=True):
        relation = node.relation()
        options = jvm.mapping(relation.options())
        found = BloomFileIndex(_of_session(jvm, relation), original, schema, options, names, probing)
        indexes.append(found)
        new.append((node, replace_index(node, found)))
    made = replace_relations(jvm, frame, new)
    for found in indexes:
        found.is_in_place = True
    return made


def _index(node: Any) -> Any:
    """Spark's own index of a relation's files; None if that is none that lists plain files."""
    try:
        return find_spark_index(node.relation())
    except CannotPush as doubt:
        log.info("a part of the DataFrame is left to Spark: %s", doubt)
        return None


def _of_session(jvm: Jvm, relation: Any) -> Jvm:
    """The JVM by the session that reads a relation, whose settings count: a global view's may be another."""
    session = relation.sparkSession()
    if session.equals(jvm.session):
        return jvm
    return Jvm(SparkSession(jvm.spark.sparkContext, session))


def _frame(table: DataFrame | str) -> DataFrame:
    if isinstance(table, str):
        try:
            spark = SparkSession.active()
        except PySparkException:
            problem = "no Spark session is active in which a table could be found by its name"
            raise ParquetBloomError(problem) from None
        frame = spark.table(table)
    else:
        frame = table
    if not is_classic(frame.sparkSession):
        problem = "install needs a classic session: Spark Connect has no planner at hand; use pruned or the data source"
        raise ParquetBloomError(problem)
    if frame.isStreaming:
        raise ParquetBloomError("install is for DataFrames that are read at once: this one is a stream")
    return frame


def _names(columns: str | Iterable[str], schemas: list[StructType], ignore_case: bool) -> frozenset[str]:
    """The columns' names as the schemas spell them."""
    found: set[str] = set()
    for name in [columns] if isinstance(columns, str) else columns:
        try:
            fields = [field for schema in schemas if (field := find_field(schema, name, ignore_case)) is not None]
        except CannotPush as doubt:
            raise UnknownColumnError(str(doubt), column=name) from None
        if not fields:
            raise UnknownColumnError("no such column", column=name)
        found.update(field.name for field in fields)
    return frozenset(found)


@dataclass(eq=False)
class BloomFileIndex:
    """Spark's FileIndex, implemented here; Spark calls it through py4j.

    Attributes
    ----------
    original : Spark's own index, which knows the files.
    schema, options : how the files are read.
    columns : names of the columns that are asked for; None for all.
    is_in_place : whether the plan that it is for is made.
    """

    jvm: Jvm
    original: Any
    schema: StructType
    options: Mapping[str, str]
    columns: frozenset[str] | None
    probing: ScanPlanner
    is_in_place: bool = False

    def __post_init__(self) -> None:
        self._number = next(_NUMBERS)
        self._name = f"BloomFileIndex {self._number} over {self.original.toString()}"
        OUR_INDEXES[self._name] = self

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:
        """The directories and files to be read under the filters."""
        directories = self.original.listFiles(partition_filters, data_filters)
        try:
            return self._pruned(directories, data_filters)
        except CannotPush as doubt:
            log.info("all files are read: %s", doubt)
        except Exception as error:  # it would be the query's
            log.warning("all files are read: %s", format_error(error))
        except BaseException as error:
            # py4j answers the JVM for exceptions only: of this one it would wait for ever, and with it the session.
            raise ParquetBloomError(f"interrupted by {type(error).__name__} while files were asked") from None
        return directories

    def _pruned(self, directories: Any, filters: Any) -> Any:
        if filters.isEmpty():
            return directories
        refuse_field_ids(self.jvm.spark)
        question = read_predicate(self.jvm, filters, self.schema, self.columns)
        if question.node is not None and all(isinstance(leaf, IsNotNull) for leaf in leaves(question.node)):
            # Spark says so of every column that is joined or computed with: few files have nothing but nulls.
            raise CannotPush("the condition says only that columns are not null")
        listing = find_listing(self.jvm, self.original, directories)
        judged = evaluate_files(self.jvm, question, listing, self.options, self.probing)
        kept = [place for place, decision in enumerate(judged.report.files) if decision.selected]
        if len(kept) > self.probing.max_fraction * len(listing.uris):
            return directories
        return self.jvm.seq(listing.select(kept))

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
        # To Spark's own index as well, the rows are the same: so Spark finds that a table to be overwritten is read.
        # Not while it is put in that one's place: a plan whose new part equals the old one keeps the old one.
        return other.toString() == self._name or (self.is_in_place and bool(self.original.equals(other)))

    def hashCode(self) -> int:
        return self._number

    class Java:
        """What py4j makes of it."""

        implements: ClassVar = [f"{DATASOURCES}.FileIndex"]
