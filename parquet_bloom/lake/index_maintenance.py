"""Maintenance of an index: remove files, merge segments, delete old files of the index."""

from __future__ import annotations

import glob
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError, StorageError
from ..storage import is_local
from ..storage.index_folder import Folder
from ..util.threads import in_order
from . import index_manifest as manifests
from . import lake_files as sources
from . import layouts
from .file_table import FileTable
from .index_manifest import ColumnPart, IndexManifest, Key, SegmentInfo
from .index_part import PartReader
from .index_reports import CompactReport
from .index_snapshot import open_for_writing
from .lake_files import LakeDescription
from .liveness import LakeState, PathTable
from .segment import Segment, make_header, part_name

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

# Names of segments' files. Other files in the folder are not ours, and are not deleted.
_INDEX_FILE = re.compile(rf"[0-9a-f]{{16}}(-[0-9a-f]+)*\.(files|{'|'.join(layouts.LAYOUTS)})")

_TIER = 8
"""Number of segments of one size class that are merged, and the factor between size classes."""

_KEEP_SECONDS = 3600.0
_MANIFESTS_AT_A_TIME = 16  # read concurrently from an object store
_ORPHANED_SECONDS = 24 * 3600.0  # in stores without locks, where a writer may still be running


@contextmanager
def begin_change(folder: Folder, tables: Mapping[str, FileTable] = {}) -> Iterator[tuple[IndexManifest, list[Segment]]]:
    """Open the index for a change, see `open_for_writing`; if that fails, the files it has written are deleted.

    On a full disk they would be in the way of every other program until the next change. In an object store they stay
    for a day, see `sweep`.
    """
    with open_for_writing(folder, tables) as (manifest, segments):
        try:
            yield manifest, segments
        except BaseException:
            with suppress(ParquetBloomError):  # the newest manifest: it may have been written before the error
                sweep(folder, manifests.newest(folder), keep_seconds=math.inf, before=manifest)
            raise


def remove(folder: Folder, lake_filesystem: FileSystem | None, files: Iterable[str | os.PathLike[str]] | str) -> int:
    given = [files] if isinstance(files, (str, os.PathLike)) or not isinstance(files, Iterable) else list(files)
    if not all(isinstance(path, (str, bytes, os.PathLike)) for path in given):
        raise ParquetBloomError("files are paths, each a string or a path object")
    with begin_change(folder) as (manifest, segments):
        table = PathTable(segments)
        gone = [np.zeros(len(segment.files), np.bool_) for segment in segments]
        given = [_as_indexed(os.fsdecode(path), table, lake_filesystem) for path in given]
        for path in given:
            is_root = _without_roots(manifest.lake, [path], lake_filesystem) != manifest.lake
            if not _mark(path, table, segments, gone, lake_filesystem) and not is_root:
                raise StorageError("the index has no such file", path=path, errno=2)
        count = sum(int((mask & segment.present).sum()) for mask, segment in zip(gone, segments, strict=True))
        kept = tuple(info for info in _remove_marked(manifest, gone) if info.kept_files)
        following = manifest.next(
            segments=kept, lake=_without_roots(manifest.lake, given, lake_filesystem), num_live=None
        )
        manifests.write(folder, following)
        sweep(folder, following)
        return count


def _as_indexed(path: str, table: PathTable, filesystem: FileSystem | None) -> str:
    """Return a path as it was indexed, if it is written as some library does."""
    return path if table.find([path])[0][0] >= 0 else sources.resolve_given_path(path, filesystem)


def _remove_marked(manifest: IndexManifest, gone: Sequence[NDArray[np.bool_]]) -> list[SegmentInfo]:
    """Return the segments of a manifest without the marked files."""
    return [
        info.without(np.flatnonzero(mask)) if mask.any() else info
        for info, mask in zip(manifest.segments, gone, strict=True)
    ]


def _without_roots(
    lake: LakeDescription, paths: Sequence[str | bytes | os.PathLike[str]], filesystem: FileSystem | None
) -> LakeDescription:
    """Return the description of the lake without the folders at or below the given paths."""
    texts = map(os.fsdecode, paths)
    removed = [glob.escape(sources.name_of(path, filesystem).rstrip("/")) for path in texts if path.endswith("/")]
    if not removed or "paths" not in lake:
        return lake
    remaining = [
        root for root in lake["paths"] if not any((root.rstrip("/") + "/").startswith(each + "/") for each in removed)
    ]
    return {"paths": remaining} if remaining else {}


