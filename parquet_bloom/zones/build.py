"""Build a zone index over Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ManagedTableError, ParquetBloomError
from ..storage import create, list_entries, resolve_filesystem
from ..storage.listing import as_path_list
from ..storage.names import TABLE_WAY_OUT, is_hidden
from ..storage.paths import name_of
from ..storage.spill import SpillFile, SpillRun
from ..util.threads import processors
from . import packed
from .collect import RowGroupResult, ZoneMaker
from .manifest import Manifest
from .reports import ZoneBuildReport, ZonedFile
from .schema import ZONE, FilterSizing
from .sizing import lance_num_bytes
from .write import write_index, zones_per_batch

_CONTAINERS = {".parquet": "parquet", ".parq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


_OF_TABLES = ("read_snapshot", "table_uri", "metadata_location")  # attributes of ours, deltalake's and pyiceberg's
_WAY_OUT = "give the list of its live files, parquet_bloom.dataset(table).files"


def build(
    paths: Any,
    column: str,
    output: str | os.PathLike[str],
    *,
    rows_per_zone: int = 8192,
    fpp: float = 0.00057,
    container: str | None = None,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ZoneBuildReport:
    """Write a zone index over Parquet files: a filter for every few thousand rows of a column, in Lance's schema.

    Parameters
    ----------
    paths : files, folders or patterns, as `prune` takes them. Of a Delta or Iceberg table, the list of its live files,
        such as `dataset(table).files`.
    column : dotted name of the column. It may be in structs, not in lists.
    output : the index file, which is created or replaced atomically.
    rows_per_zone : rows of a zone; the last one of each row group may have fewer. Filters are sized for as many values.
    fpp : false-positive probability of the filters. The defaults are those of Lance: 32 KiB per zone.
    container : "parquet" or "arrow"; None to choose by the extension of the output.
    filesystem, storage_options : as in `prune`; for files and output.
    threads : number of threads that decode and hash; None for one per processor.
    progress : called with the number of finished files and the number of all files.

    Returns
    -------
    A report. Files that cannot be read, or lack the column, are not covered; `failed` has their errors.

    Raises
    ------
    ParquetBloomError
        No file can be covered (the error of the first one), or the output is among the files, or cannot be written.
    """
    filter_bytes = lance_num_bytes(rows_per_zone, fpp)
    target_path = os.fspath(output)
    kind = _choose_container(target_path, container)
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads must be at least 1, got {threads!r}")
    filesystem = resolve_filesystem(filesystem, storage_options)
    if any(hasattr(paths, name) for name in _OF_TABLES):
        raise ManagedTableError(f"zones are of files, and this is a table: {_WAY_OUT}")
    path_list = as_path_list(paths)
    try:
        entries = list_entries(path_list, filesystem)
    except ManagedTableError as error:  # a folder of a table, or a URL
        error.problem = error.problem.removesuffix(TABLE_WAY_OUT) + _WAY_OUT
        raise
    named = {entry.path for entry in entries}
    require_outside(target_path, [text for text in map(os.fsdecode, path_list) if text not in named], filesystem)
    if any(name_of(path, filesystem) == name_of(target_path, filesystem) for path in named):
        raise ParquetBloomError("the output is one of the files to be indexed", path=target_path)
    report = ZoneBuildReport(target_path, column, filter_bytes=filter_bytes)
    with create(output, filesystem) as new, SpillFile() as scratch:  # fail early if it cannot be written
        maker = ZoneMaker(column, filesystem, rows_per_zone, filter_bytes, scratch, threads or processors())
        completed = _CompletedFiles(rows_per_zone)
        with closing(maker.read_files(entries)) as results:
            done = 0
            for result in results:
                completed.add(result, filesystem, report)
                done += result.last
                if result.last and progress is not None:
                    progress(done, len(entries))
        if not completed.files:
            raise next(iter(report.failed.values()), ParquetBloomError("there are no files", path=target_path))
        manifest, zones = completed.manifest(column, filter_bytes), completed.zones
        packed_zones = packed.describe_zones(zones, rows_per_zone, zones_per_batch(filter_bytes))
        metadata = FilterSizing(rows_per_zone, fpp).metadata | manifest.to_metadata(zones, packed_zones)
        reader = _SpilledFilters(scratch, completed.runs, filter_bytes)
        write_index(new, kind, zones, filter_bytes, reader.read, metadata)
        report.num_bytes = new.tell()
        new.commit()
    report.files, report.fragments, report.zones = len(manifest.files), len(manifest.fragment_rows), len(zones)
    report.rows = int(manifest.fragment_rows.sum())
    return report


def _choose_container(target: str, container: str | None) -> str:
    if container is None:
        by_extension = _CONTAINERS.get(os.path.splitext(target)[1].lower())
        if by_extension is None:
            problem = "the container is unknown: use the extension .parquet or .arrow, or set container"
            raise ParquetBloomError(problem, path=target)
        return by_extension
    if container not in ("parquet", "arrow"):
        raise ValueError(f"container must be 'parquet' or 'arrow', got {container!r}")
    return container


def require_outside(target: str, folders: Iterable[str], filesystem: object | None = None) -> None:
    """Raise ParquetBloomError if a listing of the folders would include the index, because its name is not hidden."""
    name = name_of(target, filesystem)
    for folder in folders:
        prefix = name_of(folder, filesystem).rstrip("/") + "/"
        if name.startswith(prefix):
            *parts, last = name[len(prefix) :].split("/")
            if not is_hidden(last, is_folder=False) and not any(is_hidden(part, is_folder=True) for part in parts):
                problem = f"it lies in {folder}, and would be taken for one of its files; begin its name with _"
                raise ParquetBloomError(problem, path=target)


@dataclass
class _CompletedFiles:
    """The zones of the files that are complete."""

    rows_per_zone: int
    files: list[ZonedFile] = field(default_factory=list)
    fragment_files: list[int] = field(default_factory=list)
    fragment_rows: list[int] = field(default_factory=list)
    runs: list[SpillRun] = field(default_factory=list)
    _has_null: list[NDArray[np.bool_]] = field(default_factory=list)
    _pending: list[RowGroupResult] = field(default_factory=list)

    def add(self, result: RowGroupResult, filesystem: object | None, report: ZoneBuildReport) -> None:
        """Buffer a row group of a file; at the end of the file, add its zones, unless it failed."""
        if result.error is not None:
            report.failed.setdefault(result.entry.path, result.error)
        if not result.last:
            self._pending.append(result)
            return
        results, self._pending = self._pending, []
        opened = result.opened
        if opened is None:
            return
        opened.file.close()
        if result.entry.path in report.failed:
            return
        number, source = len(self.files), opened.file.source
        name = name_of(result.entry.path, filesystem)
        footer = opened.file.footer
        self.files.append(
            ZonedFile(
                number, name, source.size, opened.stamp, opened.footer, opened.data, opened.column_type, len(results)
            )
        )
        for row_group_result in results:
            self.fragment_files.append(number)
            self.fragment_rows.append(footer.num_rows_of(row_group_result.row_group))
            self.runs += row_group_result.runs
            self._has_null.append(row_group_result.has_null)

    def manifest(self, column: str, filter_bytes: int) -> Manifest:
        files = np.array(self.fragment_files, np.int64)
        counts = np.bincount(files, minlength=len(self.files))
        within = np.arange(len(files)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Manifest(column, filter_bytes, self.files, files, within, np.array(self.fragment_rows, np.int64))

    @property
    def zones(self) -> NDArray[np.void]:
        rows = np.array(self.fragment_rows, np.int64)
        counts = -(-rows // self.rows_per_zone)
        zones = np.empty(int(counts.sum()), ZONE)
        zones["fragment_id"] = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(zones)) - np.repeat(np.cumsum(counts) - counts, counts)
        zones["zone_start"] = within * self.rows_per_zone
        zones["zone_length"] = np.minimum(self.rows_per_zone, np.repeat(rows, counts) - within * self.rows_per_zone)
        zones["has_null"] = np.concatenate([*self._has_null, np.empty(0, np.bool_)])
        return zones


class _SpilledFilters:
    """Reader of spilled filters by the ordinals of their zones."""

    def __init__(self, scratch: SpillFile, runs: Sequence[SpillRun], filter_bytes: int):
        self._scratch, self._runs, self._filter_bytes = scratch, runs, filter_bytes
        self._ends = np.cumsum([run.count for run in runs], dtype=np.int64)

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        out = np.empty(count * self._filter_bytes, np.uint8)
        position, done = first * self._filter_bytes, 0
        i = int(np.searchsorted(self._ends, position, "right"))
        while done < len(out):
            run = self._runs[i]
            skipped = position + done - (int(self._ends[i]) - run.count)
            num_bytes = min(run.count - skipped, len(out) - done)
            out[done : done + num_bytes] = self._scratch.get(run, skipped, num_bytes)
            done += num_bytes
            i += 1
        return out
