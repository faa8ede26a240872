"""Build a segment from files and their hashes, and write everything but the manifest."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..storage import is_local
from ..storage.index_folder import Folder
from ..util.threads import in_order
from . import layouts
from .file_table import FileRecord, FileRowsTable, FileTable
from .index_manifest import ColumnPart, Key, SegmentInfo
from .index_part import PartWriter
from .segment import make_header
from .units import Units

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
    settings: Mapping[str, Any]
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
            writer = layouts.writer(
                self.layout, self.settings, self.folder.path_of(name), self.folder.filesystem, limit
            )
            self._parts[key] = _Part(number, writer)
        return self._parts[key]


def part_name(segment: str, number: int, layout: str, slice_number: int | None = None) -> str:
    """Return the name of a part's file in the index's folder."""
    middle = "" if slice_number is None else f"-{slice_number:05d}"
    return f"{segment}-{number}{middle}.{layout}"
