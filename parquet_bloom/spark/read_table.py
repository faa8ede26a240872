"""Reading Delta and Iceberg tables with Spark, without their jars: only the files that can hold a match."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import ParquetBloomError, UnreadableColumnError, first_line
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..hashing.column_type import ColumnType
from ..predicate import tree
from ..predicate.reason import MISSING
from ..predicate.tree import Compare, Equal, In, IsNotNull, IsNull, Leaf, Node
from ..scan.compatibility import DatasetCompatibility
from ..scan.decode.open_data import open_version
from ..scan.decode.parquet_data import ParquetData
from ..scan.model.column_defaults import ColumnDefaults
from ..scan.model.file_schemas import arrow_schema, fit_table, map_in_threads, reading
from ..scan.model.scan_plan import FilePlan
from ..scan.plan_report import PruneReport
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource
from ..storage import is_local
from ..tables.open_table import find_table
from ..tables.table_footers import as_table_footers
from ..tables.table_snapshot import ReadTable, Table, TableSnapshot
from .condition.condition import Condition, read_condition
from .condition.literals import find_equal_values, is_atomic
from .plan.classic_session import NO_FILTERS
from .plan.column_trust import NO_COLUMN, Rules, SparkCompatibility, is_stored_as
from .plan.index_evidence import Index
from .plan.lake_paths import resolve_names
from .plan.reread import listed_by_driver
from .session.session_settings import (
    CannotPush,
    SparkField,
    file_uri,
    iter_types,
    listed_path,
    local_path,
    log,
    quote,
    select_columns,
)
from .source.spark_schema import infer_columns
from .spark_arrow import arrow_field, spark_type
from .table_tasks import read_in_tasks

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem, Predicate, TableObject


def read_table(
    spark: SparkSession,
    table: TableObject | FilePath,
    where: Column | Predicate | None = None,
    *,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, object] | None = None,
    cache: MetadataCache | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Read a Delta or Iceberg table with Spark, but only the files that can hold a matching row. No jar is needed.

    Files are chosen on the driver: by partition values and statistics in the table's metadata before any is opened,
    then by their own statistics and Bloom filters. The DataFrame is Spark's own scan of them, as far as it shows a file
    as the table does. Other files are read by this package in Spark's tasks, with the table's names and types: those
    with deleted rows, with columns that the table has renamed, and with columns of other types.

    Parameters
    ----------
    spark : the session, classic or Connect.
    table : the table's folder; what `parquet_bloom.delta` or `parquet_bloom.iceberg` returns; or a table of deltalake
        or pyiceberg. Its metadata is read now: rows are those of one version.
    where : SQL text as in `DataFrame.where`, a `Column`, or pyarrow's `filters=` lists; None reads everything. Literals
        without a zone are in the session's.
    columns : names of the columns to return; None for all. Files that tasks read cost less with few columns.
    storage_options : settings of the files' store, as for `parquet_bloom.prune`; they are sent to the executors.
        Spark's own scan uses the session's.
    cache : cache of footers, to which those read now are added; None for the one that the process shares.
    index : an index of the table: its folder, or an open one. Files that it excludes are not opened.

    Returns
    -------
    pyspark.sql.DataFrame
        The matching rows, with the table's columns, which may all be null.

    Raises
    ------
    PredicateError
        Spark does not understand the condition.
    UnknownColumnError
        The table has no such column.
    UnreadableColumnError
        Spark has no type for a column, or no way to read it shows what the table has; leave it out by `columns`.
    StorageError
        There is no such table, or no index.
    ParquetBloomError
        It is no table, its metadata is not understood, or a file cannot be read.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.read_table(spark, "events", "user = 7").show()  # doctest: +SKIP
    """
    given = _find_table(table, storage_options)
    snapshot = given.read_snapshot()
    opened = ReadTable(snapshot, given)
    schema = to_spark_schema(snapshot.schema)
    for name in snapshot.schema.names if columns is None else columns:
        if name in snapshot.schema.names:
            require_spark_type(snapshot.schema, name, opened.name)
    empty = spark.createDataFrame([], schema)
    names = resolve_names(empty, columns)
    condition = None if where is None else read_condition(empty, where)
    predicate = TablePredicate.of(condition, snapshot.partition_values.column_names)
    read = _list_read_columns(schema, names, condition, predicate)
    options = storage_options or opened.storage_options
    rules = Rules.of(spark, OPTIONS)
    footers = SHARED_CACHE if cache is None else cache
    scan = plan_table(opened, predicate, read.names, rules, storage_options=options, index=index, cache=footers)
    frame = _read_files(spark, opened, scan, read, condition, predicate, options)
    frame = select_columns(empty, read.names) if frame is None else frame
    return select_columns(frame if condition is None else frame.where(condition.where), names)


