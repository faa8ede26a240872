"""Exact row groups as a DataFrame: pyarrow reads them in Spark's tasks, with the same values as Spark's own scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ..errors import ParquetBloomError, first_line
from ..file.bloom_file import BloomFile, open
from .jobs.file_tasks import TaskLimits, iter_numbers
from .plan.column_trust import Rules
from .session.session_settings import CannotPush, quote, use_driver_python
from .source.source_reader import (
    FilePartition,
    FilePartitionReader,
    find_reading_problem,
    pack_row_groups,
    read_file_state,
)


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
