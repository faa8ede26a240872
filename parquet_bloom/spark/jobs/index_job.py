"""Spark jobs that build segments of an index: their inputs, and the use of their results."""

from __future__ import annotations

import json
import pickle
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...core.hash.xxh64 import hash_one
from ...core.index.postings import squeeze
from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError, UnknownColumnError
from ...file.bloom_file import open
from ...hashing.column_type import ColumnType, Kind
from ...lake import lake_files as sources
from ...lake import layouts
from ...lake.file_table import FileRecord
from ...lake.hash_files import HashedRowGroup, OpenedDataFile, TableColumns, hash_files
from ...lake.index_manifest import ColumnPart, IndexManifest, Key, SegmentInfo
from ...lake.index_part import PartInfo
from ...lake.index_reports import AppendReport
from ...lake.layouts import POSTINGS
from ...lake.postings_writer import PartShape, write_sorted
from ...lake.segment import SegmentBuilder, part_name
from ...lake.sorted_runs import SortedRuns
from ...lake.units import FILE, Units
from ...predicate.key_expression import KeyExpression, hint_at_expressions
from ...predicate.pruning_statistics import ColumnShape
from ...storage import Entry, resolve_filesystem
from ...storage.index_folder import Folder
from ..session.session_settings import log, use_driver_python
from .file_tasks import TaskLimits, find_secrets, find_sizes, hide_secrets, iter_numbers, pack
from .run_files import collect_results, run, run_with_progress

_ATTEMPTS = 3
_BYTES_PER_SLICE = 256 << 20
_MIN_SLICE_BYTES = 8 << 20  # bytes of the lake that justify another slice
_MAX_SLICES = 256  # a reader of the index opens one file per slice


@dataclass
class _FileWork:
    """A file to be indexed: its size, and the rows of its row groups unless units are files."""

    entry: Entry
    size: int
    row_counts: tuple[int, ...] | None = None