def _find_table(table: Any, storage_options: Mapping[str, Any] | None) -> Table:
    """Return a table; raise ParquetBloomError if what is given is none."""
    path = os.fsdecode(table) if isinstance(table, str | os.PathLike | bytes) else None
    local = None if path is None else local_path(path)
    found = find_table(table if local is None else local, storage_options)
    if found is None:
        way = "a URL of one is given by parquet_bloom.delta or parquet_bloom.iceberg"
        problem = f"{type(table).__name__} is no table" if path is None else "it is no Delta or Iceberg table"
        raise ParquetBloomError(f"{problem}; {way}, plain files are read by read_parquet", path=path)
    return found


def _list_read_columns(
    schema: StructType, names: Sequence[str], condition: Condition | None, predicate: TablePredicate
) -> StructType:
    """Return the columns that are read: of the result and of the condition, or all where Spark alone knows which."""
    if condition is None:
        wanted = {*names}
    elif predicate.node is None or condition.unknown:
        return schema
    else:
        wanted = {*names, *(field.path[0] for field in (condition.fields or {}).values())}
    fields = [field for field in schema.fields if field.name in wanted]
    return StructType(fields or schema.fields[:1])


def _read_files(
    spark: SparkSession,
    table: ReadTable,
    scan: TableScan,
    schema: StructType,
    condition: Condition | None,
    predicate: TablePredicate,
    storage_options: Mapping[str, Any] | None,
) -> DataFrame | None:
    """Return a DataFrame over the files of a scan; None if there are none."""
    snapshot, frames, others = table.read_snapshot(), [], scan.others
    is_known = condition is None or not (predicate.node is None or condition.unknown or condition.meets_zero_or_nan)
    options = {} if is_known and not scan.untrusted else dict(NO_FILTERS)
    has_floats = any(isinstance(part, FloatType | DoubleType) for part in iter_types(schema))
    if condition is not None and has_floats and (condition.meets_zero_or_nan or not predicate.follows_bounds):
        options |= NO_BOUNDS
    if scan.native:
        try:
            paths = [plan.path for plan in scan.native]
            frames.append(scan_natively(spark, snapshot, paths, schema, options))
        except CannotPush as error:
            log.warning("all files are read by Python tasks: %s", error)
            scan.require_tasks(error)
            others = [*scan.native, *others]
    if others:
        frames.append(read_in_tasks(spark, snapshot, others, schema, predicate.rows, storage_options))
    return reduce(lambda one, other: one.unionAll(other), frames) if frames else None


@dataclass(frozen=True)
class TablePredicate:
    """What is known of a condition on a table; every row that meets the condition meets both nodes.

    Attributes
    ----------
    node : for planning; None if nothing is known.
    rows : for each row, with comparisons that Spark decides by equal values alone; None for all rows.
    fields : the column of each name, as the table spells it.
    follows_bounds : whether Spark may skip rows by the bounds of columns: not if NaN may match, which they leave out.
    """

    node: Node | None = None
    rows: Node | None = None
    fields: Mapping[str, SparkField] = field(default_factory=dict)
    follows_bounds: bool = False

    @classmethod
    def of(cls, condition: Condition | None, partition_columns: Collection[str]) -> TablePredicate:
        """Return the predicate of a condition.

        Parameters
        ----------
        partition_columns : columns whose values the table's metadata has, by which each file is decided like a row.
        """
        if condition is None or condition.node is None or condition.fields is None:
            if condition is not None:
                log.warning("all files are read: %s", condition.problem)
            return cls()
        names = tree.columns(condition.node)
        found = {name: condition.fields[name] for name in names}
        if any("." in part for item in found.values() for part in item.path):
            log.warning("all files are read: the condition has a column with a dot in its name")
            return cls()
        node = tree.rename_columns(condition.node, {name: item.name for name, item in found.items()})
        fields = {item.name: item for item in found.values()}

        def plan(item: Leaf) -> Leaf:
            if item.column not in partition_columns:
                return item
            inexact = IsNotNull(item.column) if isinstance(item, Equal | In) else item
            return _find_exact(item, fields[item.column]) or inexact

        planned = tree.find_residual(node, plan)
        assert isinstance(planned, Node)
        exact = tree.find_residual(node, lambda item: _find_exact(item, fields[item.column]) or True)
        rows = exact if isinstance(exact, Node) else None
        meets_nan = any(_may_match_nan(item, fields[item.column]) for item in tree.leaves(node))
        return cls(planned, rows, fields, not condition.unknown and not meets_nan)


