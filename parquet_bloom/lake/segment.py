"""Segments of an index: opened ones with their parts, and new ones in the making."""

from __future__ import annotations

import json
import re
import secrets
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BrokenIndexError, ParquetBloomError, shortened
from ..hashing.coerce import make_scalar_hasher
from ..hashing.column_type import type_to_json
from ..predicate.key_expression import KeyExpression
from ..storage import is_local
from ..storage.index_folder import Folder
from ..util.threads import in_order
from . import layouts
from .file_table import NOT_COVERED, FileRecord, FileRowsTable, FileTable
from .index_manifest import ColumnPart, IndexManifest, Key, SegmentInfo
from .index_part import PartMatches, PartReader, PartWriter
from .index_reports import Candidate, FileSelection
from .units import FILE, RowRanges, Units

SegmentHeader = Mapping[str, object]


def make_header(
    layout: str, settings: Mapping[str, int], units: Units, parts: Iterable[tuple[Key, Sequence[str]]]
) -> SegmentHeader:
    """Return the header of a segment.

    Parameters
    ----------
    layout, settings, units : the index's.
    parts : the key of each part, and the names of its files.
    """
    return {
        "layout": layout,
        "settings": dict(settings),
        "granularity": units.granularity,
        "zone_rows": units.zone_rows,
        "parts": [_describe_part(key, names) for key, names in parts],
    }


def _describe_part(key: Key, names: Sequence[str]) -> dict[str, object]:
    column, column_type, holds, meaning, other_types = key
    return {
        "column": column,
        "expression": column.to_json() if isinstance(column, KeyExpression) else None,
        "types": [*map(type_to_json, (column_type, *other_types))],
        "holds": holds.value,
        "meaning": meaning,
        "names": list(names),
    }


def find_contradiction(header: SegmentHeader | None, manifest: IndexManifest, info: SegmentInfo) -> str | None:
    """Return where a manifest and a segment contradict each other; None if they do not.

    Parameters
    ----------
    header : the segment's; None for one that an earlier version wrote.
    info : the segment's entry in the manifest.
    """
    parts = [_describe_part(part.key, [each.name for each in part.slices]) for part in info.parts]
    expected = make_header(manifest.layout, manifest.settings, manifest.units, ())
    names = _find_foreign_name(info, manifest.layout)
    if header is None or names is not None:
        return names
    for name, value in expected.items():
        if name != "parts" and _canonical(header.get(name)) != _canonical(value):
            return _say(name, value, header.get(name))
    stored = header.get("parts")
    if not isinstance(stored, list) or len(stored) != len(info.parts):
        return f"the manifest has {len(info.parts)} parts of segment '{info.name}', the segment has others"
    for number, (part, other) in enumerate(zip(stored, parts, strict=True)):
        for name, value in other.items():
            found = part.get(name) if isinstance(part, dict) else None
            if name == "expression" and not info.parts[number].num_entries:
                value, found = _without_weights(value), _without_weights(found)
            if _canonical(found) != _canonical(value):
                return _say(f"{name} of part {number}", value, found)
    return None


def _without_weights(expression: object) -> object:
    """Return an expression of a part without grams: others of its weights may have been learnt since."""
    return {**expression, "weights": None} if isinstance(expression, dict) else expression


def _say(name: str, value: object, stored: object) -> str:
    ours, theirs = (shortened(_canonical(side), 200) for side in (value, stored))
    return f"the manifest contradicts the segment: {name} is {ours} in the manifest, {theirs} in the segment"


def _find_foreign_name(info: SegmentInfo, layout: str) -> str | None:
    """Return which file is not one of the segment's by its name; None if all are.

    Its number in the name of a part's file is that of the part, but for those that Spark's tasks have written.
    """
    segment = re.escape(info.name)
    if not re.fullmatch(rf"{segment}(-[0-9a-f]+)?\.files", info.files):
        return f"'{info.files}' is not a table of files of segment '{info.name}'"
    for number, part in enumerate(info.parts):
        for each in part.slices:
            match = re.fullmatch(rf"{segment}-([0-9a-f]+)((?:-[0-9a-f]+)*)\.{layout}", each.name)
            if match is None or (not match[2] and match[1] != str(number)):
                return f"'{each.name}' is not a file of part {number} of segment '{info.name}'"
    return None


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


_PARTS_AT_A_TIME = 4


