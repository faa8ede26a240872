"""Read postings: the (hash, unit) pairs of a part, sorted by hash, in blocks of one small read each.

A part's file has the sections `blocks` (see `core.index.postings`), `hot` (lists of units of frequent values, see
`bitmaps`) and `directory` (the offset of each block, and the end of the last one, uint64).
"""

from __future__ import annotations

import math
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.index.postings import REASONS, Layout, find, find_one, unpack
from ..errors import BrokenIndexError, ParquetBloomError
from ..storage import Entry
from . import json_checks as strict
from .index_part import END_BYTES, PartInfo, PartMatches, PartReader, Sections
from .postings_writer import KIND, LAST_HASH, MEMORY_LIMIT, PartShape, unpack_units, write_sorted
from .sorted_runs import sort_once

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

_NO_QUERIES = np.empty(0, np.intp)
_NO_UNITS = np.empty(0, np.uint32)


class LookupBatch:
    """The sorted hashes of one lookup, and their matches so far."""

    def __init__(self, order: NDArray[np.intp], hashes: NDArray[np.uint64]):
        self.hashes = hashes
        self._order = order
        self._unknown: dict[int, str] = {}
        self._queries: list[NDArray[np.intp]] = []
        self._units: list[NDArray[np.uint32]] = []
        self._lists: list[tuple[int, int, int]] = []

    def mark_unknown(self, first: int, end: int, reason: str) -> None:
        """Mark a range of hashes as unknown."""
        self.mark_all_unknown(range(first, end), reason)

    def mark_all_unknown(self, queries: range | list[int], reason: str) -> None:
        for query in queries:
            self._unknown[int(self._order[query])] = reason

    def add_matches(
        self, first: int, queries: NDArray[np.intp], units: NDArray[np.uint32], *lists: NDArray[np.int64]
    ) -> None:
        """Add matches of `core.index.postings.find`, which numbers hashes from `first`."""
        self._queries.append(queries + first)
        self._units.append(units)
        for query, offset, length in zip(*(column.tolist() for column in lists), strict=True):
            self._lists.append((query + first, offset, length))

    def lists(self) -> list[tuple[int, int, int]]:
        """Return (hash, offset, length) of the lists of units to read."""
        return self._lists

    def add_list(self, queries: list[int], units: NDArray[np.uint32]) -> None:
        for query in queries:
            self._queries.append(np.full(len(units), query, np.intp))
            self._units.append(units)

    def make_matches(self, requests: int, bytes_read: int) -> PartMatches:
        if not self._queries:
            return PartMatches(_NO_QUERIES, _NO_UNITS, self._unknown, requests, bytes_read)
        queries, units = self._order[np.concatenate(self._queries)], np.concatenate(self._units)
        by_query = np.argsort(queries, kind="stable")
        return PartMatches(queries[by_query], units[by_query], self._unknown, requests, bytes_read)


MOST_BYTES = 8 << 20
"""A directory up to this size is kept in memory."""

_PAGE = 512  # blocks
_PAGES = 256
_OFFSET = struct.Struct("<q")
_TWO = struct.Struct("<qq")


