"""Exactly some row groups as a DataFrame: read by pyarrow in Spark's tasks, shown as Spark's own scan shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...errors import ConcurrentChangeError, ParquetBloomError, UnreadableColumnError, first_line
from ...file.reader import BloomFile, open
from ...scan.model.schemas import arrow_schema
from ...storage import FileIdentity, RemoteIdentity, Source, open_source
from ..scan.parquet_columns import Rules
from ..session.fallback import CannotPush
from ..session.fields import folded, quoted, types_of
from .convert import arrow_field, conform, why_not

CHANGED = "it was changed since the DataFrame was made; call read_parquet, or pruned, again"

_BATCH_ROWS = 1 << 14


@dataclass(frozen=True)
class RowGroupSlice:
    """One row group to be read.

    Attributes
    ----------
    path, row_group : where it is.
    state : of the file when it was planned; another one would have other row groups.
    partition : values of the partition columns, as texts.
    """

    path: str
    row_group: int
    state: tuple[int, int | bytes | None]
    partition: tuple[str | None, ...]


def plan_pieces(
    files: dict[str, list[int]],
    partitions: dict[str, tuple[str | None, ...]],
    fields: Sequence[StructField],
    rules: Rules,
) -> list[RowGroupSlice]:
    """The row groups of some files, one by one, after a look at whether pyarrow reads their columns as Spark does.

    Raises
    ------
    Doubt
        It does not, for some column.
    """
    pieces = []
    for path, row_groups in files.items():
        try:
            with open(path) as file:
                problem = reading_problem(file, fields, rules)
                state = file_state(file.source)
        except (ParquetBloomError, pa.ArrowException, OSError) as error:
            raise CannotPush(first_line(error)) from error
        if problem:
            raise CannotPush(f"{path}: {problem}")
        pieces += [RowGroupSlice(path, number, state, partitions.get(path, ())) for number in row_groups]
    return pieces


def reading_problem(file: BloomFile, fields: Sequence[StructField], rules: Rules) -> str | None:
    """Why pyarrow does not read columns of a file as Spark does, or None when it does."""
    has_moments = any(kind.typeName() in ("date", "timestamp") for f in fields for kind in types_of(f.dataType))
    problem = rules.legacy_calendar(file) if has_moments else None
    if rules.shifts_int96 and not (file.footer.created_by or "").startswith("parquet-mr"):
        problem = "its INT96 timestamps are shifted to the session's zone"
    return problem or why_not(fields, arrow_schema(file), rules.ignore_case)


def file_state(source: Source) -> tuple[int, int | bytes | None]:
    """What changes with a file, and is the same on every host."""
    identity = source.identity
    if isinstance(identity, RemoteIdentity):
        return source.size, identity.etag or identity.modified_ns
    return source.size, identity.modified_ns if isinstance(identity, FileIdentity) else None


def check_state(source: Source, state: tuple[int, int | bytes | None]) -> None:
    """Raise ConcurrentChangeError if a file is another one than it was: it would have other row groups."""
    if file_state(source) != state:
        raise ConcurrentChangeError(CHANGED, path=source.name)


def read_pieces(
    spark: SparkSession,
    pieces: Sequence[RowGroupSlice],
    fields: Sequence[StructField],
    partition_fields: Sequence[StructField],
    names: Sequence[str],
    ignore_case: bool,
) -> DataFrame:
    """A DataFrame over row groups, a task each.

    Parameters
    ----------
    fields : columns that are in the files.
    partition_fields : columns that the files' folders give; Spark itself turns their texts into values.
    names : all columns, in the order wanted.
    """
    texts = [StructField(field.name, StringType()) for field in partition_fields]
    reader = _Reader(list(pieces), list(fields), [field.name for field in texts], ignore_case)
    tasks = spark.range(0, len(pieces), 1, len(pieces))
    rows = tasks.mapInArrow(reader, StructType([*fields, *texts]))
    casts = {field.name: field for field in partition_fields}

    def column(name: str) -> Column:
        if name not in casts:
            return F.col(quoted(name))
        return F.col(quoted(name)).cast(casts[name].dataType).alias(name, metadata=casts[name].metadata)

    return rows.select(*map(column, names))


@dataclass
class _Reader:
    """What a task runs: the numbers of pieces in, their rows out."""

    pieces: list[RowGroupSlice]
    fields: list[StructField]
    text_names: list[str]
    ignore_case: bool

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([arrow_field(field) for field in self.fields])
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(self.pieces[number], schema)

    def _read(self, piece: RowGroupSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with open_source(piece.path) as source:
            check_state(source, piece.state)
            try:
                for batch in self._batches(source, piece.row_group, schema):
                    texts = [pa.repeat(pa.scalar(text, pa.string()), len(batch)) for text in piece.partition]
                    columns = [*conform(batch, schema, self.ignore_case), *texts]
                    yield pa.RecordBatch.from_arrays(columns, names=[*schema.names, *self.text_names])
            except (pa.ArrowException, OSError) as error:
                problem = f"cannot be read: {first_line(error)}"
                raise UnreadableColumnError(problem, path=piece.path, row_group=piece.row_group) from error

    def _batches(self, source: Source, row_group: int, schema: pa.Schema) -> Iterator[Any]:
        wanted = {folded(name, self.ignore_case) for name in schema.names}
        with source.arrow_file() as data:
            file = pq.ParquetFile(data, coerce_int96_timestamp_unit="us", pre_buffer=False)
            columns = [name for name in file.schema_arrow.names if folded(name, self.ignore_case) in wanted]
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=columns, use_threads=False)
