"""Read parts of the layout "cuckoo": one cuckoo filter per unit, all with the same number of buckets, bucket by bucket.

Section `rows` has one row per bucket, all of equal length; `core.index.cuckoo.Layout` defines their contents. A lookup
reads two of them. Section `slots` has for each unit its number of slots in a row, in `slot_bytes` bytes each. The
footer has num_buckets, fingerprint_bits, num_units, num_slots, slot_bytes, num_entries.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.index.cuckoo import FINGERPRINT_BITS, MOST_BUCKETS, Layout
from ..core.index.cuckoo_rows import RowScan, scan_rows, unpack
from ..errors import BrokenIndexError, ParquetBloomError
from ..storage import Entry
from ..storage.local.local_source import LocalSource
from ..util.messages import count
from .index_part import END_BYTES, PartMatches, PartReader, Sections
from .sorted_runs import sort_once

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

KIND = "cuckoo"
ROWS, SLOTS = "rows", "slots"
FALSE_UNIT_BYTES = 256 << 10
"""Cost of a false candidate unit, in bytes read: a file is opened, and its filter or a page of it read."""

_MOST_EXTRA = 1.25  # total bytes, relative to the smallest option of that width
_MOST_SIZES = 2048  # distinct unit sizes to evaluate; more are grouped
_ROW_CHECKSUM_BYTES = 4

# The share of slots in use at which every second unit needs one more a bucket: measured with `core.cuckoo.Group`.
_FULL = {2: 0.895, 3: 0.957, 4: 0.979, 5: 0.989, 6: 0.994, 7: 0.996, 8: 0.9975}
_MOST_FULL = 0.998


@dataclass(frozen=True)
class SizingOption:
    """A number of buckets and a width of fingerprints, with their size and costs.

    Attributes
    ----------
    num_buckets, fingerprint_bits : the choice.
    row_slots : fingerprints in a row: one bucket of every unit.
    num_bytes : total bytes.
    lookup_bytes : bytes that a lookup reads.
    occupancy : fraction of slots in use.
    false_units : false candidate units per lookup.
    """

    num_buckets: int
    fingerprint_bits: int
    row_slots: float
    num_bytes: int
    lookup_bytes: int
    occupancy: float
    false_units: float

    def cost(self, false_unit_bytes: float = FALSE_UNIT_BYTES) -> float:
        """Return the bytes that a lookup reads, plus the cost of false candidates in bytes."""
        return self.lookup_bytes + self.false_units * false_unit_bytes


@dataclass(frozen=True)
class CuckooAdvice:
    """All options that were evaluated, and the best.

    Attributes
    ----------
    num_units, num_values : numbers of units and values to index.
    best : the advised option.
    choices : all options, by width of fingerprints, then by number of buckets.
    """

    num_units: int
    num_values: int
    best: SizingOption
    choices: Sequence[SizingOption] = field(repr=False)

    def size_against_bytes(self, fingerprint_bits: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return data to plot: fingerprints in a row, and bytes that a lookup reads."""
        some = self._select_options(fingerprint_bits)
        return np.array([choice.row_slots for choice in some]), np.array([choice.lookup_bytes for choice in some])

    def buckets_against_occupancy(self, fingerprint_bits: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return data to plot: numbers of buckets, and fractions of slots in use."""
        some = self._select_options(fingerprint_bits)
        return np.array([choice.num_buckets for choice in some]), np.array([choice.occupancy for choice in some])

    def _select_options(self, fingerprint_bits: int) -> list[SizingOption]:
        return [choice for choice in self.choices if choice.fingerprint_bits == fingerprint_bits]

    def __str__(self) -> str:
        head = ("buckets", "bits", "bytes", "B/value", "bytes a lookup", "slots used", "false units a lookup", "")
        rows = [head]
        for choice in self.choices:
            each = choice.num_bytes / max(1, self.num_values)
            rows.append(
                (
                    f"{choice.num_buckets:,}",
                    f"{choice.fingerprint_bits}",
                    f"{choice.num_bytes:,}",
                    f"{each:.2f}",
                    f"{choice.lookup_bytes:,}",
                    f"{choice.occupancy:.0%}",
                    f"{choice.false_units:.3g}",
                    "advised" if choice == self.best else "",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"{count(self.num_units, 'unit')}, {count(self.num_values, 'value')}", *lines])


def advise(
    sizes: NDArray[np.int64],
    *,
    fingerprint_bits: Sequence[int] = FINGERPRINT_BITS,
    false_unit_bytes: float = FALSE_UNIT_BYTES,
    max_bytes: int | None = None,
    num_buckets: Sequence[int] | None = None,
) -> CuckooAdvice:
    """Find the number of buckets and the width of fingerprints that make lookups cheap.

    The advice is the option with the cheapest lookups (see `SizingOption.cost`) among those that need little more room
    than the smallest option of their width.

    Parameters
    ----------
    sizes : number of distinct values of each unit.
    fingerprint_bits : widths to choose from.
    false_unit_bytes : cost of a false candidate unit, in bytes read.
    max_bytes : largest size of the part; if no option is below it, the smallest is advised.
    num_buckets : numbers to choose from; None for a range that fits the sizes.

    Raises
    ------
    ValueError
        There is nothing to choose from, or a negative size.
    """
    sizes = np.asarray(sizes, np.int64)
    if (sizes < 0).any():
        raise ValueError("units do not have fewer than 0 values")
    if not fingerprint_bits or not set(fingerprint_bits) <= set(FINGERPRINT_BITS):
        raise ValueError("fingerprints have 8, 12, 16 or 24 bits")
    if num_buckets is not None and not (num_buckets and 1 <= min(num_buckets) <= max(num_buckets) <= MOST_BUCKETS):
        raise ValueError(f"there are 1 to {MOST_BUCKETS} buckets")
    counts, weights = _group_sizes(sizes)
    candidates = _candidates(counts) if num_buckets is None else sorted(set(num_buckets))
    choices, allowed = [], []
    for bits in sorted(set(fingerprint_bits)):
        some = [_choice(counts, weights, buckets, bits) for buckets in candidates]
        least = min(choice.num_bytes for choice in some)
        choices += some
        allowed += [choice for choice in some if choice.num_bytes <= _MOST_EXTRA * least]
    if max_bytes is not None:
        small = [choice for choice in choices if choice.num_bytes <= max_bytes]
        allowed = small or [min(choices, key=lambda choice: choice.num_bytes)]
    best = min(allowed, key=lambda choice: (choice.cost(false_unit_bytes), choice.num_bytes))
    return CuckooAdvice(len(sizes), int(sizes.sum()), best, tuple(choices))


def expected_slots(sizes: NDArray[np.float64], num_buckets: int) -> NDArray[np.float64]:
    """Return the mean number of slots per bucket that units of some sizes need.

    A unit needs one more slot as soon as one value does not fit. The load at which that happens lies around what large
    filters reach, and scatters more with fewer buckets.
    """
    first = np.maximum(1, np.ceil(sizes / num_buckets))
    total = first.copy()
    for more in range(6):
        slots = first + more
        full, spread = _full(slots, num_buckets), 0.9 * slots**-1.6 / math.sqrt(num_buckets)
        surplus = (sizes / (slots * num_buckets) - full) / spread
        # the normal distribution, nearly
        total += 0.5 * (1 + np.tanh(0.7978845608 * (surplus + 0.044715 * surplus**3)))
    return np.where(sizes > 0, np.where(sizes <= 1, 1.0, total), 0.0)


def _full(slots: NDArray[np.float64], num_buckets: int) -> NDArray[np.float64]:
    full = np.full(slots.shape, _MOST_FULL)
    for number, share in _FULL.items():
        full[slots == number] = share
    full[slots == 1] = 0.515 + 1 / math.sqrt(num_buckets)
    return full


def _group_sizes(sizes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distinct sizes, and the number of units with each."""
    counts, weights = np.unique(sizes, return_counts=True)
    if len(counts) > _MOST_SIZES:  # groups of neighbours, each with its mean, which keeps the total of values
        ordered = np.sort(sizes)
        starts = np.linspace(0, len(ordered), _MOST_SIZES, endpoint=False).astype(np.intp)
        weights = np.diff(np.append(starts, len(ordered)))
        return np.add.reduceat(ordered, starts) / weights, weights.astype(np.float64)
    return counts.astype(np.float64), weights.astype(np.float64)


def _candidates(counts: NDArray[np.float64]) -> list[int]:
    """Return numbers of buckets, from where small units fill a slot to where the largest have few slots."""
    filled = counts[counts > 0]
    if not len(filled):
        return [1]
    least = max(1.0, float(np.median(filled)) / 64)
    most = min(float(MOST_BUCKETS), max(least, 2 * float(filled.max())))
    steps = max(2, round(6 * math.log2(most / least)) + 1) if most > least else 1
    grid = np.geomspace(least, most, min(steps, 64))
    # where units of a common size just fit into whole slots, a row is shortest for its buckets
    fitting = [q / (s * _FULL.get(s, 0.5) * 0.96) for q in np.quantile(filled, [0.5, 0.9]) for s in range(1, 9)]
    numbers = np.clip(np.ceil(np.concatenate([grid, fitting])), 1, MOST_BUCKETS)
    return sorted({int(number) for number in numbers})


def _choice(counts: NDArray[np.float64], weights: NDArray[np.float64], num_buckets: int, bits: int) -> SizingOption:
    kinds = 0.5 * (2**bits - 1) * num_buckets
    stored = kinds * -np.expm1(-counts / kinds)  # values that share fingerprint and buckets are one
    slots = expected_slots(stored, num_buckets)
    row_slots = float((slots * weights).sum())
    row_bytes = math.ceil(row_slots * bits / 8) + _ROW_CHECKSUM_BYTES
    compared = (2 - 1 / num_buckets) * stored / num_buckets
    false_units = float((weights * -np.expm1(compared * math.log1p(-1 / (2**bits - 1)))).sum())
    in_use = float((stored * weights).sum())
    return SizingOption(
        num_buckets,
        bits,
        row_slots,
        row_bytes * num_buckets,
        row_bytes * min(2, num_buckets),
        in_use / (row_slots * num_buckets) if row_slots else 0.0,
        false_units,
    )


_AT_ONCE_BYTES = 32 << 20  # of rows that are fetched concurrently

_NUMBERS = ("num_buckets", "fingerprint_bits", "num_units", "num_slots", "slot_bytes", "num_entries")


class CuckooReader(PartReader):
    """An opened part of aligned cuckoo filters. The slot counts of its units take 5 to 12 bytes per unit in memory.

    Parameters
    ----------
    path, filesystem : the part's file.
    expected_bytes : expected length of the file; None to accept any.
    entry : entry of the file in a listing, if there is one.
    chunk_bytes : of a long row, read and then searched, so that they stay in the CPU caches.
    long_row_bytes : size of a row of which two are worth a second thread.

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
        filesystem: FileSystem | None = None,
        expected_bytes: int | None = None,
        entry: Entry | None = None,
        chunk_bytes: int = 256 << 10,
        long_row_bytes: int = 1 << 20,
    ):
        self.path = path
        self._chunk_bytes, self._long_row_bytes = chunk_bytes, long_row_bytes
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
        numbers = [int(value) for value in values if isinstance(value, int) and value >= 0]
        if len(numbers) < len(_NUMBERS):
            raise BrokenIndexError("its footer lacks numbers that a part of this kind needs", path=self.path)
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
        self.slots: NDArray[np.unsignedinteger] = np.frombuffer(self._sections.read(SLOTS), f"<u{slot_bytes}")
        if int(self.slots.sum(dtype=np.uint64)) != self.num_slots:
            raise BrokenIndexError("its units do not have the slots that its rows have", path=self.path)
        dtype = np.uint32 if self.num_slots < 1 << 32 else np.int64
        self.first_slots: NDArray[np.unsignedinteger] = np.zeros(self.num_units + 1, dtype)
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

        if isinstance(self._source, LocalSource) and self._row_bytes > self._chunk_bytes:
            tasks = [(int(row), fingerprints[bounds[i] : bounds[i + 1]]) for i, row in enumerate(rows)]
            if self._row_bytes >= self._long_row_bytes:
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
            for piece in self._source.pieces(offset, self._row_bytes, self._chunk_bytes):
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
        return self._rows_at + row * self._row_bytes

    def read_rows(self, first: int, count: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.bool_]]:
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


def expected_false(layout: Layout, slots: NDArray[np.unsignedinteger], num_entries: int) -> float:
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
