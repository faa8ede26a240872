"""Exact row groups as a DataFrame: pyarrow reads them in Spark's tasks, with the same values as Spark's own scan."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import ConcurrentChangeError, ParquetBloomError, UnreadableColumnError, first_line
from ..file.bloom_file import BloomFile, open
from ..scan.decode.parquet_data import ParquetData
from ..scan.model.file_schemas import arrow_schema
from ..storage import FileIdentity, RemoteIdentity, Source, open_source
from .jobs.file_tasks import TaskLimits, iter_numbers, pack
from .plan.column_trust import Rules
from .session.session_settings import CannotPush, fold_case, iter_types, quote, use_driver_python
from .spark_arrow import arrow_field, conform, find_problem

CHANGED = "it was changed since the DataFrame was made; call read_parquet, or pruned, again"

_BATCH_ROWS = 1 << 14
_WRITTEN_BY_SPARK = b"org.apache.spark.version"

FileState = tuple[int, int | bytes | None]
"""Size and version of a file; see `read_file_state`."""


@dataclass(frozen=True)
class RowGroupSlice:
    """One row group to be read.

    Attributes
    ----------
    path, row_group : the file, and the number of the row group in it.
    state : state of the file when it was planned, to detect changes.
    partition : values of the partition columns, as texts.
    num_bytes : size of its column chunks.
    """

    path: str
    row_group: int
    state: FileState
    partition: tuple[str | None, ...]
    num_bytes: int


def plan_row_groups(
    files: dict[str, list[int]],
    partitions: dict[str, tuple[str | None, ...]],
    fields: Sequence[StructField],
    rules: Rules,
) -> list[RowGroupSlice]:
    """Return the row groups of some files, after checking that pyarrow reads their columns as Spark does.

    Raises
    ------
    CannotPush
        pyarrow reads a column in another way, or not at all.
    """
    slices = []
    for path, row_groups in files.items():
        try:
            with open(path) as file:
                problem = find_reading_problem(file, fields, rules)
                state = read_file_state(file.source)
                sizes = {row_group: _count_bytes(file, row_group) for row_group in row_groups}
        except (ParquetBloomError, pa.ArrowException, OSError) as error:
            raise CannotPush(first_line(error)) from error
        if problem:
            raise CannotPush(f"{path}: {problem}")
        partition = partitions.get(path, ())
        slices += [RowGroupSlice(path, row_group, state, partition, size) for row_group, size in sizes.items()]
    return slices


def _count_bytes(file: BloomFile, row_group: int) -> int:
    """Return the size of a row group's column chunks, as far as the footer makes sense."""
    group = file.footer.row_groups[row_group]
    first = int(group["first_chunk"])
    sizes = file.footer.chunks["compressed_size"][first : first + int(group["num_columns"])]
    return min(max(0, sum(sizes.tolist())), file.source.size)


def find_reading_problem(file: BloomFile, fields: Sequence[StructField], rules: Rules) -> str | None:
    """Return why pyarrow does not read columns of a file as Spark does, or None if it does."""
    has_times = any(kind.typeName() in ("date", "timestamp") for f in fields for kind in iter_types(f.dataType))
    problem = rules.legacy_calendar(file) if has_times else None
    if rules.shifts_int96 and not (file.footer.created_by or "").startswith("parquet-mr"):
        problem = "its INT96 timestamps are shifted to the session's zone"
    return problem or find_problem(fields, arrow_schema(file), rules.ignore_case)


def read_file_state(source: Source) -> FileState:
    """Return a value that changes with a file and is the same on every host: its size, and an ETag or a time."""
    return source.size, find_version(source.identity)


def find_version(identity: Hashable) -> int | bytes | None:
    """Return the part of a file's identity that is the same on every host: an ETag or a time."""
    if isinstance(identity, RemoteIdentity):
        return identity.etag or identity.modified_ns
    return identity.modified_ns if isinstance(identity, FileIdentity) else None


def check_state(source: Source, state: FileState) -> None:
    """Raise ConcurrentChangeError if a file has changed, as its row groups would be others."""
    if read_file_state(source) != state:
        raise ConcurrentChangeError(CHANGED, path=source.name)


def read_row_groups(
    spark: SparkSession,
    slices: Sequence[RowGroupSlice],
    fields: Sequence[StructField],
    partition_fields: Sequence[StructField],
    names: Sequence[str],
    ignore_case: bool,
) -> DataFrame:
    """Make a DataFrame over row groups, several of them in each task (see `jobs.packing`).

    Parameters
    ----------
    fields : columns in the files.
    partition_fields : columns in the files' paths; Spark itself converts their texts to values.
    names : all columns of the result, in order.
    """
    texts = [StructField(field.name, StringType()) for field in partition_fields]
    packed = pack(slices, [item.num_bytes for item in slices], TaskLimits.of(spark))
    reader = _RowGroupReader(packed, list(fields), [field.name for field in texts], ignore_case)
    tasks = spark.range(0, len(packed), 1, len(packed))
    with use_driver_python(spark):
        rows = tasks.mapInArrow(reader, StructType([*fields, *texts]))
    casts = {field.name: field for field in partition_fields}

    def column(name: str) -> Column:
        if name not in casts:
            return F.col(quote(name))
        return F.col(quote(name)).cast(casts[name].dataType).alias(name, metadata=casts[name].metadata)

    return rows.select(*map(column, names))


@dataclass
class _RowGroupReader:
    """The function of a task: it gets positions in `tasks` and returns the rows of those row groups."""

    tasks: list[list[RowGroupSlice]]
    fields: list[StructField]
    text_names: list[str]
    ignore_case: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([arrow_field(field) for field in self.fields])
        for task in iter_numbers(batches):
            for item in self.tasks[task]:
                yield from self._read(item, schema)

    def _read(self, item: RowGroupSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with open_source(item.path) as source:
            check_state(source, item.state)
            try:
                for batch in self._read_batches(source, item.row_group, schema):
                    texts = [pa.repeat(pa.scalar(text, pa.string()), len(batch)) for text in item.partition]
                    columns = [*conform(batch, schema, self.ignore_case), *texts]
                    yield pa.RecordBatch.from_arrays(columns, names=[*schema.names, *self.text_names])
            except (pa.ArrowException, OSError) as error:
                problem = f"cannot be read: {first_line(error)}"
                raise UnreadableColumnError(problem, path=item.path, row_group=item.row_group) from error

    def _read_batches(self, source: Source, row_group: int, schema: pa.Schema) -> Iterator[Any]:
        requested = {fold_case(name, self.ignore_case) for name in schema.names}
        with source.arrow_file() as data:
            file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us", pre_buffer=False)
            columns = [name for name in file.schema_arrow.names if fold_case(name, self.ignore_case) in requested]
            if _WRITTEN_BY_SPARK not in (file.metadata.metadata or {}):  # Spark's own INT96 is always shown as stored
                ParquetData(BloomFile(source, None), int96_unit="us").require_shown(row_group, columns)
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=columns, use_threads=False)
