"""What Spark's tasks do for an index: hash the files' values, and write slices of them, sorted.

The values of a task's files go, a range of hashes each, to the tasks that write. Tasks may run more than once, and then
find other files than before; the checksums of what was sent and of what has come tell whether all of it belongs
together.
"""

from __future__ import annotations

import json
import pickle
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.hash.xxh64 import hash_one
from ...core.index.postings import squeeze
from ...errors import ConcurrentChangeError, ParquetBloomError
from ...hashing.column_type import ColumnType, Kind
from ...lake.build.segment_builder import part_name
from ...lake.files.hash_files import OpenedFile, RowGroupResult, hash_files
from ...lake.parts.layouts import POSTINGS
from ...lake.parts.part import PartInfo
from ...lake.parts.postings.writer import write_sorted
from ...lake.parts.sorted_runs import SortedRuns
from ...predicate.statistics import ColumnShape
from ...storage import Entry, Folder, resolve_filesystem
from .hash_slices import Slices
from .run import decoded, without

KEYS_SCHEMA = "target INT, slice INT, task INT, part STRING, data BINARY"
WRITTEN_SCHEMA = "data BINARY"

_KEYS_A_ROW = 1024  # Spark hands over 10,000 rows at a time
_WAITING = 1 << 20  # keys of a part, before they are sorted and sent
_TOLD = -1  # in the place of a slice's number: no keys, but what became of the files
_MASK = 2**64 - 1


def name_of_part(column: str, column_type: ColumnType, holds: ColumnShape) -> str:
    """What stands for a part until it has a number: the same text for the same part, wherever it is made."""
    told = {"column": column, "type": {**asdict(column_type), "kind": column_type.kind.value}, "holds": holds.value}
    return json.dumps(told, sort_keys=True)


def part_of_name(name: str) -> tuple[str, ColumnType, ColumnShape]:
    """The part that a name stands for."""
    told = json.loads(name)
    column_type = ColumnType(**{**told["type"], "kind": Kind(told["type"]["kind"])})
    return told["column"], column_type, ColumnShape(told["holds"])


@dataclass
class HashedFile:
    """What became of a file.

    Attributes
    ----------
    number : of the file in the job.
    error : why it is not indexed; None if it is.
    size, stamp, footer, data, row_groups : see `FileRecord`.
    parts : {column: name of the part that has its values}.
    doubts : {column: why it is not covered}.
    missing : columns that it does not have.
    entries : (value, row group) pairs.
    """

    number: int
    error: ParquetBloomError | None = None
    size: int = -1
    stamp: bytes = b""
    footer: int = 0
    data: int = 0
    row_groups: int = 1
    parts: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    entries: int = 0


@dataclass(frozen=True)
class HashedTask:
    """What a task tells of its files, and the checksum of what it sent to each slice."""

    task: int
    files: list[HashedFile]
    sums: NDArray[np.uint64]


@dataclass(frozen=True)
class WrittenSlice:
    """What a task has written of a slice: {part: file}, and the checksum of what had come from each task."""

    number: int
    parts: dict[str, PartInfo]
    sums: dict[int, int]


