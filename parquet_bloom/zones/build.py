"""Build a zone index over Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..storage import create, list_entries, resolve_filesystem
from ..storage.listing import as_path_list
from ..storage.paths import name_of
from ..storage.patterns import is_hidden
from ..storage.spill import SpillFile, SpillRun
from ..util.threads import processors
from . import packed
from .collect import RowGroupResult, ZoneMaker
from .manifest import Manifest
from .reports import ZoneBuildReport, ZonedFile
from .schema import ZONE, Sizes
from .sizing import lance_num_bytes
from .write import write_index, zones_a_batch

_CONTAINERS = {".parquet": "parquet", ".parq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def build(
    paths: Any,
    column: str,
    target: str | os.PathLike[str],
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
    paths : files, folders or patterns, as `prune` takes them.
    column : dotted name of the column. It may be in structs, not in lists.
    target : the index, one file, which comes to be, or takes the place of what is there, whole.
    rows_per_zone : rows of a zone; the last of each row group may have fewer. Filters are sized for as many values.
    fpp : false-positive probability that they are sized for. The defaults are Lance's: 32 KiB a zone.
    container : "parquet" or "arrow"; None to go by the target's ending.
    filesystem, storage_options : as in `prune`; for files and target.
    threads : that decode and hash; None for one a processor.
    progress : told the files that are done, and how many there are.

    Returns
    -------
    A report. Files that cannot be read, or lack the column, are not covered; `failed` says which, and why.

    Raises
    ------
    ParquetBloomError
        No file can be covered (then that of the first), or the target lies among the files, or cannot be written.
    """
    filter_bytes = lance_num_bytes(rows_per_zone, fpp)
    place = os.fspath(target)
    kind = _container(place, container)
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads must be a number from 1 on, not {threads!r}")
    filesystem = resolve_filesystem(filesystem, storage_options)
    several = as_path_list(paths)
    entries = list_entries(several, filesystem)
    named = {entry.path for entry in entries}
    require_outside(place, [text for text in map(os.fsdecode, several) if text not in named], filesystem)
    if any(name_of(path, filesystem) == name_of(place, filesystem) for path in named):
        raise ParquetBloomError("it is one of the files that the zones are of", path=place)
    report = ZoneBuildReport(place, column, filter_bytes=filter_bytes)
    with create(target, filesystem) as new, SpillFile() as scratch:  # that it can be written shows first
        maker = ZoneMaker(column, filesystem, rows_per_zone, filter_bytes, scratch, threads or processors())
        gathered = _Gathered(rows_per_zone)
        with closing(maker.pieces(entries)) as pieces:
            done = 0
            for piece in pieces:
                gathered.take(piece, filesystem, report)
                done += piece.last
                if piece.last and progress is not None:
                    progress(done, len(entries))
        if not gathered.files:
            raise next(iter(report.failed.values()), ParquetBloomError("there are no files", path=place))
        manifest, zones = gathered.manifest(column, filter_bytes), gathered.zones
        told = packed.zones_told(zones, rows_per_zone, zones_a_batch(filter_bytes))
        metadata = Sizes(rows_per_zone, fpp).metadata | manifest.to_metadata(zones, told)
        reader = _Put(scratch, gathered.runs, filter_bytes)
        write_index(new, kind, zones, filter_bytes, reader.read, metadata)
        report.num_bytes = new.tell()
        new.commit()
    report.files, report.fragments, report.zones = len(manifest.files), len(manifest.fragment_rows), len(zones)
    report.rows = int(manifest.fragment_rows.sum())
    return report


def _container(target: str, container: str | None) -> str:
    if container is None:
        found = _CONTAINERS.get(os.path.splitext(target)[1].lower())
        if found is None:
            problem = "its ending does not tell the container: name it .parquet or .arrow, or give one"
            raise ParquetBloomError(problem, path=target)
        return found
    if container not in ("parquet", "arrow"):
        raise ValueError(f"a container is 'parquet' or 'arrow', not {container!r}")
    return container


def require_outside(target: str, folders: Iterable[str], filesystem: object | None = None) -> None:
    """Raise ParquetBloomError if the index would be found among the files of folders later: its name is not hidden."""
    name = name_of(target, filesystem)
    for folder in folders:
        above = name_of(folder, filesystem).rstrip("/") + "/"
        if name.startswith(above):
            *parts, last = name[len(above) :].split("/")
            if not is_hidden(last, is_folder=False) and not any(is_hidden(part, is_folder=True) for part in parts):
                problem = f"it lies in {folder}, and would be taken for one of its files; begin its name with _"
                raise ParquetBloomError(problem, path=target)


@dataclass
class _Gathered:
    """The zones of the files that are done."""

    rows_per_zone: int
    files: list[ZonedFile] = field(default_factory=list)
    fragment_files: list[int] = field(default_factory=list)
    fragment_rows: list[int] = field(default_factory=list)
    runs: list[SpillRun] = field(default_factory=list)
    _has_null: list[NDArray[np.bool_]] = field(default_factory=list)
    _waiting: list[RowGroupResult] = field(default_factory=list)

    def take(self, piece: RowGroupResult, filesystem: object | None, report: ZoneBuildReport) -> None:
        """Take what follows of a file, or all of it at its end; nothing of one that failed."""
        if piece.error is not None:
            report.failed.setdefault(piece.entry.path, piece.error)
        if not piece.last:
            self._waiting.append(piece)
            return
        pieces, self._waiting = self._waiting, []
        opened = piece.opened
        if opened is None:
            return
        opened.file.close()
        if piece.entry.path in report.failed:
            return
        number, source = len(self.files), opened.file.source
        name = name_of(piece.entry.path, filesystem)
        footer = opened.file.footer
        self.files.append(
            ZonedFile(
                number, name, source.size, opened.stamp, opened.footer, opened.data, opened.column_type, len(pieces)
            )
        )
        for each in pieces:
            self.fragment_files.append(number)
            self.fragment_rows.append(footer.num_rows_of(each.row_group))
            self.runs += each.runs
            self._has_null.append(each.has_null)

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


class _Put:
    """Filters that were put aside, by the ordinals of their zones."""

    def __init__(self, scratch: SpillFile, runs: Sequence[SpillRun], filter_bytes: int):
        self._scratch, self._runs, self._filter_bytes = scratch, runs, filter_bytes
        self._ends = np.cumsum([run.count for run in runs], dtype=np.int64)

    def read(self, first: int, count: int) -> NDArray[np.uint8]:
        out = np.empty(count * self._filter_bytes, np.uint8)
        position, done = first * self._filter_bytes, 0
        number = int(np.searchsorted(self._ends, position, "right"))
        while done < len(out):
            run = self._runs[number]
            skipped = position + done - (int(self._ends[number]) - run.count)
            take = min(run.count - skipped, len(out) - done)
            out[done : done + take] = self._scratch.get(run, skipped, take)
            done += take
            number += 1
        return out
