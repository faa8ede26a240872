"""Files of a table read by this package in Spark's tasks: deleted rows left out, with the table's names and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import ConcurrentChangeError
from ..file.metadata_cache import SHARED_CACHE
from ..predicate.tree import Node
from ..scan.model.folder_partitions import Partitions, ScanRequest
from ..scan.model.scan_plan import FilePlan, RowGroupPlan, ScanPlan
from ..scan.named_columns import select_table_columns
from ..scan.row_reader import RowReader
from ..scan.scan_options import ScanOptions
from ..storage import FileIdentity, RemoteIdentity, open_source, resolve_filesystem
from ..tables.table_part import TablePart
from ..tables.table_snapshot import TableSnapshot
from .jobs.file_tasks import TaskLimits, iter_numbers, pack
from .session.session_settings import use_driver_python
from .source.source_reader import FileState, find_version, read_file_state
from .spark_arrow import arrow_field, conform

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_BATCH_ROWS = 1 << 14


@dataclass(frozen=True)
class _Piece:
    """Row groups of one file that are read together."""

    plan: FilePlan
    state: FileState | None
    num_bytes: int


def read_in_tasks(
    spark: SparkSession,
    snapshot: TableSnapshot,
    plans: Sequence[FilePlan],
    schema: StructType,
    node: Node | None,
    storage_options: Mapping[str, Any] | None,
) -> DataFrame:
    """Return a DataFrame over some files of a table, which tasks read.

    Parameters
    ----------
    plans : of the files; at least one.
    schema : the columns that are read.
    node : which rows are read at least; None for all.
    storage_options : of the files' store; they are sent to the executors.
    """
    positions = {file.path: i for i, file in enumerate(snapshot.files)}
    limits = TaskLimits.of(spark)
    sizes = {plan.path: snapshot.files[positions[plan.path]].size for plan in plans}
    pieces = [piece for plan in plans for piece in _split(plan, sizes[plan.path], limits.max_bytes)]
    tasks = pack(pieces, [piece.num_bytes for piece in pieces], limits)
    part = TablePart.of(snapshot, [positions[plan.path] for plan in plans])
    reader = _TaskReader(part, tasks, schema, node, dict(storage_options or {}))
    with use_driver_python(spark):
        return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(reader, schema)


def _split(plan: FilePlan, size: int, max_bytes: int) -> Iterator[_Piece]:
    """Yield the row groups to read of a file, in pieces of about `max_bytes`.

    Parameters
    ----------
    size : of the file, in bytes by the table's metadata.
    """
    state = None
    if isinstance(plan.identity, FileIdentity | RemoteIdentity):  # what executors can compare
        state = plan.identity.size, find_version(plan.identity)
    num_rows = sum(group.num_rows for group in plan.row_groups) or 1
    members: list[RowGroupPlan] = []
    num_bytes = 0
    for group in (group for group in plan.row_groups if group.read):
        share = size * group.num_rows // num_rows
        if members and num_bytes + share > max_bytes:
            yield _Piece(replace(plan, row_groups=tuple(members), identity=None), state, num_bytes)
            members, num_bytes = [], 0
        members.append(group)
        num_bytes += share
    yield _Piece(replace(plan, row_groups=tuple(members), identity=None), state, num_bytes)


@dataclass
class _TaskReader:
    """The function of a task: it gets positions in `tasks` and returns the rows of those pieces.

    Attributes
    ----------
    part : the files, of all tasks.
    tasks : pieces of them.
    schema : of the rows.
    node : which rows are read at least; None for all.
    storage_options : of the files' store.
    """

    part: TablePart
    tasks: list[list[_Piece]]
    schema: StructType
    node: Node | None
    storage_options: Mapping[str, Any] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in iter_numbers(batches):
            yield from self._read(self.tasks[task])

    def _read(self, pieces: Sequence[_Piece]) -> Iterator[pa.RecordBatch]:
        part, filesystem = self.part, resolve_filesystem(None, self.storage_options)
        for piece in pieces:
            _require_state(piece, filesystem)
        partitions = Partitions.of_table([file.path for file in part.files], part.partition_values)
        request = ScanRequest(self.node, "UTC", False)  # literals without a zone are compared with columns without one
        files = [piece.plan for piece in pieces]
        plan = ScanPlan(files=files, filesystem=filesystem, partitions=partitions, asked=request, table=part)
        names, schema = select_table_columns(part.schema, self.schema.names)
        target = pa.schema([arrow_field(field) for field in self.schema.fields])
        reader = RowReader(plan, names, schema=schema, cache=SHARED_CACHE, options=ScanOptions(threads=1))
        with closing(reader.read_batches(_BATCH_ROWS)[1]) as batches:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(conform(batch, target, ignore_case=False), schema=target)


def _require_state(piece: _Piece, filesystem: FileSystem | None) -> None:
    """Raise ConcurrentChangeError if a file is not the one that was planned: its rows could not be told apart."""
    if piece.state is None:
        return
    with open_source(piece.plan.path, filesystem) as source:
        if read_file_state(source) != piece.state:
            raise ConcurrentChangeError("it was changed since the table was read; read it again", path=piece.plan.path)
