"""The index of a lake: made, looked up and changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import IndexInUseError, ParquetBloomError, StorageError
from ..storage import is_local, resolve_filesystem
from ..storage.index_folder import Folder
from ..tables.table_snapshot import Table, TableFiles
from ..util.arguments import require_integer
from ..util.threads import processors
from . import index_manifest as manifests
from . import lake_files as sources
from . import layouts
from .index_maintenance import compact, remove
from .index_manifest import IndexManifest
from .index_reports import AppendReport, CompactReport
from .index_writer import AppendLimits, AppendResult, IndexWriter
from .lake_files import LakeDescription, LakeListing
from .lake_reader import LakeIndexReader, Progress, find_access
from .liveness import assume_live
from .segment import Segment
from .units import Units

if TYPE_CHECKING:
    from ..util.given_types import FileSystem, Lake

DEFAULT_MEMORY = 512 * 1024 * 1024


class LakeIndex(LakeIndexReader):
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

    Examples
    --------
    >>> with parquet_bloom.LakeIndex.create("ids.index", "id", lake="lake") as index:
    ...     index.append().indexed
    ...     [len(files) for files in index.lookup("id", [1401181143, -1])]
    4
    [1, 0]
    >>> parquet_bloom.prune("lake", "id = 1401181143", index="ids.index").selected
    {'lake/day=2026-01-30/a.parquet': [0]}
    """

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        columns: Sequence[str] | str,
        *,
        layout: Literal["postings", "cuckoo"] = "postings",
        granularity: Literal["file", "row_group", "zone"] = "file",
        zone_rows: int | None = None,
        lake: Lake | None = None,
        remainder_bits: int | None = None,
        fingerprint_bits: int | None = None,
        expected_values: int | None = None,
        num_buckets: int | None = None,
        filesystem: FileSystem | None = None,
        storage_options: Mapping[str, object] | None = None,
        lake_filesystem: FileSystem | None = None,
        lake_storage_options: Mapping[str, object] | None = None,
    ) -> Self:
        """Create an empty index.

        Parameters
        ----------
        path : a folder that does not exist yet, or is empty: a local path, or a URL of an object store.
        columns : dotted names of the columns to index, and expressions over them: `lower(column)`, `upper(column)`,
            `CAST(column AS STRING)`, several columns together, `(tenant, id)`, or what a Variant has at a path,
            `column:a.b::STRING`; see "Expressions" in the guide to lake indexes. A column whose own name looks like one
            is given in double quotes.
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

        Examples
        --------
        >>> index = parquet_bloom.LakeIndex.create("ids.index", ["id", "request"], lake="lake")
        >>> index.columns
        ('id', 'request')
        """
        names = layouts.parse_columns(columns)
        layouts.require_layout_for(layout, names)
        units = Units.parse(granularity, zone_rows)
        unit_values = units.zone_rows or layouts.DEFAULT_VALUES_A_UNIT
        settings = layouts.make_settings(
            layout, remainder_bits, fingerprint_bits, expected_values, num_buckets, unit_values
        )
        folder = Folder(path, resolve_filesystem(filesystem, storage_options))
        table = sources.find_lake_table(lake, lake_storage_options)
        sources.require_columns(names, table)
        followed = None
        if table is not None:
            followed, lake_storage_options = _follow(lake, table), lake_storage_options or table.storage_options
        access = find_access(folder, followed or lake, lake_filesystem, lake_storage_options)
        roots = sources.resolve_roots(access)
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
                    return cls(folder, replace(access, given=followed))
                except BaseException:
                    with suppress(ParquetBloomError):
                        folder.delete([manifests.manifest_name(manifest.number)])
                    raise
        except BaseException:
            folder.unmake(made)
            raise

    def append(
        self,
        files: Lake | LakeListing | None = None,
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

        Examples
        --------
        >>> index = parquet_bloom.LakeIndex.create("ids.index", "id", lake="lake")
        >>> index.append().indexed
        4
        >>> index.append().unchanged
        4
        """
        _require(memory_limit=memory_limit, threads=1 if threads is None else threads)
        options = AppendLimits(memory_limit, threads or processors(), progress, on_error)
        with self._changing:
            table = self._find_table(self._state.manifest) if files is None else None
            done = self._writer.append(files, options, table)
        given = None if files is None else sources.find_lake_table(files, self._lake.storage_options)
        lake = self._extend_lake(done.roots) if given is None else _follow(files, given)
        self._lake = replace(self._lake, given=lake)
        return self._take(done)

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
        _require(memory_limit=memory_limit)
        with self._changing:
            done = self._writer.append_batches(batches, memory_limit, progress)
        return self._take(done)

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
        with self._changing:
            num_removed = remove(self._folder, self._lake.filesystem, files)
        self.refresh()
        return num_removed

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
        _require(memory_limit=memory_limit)

        def find_gone(manifest: IndexManifest, segments: Sequence[Segment]) -> Sequence[NDArray[np.bool_]]:
            if not self._checks_liveness:
                return assume_live(segments).gone_at
            return self._liveness.check(segments, self._list_lake(manifest), verify=False).gone_at

        with self._changing:
            report = compact(self._folder, find_gone, memory_limit, keep_seconds)
        self.refresh()
        return report

    @property
    def _writer(self) -> IndexWriter:
        return IndexWriter(self._folder, self._lake, self._liveness, self._tables)

    def _take(self, done: AppendResult) -> AppendReport:
        """Refresh to what was appended."""
        self._refresh(manifest=done.manifest, tables=done.tables)
        return done.report

    def _extend_lake(self, roots: LakeDescription) -> object:
        """Return the lake that the caller gave instead of the index's, extended by what was appended."""
        given = self._lake.given
        if given is None or isinstance(given, Table) or "paths" not in roots:
            return given
        return {"paths": [*self._listed_paths, *roots["paths"]]}


def _follow(lake: object, table: Table) -> Table | None:
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


def _require(**numbers: object) -> None:
    """Raise ParquetBloomError unless all arguments are integers of at least 1."""
    for name, number in numbers.items():
        require_integer(name, number, 1)
