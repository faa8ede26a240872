"""The index of a lake: from a value to the files that may hold it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import IndexInUseError, ParquetBloomError, StorageError
from ..redaction import redacted
from ..storage import Folder, is_local, is_url, resolve_filesystem
from ..tables.files import TableFiles
from ..util.threads import in_order, processors
from . import manifest as manifests
from .files import listing as sources
from .files.liveness import LivenessCheck, unjudged
from .files.table import FileTable
from .lookup import literals_of
from .manifest import Manifest
from .parts import layouts
from .reports import Answers, AppendReport, CheckReport, CompactReport, IndexSnapshot, IndexStats
from .segment import Segment
from .snapshot import IndexSnapshotReader, opened

DEFAULT_MEMORY = 512 * 1024 * 1024

Progress = Callable[[int, int], None]


class LakeIndex:
    """An index over many Parquet files. Made by `create` or `open`; several threads may look up at once.

    A lookup names the files (and row groups) that may hold a value: those that the index says may, among files that are
    live, and every live file that it does not know, or that was changed since. Which files are live is judged when the
    index is opened, and by `refresh`; lookups look at nothing but the index.

    One writer at a time: a second one is refused with `IndexInUseError`. Readers are never in anybody's way, and see
    the index as it was when they opened or refreshed it.

    Attributes
    ----------
    path : the folder of the index.
    columns : dotted names of the indexed columns.
    """

    def __init__(
        self,
        folder: Folder,
        lake_filesystem: object | None,
        lake_options: Mapping[str, Any] | None,
        lake: Any,
        live: bool,
        progress: Progress | None = None,
        ahead: Collection[str] | None = (),
    ):
        self._folder = folder
        self._lake_filesystem = lake_filesystem
        self._lake_options = lake_options
        self._lake = lake
        self._judges = live
        self._given: list[str] = []  # what the lake was listed by, where that is paths
        self._changing = threading.Lock()
        self._remote = not is_local(folder.filesystem, [folder.path])
        manifest, segments, listing = self._opened(ahead=ahead)
        self._judge = LivenessCheck(manifest.columns, lake_filesystem)
        self._state = IndexSnapshotReader(manifest, segments, unjudged(segments))
        if live:
            self._take(manifest, segments, listing, progress)

    # ------------------------------------------------------------------------------------------------ made and opened

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Sequence[str] | str,
        *,
        layout: Literal["postings", "cuckoo"] = "postings",
        granularity: Literal["file", "row_group"] = "file",
        lake: Any = None,
        remainder_bits: int | None = None,
        fingerprint_bits: int | None = None,
        expected_values: int | None = None,
        num_buckets: int | None = None,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        lake_filesystem: Any = None,
        lake_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make an empty index.

        Parameters
        ----------
        path : a folder that is not there yet, or is empty: a local path, or a URL of an object store.
        columns : dotted names of the columns to index.
        layout : "postings" names fewest files and reads least; "cuckoo" is the design of aligned Cuckoo filters.
        granularity : whether lookups name files, or also the row groups in them.
        lake : the folders and patterns whose files shall be indexed, or a table's file list; None takes those that are
            given to `append`. Opening the index lists them again, and files that came since are candidates.
        remainder_bits : of the layout "postings": bits that tell values apart beyond their place, 8 by default. With 8
            a lookup names 0.05 files too many in an index of `expected_values`; each bit more halves that.
        fingerprint_bits : of the layout "cuckoo": 8, 12, 16 (the default) or 24.
        expected_values : how many values (each counted once a unit) the index will have, a thousand million by default.
            It may get more, and then names more files in vain. Of "cuckoo": how many a unit, 100,000 by default.
        num_buckets : of the layout "cuckoo", the same for all units; chosen by `expected_values` if it is not given.
        filesystem, storage_options : of the index; as in `prune`.
        lake_filesystem, lake_options : of the lake; as those of the index if they are not given.

        Raises
        ------
        StorageError
            There is an index already, or the folder cannot be written to.
        ParquetBloomError
            A setting is out of range.
        """
        names = layouts.columns_of(columns)
        layouts.require_granularity(granularity)
        settings = layouts.settings_of(layout, remainder_bits, fingerprint_bits, expected_values, num_buckets)
        folder = Folder(path, resolve_filesystem(filesystem, storage_options))
        lake_files = _lake_files(folder, lake_filesystem, lake_options)
        roots = sources.roots_of(lake, lake_files, lake_options)
        sources.require_outside(folder.path, roots)
        folder.make()
        with folder.lock():
            if manifests.numbers_in(folder.names()):
                raise StorageError("there is an index already", path=folder.path, errno=17)
            manifest = Manifest(1, names, layout, granularity, settings, roots)
            manifests.write(folder, manifest)
            if not is_local(folder.filesystem, [folder.path]):
                _require_no_overwriting(folder, manifest)
        return cls(folder, lake_files, lake_options, _listed_by_caller(lake), live=True)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        live: bool = True,
        lake: Any = None,
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        lake_filesystem: Any = None,
        lake_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open an index.

        Parameters
        ----------
        path : its folder.
        live : whether to look at the lake: which files there are, and which are no longer what was indexed. Of a file
            at which something is new, by its times or its etag, the indexed columns are read to find out whether its
            values are: embedding filters changes none. With False lookups answer as of the last change of the index,
            and know of no other files.
        lake : the lake's files, as for `create`; None for those that the index knows of.
        filesystem, storage_options, lake_filesystem, lake_options : as for `create`.
        progress : called while files are read with (done, in all).

        Raises
        ------
        StorageError
            There is no index, or the lake cannot be listed.
        BrokenIndexError
            The index is not as it was written.
        """
        folder = Folder(path, resolve_filesystem(filesystem, storage_options))
        lake_files = _lake_files(folder, lake_filesystem, lake_options)
        return cls(folder, lake_files, lake_options, lake, live, progress, ahead=None)

    @property
    def path(self) -> str:
        return self._folder.path

    @property
    def columns(self) -> tuple[str, ...]:
        return self._state.manifest.columns

    @property
    def live(self) -> bool:
        """Whether it looks at the lake, and so knows which files there are."""
        return self._judges

    @property
    def lake_filesystem(self) -> Any:
        """Of the lake, as it was given or follows from where the index is; None for local paths and URLs."""
        return self._lake_filesystem

    @property
    def remote(self) -> bool:
        """Whether the index is in an object store, so that each read is waited for."""
        return self._remote

    @property
    def unindexed(self) -> list[str]:
        """Live files of which the index knows nothing, or not what they are now: candidates for every value."""
        return list(self._state.live.unindexed)

    def refresh(self, progress: Progress | None = None) -> None:
        """See the index and the lake as they are now. Errors and `progress` as of `open`."""
        self._refresh(progress)

    def _refresh(
        self,
        progress: Progress | None = None,
        manifest: Manifest | None = None,
        tables: Mapping[str, FileTable] = {},
    ) -> None:
        """The same for who knows the newest manifest, and tables of files that are not in the state yet."""
        with self._changing:
            known = {segment.info.name: segment for segment in self._state.segments}
            manifest, segments, listing = self._opened(known, {**self._tables, **tables}, manifest)
            if self._judges:
                self._take(manifest, segments, listing, progress)
            else:
                self._replace(IndexSnapshotReader(manifest, segments, unjudged(segments)))

    def close(self) -> None:
        """Let go of its files."""
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        manifest = self._state.manifest
        return redacted(f"<LakeIndex {self.path}: {', '.join(manifest.columns)} of {manifest.num_files:,} files>")

    def _opened(
        self,
        known: Mapping[str, Segment] = {},
        tables: Mapping[str, FileTable] = {},
        manifest: Manifest | None = None,
        ahead: Collection[str] | None = (),
    ) -> tuple[Manifest, list[Segment], sources.Listing | None]:
        """See `opened`; and the lake's files as they are now, if it is looked at: listed meanwhile if that is far."""
        if not self._judges or not self._remote:
            manifest, segments = opened(self._folder, known, tables, manifest, ahead=ahead)
            return manifest, segments, self._listing(manifest) if self._judges else None
        listings: list[Iterator[sources.Listing | None]] = []
        with ExitStack() as stack:

            def begin(newest: Manifest) -> None:
                listings.append(stack.enter_context(in_order(self._listing, [newest], 1)))

            manifest, segments = opened(self._folder, known, tables, manifest, begin, ahead)
            return manifest, segments, next(listings[-1])

    @property
    def _tables(self) -> Mapping[str, FileTable]:
        """Tables of files that are in memory, by their names."""
        return {segment.info.files: segment.files for segment in self._state.segments}

    def _take(
        self,
        manifest: Manifest,
        segments: Sequence[Segment],
        listing: sources.Listing | None,
        progress: Progress | None,
    ) -> None:
        live = self._judge.judge(segments, listing, progress=progress)
        self._replace(IndexSnapshotReader(manifest, segments, live))

    def _with(self, roots: Mapping[str, Any]) -> Any:
        """The lake that the caller has given instead of the index's own, and what was appended."""
        if self._lake is None or isinstance(self._lake, TableFiles) or "paths" not in roots:
            return self._lake
        return {"paths": [*self._given, *roots["paths"]]}

    def _listing(self, manifest: Manifest) -> sources.Listing | None:
        """The lake's files as they are now; None if nothing is known to be listed."""
        lake = self._lake if self._lake is not None else manifest.lake
        if not lake:
            return None
        listing = sources.list_lake(lake, self._lake_filesystem, self._lake_options)
        self._given = [*listing.named, *listing.roots.get("paths", ())]
        return listing

    def _replace(self, state: IndexSnapshotReader) -> None:
        """Lookups that are under way go on with the old segments, which close when nobody holds them any more."""
        self._state = state

    # ------------------------------------------------------------------------------------------------------- lookups

    def lookup(self, column: str, values: Iterable[Any], *, timezone: str = "UTC") -> Answers:
        """Find the files that may hold values.

        Parameters
        ----------
        column : one of the indexed columns.
        values : Python literals, or an Arrow or NumPy array of them. They are compared as `prune` compares: exactly, in
            the type that each file stores.
        timezone : zone of timestamps written without one, where a column holds instants.

        Returns
        -------
        Answers
            For each value a list of `Candidate`: files, and row groups in them if the index has those. A file that is
            not among them has no row of that value. What of the index cannot be read counts as "may", and is said in
            `doubts`.

        Raises
        ------
        UnknownColumnError
            The column is not indexed.
        PredicateError
            The values are no list, or one is null.
        """
        return self._state.lookup(column, literals_of(values, column), timezone, self._remote)

    @property
    def state(self) -> IndexSnapshotReader:
        """What lookups are answered from now; it stays as it is when the index goes on."""
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
        """Index files; those that are indexed and unchanged are left alone.

        Parameters
        ----------
        files : a file, a folder, a pattern, or a list of them; a table's file list; None for the index's lake as it is
            now. Folders, patterns and tables are remembered, and listed again when the index is opened; of an Iceberg
            table which state it is in only its catalog knows, so give `open` its file list.
        memory_limit : bytes for values that are being sorted, about; the rest waits in a temporary file.
        threads : that read; None for as many as there are processors.
        progress : called after each file with (done, in all).
        on_error : called with the error of a file that cannot be read, which is then not indexed, and so a candidate
            for every value; without it, the error is raised, and nothing is changed.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        UnknownColumnError
            None of the files has one of the columns.
        ParquetBloomError
            A file cannot be read; or the index cannot be written, and is what it was.
        """
        from .build.append import append

        _require(memory_limit=memory_limit, threads=1 if threads is None else threads)
        with self._changing:
            done = append(
                self._folder,
                self._lake_filesystem,
                self._lake_options,
                files,
                self._judge,
                memory_limit=memory_limit,
                threads=threads or processors(),
                progress=progress,
                on_error=on_error,
                tables=self._tables,
            )
        self._lake = _listed_by_caller(files) or self._with(done.roots)
        self._refresh(manifest=done.manifest, tables=done.tables)
        return done.report

    def append_batches(
        self,
        batches: Iterable[tuple[str, Mapping[str, pa.Array]]],
        *,
        memory_limit: int = DEFAULT_MEMORY,
        progress: Callable[[int], None] | None = None,
    ) -> AppendReport:
        """Index values that are at hand.

        Parameters
        ----------
        batches : (file, {column: Arrow array of its values}); batches of one file follow each other. The files need not
            exist: nobody looks whether they are live. A column that a file's batches do not have is not covered.
        memory_limit : as in `append`.
        progress : called after each file with how many are done.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        ParquetBloomError
            An array cannot be indexed; or the index cannot be written, and is what it was.
        """
        from .build.append import append_batches

        _require(memory_limit=memory_limit)
        with self._changing:
            done = append_batches(
                self._folder, batches, memory_limit=memory_limit, progress=progress, tables=self._tables
            )
        self._refresh(manifest=done.manifest, tables=done.tables)
        return done.report

    def remove(self, files: Iterable[str | os.PathLike[str]] | str) -> int:
        """Take files out of the index; those that are still in the lake are candidates for every value from then on.

        Parameters
        ----------
        files : paths, as they were indexed. One that ends in a slash stands for all files below it, and folders of the
            lake that are there are none of it any more: nothing in them is a candidate, nor listed by `append`.

        Returns
        -------
        How many files that were.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        StorageError
            A file is not in the index; nothing is changed then.
        """
        from .build.maintenance import remove

        with self._changing:
            count = remove(self._folder, self._lake_filesystem, files)
        self.refresh()
        return count

    def compact(self, *, memory_limit: int = DEFAULT_MEMORY, keep_seconds: float = 3600) -> CompactReport:
        """Merge all segments into one, drop what belongs to removed files and such as are not in the lake any more.

        Parameters
        ----------
        memory_limit : as in `append`.
        keep_seconds : how long files of the index that nothing refers to any more are kept for readers that opened it
            before.

        Raises
        ------
        IndexInUseError
            Another writer is at work.
        ParquetBloomError
            A part is not as it was written, or the index cannot be written; it is what it was.
        """
        from .build.maintenance import compact

        _require(memory_limit=memory_limit)

        def gone_of(manifest: Manifest, segments: Sequence[Segment]) -> Sequence[NDArray[np.bool_]]:
            if not self._judges:
                return unjudged(segments).gone_at
            return self._judge.judge(segments, self._listing(manifest), verify=False).gone_at

        with self._changing:
            report = compact(self._folder, gone_of, memory_limit, keep_seconds)
        self.refresh()
        return report

    # ------------------------------------------------------------------------------------------------------- insight

    def stats(self) -> IndexStats:
        """How large it is, and how many files a lookup is expected to name in vain."""
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
            len(live.unindexed) if live.judged else None,
            live.changed if self._judges else None,
            live.gone if self._judges else None,
            entries,
            num_bytes,
            sum(files[segment.info.files][0] for segment in state.segments if segment.info.files in files),
            false,
            manifest.snapshot,
        )

    def check(self, sample: int = 0, progress: Progress | None = None) -> CheckReport:
        """Read the whole index, and some files again, and tell whatever is wrong.

        Parameters
        ----------
        sample : of how many live files, chosen at random, every value is read and looked up.
        progress : called after each part and each file with (done, in all).
        """
        from .check import check

        if type(sample) is not int or sample < 0:
            raise ParquetBloomError("sample is a whole number, and not less than 0")
        return check(self._state, self._lake_filesystem, sample, progress)

    def snapshot(self) -> IndexSnapshot:
        """Which state it is in."""
        manifest = self._state.manifest
        return IndexSnapshot(manifest.number, manifest.snapshot, manifest.num_files)


def _lake_files(folder: Folder, filesystem: Any, options: Mapping[str, Any] | None) -> object | None:
    """The lake's file system: its own if one is given; URLs and local paths say for themselves where they are."""
    if filesystem is not None or options:
        return resolve_filesystem(filesystem, options)
    return None if is_local(folder.filesystem) and not is_url(folder.path) else folder.filesystem


def _listed_by_caller(lake: Any) -> TableFiles | None:
    """A file list that nobody but the caller can make: which state an Iceberg table is in, its catalog knows."""
    return lake if isinstance(lake, TableFiles) and lake.kind == "iceberg" else None


def _require_no_overwriting(folder: Folder, manifest: Manifest) -> None:
    """Refuse a store in which two writers could both have their way."""
    try:
        manifests.write(folder, manifest)
    except IndexInUseError:
        return
    folder.delete([manifests.name_of(manifest.number)])
    problem = (
        "the store overwrites objects although it was asked not to (If-None-Match): an index would not be safe there"
    )
    raise StorageError(problem, path=folder.path)


def _require(**numbers: Any) -> None:
    """Raise ParquetBloomError for what is no whole number from 1 on."""
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            raise ParquetBloomError(f"{name} is a whole number, and not less than 1")