def _may_match_nan(item: Leaf, column: SparkField) -> bool:
    """Return whether NaN may meet a comparison; of orders and inequalities of floats only IS NOT NULL is known."""
    if not isinstance(column.type, FloatType | DoubleType) or isinstance(item, IsNull):
        return False
    return not isinstance(item, Equal | In) or any(value is not None and value != value for value in item.literals)


def _find_exact(item: Leaf, column: SparkField) -> Leaf | None:
    """Return a comparison with values of the column's type, or None if Spark may find other rows equal."""
    if not is_atomic(column.type):
        return None
    if isinstance(item, IsNull | IsNotNull | Compare):  # orders are of the column's type
        return item
    if not isinstance(item, Equal | In):
        return None
    values = find_equal_values(item.literals, column.type)
    if values is None:
        return None
    return Equal(item.column, values[0]) if isinstance(item, Equal) else In(item.column, tuple(values))


@dataclass(frozen=True)
class TableCompatibility(DatasetCompatibility):
    """`file.statistics.ColumnCompatibility` of a table that Spark reads, by its own scan or in tasks.

    Attributes
    ----------
    by_spark : where Spark shows other values than are stored.
    """

    by_spark: SparkCompatibility

    @property
    def by_schema(self) -> bool:
        return False

    def doubts(self, file: BloomFile) -> dict[str, str]:
        by_spark = {name: doubt for name, doubt in self.by_spark.doubts(file).items() if doubt is not NO_COLUMN}
        return {**by_spark, **super().doubts(file)}

    def is_same(self, column: str, stored: ColumnType) -> bool:
        """Return whether an index knows the values that Spark shows; of days it does not know by which calendar."""
        data_type = dict(self.by_spark.fields)[column].type
        is_dated = isinstance(data_type, DateType | TimestampType)
        return not is_dated and is_stored_as(data_type, stored) and super().is_same(column, stored)


@dataclass(frozen=True)
class TableFileVerdict:
    """Which ways of reading a file show it as its table does.

    Attributes
    ----------
    plan : of the file.
    not_native : why Spark's own scan does not; None if it does.
    not_in_tasks : why this package in tasks does not; None if it does.
    column : the column that this is about.
    """

    plan: FilePlan
    not_native: str | None
    not_in_tasks: str | None
    column: str | None

    def require_tasks(self, problem: object) -> None:
        """Raise UnreadableColumnError if tasks cannot read the file.

        Parameters
        ----------
        problem : why Spark's own scan does not.
        """
        if self.not_in_tasks is not None:
            text = f"{self.not_in_tasks}, and that cannot: {problem}; leave the column out by columns="
            raise UnreadableColumnError(text, path=self.plan.path, column=self.column)


@dataclass(frozen=True)
class TableScan:
    """The files of a table that can have a matching row.

    Attributes
    ----------
    report : the plan.
    verdicts : how each of the files can be read.
    """

    report: PruneReport
    verdicts: Sequence[TableFileVerdict]

    @property
    def native(self) -> list[FilePlan]:
        """Files that Spark's own scan shows as the table does."""
        return [verdict.plan for verdict in self.verdicts if verdict.not_native is None]

    @property
    def others(self) -> list[FilePlan]:
        """Files that tasks read."""
        return [verdict.plan for verdict in self.verdicts if verdict.not_native is not None]

    @property
    def untrusted(self) -> bool:
        """Return whether filters among the selected row groups may mislead Spark's own tasks."""
        return any(doubt.kind != MISSING for _, _, doubt in self.report.doubts)

    def require_tasks(self, problem: object) -> None:
        """Raise UnreadableColumnError if tasks cannot read all of the files; see `TableFileVerdict.require_tasks`."""
        for verdict in self.verdicts:
            verdict.require_tasks(problem)


def to_spark_schema(schema: pa.Schema) -> StructType:
    """Return a table's schema in Spark's types, without the columns that have none, and with nulls at every level."""
    types = ((field.name, spark_type(field.type)) for field in schema)
    return StructType([StructField(name, data_type) for name, data_type in types if data_type is not None])


def require_spark_type(schema: pa.Schema, name: str, table: str) -> None:
    """Raise UnreadableColumnError if Spark has no type for a column of a table."""
    if spark_type(schema.field(name).type) is None:
        problem = f"Spark has no type for {schema.field(name).type}; leave the column out by columns="
        raise UnreadableColumnError(problem, path=table, column=name)


