"""Read the index of a lake: from a value to the files that may hold it."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import BrokenIndexError, ParquetBloomError
from ..predicate.key_expression import KeyExpression
from ..redaction import redacted
from ..storage import Entry, is_local, is_url, resolve_filesystem
from ..storage.confined import ConfinedFolders, confine
from ..storage.index_folder import Folder
from ..tables.table_snapshot import Table
from ..util.arguments import require_integer
from ..util.messages import count
from ..util.threads import in_order
from . import lake_files as sources
from .expression_keys import parse_literals
from .file_table import NOT_COVERED, FileTable
from .hash_files import hash_row_group, open_to_index
from .index_manifest import IndexManifest
from .index_reports import Answers, CheckReport, IndexSnapshot, IndexStats
from .index_snapshot import IndexSnapshotReader, open_segments
from .lake_files import LakeAccess, LakeDescription
from .liveness import LivenessCheck, assume_live
from .segment import Segment

if TYPE_CHECKING:
    from ..util.given_types import FileSystem, Lake, Values

Progress = Callable[[int, int], None]


class LakeIndexReader:
    """An index that is looked up and never changed; see `LakeIndex`.

    Parameters
    ----------
    folder : of the index.
    lake : the lake that the caller gives, if any, and how its files are reached.
    live, list_table : see `open`.
    progress : called with (done, total) while files are read.
    ahead : columns that will be queried, see `open_segments`.
    """

    def __init__(
        self,
        folder: Folder,
        lake: LakeAccess,
        *,
        live: bool = True,
        list_table: bool = True,
        progress: Progress | None = None,
        ahead: Collection[str] | None = (),
    ):
        self._folder = folder
        self._lake = replace(lake, given=sources.find_lake_table(lake.given, lake.storage_options) or lake.given)
        self._own_table: tuple[LakeDescription, Table | None] = ({}, None)  # as the manifest describes it
        self._checks_liveness = live
        self._lists_tables = list_table
        self._listed_paths: list[str] = []  # the paths that the lake was listed from
        self._changing = threading.Lock()
        self._remote = not is_local(folder.filesystem, [folder.path])
        manifest, segments, listing = self._open_current(ahead=ahead)
        self._liveness = LivenessCheck(manifest.columns, lake.filesystem)
        self._state = IndexSnapshotReader(manifest, segments, assume_live(segments))
        if self._checks_liveness:
            self._update_liveness(manifest, segments, listing, progress)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        live: bool = True,
        list_table: bool = True,
        lake: Lake | None = None,
        filesystem: FileSystem | None = None,
        storage_options: Mapping[str, object] | None = None,
        lake_filesystem: FileSystem | None = None,
        lake_storage_options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open an index.

        Parameters
        ----------
        path : folder of the index.
        live : list the lake, and check which files have changed since they were indexed. If a file's times or etag are
            new, its indexed columns are read to find out whether its values have changed: embedding filters changes
            none. With False, lookups return results as of the last change of the index, without files added since.
        list_table : with False an index over a table is not live, as scans of the table list its files by themselves.
        lake : the lake's files, as for `create`, of a table at the version that it names; None for the lake stored in
            the index.
        filesystem, storage_options, lake_filesystem, lake_storage_options : as for `create`.
        progress : called with (done, total) while files are read.

        Raises
        ------
        StorageError
            There is no index, or the lake cannot be listed.
        BrokenIndexError
            The index is damaged.
        """
        folder = Folder(path, resolve_filesystem(filesystem, storage_options))
        table = sources.find_lake_table(lake, lake_storage_options)
        if table is not None:
            lake, lake_storage_options = table, lake_storage_options or table.storage_options
        access = find_access(folder, lake, lake_filesystem, lake_storage_options)
        return cls(folder, access, live=live, list_table=list_table, progress=progress, ahead=None)

    @property
    def path(self) -> str:
        return self._folder.path

    @property
    def columns(self) -> tuple[str, ...]:
        return self._state.manifest.columns

    @property
    def live(self) -> bool:
        """True if the index was opened with the list of the lake's files."""
        return self._checks_liveness

    @property
    def lake_filesystem(self) -> FileSystem | None:
        """File system of the lake, as given or derived from the index's; None for local paths and URLs."""
        return self._lake.filesystem

    def confine(self, folders: ConfinedFolders) -> None:
        """Open files of the lake from now on as `storage.confined.ConfinedFiles` do."""
        self._lake = replace(self._lake, filesystem=confine(self._lake.filesystem, folders))
        self._liveness = LivenessCheck(self.columns, self._lake.filesystem)

    @property
    def table(self) -> Table | None:
        """The Delta or Iceberg table that the index is over; None for other files.

        Raises
        ------
        ParquetBloomError
            The index does not know how to open the table again: it has to be given to `open` or `append`.
        """
        return self._find_table(self._state.manifest)

    @property
    def remote(self) -> bool:
        """True if the index is in an object store, where each read has a latency."""
        return self._remote

    @property
    def unindexed(self) -> list[str]:
        """Live files that are not indexed, or have changed since: candidates for every value."""
        return list(self._state.live.unindexed)

    def refresh(self, progress: Progress | None = None) -> None:
        """Load the current state of the index and of the lake. Errors and `progress` are those of `open`."""
        self._refresh(progress)

    def _refresh(
        self,
        progress: Progress | None = None,
        manifest: IndexManifest | None = None,
        tables: Mapping[str, FileTable] = {},
    ) -> None:
        """Refresh, given the newest manifest and file tables that are not in the state yet, if the caller has them."""
        with self._changing:
            segments_by_name = {segment.info.name: segment for segment in self._state.segments}
            manifest, segments, listing = self._open_current(segments_by_name, {**self._tables, **tables}, manifest)
            if self._checks_liveness:
                self._update_liveness(manifest, segments, listing, progress)
            else:
                self._set_state(IndexSnapshotReader(manifest, segments, assume_live(segments)))

    def close(self) -> None:
        """Close the index's files."""
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        # A copy opens the index anew, by its path, as it is then.
        path, filesystem = self._folder.path, self._folder.filesystem
        path = os.path.abspath(path) if is_local(filesystem, [path]) else path
        return _reopen, (type(self), path, filesystem, self._lake, self.live, self._lists_tables)

    def __repr__(self) -> str:
        manifest = self._state.manifest
        files = count(manifest.num_files, "file")
        return redacted(f"<{type(self).__name__} {self.path}: {', '.join(manifest.columns)} of {files}>")

    def _open_current(
        self,
        segments_by_name: Mapping[str, Segment] = {},
        tables: Mapping[str, FileTable] = {},
        manifest: IndexManifest | None = None,
        ahead: Collection[str] | None = (),
    ) -> tuple[IndexManifest, list[Segment], sources.LakeListing | None]:
        """Open the index (see `open_segments`) and list the lake if it is live; concurrently if the index is remote."""
        if not self._checks_liveness or not self._remote:
            manifest, segments = open_segments(self._folder, segments_by_name, tables, manifest, ahead=ahead)
            return manifest, segments, self._list_lake(manifest) if self._checks_liveness else None
        listings: list[Iterator[sources.LakeListing | None]] = []
        with ExitStack() as stack:

            def begin(newest: IndexManifest) -> None:
                listings.append(stack.enter_context(in_order(self._list_lake, [newest], 1)))

            manifest, segments = open_segments(self._folder, segments_by_name, tables, manifest, begin, ahead)
            return manifest, segments, next(listings[-1])

    @property
    def _tables(self) -> Mapping[str, FileTable]:
        """File tables in memory, by their names."""
        return {segment.info.files: segment.files for segment in self._state.segments}

    def _update_liveness(
        self,
        manifest: IndexManifest,
        segments: Sequence[Segment],
        listing: sources.LakeListing | None,
        progress: Progress | None,
    ) -> None:
        live = self._liveness.check(segments, listing, progress=progress)
        if self._lake.given is None and "paths" in manifest.lake:
            self._require_listed_in(manifest, segments, live.gone_at)
        self._set_state(IndexSnapshotReader(manifest, segments, live))

    def _require_listed_in(
        self, manifest: IndexManifest, segments: Sequence[Segment], gone_at: Sequence[NDArray[np.bool_]]
    ) -> None:
        """Raise BrokenIndexError if files that are gone were listed elsewhere than in the manifest's lake.

        Files that were given by name can be anywhere.
        """
        for segment, gone in zip(segments, gone_at, strict=True):
            for path in segment.files.paths(np.flatnonzero(gone & segment.files.listed)):
                if not sources.is_below(path, manifest.lake["paths"]):
                    problem = f"the manifest does not have the folder in which {path} was listed"
                    raise BrokenIndexError(problem, path=self.path)

    def _list_lake(self, manifest: IndexManifest) -> sources.LakeListing | None:
        """List the lake's files; None if there is no lake to list."""
        table = self._find_table(manifest)
        if table is not None and not self._lists_tables:
            self._checks_liveness = False
            return None
        lake = table or (self._lake.given if self._lake.given is not None else manifest.lake)
        if not lake:
            return None
        try:
            listing = sources.list_lake(lake, self._lake.filesystem, self._lake.storage_options)
        except ParquetBloomError as error:
            if (
                self._lake.given is None and sources.CATALOG in manifest.lake
            ):  # the caller's configuration may not know it
                error.problem += "; if nothing names its catalog, give the table to LakeIndex.open, as lake="
            raise
        self._listed_paths = [*listing.named, *listing.roots.get("paths", ())]
        return listing

    def _find_table(self, manifest: IndexManifest) -> Table | None:
        given = self._lake.given
        if given is not None:
            return given if isinstance(given, Table) else None
        if self._own_table[0] != manifest.lake or self._own_table[1] is None:
            self._own_table = manifest.lake, sources.find_lake_table(manifest.lake, self._lake.storage_options)
        return self._own_table[1]

    def _set_state(self, state: IndexSnapshotReader) -> None:
        """Set a new state; running lookups go on with the old segments, which close when they are last dereferenced."""
        self._state = state

    # ------------------------------------------------------------------------------------------------------- lookups

    def lookup(self, column: str, values: Values, *, timezone: str = "UTC") -> Answers:
        """Find the files that may hold values.

        Parameters
        ----------
        column : one of the indexed columns, or the text of an expression.
        values : Python literals, or an Arrow or NumPy array; of several columns together a list of tuples, of functions
            texts. They are compared as in `prune`: exactly, in the type that each file stores.
        timezone : zone of timestamps without one, where a column holds instants.

        Returns
        -------
        Answers
            For each value a list of `Candidate`: files, and row groups and rows in them if the index has those. No
            other file, nor other rows of these, have that value. Where the index cannot be read, files are candidates,
            and `doubts` says why.

        Raises
        ------
        UnknownColumnError
            The column is not indexed.
        PredicateError
            The values are not a list, or one is null.

        Examples
        --------
        >>> index = parquet_bloom.LakeIndex.create("ids.index", "id", granularity="row_group", lake="lake")
        >>> index.append().indexed
        4
        >>> found, absent = index.lookup("id", [1401181143, -1])
        >>> found[0].row_groups, absent
        ((0,), [])
        """
        state = self._state
        column = state.find_column(column)
        is_expression = isinstance(column, KeyExpression)
        literals = cast("Iterable[object]", values) if is_expression else parse_literals(values, column)
        return state.lookup(column, literals, timezone, self._remote)

    @property
    def state(self) -> IndexSnapshotReader:
        """The current snapshot that lookups use; it is never changed, only replaced."""
        return self._state

    # ------------------------------------------------------------------------------------------------------- insight

    def stats(self) -> IndexStats:
        """Return the index's size, and the expected number of false candidates of a lookup."""
        state = self._state
        manifest, live = state.manifest, state.live
        entries: dict[str, int] = dict.fromkeys(manifest.columns, 0)
        num_bytes: dict[str, int] = dict.fromkeys(manifest.columns, 0)
        false: dict[str, float] = dict.fromkeys(manifest.columns, 0.0)
        for segment in state.segments:
            for part in segment.parts:
                entries[part.info.column] += part.info.num_entries
                num_bytes[part.info.column] += sum(each.num_bytes for each in part.info.slices)
                false[part.info.column] += part.expected_false()
        files = self._folder.names()
        return IndexStats(
            manifest.number,
            manifest.layout,
            manifest.granularity,
            manifest.columns,
            manifest.settings,
            len(state.segments),
            manifest.num_files,
            sum(segment.info.num_units for segment in state.segments),
            len(live.unindexed) if live.listed else None,
            live.changed if self._checks_liveness else None,
            live.gone if self._checks_liveness else None,
            entries,
            num_bytes,
            sum(files[segment.info.files][0] for segment in state.segments if segment.info.files in files),
            false,
            manifest.snapshot,
            manifest.zone_rows,
        )

    def check(self, sample: int = 0, progress: Progress | None = None) -> CheckReport:
        """Read the complete index, and a sample of files, and report all problems.

        Parameters
        ----------
        sample : number of random live files of which every value is read and looked up.
        progress : called with (done, total) after each part and each file.
        """
        require_integer("sample", sample, 0)
        return _check(self._state, self._lake.filesystem, sample, progress)

    def snapshot(self) -> IndexSnapshot:
        """Return the index's current state."""
        manifest = self._state.manifest
        return IndexSnapshot(manifest.number, manifest.snapshot, manifest.num_files)


