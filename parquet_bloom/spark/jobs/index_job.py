"""Spark jobs that build segments of an index: their inputs, and the use of their results."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...errors import ParquetBloomError, StorageError, UnknownColumnError
from ...file.bloom_file import open
from ...lake import lake_files as sources
from ...lake import layouts
from ...lake.file_table import FileRecord
from ...lake.hash_files import TableColumns
from ...lake.index_manifest import ColumnPart, IndexManifest, SegmentInfo
from ...lake.index_part import PartInfo
from ...lake.index_reports import AppendReport
from ...lake.postings_writer import PartShape, write_sorted
from ...lake.segment import SegmentBuilder, part_name
from ...lake.units import FILE
from ...storage import Entry
from ...storage.index_folder import Folder
from ..session.session_settings import log, use_driver_python
from .file_tasks import TaskLimits, find_secrets, find_sizes, pack
from .index_tasks import (
    KEYS_SCHEMA,
    LAST_HASH,
    WRITTEN_SCHEMA,
    HashedFile,
    HashedInput,
    HashedTask,
    HashTask,
    Slices,
    WriteTask,
    WrittenSlice,
    decode_part_name,
)
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
                raise UnknownColumnError(f"no such column{scope}", path=path, column=min(self._missing))
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
        slices = Slices(count, self.manifest.settings["prefix_bits"])
        inputs, num_units = [], 0
        for number, item in enumerate(work):
            inputs.append(HashedInput(number, item.entry.path, num_units, item.row_counts))
            num_units += self.manifest.units.count(item.row_counts or ())
        packed = [pickle.dumps(task) for task in pack(inputs, sizes, limits)]
        secrets = find_secrets(self.storage_options)
        targets = tuple(slices.targets())
        hashing = HashTask(
            packed,
            self.manifest.columns,
            slices,
            targets,
            self.manifest.units,
            self.storage_options,
            secrets,
            self.table_columns,
        )
        options, columns = self.index_options, len(self.manifest.columns)
        writing = WriteTask(self.folder.path, segment, slices, num_units, self.memory_limit, columns, options)

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
            parts.append(ColumnPart(*decode_part_name(name), self._fill_gaps(builder, number, slices_of_part, slices)))
        return builder.with_parts(parts)

    def _record_file(self, entry: Entry, file: HashedFile, builder: SegmentBuilder, numbers: Mapping[str, int]) -> None:
        builder.begin_file(file.row_counts)
        if file.error is not None:
            file.error.path = file.error.path or entry.path
            self.report.failed[entry.path] = file.error
            builder.abandon_file(entry.path)
            return
        self._missing &= file.missing
        self.report.entries += file.entries
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
        self, builder: SegmentBuilder, number: int, written: Mapping[int, PartInfo], slices: Slices
    ) -> tuple[PartInfo, ...]:
        """Return the slices of a part, with empty ones for the ranges without values."""
        tiles: list[PartInfo] = []
        first = 0
        for i in range(slices.count + 1):
            if i < slices.count and i not in written:
                continue
            begin = slices.range_of(i)[0] if i < slices.count else LAST_HASH + 1
            if begin > first:
                path = self.folder.path_of(part_name(builder.name, number, builder.layout, i))
                shape = PartShape(slices.prefix_bits, builder.num_units, first, begin - 1)
                tiles.append(write_sorted(path, self.folder.filesystem, [], shape))
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