def _mark(
    path: str,
    table: PathTable,
    segments: Sequence[Segment],
    gone: Sequence[NDArray[np.bool_]],
    lake_filesystem: FileSystem | None,
) -> bool:
    """Mark the files that a path means; return False if there are none."""
    for name in dict.fromkeys((path, sources.name_of(path, lake_filesystem))):
        owners, numbers = table.find([name])
        if owners[0] >= 0:
            gone[owners[0]][numbers[0]] = True
            return True
    if not path.endswith("/"):
        return False
    below = sources.name_of(path, lake_filesystem).rstrip("/") + "/"
    matched = False
    for segment, mask in zip(segments, gone, strict=True):
        inside = np.array([name.startswith(below) for name in segment.files.paths()], np.bool_) & segment.present
        mask |= inside
        matched = matched or bool(inside.any())
    return matched


def compact(
    folder: Folder,
    find_gone: Callable[[IndexManifest, Sequence[Segment]], Sequence[NDArray[np.bool_]]],
    memory_limit: int,
    keep_seconds: float,
) -> CompactReport:
    """Merge all segments of an index into one, see `LakeIndex.compact`.

    Parameters
    ----------
    find_gone : returns for each segment which of its files are no longer in the lake.
    """
    with begin_change(folder) as (manifest, segments):
        deleted = sweep(folder, manifest, keep_seconds)  # also before: the disk may be full
        infos = _remove_marked(manifest, find_gone(manifest, segments))
        dropped = sum(len(info.removed) for info in infos)
        after = manifest
        if len(infos) > 1 or dropped:
            after = manifest.next(segments=merge_segments(folder, manifest, infos, memory_limit))
            manifests.write(folder, after)
            deleted += sweep(folder, after, keep_seconds)
        before = sum(info.num_bytes for info in manifest.segments)
        bytes_after = sum(info.num_bytes for info in after.segments)
        return CompactReport(len(infos), len(after.segments), before, bytes_after, dropped, deleted)


def merge_tiers(folder: Folder, manifest: IndexManifest, memory_limit: int) -> tuple[IndexManifest, int]:
    """Merge segments of similar size where there are many.

    Returns
    -------
    The new manifest, and the number of segments merged.
    """
    infos, count = list(manifest.segments), 0
    while True:
        by_size: dict[int, list[SegmentInfo]] = {}
        for info in infos:
            by_size.setdefault(int(np.log(max(1, info.num_entries)) / np.log(_TIER)), []).append(info)
        many = next((some for _, some in sorted(by_size.items()) if len(some) >= _TIER), None)
        if many is None:
            return replace(manifest, segments=tuple(infos)), count
        merged = merge_segments(folder, manifest, many, memory_limit)
        names = {info.name for info in many}
        if len(merged) >= len(many):  # their units do not fit into fewer
            return replace(manifest, segments=tuple(infos)), count
        infos = [info for info in infos if info.name not in names] + list(merged)
        count += len(many)


def merge_segments(
    folder: Folder, manifest: IndexManifest, infos: Sequence[SegmentInfo], memory_limit: int
) -> tuple[SegmentInfo, ...]:
    """Merge segments, without removed files, into one, or into several if it would have too many units.

    Raises
    ------
    BrokenIndexError, StorageError
        A part cannot be read; its values must not be lost silently.
    """
    most = layouts.most_units(manifest.layout, manifest.settings)
    groups: list[list[SegmentInfo]] = [[]]
    units = 0
    for info in infos:
        if not info.kept_files:
            continue
        if groups[-1] and units + info.num_units > most:
            groups.append([])
            units = 0
        groups[-1].append(info)
        units += info.num_units
    return tuple(_merge_group(folder, manifest, group, memory_limit) for group in groups if group)