@dataclass
class SegmentJobs:
    """Builder of an index's segments by Spark jobs.

    Parameters
    ----------
    spark : the session.
    folder, manifest : the folder and the manifest of the index.
    named : paths of files that the caller named; the others were listed in the lake's folders.
    storage_options, memory_limit, slices : as for `build_index`.
    index_options : of the index's store.
    report : receives the results of the files.
    table_columns : of the table that the files belong to; see `hash_files`.
    """

    spark: SparkSession
    folder: Folder
    manifest: IndexManifest
    named: frozenset[str]
    storage_options: Mapping[str, Any] | None = field(repr=False)
    index_options: Mapping[str, Any] | None = field(repr=False)
    memory_limit: int
    slices: int | None
    report: AppendReport
    table_columns: TableColumns = field(default=None, repr=False)
    _missing: set[str] = field(default_factory=set)

    def build_segments(self, entries: Sequence[Entry]) -> list[SegmentInfo]:
        """Index files into one segment, or several if they have more units than one can hold.

        Raises
        ------
        UnknownColumnError
            A column is in none of the files.
        ParquetBloomError
            A job failed. Its files are deleted, or will be by the next writer.
        """
        self._missing = set(self.manifest.columns)
        built: list[SegmentInfo] = []
        try:
            for group in self._group_work(self._list_work(entries)):
                segment = self._build_segment(group)
                built += [] if segment is None else [segment]
            num_read = len(entries) - len(self.report.failed)
            if num_read and self._missing:
                scope = f" in any of {num_read:,} files" if num_read > 1 else ""
                path = None if scope else entries[0].path
                column = min(self._missing)
                problem = f"no such column{scope}{hint_at_expressions(column)}"
                raise UnknownColumnError(problem, path=path, column=column)
        except BaseException:
            for segment in built:
                self._delete_files(segment.name)
            raise
        return built

    def _list_work(self, entries: Sequence[Entry]) -> list[_FileWork]:
        """List the files to index; to number row groups or zones as units, a job reads all footers first."""
        work = [_FileWork(entry, size) for entry, size in zip(entries, find_sizes(entries), strict=True)]
        if self.manifest.granularity == FILE:
            return work
        task = _CountRows(self.storage_options)
        paths = [entry.path for entry in entries]
        outcomes = run(self.spark, "look for row groups", paths, task, self.storage_options)
        readable = []
        for item, outcome in zip(work, outcomes, strict=True):
            if outcome.result is None:
                self.report.failed[item.entry.path] = ParquetBloomError(outcome.error or "a task returned no result")
            else:
                item.row_counts = outcome.result
                readable.append(item)
        return readable

    def _group_work(self, work: Sequence[_FileWork]) -> Iterator[list[_FileWork]]:
        max_units = layouts.most_units(self.manifest.layout, self.manifest.settings)
        group: list[_FileWork] = []
        units = 0
        for item in work:
            count = self.manifest.units.count(item.row_counts or ())
            if count > max_units:
                problem = f"a file of {count:,} {self.manifest.units} has too many for this index"
                raise ParquetBloomError(problem, path=item.entry.path)
            if units + count > max_units:
                yield group
                group, units = [], 0
            group.append(item)
            units += count
        if group:
            yield group

    def _build_segment(self, work: Sequence[_FileWork]) -> SegmentInfo | None:
        """Build one segment."""
        for _ in range(_ATTEMPTS):
            manifest = self.manifest
            builder = SegmentBuilder(
                self.folder, manifest.layout, manifest.settings, manifest.columns, manifest.units, 0
            )
            written: list[WrittenSlice] = []
            try:
                hashed, written, slices = self._run_job(work, builder.name)
                problem = _find_mismatch(hashed, written, slices)
                if problem is None:
                    return self._assemble_segment(work, builder, hashed, written, slices)
            except BaseException:
                self._delete_files(builder.name)
                raise
            self._delete_files(builder.name)
            log.warning("the job is run again: %s", problem)
        raise ParquetBloomError(f"files changed while they were indexed: {problem}; try again")

    def _delete_files(self, segment: str) -> None:
        """Delete the files of a failed job; the next writer deletes what remains."""
        with suppress(ParquetBloomError):
            self.folder.delete([name for name in self.folder.names() if name.startswith(segment)])

    def _run_job(self, work: Sequence[_FileWork], segment: str) -> tuple[list[HashedTask], list[WrittenSlice], Slices]:
        sizes, limits = [item.size for item in work], TaskLimits.of(self.spark)
        num_bytes = sum(sizes)
        slices_by_cores = min(limits.cores, -(-num_bytes // _MIN_SLICE_BYTES))
        count = self.slices or min(_MAX_SLICES, max(-(-num_bytes // _BYTES_PER_SLICE), slices_by_cores))
        settings, indexed = self.manifest.settings, self.manifest.columns
        slices = Slices(count, min(layouts.find_prefix_bits(settings, column) for column in indexed))
        inputs, num_units = [], 0
        for number, item in enumerate(work):
            inputs.append(HashedInput(number, item.entry.path, num_units, item.row_counts))
            num_units += self.manifest.units.count(item.row_counts or ())
        packed = [pickle.dumps(task) for task in pack(inputs, sizes, limits)]
        secrets = find_secrets(self.storage_options)
        targets = tuple(slices.targets())
        hashing = HashTask(
            packed,
            indexed,
            settings,
            slices,
            targets,
            self.manifest.units,
            self.storage_options,
            secrets,
            self.table_columns,
        )
        options, columns = self.index_options, len(indexed)
        writing = WriteTask(self.folder.path, segment, settings, slices, num_units, self.memory_limit, columns, options)

        def job() -> list[Any]:
            tasks = self.spark.range(0, len(packed), 1, len(packed))
            with use_driver_python(self.spark):
                keys = tasks.mapInArrow(hashing, KEYS_SCHEMA).repartition(slices.count, F.col("target"))
                collect = keys.mapInArrow(writing, WRITTEN_SCHEMA).collect
            return run_with_progress(self.spark, "index", len(work), len(packed), collect)

        secrets = [*secrets, *find_secrets(self.index_options)]
        results = [pickle.loads(bytes(row["data"])) for row in collect_results([hashing, writing], secrets, job)]
        hashed = [item for item in results if isinstance(item, HashedTask)]
        return hashed, [item for item in results if isinstance(item, WrittenSlice)], slices

    def _assemble_segment(
        self,
        work: Sequence[_FileWork],
        builder: SegmentBuilder,
        hashed: Sequence[HashedTask],
        written: Sequence[WrittenSlice],
        slices: Slices,
    ) -> SegmentInfo | None:
        """Build the segment whose parts the executors have written; its table of files is written later."""
        files = sorted((file for task in hashed for file in task.files), key=lambda file: file.number)
        if [file.number for file in files] != list(range(len(work))):
            raise ParquetBloomError(f"the Spark job returned results for {len(files):,} of {len(work):,} files")
        names = dict.fromkeys(name for file in files for name in file.parts.values())
        names.update(dict.fromkeys(name for item in written for name in item.parts))
        numbers = {name: number for number, name in enumerate(names)}
        for item, file in zip(work, files, strict=True):
            self._record_file(item.entry, file, builder, numbers)
        if all(file.error is not None for file in files):
            self._delete_files(builder.name)
            return None
        self._check_files_exist(written)
        parts = []
        for name, number in numbers.items():
            slices_of_part = {item.number: item.parts[name] for item in written if name in item.parts}
            key = decode_part_name(name)
            shape = layouts.make_shape(self.manifest.settings, key[0], builder.num_units)
            parts.append(ColumnPart(*key, self._fill_gaps(builder, number, slices_of_part, slices, shape)))
        return builder.with_parts(parts)

    def _record_file(self, entry: Entry, file: HashedFile, builder: SegmentBuilder, numbers: Mapping[str, int]) -> None:
        builder.begin_file(file.row_counts)
        if file.error is not None:
            file.error.path = file.error.path or entry.path
            self.report.failed[entry.path] = file.error
            builder.abandon_file(entry.path)
            return
        self._missing &= file.missing
        for column, doubt in file.doubts.items():
            self.report.uncovered.setdefault(column, {})[entry.path] = doubt
        builder.end_file(
            FileRecord(
                sources.name_of(entry.path),
                file.size,
                file.stamp,
                file.footer,
                file.data,
                file.row_counts,
                entry.path not in self.named,
                {column: numbers[name] for column, name in file.parts.items()},
                file.doubts,
            )
        )

    def _check_files_exist(self, written: Sequence[WrittenSlice]) -> None:
        """Raise unless the executors' files are in the folder that the driver sees."""
        existing = self.folder.names()
        for item in written:
            for part in item.parts.values():
                if existing.get(part.name, (-1, 0))[0] != part.num_bytes:
                    problem = "an executor's file is missing: driver and executors must share the index's folder"
                    raise StorageError(problem, path=self.folder.path_of(part.name))

    def _fill_gaps(
        self, builder: SegmentBuilder, number: int, written: Mapping[int, PartInfo], slices: Slices, shape: PartShape
    ) -> tuple[PartInfo, ...]:
        """Return the slices of a part, with empty ones for the ranges without values; `shape` is that of the part."""
        tiles: list[PartInfo] = []
        first = 0
        for i in range(slices.count + 1):
            if i < slices.count and i not in written:
                continue
            begin = slices.range_of(i)[0] if i < slices.count else LAST_HASH + 1
            if begin > first:
                path = self.folder.path_of(part_name(builder.name, number, builder.layout, i))
                empty = replace(shape, first=first, last=begin - 1)
                tiles.append(write_sorted(path, self.folder.filesystem, [], empty))
            if i < slices.count:
                tiles.append(written[i])
                first = slices.range_of(i)[1] + 1
        return tuple(tiles)


@dataclass(frozen=True)
class _CountRows:
    """Task that returns the rows of each row group of a file."""

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> tuple[int, ...]:
        with open(path, storage_options=self.storage_options) as file:
            return tuple(map(file.footer.num_rows_of, file.row_groups))


def _find_mismatch(hashed: Sequence[HashedTask], written: Sequence[WrittenSlice], slices: Slices) -> str | None:
    """Return why the values that were sent differ from those that were written; None if they are the same.

    Spark repeats tasks whose results it has lost, and files may have changed by then: some slices would have values of
    the old file, and others of the new one.
    """
    tasks = {task.task: task for task in hashed}
    slices_by_number = {item.number: item for item in written}
    if len(tasks) != len(hashed) or len(slices_by_number) != len(written):
        return "a task's results arrived twice"
    for item in written:
        if not set(item.sums) <= set(tasks):
            return "values arrived from tasks without a result"
    for number in range(slices.count):
        sums = slices_by_number[number].sums if number in slices_by_number else {}
        for task in hashed:
            if int(task.sums[number]) != sums.get(task.task, 0):
                return "values of some files arrived twice, and differed"
    return None


_SEED = 42  # of Spark's hash function
_HASH_MASK = 2**32 - 1
LAST_HASH = 2**64 - 1


@dataclass(frozen=True)
class Slices:
    """Ranges of about equal size that together cover all hashes.

    Parameters
    ----------
    count : number of slices; reduced to the number that `prefix_bits` can distinguish.
    prefix_bits : number of leading bits of a hash that are stored: hashes that share them are in one slice.
    """

    count: int
    prefix_bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", max(1, min(self.count, 1 << self.prefix_bits)))

    def firsts(self) -> list[int]:
        """Return the first hash of each slice."""
        below = 64 - self.prefix_bits
        return [(number << self.prefix_bits) // self.count << below for number in range(self.count)]

    def range_of(self, number: int) -> tuple[int, int]:
        """Return the first and the last hash of a slice."""
        firsts = self.firsts()
        return firsts[number], firsts[number + 1] - 1 if number + 1 < self.count else LAST_HASH

    def targets(self) -> list[int]:
        """Return for each slice a number with which `repartition(count, number)` gives it a separate partition.

        Spark chooses a partition by the hash of the number. If its hash function differed from `spark_hash`, slices
        would share partitions: slower, but still correct.
        """
        target_by_slice: dict[int, int] = {}
        number = 0
        while len(target_by_slice) < self.count:
            target_by_slice.setdefault(spark_hash(number) % self.count, number)
            number += 1
        return [target_by_slice[i] for i in range(self.count)]


def spark_hash(number: int) -> int:
    """Return Spark's `hash` of an INT: 32-bit Murmur3 as a signed number.

    Source: https://github.com/aappleby/smhasher (MurmurHash3_x86_32), for one block.
    """
    block = number * 0xCC9E2D51 & _HASH_MASK
    block = _rotate_left(block, 15) * 0x1B873593 & _HASH_MASK
    state = (_rotate_left(_SEED ^ block, 13) * 5 + 0xE6546B64) & _HASH_MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & _HASH_MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _HASH_MASK
    state ^= state >> 16
    return state - (state >> 31 << 32)


def _rotate_left(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _HASH_MASK


KEYS_SCHEMA = "target INT, slice INT, task INT, part STRING, data BINARY"
WRITTEN_SCHEMA = "data BINARY"

_KEYS_PER_ROW = 1024  # Spark passes 10,000 rows at a time
_MAX_PENDING_KEYS = 1 << 20  # of a part, before they are sorted and sent
_RESULT = -1  # slice number of rows that hold the results of files instead of keys
_MASK = 2**64 - 1


def encode_part_name(column: str, column_type: ColumnType, holds: ColumnShape, meaning: str = "") -> str:
    """Return a text that identifies a part until it has a number, and is the same on every executor."""
    description = {
        "column": column,
        "expression": column.to_json() if isinstance(column, KeyExpression) else None,
        "type": {**asdict(column_type), "kind": column_type.kind.value},
        "holds": holds.value,
        "meaning": meaning,
    }
    return json.dumps(description, sort_keys=True)


def decode_part_name(name: str) -> Key:
    """Return the part that a name identifies."""
    description = json.loads(name)
    column_type = ColumnType(**{**description["type"], "kind": Kind(description["type"]["kind"])})
    column, expression = description["column"], description["expression"]
    if expression is not None:
        column = KeyExpression.from_json(column, expression)
    return column, column_type, ColumnShape(description["holds"]), description["meaning"], ()


@dataclass
class HashedFile:
    """Result of hashing a file.

    Attributes
    ----------
    number : position of the file in the job.
    error : why it is not indexed; None if it is.
    size, stamp, footer, data, row_counts : see `FileRecord`.
    parts : {column: name of the part that has its values}.
    doubts : {column: why it is not covered}.
    missing : columns that it does not have.
    """

    number: int
    error: ParquetBloomError | None = None
    size: int = -1
    stamp: bytes = b""
    footer: int = 0
    data: int = 0
    row_counts: tuple[int, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HashedTask:
    """Result of a task: its files, and the checksum of what it sent to each slice."""

    task: int
    files: list[HashedFile]
    sums: NDArray[np.uint64]


@dataclass(frozen=True)
class WrittenSlice:
    """Result of writing a slice: {part: file}, and the checksum of what arrived from each task."""

    number: int
    parts: dict[str, PartInfo]
    sums: dict[int, int]


@dataclass(frozen=True)
class HashedInput:
    """A file that a task hashes.

    Attributes
    ----------
    number : position of the file in the job.
    unit : number of the file's first unit.
    row_counts : rows of each of its row groups; None where units are files, which do not depend on them.
    """

    number: int
    path: str
    unit: int
    row_counts: tuple[int, ...] | None


@dataclass(frozen=True)
class HashTask:
    """Function of a hashing task: its number to the keys of its files, then a `HashedTask`.

    Attributes
    ----------
    packed : the pickled list of `HashedInput` of each task.
    columns, settings : of the index.
    slices, targets : where keys are sent.
    units : what a unit is; they are numbered from the file's first unit.
    storage_options : options of the lake's store.
    hidden : texts that errors must not contain.
    table_columns : of the table that the files belong to, see `hash_files`.
    """

    packed: Sequence[bytes] = field(repr=False)
    columns: tuple[str, ...]
    settings: Mapping[str, int]
    slices: Slices
    targets: tuple[int, ...]
    units: Units
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    hidden: Sequence[str] = field(default=(), repr=False)
    table_columns: TableColumns = field(default=None, repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for task in iter_numbers(batches):
            yield from self._hash_files(task, pickle.loads(self.packed[task]))

    def _hash_files(self, task: int, files: Sequence[HashedInput]) -> Iterator[pa.RecordBatch]:
        sender = _KeySender(task, self.settings, self.slices, self.targets)
        entries = [Entry(file.path) for file in files]
        results = [HashedFile(file.number, row_counts=file.row_counts or ()) for file in files]
        i = 0
        filesystem = resolve_filesystem(None, self.storage_options)
        zone_rows = self.units.zone_rows
        for piece in hash_files(entries, self.columns, filesystem, 1, self.table_columns, zone_rows=zone_rows):
            yield from self._add_row_group(piece, files[i], results[i], sender)
            if piece.last:
                if piece.opened is not None:
                    piece.opened.file.source.close()
                i += 1
        for part in sender.parts:
            yield from sender.send(part)
        yield sender.make_result(results)

    def _add_row_group(
        self, piece: HashedRowGroup, file: HashedInput, result: HashedFile, sender: _KeySender
    ) -> Iterator[pa.RecordBatch]:
        opened = piece.opened
        problem = piece.error
        if (
            problem is None
            and opened is not None
            and file.row_counts is not None
            and opened.row_counts != file.row_counts
        ):
            problem = ConcurrentChangeError("it was changed while it was indexed", path=piece.entry.path)
        if problem is not None:
            problem.problem = hide_secrets(self.hidden, problem.problem)
            result.error = result.error or problem
        if result.error is not None or opened is None:
            return
        if piece.last:
            self._finish_file(opened, result)
            return
        column = opened.columns[piece.column]
        part = encode_part_name(piece.column, column.column_type, column.holds, column.meaning)
        unit = file.unit + self.units.find_first(piece.row_group, file.row_counts or ())
        for number, hashes in enumerate(piece.hashes):
            yield from sender.add(part, unit + number, hashes)

    def _finish_file(self, opened: OpenedDataFile, result: HashedFile) -> None:
        result.size, result.stamp = opened.file.source.size, opened.stamp
        result.footer, result.data = opened.footer, opened.data
        result.row_counts = opened.row_counts
        result.parts = {
            name: encode_part_name(name, column.column_type, column.holds, column.meaning)
            for name, column in opened.columns.items()
        }
        result.doubts, result.missing = opened.doubts, opened.missing


class _KeySender:
    """Buffer of keys that are sent to the tasks that write them."""

    def __init__(self, task: int, settings: Mapping[str, int], slices: Slices, targets: Sequence[int]):
        self.task = task
        self._sums = [0] * slices.count
        self._targets = targets
        self._firsts = np.array(slices.firsts(), np.uint64)
        self._settings = settings
        self._masks: dict[str, np.uint64] = {}
        self._pending: dict[str, list[NDArray[np.uint64]]] = {}
        self._count: dict[str, int] = {}

    @property
    def parts(self) -> list[str]:
        return list(self._pending)

    def add(self, part: str, unit: int, hashes: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        if part not in self._masks:
            prefix_bits = layouts.find_prefix_bits(self._settings, decode_part_name(part)[0])
            self._masks[part] = np.uint64(2**64 - 2 ** (64 - prefix_bits))
        self._pending.setdefault(part, []).append((hashes & self._masks[part]) | np.uint64(unit))
        self._count[part] = self._count.get(part, 0) + len(hashes)
        if self._count[part] >= _MAX_PENDING_KEYS:
            yield from self.send(part)

    def send(self, part: str) -> Iterator[pa.RecordBatch]:
        """Yield the pending keys of a part, sorted; a value in several row groups of one unit is sent once."""
        keys = np.concatenate([*self._pending[part], np.empty(0, np.uint64)])
        self._pending[part], self._count[part] = [], 0
        keys.sort()
        keys = keys[: squeeze(keys)]
        ends = np.append(np.searchsorted(keys, self._firsts[1:]), len(keys)).tolist()
        numbers, data = [], []
        first = 0
        for number, end in enumerate(ends):
            for start in range(first, end, _KEYS_PER_ROW):
                piece = keys[start : min(end, start + _KEYS_PER_ROW)].tobytes()
                numbers.append(number)
                data.append(piece)
                self._sums[number] = self._sums[number] + checksum(part, piece) & _MASK
            first = end
        if numbers:
            yield self._make_batch(numbers, [self._targets[number] for number in numbers], part, data)

    def make_result(self, files: list[HashedFile]) -> pa.RecordBatch:
        """Return the results of the files, after all keys have been sent."""
        result = HashedTask(self.task, files, np.array(self._sums, np.uint64))
        return self._make_batch([_RESULT], [self._targets[self.task % len(self._targets)]], "", [pickle.dumps(result)])

    def _make_batch(self, numbers: list[int], targets: list[int], part: str, data: list[bytes]) -> pa.RecordBatch:
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
    """Return the checksum of keys that are sent together; checksums are summed, so that order does not matter."""
    return hash_one(data) * (hash_one(part.encode()) | 1) & _MASK


@dataclass(frozen=True)
class WriteTask:
    """Function of a writing task: keys to files of the index.

    It returns pickled `WrittenSlice`s, and passes on `HashedTask`s.

    Attributes
    ----------
    index_path, index_options : the index's folder.
    segment : prefix of the names of files.
    settings : of the index.
    slices : the ranges of hashes.
    num_units : number of units of all files.
    memory_limit : bytes for the keys being sorted.
    """

    index_path: str
    segment: str
    settings: Mapping[str, int]
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
                    if number == _RESULT:
                        yield _make_result_batch(data)
                        continue
                    runs_of_parts, sums_of_tasks = runs.setdefault(number, {}), sums.setdefault(number, {})
                    if part not in runs_of_parts:
                        # A column has one type in most lakes; if it has several, each gets less memory.
                        limit = self.memory_limit // max(self.num_columns, len(runs_of_parts) + 1)
                        runs_of_parts[part] = SortedRuns(limit)
                    runs_of_parts[part].add(np.frombuffer(data, np.uint64))
                    sums_of_tasks[task] = sums_of_tasks.get(task, 0) + checksum(part, data) & _MASK
            for number in list(runs):
                yield _make_result_batch(
                    pickle.dumps(WrittenSlice(number, self._write_slice(number, runs[number]), sums[number]))
                )
        finally:
            for runs_of_parts in runs.values():
                for sorted_runs in runs_of_parts.values():
                    sorted_runs.close()

    def _write_slice(self, number: int, parts: dict[str, SortedRuns]) -> dict[str, PartInfo]:
        """Write a slice to files that no other attempt at it writes."""
        folder = Folder(self.index_path, resolve_filesystem(None, self.index_options))
        attempt = f"{self.segment}-{secrets.token_hex(8)}"
        written = {}
        for i, (part, runs) in enumerate(parts.items()):
            path = folder.path_of(part_name(attempt, i, POSTINGS, number))
            keys, (first, last) = runs.sort(), self.slices.range_of(number)
            shape = layouts.make_shape(self.settings, decode_part_name(part)[0], self.num_units)
            shape = replace(shape, first=first, last=last, num_entries=runs.num_keys)
            written[part] = write_sorted(path, folder.filesystem, keys, shape)
            runs.close()
        return written


def _make_result_batch(data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"data": pa.array([data], pa.binary())})
