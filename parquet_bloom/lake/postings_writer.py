"""Write parts of postings: sorted keys are packed into blocks, and long lists of units are stored separately."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from ..core.hash.xxh64 import hash_one
from ..core.index.postings import Layout, hot_runs, pack
from ..errors import BrokenIndexError, ParquetBloomError
from ..storage.spill import SpillFile, SpillRun
from .index_part import PartInfo, PartWriter, SectionWriter
from .sorted_runs import SortedRuns

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_SUM_BYTES = 4


def pack_units(units: NDArray[np.uint32]) -> bytes:
    """Serialize a list of distinct units."""
    bitmap = BitMap(array("I", np.ascontiguousarray(units, np.uint32).tobytes()))
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data + _checksum(data)


def unpack_units(data: bytes, num_units: int) -> NDArray[np.uint32]:
    """Deserialize a list of units, ascending.

    Raises
    ------
    BrokenIndexError
        It is damaged, or contains a unit out of range.
    """
    bitmap_bytes = data[:-_SUM_BYTES]
    if len(data) < _SUM_BYTES or data[-_SUM_BYTES:] != _checksum(bitmap_bytes):
        raise BrokenIndexError("a list of units does not fit its checksum")
    try:
        # BitMap.deserialize is bounds-checked and validates its result.
        bitmap = BitMap.deserialize(bitmap_bytes)
        if len(bitmap) and bitmap.max() >= num_units:
            raise BrokenIndexError(f"a list of units names unit {bitmap.max()}, there are {num_units}")
    except (ValueError, IndexError) as error:
        if isinstance(error, BrokenIndexError):
            raise
        raise BrokenIndexError(f"a list of units cannot be understood: {error}") from error
    return np.frombuffer(bitmap.to_array(), np.uint32)


def _checksum(data: bytes) -> bytes:
    return int(hash_one(data)).to_bytes(8, "little")[:_SUM_BYTES]


KIND = "postings"
LAST_HASH = 2**64 - 1
MEMORY_LIMIT = 256 << 20

_ENTRIES_A_BUCKET = (
    17  # at most, on average, and half as many at least: less costs counts, more costs bits of remainders
)
_BLOCK_BITS = 8
_MOST_ENTRY_BITS = 56
_BLOCKS_AT_ONCE = 1024
_PIECE = 1 << 16  # keys processed at once
_LISTS_IN_MEMORY = 1 << 20  # bytes
_LEAST_FREQUENT = 512  # a value in no more units is listed, whatever their number: the list takes 64 bytes at most


@dataclass(frozen=True)
class PartShape:
    """The form of a part of postings.

    Attributes
    ----------
    prefix_bits : bits kept of a hash, 1 to 40.
    num_units : number of units.
    first, last : range of the hashes that the part covers, both included.
    num_entries : approximate number of keys, which determines the size of blocks only.
    listed_share : units are listed of a value that is in one of so many of them at most; a list of all stands for a
        longer one, so that a frequent value is in every unit, as far as the part tells. 0 to list all as they are.
    """

    prefix_bits: int
    num_units: int
    first: int = 0
    last: int = LAST_HASH
    num_entries: int = 0
    listed_share: int = 0

    def choose_layout(self) -> Layout:
        """Return the layout of such a part, whose hashes are evenly distributed in their range.

        Raises
        ------
        ParquetBloomError
            There are more units than keys have room for.
        """
        prefix_bits, num_units, first, last = self.prefix_bits, self.num_units, self.first, self.last
        if not 1 <= prefix_bits <= 40:
            raise ParquetBloomError(f"postings keep 1 to 40 bits of a hash, not {prefix_bits}")
        if not 0 <= num_units <= most_units(prefix_bits):
            raise ParquetBloomError(
                f"there are {num_units} units; with {prefix_bits} bits of a hash a part has room for "
                f"{most_units(prefix_bits)}"
            )
        if not 0 <= first <= last <= LAST_HASH:
            raise ParquetBloomError(f"there are no hashes from {first} to {last}")
        id_bits = max(1, num_units.bit_length())
        entries_everywhere = self.num_entries * 2**64 / (last - first + 1)
        needed_bits = math.ceil(math.log2(max(1.0, entries_everywhere / _ENTRIES_A_BUCKET)))
        bucket_bits = min(prefix_bits, max(needed_bits, prefix_bits + id_bits - _MOST_ENTRY_BITS))
        return Layout(prefix_bits, bucket_bits, min(_BLOCK_BITS, bucket_bits), id_bits)


def most_units(prefix_bits: int) -> int:
    """Return the largest number of units of a part: their numbers are in the low bits of a key, and are uint32."""
    return int(min(2 ** (64 - prefix_bits), 2**32 - 1))


class _HotLists:
    """Lists of units, buffered until the blocks are written; spilled to disk if they are large."""

    def __init__(self, folder: str | os.PathLike[str] | None):
        self._folder = folder
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._runs: list[SpillRun] = []
        self._scratch: SpillFile | None = None
        self._num_bytes = 0

    def put(self, units: NDArray[np.uint64]) -> tuple[int, int]:
        """Add a list; return its offset in the section, and its length."""
        data = pack_units(units.astype(np.uint32))
        location = self._num_bytes, len(data)
        self._num_bytes += len(data)
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting > _LISTS_IN_MEMORY:
            if self._scratch is None:
                self._scratch = SpillFile(self._folder)
            self._runs.append(self._scratch.put([np.frombuffer(b"".join(self._pieces), np.uint8)]))
            self._pieces, self._waiting = [], 0
        return location

    def put_all(self) -> tuple[int, int]:
        """Say where a list of all units is, which takes no bytes."""
        return self._num_bytes, 0

    def write(self, file: SectionWriter) -> None:
        for run in self._runs:
            assert self._scratch is not None
            for first in range(0, run.count, _LISTS_IN_MEMORY):
                file.write(self._scratch.get(run, first, min(_LISTS_IN_MEMORY, run.count - first)))
        for data in self._pieces:
            file.write(data)

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()


class _Blocks:
    """Writes the blocks of a part from sorted keys."""

    def __init__(self, file: SectionWriter, layout: Layout, shape: PartShape, lists: _HotLists):
        self._file = file
        self._layout = layout
        self._unit_mask = np.uint64(2 ** (64 - layout.prefix_bits) - 1)
        self._num_units = shape.num_units
        self._most_listed = shape.num_units
        if shape.listed_share:
            self._most_listed = max(_LEAST_FREQUENT, shape.num_units // shape.listed_share)
        self._first_key = shape.first >> (64 - layout.prefix_bits) << (64 - layout.prefix_bits)
        self._last_key = shape.last | int(self._unit_mask)
        self._lists = lists
        self._next = layout.block_number(shape.first)
        self._end = layout.block_number(shape.last) + 1
        self._pending: list[NDArray[np.uint64]] = []  # of the block that the last key is in
        self._starts: list[NDArray[np.int64]] = []
        self.num_bytes = self.num_entries = self.largest = 0

    def add(self, keys: NDArray[np.uint64]) -> None:
        for start in range(0, len(keys), _PIECE):
            piece = keys[start : start + _PIECE]
            if int(piece[0]) < self._first_key or int(piece[-1]) > self._last_key:
                raise ValueError("there are keys outside of the range of hashes that the part covers")
            if int((piece & self._unit_mask).max()) >= self._num_units:
                raise ValueError(f"a key names a unit that is not among the {self._num_units}")
            block = self._layout.block_number(int(piece[-1]))
            if block > self._next:
                cut = int(np.searchsorted(piece, np.uint64(self._layout.first_key(block))))
                self._pack_until(block, piece[:cut])
                piece = piece[cut:]
            self._pending.append(piece.copy())

    def end(self) -> NDArray[np.int64]:
        """Write the remaining blocks; return the offsets of all blocks, and the end of the last one."""
        self._pack_until(self._end, np.empty(0, np.uint64))
        return np.concatenate([*self._starts, np.array([self.num_bytes], np.int64)])

    def _pack_until(self, end: int, more: NDArray[np.uint64]) -> None:
        """Write the blocks before `end`, from the pending keys and `more`."""
        keys = np.concatenate([*self._pending, more])
        self._pending = []
        first = 0
        while self._next < end:
            until = min(end, self._next + _BLOCKS_AT_ONCE)
            bound = self._layout.first_key(until)
            last = len(keys) if bound > LAST_HASH else int(np.searchsorted(keys, np.uint64(bound)))
            self._pack(keys[first:last], until - self._next)
            first, self._next = last, until
        if first < len(keys):
            raise ValueError("the keys are not sorted")

    def _pack(self, keys: NDArray[np.uint64], num_blocks: int) -> None:
        hot_first, hot_length = hot_runs(self._layout, keys)
        hot = zip(hot_first.tolist(), hot_length.tolist(), strict=True)
        lists = []
        for start, length in hot:
            if length > self._most_listed:
                lists.append(self._lists.put_all())
                self.num_entries += self._num_units - length
            else:
                lists.append(self._lists.put(keys[start : start + length] & self._unit_mask))
        list_locations = np.array(lists, np.uint64).reshape(-1, 2)
        data, starts = pack(self._layout, keys, self._next, num_blocks, hot_first, hot_length, list_locations)
        self._file.write(data)
        self._starts.append(starts + self.num_bytes)
        self.largest = max(self.largest, int(np.diff(starts, append=len(data)).max()))
        self.num_bytes += len(data)
        self.num_entries += len(keys)


def write_sorted(
    path: str,
    filesystem: FileSystem | None,
    keys: Iterable[NDArray[np.uint64]],
    shape: PartShape,
    scratch_folder: str | os.PathLike[str] | None = None,
) -> PartInfo:
    """Write a part from keys: the top `prefix_bits` bits of a hash, followed by the unit's number.

    Parameters
    ----------
    path, filesystem : the part's file.
    keys : chunks of keys, sorted within and across chunks, without duplicates.
    scratch_folder : see `SpillFile`; used if there are many long lists of units.

    Raises
    ------
    ParquetBloomError
        There are more units than keys have room for.
    StorageError
        It cannot be written.
    ValueError
        Keys are not sorted, or have a unit or hash out of range.
    """
    try:
        layout = shape.choose_layout()
    except ParquetBloomError as error:
        error.path = path
        raise
    lists = _HotLists(scratch_folder)
    try:
        with SectionWriter(path, filesystem) as file:
            blocks = _Blocks(file, layout, shape, lists)
            file.begin("blocks")
            for chunk in keys:
                blocks.add(np.ascontiguousarray(chunk, np.uint64))
            directory = blocks.end()
            file.begin("hot")
            lists.write(file)
            file.add("directory", directory.view(np.uint8))
            bits = [layout.prefix_bits, layout.bucket_bits, layout.block_bits, layout.id_bits]
            covered = {"units": shape.num_units, "first": shape.first, "last": shape.last}
            meta = {"bits": bits, **covered, "entries": blocks.num_entries, "largest_block": blocks.largest}
            num_bytes = file.finish(KIND, meta)
    finally:
        lists.close()
    return PartInfo(path.rstrip("/").rpartition("/")[2], num_bytes, blocks.num_entries, shape.first, shape.last)


class PostingsWriter(PartWriter):
    """Writes a part of postings.

    Parameters
    ----------
    path, filesystem : the part's file.
    prefix_bits : bits kept of a hash, 1 to 40.
    memory_limit : bytes for keys; a few MiB more are needed.
    scratch_folder : folder of the spill file, see `SpillFile`.
    listed_share : see `PartShape`.
    """

    def __init__(
        self,
        path: str,
        filesystem: FileSystem | None,
        prefix_bits: int,
        memory_limit: int = MEMORY_LIMIT,
        scratch_folder: str | os.PathLike[str] | None = None,
        listed_share: int = 0,
    ):
        PartShape(prefix_bits, 0).choose_layout()  # raises for invalid arguments before any work
        self._path, self._filesystem, self._prefix_bits, self._folder = path, filesystem, prefix_bits, scratch_folder
        self._mask = np.uint64(2**64 - 2 ** (64 - prefix_bits))
        self._listed_share = listed_share
        self._runs = SortedRuns(memory_limit, scratch_folder)
        self._num_units = 0

    def add(self, unit: int, hashes: NDArray[np.uint64]) -> None:
        if not 0 <= unit < most_units(self._prefix_bits):
            problem = f"unit {unit}: with {self._prefix_bits} bits of a hash there are {most_units(self._prefix_bits)}"
            raise ParquetBloomError(problem, path=self._path)
        self._num_units = max(self._num_units, unit + 1)
        for start in range(0, len(hashes), _PIECE):
            keys = hashes[start : start + _PIECE] & self._mask
            keys |= np.uint64(unit)
            self._runs.add(keys)

    def finish(self, num_units: int) -> PartInfo:
        if num_units < self._num_units:
            raise ValueError(f"there are values of unit {self._num_units - 1}, but {num_units} units")
        keys = self._runs.sort()
        try:
            num_entries, listed_share = self._runs.num_keys, self._listed_share
            shape = PartShape(self._prefix_bits, num_units, num_entries=num_entries, listed_share=listed_share)
            return write_sorted(self._path, self._filesystem, keys, shape, self._folder)
        finally:
            self.close()

    def close(self) -> None:
        self._runs.close()
