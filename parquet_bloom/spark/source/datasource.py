"""The data source `parquet_bloom`: `spark.read.format("parquet_bloom")`, in classic sessions and Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...errors import ParquetBloomError, UnreadableColumnError
from ..session.session_settings import use_driver_python
from ..spark_arrow import find_unknown_type
from .source_options import Conjunct, Options, parse_conjuncts, read_settings
from .source_plan import FileListing
from .source_reader import FilePartitionReader


def register(spark: SparkSession) -> None:
    """Register the data source `spark.read.format("parquet_bloom")` in a session, classic or Connect.

    The data source reads Parquet files through pyarrow, in tasks of exactly those row groups, and pages of them, that
    can hold a row for which the condition in the option `prune` is true. It suits selective queries, above all where
    Spark itself cannot skip, as on INT96 timestamps. To scan everything, Spark's own `parquet` is several times faster.

    Apply the condition to the DataFrame as well: row groups and pages are read, not only matching rows. Spark's own
    filters are not pushed down (and `spark.sql.python.filterPushdown.enabled` is not changed): Spark stores the pushed
    filters of a Python data source with the table, and reuses them for the next query on the same DataFrame, or for the
    other side of a self-join, whatever their filters are, so that rows would be lost.

    Notes
    -----
    Options: `prune` (SQL, as after WHERE; NOT, AND, OR, comparisons of columns with literals, IN, IS NULL,
    array_contains), `columns` (names separated by commas, or a JSON list: Spark does not tell Python which it needs),
    `basePath`, `numPartitions` (number of tasks), and `storage.NAME` for options of object stores, which are read by
    their URLs. A data source cannot access the session: settings that decide how files are read (case of names, legacy
    calendars, time zone) are those at the time of registration, unless they are given as options: `caseSensitive`,
    `datetimeRebaseMode`, `int96RebaseMode`, `int96TimestampConversion`, `binaryAsString`, `inferTimestampNTZ`,
    `inferPartitionTypes`, `timestampType`, `timeZone`. Register again after changing one.

    The schema is that of the first file by name, plus the partition columns of the folders; additional columns of other
    files are ignored (there is no mergeSchema), and columns that a file lacks are null. A given schema is used
    unchanged. Rows and types are those of `spark.read.parquet`; a column that pyarrow cannot read as Spark does fails
    the query with a one-line error, and can be left out by `columns`.
    """
    settings = read_settings(spark)
    parallelism = _parallelism(spark)
    if parallelism:
        settings["parallelism"] = str(parallelism)
    # A subclass per session carries the settings to the data source's worker.
    with use_driver_python(spark):
        spark.dataSource.register(type("RegisteredSource", (ParquetBloomSource,), {"settings": settings}))


def _parallelism(spark: SparkSession) -> int | None:
    """Return how many tasks run at a time; only classic sessions know."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


class ParquetBloomSource(DataSource):
    """Data source of Parquet files that reads only row groups that can hold a match; see `register`.

    Attributes
    ----------
    settings : settings of the session that it was registered with.
    """

    settings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "parquet_bloom"

    def schema(self) -> StructType:
        """Return the schema of the files at the path."""
        return FileListing(self._options()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows of a schema."""
        return SourceReader(self._options(), schema)

    def _options(self) -> Options:
        return Options(dict(self.options), dict(self.settings))


class SourceReader(DataSourceReader):
    """Planner and reader of the rows of a schema.

    Parameters
    ----------
    options : options of the read.
    schema : schema of the rows.
    """

    def __init__(self, options: Options, schema: StructType):
        self._options = options
        self._schema = schema
        self._conjuncts: list[Conjunct] = []
        for field in schema.fields:
            unsupported = find_unknown_type(field.dataType)
            if unsupported is not None:
                problem = f"Python cannot pass {unsupported.simpleString()} to Spark; leave it out by option 'columns'"
                raise UnreadableColumnError(problem, path=", ".join(options.paths), column=field.name)
        columns = options.columns
        if columns is not None and len(columns) != len(schema):
            raise ParquetBloomError("give a schema or the option 'columns', not both: leave columns out of the schema")
        if options.prune:
            self._conjuncts = parse_conjuncts(options.prune, schema, options.zone, options.rules.ignore_case)

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; none if no row group can hold a match."""
        listing = FileListing(self._options)
        tasks = listing.plan_tasks(self._schema, self._conjuncts)
        names = tuple(field.name for _, field in listing.resolve_partition_fields(self._schema))
        return [InputPartition((names, partitions)) for partitions in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        if partition.value is None:  # Spark calls this once if there are no tasks
            return
        names, file_partitions = partition.value
        options = self._options
        stored_conjuncts = tuple(
            item for item in self._conjuncts if not any(field.path[0] in names for field in item.fields.values())
        )
        reader = FilePartitionReader(
            tuple(self._schema.fields), names, stored_conjuncts, options.rules, options.filesystem
        )
        for file_partition in file_partitions:
            yield from reader.batches(file_partition)
