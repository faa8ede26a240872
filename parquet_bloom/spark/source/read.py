"""What a task of the data source does: some row groups of files as Arrow batches of Spark's very types."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StringType, StructField

from ...errors import ConcurrentChangeError, UnreadableColumnError
from ...file.cache.memory import SHARED_CACHE
from ...file.reader import BloomFile, open
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...scan.model.schemas import arrow_metadata, reading
from ...scan.read.row_group import RowGroupRows
from ...scan.read.row_group_reader import RowGroupReader
from ..arrow.convert import arrow_field, conform
from ..arrow.row_groups import find_reading_problem, read_file_state
from ..scan.parquet_columns import Rules, column_doubt
from ..session.fields import CHAR, fold_case
from .predicate import Conjunct

_BATCH_ROWS = 1 << 14


@dataclass(frozen=True)
class FilePartition:
    """Row groups of one file that a task reads.

    Attributes
    ----------
    path, row_groups : which.
    state : of the file when it was planned; another one would have other row groups.
    partition : values of the partition columns.
    """

    path: str
    row_groups: tuple[int, ...]
    state: tuple[int, int | bytes | None]
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class FilePartitionReader:
    """Reads shares.

    Attributes
    ----------
    fields : all columns, in the order wanted.
    partition_names : those that the files' folders give.
    conjuncts : what rows have to meet; pages that have none are passed over.
    rules : how Spark reads files.
    filesystem : where the files are; None for local paths and URLs.
    """

    fields: tuple[StructField, ...]
    partition_names: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    rules: Rules
    filesystem: Any = None

    def batches(self, share: FilePartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share, and perhaps others of its row groups that match no condition.

        Raises
        ------
        ConcurrentChangeError
            The file is not the one that was planned.
        ParquetBloomError
            It cannot be read, or not as Spark reads it.
        """
        stored = [field for field in self.fields if field.name not in self.partition_names]
        with open(share.path, self.filesystem, cache=SHARED_CACHE) as file:
            if read_file_state(file.source) != share.state:
                raise ConcurrentChangeError("it was changed since the query was planned; load it again", path=file.path)
            with reading(file):
                problem = find_reading_problem(file, list(map(_bare, stored)), self.rules)
            if problem:
                raise UnreadableColumnError(f"{problem}; leave the column out by option 'columns'", path=file.path)
            schema = pa.schema([arrow_field(field) for field in stored])
            reader = RowGroupReader(file, _reader)
            for row_group in share.row_groups:
                with reading(file):
                    for batch in self._of_row_group(file, reader, row_group, schema):
                        yield self._whole(batch, file, row_group, schema, share)

    def _whole(
        self, batch: pa.RecordBatch | int, file: BloomFile, row_group: int, schema: pa.Schema, share: FilePartition
    ) -> pa.RecordBatch:
        """A batch with all columns wanted; of a number of rows, those of the folders alone."""
        if isinstance(batch, int):
            num_rows, columns = batch, [pa.nulls(batch, field.type) for field in schema]
        else:
            num_rows, columns = batch.num_rows, conform(batch, schema, self.rules.ignore_case)
        found = dict(zip(schema.names, columns, strict=True))
        for name, value in zip(self.partition_names, share.partition, strict=True):
            found[name] = value
        arrays, fields = [], [arrow_field(field) for field in self.fields]
        for field in fields:
            value = found[field.name]
            array = value if isinstance(value, pa.Array) else _repeated(value, field.type, num_rows)
            if _has_unwanted_null(array, field.nullable):
                problem = "it has a null, and the schema that was given says that there is none"
                raise UnreadableColumnError(problem, path=file.path, row_group=row_group, column=field.name)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _of_row_group(
        self, file: BloomFile, reader: RowGroupReader, row_group: int, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch | int]:
        """Batches of the columns that the file has; numbers of rows if it has none of those wanted."""
        wanted = {fold_case(name, self.rules.ignore_case) for name in schema.names}
        stored = reader.parquet_file.schema_arrow
        names = [name for name in stored.names if fold_case(name, self.rules.ignore_case) in wanted]
        num_rows = file.footer.num_rows_of(row_group)
        if not names:
            yield from (min(_BATCH_ROWS, num_rows - start) for start in range(0, num_rows, _BATCH_ROWS))
            return
        rows = self._rows(file, row_group, stored, reader)
        if rows is None or rows.num_left == num_rows:
            reader.prefetch(row_group, names)
            file_reader = reader.parquet_file
            yield from file_reader.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=names, use_threads=False)
            return
        if not rows.num_left:
            return
        # Pages of INT96 are not taken one by one: they would come as nanoseconds, which hold too few years.
        is_int96 = {leaf.path[0]: leaf.physical == "INT96" for leaf in file.leaves}
        parts = [rows.read(part) for part in _parted(names, is_int96) if part]
        columns = {name: part.column(name) for part in parts for name in part.column_names}
        yield from pa.table(columns).to_batches(max_chunksize=_BATCH_ROWS)

    def _rows(self, file: BloomFile, row_group: int, stored: pa.Schema, reader: RowGroupReader) -> RowGroupRows | None:
        """The rows that pages leave; None without conditions that they can be held against."""
        nodes = [item.node for item in trusted(file, self.conjuncts, self.rules) if _is_there(file, item)]
        return RowGroupRows(file, stored, reader, row_group, PruningPredicate(tree.all_of(nodes))) if nodes else None


