"""Read postings: the (hash, unit) pairs of a part, sorted by hash, in blocks of one small read each.

A part's file has the sections `blocks` (see `core.index.postings`), `hot` (lists of units of frequent values, see
`bitmaps`) and `directory` (the offset of each block, and the end of the last one, uint64).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ....core.index.postings import REASONS, Layout, find, find_one, unpack
from ....errors import BrokenIndexError, ParquetBloomError
from ....storage import Entry
from ..part import END_BYTES, PartInfo, PartMatches, PartReader, Sections
from . import directory as block_directory
from .batch import Batch
from .bitmaps import unpack_units
from .directory import BlockDirectory
from .writer import KIND, LAST_HASH

_AT_ONCE = 16 << 20  # bytes of blocks in memory
_BLOCKS_AT_ONCE = 2048
_ENTRIES_A_DIRECTORY_BYTE = 256  # a block, of which it has eight bytes, has 2,176 of them at least in most parts
_FOOTER_BYTES = 4096  # more than the footer of a part takes
_NO_QUERIES = np.empty(0, np.intp)
_FIRST_QUERY = np.zeros(1, np.intp)
_FIRST_QUERY.flags.writeable = False
_NO_UNITS = np.empty(0, np.uint32)


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
        filesystem: object | None = None,
        expected_bytes: int | None = None,
        directory_bytes: int = block_directory.MOST_BYTES,
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
        self._layout = layout = Layout(*meta["bits"])
        self.prefix_bits = layout.prefix_bits
        self.num_units, entries, first, last, largest = (
            operator.index(meta[name]) for name in ("units", "entries", "first", "last", "largest_block")
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
        data = self._source.read_at(self._find_list(offset, length), length)
        return self._unpack_units(data)

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
        batch = Batch(order, hashes[order])
        if len(order):
            self._look_up(batch)
        return batch.make_matches(source.requests - requests, source.bytes_read - bytes_read)

    def _look_up(self, batch: Batch) -> None:
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

    def _look_up_lists(self, batch: Batch) -> None:
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
                lists.append((offset, length))
                size += length
            if lists and (size >= _AT_ONCE or number == len(pairs) - 1):
                self._add_lists(batch, lists, queries_by_list)
                lists, size = [], 0
        if lists:
            self._add_lists(batch, lists, queries_by_list)

    def _add_lists(
        self, batch: Batch, lists: list[tuple[int, int]], queries_by_list: dict[tuple[int, int], list[int]]
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
