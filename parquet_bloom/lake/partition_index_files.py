"""Read the index files of another program: partition-index by Thomas Peiselt (github.com/dispanser/partition-index).

A folder of it has `partitions.data` and `index/0000000.bucket`, `index/0000001.bucket` and so on. Numbers are
little-endian:

    partitions.data    num_buckets u64, slots u64, number of partitions u64, and each partition:
                       its name, its slots per bucket u64, whether it is active u8, and (newer versions) its values u64
    *.bucket           the 16-bit fingerprints of that bucket, the concatenated slots of all partitions; 0 is a free
                       slot

The name depends on the program that uses that library: its benchmarks have the first value and the number of
consecutive ones, two u64; a text is its length in bytes, u64, and UTF-8. The file's length, and the partitions' slots,
which have to sum to `slots`, show which of these it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.hash.siphash import fingerprints, hash_words
from ..errors import BrokenIndexError
from ..storage import open_source

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

FINGERPRINT_KEYS = (329, 4242432435)
"""SipHash-1-3's keys of fingerprints; those of buckets are 0."""

_HEADER = struct.Struct("<QQQ")
_MOST_BYTES = 1 << 30  # of partitions.data
_MOST_SLOTS = 1 << 32  # of one partition: more than any bucket file has


class IndexedPartition(NamedTuple):
    """A partition of such an index.

    Attributes
    ----------
    name : (first value, number of values) of consecutive ones, or a text.
    slots : slots per bucket.
    active : False for a removed partition, which lookups never return.
    num_values : number of values; None where the program's version does not store it.
    """

    name: tuple[int, int] | str
    slots: int
    active: bool
    num_values: int | None


class PartitionIndexFile:
    """An index of that program, opened read-only.

    Parameters
    ----------
    folder, filesystem : where `partitions.data` is.

    Attributes
    ----------
    partitions : partitions in the file's order.
    num_buckets : number of bucket files.
    num_slots : number of 16-bit fingerprints in each of them.

    Raises
    ------
    BrokenIndexError
        `partitions.data` is not a file of that program.
    StorageError
        It is missing, or cannot be read.
    """

    def __init__(self, folder: str, filesystem: FileSystem | None = None):
        self._folder, self._filesystem = folder.rstrip("/"), filesystem
        path = f"{self._folder}/partitions.data"
        with open_source(path, filesystem) as source:
            if source.size > _MOST_BYTES:
                raise BrokenIndexError(f"it has {source.size} bytes, more than {_MOST_BYTES} are not read", path=path)
            data = source.read_at(0, source.size)
        if len(data) < _HEADER.size:
            raise BrokenIndexError(f"it has {len(data)} bytes, too few to say what is indexed", path=path)
        self.num_buckets, num_slots, count = _HEADER.unpack_from(data)
        partitions = _parse_partitions(data, count, num_slots)
        if partitions is None or not 1 <= self.num_buckets < 1 << 63:
            raise BrokenIndexError("it is not a list of partitions in the format of that program", path=path)
        self.partitions: list[IndexedPartition] = partitions
        self._first_slots = np.zeros(count + 1, np.int64)
        np.cumsum([partition.slots for partition in partitions], out=self._first_slots[1:])
        self.num_slots = int(self._first_slots[-1])

    def find_buckets(
        self, values: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint16], NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the fingerprint of each value, and its two buckets."""
        values = np.ascontiguousarray(values, np.uint64)
        prints = fingerprints(values, *FINGERPRINT_KEYS)
        buckets = np.uint64(self.num_buckets)
        first = hash_words(values, 0, 0) % buckets
        return prints, first, (hash_words(prints.astype(np.uint64), 0, 0) - first) % buckets

    def lookup(self, values: NDArray[np.uint64]) -> list[list[IndexedPartition]]:
        """Return the active partitions that may hold each value, in order, each once.

        Parameters
        ----------
        values : uint64, as they were given to the program.

        Raises
        ------
        BrokenIndexError
            A bucket's file does not have as many fingerprints as the partitions have slots.
        StorageError
            It is missing, or cannot be read.
        """
        prints, first, second = self.find_buckets(values)
        if not self.num_slots:
            return [[] for _ in prints]
        matches: list[set[int]] = [set() for _ in prints]
        buckets = np.concatenate([first, second])
        # value by value would read the same bucket again and again
        order = np.argsort(buckets, kind="stable")
        row, number = np.empty(0, np.uint16), -1
        for position in order.tolist():
            if number != int(buckets[position]):
                number = int(buckets[position])
                row = self._bucket(number)
            query = position % len(prints)
            slots = np.flatnonzero(row == prints[query])
            matches[query].update((np.searchsorted(self._first_slots, slots, "right") - 1).tolist())
        return [[self.partitions[i] for i in sorted(some) if self.partitions[i].active] for some in matches]

    def _bucket(self, number: int) -> NDArray[np.uint16]:
        path = f"{self._folder}/index/{number:07d}.bucket"
        with open_source(path, self._filesystem) as source:
            if source.size != 2 * self.num_slots:
                problem = f"it has {source.size} bytes, the partitions' slots are {2 * self.num_slots}"
                raise BrokenIndexError(problem, path=path)
            return np.frombuffer(source.read_at(0, source.size), "<u2")


def _parse_partitions(data: bytes, count: int, num_slots: int) -> list[IndexedPartition] | None:
    """Read the list in the encoding that matches its length and total slots; None if none does."""
    remaining = len(data) - _HEADER.size
    if count > remaining:  # before memory is allocated for so many
        return None
    for has_values in (True, False):
        size = 33 if has_values else 25
        if remaining == count * size:
            partitions = _collect(_parse_ranges(data, has_values))
        else:
            partitions = _collect(_parse_texts(data, count, has_values))
        if (
            partitions is not None
            and len(partitions) == count
            and sum(partition.slots for partition in partitions) == num_slots
        ):
            return partitions
    return None


def _collect(records: Iterator[IndexedPartition | None]) -> list[IndexedPartition] | None:
    partitions = []
    for record in records:
        if record is None or record.slots > _MOST_SLOTS:
            return None
        partitions.append(record)
    return partitions


def _parse_ranges(data: bytes, has_values: bool) -> Iterator[IndexedPartition | None]:
    """Yield partitions that are ranges of values; None for an invalid one."""
    layout = struct.Struct("<QQQBQ" if has_values else "<QQQB")
    for first, length, slots, active, *values in layout.iter_unpack(memoryview(data)[_HEADER.size :]):
        yield IndexedPartition((first, length), slots, bool(active), *(values or [None])) if active <= 1 else None


def _parse_texts(data: bytes, count: int, has_values: bool) -> Iterator[IndexedPartition | None]:
    """Yield partitions whose names are texts; None for an invalid one."""
    layout = struct.Struct("<QBQ" if has_values else "<QB")
    position = _HEADER.size
    for _ in range(count):
        if len(data) - position < 8:
            yield None
            return
        length = int.from_bytes(data[position : position + 8], "little")
        position += 8
        if length > len(data) - position - layout.size:
            yield None
            return
        slots, active, *values = layout.unpack_from(data, position + length)
        try:
            name = data[position : position + length].decode()
        except UnicodeDecodeError:
            yield None
            return
        yield IndexedPartition(name, slots, bool(active), *(values or [None])) if active <= 1 else None
        position += length + layout.size
    if position != len(data):
        yield None