class BlockDirectory:
    """Offsets of a part's blocks, and the end of the last one.

    Ranges are validated: they lie in the section of blocks, and are no longer than the largest block.

    Parameters
    ----------
    sections : the part's file.
    num_blocks : number of blocks.
    largest : length of the largest block.
    most_bytes : size up to which the directory is kept in memory.

    Raises
    ------
    BrokenIndexError
        There is no such directory, or it is damaged.
    StorageError
        It cannot be read.
    """

    def __init__(self, sections: Sections, num_blocks: int, largest: int, most_bytes: int = MOST_BYTES):
        self.num_blocks = num_blocks
        self._source = sections.source
        self._section = sections.section("directory")
        self._num_bytes = sections.section("blocks").length
        self._largest = largest
        if self._section.length != 8 * (num_blocks + 1):
            problem = f"its directory has {self._section.length} bytes, {num_blocks} blocks need {8 * (num_blocks + 1)}"
            raise BrokenIndexError(problem, path=self._source.name)
        self._data = sections.read("directory") if self._section.length <= most_bytes else None
        self._offsets = None if self._data is None else np.frombuffer(self._data, np.int64)
        self._pages: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, block: int) -> tuple[int, int]:
        """Return the start and the end of a block.

        Raises
        ------
        BrokenIndexError, StorageError, TruncatedFileError
            The directory cannot be read, or is damaged there.
        """
        if self._data is not None:
            start, end = _TWO.unpack_from(self._data, 8 * block)
        else:
            start, end = _TWO.unpack_from(self._page(block // _PAGE), 8 * (block % _PAGE))
        if not (0 <= start <= end <= self._num_bytes and end - start <= self._largest):
            raise self.make_error(block)
        return start, end

    def find_many(self, blocks: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the starts and ends of blocks, and which of them are invalid; see `find`."""
        if self._offsets is not None:
            starts, ends = self._offsets[blocks], self._offsets[blocks + 1]
        else:
            offsets = self._section.offset + 8 * blocks
            data = self._source.gather(offsets, np.full(len(blocks), _TWO.size, np.int64))
            starts, ends = data.view(np.int64).reshape(-1, 2).T
        return starts, ends, self._find_invalid(starts, ends)

    def neighbours(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the starts and ends of consecutive blocks, and which of them are invalid."""
        if self._offsets is not None:
            offsets = self._offsets[first : first + count + 1]
        else:
            data = self._source.read_at(self._section.offset + 8 * first, 8 * (count + 1))
            offsets = np.frombuffer(data, np.int64)
        return offsets[:-1], offsets[1:], self._find_invalid(offsets[:-1], offsets[1:])

    def _find_invalid(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (starts < 0) | (ends < starts) | (ends > self._num_bytes) | (ends - starts > self._largest)

    def make_error(self, block: int) -> BrokenIndexError:
        return BrokenIndexError(f"its directory is damaged at block {block}", path=self._source.name)

    def _page(self, number: int) -> bytes:
        with self._lock:
            page = self._pages.get(number)
            if page is not None:
                self._pages.move_to_end(number)
                return page
        start = number * _PAGE * _OFFSET.size
        length = min((_PAGE + 1) * _OFFSET.size, self._section.length - start)
        page = self._source.read_at(self._section.offset + start, length)
        with self._lock:
            self._pages[number] = page
            while len(self._pages) > _PAGES:
                self._pages.popitem(last=False)
        return page


_AT_ONCE = 16 << 20  # bytes of blocks in memory
_BLOCKS_AT_ONCE = 2048
_ENTRIES_A_DIRECTORY_BYTE = 256  # a block, of which it has eight bytes, has 2,176 of them at least in most parts
_FOOTER_BYTES = 4096  # more than the footer of a part takes
_FIRST_QUERY = np.zeros(1, np.intp)
_FIRST_QUERY.flags.writeable = False


class PostingsReader(PartReader):
    """Reader of a part of postings.

    Parameters
    ----------
    path, filesystem : the part's file.
    expected_bytes : expected length of the file; None to accept any.
    directory_bytes : a directory up to this size is kept in memory.
    entry : entry of the file in a listing, if there is one.
    num_entries : expected number of pairs, to estimate the length of the directory.

    Attributes
    ----------
    info : the part's description from its footer.
    num_units : number of units, with and without values.
    prefix_bits : bits of each hash that it keeps.

    Raises
    ------
    BrokenIndexError
        It is not such a part, or its footer or directory is damaged.
    StorageError
        It cannot be read.
    """

    def __init__(
        self,
        path: str,
        filesystem: FileSystem | None = None,
        expected_bytes: int | None = None,
        directory_bytes: int = MOST_BYTES,
        entry: Entry | None = None,
        num_entries: int = 0,
    ):
        directory = min(directory_bytes, num_entries // _ENTRIES_A_DIRECTORY_BYTE)
        self._sections = Sections(path, KIND, filesystem, entry, max(directory + _FOOTER_BYTES, END_BYTES))
        self._source = self._sections.source
        try:
            self._open(path, expected_bytes, directory_bytes)
            self._sections.let_go_of_end(END_BYTES)
        except BaseException as error:
            self.close()
            if isinstance(error, (KeyError, TypeError, ValueError, OverflowError)) and not isinstance(
                error, ParquetBloomError
            ):
                raise BrokenIndexError(f"its footer cannot be understood: {error}", path=path) from error
            raise

    def _open(self, path: str, expected_bytes: int | None, directory_bytes: int) -> None:
        if expected_bytes is not None and self._source.size != expected_bytes:
            raise BrokenIndexError(f"it has {self._source.size} bytes, not {expected_bytes}", path=path)
        meta = self._sections.meta
        self._layout = layout = Layout(*map(strict.number, strict.items(meta["bits"])))
        self.prefix_bits = layout.prefix_bits
        self.num_units, entries, first, last, largest = (
            strict.number(meta[name]) for name in ("units", "entries", "first", "last", "largest_block")
        )
        if not (0 <= self.num_units < 2**layout.id_bits and entries >= 0 and 0 <= first <= last <= LAST_HASH):
            raise ValueError("its numbers contradict each other")
        self.info = PartInfo(path.rstrip("/").rpartition("/")[2], self._source.size, entries, first, last)
        self._first, self._last = first, last
        self._first_block = layout.block_number(first)
        self._shift = 64 - layout.bucket_bits + layout.block_bits
        self._blocks, self._hot = self._sections.section("blocks"), self._sections.section("hot")
        num_blocks = layout.block_number(last) - self._first_block + 1
        self._directory = BlockDirectory(self._sections, num_blocks, largest, directory_bytes)

    # One hash ------------------------------------------------------------------------------------------------------

    def find(self, hashes: NDArray[np.uint64]) -> PartMatches:
        """Return the units that may hold each of some hashes; none for hashes that the part does not cover.

        A damaged file raises no error: see `PartMatches`.
        """
        if len(hashes) == 1:
            return self.find_one(int(hashes[0]))
        return self._find_many(np.ascontiguousarray(hashes, np.uint64))

    def find_one(self, h: int) -> PartMatches:
        if not self._first <= h <= self._last:
            return PartMatches(_NO_QUERIES, _NO_UNITS)
        source = self._source
        requests, bytes_read = source.requests, source.bytes_read
        block = (h >> self._shift) - self._first_block
        unknown = {}
        units = _NO_UNITS
        try:
            start, end = self._directory.find(block)
            data = source.read_at(self._blocks.offset + start, end - start)
            units, hot, status = find_one(self._layout, data, h, self.num_units)
            if status:
                unknown[0] = self._describe_damage(block + self._first_block, status)
            elif hot is not None:
                units = self._read_list(*hot)
        except ParquetBloomError as error:
            units, unknown[0] = _NO_UNITS, str(error)
        queries = _FIRST_QUERY if len(units) == 1 else np.zeros(len(units), np.intp)
        return PartMatches(queries, units, unknown, source.requests - requests, source.bytes_read - bytes_read)

    def _describe_damage(self, block: int, status: int) -> str:
        return str(BrokenIndexError(f"block {block}: {REASONS[status]}", path=self._source.name))

    def _find_list(self, offset: int, length: int) -> int:
        """Return the offset of a list in the file; raise BrokenIndexError if it lies outside of its section."""
        if not (0 <= offset <= self._hot.length and length <= self._hot.length - offset):
            raise BrokenIndexError("a list of units is said to lie outside of the lists", path=self._source.name)
        return self._hot.offset + offset

    def _read_list(self, offset: int, length: int) -> NDArray[np.uint32]:
        if not length:
            return self._list_all()
        data = self._source.read_at(self._find_list(offset, length), length)
        return self._unpack_units(data)

    def _list_all(self) -> NDArray[np.uint32]:
        """Return what a list without bytes stands for: all units."""
        return np.arange(self.num_units, dtype=np.uint32)

    def _unpack_units(self, data: bytes) -> NDArray[np.uint32]:
        try:
            return unpack_units(data, self.num_units)
        except BrokenIndexError as error:
            error.path = self._source.name
            raise

    # Many ----------------------------------------------------------------------------------------------------------

    def _find_many(self, hashes: NDArray[np.uint64]) -> PartMatches:
        source = self._source
        requests, bytes_read = source.requests, source.bytes_read
        covered = (hashes >= np.uint64(self._first)) & (hashes <= np.uint64(self._last))
        order = np.flatnonzero(covered)
        order = order[np.argsort(hashes[order], kind="stable")]
        batch = LookupBatch(order, hashes[order])
        if len(order):
            self._look_up(batch)
        return batch.make_matches(source.requests - requests, source.bytes_read - bytes_read)

    def _look_up(self, batch: LookupBatch) -> None:
        numbers = (batch.hashes >> np.uint64(self._shift) if self._shift < 64 else np.zeros_like(batch.hashes)).astype(
            np.int64
        ) - self._first_block
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))  # of the hashes of each block
        blocks = numbers[begins]
        try:
            starts, ends, wrong = self._directory.find_many(blocks)
        except ParquetBloomError as error:
            batch.mark_unknown(0, len(batch.hashes), str(error))
            return
        lengths = np.where(wrong, 0, ends - starts)
        offsets = np.where(wrong, 0, starts) + self._blocks.offset
        until = np.append(begins, len(batch.hashes))
        total = np.cumsum(lengths)
        first = 0
        while first < len(blocks):
            room = (total[first - 1] if first else 0) + _AT_ONCE
            end = max(first + 1, int(np.searchsorted(total, room, "right")))
            here, queries = slice(first, end), slice(int(until[first]), int(until[end]))
            try:
                data = self._source.gather(offsets[here], lengths[here])
            except ParquetBloomError as error:
                batch.mark_unknown(queries.start, queries.stop, str(error))
            else:
                repeats = np.diff(until[first : end + 1])
                block_ends = np.cumsum(lengths[here])
                query_numbers, units, hot, hot_offsets, hot_lengths, damaged, reasons = find(
                    self._layout, data, np.repeat(block_ends - lengths[here], repeats), np.repeat(block_ends, repeats),
                    batch.hashes[queries], self.num_units,
                )  # fmt: skip
                batch.add_matches(queries.start, query_numbers, units, hot, hot_offsets, hot_lengths)
                for query, reason in zip((damaged + queries.start).tolist(), reasons.tolist(), strict=True):
                    block = int(numbers[query])
                    at_fault = wrong[np.searchsorted(blocks, block)]
                    why = str(self._directory.make_error(block)) if at_fault else ""
                    batch.mark_unknown(
                        query, query + 1, why or self._describe_damage(block + self._first_block, reason)
                    )
            first = end
        self._look_up_lists(batch)

    def _look_up_lists(self, batch: LookupBatch) -> None:
        """Read the lists of units of a batch's hashes, each once."""
        queries_by_list: dict[tuple[int, int], list[int]] = {}
        for query, offset, length in batch.lists():
            queries_by_list.setdefault((offset, length), []).append(query)
        lists, size = [], 0
        pairs = sorted(queries_by_list)
        for number, (offset, length) in enumerate(pairs):
            try:
                self._find_list(offset, length)
            except BrokenIndexError as error:
                batch.mark_all_unknown(queries_by_list[offset, length], str(error))
            else:
                if not length:
                    batch.add_list(queries_by_list[offset, length], self._list_all())
                    continue
                lists.append((offset, length))
                size += length
            if lists and (size >= _AT_ONCE or number == len(pairs) - 1):
                self._add_lists(batch, lists, queries_by_list)
                lists, size = [], 0
        if lists:
            self._add_lists(batch, lists, queries_by_list)

    def _add_lists(
        self, batch: LookupBatch, lists: list[tuple[int, int]], queries_by_list: dict[tuple[int, int], list[int]]
    ) -> None:
        try:
            blobs = self._source.read_ranges([(self._hot.offset + offset, length) for offset, length in lists])
        except ParquetBloomError as error:
            for location in lists:
                batch.mark_all_unknown(queries_by_list[location], str(error))
            return
        for location, data in zip(lists, blobs, strict=True):
            try:
                batch.add_list(queries_by_list[location], self._unpack_units(data))
            except BrokenIndexError as error:
                batch.mark_all_unknown(queries_by_list[location], str(error))

    # All of it -----------------------------------------------------------------------------------------------------

    def _pieces(self, chunk_bytes: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.uint8]]]:
        """Yield consecutive blocks: the number of the first, the offset of each in the bytes, and the bytes."""
        first = 0
        while first < self._directory.num_blocks:
            count = min(self._directory.num_blocks - first, _BLOCKS_AT_ONCE)
            starts, ends, wrong = self._directory.neighbours(first, count)
            if wrong.any():
                raise self._directory.make_error(first + int(wrong.argmax()))
            count = max(1, int(np.searchsorted(ends, starts[0] + chunk_bytes, "right")))
            length = int(ends[count - 1] - starts[0])
            data = np.frombuffer(self._source.read_at(self._blocks.offset + int(starts[0]), length), np.uint8)
            yield first + self._first_block, np.append(starts[:count], ends[count - 1]) - starts[0], data
            first += count

    def keys(self, chunk_bytes: int = 1 << 20) -> Iterator[NDArray[np.uint64]]:
        """Yield all keys (top `prefix_bits` bits of a hash, then the unit), sorted, in chunks of about `chunk_bytes`.

        Raises
        ------
        BrokenIndexError, StorageError, TruncatedFileError
            The part is damaged, or cannot be read.
        """
        count = 0
        for first, starts, data in self._pieces(chunk_bytes):
            keys, hot, damaged = unpack(self._layout, data, starts, first, self.num_units)
            for block, reason in damaged.items():
                raise BrokenIndexError(f"block {block}: {reason}", path=self._source.name)
            before = 0
            parts = []
            for at, prefix, offset, length in hot.tolist():
                units = self._read_list(offset, length).astype(np.uint64)
                parts += [keys[before:at], units | np.uint64(prefix << (64 - self.prefix_bits))]
                before = at
            parts.append(keys[before:])
            combined = np.concatenate(parts) if len(parts) > 1 else keys
            count += len(combined)
            yield combined
        if count != self.info.num_entries:
            raise BrokenIndexError(f"it has {count} entries, not {self.info.num_entries}", path=self._source.name)

    def check(self) -> Iterator[str]:
        """Read the complete part and yield its problems, one line each."""
        count, lists, complete = 0, [], True
        try:
            self._sections.read("directory")
            for first, starts, data in self._pieces(1 << 20):
                keys, hot, damaged = unpack(self._layout, data, starts, first, self.num_units)
                count += len(keys)
                complete &= not damaged
                for block, reason in damaged.items():
                    yield str(BrokenIndexError(f"block {block}: {reason}", path=self._source.name))
                for _, prefix, offset, length in hot.tolist():
                    lists.append((offset, length))
                    try:
                        count += len(self._read_list(offset, length))
                    except ParquetBloomError as error:
                        complete = False
                        yield f"{error} (of prefix {prefix:#x})"
        except ParquetBloomError as error:
            yield str(error)
            return
        if not complete:
            return
        ends = np.cumsum([length for _, length in lists], dtype=np.int64).tolist()
        if [offset for offset, _ in lists] != [0, *ends][:-1] or (ends or [0])[-1] != self._hot.length:
            yield str(BrokenIndexError("its lists of units are not those that its blocks name", path=self._source.name))
        if count != self.info.num_entries:
            problem = f"it has {count} entries, its footer says {self.info.num_entries}"
            yield str(BrokenIndexError(problem, path=self._source.name))

    def expected_false(self) -> float:
        """Return the expected number of false candidate units for an absent value whose hash the part covers."""
        covered = (self._last - self._first + 1) / 2**64
        return self.info.num_entries * 2.0**-self.prefix_bits / covered

    def close(self) -> None:
        self._sections.close()


def merge(
    parts: list[tuple[PostingsReader, NDArray[np.int64]]],
    path: str,
    filesystem: FileSystem | None,
    shape: PartShape,
    memory_limit: int = MEMORY_LIMIT,
    scratch_folder: str | os.PathLike[str] | None = None,
) -> PartInfo:
    """Merge parts into one, which covers the hashes from the lowest to the highest that they cover.

    Parameters
    ----------
    parts : parts, each with the new numbers of its units, -1 for dropped ones.
    path, filesystem : the new part's file.
    shape : of the new part but for the hashes that it covers; it keeps at most the fewest bits that a part has.
    memory_limit : bytes.
    scratch_folder : see `write_sorted`.

    Raises
    ------
    BrokenIndexError
        A part is damaged.
    """
    if not parts:
        return write_sorted(path, filesystem, [], shape)
    prefix_bits, num_units = shape.prefix_bits, shape.num_units
    expected = 0
    for reader, remap in parts:
        if prefix_bits > reader.prefix_bits:
            raise ValueError(f"a part has {reader.prefix_bits} bits of each hash, not {prefix_bits}")
        if len(remap) != reader.num_units or (len(remap) and not -1 <= remap.min() <= remap.max() < num_units):
            raise ValueError("each unit of a part has one new number, or -1")
        kept = int((remap >= 0).sum()) / max(1, len(remap))
        expected += math.ceil(reader.info.num_entries * kept)
    chunk_bytes = max(1 << 14, memory_limit // (32 * len(parts)))
    streams = [_renumber(reader, remap, prefix_bits, chunk_bytes) for reader, remap in parts]
    first, last = min(reader.info.first for reader, _ in parts), max(reader.info.last for reader, _ in parts)
    shape = replace(shape, first=first, last=last, num_entries=expected)
    return write_sorted(path, filesystem, _merge_streams(streams, prefix_bits), shape, scratch_folder)


def _renumber(
    reader: PostingsReader, remap: NDArray[np.int64], prefix_bits: int, chunk_bytes: int
) -> Iterator[NDArray[np.uint64]]:
    """Yield a part's keys with new units and prefixes, sorted by prefix only."""
    old = np.uint64(2 ** (64 - reader.prefix_bits) - 1)
    mask = np.uint64(2**64 - 2 ** (64 - prefix_bits))
    for keys in reader.keys(chunk_bytes):
        units = remap[(keys & old).astype(np.intp)]
        kept = units >= 0
        yield (keys[kept] & mask) | units[kept].astype(np.uint64)


def _merge_streams(streams: list[Iterator[NDArray[np.uint64]]], prefix_bits: int) -> Iterator[NDArray[np.uint64]]:
    """Merge streams of keys that are sorted by prefix; yield sorted keys without duplicates."""
    shift = 64 - prefix_bits
    waiting = [np.empty(0, np.uint64) for _ in streams]
    open_streams = set(range(len(streams)))
    short = set(open_streams)  # of which more is needed
    while open_streams or any(len(keys) for keys in waiting):
        for number in sorted(short):
            chunk = next(streams[number], None)
            if chunk is None:
                open_streams.discard(number)
            elif len(chunk):
                waiting[number] = np.concatenate([waiting[number], chunk])
        # All keys below the smallest last prefix of the open streams have been read.
        ends = {n: int(waiting[n][-1]) >> shift if len(waiting[n]) else 0 for n in open_streams}
        bound = min(ends.values()) << shift if ends else LAST_HASH + 1
        ready = []
        for number, keys in enumerate(waiting):
            cut = len(keys) if bound > LAST_HASH else int(np.searchsorted(keys, np.uint64(bound)))
            ready.append(keys[:cut])
            waiting[number] = keys[cut:]
        short = {number for number, end in ends.items() if end << shift == bound}
        keys = sort_once(np.concatenate(ready))
        if len(keys):
            yield keys