def plan_table(
    table: ReadTable,
    predicate: TablePredicate,
    names: Sequence[str],
    rules: Rules,
    *,
    storage_options: Mapping[str, Any] | None,
    index: Any,
    cache: MetadataCache | None,
) -> TableScan:
    """Choose the files that can have a matching row.

    Parameters
    ----------
    names : the columns that are read, those of the condition included.
    rules : how Spark reads files.
    storage_options, index, cache : as for `parquet_bloom.prune`.

    Raises
    ------
    ParquetBloomError
        A file cannot be read, or some of these columns cannot be shown as the table has them.
    """
    source = ScanSource(table, storage_options=storage_options, index=index, cache=cache).resolve()
    by_table = DatasetCompatibility.of(table.read_snapshot().schema, sorted(predicate.fields))
    trust = TableCompatibility(by_table.columns, SparkCompatibility.of(predicate.fields, rules))
    options = ScanOptions(named=lambda _: True, trust=trust)  # Spark has resolved the names
    report = source.plan(predicate.node, options)
    for note in report.index_notes:
        log.info("of the index: %s", note)
    for doubt in report.index_doubts:
        log.warning("the index is doubtful: %s", doubt)
    files = [file for file in report.files if file.selected]
    check = _FileCheck(table.read_snapshot(), names, rules, report.filesystem, cache)
    is_remote = not is_local(report.filesystem, [file.path for file in files])
    scan = TableScan(report, map_in_threads(check.judge, files, remote=is_remote))
    log.info("%s: %s", predicate.node or "all rows", report)
    of_tasks = [verdict for verdict in scan.verdicts if verdict.not_native is not None]
    for verdict in of_tasks:
        verdict.require_tasks(verdict.not_native)
    if of_tasks:
        first = of_tasks[0]
        shown = len(of_tasks), len(files), first.plan.path, first.not_native
        log.info("%d of %d files are read by Python tasks, such as %s: %s", *shown)
    return scan


@dataclass(frozen=True)
class _FileCheck:
    """Checks of files that a scan reads.

    Attributes
    ----------
    snapshot : of the table.
    names : the columns that are read.
    rules : how Spark reads files.
    filesystem, cache : of the files, and their footers.
    """

    snapshot: TableSnapshot
    names: Sequence[str]
    rules: Rules
    filesystem: FileSystem | None
    cache: MetadataCache | None

    def judge(self, plan: FilePlan) -> TableFileVerdict:
        """Find out which ways of reading a file show it as the table does.

        Raises
        ------
        ParquetBloomError
            None of them does.
        """
        cache = as_table_footers(self.cache, self.snapshot.columns)
        with open_version(plan.path, self.filesystem, cache, plan.identity) as data:
            if not isinstance(data, ParquetData):
                return TableFileVerdict(plan, "it is not a Parquet file", None, None)
            file = data.file
            self.snapshot.require_defined(file.path, file.leaves, self.names)
            with reading(file):
                problem = "rows of it are deleted" if plan.path in self.snapshot.deletes else self._find_mismatch(file)
            return TableFileVerdict(plan, problem, *self._find_days(file))

    def _find_days(self, file: BloomFile) -> tuple[str, str] | tuple[None, None]:
        """Return why only Spark itself reads days and times of a file right, and the first such column."""
        calendar = self.rules.legacy_calendar(file)
        for name in self.names if calendar is not None else ():
            data_type = spark_type(self.snapshot.schema.field(name).type)
            is_stored = name not in self.snapshot.partition_values.column_names
            if is_stored and _has_days(data_type):
                return f"{calendar}, so that only Spark's own scan reads its days", name
        return None, None

    def _find_mismatch(self, file: BloomFile) -> str | None:
        """Return the first column that Spark finds under another name or as another type."""
        given = {*self.snapshot.partition_values.column_names}
        names = {name for name in self.names if name not in given}
        folded = {name.lower() for name in names}
        original = file.footer.leaves if file.cached.original is None else file.cached.original.footer.leaves
        tops: dict[str, str] = {}
        for stored, leaf in zip(original, file.leaves, strict=True):
            if leaf.path[0] in names:
                if stored.path != leaf.path:
                    return f"it has '{leaf.name}' under the name '{stored.name}'"
            elif stored.path[0].lower() in folded:
                return f"its column '{stored.name}' is another one than the table's"
            if tops.setdefault(stored.path[0].lower(), stored.path[0]) != stored.path[0]:
                return f"'{stored.path[0]}' and '{tops[stored.path[0].lower()]}' differ in case only"
        for name in ColumnDefaults(self.snapshot).find_absent(file.path, file.leaves):
            if name in names:
                return f"it lacks '{name}', to which the table gives a default"
        present = {leaf.path[0] for leaf in file.leaves}
        types = dict(infer_columns(file, arrow_schema(file), sorted(names & present)))
        for name in sorted(names & present):
            stored_type, shown = types[name], spark_type(self.snapshot.schema.field(name).type)
            if stored_type is None or stored_type != shown:
                return f"'{name}' is {stored_type.simpleString() if stored_type else 'of an unknown type'} in it"
        return None