class FileRows(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    ranges : {row group: ranges [start, stop) of its rows, None for all of them}.
    row_counts : where units are zones, the rows of each row group of the file as it was indexed.
    """

    ranges: dict[int, RowRanges | None]
    row_counts: tuple[int, ...]

    def to_candidate(self, path: str) -> Candidate:
        """Return the file as a candidate for a value that these rows may have."""
        if not self.row_counts:
            return Candidate(path, tuple(self.ranges))
        rows = [((0, self.row_counts[number]),) if some is None else some for number, some in self.ranges.items()]
        return Candidate(path, tuple(self.ranges), tuple(rows))

    def to_selection(self, stamp: bytes) -> FileSelection:
        """Return the file as one in which these rows can match; for `stamp` see `FileSelection`."""
        rows = {number: some for number, some in self.ranges.items() if some is not None}
        return FileSelection(True, True, frozenset(self.ranges), "", stamp, rows, self.row_counts)


class OpenPart:
    """A column's values of one type in a segment, opened when it is first queried. Thread-safe.

    Attributes
    ----------
    info : the part's entry in the manifest.
    hasher : hashes single literals of the part's type.
    """

    def __init__(self, folder: Folder, manifest: IndexManifest, info: ColumnPart, num_units: int):
        self.info = info
        self._folder = folder
        self._layout = manifest.layout
        self._settings = manifest.settings
        self._num_units = num_units
        self._readers: list[PartReader] | None = None
        self._cost = 0, 0  # requests and bytes of opening, until they are reported
        self._opening = threading.Lock()
        self.hasher = make_scalar_hasher(info.column_type)
        self._last = np.array([each.last for each in info.slices], np.uint64)

    @property
    def readers(self) -> list[PartReader]:
        """Readers of the part's slices.

        Raises
        ------
        BrokenIndexError, StorageError
            A file of the part is missing or damaged.
        """
        if self._readers is None:
            with self._opening:
                if self._readers is None:
                    readers = self._open_readers()
                    costs = [reader.cost for reader in readers]
                    self._cost = sum(requests for requests, _ in costs), sum(num_bytes for _, num_bytes in costs)
                    self._readers = readers
        return self._readers

    def _open_readers(self) -> list[PartReader]:
        readers: list[PartReader] = []
        try:
            for each in self.info.slices:
                path = self._folder.to_read(each.name)
                entry = self._folder.entry(each.name)
                readers.append(
                    layouts.reader(
                        self._layout,
                        self._settings,
                        self.info.column,
                        path,
                        self._folder.filesystem,
                        each,
                        self._num_units,
                        entry,
                    )
                )
        except BaseException:
            for reader in readers:
                reader.close()
            raise
        return readers

    def find(self, hashes: NDArray[np.uint64]) -> PartMatches:
        """Return the units that may hold each hash. What cannot be read is unknown, and never an error."""
        try:
            readers, (requests, bytes_read) = self.readers, self._opening_cost()
        except ParquetBloomError as error:
            none = np.empty(0, np.uint32)
            return PartMatches(none.astype(np.intp), none, dict.fromkeys(range(len(hashes)), str(error)), 0, 0)
        if len(readers) == 1:
            matches = readers[0].find(hashes)
            return replace(matches, requests=requests + matches.requests, bytes_read=bytes_read + matches.bytes_read)
        slices = np.searchsorted(self._last, hashes, "left")
        results: list[tuple[NDArray[np.intp], PartMatches]] = []
        for number in np.unique(slices).tolist():
            positions = np.flatnonzero(slices == number)
            results.append((positions, readers[number].find(hashes[positions])))
        if not results:
            return PartMatches(np.empty(0, np.intp), np.empty(0, np.uint32), {}, requests, bytes_read)
        queries = np.concatenate([positions[matches.queries] for positions, matches in results])
        units = np.concatenate([matches.units for _, matches in results])
        order = np.argsort(queries, kind="stable")
        return PartMatches(
            queries[order],
            units[order],
            {int(positions[query]): why for positions, matches in results for query, why in matches.unknown.items()},
            requests + sum(matches.requests for _, matches in results),
            bytes_read + sum(matches.bytes_read for _, matches in results),
        )

    def _opening_cost(self) -> tuple[int, int]:
        """Return the requests and bytes of opening the part, to the first caller only."""
        with self._opening:
            cost, self._cost = self._cost, (0, 0)
        return cost

    def find_one(self, h: int) -> PartMatches:
        """Return the units that may hold a single hash; see `find`."""
        readers = self._readers
        if readers is not None and len(readers) == 1 and self._cost == (0, 0):
            return readers[0].find_one(h)
        return self.find(np.array([h], np.uint64))

    def expected_false(self) -> float:
        """Return the expected number of false candidate units for an absent value."""
        readers = self.readers
        widths = [(each.last - each.first + 1) / 2**64 for each in self.info.slices]
        return sum(width * reader.expected_false() for width, reader in zip(widths, readers, strict=True))

    def close(self) -> None:
        readers, self._readers = self._readers, None
        for reader in readers or ():
            reader.close()


@contextmanager
def _opening(parts: Sequence[OpenPart]) -> Iterator[None]:
    """Open parts in the background; their errors are raised again when the parts are queried."""
    if not parts:
        yield
        return

    def begin(part: OpenPart) -> None:
        with suppress(ParquetBloomError):
            part.readers  # noqa: B018  # which opens it

    with in_order(begin, parts, min(len(parts), _PARTS_AT_A_TIME)) as opening:
        yield
        for _ in opening:
            pass


class Segment:
    """A segment of an index, with its table of files.

    Parameters
    ----------
    folder, manifest, info : the index's folder, and the segment's entry in the manifest.
    files : the table of its files, if it is in memory; else it is read.
    ahead : columns that will be queried; their parts are opened while the table is read.

    Attributes
    ----------
    info : the segment's entry in the manifest.
    files : table of its files.
    parts : parts with its values; files refer to them by position.
    present : bool for each file, False if it was removed from the index.
    is_remote : whether it is in an object store, where each read has a latency.
    """

    def __init__(
        self,
        folder: Folder,
        manifest: IndexManifest,
        info: SegmentInfo,
        files: FileTable | None = None,
        ahead: Collection[str] = (),
    ):
        self.parts = [OpenPart(folder, manifest, part, info.num_units) for part in info.parts]
        if files is None:
            with _opening([part for part in self.parts if part.info.column in ahead]):
                files = FileTable.read(folder, info.files, info.num_files, info.num_units, manifest.units)
        problem = find_contradiction(files.header, manifest, info) or files.problem_with(
            manifest.columns, [part.column for part in info.parts]
        )
        if problem is not None:
            raise BrokenIndexError(problem, path=folder.path_of(info.files))
        self.files = files
        self.is_remote = not is_local(folder.filesystem, [folder.path])
        self._units = manifest.units
        self.info = info
        self.present = np.ones(info.num_files, np.bool_)
        self.present[info.removed] = False

    def find_parts(self, column: str) -> Iterator[tuple[int, OpenPart]]:
        """Return (number, part) of the parts that hold values of a column."""
        return ((number, part) for number, part in enumerate(self.parts) if part.info.column == column)

    def find_uncovered(self, column: str, foreign: Collection[int] = ()) -> NDArray[np.int64]:
        """Return the files of which a column is not indexed, or only in `foreign` parts."""
        return np.flatnonzero(np.isin(self.files.parts(column), [NOT_COVERED, *foreign]) & self.present)

    def find_units(self, column: str, number: int) -> NDArray[np.uint32]:
        """Return all units whose values of a column are in a part."""
        counts = np.diff(self.files.first_units)
        return np.flatnonzero(np.repeat(self.files.parts(column) == number, counts)).astype(np.uint32)

    def find_file(self, unit: int) -> int:
        """Return the number of the file that a unit belongs to."""
        if len(self.files) == self.info.num_units:
            return unit
        return bisect_right(self._first_units, unit) - 1

    @cached_property
    def _first_units(self) -> list[int]:
        return self.files.first_units.tolist()

    def find_rows(self, units: Sequence[int], file: int) -> FileRows | None:
        """Return the rows of a file that some of its units are, ascending; None where units are files."""
        if self._units.granularity == FILE:
            return None
        first, row_counts = int(self.files.first_units[file]), self.row_counts(file)
        rows = self._units.find_rows([unit - first for unit in units], row_counts)
        return None if rows is None else FileRows(rows, row_counts)

    def row_counts(self, file: int) -> tuple[int, ...]:
        """Return the rows of each row group of a file where units are zones, else nothing."""
        return self.files.row_counts(file) if self._units.zone_rows else ()

    def close(self) -> None:
        for part in self.parts:
            part.close()


_SENT_AT_A_TIME = 4


@dataclass
class _Part:
    number: int
    writer: PartWriter


@dataclass
class SegmentBuilder:
    """Builds a segment; files are added one after the other.

    Parameters
    ----------
    folder : folder of the index.
    layout, settings, columns, units : the index's.
    memory_limit : approximate bytes for values; the rest is spilled to disk.

    Attributes
    ----------
    num_units : units assigned so far.
    tables : the segment's file table by its name, once it is written.
    """

    folder: Folder
    layout: str
    settings: Mapping[str, int]
    columns: Sequence[str]
    units: Units
    memory_limit: int
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    num_units: int = 0
    tables: dict[str, FileTable] = field(default_factory=dict)
    _rows: FileRowsTable = field(init=False)
    _parts: dict[Key, _Part] = field(default_factory=dict)
    _abandoned: list[int] = field(default_factory=list)
    _first_unit: int = 0
    _row_counts: Sequence[int] = ()

    def __post_init__(self) -> None:
        self._rows = FileRowsTable(self.columns, self.units)

    def has_room(self, row_counts: Sequence[int]) -> bool:
        """Return whether a file fits whose row groups have so many rows each."""
        return self.num_units + self.units.count(row_counts) <= layouts.most_units(self.layout, self.settings)

    def begin_file(self, row_counts: Sequence[int] = ()) -> None:
        """Begin the next file; its units follow those of the previous one.

        Parameters
        ----------
        row_counts : rows of each of its row groups.
        """
        self._first_unit, self._row_counts = self.num_units, row_counts

    def add(self, key: Key, row_group: int, hashes: Sequence[NDArray[np.uint64]]) -> None:
        """Add the hashes of a column in a row group of the current file.

        Parameters
        ----------
        key : that of `ColumnPart`.
        hashes : those of each zone, where units are zones; else those of the row group.
        """
        first = self._first_unit + self.units.find_first(row_group, self._row_counts)
        writer = self._part(key).writer
        for number, some in enumerate(hashes):
            writer.add(first + number, some)

    def part_number(self, key: Key) -> int:
        """Return the number of the part with such values, for the file's record."""
        return self._part(key).number

    def end_file(self, record: FileRecord) -> None:
        """Complete the current file."""
        self._rows.add(record)
        self.num_units = self._first_unit + self.units.count(record.row_counts)

    def abandon_file(self, path: str) -> None:
        """Discard the current file; the units of its values belong to no file."""
        self._abandoned.append(len(self._rows))
        self.end_file(FileRecord(path, -1, b"", 0, 0, self._row_counts, False))

    def finish(self) -> SegmentInfo | None:
        """Write the segment's files and return its info; None if it is empty."""
        if len(self._abandoned) == len(self._rows):
            self.close()
            return None

        def finish_part(part: tuple[Key, _Part]) -> ColumnPart:
            return ColumnPart(*part[0], (part[1].writer.finish(self.num_units),))

        if is_local(self.folder.filesystem, [self.folder.path]):
            info = self.with_parts(list(map(finish_part, self._parts.items())))
        else:  # uploads are bound by latency: the table is written while the parts still are
            names = [part_name(self.name, part.number, self.layout) for part in self._parts.values()]
            with in_order(finish_part, self._parts.items(), _SENT_AT_A_TIME) as parts:
                table = self._write_table(zip(self._parts, ([name] for name in names), strict=True))
                info = self._make_info(table, parts)
        self.close()
        return info

    def with_parts(self, parts: Sequence[ColumnPart]) -> SegmentInfo:
        """Write the file table of a segment whose parts are written, and return the segment's info."""
        table = self._write_table((part.key, [each.name for each in part.slices]) for part in parts)
        return self._make_info(table, parts)

    def _write_table(self, parts: Iterable[tuple[Key, Sequence[str]]]) -> FileTable:
        header = make_header(self.layout, self.settings, self.units, parts)
        table = self._rows.table().with_header(header)
        table.write(self.folder, self._table_name)
        self.tables[self._table_name] = table
        return table

    def _make_info(self, table: FileTable, parts: Iterable[ColumnPart]) -> SegmentInfo:
        removed = np.array(self._abandoned, np.int64)
        return SegmentInfo(self.name, self._table_name, len(table), self.num_units, tuple(parts), removed)

    @property
    def _table_name(self) -> str:
        return f"{self.name}.files"

    def close(self) -> None:
        """Free memory and temporary files."""
        for part in self._parts.values():
            part.writer.close()

    def _part(self, key: Key) -> _Part:
        if key not in self._parts:
            number = len(self._parts)
            if number > np.iinfo(np.int16).max:
                raise ParquetBloomError("the columns have too many types", path=self.folder.path, column=key[0])
            name = part_name(self.name, number, self.layout)
            # A column has one type in most lakes; where it has more, they share its memory.
            limit = self.memory_limit // max(len(self.columns), number + 1)
            path, filesystem = self.folder.path_of(name), self.folder.filesystem
            writer = layouts.writer(self.layout, self.settings, key[0], path, filesystem, limit)
            self._parts[key] = _Part(number, writer)
        return self._parts[key]


def part_name(segment: str, number: int, layout: str, slice_number: int | None = None) -> str:
    """Return the name of a part's file in the index's folder."""
    middle = "" if slice_number is None else f"-{slice_number:05d}"
    return f"{segment}-{number}{middle}.{layout}"
