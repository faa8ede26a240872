"""Reader of a data source task: row groups of files as Arrow batches of the types that Spark expects."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StringType, StructField

from ...errors import ConcurrentChangeError, UnreadableColumnError
from ...file.bloom_file import BloomFile, open
from ...file.metadata_cache import SHARED_CACHE
from ...file.pages.page_columns import find_page_columns
from ...file.pages.row_group_batch import RowGroups, RowsOfGroups
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...scan.decode.parquet_data import ParquetData
from ...scan.decode.row_group_decoder import RowGroupDecoder
from ...scan.model.file_schemas import arrow_metadata, arrow_schema, reading
from ...scan.model.row_selection import RowSelection
from ...storage import FileIdentity, RemoteIdentity, Source
from ..jobs.file_tasks import TaskLimits, pack
from ..plan.column_trust import Rules, find_column_problem
from ..session.session_settings import CHAR, fold_case, iter_types
from ..spark_arrow import arrow_field, conform, find_problem
from .source_options import Conjunct

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

CHANGED = "it was changed since the DataFrame was made: make it again"

_BATCH_ROWS = 1 << 14

FileState = tuple[int, int | bytes | None]
"""Size and version of a file; see `read_file_state`."""


def read_file_state(source: Source) -> FileState:
    """Return a value that changes with a file and is the same on every host: its size, and an ETag or a time."""
    return source.size, find_version(source.identity)


def find_version(identity: Hashable) -> int | bytes | None:
    """Return the part of a file's identity that is the same on every host: an ETag or a time."""
    if isinstance(identity, RemoteIdentity):
        return identity.etag or identity.modified_ns
    return identity.modified_ns if isinstance(identity, FileIdentity) else None


def find_reading_problem(file: BloomFile, fields: Sequence[StructField], rules: Rules) -> str | None:
    """Return why pyarrow does not read columns of a file as Spark does, or None if it does."""
    has_times = any(kind.typeName() in ("date", "timestamp") for f in fields for kind in iter_types(f.dataType))
    problem = rules.legacy_calendar(file) if has_times else None
    if rules.shifts_int96 and not (file.footer.created_by or "").startswith("parquet-mr"):
        problem = "its INT96 timestamps are shifted to the session's zone"
    return problem or find_problem(fields, arrow_schema(file), rules.ignore_case)


@dataclass(frozen=True)
class FilePartition:
    """Row groups of one file that a task reads.

    Attributes
    ----------
    path : the file.
    row_groups : the row groups to read.
    state : state of the file when it was planned; a changed file may have other row groups.
    partition_values : values of the partition columns.
    """

    path: str
    row_groups: tuple[int, ...]
    state: FileState
    partition_values: tuple[Any, ...]


def pack_row_groups(
    partitions: Sequence[FilePartition], sizes: Sequence[int], limits: TaskLimits
) -> list[tuple[FilePartition, ...]]:
    """Return what each task reads, with the row groups of one file together.

    Parameters
    ----------
    partitions, sizes : row groups, file by file, and the bytes of each.
    """
    tasks = []
    for task in pack(partitions, sizes, limits):
        files = [[*members] for _, members in groupby(task, key=lambda partition: partition.path)]
        row_groups = [tuple(number for member in members for number in member.row_groups) for members in files]
        tasks.append(
            tuple(replace(members[0], row_groups=found) for members, found in zip(files, row_groups, strict=True))
        )
    return tasks


