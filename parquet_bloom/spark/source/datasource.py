"""The data source `parquet_bloom`: `spark.read.format("parquet_bloom")`, classic sessions and Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...errors import ParquetBloomError, UnreadableColumnError
from ..arrow.convert import find_unknown_type
from .options import Options, settings_of
from .plan import FileListing
from .predicate import Conjunct, conjuncts
from .read import FilePartitionReader


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("parquet_bloom")` known to a session, classic or Connect.

    The data source reads Parquet files through pyarrow, in tasks of exactly those row groups, and pages of them, that
    can hold a row for which the condition in the option `prune` is true. It suits selective queries, most of all
    where Spark cannot skip by itself, as on INT96 timestamps. To scan everything, Spark's own `parquet` is several
    times faster.

    Put the condition on the DataFrame as well: what is read are row groups and pages, not rows. Spark's own filters
    are not pushed down (and `spark.sql.python.filterPushdown.enabled` is left as it is): Spark keeps what a Python
    data source made of them with the table, and takes it for the next query on the same DataFrame, or for the other
    side of a self-join, whatever their filters are, so that rows would be lost.

    Notes
    -----
    Options: `prune` (SQL, as behind WHERE; NOT, AND, OR, comparisons of columns with literals, IN, IS NULL,
    array_contains), `columns` (names separated by commas, or a JSON list: Spark does not tell Python which it needs),
    `basePath`, `numPartitions` (tasks wanted), and `storage.NAME` for options of object stores, which are read by their
    URLs. A data source does not see the session: settings that decide how files are read (case of names, legacy
    calendars, time zone) are those of the moment when it was registered, unless they are given as options:
    `caseSensitive`, `datetimeRebaseMode`, `int96RebaseMode`, `int96TimestampConversion`, `binaryAsString`,
    `inferTimestampNTZ`, `inferPartitionTypes`, `timestampType`, `timeZone`. Register again after changing one.

    The schema is that of the first file by name, and partition columns of the folders; columns that other files have
    besides are not seen (there is no mergeSchema), and those that a file does not have are null. A schema that is
    given is taken as it stands. Rows and types are those of `spark.read.parquet`; a column that pyarrow cannot read
    as Spark does fails the query in one line, and can be left out by `columns`.
    """
    settings = settings_of(spark)
    parallelism = _parallelism(spark)
    if parallelism:
        settings["parallelism"] = str(parallelism)
    # A class of its own for each session, which travels with its settings.
    spark.dataSource.register(type("RegisteredSource", (ParquetBloomSource,), {"settings": settings}))


def _parallelism(spark: SparkSession) -> int | None:
    """How many tasks run at a time; only classic sessions know."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


class ParquetBloomSource(DataSource):
    """Parquet files, of which only row groups that can hold a match are read; see `register`.

    Attributes
    ----------
    settings : of the session that it was registered with.
    """

    settings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` takes."""
        return "parquet_bloom"

    def schema(self) -> StructType:
        """The schema of the files at the path."""
        return FileListing(self._options()).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """What plans and reads the rows of a schema."""
        return SourceReader(self._options(), schema)

    def _options(self) -> Options:
        return Options(dict(self.options), dict(self.settings))


class SourceReader(DataSourceReader):
    """Plans and reads the rows of a schema.

    Parameters
    ----------
    options : of the read.
    schema : of the rows.
    """

    def __init__(self, options: Options, schema: StructType):
        self._options = options
        self._schema = schema
        self._conjuncts: list[Conjunct] = []
        for field in schema.fields:
            unknown = find_unknown_type(field.dataType)
            if unknown is not None:
                problem = f"Python cannot hand {unknown.simpleString()} to Spark; leave it out by option 'columns'"
                raise UnreadableColumnError(problem, path=", ".join(options.paths), column=field.name)
        columns = options.columns
        if columns is not None and len(columns) != len(schema):
            raise ParquetBloomError("a schema and the option 'columns' are given: leave columns out of the schema")
        if options.prune:
            self._conjuncts = conjuncts(options.prune, schema, options.zone, options.rules.ignore_case)

    def partitions(self) -> list[InputPartition]:
        """The tasks; none where no row group can hold a match."""
        lake = FileListing(self._options)
        tasks = lake.tasks(self._schema, self._conjuncts)
        names = tuple(field.name for _, field in lake.in_folders(self._schema))
        return [InputPartition((names, shares)) for shares in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if partition.value is None:  # what Spark makes of no task at all
            return
        names, shares = partition.value
        options = self._options
        own = tuple(
            item for item in self._conjuncts if not any(field.path[0] in names for field in item.fields.values())
        )
        reader = FilePartitionReader(tuple(self._schema.fields), names, own, options.rules, options.filesystem)
        for share in shares:
            yield from reader.batches(share)