def find_access(
    folder: Folder, lake: object, filesystem: FileSystem | None, options: Mapping[str, object] | None
) -> LakeAccess:
    """Return how a lake is reached: by the given file system, else the index's, or none for local paths and URLs."""
    if filesystem is not None or options:
        return LakeAccess(lake, resolve_filesystem(filesystem, options), options)
    is_plain = is_local(folder.filesystem) and not is_url(folder.path)
    return LakeAccess(lake, None if is_plain else folder.filesystem, options)


def _reopen(
    kind: type[LakeIndexReader],
    path: str,
    filesystem: FileSystem | None,
    lake: LakeAccess,
    live: bool,
    list_table: bool,
) -> LakeIndexReader:
    """Open an index that was pickled."""
    return kind(Folder(path, filesystem), lake, live=live, list_table=list_table, ahead=None)


def _check(
    state: IndexSnapshotReader, filesystem: FileSystem | None, sample: int, progress: Progress | None
) -> CheckReport:
    """Check the parts of an index, and look up the values of a sample of files."""
    report = CheckReport()
    chosen = [
        (segment, int(number))
        for segment, alive in zip(state.segments, state.live.alive, strict=True)
        for number in np.flatnonzero(alive & (segment.files.sizes >= 0))
    ]
    chosen = random.sample(chosen, min(sample, len(chosen)))
    parts = [part for segment in state.segments for part in segment.parts]
    total, done = len(parts) + len(chosen), 0
    for part in parts:
        try:
            for reader in part.readers:
                report.problems += reader.check()
        except ParquetBloomError as error:
            report.problems.append(str(error))
        done += 1
        if progress:
            progress(done, total)
    for segment, number in chosen:
        try:
            _check_file(state, segment, number, filesystem, report)
        except ParquetBloomError as error:
            report.problems.append(str(error))
        report.files += 1
        done += 1
        if progress:
            progress(done, total)
    return report


