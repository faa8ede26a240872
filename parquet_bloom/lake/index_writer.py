"""Append to an index: read new and changed files, and commit a segment of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.column_hashes import hash_distinct
from ..predicate.key_expression import hint_at_expressions
from ..predicate.pruning_statistics import ColumnShape
from ..storage import Entry
from ..storage.index_folder import Folder
from ..tables.table_snapshot import Table
from . import index_manifest as manifests
from . import lake_files as sources
from . import layouts
from .file_table import FileRecord, FileTable
from .hash_files import HashedRowGroup, OpenedDataFile, hash_files
from .index_maintenance import begin_change, merge_tiers, restamp, sweep
from .index_manifest import IndexManifest, Key, SegmentInfo
from .index_reports import AppendReport
from .index_snapshot import IndexSnapshotReader
from .lake_files import LakeAccess, LakeDescription
from .learn_weights import with_learnt_weights
from .liveness import LakeState, LivenessCheck, PathTable, assume_live
from .segment import Segment, SegmentBuilder
from .units import FILE

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

Progress = Callable[[int, int], None]


class AppendResult(NamedTuple):
    """Result of an append.

    Attributes
    ----------
    report : report for the caller.
    roots : the folders, patterns or table that the files were listed in.
    manifest : the current manifest.
    tables : file tables of the new segments, by their names.
    """

    report: AppendReport
    roots: LakeDescription
    manifest: IndexManifest
    tables: Mapping[str, FileTable]


@dataclass(frozen=True)
class AppendLimits:
    """How files are appended; see `LakeIndex.append`."""

    memory_limit: int
    threads: int = 1
    progress: Progress | None = None
    on_error: Callable[[ParquetBloomError], None] | None = None


@dataclass(frozen=True)
class IndexWriter:
    """Appends to an index.

    Attributes
    ----------
    folder : of the index.
    lake : how the lake's files are reached.
    liveness : of its files.
    tables : see `open_segments`.
    """

    folder: Folder
    lake: LakeAccess
    liveness: LivenessCheck
    tables: Mapping[str, FileTable]

    def append(self, files: object, options: AppendLimits, table: Table | None = None) -> AppendResult:
        """Index files, see `LakeIndex.append`.

        Parameters
        ----------
        table : what the index is over, if that is a table; for files that are not given.
        """
        filesystem = self.lake.filesystem
        with begin_change(self.folder, self.tables) as (manifest, segments):
            recent = None if table is None or files is not None else _list_changes(manifest, segments, table)
            if recent is None:
                lake = files if files is not None else table or manifest.lake
                listing = sources.list_lake(lake, filesystem, self.lake.storage_options)
                live, num_live = self.liveness.check(segments, listing), len(listing.entries)
            else:
                listing, num_live = recent
                live = LakeState.make_unchecked(segments, listing)
                live.unindexed = [entry.path for entry in listing.entries]
            sources.require_columns(manifest.columns, listing.table)
            roots = sources.merge_roots(manifest.lake, listing.roots, is_table_of(manifest, listing))
            sources.require_outside(self.folder.path, roots)
            entries = list(listing.entries)
            if files is None and recent is None:  # also changed files that were given by name
                listed = {entry.path for entry in entries}
                more = [path for path in live.unindexed if path not in listed]
                listing = replace(listing, named=listing.named.union(more))
                entries += map(Entry, more)
            todo = select_unindexed(entries, live)
            report = AppendReport(unchanged=(len(entries) if recent is None else num_live) - len(todo))
            manifest = with_learnt_weights(manifest, todo, filesystem, listing.table_columns)
            with closing(_Appending(self.folder, manifest, listing, options.memory_limit, report)) as appending:
                appending.read(todo, filesystem, options)
                new_segments = appending.finish()
            names = [sources.name_of(entry.path, filesystem) for entry in todo if entry.path not in report.failed]
            added = AddedFiles(new_segments, names, roots, listing.snapshot, num_live)
            before = IndexSnapshotReader(manifest, segments, live)
            current = commit(self.folder, before, added, options.memory_limit, report)
            return AppendResult(report, listing.roots, current, appending.tables)

    def append_batches(
        self,
        batches: Iterable[tuple[str, Mapping[str, pa.Array]]],
        memory_limit: int,
        progress: Callable[[int], None] | None = None,
    ) -> AppendResult:
        """Index given values, see `LakeIndex.append_batches`."""
        with begin_change(self.folder, self.tables) as (manifest, segments):
            if manifest.granularity != FILE:
                problem = f"values without their rows go into an index of files only, not of {manifest.units}"
                raise ParquetBloomError(problem, path=self.folder.path)
            report = AppendReport()
            listing = sources.LakeListing([])
            with closing(_Appending(self.folder, manifest, listing, memory_limit, report)) as appending:
                names = appending.take_batches(batches, progress)
                new_segments = appending.finish()
            added = AddedFiles(new_segments, names, manifest.lake, manifest.snapshot)
            before = IndexSnapshotReader(manifest, segments, assume_live(segments))
            current = commit(self.folder, before, added, memory_limit, report)
            return AppendResult(report, manifest.lake, current, appending.tables)


def _list_changes(
    manifest: IndexManifest, segments: Sequence[Segment], table: Table
) -> tuple[sources.LakeListing, int] | None:
    """List the files that a table got since its files were all indexed, and say how many it has.

    None if only a list of all files says what to do: where the log does not tell, or the index has files that it does
    not expect.
    """
    snapshot, by_name = manifest.snapshot, any((segment.present & ~segment.files.listed).any() for segment in segments)
    version, table_id = snapshot.get("version"), snapshot.get("table_id")
    if manifest.num_live is None or by_name or type(version) is not int or not isinstance(table_id, str):
        return None
    changes = table.read_changes(table_id, version)
    if changes is None or manifest.lake.get(changes.kind) != changes.root:
        return None
    indexed = PathTable(segments).find([sources.name_of(path) for path in changes.files])[0] >= 0
    num_live, entries = manifest.num_live, []
    for (path, change), is_indexed in zip(changes.files.items(), indexed.tolist(), strict=True):
        if change.was_removed != is_indexed:  # as after a table was restored
            return None
        num_live += change.is_live - is_indexed
        if change.is_live and not is_indexed:
            entries.append(Entry(path))
    entries.sort()
    return sources.LakeListing(entries, manifest.lake, table=changes), num_live


def is_table_of(manifest: IndexManifest, listing: sources.LakeListing) -> bool:
    """Return whether files were listed in the table that an index is of."""
    snapshot, indexed = listing.snapshot, manifest.snapshot
    return bool(snapshot) and all(snapshot[name] == indexed.get(name) for name in ("kind", "table_id"))


def select_unindexed(entries: Sequence[Entry], live: LakeState) -> list[Entry]:
    """Return the files that are not indexed in their current state."""
    paths = {*live.unindexed, *live.renamed}
    return [entry for entry in entries if entry.path in paths]


@dataclass(frozen=True)
class AddedFiles:
    """Files that were indexed, and are to be committed.

    Attributes
    ----------
    segments, names : their segments, and their names in the index.
    roots, snapshot : new description of the lake, and its table's snapshot.
    num_live : number of files of the snapshot; None if they are not all indexed, or it is not known.
    """

    segments: Sequence[SegmentInfo]
    names: Sequence[str]
    roots: LakeDescription
    snapshot: Mapping[str, object]
    num_live: int | None = None


def commit(
    folder: Folder, before: IndexSnapshotReader, added: AddedFiles, memory_limit: int, report: AppendReport
) -> IndexManifest:
    """Commit new segments to an index, and remove older records of their files.

    Returns the current manifest.

    Parameters
    ----------
    before : the index as it was.
    report : receives the numbers of files added and replaced, of their values, and of segments merged.
    """
    manifest = before.manifest
    kept = _remove_replaced(before, added.names, report)
    report.entries = sum(segment.num_entries for segment in added.segments)
    kept = restamp(folder, before.segments, kept, before.live)
    following = manifest.next(
        segments=(*kept, *added.segments),
        lake=added.roots,
        snapshot=dict(added.snapshot) or manifest.snapshot,
        num_live=added.num_live if added.snapshot and not report.failed else None,
    )
    if not added.segments and replace(following, number=manifest.number) == manifest:
        return manifest  # nothing has changed
    following, report.merged = merge_tiers(folder, following, memory_limit)
    manifests.write(folder, following)
    sweep(folder, following, before=manifest)
    return following


def _remove_replaced(before: IndexSnapshotReader, names: Sequence[str], report: AppendReport) -> list[SegmentInfo]:
    """Return the previous segments, without files that have been indexed again."""
    owners, numbers = PathTable(before.segments).find(names)
    report.replaced = int((owners >= 0).sum())
    report.added = len(names) - report.replaced
    return [
        info.without(numbers[owners == i]) if (owners == i).any() else info
        for i, info in enumerate(before.manifest.segments)
    ]


class _Appending:
    """Builds segments from files that are read one after the other."""

    def __init__(
        self,
        folder: Folder,
        manifest: IndexManifest,
        listing: sources.LakeListing,
        memory_limit: int,
        report: AppendReport,
    ):
        self._folder = folder
        self._manifest = manifest
        self._listing = listing
        self._memory_limit = memory_limit
        self._report = report
        self._builder = self._new()
        self._segments: list[SegmentInfo] = []
        self.tables: dict[str, FileTable] = {}
        # A column that no file has is a mistake, unless indexed files have it: schemas evolve.
        indexed = {part.column for segment in manifest.segments for part in segment.parts}
        self._missing = set(manifest.columns) - indexed
        self._begun = False

    def read(self, entries: Sequence[Entry], filesystem: FileSystem | None, options: AppendLimits) -> None:
        """Read all files; raise the first error unless `on_error` is given."""
        failed: ParquetBloomError | None = None
        done = 0
        columns, table_columns = self._manifest.columns, self._listing.table_columns
        memory_limit, zone_rows = max(1, self._memory_limit // 4), self._manifest.zone_rows
        reading = hash_files(entries, columns, filesystem, options.threads, table_columns, memory_limit, zone_rows)
        with closing(reading) as results:
            for result in results:
                opened_file = result.opened
                try:
                    if failed is None and result.error is None and opened_file is not None and not self._begun:
                        failed = self._find_misfit(opened_file)
                    if failed is None and result.error is None and opened_file is not None:
                        self._add_result(result, opened_file, filesystem)
                    else:
                        failed = failed or result.error
                    if not result.last:
                        continue
                finally:
                    if result.last and opened_file is not None:
                        opened_file.file.source.close()
                if failed is not None:
                    if options.on_error is None:
                        raise failed
                    options.on_error(failed)
                    self._report.failed[result.entry.path] = failed
                    self._abandon(opened_file, result.entry)
                    failed = None
                done += 1
                if options.progress:
                    options.progress(done, len(entries))
        read = len(entries) - len(self._report.failed)
        if self._missing and read:
            suffix = f" in any of {read:,} files" if read > 1 else ""
            path = None if suffix else entries[0].path
            column = min(self._missing)
            problem = f"no such column{suffix}{hint_at_expressions(column)}"
            raise UnknownColumnError(problem, path=path, column=column)

    def _add_result(self, result: HashedRowGroup, opened_file: OpenedDataFile, filesystem: FileSystem | None) -> None:
        if not self._begun:
            row_counts = opened_file.row_counts
            self._roll(row_counts)
            self._builder.begin_file(row_counts)
            self._begun = True
        if result.last:
            self._end(opened_file, filesystem)
            return
        self._builder.add(self._key(result.column, opened_file), result.row_group, result.hashes)

    def _end(self, opened_file: OpenedDataFile, filesystem: FileSystem | None) -> None:
        self._missing &= opened_file.missing
        parts = {name: self._builder.part_number(self._key(name, opened_file)) for name in opened_file.columns}
        path = opened_file.entry.path
        for name, doubt in opened_file.doubts.items():
            self._report.uncovered.setdefault(name, {})[path] = doubt
        self._builder.end_file(
            FileRecord(
                sources.name_of(path, filesystem),
                opened_file.file.source.size,
                opened_file.stamp,
                opened_file.footer,
                opened_file.data,
                opened_file.row_counts,
                path not in self._listing.named,
                parts,
                opened_file.doubts,
            )
        )
        self._begun = False

    @staticmethod
    def _key(column: str, opened_file: OpenedDataFile) -> Key:
        covered = opened_file.columns[column]
        return column, covered.column_type, covered.holds, covered.meaning, covered.other_types

    def _abandon(self, opened_file: OpenedDataFile | None, entry: Entry) -> None:
        if self._begun and opened_file is not None:
            self._builder.abandon_file(entry.path)
        self._begun = False

    def _roll(self, row_counts: Sequence[int]) -> None:
        """Begin another segment if this one has no units left."""
        if not self._builder.has_room(row_counts):
            self._finish_segment()
            self._builder = self._new()

    def _find_misfit(self, opened_file: OpenedDataFile) -> ParquetBloomError | None:
        """Return why a file does not fit into a segment of its own; None if it does."""
        manifest = self._manifest
        count = manifest.units.count(opened_file.row_counts)
        if count <= layouts.most_units(manifest.layout, manifest.settings):
            return None
        problem = f"a file of {count:,} {manifest.units} has too many for this index"
        return ParquetBloomError(problem, path=opened_file.entry.path)

    def _new(self) -> SegmentBuilder:
        manifest = self._manifest
        return SegmentBuilder(
            self._folder,
            manifest.layout,
            manifest.settings,
            manifest.columns,
            manifest.units,
            self._memory_limit,
        )

    def finish(self) -> list[SegmentInfo]:
        self._finish_segment()
        return self._segments

    def _finish_segment(self) -> None:
        info = self._builder.finish()
        self._segments += [info] if info else []
        self.tables |= self._builder.tables

    def close(self) -> None:
        self._builder.close()

    # --------------------------------------------------------------------------------------------- given values

    def take_batches(
        self, batches: Iterable[tuple[str, Mapping[str, pa.Array]]], progress: Callable[[int], None] | None
    ) -> list[str]:
        """Add given values; return the files' paths."""
        paths: list[str] = []
        parts: dict[str, int] = {}
        for name, arrays in batches:
            path = sources.resolve_given_path(os.fsdecode(name))
            if self._manifest.expressions:
                problem = "an index of expressions takes files, not values"
                raise ParquetBloomError(problem, path=path, column=self._manifest.expressions[0])
            unknown_columns = set(arrays) - set(self._manifest.columns)
            if unknown_columns:
                raise UnknownColumnError("the index has no such column", path=path, column=min(unknown_columns))
            if not paths or path != paths[-1]:
                self._end_batch(paths, parts, progress)
                paths.append(path)
                parts = {}
                self._roll(())
                self._builder.begin_file()
                self._begun = True
            for column, array in arrays.items():
                try:
                    column_type, hashes = hash_distinct(array)
                except ParquetBloomError as error:
                    error.path, error.column = path, column
                    raise
                key = column, column_type, ColumnShape.VALUES, "", ()
                number = self._builder.part_number(key)
                if parts.setdefault(column, number) != number:
                    problem = "batches of one file have the column in two types"
                    raise ParquetBloomError(problem, path=path, column=column)
                self._builder.add(key, 0, [np.asarray(hashes)])
        self._end_batch(paths, parts, progress)
        if len(set(paths)) < len(paths):
            raise ParquetBloomError("batches of one file do not follow each other")
        return paths

    def _end_batch(
        self, paths: Sequence[str], parts: Mapping[str, int], progress: Callable[[int], None] | None
    ) -> None:
        if not self._begun:
            return
        doubts = {name: "no values were given" for name in self._manifest.columns if name not in parts}
        self._builder.end_file(FileRecord(paths[-1], -1, b"", 0, 0, (), False, dict(parts), doubts))
        self._begun = False
        if progress:
            progress(len(paths))
