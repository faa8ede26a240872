"""The index of a lake: from a value to the files that may hold it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import BrokenIndexError, IndexInUseError, ParquetBloomError, StorageError
from ..predicate.key_expression import KeyExpression
from ..redaction import redacted
from ..storage import is_local, is_url, resolve_filesystem
from ..storage.confined import ConfinedFolders, confine
from ..storage.index_folder import Folder
from ..tables.table_files import TableFiles
from ..tables.table_snapshot import Table
from ..util.messages import count
from ..util.threads import in_order, processors
from . import index_manifest as manifests
from . import lake_files as sources
from . import layouts
from .expression_keys import parse_literals
from .file_table import FileTable
from .index_manifest import IndexManifest
from .index_reports import Answers, AppendReport, CheckReport, CompactReport, IndexSnapshot, IndexStats
from .index_snapshot import IndexSnapshotReader, open_segments
from .liveness import LivenessCheck, assume_live
from .segment import Segment
from .units import Units

DEFAULT_MEMORY = 512 * 1024 * 1024

Progress = Callable[[int, int], None]


class LakeIndex:
    """An index over many Parquet files, made by `create` or `open`. Lookups are thread-safe.

    It can be pickled, and a dataset that has it: a copy opens the index anew, by its path, as it is then.

    A lookup returns the files (and row groups) that may hold a value: the index's matches among the live files, and
    every live file that is not indexed or has changed since. Which files are live is determined when the index is
    opened, and by `refresh`; lookups read nothing but the index.

    There is one writer at a time: a second one gets `IndexInUseError`. Readers block nobody, and see the index as of
    the time when they opened or refreshed it.

    Attributes
    ----------
    path : the folder of the index.
    columns : dotted names of the indexed columns.
    """

    def __init__(
        self,
        folder: Folder,
        lake_filesystem: object | None,
        lake_storage_options: Mapping[str, Any] | None,
        lake: Any,
        live: bool | Literal["no table"],
        progress: Progress | None = None,
        ahead: Collection[str] | None = (),
    ):
        self._folder = folder
        self._lake_filesystem = lake_filesystem
        self._lake_options = lake_storage_options
        self._lake = sources.find_lake_table(lake, lake_storage_options) or lake
        self._own_table: tuple[Mapping[str, Any], Table | None] = ({}, None)  # as the manifest describes it
        self._live = live
        self._checks_liveness = live is not False
        self._lists_tables = live is True
        self._listed_paths: list[str] = []  # the paths that the lake was listed from
        self._changing = threading.Lock()
        self._remote = not is_local(folder.filesystem, [folder.path])
        manifest, segments, listing = self._open_current(ahead=ahead)
        self._liveness = LivenessCheck(manifest.columns, lake_filesystem)
        self._state = IndexSnapshotReader(manifest, segments, assume_live(segments))
        if self._checks_liveness:
            self._update_liveness(manifest, segments, listing, progress)

    # ----------------------------------------------------------------------------------------------- create and open

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Sequence[str] | str,
        *,
        layout: Literal["postings", "cuckoo"] = "postings",
        granularity: Literal["file", "row_group", "zone"] = "file",
        zone_rows: int | None = None,
        lake: Any = None,
        remainder_bits: int | None = None,
        fingerprint_bits: int | None = None,
        expected_values: int | None = None,
        num_buckets: int | None = None,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        lake_filesystem: Any = None,
        lake_storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Create an empty index.

        Parameters
        ----------
        path : a folder that does not exist yet, or is empty: a local path, or a URL of an object store.
        columns : dotted names of the columns to index, and expressions over them: `lower(column)`, `upper(column)`,
            `CAST(column AS STRING)`, or several columns together, `(tenant, id)`; see "Expressions" in the guide to
            lake indexes. A column whose own name looks like one is given in double quotes.
        layout : "postings" has the fewest false candidates and reads least; "cuckoo" uses aligned cuckoo filters.
        granularity : whether lookups return files only, or also the row groups in them, or ("zone") the rows in these,
            as ranges of `zone_rows` rows.
        zone_rows : for the granularity "zone": rows of a zone, 8,192 by default; the last one of a row group has fewer.
        lake : the folders and patterns whose files are indexed; or a Delta or Iceberg table: its folder, one of
            `parquet_bloom.delta` and `iceberg`, one of deltalake or pyiceberg, {"delta": path} or {"iceberg": path};
            None for the files given to `append`. Opening the index lists them again, and new files are candidates. Of
            a table the latest version counts; what opens it again is stored: its path, or its name and its catalog's.
        remainder_bits : for the layout "postings": bits of a hash stored beyond its bucket, 8 by default. With 8 a
            lookup returns 0.05 false candidates in an index of `expected_values`; each further bit halves that.
        fingerprint_bits : for the layout "cuckoo": 8, 12, 16 (the default) or 24.
        expected_values : number of values (each counted once per unit) that the index will have, 10**9 by default; with
            more, lookups return more false candidates. For "cuckoo": number of values per unit, by default 100,000, or
            `zone_rows`.
        num_buckets : for the layout "cuckoo", the same for all units; derived from `expected_values` by default.
        filesystem, storage_options : of the index, as in `prune`.
        lake_filesystem, lake_storage_options : of the lake; default: those of the index.

        Raises
        ------
        StorageError
            The folder has an index already, or cannot be written to.
        ParquetBloomError
            A setting is out of range.
        """
        names = layouts.parse_columns(columns)
        units = Units.parse(granularity, zone_rows)
        unit_values = units.zone_rows or layouts.DEFAULT_VALUES_A_UNIT
        settings = layouts.make_settings(
            layout, remainder_bits, fingerprint_bits, expected_values, num_buckets, unit_values
        )
        folder = Folder(path, resolve_filesystem(filesystem, storage_options))
        table = sources.find_lake_table(lake, lake_storage_options)
        sources.require_no_table(names, table)
        followed = None
        if table is not None:
            followed, lake_storage_options = _follow(lake, table), lake_storage_options or table.storage_options
        lake_files = _lake_files(folder, lake_filesystem, lake_storage_options)
        roots = sources.resolve_roots(followed or lake, lake_files, lake_storage_options)
        sources.require_outside(folder.path, roots)
        made = folder.make()
        try:
            with folder.lock(undo=True):
                if manifests.numbers_in(folder.names()):
                    raise StorageError("there is an index already", path=folder.path, errno=17)
                manifest = IndexManifest(1, names, layout, granularity, settings, roots, zone_rows=units.zone_rows)
                manifests.write(folder, manifest)
                try:
                    if not is_local(folder.filesystem, [folder.path]):
                        _require_no_overwriting(folder, manifest)
                    return cls(folder, lake_files, lake_storage_options, followed, live=True)
                except BaseException:
                    with suppress(ParquetBloomError):
                        folder.delete([manifests.manifest_name(manifest.number)])
                    raise
        except BaseException:
            folder.unmake(made)
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        live: bool | Literal["no table"] = True,
        lake: Any = None,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        lake_filesystem: Any = None,
        lake_storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open an index.

        Parameters
        ----------
        path : folder of the index.
        live : list the lake, and check which files have changed since they were indexed. If a file's times or etag are
            new, its indexed columns are read to find out whether its values have changed: embedding filters changes
            none. With False, lookups return results as of the last change of the index, without files added since.
            "no table" is False for an index over a table, which scans of the table list by themselves, else True.
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
        lake_files = _lake_files(folder, lake_filesystem, lake_storage_options)
        return cls(folder, lake_files, lake_storage_options, lake, live, progress, ahead=None)

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
    def lake_filesystem(self) -> Any:
        """File system of the lake, as given or derived from the index's; None for local paths and URLs."""
        return self._lake_filesystem

    def confine(self, folders: ConfinedFolders) -> None:
        """Open files of the lake from now on as `storage.confined.ConfinedFiles` do."""
        self._lake_filesystem = confine(self._lake_filesystem, folders)
        self._liveness = LivenessCheck(self.columns, self._lake_filesystem)

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

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy opens the index anew, by its path, as it is then.
        path, filesystem = self._folder.path, self._folder.filesystem
        path = os.path.abspath(path) if is_local(filesystem, [path]) else path
        of_lake = self._lake_filesystem, self._lake_options, self._lake
        return _reopen, (type(self), path, filesystem, *of_lake, self._live)

    def __repr__(self) -> str:
        manifest = self._state.manifest
        files = count(manifest.num_files, "file")
        return redacted(f"<LakeIndex {self.path}: {', '.join(manifest.columns)} of {files}>")

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
        if self._lake is None and "paths" in manifest.lake:
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

    def _extend_lake(self, roots: Mapping[str, Any]) -> Any:
        """Return the lake that the caller gave instead of the index's, extended by what was appended."""
        if self._lake is None or isinstance(self._lake, Table) or "paths" not in roots:
            return self._lake
        return {"paths": [*self._listed_paths, *roots["paths"]]}

    def _list_lake(self, manifest: IndexManifest) -> sources.LakeListing | None:
        """List the lake's files; None if there is no lake to list."""
        table = self._find_table(manifest)
        if table is not None and not self._lists_tables:
            self._checks_liveness = False
            return None
        lake = table or (self._lake if self._lake is not None else manifest.lake)
        if not lake:
            return None
        try:
            listing = sources.list_lake(lake, self._lake_filesystem, self._lake_options)
        except ParquetBloomError as error:
            if self._lake is None and sources.CATALOG in manifest.lake:  # the caller's configuration may not know it
                error.problem += "; if nothing names its catalog, give the table to LakeIndex.open, as lake="
            raise
        self._listed_paths = [*listing.named, *listing.roots.get("paths", ())]
        return listing

    def _find_table(self, manifest: IndexManifest) -> Table | None:
        if self._lake is not None:
            return self._lake if isinstance(self._lake, Table) else None
        if self._own_table[0] != manifest.lake or self._own_table[1] is None:
            self._own_table = manifest.lake, sources.find_lake_table(manifest.lake, self._lake_options)
        return self._own_table[1]

    def _set_state(self, state: IndexSnapshotReader) -> None:
        """Set a new state; running lookups go on with the old segments, which close when they are last dereferenced."""
        self._state = state

    # ------------------------------------------------------------------------------------------------------- lookups

    def lookup(self, column: str, values: Iterable[Any], *, timezone: str = "UTC") -> Answers:
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
        """
        state = self._state
        column = state.find_column(column)
        literals: Any = values if isinstance(column, KeyExpression) else parse_literals(values, column)
        return state.lookup(column, literals, timezone, self._remote)

    @property
    def state(self) -> IndexSnapshotReader:
        """The current snapshot that lookups use; it is never changed, only replaced."""
        return self._state

    # ------------------------------------------------------------------------------------------------------- changes

    def append(
        self,
        files: Any = None,
        *,
        memory_limit: int = DEFAULT_MEMORY,
        threads: int | None = None,
        progress: Progress | None = None,
        on_error: Callable[[ParquetBloomError], None] | None = None,
    ) -> AppendReport:
        """Index files; files that are indexed and unchanged are skipped.

        Parameters
        ----------
        files : a file, a folder, a pattern, or a list of them; a Delta or Iceberg table, as for `create`, at the
            version that it names; None for the current files of the index's lake. Folders, patterns and tables are
            stored, and listed again when the index is opened.
        memory_limit : approximate bytes for values that are being sorted; the rest goes to a temporary file.
        threads : number of reading threads; None for the number of processors.
        progress : called with (done, total) after each file.
        on_error : called with the error of a file that cannot be read; the file is not indexed, and so a candidate for
            every value. Without it the error is raised, and the index is unchanged.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        UnknownColumnError
            None of the files has one of the columns.
        ParquetBloomError
            A file cannot be read, or the index cannot be written; the index is unchanged.
        """
        from .index_writer import append

        _require(memory_limit=memory_limit, threads=1 if threads is None else threads)
        with self._changing:
            done = append(
                self._folder,
                self._lake_filesystem,
                self._lake_options,
                files,
                self._liveness,
                memory_limit=memory_limit,
                threads=threads or processors(),
                progress=progress,
                on_error=on_error,
                tables=self._tables,
                table=self._find_table(self._state.manifest) if files is None else None,
            )
        table = None if files is None else sources.find_lake_table(files, self._lake_options)
        self._lake = self._extend_lake(done.roots) if table is None else _follow(files, table)
        self._refresh(manifest=done.manifest, tables=done.tables)
        return done.report

    def append_batches(
        self,
        batches: Iterable[tuple[str, Mapping[str, pa.Array]]],
        *,
        memory_limit: int = DEFAULT_MEMORY,
        progress: Callable[[int], None] | None = None,
    ) -> AppendReport:
        """Index values given as Arrow arrays.

        Parameters
        ----------
        batches : (file, {column: Arrow array of its values}); batches of one file must be consecutive. The files need
            not exist, and count as live. A column that is missing in a file's batches is not covered.
        memory_limit : as in `append`.
        progress : called after each file with the number of files done.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        ParquetBloomError
            An array cannot be indexed, or the index cannot be written; the index is unchanged.
        """
        from .index_writer import append_batches

        _require(memory_limit=memory_limit)
        with self._changing:
            done = append_batches(
                self._folder, batches, memory_limit=memory_limit, progress=progress, tables=self._tables
            )
        self._refresh(manifest=done.manifest, tables=done.tables)
        return done.report

    def remove(self, files: Iterable[str | os.PathLike[str]] | str) -> int:
        """Remove files from the index; those that are still in the lake become candidates for every value.

        Parameters
        ----------
        files : paths, as they were indexed. A path that ends in a slash means all files below it, and removes folders
            there from the lake: their files are no longer candidates, nor listed by `append`.

        Returns
        -------
        The number of files removed.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        StorageError
            A file is not in the index; the index is unchanged.
        """
        from .index_maintenance import remove

        with self._changing:
            count = remove(self._folder, self._lake_filesystem, files)
        self.refresh()
        return count

    def compact(self, *, memory_limit: int = DEFAULT_MEMORY, keep_seconds: float = 3600) -> CompactReport:
        """Merge all segments into one, and drop removed files and files that are no longer in the lake.

        Parameters
        ----------
        memory_limit : as in `append`.
        keep_seconds : how long unreferenced files of the index are kept for readers that opened it before.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        ParquetBloomError
            A part is damaged, or the index cannot be written; the index is unchanged.
        """
        from .index_maintenance import compact

        _require(memory_limit=memory_limit)

        def find_gone(manifest: IndexManifest, segments: Sequence[Segment]) -> Sequence[NDArray[np.bool_]]:
            if not self._checks_liveness:
                return assume_live(segments).gone_at
            return self._liveness.check(segments, self._list_lake(manifest), verify=False).gone_at

        with self._changing:
            report = compact(self._folder, find_gone, memory_limit, keep_seconds)
        self.refresh()
        return report

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
        from .index_maintenance import check

        if type(sample) is not int or sample < 0:
            raise ParquetBloomError(f"sample must be an integer of at least 0, got {sample!r}")
        return check(self._state, self._lake_filesystem, sample, progress)

    def snapshot(self) -> IndexSnapshot:
        """Return the index's current state."""
        manifest = self._state.manifest
        return IndexSnapshot(manifest.number, manifest.snapshot, manifest.num_files)


