"""A segment in the making: files come with their hashes, and at the end everything but the manifest is written."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...storage import Folder, is_local
from ...util.threads import in_order
from ..files.table import FileRecord, FileRows, FileTable
from ..manifest import ColumnPart, Key, SegmentInfo
from ..parts import layouts
from ..parts.part import PartWriter

_SENT_AT_A_TIME = 4


@dataclass
class _Part:
    number: int
    writer: PartWriter


@dataclass
class SegmentBuilder:
    """Takes files one after the other.

    Parameters
    ----------
    folder : of the index.
    layout, settings, columns, granularity : the index's.
    memory_limit : bytes for values, about; the rest waits on disk.

    Attributes
    ----------
    num_units : given out so far.
    tables : the table of the segment's files by its name, once that is written.
    """

    folder: Folder
    layout: str
    settings: Mapping[str, Any]
    columns: Sequence[str]
    granularity: str
    memory_limit: int
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    num_units: int = 0
    tables: dict[str, FileTable] = field(default_factory=dict)
    _rows: FileRows = field(init=False)
    _parts: dict[Key, _Part] = field(default_factory=dict)
    _abandoned: list[int] = field(default_factory=list)
    _first_unit: int = 0

    def __post_init__(self) -> None:
        self._rows = FileRows(self.columns)

    def has_room(self, row_groups: int) -> bool:
        """Whether a file of so many row groups fits."""
        return self.num_units + self.units_of(row_groups) <= layouts.most_units(self.layout, self.settings)

    def begin_file(self) -> None:
        """Begin the next file; its units follow those of the one before."""
        self._first_unit = self.num_units

    def add(self, key: Key, row_group: int, hashes: NDArray[np.uint64]) -> None:
        """Hashes of a column in a row group of the file that was begun; the key is (column, type, holds, meaning)."""
        unit = self._first_unit + (row_group if self.granularity == "row_group" else 0)
        self._part(key).writer.add(unit, hashes)

    def part_number(self, key: Key) -> int:
        """Where the values of such a column are found, for the file's record."""
        return self._part(key).number

    def end_file(self, record: FileRecord) -> None:
        """The file that was begun is complete."""
        self._rows.add(record)
        self.num_units = self._first_unit + record.num_units

    def abandon_file(self, path: str, row_groups: int) -> None:
        """The file that was begun will not be indexed; what came of it belongs to nobody."""
        self._abandoned.append(len(self._rows))
        self.end_file(FileRecord(path, -1, b"", 0, 0, self.units_of(row_groups), False))

    def units_of(self, row_groups: int) -> int:
        """How many units a file of so many row groups has."""
        return max(1, row_groups) if self.granularity == "row_group" else 1

    def finish(self) -> SegmentInfo | None:
        """Write the segment's files; None if nothing is in it."""
        if len(self._abandoned) == len(self._rows):
            self.close()
            return None

        def finished(part: tuple[Key, _Part]) -> ColumnPart:
            return ColumnPart(*part[0], (part[1].writer.finish(self.num_units),))

        if is_local(self.folder.filesystem, [self.folder.path]):
            made = self.with_parts(list(map(finished, self._parts.items())))
        else:  # sending is mostly waiting
            with in_order(finished, self._parts.items(), _SENT_AT_A_TIME) as parts:
                made = self.with_parts(parts)
        self.close()
        return made

    def with_parts(self, parts: Iterable[ColumnPart]) -> SegmentInfo:
        """The segment whose parts have been written, or are being; only the table of its files is left to be."""
        files = f"{self.name}.files"
        table = self._rows.table()
        table.write(self.folder, files)
        self.tables[files] = table
        removed = np.array(self._abandoned, np.int64)
        return SegmentInfo(self.name, files, len(table), self.num_units, tuple(parts), removed)

    def close(self) -> None:
        """Let go of memory and temporary files."""
        for part in self._parts.values():
            part.writer.close()

    def _part(self, key: Key) -> _Part:
        if key not in self._parts:
            number = len(self._parts)
            if number > np.iinfo(np.int16).max:
                raise ParquetBloomError("the columns have too many types", path=self.folder.path, column=key[0])
            name = part_name(self.name, number, self.layout)
            # A column has one type in most lakes; where it has several, what is set aside for it is shared out.
            limit = self.memory_limit // max(len(self.columns), number + 1)
            writer = layouts.writer(
                self.layout, self.settings, self.folder.path_of(name), self.folder.filesystem, limit
            )
            self._parts[key] = _Part(number, writer)
        return self._parts[key]


def part_name(segment: str, number: int, layout: str, slice_number: int | None = None) -> str:
    """The name of a part's file in the index's folder."""
    middle = "" if slice_number is None else f"-{slice_number:05d}"
    return f"{segment}-{number}{middle}.{layout}"