def _bare(field: StructField) -> StructField:
    """A column as it stands in files: Spark itself pads CHAR, and applies collations to what it is given."""
    if not isinstance(field.dataType, StringType):
        return field
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR}
    return StructField(field.name, StringType(), field.nullable, metadata)


def trusted(
    file: BloomFile, conjuncts: Sequence[Conjunct], rules: Rules, others: Collection[str] = ()
) -> list[Conjunct]:
    """The conditions that a file's own evidence may be held against.

    Parameters
    ----------
    others : names in them that stand for no column of the file.
    """
    asked = [{field for name, field in item.fields.items() if name not in others} for item in conjuncts]
    fields = set().union(*asked)
    known = {field for field in fields if column_doubt(file, field, rules) is None}
    return [item for item, own in zip(conjuncts, asked, strict=True) if known >= own]


def _is_there(file: BloomFile, item: Conjunct) -> bool:
    """Whether the columns have the very names in the file: pages are looked for by them."""
    paths = {leaf.path for leaf in file.leaves}
    return all(".".join(field.path) == name and field.path in paths for name, field in item.fields.items())


def _reader(file: BloomFile) -> pq.ParquetFile:
    """A file for pyarrow to read, INT96 as microseconds, which hold all years; the footer is not read again."""
    remote = file.source.path is None
    return pq.ParquetFile(
        file.source.arrow_file(), metadata=arrow_metadata(file), coerce_int96_timestamp_unit="us", pre_buffer=remote
    )


def _parted(names: Sequence[str], is_apart: dict[str, bool]) -> tuple[list[str], list[str]]:
    return [n for n in names if not is_apart.get(n)], [n for n in names if is_apart.get(n)]


def _repeated(value: Any, data_type: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, data_type) if value is None else pa.repeat(pa.scalar(value, data_type), count)


def _has_unwanted_null(array: pa.Array, is_nullable: bool) -> bool:
    """Whether there is a null, at any depth, where the type allows none."""
    if not is_nullable and array.null_count:
        return True
    kind = array.type
    if pa.types.is_struct(kind):
        pairs = zip(array.flatten(), kind, strict=True)
        some = pc.invert(array.is_null()) if array.null_count else None
        return any(
            _has_unwanted_null(child if some is None else child.filter(some), field.nullable) for child, field in pairs
        )
    if pa.types.is_map(kind):
        return _has_unwanted_null(array.items, kind.item_field.nullable)
    if pa.types.is_list(kind):
        return _has_unwanted_null(array.flatten(), kind.value_field.nullable)
    return False
