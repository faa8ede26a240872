"""The physical positions of the rows of keys, as a job on Spark's executors."""

from __future__ import annotations

import operator
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError, UnreadableColumnError
from ..redaction import shown_redacted
from ..scan.lookup.locate_keys import Locator
from ..scan.model.scan_plan import SourceListing
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource, fix_schema
from ..scan.sent_source import Files, SentSource, find_candidates
from ..tables.open_table import find_table
from ..tables.table_part import TablePart
from ..tables.table_snapshot import Table
from .jobs.file_tasks import TaskLimits, find_sizes, iter_numbers, pack
from .jobs.run_files import resolve_paths
from .plan.index_evidence import Index
from .semi_join import is_comparable
from .session.session_settings import SparkField, find_field, ignores_case, local_path, quote
from .spark_arrow import arrow_field, conform, spark_type

if TYPE_CHECKING:
    from ..util.given_types import Paths, TableObject


@shown_redacted
@dataclass
class LocateTask:
    """Function for `mapInArrow`: the numbers of tasks to positions in their files.

    Attributes
    ----------
    source : of the dataset.
    dataset_schema : of the dataset.
    columns : of the key.
    tasks : the files of each task.
    target : schema of the positions.
    keys : a table as an Arrow stream; None for the positions of all rows.
    """

    source: SentSource
    dataset_schema: pa.Schema
    columns: str | Sequence[str]
    tasks: Sequence[Files]
    target: pa.Schema
    keys: bytes | None = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in iter_numbers(batches):
            with closing(self._locate(self.tasks[number])) as located:
                for batch in located:
                    yield pa.RecordBatch.from_arrays(conform(batch, self.target, ignore_case=False), schema=self.target)

    def _locate(self, files: Files) -> Generator[pa.RecordBatch, None, None]:
        locator = Locator(self.source.open(files), self.dataset_schema, None, self.columns, ScanOptions(threads=1))
        if self.keys is None:
            return locator.read_all_batches()
        with pa.ipc.open_stream(self.keys) as stream:
            return locator.read_batches(stream.read_all())


SENT_KEYS = 1_000_000
"""Default of `max_keys`: about 10 MB of integers, which a task searches for at once."""


def locate(
    spark: SparkSession,
    paths: Paths | TableObject | None,
    column: str | Sequence[str],
    keys: DataFrame,
    *,
    index: Index | None = None,
    storage_options: Mapping[str, object] | None = None,
    max_keys: int = SENT_KEYS,
) -> DataFrame:
    """Find the physical positions of all rows with any of some keys: `Dataset.locate` as a job, for any number of keys.

    Up to `max_keys` distinct keys are collected here and sent to every task, which searches its files for them. More of
    them stay where they are: tasks read the key of every row with its position, and Spark joins these with the keys,
    both partitioned by their hashes (or the keys broadcast, if Spark finds them small enough). Files go to tasks by
    bytes and cores, as in the other jobs; a file is read by one task.

    Parameters
    ----------
    spark : the session, classic or Connect.
    paths : a file, folder or pattern that driver and executors both see, a URL on an object store, or a list of them;
        a Delta or Iceberg table, as `read_table` takes it; or None for the files of `index`. They are listed now.
    column : of the key, as the files spell it, dotted for a leaf of structs; or a list of columns, whose values
        together are the key.
    keys : has columns of these names; for a key of one column it may be its only column, of any name. Their types are
        those of the columns, or both are integers. Nulls equal nothing, and are left out. They are read twice if there
        are more than `max_keys`.
    index : an index of the files: a folder that the driver reads, or an open one. Up to 100,000 keys, tasks get the
        files alone that may have one of them. Tables are searched without it.
    storage_options : settings of the files' store, as for `parquet_bloom.prune`; they are sent to the executors.
    max_keys : see above.

    Returns
    -------
    pyspark.sql.DataFrame
        `key` (the row's value; a struct for several columns), `path` (as listed), `row_group`, and `row`: its number in
        the file, from 0 through all row groups. In no order. Each action runs the job again, on the files that were
        listed: save the result, if it is needed twice.

    Raises
    ------
    PredicateError
        The keys are of another type than the column, or the column has no single values.
    UnknownColumnError
        The files, or the keys, have no such column.
    UnreadableColumnError
        Spark has no type for the column.
    StorageError
        There are no such files, or no index.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.locate(spark, "lake", "id", spark.createDataFrame([(1401181143,)], ["id"])).show()  # doctest: +SKIP
    """
    if not isinstance(keys, DataFrame):
        raise ParquetBloomError(f"keys must be a Spark DataFrame, got {type(keys).__name__}")
    if not isinstance(max_keys, int) or not 0 <= max_keys <= SENT_KEYS:
        raise ParquetBloomError(f"max_keys must be a number up to {SENT_KEYS:,}, got {max_keys!r}")
    given = _resolve(paths, storage_options)
    index = None if isinstance(given, Table) else index
    source = ScanSource(given, storage_options=storage_options, index=index).resolve()
    source, schema = fix_schema(source)
    listing = source.list_files()
    locator = Locator(source, schema, None, column, ScanOptions())
    names = [column] if isinstance(column, str) else list(column)
    target = _make_schema(locator.schema)
    distinct = select_keys(keys, column, target["key"].dataType).dropna().distinct()
    sent = distinct.limit(max_keys + 1).toArrow()
    few = sent.rename_columns(names) if sent.num_rows <= max_keys else None
    tasks = _pack_files(spark, source, listing, few, column)
    if not tasks:
        return spark.createDataFrame([], target)
    task = LocateTask(
        SentSource.of(source, listing),
        schema,
        column,
        tasks,
        pa.schema([arrow_field(field) for field in target.fields]),
        None if few is None else _serialize(few),
    )
    found = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(task, target)
    return found if few is not None else _join(found, distinct, names, isinstance(column, str))