def _merge_group(
    folder: Folder, manifest: IndexManifest, infos: Sequence[SegmentInfo], memory_limit: int
) -> SegmentInfo:
    if len(infos) == 1 and not len(infos[0].removed):
        return infos[0]
    segments = [Segment(folder, manifest, info) for info in infos]
    try:
        keys: dict[Key, int] = {}
        numbers = [[keys.setdefault(part.key, len(keys)) for part in info.parts] for info in infos]
        table, remaps = FileTable.merge([(segment.files, segment.present) for segment in segments], numbers)
        name = secrets.token_hex(8)
        parts = []
        for key, number in keys.items():
            readers: list[tuple[PartReader, NDArray[np.int64]]] = [
                (reader, remap)
                for segment, segment_numbers, remap in zip(segments, numbers, remaps, strict=True)
                for part, other in zip(segment.parts, segment_numbers, strict=True)
                if other == number
                for reader in part.readers
            ]
            path = folder.path_of(part_name(name, number, manifest.layout))
            info = layouts.merge(
                manifest.layout,
                manifest.settings,
                key[0],
                readers,
                path,
                folder.filesystem,
                table.num_units,
                memory_limit,
            )
            parts.append(ColumnPart(*key, (info,)))
        files = f"{name}.files"
        keys_and_names = ((part.key, [each.name for each in part.slices]) for part in parts)
        header = make_header(manifest.layout, manifest.settings, manifest.units, keys_and_names)
        table.with_header(header).write(folder, files)
        return SegmentInfo(name, files, len(table), table.num_units, tuple(parts))
    finally:
        for segment in segments:
            segment.close()


def restamp(
    folder: Folder, segments: Sequence[Segment], infos: Sequence[SegmentInfo], live: LakeState
) -> list[SegmentInfo]:
    """Store the new stamps of files with unchanged values, so that they are not read again."""
    updated = list(infos)
    for i, segment in enumerate(segments):
        stamps = {ref.file: stamp for ref, stamp in live.restamped.items() if ref.segment == i}
        if not stamps:
            continue
        name = f"{segment.info.name}-{secrets.token_hex(4)}.files"
        segment.files.with_stamps(stamps).write(folder, name)
        updated[i] = replace(updated[i], files=name)
    return updated


def sweep(
    folder: Folder, manifest: IndexManifest, keep_seconds: float = _KEEP_SECONDS, before: IndexManifest | None = None
) -> int:
    """Delete old manifests, and files to which only those refer, once no reader can need them.

    Old manifests are read to find their files, except `before`, which the caller has in memory.

    Files without a manifest are from writers that died. Where there is a lock, which the caller holds, they are deleted
    at once, elsewhere when they are a day old. Errors are ignored: remaining files are deleted the next time.
    """
    with suppress(ParquetBloomError):
        folder.sweep_temporary()
        files = folder.names()
        now = time.time()
        needed, referenced = set(manifest.names), set(manifest.names)
        doomed = []
        numbers = [number for number in manifests.numbers_in(files) if number < manifest.number]
        for number, names in zip(numbers, _read_names(folder, numbers, before), strict=True):
            referenced |= names
            # It was current until the next one was written.
            following = files.get(manifests.manifest_name(number + 1))
            ended = now if following is None else following[1] / 1e9
            if now - ended < keep_seconds:
                needed |= names
            else:
                doomed.append(manifests.manifest_name(number))
        orphaned = 0.0 if is_local(folder.filesystem, [folder.path]) else _ORPHANED_SECONDS
        for name, (_, modified_ns) in files.items():
            if (
                _INDEX_FILE.fullmatch(name)
                and name not in needed
                and (name in referenced or now - modified_ns / 1e9 >= orphaned)
            ):
                doomed.append(name)
        # Manifests last, so that a copy of the folder never has a newest manifest without its files.
        doomed.sort(key=lambda name: name.startswith("manifest-"))
        folder.delete(doomed)
        return len(doomed)
    return 0


def _read_names(folder: Folder, numbers: Sequence[int], before: IndexManifest | None) -> list[set[str]]:
    """Return the names that each manifest refers to; for one that cannot be read, its own name."""

    def names(number: int) -> set[str]:
        if before is not None and number == before.number:
            return before.names
        try:
            return manifests.read(folder, number).names
        except ParquetBloomError:
            return {manifests.manifest_name(number)}

    if is_local(folder.filesystem, [folder.path]):
        return list(map(names, numbers))
    with in_order(names, numbers, _MANIFESTS_AT_A_TIME) as results:
        return list(results)
