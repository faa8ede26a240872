"""Liveness of indexed files: live files are still in the lake, and unchanged since they were indexed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_keys
from ..file.bloom_file import BloomFile
from ..file.identity import NO_TOKEN, UNREADABLE, compare_contents, read_version_tokens
from ..hashing.arrow_keys import keys_of
from ..metadata.footer import SchemaLeaf
from ..predicate.key_expression import first_column
from ..storage import Entry
from ..tables.names_in_files import has_column
from ..tables.table_footers import show_as_table
from ..util.arrow_values import from_numpy, make_array, make_scalar, to_numpy
from ..util.threads import in_order
from . import lake_files as sources
from .file_table import NOT_COVERED, encode_paths
from .hash_files import TableColumns, find_key_leaves
from .segment import Segment

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_OPENED_AT_A_TIME = 16

_UNCHECKED = -2


class FileRef(NamedTuple):
    """Position of a file in an index: segment, and file in the segment."""

    segment: int
    file: int


class PathTable:
    """Finds files by path among the files of all segments that were not removed."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments
        hashes, numbers, owners = [], [], []
        for i, segment in enumerate(segments):
            present = np.flatnonzero(segment.present)
            hashes.append(segment.files.path_hashes[present])
            numbers.append(present)
            owners.append(np.full(len(present), i, np.int32))
        every = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
        order = np.argsort(every, kind="stable")
        self._hashes = every[order]
        self._numbers = (np.concatenate(numbers) if numbers else np.empty(0, np.int64))[order]
        self._owners = (np.concatenate(owners) if owners else np.empty(0, np.int32))[order]

    def find(self, names: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return for each name the segment and the number of the file; -1 and -1 if it is not indexed."""
        paths = encode_paths(names)
        owners, numbers = np.full(len(names), -1, np.int32), np.full(len(names), -1, np.int64)
        if not len(self._hashes) or not len(names):
            return owners, numbers
        hashes = np.asarray(hash_keys(keys_of(paths)))
        rows = np.searchsorted(self._hashes, hashes)
        unresolved = np.arange(len(names))
        while len(unresolved):  # paths with the same hash are adjacent
            inside = rows[unresolved] < len(self._hashes)
            unresolved = unresolved[inside]
            unresolved = unresolved[self._hashes[rows[unresolved]] == hashes[unresolved]]
            for owner in np.unique(self._owners[rows[unresolved]]).tolist():
                members = unresolved[self._owners[rows[unresolved]] == owner]
                files = self._numbers[rows[members]]
                matching = self._segments[owner].files.has_paths(files, paths.take(from_numpy(members)))
                owners[members[matching]], numbers[members[matching]] = owner, files[matching]
            unresolved = unresolved[owners[unresolved] < 0]
            rows[unresolved] += 1
        return owners, numbers


@dataclass
class LakeState:
    """State of the lake's files.

    Attributes
    ----------
    alive : for each segment, bool for each of its files: live and unchanged.
    unindexed : paths of live files that are not indexed in their current state, as listed.
    changed : number of them that are indexed in an earlier state.
    gone_at : for each segment, bool for each of its files: no longer in the lake.
    listed : False where the lake was not listed, so that files that are not indexed are unknown.
    restamped : {file: (size, stamp)} of files with a new version token but unchanged values.
    foreign : for each segment, numbers of parts that are not what the table calls by their column's name now.
    renamed : paths of live files with such a part of a column that the table has, as listed.
    table_columns : of the table that the files belong to; None for files with the names of the index's columns.
    """

    alive: list[NDArray[np.bool_]]
    unindexed: list[str] = field(default_factory=list)
    changed: int = 0
    gone_at: list[NDArray[np.bool_]] = field(default_factory=list)
    listed: bool = False
    restamped: dict[FileRef, tuple[int, bytes]] = field(default_factory=dict)
    foreign: list[frozenset[int]] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    table_columns: TableColumns = None

    @property
    def gone(self) -> int:
        return sum(int(gone.sum()) for gone in self.gone_at)

    @classmethod
    def make_unchecked(cls, segments: Sequence[Segment], listing: sources.LakeListing | None) -> LakeState:
        """Return the state before any file was checked."""
        never = [np.zeros(len(segment.files), np.bool_) for segment in segments]
        foreign = [
            frozenset(
                number
                for number, part in enumerate(segment.parts)
                if listing is not None and not listing.means(part.info.column, part.info.meaning)
            )
            for segment in segments
        ]
        live = cls([mask.copy() for mask in never], gone_at=never, listed=listing is not None, foreign=foreign)
        if listing is not None:
            live.table_columns = listing.table_columns
        return live


def assume_live(segments: Sequence[Segment]) -> LakeState:
    """Return the state in which every indexed file counts as live."""
    live = LakeState.make_unchecked(segments, None)
    live.alive = [segment.present.copy() for segment in segments]
    return live


def match_stamps(
    segment: Segment, numbers: NDArray[np.int64], current: Sequence[tuple[int, bytes]]
) -> NDArray[np.bool_]:
    """Return which files of a segment still have the given sizes and stamps; NO_TOKEN never matches."""
    indexed = segment.files.stamps.take(from_numpy(numbers))
    stamps = make_array([stamp for _, stamp in current], pa.binary())
    same = pc.and_(pc.equal(stamps, indexed), pc.not_equal(stamps, make_scalar(NO_TOKEN, pa.binary())))
    sizes = np.array([size for size, _ in current], np.int64)
    return np.asarray(to_numpy(same), np.bool_) & (sizes == segment.files.sizes[numbers])


class _CheckedFiles(NamedTuple):
    """Files whose versions are compared with those that were indexed.

    Attributes
    ----------
    num_listed : so many of the first ones were listed, and so exist.
    owners, numbers : segment and number of each, as `PathTable.find` returns them; _UNCHECKED for one to leave out.
    """

    entries: Sequence[Entry]
    num_listed: int
    owners: NDArray[np.int32]
    numbers: NDArray[np.int64]


class LivenessCheck:
    """Determines which files are live, and caches the files of which it has read the contents.

    Parameters
    ----------
    columns : indexed columns; a file's fingerprint is that of the bytes of the covered ones.
    filesystem : file system of the lake.
    """

    def __init__(self, columns: Sequence[str], filesystem: FileSystem | None):
        self._columns = columns
        self._filesystem = filesystem
        self._cache: dict[tuple[str, int, bytes, int, int], bool] = {}

    def check(
        self,
        segments: Sequence[Segment],
        listing: sources.LakeListing | None,
        verify: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> LakeState:
        """Determine the liveness of all files.

        Parameters
        ----------
        listing : the lake's current files; None where only the indexed files themselves are checked.
        verify : read the contents of files with a new version token; otherwise they count as changed.
        progress : called with (done, total) while contents are read.
        """
        entries = list(listing.entries) if listing is not None else []
        num_listed = len(entries)
        names = [sources.name_of(entry.path, self._filesystem) for entry in entries]
        table = PathTable(segments)
        owners, numbers = table.find(names)
        live = LakeState.make_unchecked(segments, listing)
        for i, segment in enumerate(segments):
            of_segment = owners == i
            seen = np.zeros(len(segment.files), np.bool_)
            seen[numbers[of_segment]] = True
            unchecked = segment.present & (segment.files.sizes < 0)
            live.alive[i] |= unchecked
            of_segment[of_segment] = unchecked[numbers[of_segment]]
            owners[of_segment] = _UNCHECKED
            named = segment.present & ~unchecked & ~seen
            if listing is not None:
                named &= ~segment.files.listed
            to_check = np.flatnonzero(named)
            entries += map(Entry, segment.files.paths(to_check))
            owners = np.append(owners, np.full(len(to_check), i, np.int32))
            numbers = np.append(numbers, to_check)
            live.gone_at[i] |= segment.present & ~unchecked & ~seen & ~named
        files = _CheckedFiles(entries, num_listed, owners, numbers)
        self._check_versions(segments, files, live, verify, progress)
        return live

    def _check_versions(
        self,
        segments: Sequence[Segment],
        files: _CheckedFiles,
        live: LakeState,
        verify: bool,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Determine whether each file is unchanged."""
        entries, owners, numbers = files.entries, files.owners, files.numbers
        live.unindexed += [entries[at].path for at in np.flatnonzero(owners == -1).tolist()]
        doubtful: list[tuple[Entry, FileRef, int, bytes]] = []
        for number, segment in enumerate(segments):
            positions = np.flatnonzero(owners == number)
            if not len(positions):
                continue
            self._note_renamed(segment, [entries[at] for at in positions.tolist()], numbers[positions], live, number)
            tokens = read_version_tokens([entries[at] for at in positions.tolist()], self._filesystem)
            exists = np.array([token is not None for token in tokens], np.bool_) | (positions < files.num_listed)
            live.gone_at[number][numbers[positions[~exists]]] = True
            current = [token or UNREADABLE for token, is_there in zip(tokens, exists.tolist(), strict=True) if is_there]
            positions = positions[exists]
            at = numbers[positions]
            unchanged = match_stamps(segment, at, current)
            live.alive[number][at[unchanged]] = True
            for j in np.flatnonzero(~unchanged).tolist():
                entry, (size, stamp) = entries[int(positions[j])], current[j]
                doubtful.append((entry, FileRef(number, int(at[j])), size, stamp))
        checks = in_order(
            lambda file: verify and self._check_contents(segments, *file, live.table_columns),
            doubtful,
            max(1, min(_OPENED_AT_A_TIME, len(doubtful))),
        )
        with checks as results:
            for done, ((entry, ref, size, _), token) in enumerate(zip(doubtful, results, strict=True)):
                if token is False:
                    live.changed += 1
                    live.unindexed.append(entry.path)
                else:
                    live.alive[ref.segment][ref.file] = True
                    if token != NO_TOKEN:
                        live.restamped[ref] = size, bytes(token)
                if progress and verify:
                    progress(done + 1, len(doubtful))

    @staticmethod
    def _note_renamed(
        segment: Segment, entries: Sequence[Entry], numbers: NDArray[np.int64], live: LakeState, i: int
    ) -> None:
        """Record files that have to be indexed again, as another of their columns has a name in the table now.

        What is known of a column whose name the table does not have any more stays: it may get it back.
        """
        if not live.foreign[i]:
            return
        columns = {segment.parts[number].info.column for number in live.foreign[i]}
        columns = {column for column in columns if has_column(live.table_columns, first_column(column))}
        foreign = np.zeros(len(entries), np.bool_)
        for column in columns:
            foreign |= np.isin(segment.files.parts(column)[numbers], list(live.foreign[i]))
        live.renamed += [entries[position].path for position in np.flatnonzero(foreign).tolist()]

    def _check_contents(
        self,
        segments: Sequence[Segment],
        entry: Entry,
        ref: FileRef,
        size: int,
        stamp: bytes,
        table_columns: TableColumns,
    ) -> bytes | bool:
        """Return a file's new version token if its contents are those that were indexed, else False."""
        table = segments[ref.segment].files
        footer, data = table.fingerprints(ref.file)
        columns = [column for column in self._columns if table.parts(column)[ref.file] != NOT_COVERED]
        key = (entry.path, size, stamp, footer, data)
        if stamp != NO_TOKEN and key in self._cache:
            return self._cache[key] and stamp

        def find_leaves(file: BloomFile) -> list[SchemaLeaf]:
            shown = file if table_columns is None else show_as_table(file, table_columns)
            return [leaf for column in columns for leaf in find_key_leaves(shown, column)]

        same, token = compare_contents(entry, self._filesystem, footer, data, find_leaves)
        if token != NO_TOKEN and token == stamp:
            self._cache[key] = same
        return same and token