def _resolve(paths: Any, storage_options: Mapping[str, Any] | None) -> Any:
    """Return a table, absolute local paths and URLs, or None for the files of an index."""
    if paths is None:
        return None
    local = local_path(os.fsdecode(paths)) if isinstance(paths, str | os.PathLike | bytes) else None
    table = find_table(paths if local is None else local, storage_options)
    return resolve_paths(paths) if table is None else table


def _make_schema(located: pa.Schema) -> StructType:
    """Return the schema of positions in Spark's types."""
    fields = [StructField("key", find_key_type(located.field("key").type)), StructField("path", StringType())]
    return StructType([*fields, StructField("row_group", IntegerType()), StructField("row", LongType())])


def find_key_type(key: pa.DataType) -> DataType:
    """Return the type of a key in Spark's types; raise UnreadableColumnError if there is none."""
    found = spark_type(key)
    if found is None:
        raise UnreadableColumnError(f"Spark has no type for a key of {key}")
    return found


def select_keys(keys: DataFrame, column: str | Sequence[str], of_key: DataType) -> DataFrame:
    """Return the columns of the keys alone, in the order of `column`.

    Raises
    ------
    PredicateError, UnknownColumnError
        The keys are of another type than the column, or have no such column.
    """
    names = [column] if isinstance(column, str) else list(column)
    types = [of_key] if isinstance(column, str) else [part.dataType for part in of_key.fields]  # type: ignore[attr-defined]
    fields = _find_fields(keys, names, StructType([*map(StructField, names, types)]))
    return keys.select([F.col(field.sql).alias(f"key {number}") for number, field in enumerate(fields)])


def _find_fields(keys: DataFrame, names: Sequence[str], wanted: StructType) -> list[SparkField]:
    """Return the columns of the keys that have the key's columns."""
    ignore_case = ignores_case(keys.sparkSession)
    fields = []
    for name, part in zip(names, wanted.fields, strict=True):
        found = find_field(keys.schema, name, ignore_case)
        if found is None and len(names) == 1 == len(keys.columns):
            found = find_field(keys.schema, keys.columns[0], ignore_case=False)
        if found is None:
            raise UnknownColumnError(f"the keys have no such column, but {', '.join(keys.columns[:8])}", column=name)
        if not is_comparable(part.dataType, found.type):
            problem = f"it is {part.dataType.simpleString()}, but the key is {found.type.simpleString()}: cast the key"
            raise PredicateError(problem, column=name)
        fields.append(found)
    return fields


def _pack_files(
    spark: SparkSession, source: ScanSource, listing: SourceListing, keys: pa.Table | None, column: str | Sequence[str]
) -> list[Files]:
    """Return the files of each task: those that may have one of the keys, or all of them."""
    if keys is not None and not keys.num_rows:
        return []
    limits = TaskLimits.of(spark)
    if listing.table is not None:
        sizes = [file.size for file in listing.table.files]
        return [TablePart.of(listing.table, rows) for rows in pack(range(len(sizes)), sizes, limits)]
    entries = find_candidates(source, listing, column, keys)
    return list(pack([entry.path for entry in entries], find_sizes(entries), limits))


def _serialize(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _join(positions: DataFrame, keys: DataFrame, names: Sequence[str], is_single: bool) -> DataFrame:
    """Return the positions of rows whose key is among the keys, whose columns are in the order of `names`."""
    own = [F.col("key")] if is_single else [F.col("key").getField(name) for name in names]
    equal = (part == F.col(quote(other)) for part, other in zip(own, keys.columns, strict=True))
    return positions.join(keys, reduce(operator.and_, equal), "left_semi")