@dataclass(frozen=True)
class HashTask:
    """Rows (number, task, path, unit, row_groups) in, a file each; keys out, and at the end a `HashedTask`.

    Attributes
    ----------
    columns : indexed ones.
    slices, targets : where keys go.
    by_row_group : whether a file's row groups are units of their own, from its first one on.
    storage_options : of the lake.
    hidden : texts that no error may show.
    """

    columns: tuple[str, ...]
    slices: Slices
    targets: tuple[int, ...]
    by_row_group: bool
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    hidden: Sequence[str] = field(default=(), repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [row for batch in batches for row in batch.to_pylist()]
        if files:
            yield from self._hashed(files)

    def _hashed(self, files: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        sending = _Sending(files[0]["task"], self.slices, self.targets)
        entries = [Entry(decoded(file["path"])) for file in files]
        told = [HashedFile(file["number"], row_groups=max(1, file["row_groups"])) for file in files]
        at = 0
        for piece in hash_files(entries, self.columns, resolve_filesystem(None, self.storage_options), 1):
            yield from self._take(piece, files[at], told[at], sending)
            if piece.last:
                if piece.opened is not None:
                    piece.opened.file.source.close()
                at += 1
        for part in sending.parts:
            yield from sending.send(part)
        yield sending.tell(told)

    def _take(
        self, piece: RowGroupResult, row: Mapping[str, Any], told: HashedFile, sending: _Sending
    ) -> Iterator[pa.RecordBatch]:
        opened = piece.opened
        problem = piece.error
        if (
            problem is None
            and opened is not None
            and self.by_row_group
            and opened.file.num_row_groups != row["row_groups"]
        ):
            problem = ConcurrentChangeError("it was changed while it was indexed", path=piece.entry.path)
        if problem is not None:
            problem.problem = without(self.hidden, problem.problem)
            told.error = told.error or problem
        if told.error is not None or opened is None:
            return
        if piece.last:
            self._end(opened, told)
            return
        column = opened.columns[piece.column]
        part = name_of_part(piece.column, column.column_type, column.holds)
        unit = row["unit"] + (piece.row_group if self.by_row_group else 0)
        told.entries += len(piece.hashes)
        yield from sending.take(part, unit, piece.hashes)

    def _end(self, opened: OpenedFile, told: HashedFile) -> None:
        told.size, told.stamp = opened.file.source.size, opened.stamp
        told.footer, told.data = opened.footer, opened.data
        told.row_groups = opened.file.num_row_groups
        told.parts = {
            name: name_of_part(name, column.column_type, column.holds) for name, column in opened.columns.items()
        }
        told.doubts, told.missing = opened.doubts, opened.missing


class _Sending:
    """Keys on their way to the tasks that write them."""

    def __init__(self, task: int, slices: Slices, targets: Sequence[int]):
        self.task = task
        self._sums = [0] * slices.count
        self._targets = targets
        self._firsts = np.array(slices.firsts(), np.uint64)
        self._mask = np.uint64(2**64 - 2 ** (64 - slices.prefix_bits))
        self._waiting: dict[str, list[NDArray[np.uint64]]] = {}
        self._count: dict[str, int] = {}

    @property
    def parts(self) -> list[str]:
        return list(self._waiting)

    def take(self, part: str, unit: int, hashes: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        self._waiting.setdefault(part, []).append((hashes & self._mask) | np.uint64(unit))
        self._count[part] = self._count.get(part, 0) + len(hashes)
        if self._count[part] >= _WAITING:
            yield from self.send(part)

    def send(self, part: str) -> Iterator[pa.RecordBatch]:
        """What waits of a part; a value that several row groups of a file have is one."""
        keys = np.concatenate([*self._waiting[part], np.empty(0, np.uint64)])
        self._waiting[part], self._count[part] = [], 0
        keys.sort()
        keys = keys[: squeeze(keys)]
        ends = np.append(np.searchsorted(keys, self._firsts[1:]), len(keys)).tolist()
        numbers, data = [], []
        first = 0
        for number, end in enumerate(ends):
            for start in range(first, end, _KEYS_A_ROW):
                piece = keys[start : min(end, start + _KEYS_A_ROW)].tobytes()
                numbers.append(number)
                data.append(piece)
                self._sums[number] = self._sums[number] + checksum(part, piece) & _MASK
            first = end
        if numbers:
            yield self._rows(numbers, [self._targets[number] for number in numbers], part, data)

    def tell(self, files: list[HashedFile]) -> pa.RecordBatch:
        """What became of the files, when all has been sent."""
        told = HashedTask(self.task, files, np.array(self._sums, np.uint64))
        return self._rows([_TOLD], [self._targets[self.task % len(self._targets)]], "", [pickle.dumps(told)])

    def _rows(self, numbers: list[int], targets: list[int], part: str, data: list[bytes]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "target": pa.array(targets, pa.int32()),
                "slice": pa.array(numbers, pa.int32()),
                "task": pa.array([self.task] * len(numbers), pa.int32()),
                "part": pa.array([part] * len(numbers), pa.string()),
                "data": pa.array(data, pa.binary()),
            }
        )


def checksum(part: str, data: bytes) -> int:
    """Of keys that are sent at once; those of all that is sent are added up, so that their order does not count."""
    return hash_one(data) * (hash_one(part.encode()) | 1) & _MASK


@dataclass(frozen=True)
class WriteTask:
    """Keys in; files of the index out, of which pickled `WrittenSlice`s tell. `HashedTask`s are passed on.

    Attributes
    ----------
    index_path, index_options : the index's folder.
    segment : what names of files begin with.
    slices : what each is a range of.
    num_units : of all files.
    memory_limit : bytes for keys that are being sorted.
    """

    index_path: str
    segment: str
    slices: Slices
    num_units: int
    memory_limit: int
    num_columns: int
    index_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs: dict[int, dict[str, SortedRuns]] = {}
        sums: dict[int, dict[int, int]] = {}
        try:
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in ("slice", "task", "part", "data"))
                for number, task, part, data in zip(*columns, strict=True):
                    if number == _TOLD:
                        yield _binary(data)
                        continue
                    of_slice, of_task = runs.setdefault(number, {}), sums.setdefault(number, {})
                    if part not in of_slice:
                        # A column has one type in most lakes; where it has several, each gets less.
                        limit = self.memory_limit // max(self.num_columns, len(of_slice) + 1)
                        of_slice[part] = SortedRuns(limit)
                    of_slice[part].add(np.frombuffer(data, np.uint64))
                    of_task[task] = of_task.get(task, 0) + checksum(part, data) & _MASK
            for number in list(runs):
                yield _binary(pickle.dumps(WrittenSlice(number, self._written(number, runs[number]), sums[number])))
        finally:
            for of_slice in runs.values():
                for each in of_slice.values():
                    each.close()

    def _written(self, number: int, parts: dict[str, SortedRuns]) -> dict[str, PartInfo]:
        """Write a slice, in files that no other attempt at it writes."""
        folder = Folder(self.index_path, resolve_filesystem(None, self.index_options))
        attempt = f"{self.segment}-{secrets.token_hex(8)}"
        found = {}
        for place, (part, runs) in enumerate(parts.items()):
            path = folder.path_of(part_name(attempt, place, POSTINGS, number))
            keys, (first, last) = runs.sort(), self.slices.range_of(number)
            bits = self.slices.prefix_bits
            found[part] = write_sorted(path, folder.filesystem, keys, bits, self.num_units, first, last, runs.num_keys)
            runs.close()
        return found


def _binary(data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"data": pa.array([data], pa.binary())})