def _has_days(data_type: DataType | None) -> bool:
    return data_type is None or any(isinstance(part, DateType | TimestampType) for part in iter_types(data_type))


# The rules of both formats, whatever the session's are for other files.
OPTIONS = {
    "recursiveFileLookup": "true",  # folders' names mean nothing
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}

# Bounds of floats leave out NaN, which Spark orders above all numbers, and dictionaries have one of the zeros, which it
# finds equal; but it asks both as if it did neither.
NO_BOUNDS = {
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
}

_METADATA = "_metadata"
_FILE, _PATH = "file of the table", "path of the file"


def scan_natively(
    spark: SparkSession, snapshot: TableSnapshot, paths: Sequence[str], schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    """Return Spark's own scan of some files.

    Parameters
    ----------
    paths : the files; at least one.
    schema : the columns that are read.
    options : further options of Spark's reader.

    Raises
    ------
    CannotPush
        Spark does not open them, or not exactly them.
    """
    given = {*snapshot.partition_values.column_names}
    in_files = [field for field in schema.fields if field.name not in given]
    in_metadata = [field for field in schema.fields if field.name in given]
    if not in_files:
        raise CannotPush("no column of the files is read")
    taken = {name.lower() for name in schema.names}.intersection((_METADATA, _FILE, _PATH))
    if in_metadata and taken:
        raise CannotPush(f"a column is called {min(taken)}")
    reader = spark.read.schema(StructType(in_files)).options(**OPTIONS, **options)
    try:
        with listed_by_driver(spark, len(paths)):
            frame = reader.format("parquet").load(list(map(file_uri, paths)))
            uris = {listed_path(uri): uri for uri in frame.inputFiles()}
    except PySparkException as error:
        raise CannotPush(f"Spark does not open the files: {first_line(error)}") from error
    if uris.keys() != {*paths}:
        other = min(uris.keys() ^ {*paths})
        raise CannotPush(f"Spark does not list exactly the table's files: {other}")
    if not in_metadata:
        return frame.select(*map(quote, schema.names))
    values = _find_values(snapshot, [uris[path] for path in paths], paths, in_metadata)
    known = spark.createDataFrame(values, StructType([StructField(_FILE, StringType()), *in_metadata]))
    files = frame.select(
        *(F.col(quote(field.name)) for field in in_files), F.col(f"{_METADATA}.file_path").alias(_PATH)
    )
    joined = files.join(F.broadcast(known), F.col(quote(_PATH)) == F.col(quote(_FILE)), "left")

    def column(name: str) -> Column:
        if name not in given:
            return F.col(quote(name))
        problem = F.concat(F.col(quote(_PATH)), F.lit(": its partition values are not known"))
        unknown = F.col(quote(_FILE)).isNull()
        return F.when(unknown, F.raise_error(problem)).otherwise(F.col(quote(name))).alias(name)

    return joined.select(*map(column, schema.names))


def _find_values(
    snapshot: TableSnapshot, uris: Sequence[str], paths: Sequence[str], fields: Sequence[StructField]
) -> pa.Table:
    """Return the partition values of files as Spark takes them, with their URIs in the first column.

    Spark writes a URI of a local file in two ways, one in its lists of files and another in their metadata: both are
    there. A file whose URI is not there is an error of the query.
    """
    positions = {file.path: i for i, file in enumerate(snapshot.files)}
    spellings = [(uri, path) for given, path in zip(uris, paths, strict=True) for uri in {given, _shorten(given)}]
    schema = pa.schema([arrow_field(field) for field in fields])
    rows = pa.array([positions[path] for _, path in spellings], pa.int64())
    values = fit_table(snapshot.partition_values.take(rows), schema)
    return values.add_column(0, pa.field(_FILE, pa.string()), pa.array([uri for uri, _ in spellings], pa.string()))


def _shorten(uri: str) -> str:
    return re.sub("^file:/+", "file:/", uri)