@dataclass(frozen=True)
class FilePartitionReader:
    """Reader of file partitions.

    Attributes
    ----------
    fields : all columns, in the requested order.
    partition_names : names of the partition columns.
    conjuncts : conditions on rows; pages without a match are skipped.
    rules : how Spark reads files.
    filesystem : the file system of the files; None for local paths and URLs.
    """

    fields: tuple[StructField, ...]
    partition_names: tuple[str, ...]
    conjuncts: tuple[Conjunct, ...]
    rules: Rules
    filesystem: FileSystem | None = None

    def batches(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file partition, possibly with others of its row groups that match no condition.

        Raises
        ------
        ConcurrentChangeError
            The file was changed after it was planned.
        ParquetBloomError
            The file cannot be read, or not as Spark reads it.
        """
        stored = [field for field in self.fields if field.name not in self.partition_names]
        with open(partition.path, self.filesystem, cache=SHARED_CACHE) as file:
            if read_file_state(file.source) != partition.state:
                raise ConcurrentChangeError(CHANGED, path=file.path)
            with reading(file):
                problem = find_reading_problem(file, list(map(_as_stored, stored)), self.rules)
            if problem:
                raise UnreadableColumnError(f"{problem}; leave the column out by option 'columns'", path=file.path)
            schema = pa.schema([arrow_field(field) for field in stored])
            data = ParquetData(file, None, _open_parquet_file, "us")
            for row_group in partition.row_groups:
                with reading(file):
                    for batch in self._read_row_group(data, row_group, schema):
                        yield self._complete_batch(batch, file, row_group, schema, partition)

    def _complete_batch(
        self, batch: pa.RecordBatch | int, file: BloomFile, row_group: int, schema: pa.Schema, partition: FilePartition
    ) -> pa.RecordBatch:
        """Return a batch with all columns; a number of rows becomes a batch of the partition columns alone."""
        if isinstance(batch, int):
            num_rows, columns = batch, [pa.nulls(batch, field.type) for field in schema]
        else:
            num_rows, columns = batch.num_rows, conform(batch, schema, self.rules.ignore_case)
        values = dict(zip(schema.names, columns, strict=True))
        for name, column in zip(self.partition_names, partition.partition_values, strict=True):
            values[name] = column
        arrays, fields = [], [arrow_field(field) for field in self.fields]
        for field in fields:
            column = values[field.name]
            array = column if isinstance(column, pa.Array) else _repeat(column, field.type, num_rows)
            if _has_forbidden_null(array, field.nullable):
                problem = "it has a null, but the given schema does not allow nulls"
                raise UnreadableColumnError(problem, path=file.path, row_group=row_group, column=field.name)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _read_row_group(self, data: ParquetData, row_group: int, schema: pa.Schema) -> Iterator[pa.RecordBatch | int]:
        """Yield batches of the columns that the file has, or numbers of rows if it has none of them."""
        requested = {fold_case(name, self.rules.ignore_case) for name in schema.names}
        file, stored = data.file, data.parquet_file.schema_arrow
        names = [name for name in stored.names if fold_case(name, self.rules.ignore_case) in requested]
        num_rows = file.footer.num_rows_of(row_group)
        if not names:
            yield from (min(_BATCH_ROWS, num_rows - start) for start in range(0, num_rows, _BATCH_ROWS))
            return
        selection = self._select_rows(file, row_group)
        if selection is None:
            data.require_rows(row_group, names)
            data.require_shown(row_group, names)
            data.prefetch(row_group, names)
            reader = data.parquet_file
            yield from reader.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=names, use_threads=False)
            return
        if not selection:
            return
        groups = RowGroups([file.footer], [(0, row_group)])
        flat = {name: column for name, column in find_page_columns(file, stored).items() if not column.leaf.repeated}
        decoder = RowGroupDecoder(data, groups, flat, data.limits)
        rows = RowsOfGroups.select(groups.num_rows, [selection])
        schema = pa.schema([stored.field(name) for name in names])
        yield from decoder.read(names, schema, rows, {}).to_batches(max_chunksize=_BATCH_ROWS)

    def _select_rows(self, file: BloomFile, row_group: int) -> RowSelection | None:
        """Return the rows that the page indexes leave; None for all of them."""
        nodes = [
            item.node
            for item in _find_usable_conjuncts(file, self.conjuncts, self.rules)
            if _has_exact_names(file, item)
        ]
        if not nodes:
            return None
        selection = tuple(ParquetData(file).select_rows(row_group, PruningPredicate(tree.all_of(nodes))))
        return None if selection == ((0, file.footer.num_rows_of(row_group)),) else selection


def _as_stored(field: StructField) -> StructField:
    """Return a column as it is stored: Spark itself pads CHAR and applies collations to the values that it is given."""
    if not isinstance(field.dataType, StringType):
        return field
    metadata = {key: value for key, value in field.metadata.items() if key != CHAR}
    return StructField(field.name, StringType(), field.nullable, metadata)


def _find_usable_conjuncts(file: BloomFile, conjuncts: Sequence[Conjunct], rules: Rules) -> list[Conjunct]:
    """Return the conditions that may be evaluated with a file's own statistics."""
    fields = {field for item in conjuncts for field in item.fields.values()}
    usable = {field for field in fields if find_column_problem(file, field, rules) is None}
    return [item for item in conjuncts if usable.issuperset(item.fields.values())]


def _has_exact_names(file: BloomFile, item: Conjunct) -> bool:
    """Return whether the file has the columns with exactly these names, by which pages are looked up."""
    paths = {leaf.path for leaf in file.leaves}
    return all(".".join(field.path) == name and field.path in paths for name, field in item.fields.items())


def _open_parquet_file(file: BloomFile) -> pq.ParquetFile:
    """Open a file with pyarrow, without reading the footer again; INT96 become microseconds, which cover all years."""
    remote = file.source.path is None
    return pq.ParquetFile(
        file.source.arrow_file(), metadata=arrow_metadata(file), coerce_int96_timestamp_unit="us", pre_buffer=remote
    )


def _repeat(value: Any, data_type: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, data_type) if value is None else pa.repeat(pa.scalar(value, data_type), count)


def _has_forbidden_null(array: pa.Array, is_nullable: bool) -> bool:
    """Return whether there is a null, at any depth, where the type allows none."""
    if not is_nullable and array.null_count:
        return True
    data_type = array.type
    if pa.types.is_struct(data_type):
        pairs = zip(array.flatten(), data_type, strict=True)
        is_valid = pc.invert(array.is_null()) if array.null_count else None
        return any(
            _has_forbidden_null(child if is_valid is None else child.filter(is_valid), field.nullable)
            for child, field in pairs
        )
    if pa.types.is_map(data_type):
        return _has_forbidden_null(array.items, data_type.item_field.nullable)
    if pa.types.is_list(data_type):
        return _has_forbidden_null(array.flatten(), data_type.value_field.nullable)
    return False
