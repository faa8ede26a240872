"""Write parts of the layout "cuckoo"."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.index.cuckoo import Group, Layout
from ..core.index.cuckoo_rows import pack
from ..errors import BrokenIndexError
from ..storage.spill import SpillFile, SpillRun
from .cuckoo_reader import KIND, ROWS, SLOTS
from .index_part import PartInfo, PartWriter, SectionWriter

if TYPE_CHECKING:
    from ..util.given_types import FileSystem
    from .cuckoo_reader import CuckooReader


MEMORY_LIMIT = 256 << 20

_PIECE_BYTES = 4 << 20  # of rows in the making; less where memory is short


class CuckooWriter(PartWriter):
    """Writes a part of aligned cuckoo filters, one per unit.

    Units are built one after the other; when their filters reach the memory limit, they are turned into pieces of
    rows and spilled to disk, and at the end each row is assembled from its pieces.

    Parameters
    ----------
    path, filesystem : the part's file.
    num_buckets : buckets of every unit's filter; `sizing.advise` finds a good number.
    fingerprint_bits : 8, 12, 16 or 24.
    memory_limit : approximate bytes; one unit's filter, and three times one row of all units, have to fit in any case.
    scratch : folder of the spill file; None for the system's temporary folder.
    """

    def __init__(
        self,
        path: str,
        filesystem: FileSystem | None = None,
        *,
        num_buckets: int,
        fingerprint_bits: int = 16,
        memory_limit: int = MEMORY_LIMIT,
        scratch: str | os.PathLike[str] | None = None,
    ):
        self._layout = Layout(num_buckets, fingerprint_bits)
        self._path, self._filesystem, self._folder = path, filesystem, scratch
        self._group = Group(self._layout)
        self._most_bytes = memory_limit // 2
        self._piece_bytes = max(1, min(_PIECE_BYTES, memory_limit // 8))
        self._unit = -1
        self._slots: list[NDArray[np.uint32]] = []
        self._slots_here: list[tuple[int, int]] = []  # of units since the last array of them
        self._scratch: SpillFile | None = None
        self._spilled: list[_Spilled] = []
        self._num_entries = 0

    def add(self, unit: int, hashes: NDArray[np.uint64]) -> None:
        if unit < self._unit or unit < 0:
            raise ValueError(f"unit {unit} comes after unit {self._unit}")
        if unit > self._unit:
            self._end_unit()
            self._unit = unit
        self._group.add(np.ascontiguousarray(hashes, np.uint64))

    def finish(self, num_units: int) -> PartInfo:
        if num_units <= self._unit:
            raise ValueError(f"there are {num_units} units, and unit {self._unit} is one of them")
        self._end_unit()
        self._pack_slots()
        slots = np.concatenate([*self._slots, np.zeros(num_units, np.uint32)])[:num_units]
        self._num_entries += self._group.num_entries
        return write_part(
            self._path, self._filesystem, self._layout, slots, self._rows(), num_entries=self._num_entries
        )

    def close(self) -> None:
        self._group = Group(Layout(1, 8))
        self._spilled = []
        if self._scratch is not None:
            self._scratch.close()

    def _end_unit(self) -> None:
        slots = self._group.close_unit()
        if self._unit >= 0:
            self._slots_here.append((self._unit, slots))
        if len(self._slots_here) >= 1 << 14:
            self._pack_slots()
        if self._group.done_bytes > self._most_bytes:
            self._spill()

    def _pack_slots(self) -> None:
        """Convert slot counts to an array, which takes much less memory than a list."""
        if not self._slots_here:
            return
        start = sum(map(len, self._slots))
        units, slots = np.array(self._slots_here, np.int64).T
        array = np.zeros(int(units[-1]) + 1 - start, np.uint32)
        array[units - start] = slots
        self._slots.append(array)
        self._slots_here = []

    def _spill(self) -> None:
        """Write the rows of the units in memory to disk."""
        if self._scratch is None:
            self._scratch = SpillFile(self._folder)
        width = self._group.num_slots * self._layout.dtype.itemsize
        step = max(1, self._piece_bytes // max(1, width))
        self._spilled.append(_Spilled(self._scratch, self._group.num_slots, step))
        for first in range(0, self._layout.num_buckets, step):
            rows = self._group.rows(first, min(step, self._layout.num_buckets - first))
            self._spilled[-1].runs.append(self._scratch.put([rows.reshape(-1)]))
        self._num_entries += self._group.num_entries
        self._group.clear()

    def _rows(self) -> Iterator[NDArray[np.unsignedinteger]]:
        """Yield all rows, some at a time."""
        width = self._group.num_slots + sum(spilled.num_slots for spilled in self._spilled)
        step = max(1, self._piece_bytes // max(1, width * self._layout.dtype.itemsize))
        for first in range(0, self._layout.num_buckets, step):
            count = min(step, self._layout.num_buckets - first)
            pieces = [spilled.rows(first, count) for spilled in self._spilled]
            pieces.append(self._group.rows(first, count))
            yield np.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]


class _Spilled:
    """Rows of some units on disk."""

    def __init__(self, scratch: SpillFile, num_slots: int, step: int):
        self._scratch = scratch
        self.num_slots = num_slots
        self._step = step  # rows in a run
        self.runs: list[SpillRun] = []

    def rows(self, first: int, count: int) -> NDArray[np.unsignedinteger]:
        pieces = []
        while count:
            run, inside = self.runs[first // self._step], first % self._step
            taken = min(count, self._step - inside)
            pieces.append(self._scratch.get(run, inside * self.num_slots, taken * self.num_slots))
            first, count = first + taken, count - taken
        return np.concatenate(pieces).reshape(-1, self.num_slots)


def write_part(
    path: str,
    filesystem: FileSystem | None,
    layout: Layout,
    slots: NDArray[np.uint32],
    rows: Iterable[NDArray[np.unsignedinteger]],
    *,
    num_entries: int | None,
) -> PartInfo:
    """Write a part's file.

    Parameters
    ----------
    slots : slots per bucket of each unit.
    rows : all rows in order, some at a time.
    num_entries : number of fingerprints; None to count them.
    """
    first = counted = 0
    with SectionWriter(path, filesystem) as out:
        out.begin(ROWS)
        for some in rows:
            if num_entries is None:
                counted += int(np.count_nonzero(some))
            out.write(pack(layout, some, first))
            first += len(some)
        num_entries = counted if num_entries is None else num_entries
        kept = slots.astype(_smallest(int(slots.max(initial=0))))
        out.add(SLOTS, kept.view(np.uint8))
        meta = {
            "num_buckets": layout.num_buckets,
            "fingerprint_bits": layout.fingerprint_bits,
            "num_units": len(slots),
            "num_slots": int(slots.sum(dtype=np.int64)),
            "slot_bytes": kept.dtype.itemsize,
            "num_entries": num_entries,
        }
        num_bytes = out.finish(KIND, meta)
    return PartInfo(posixpath.basename(path), num_bytes, num_entries)


def _smallest(most: int) -> type[np.unsignedinteger]:
    return np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32


def merge(
    parts: Sequence[tuple[CuckooReader, NDArray[np.int64]]],
    path: str,
    filesystem: FileSystem | None = None,
    *,
    num_units: int,
    memory_limit: int = MEMORY_LIMIT,
) -> PartInfo:
    """Merge parts into one, without removed units; this needs no hashes.

    Parameters
    ----------
    parts : parts, each with the new numbers of its units, -1 for removed ones. Units with the same new number are
        combined.
    path, filesystem : the new part's file.
    num_units : number of units of the new part.
    memory_limit : approximate bytes; four times one row of all parts has to fit in any case.

    Raises
    ------
    BrokenIndexError
        A part is damaged.
    ValueError
        There is no part, or they do not have the same number of buckets and the same fingerprints.
    """
    layouts = {(reader.layout.num_buckets, reader.layout.fingerprint_bits) for reader, _ in parts}
    if len(layouts) != 1:
        raise ValueError("parts of the same number of buckets and the same fingerprints can be merged")
    layout = parts[0][0].layout
    for reader, remap in parts:
        if len(remap) != reader.num_units or (len(remap) and int(np.max(remap)) >= num_units):
            raise ValueError(f"{reader.path}: its units need a new number each, below {num_units}")
    # Runs of slots that are neighbours in the old part and in the new one are copied as one.
    news = np.concatenate([remap for _, remap in parts])
    slots = np.concatenate([reader.slots for reader, _ in parts]).astype(np.int64)
    from_part = np.repeat(np.arange(len(parts)), [reader.num_units for reader, _ in parts])
    positions = np.concatenate([reader.first_slots[:-1] for reader, _ in parts]).astype(np.int64)
    used = (news >= 0) & (slots > 0)
    news, slots, from_part, positions = (array[used] for array in (news, slots, from_part, positions))
    order = np.argsort(news, kind="stable")
    news, slots, from_part, positions = (array[order] for array in (news, slots, from_part, positions))
    new_slots = np.bincount(news, slots, minlength=num_units).astype(np.int64)
    if new_slots.max(initial=0) >= 1 << 32:
        raise ValueError("a unit has too many slots")
    total = int(slots.sum())

    def rows() -> Iterator[NDArray[np.unsignedinteger]]:
        widest = total + sum(int(reader.first_slots[-1]) for reader, _ in parts)
        step = max(1, min(_PIECE_BYTES, memory_limit // 4) // max(1, 2 * widest * layout.dtype.itemsize))
        # the position of each new slot in the concatenated slots of all parts
        bases = np.concatenate([[0], np.cumsum([int(reader.first_slots[-1]) for reader, _ in parts])])
        breaks = np.ones(len(news), np.bool_)
        starts = bases[from_part] + positions
        breaks[1:] = starts[1:] != starts[:-1] + slots[:-1]
        heads = np.flatnonzero(breaks)
        lengths = np.add.reduceat(slots, heads) if len(heads) else np.empty(0, np.int64)
        begins = starts[heads]
        piecewise = len(heads) * 64 < total
        chosen = (
            None
            if piecewise
            else np.repeat(begins - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(total)
        )
        for first in range(0, layout.num_buckets, step):
            count = min(step, layout.num_buckets - first)
            old = np.concatenate([_read_valid_rows(reader, first, count) for reader, _ in parts], axis=1)
            if chosen is not None:
                yield np.take(old, chosen, axis=1)
                continue
            new = np.empty((count, total), layout.dtype)
            position = 0
            for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
                new[:, position : position + length] = old[:, begin : begin + length]
                position += length
            yield new

    return write_part(path, filesystem, layout, new_slots.astype(np.uint32), rows(), num_entries=None)


def _read_valid_rows(reader: CuckooReader, first: int, count: int) -> NDArray[np.unsignedinteger]:
    rows, damaged = reader.read_rows(first, count)
    if damaged.any():
        raise BrokenIndexError(f"row {first + int(damaged.argmax())} does not fit its checksum", path=reader.path)
    return rows
