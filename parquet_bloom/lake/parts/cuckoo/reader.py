"""Read parts of the layout "cuckoo": one cuckoo filter per unit, all with the same number of buckets, bucket by bucket.

Section `rows` has one row per bucket, all of equal length; `core.index.cuckoo.Layout` defines their contents. A lookup
reads two of them. Section `slots` has for each unit its number of slots in a row, in `slot_bytes` bytes each. The
footer has num_buckets, fingerprint_bits, num_units, num_slots, slot_bytes, num_entries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....core.index.cuckoo import FINGERPRINT_BITS, MOST_BUCKETS, Layout
from ....core.index.cuckoo_rows import RowScan, scan_rows, unpack
from ....errors import BrokenIndexError, ParquetBloomError
from ....storage import Entry
from ....storage.local.source import LocalSource
from ..part import END_BYTES, PartMatches, PartReader, Sections
from ..sorted_runs import sort_once
from .writer import KIND, ROWS, SLOTS

_CHUNK_BYTES = 256 << 10  # of a long row that are read and then searched, so that they stay in the CPU caches
_LONG_ROW_BYTES = 1 << 20  # two such rows are worth a second thread
_AT_ONCE_BYTES = 32 << 20  # of rows that are fetched concurrently

_NUMBERS = ("num_buckets", "fingerprint_bits", "num_units", "num_slots", "slot_bytes", "num_entries")


class CuckooReader(PartReader):
    """An opened part of aligned cuckoo filters. The slot counts of its units take 5 to 12 bytes per unit in memory.

    Parameters
    ----------
    path, filesystem : the part's file.
    expected_bytes : expected length of the file; None to accept any.
    entry : entry of the file in a listing, if there is one.

    Attributes
    ----------
    path : as given.
    layout : number of buckets and of fingerprints' bits.
    num_units, num_entries : units, with and without values; fingerprints in all of them.
    slots : slots per bucket of each unit.
    first_slots : position of each unit's first slot in a row, and the total.

    Raises
    ------
    BrokenIndexError
        It is not such a part, or is damaged; the rows are not checked here.
    StorageError
        It is missing, or cannot be read.
    """

    def __init__(
        self,
        path: str,
        filesystem: object | None = None,
        expected_bytes: int | None = None,
        entry: Entry | None = None,
    ):
        self.path = path
        self._sections = Sections(path, KIND, filesystem, entry, END_BYTES)
        self._helper: ThreadPoolExecutor | None = None
        self._guard = threading.Lock()
        try:
            self._source = self._sections.source
            if expected_bytes is not None and self._source.size != expected_bytes:
                raise BrokenIndexError(f"it has {self._source.size} bytes, not {expected_bytes}", path=path)
            self._parse_footer()
        except BaseException:
            self._sections.close()
            raise

    def _parse_footer(self) -> None:
        meta = self._sections.meta
        values = [meta.get(name) for name in _NUMBERS]
        if not all(isinstance(value, int) and value >= 0 for value in values):
            raise BrokenIndexError("its footer lacks numbers that a part of this kind needs", path=self.path)
        numbers = [int(value) for value in values if value is not None]
        num_buckets, bits, self.num_units, self.num_slots, slot_bytes, self.num_entries = numbers
        if not 1 <= num_buckets <= MOST_BUCKETS or bits not in FINGERPRINT_BITS or slot_bytes not in (1, 2, 4):
            raise BrokenIndexError("its footer has numbers that are out of range", path=self.path)
        self.layout = Layout(num_buckets, bits)
        rows, slots = self._sections.section(ROWS), self._sections.section(SLOTS)
        # check lengths first: they are bounded by the file's length
        if slots.length != self.num_units * slot_bytes or self.num_slots > rows.length:
            raise BrokenIndexError("its footer and the lengths of its sections contradict each other", path=self.path)
        self._row_bytes = self.layout.row_bytes(self.num_slots)
        if rows.length != self._row_bytes * num_buckets:
            raise BrokenIndexError("its footer and the lengths of its sections contradict each other", path=self.path)
        self._rows_at = rows.offset
        self.slots: NDArray[Any] = np.frombuffer(self._sections.read(SLOTS), f"<u{slot_bytes}")
        if int(self.slots.sum(dtype=np.uint64)) != self.num_slots:
            raise BrokenIndexError("its units do not have the slots that its rows have", path=self.path)
        dtype = np.uint32 if self.num_slots < 1 << 32 else np.int64
        self.first_slots: NDArray[Any] = np.zeros(self.num_units + 1, dtype)
        np.cumsum(self.slots, out=self.first_slots[1:])

    def find(self, hashes: NDArray[np.uint64]) -> PartMatches:
        """Return the units that may hold each of some hashes; see `PartMatches`.

        Local rows are read piece by piece and searched while the pieces are in the CPU caches, long ones by two
        threads; remote rows are fetched concurrently. Each row is read once, however many of the hashes need it.
        """
        hashes = np.ascontiguousarray(hashes, np.uint64)
        num_queries = len(hashes)
        fingerprints, first, second = self.layout.locate(hashes)
        # search for each fingerprint once in each row
        searches = np.concatenate([first, second]).astype(np.uint64) << np.uint64(32)
        searches |= np.concatenate([fingerprints, fingerprints])
        distinct, which = np.unique(searches, return_inverse=True)
        rows = (distinct >> np.uint64(32)).astype(np.int64)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        bounds = np.append(starts, len(rows))
        slots, numbers, problems, num_read = self._search(rows[starts], bounds, distinct.astype(np.uint32))
        matches = PartMatches(np.empty(0, np.intp), np.empty(0, np.uint32), {}, num_read, num_read * self._row_bytes)
        if problems:
            row_of = np.searchsorted(bounds, which, "right") - 1
            for number, problem in problems.items():
                for query in np.flatnonzero(row_of == number) % num_queries:
                    matches.unknown[int(query)] = problem
        if not len(slots):
            return matches
        units = np.searchsorted(self.first_slots, slots.astype(self.first_slots.dtype), "right") - 1
        order = np.argsort(numbers, kind="stable")
        units, numbers = units[order], numbers[order]
        # combine the matches of each query in its first and its second row
        begins = np.searchsorted(numbers, np.arange(len(distinct) + 1))
        counts = np.diff(begins)[which]
        queries = np.repeat(np.arange(len(which)) % max(1, num_queries), counts)
        shifts = np.repeat(begins[which] - (np.cumsum(counts) - counts), counts)
        named = units[np.arange(len(shifts)) + shifts].astype(np.uint64)
        both = sort_once((queries.astype(np.uint64) << np.uint64(32)) | named)
        matches.queries, matches.units = (both >> np.uint64(32)).astype(np.intp), both.astype(np.uint32)
        if matches.unknown:
            is_known = ~np.isin(matches.queries, np.fromiter(matches.unknown, np.intp))
            matches.queries, matches.units = matches.queries[is_known], matches.units[is_known]
        return matches

    def _search(
        self, rows: NDArray[np.int64], bounds: NDArray[np.intp], fingerprints: NDArray[np.uint32]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], dict[int, str], int]:
        """Search each row for its fingerprints.

        Returns
        -------
        Matching slots, the position in `fingerprints` of each, the problems of rows (by position in `rows`) that cannot
        be searched, and the number of rows read.
        """
        pieces: list[tuple[NDArray[np.int64], NDArray[np.uint32]]] = []
        problems: dict[int, str] = {}

        def take(number: int, answer: tuple[NDArray[np.int64], NDArray[np.uint32]] | str) -> None:
            if isinstance(answer, str):
                problems[number] = answer
            else:
                pieces.append((answer[0], answer[1] + np.uint32(bounds[number])))

        if isinstance(self._source, LocalSource) and self._row_bytes > _CHUNK_BYTES:
            tasks = [(int(row), fingerprints[bounds[i] : bounds[i + 1]]) for i, row in enumerate(rows)]
            if self._row_bytes >= _LONG_ROW_BYTES:
                for i in range(0, len(tasks), 2):
                    other = self._aside().submit(self._scan, *tasks[i + 1]) if i + 1 < len(tasks) else None
                    take(i, self._scan(*tasks[i]))
                    if other is not None:
                        take(i + 1, other.result())
            else:
                for i, task in enumerate(tasks):
                    take(i, self._scan(*task))
        else:
            step = max(2, _AT_ONCE_BYTES // self._row_bytes)
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                pieces += self._scan_many(some, bounds[start : start + len(some) + 1], fingerprints, start, problems)
        if not pieces:
            return np.empty(0, np.int64), np.empty(0, np.uint32), problems, len(rows)
        slots, numbers = zip(*pieces, strict=True)
        return np.concatenate(slots), np.concatenate(numbers), problems, len(rows)

    def _aside(self) -> ThreadPoolExecutor:
        with self._guard:
            if self._helper is None:
                self._helper = ThreadPoolExecutor(1, thread_name_prefix="parquet_bloom")
            return self._helper

    def _scan(self, row: int, fingerprints: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.uint32]] | str:
        """Search a long row for fingerprints; return the matches, or the problem."""
        scan = RowScan(self.layout, self.num_slots, fingerprints)
        offset = self.row_offset(row)
        assert isinstance(self._source, LocalSource)
        try:
            for piece in self._source.pieces(offset, self._row_bytes, _CHUNK_BYTES):
                scan.feed(piece)
        except ParquetBloomError as error:
            return f"{self.path}: row {row} cannot be read: {error.problem}"
        return scan.finish(row) or self._describe_damage(row)

    def _scan_many(
        self,
        rows: NDArray[np.int64],
        bounds: NDArray[np.intp],
        fingerprints: NDArray[np.uint32],
        start: int,
        problems: dict[int, str],
    ) -> list[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
        lengths = np.full(len(rows), self._row_bytes, np.int64)
        try:
            data = self._source.gather(self._rows_at + rows * self._row_bytes, lengths)
        except (ParquetBloomError, OSError) as error:
            if len(rows) > 1:  # the others may be there
                return [
                    piece
                    for i in range(len(rows))
                    for piece in self._scan_many(rows[i : i + 1], bounds[i : i + 2], fingerprints, start + i, problems)
                ]
            problems[start] = str(error)
            return []
        positions = np.ascontiguousarray(bounds, np.int64)
        slots, numbers, damaged = scan_rows(self.layout, self.num_slots, data, rows, positions, fingerprints)
        for i in np.flatnonzero(damaged):
            problems[start + int(i)] = self._describe_damage(int(rows[i]))
        return [(slots, numbers)]

    def _describe_damage(self, row: int) -> str:
        return f"{self.path}: row {row} does not fit its checksum"

    def row_offset(self, row: int) -> int:
        """Return the offset of a row in the file."""
        return self._rows_at + row * self._row_bytes

    def read_rows(self, first: int, count: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return fingerprints of shape (rows, slots), and which rows are damaged; raises as `Source.read_at`."""
        data = self._source.read_at(self.row_offset(first), count * self._row_bytes)
        return unpack(self.layout, np.frombuffer(data, np.uint8), self.num_slots, first)

    def check(self) -> Iterator[str]:
        step, num_entries, complete = max(1, (4 << 20) // self._row_bytes), 0, True
        for first in range(0, self.layout.num_buckets, step):
            try:
                rows, damaged = self.read_rows(first, min(step, self.layout.num_buckets - first))
            except (ParquetBloomError, OSError) as error:
                yield f"rows from {first} on cannot be read: {error}"
                complete = False
                continue
            for row in np.flatnonzero(damaged):
                yield self._describe_damage(first + int(row))
                complete = False
            if self.layout.fingerprint_bits == 12 and int(rows.max(initial=0)) >> 12:
                yield f"{self.path}: a fingerprint has more than 12 bits"
            num_entries += int(np.count_nonzero(rows))
        if complete and num_entries != self.num_entries:
            yield f"{self.path}: there are {num_entries} fingerprints, not {self.num_entries}"

    def expected_false(self) -> float:
        return expected_false(self.layout, self.slots, self.num_entries)

    def close(self) -> None:
        with self._guard:
            if self._helper is not None:
                self._helper.shutdown()
                self._helper = None
        self._sections.close()


def expected_false(layout: Layout, slots: NDArray[Any], num_entries: int) -> float:
    """Return the expected number of false candidate units, as used slots of 2 buckets may match by chance.

    The two are the same bucket for one value in `num_buckets`.

    Parameters
    ----------
    slots : slots per bucket of each unit.
    num_entries : slots in use, over all units and buckets.
    """
    total = int(np.sum(slots, dtype=np.int64))
    if not total:
        return 0.0
    occupancy = num_entries / (total * layout.num_buckets)
    widths, counts = np.unique(slots, return_counts=True)
    compared = (2 - 1 / layout.num_buckets) * widths * occupancy
    return float((counts * -np.expm1(compared * np.log1p(-1 / (2**layout.fingerprint_bits - 1)))).sum())
