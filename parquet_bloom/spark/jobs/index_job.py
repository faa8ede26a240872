"""Spark's jobs that make segments of an index: what they are given, and what becomes of their results."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...errors import ParquetBloomError, StorageError, UnknownColumnError
from ...file.reader import open
from ...lake.build.segment_builder import SegmentBuilder, part_name
from ...lake.files import listing as sources
from ...lake.files.table import FileRecord
from ...lake.manifest import ColumnPart, Manifest, SegmentInfo
from ...lake.parts import layouts
from ...lake.parts.part import PartInfo
from ...lake.parts.postings.writer import write_sorted
from ...lake.reports import AppendReport
from ...storage import Entry, Folder
from ..session.fallback import log
from .hash_slices import LAST_HASH, Slices
from .index_tasks import (
    KEYS_SCHEMA,
    WRITTEN_SCHEMA,
    HashedFile,
    HashedTask,
    HashTask,
    WriteTask,
    WrittenSlice,
    part_of_name,
)
from .packing import cores_of, packed, sizes_of
from .progress import watched
from .run import collected, given_out, run, secrets_of

_ATTEMPTS = 3
_BYTES_A_SLICE = 256 << 20
_LEAST_BYTES = 8 << 20  # of the lake, for which another slice is worth while
_MOST_SLICES = 256  # files that a reader of the index opens


@dataclass
class _Work:
    """A file to be indexed: its size, and how many row groups it has where these are units."""

    entry: Entry
    size: int
    row_groups: int = 1


@dataclass
class SegmentJobs:
    """Makes segments of an index by Spark's jobs.

    Parameters
    ----------
    spark : the session.
    folder, manifest : the index's.
    named : paths of files that were named; the others were found in the lake's folders.
    storage_options, index_options, memory_limit, slices : as for `build_index`.
    report : told what becomes of the files.
    """

    spark: SparkSession
    folder: Folder
    manifest: Manifest
    named: frozenset[str]
    storage_options: Mapping[str, Any] | None = field(repr=False)
    index_options: Mapping[str, Any] | None = field(repr=False)
    memory_limit: int
    slices: int | None
    report: AppendReport
    _missing: set[str] = field(default_factory=set)

    def segments(self, entries: Sequence[Entry]) -> list[SegmentInfo]:
        """Index files; one segment, unless they have more units than one has room for.

        Raises
        ------
        UnknownColumnError
            None of the files has one of the columns.
        ParquetBloomError
            A job failed. What it has written is gone, or will be swept away.
        """
        self._missing = set(self.manifest.columns)
        made: list[SegmentInfo] = []
        try:
            for work in self._groups(self._work(entries)):
                segment = self._made(work)
                made += [] if segment is None else [segment]
            read = len(entries) - len(self.report.failed)
            if read and self._missing:
                several = f" in any of {read:,} files" if read > 1 else ""
                path = None if several else entries[0].path
                raise UnknownColumnError(f"no such column{several}", path=path, column=min(self._missing))
        except BaseException:
            for segment in made:
                self._forget(segment.name)
            raise
        return made

    @property
    def _by_row_group(self) -> bool:
        return self.manifest.granularity == "row_group"

    def _work(self, entries: Sequence[Entry]) -> list[_Work]:
        """What is to be done; for row groups a job looks into all footers, since units are given out here."""
        work = [_Work(entry, size) for entry, size in zip(entries, sizes_of(entries), strict=True)]
        if not self._by_row_group:
            return work
        counting = _RowGroups(self.storage_options)
        paths = [entry.path for entry in entries]
        outcomes = run(self.spark, "look for row groups", paths, counting, self.storage_options)
        found = []
        for each, outcome in zip(work, outcomes, strict=True):
            if outcome.result is None:
                self.report.failed[each.entry.path] = ParquetBloomError(outcome.error or "a task told nothing")
            else:
                each.row_groups = outcome.result
                found.append(each)
        return found

    def _groups(self, work: Sequence[_Work]) -> Iterator[list[_Work]]:
        most = layouts.most_units(self.manifest.layout, self.manifest.settings)
        group: list[_Work] = []
        units = 0
        for each in work:
            count = max(1, each.row_groups)
            if count > most:
                raise ParquetBloomError(f"a file of {count:,} row groups has too many for this index")
            if units + count > most:
                yield group
                group, units = [], 0
            group.append(each)
            units += count
        if group:
            yield group

    def _made(self, work: Sequence[_Work]) -> SegmentInfo | None:
        """One segment."""
        for _ in range(_ATTEMPTS):
            manifest = self.manifest
            builder = SegmentBuilder(
                self.folder, manifest.layout, manifest.settings, manifest.columns, manifest.granularity, 0
            )
            written: list[WrittenSlice] = []
            try:
                hashed, written, slices = self._job(work, builder.name)
                problem = _mixed(hashed, written, slices)
                if problem is None:
                    return self._segment(work, builder, hashed, written, slices)
            except BaseException:
                self._forget(builder.name)
                raise
            self._forget(builder.name)
            log.warning("the job is run again: %s", problem)
        raise ParquetBloomError(f"the files do not stay as they are while they are indexed: {problem}; ask again")

    def _forget(self, segment: str) -> None:
        """Delete what a job has written that came to nothing; what is left the next writer deletes."""
        with suppress(ParquetBloomError):
            self.folder.delete([name for name in self.folder.names() if name.startswith(segment)])

    def _job(self, work: Sequence[_Work], segment: str) -> tuple[list[HashedTask], list[WrittenSlice], Slices]:
        num_bytes, cores = sum(each.size for each in work), cores_of(self.spark)
        least = -(-num_bytes // _LEAST_BYTES)
        count = self.slices or min(_MOST_SLICES, max(-(-num_bytes // _BYTES_A_SLICE), min(cores, least)))
        slices = Slices(count, self.manifest.settings["prefix_bits"])
        shares = packed([each.size for each in work], cores)
        counts = [each.row_groups for each in work] if self._by_row_group else [1] * len(work)
        units, num_units = [], 0
        for each in counts:
            units.append(num_units)
            num_units += max(1, each)
        hidden = secrets_of(self.storage_options)
        targets = tuple(slices.targets())
        hashing = HashTask(self.manifest.columns, slices, targets, self._by_row_group, self.storage_options, hidden)
        options, columns = self.index_options, len(self.manifest.columns)
        writing = WriteTask(self.folder.path, segment, slices, num_units, self.memory_limit, columns, options)

        def job() -> list[Any]:
            paths = [each.entry.path for each in work]
            files = given_out(self.spark, paths, shares, {"unit": units, "row_groups": counts})
            keys = files.mapInArrow(hashing, KEYS_SCHEMA).repartition(slices.count, F.col("target"))
            return watched(
                self.spark, "index", len(work), max(shares) + 1, keys.mapInArrow(writing, WRITTEN_SCHEMA).collect
            )

        hidden = [*hidden, *secrets_of(self.index_options)]
        found = [pickle.loads(bytes(row["data"])) for row in collected([hashing, writing], hidden, job)]
        hashed = [each for each in found if isinstance(each, HashedTask)]
        return hashed, [each for each in found if isinstance(each, WrittenSlice)], slices

    # --------------------------------------------------------------------------------------------- put together

    def _segment(
        self,
        work: Sequence[_Work],
        builder: SegmentBuilder,
        hashed: Sequence[HashedTask],
        written: Sequence[WrittenSlice],
        slices: Slices,
    ) -> SegmentInfo | None:
        """The segment, whose parts executors have written; the table of its files is left to be."""
        files = sorted((file for task in hashed for file in task.files), key=lambda file: file.number)
        if [file.number for file in files] != list(range(len(work))):
            raise ParquetBloomError(f"the Spark job told of {len(files):,} files instead of {len(work):,}")
        names = dict.fromkeys(name for file in files for name in file.parts.values())
        names.update(dict.fromkeys(name for each in written for name in each.parts))
        numbers = {name: number for number, name in enumerate(names)}
        for each, file in zip(work, files, strict=True):
            self._take(each.entry, file, builder, numbers)
        if all(file.error is not None for file in files):
            self._forget(builder.name)
            return None
        self._check_there(written)
        parts = []
        for name, number in numbers.items():
            found = {each.number: each.parts[name] for each in written if name in each.parts}
            parts.append(ColumnPart(*part_of_name(name), "", self._tiled(builder, number, found, slices)))
        return builder.with_parts(parts)

    def _take(self, entry: Entry, file: HashedFile, builder: SegmentBuilder, numbers: Mapping[str, int]) -> None:
        builder.begin_file()
        if file.error is not None:
            file.error.path = file.error.path or entry.path
            self.report.failed[entry.path] = file.error
            builder.abandon_file(entry.path, file.row_groups)
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
                builder.units_of(file.row_groups),
                entry.path not in self.named,
                {column: numbers[name] for column, name in file.parts.items()},
                file.doubts,
            )
        )

    def _check_there(self, written: Sequence[WrittenSlice]) -> None:
        """Raise unless the executors' files are in the folder that the driver sees."""
        there = self.folder.names()
        for each in written:
            for part in each.parts.values():
                if there.get(part.name, (-1, 0))[0] != part.num_bytes:
                    problem = "what an executor wrote is not there: driver and executors must share the index's folder"
                    raise StorageError(problem, path=self.folder.path_of(part.name))

    def _tiled(
        self, builder: SegmentBuilder, number: int, found: Mapping[int, PartInfo], slices: Slices
    ) -> tuple[PartInfo, ...]:
        """The slices of a part, and empty ones where it has no values."""
        tiles: list[PartInfo] = []
        first = 0
        for place in range(slices.count + 1):
            if place < slices.count and place not in found:
                continue
            begin = slices.range_of(place)[0] if place < slices.count else LAST_HASH + 1
            if begin > first:
                path = self.folder.path_of(part_name(builder.name, number, builder.layout, place))
                bits, units = slices.prefix_bits, builder.num_units
                tiles.append(write_sorted(path, self.folder.filesystem, [], bits, units, first, begin - 1))
            if place < slices.count:
                tiles.append(found[place])
                first = slices.range_of(place)[1] + 1
        return tuple(tiles)


@dataclass(frozen=True)
class _RowGroups:
    """How many row groups a file has."""

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, path: str) -> int:
        with open(path, storage_options=self.storage_options) as file:
            return file.num_row_groups


def _mixed(hashed: Sequence[HashedTask], written: Sequence[WrittenSlice], slices: Slices) -> str | None:
    """Why what was sent is not what was written; None if it is.

    Spark runs tasks again whose results it has lost, and files may be others by then: some slices would have the values
    of the one, and some of the other.
    """
    tasks = {task.task: task for task in hashed}
    of_slices = {each.number: each for each in written}
    if len(tasks) != len(hashed) or len(of_slices) != len(written):
        return "a task's results came twice"
    for each in written:
        if not set(each.sums) <= set(tasks):
            return "there are values of tasks that told nothing"
    for number in range(slices.count):
        sums = of_slices[number].sums if number in of_slices else {}
        for task in hashed:
            if int(task.sums[number]) != sums.get(task.task, 0):
                return "values of some files came twice, and differed"
    return None