def _check_file(
    state: IndexSnapshotReader, segment: Segment, number: int, filesystem: FileSystem | None, report: CheckReport
) -> None:
    """Read a file again, and look up all of its values."""
    path = segment.files.path(number)
    foreign, units = state.live.foreign[state.segments.index(segment)], state.manifest.units
    opened = open_to_index(Entry(path), state.manifest.columns, filesystem, state.live.table_columns)
    with opened.file.source:
        if segment.files.fingerprints(number) != (opened.footer, opened.data_fingerprint()):
            report.problems.append(f"{path}: it is not what was indexed any more")
            return
        first = int(segment.files.first_units[number])
        for column, covered in opened.columns.items():
            part_number = int(segment.files.parts(column)[number])
            if part_number == NOT_COVERED or part_number in foreign:
                continue
            part = segment.parts[part_number]
            for row_group in opened.file.row_groups:
                unit = first + units.find_first(row_group, opened.row_counts)
                lost = total = 0
                for i, hashes in enumerate(hash_row_group(covered, row_group, units.zone_rows)):
                    matches = part.find(hashes)
                    hit = np.zeros(len(hashes), np.bool_)
                    hit[matches.queries[matches.units == unit + i]] = True
                    hit[list(matches.unknown)] = True
                    lost, total = lost + int((~hit).sum()), total + len(hashes)
                report.values += total
                if lost:
                    problem = f"{lost:,} of {total:,} values are not found"
                    error = ParquetBloomError(problem, path=path, row_group=row_group, column=column)
                    report.problems.append(str(error))