def _lake_files(folder: Folder, filesystem: Any, options: Mapping[str, Any] | None) -> object | None:
    """Return the lake's file system: the given one, else the index's, or None where paths and URLs are sufficient."""
    if filesystem is not None or options:
        return resolve_filesystem(filesystem, options)
    return None if is_local(folder.filesystem) and not is_url(folder.path) else folder.filesystem


def _reopen(
    kind: type[LakeIndex],
    path: str,
    filesystem: object | None,
    lake_filesystem: object | None,
    lake_storage_options: Mapping[str, Any] | None,
    lake: Any,
    live: bool | Literal["no table"],
) -> LakeIndex:
    """Open an index that was pickled."""
    return kind(Folder(path, filesystem), lake_filesystem, lake_storage_options, lake, live, ahead=None)


def _follow(lake: Any, table: Table) -> Table | None:
    """Return the table that an index follows once it has been given: at its latest version, where that is known.

    None if that is what the manifest describes.
    """
    if isinstance(lake, TableFiles) and lake.kind == "delta":
        return None
    return table.latest()


def _require_no_overwriting(folder: Folder, manifest: IndexManifest) -> None:
    """Raise StorageError for a store in which two writers could both commit."""
    try:
        manifests.write(folder, manifest)
    except IndexInUseError:
        return
    folder.delete([manifests.manifest_name(manifest.number)])
    problem = "the store overwrites objects in spite of If-None-Match: an index would not be safe there"
    raise StorageError(problem, path=folder.path)


def _require(**numbers: Any) -> None:
    """Raise ParquetBloomError unless all arguments are integers of at least 1."""
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            raise ParquetBloomError(f"{name} must be an integer of at least 1, got {number!r}")
