"""Build the filters of zones, and probe them in memory or in files."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom import sbbf
from ..core.bloom.blocks import check_blocks
from ..core.bloom.sizing import BLOCK_BYTES, MAX_BYTES, MIN_BYTES
from ..errors import BrokenZonesError
from ..file.identity import require_unchanged
from ..file.probe_file import gather_blocks
from ..hashing.arrow_keys import chunks_of
from ..storage import Source
from .zone_hashes import array_keys

if TYPE_CHECKING:
    from ..util.given_types import ArrowScalar, Values

_MAX_KEYS_PER_BLOCK = 749  # the sum goes from here down to 0
_MAX_KEYS_PER_BIT = 2  # with more keys a filter is assumed to always answer "maybe"


def _log_match_probability(keys: int) -> float:
    """Return the logarithm of the probability that a block of `keys` keys answers "maybe" for another key."""
    return -math.inf if keys == 0 else 8 * math.log(1 - (31 / 32) ** keys)


_LOG_MATCH_PROBABILITIES = [_log_match_probability(keys) for keys in range(_MAX_KEYS_PER_BLOCK + 1)]
_LOG_FACTORIALS = [math.lgamma(keys + 1) for keys in range(_MAX_KEYS_PER_BLOCK + 1)]


def lance_fpp(items: int, num_bytes: int) -> float:
    """Return the false-positive probability that Lance computes for a filter of `num_bytes` bytes with `items` keys."""
    if items == 0:
        return 0.0
    if items / (8 * num_bytes) > _MAX_KEYS_PER_BIT:
        return 1.0
    mean = 256 * items / (8 * num_bytes)
    total = 0.0
    for keys in range(_MAX_KEYS_PER_BLOCK, -1, -1):  # the small terms first, as Lance adds them
        total += math.exp(keys * math.log(mean) - mean - _LOG_FACTORIALS[keys] + _LOG_MATCH_PROBABILITIES[keys])
    return min(total, 1.0)


def lance_num_bytes(items: int, probability: float) -> int:
    """Return the size in bytes of a filter that Lance makes for a number of items.

    Parameters
    ----------
    items : keys expected in a zone, 1 or more.
    probability : false-positive probability, between 0 and 1.

    Returns
    -------
    The smallest power of two from 32 bytes to 128 MiB that meets the probability; 128 MiB where none does.

    Examples
    --------
    >>> parquet_bloom.zones.lance_num_bytes(8192, 0.00057)
    32768
    """
    if isinstance(items, bool) or not isinstance(items, int) or not 1 <= items < 1 << 63:
        raise ValueError(f"items must be an integer of at least 1, got {items!r}")
    if not 0 < probability < 1:
        raise ValueError(f"the probability must be between 0 and 1, got {probability!r}")
    return _find_num_bytes(items, float(probability))


@lru_cache(maxsize=256)
def _find_num_bytes(items: int, probability: float) -> int:
    size = MIN_BYTES
    while size < MAX_BYTES and lance_fpp(items, size) > probability:
        size *= 2
    return size


_BLOCKS_PER_READ = 1 << 16  # 2 MiB
_BYTES_PER_READ = 1 << 24  # of whole filters
_ANSWERS_AT_ONCE = 1 << 20  # of filters in memory, a byte each

# So many keep one filter busy: of 4,000 filters of 8 KiB, one hash takes 0.1 ms in all filters at once and 18 ms in one
# after the other, 3,000 hashes take 113 and 43 ms.
_MANY_HASHES = 500


def lance_filter(values: Values | ArrowScalar, items: int = 8192, probability: float = 0.00057) -> bytes:
    """Build the filter of a zone of these values, bit for bit as Lance does.

    Parameters
    ----------
    values : pyarrow Array, ChunkedArray, Scalar; NumPy array; object with `__arrow_c_array__` or `__arrow_c_stream__`;
        list or tuple. The Arrow type determines the hashed bytes: one for each int8. Nulls are ignored.
    items, probability : size of the filter, as Lance's options `number_of_items` and `probability`.

    Returns
    -------
    The bitset.

    Raises
    ------
    UnsupportedTypeError
        Booleans, and nested types.

    Examples
    --------
    >>> from parquet_bloom import zones
    >>> len(zones.lance_filter([1401181143]))
    32768
    """
    bitset = np.zeros(lance_num_bytes(items, probability), np.uint8)
    for array in chunks_of(values):
        sbbf.insert_keys(bitset, array_keys(array))
    return bitset.tobytes()


class FilterPart(ABC):
    """A sequence of filters of an index, which threads may share.

    Attributes
    ----------
    count : number of filters.
    """

    count: int

    @abstractmethod
    def check(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each of some filters, given by number from 0, whether it may contain one of the hashes."""

    @abstractmethod
    def read(self, first: int, count: int) -> pa.BinaryArray:
        """Read consecutive filters in full."""

    @abstractmethod
    def require_length(self, length: int) -> None:
        """Raise BrokenZonesError unless all filters have this length in bytes; lazy ones raise when they are read."""


class InMemoryFilters(FilterPart):
    """ZoneFilters in memory.

    Parameters
    ----------
    array : binary values, whose lengths are checked.
    path : their file, for errors.
    """

    def __init__(self, array: pa.Array, path: str | None = None):
        self.count = len(array)
        wide = pa.types.is_large_binary(array.type)
        buffers = array.buffers()
        dtype = np.dtype("<i8" if wide else "<i4")
        if self.count == 0:
            offsets = np.zeros(1, np.int64)
        else:
            first = array.offset * dtype.itemsize
            offsets = np.frombuffer(buffers[1], dtype, self.count + 1, first).astype(np.int64)
        lengths = np.diff(offsets)
        require_lengths(lengths, path)
        self._array, self._path = array, path
        self._offsets, self._lengths = offsets[:-1], lengths
        self._data = np.frombuffer(buffers[2] or b"", np.uint8)

    def check(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        return _probe(self._data, self._offsets[rows], self._lengths[rows], hashes)

    def read(self, first: int, count: int) -> pa.BinaryArray:
        return self._array.slice(first, count)

    def require_length(self, length: int) -> None:
        _require_length(self._lengths, length, self._path)


class LayoutCheck(NamedTuple):
    """Bytes of a file that prove the assumed location of its filters; they are fetched with the first blocks.

    Attributes
    ----------
    offset, length : location of the bytes.
    holds : returns whether the bytes confirm the location.
    """

    offset: int
    length: int
    holds: Callable[[bytes], bool]


class MisplacedError(Exception):
    """ZoneFilters are not at their assumed location."""


class StoredFilters(FilterPart):
    """ZoneFilters at given locations in a file, of which only the needed blocks are read.

    Parameters
    ----------
    source : the file, which the caller closes.
    offsets, lengths : location of each filter in bytes.
    proof : proves that the locations are right, else methods raise MisplacedError; None if they are known to be right.
    """

    def __init__(
        self,
        source: Source,
        offsets: NDArray[np.int64],
        lengths: NDArray[np.int64],
        proof: LayoutCheck | None = None,
    ):
        require_lengths(lengths, source.name)
        source.require_inside(offsets, lengths)
        self.count = len(offsets)
        self._source, self._offsets, self._lengths, self._proof = source, offsets, lengths, proof

    def check(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        if not len(hashes):
            return np.zeros(len(rows), np.bool_)
        mask = np.empty(len(rows), np.bool_)
        read_fully = self._lengths[rows] <= BLOCK_BYTES * len(hashes)
        by_block = np.flatnonzero(~read_fully)
        step = max(1, _BLOCKS_PER_READ // len(hashes))
        for start in range(0, len(by_block), step):
            batch = by_block[start : start + step]
            mask[batch] = self._check_blocks(rows[batch], hashes)
        in_full = np.flatnonzero(read_fully)
        while len(in_full):
            num_filters = int(np.searchsorted(np.cumsum(self._lengths[rows[in_full]]), _BYTES_PER_READ, "right"))
            batch, in_full = in_full[: max(1, num_filters)], in_full[max(1, num_filters) :]
            mask[batch] = self._check_in_full(rows[batch], hashes)
        require_unchanged(self._source)
        return mask

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        proof = self._proof
        if proof is None:
            return self._source.gather(offsets, lengths)
        data = self._source.gather(np.append(offsets, proof.offset), np.append(lengths, proof.length))
        if not proof.holds(data[len(data) - proof.length :].tobytes()):
            raise MisplacedError
        self._proof = None
        return data[: len(data) - proof.length]

    def _check_blocks(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        blocks, (numbers,) = gather_blocks(self._gather, [(self._offsets[rows], self._lengths[rows], hashes)])
        return np.asarray(check_blocks(blocks, numbers, hashes).any(axis=1))

    def _check_in_full(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        lengths = self._lengths[rows]
        data = self._gather(self._offsets[rows], lengths)
        return _probe(data, np.cumsum(lengths) - lengths, lengths, hashes)

    def read(self, first: int, count: int) -> pa.BinaryArray:
        lengths = self._lengths[first : first + count]
        data = self._gather(self._offsets[first : first + count], lengths)
        require_unchanged(self._source)
        return _binary_array(data, lengths)

    def require_length(self, length: int) -> None:
        _require_length(self._lengths, length, self._source.name)


class LazyFilters(FilterPart):
    """ZoneFilters that are located or read at their first use.

    Parameters
    ----------
    count : expected number of filters.
    load : locates or reads them.
    path : their file, for errors.
    guess : filters at assumed locations, which save a call of `load` if they are right.
    """

    def __init__(
        self,
        count: int,
        load: Callable[[], FilterPart],
        path: str | None = None,
        guess: StoredFilters | None = None,
    ):
        self.count = count
        self._guess = guess
        self._load, self._path = load, path
        self._loaded: FilterPart | None = None
        self._length: int | None = None
        self._lock = Lock()

    def _load_part(self) -> FilterPart:
        with self._lock:
            part = self._loaded
            if part is None:
                part = self._load()
                if part.count != self.count:
                    raise BrokenZonesError(f"{part.count} filters, expected {self.count}", path=self._path)
                if self._length is not None:
                    part.require_length(self._length)
                self._loaded = part
        return part

    def check(self, rows: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        guess = self._guess
        if guess is not None:
            try:
                return guess.check(rows, hashes)
            except MisplacedError:
                self._guess = None
        return self._load_part().check(rows, hashes)

    def read(self, first: int, count: int) -> pa.BinaryArray:
        guess = self._guess
        if guess is not None:
            try:
                return guess.read(first, count)
            except MisplacedError:
                self._guess = None
        return self._load_part().read(first, count)

    def require_length(self, length: int) -> None:
        self._length = length
        if self._guess is not None:
            self._guess.require_length(length)


class ZoneFilters:
    """All filters of an index, by the ordinals of their zones."""

    def __init__(self, parts: list[FilterPart]):
        self._parts = parts
        self._ends = np.cumsum([part.count for part in parts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def check(self, zones: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each of some zones whether it may contain one of the hashes."""
        mask = np.zeros(len(zones), np.bool_)
        if not len(hashes) or not len(zones):
            return mask
        if zones.min() < 0 or zones.max() >= len(self):
            raise ValueError(f"zones must be from 0 to {len(self) - 1}")
        if len(self._parts) == 1:
            return self._parts[0].check(zones, hashes)
        of_part = np.searchsorted(self._ends, zones, "right")
        for i in np.unique(of_part).tolist():
            members = np.flatnonzero(of_part == i)
            part = self._parts[i]
            mask[members] = part.check(zones[members] - (self._ends[i] - part.count), hashes)
        return mask

    def require_length(self, length: int) -> None:
        for part in self._parts:
            part.require_length(length)

    def read(self, first: int, count: int) -> pa.ChunkedArray:
        """Return the bitsets of consecutive zones."""
        arrays = []
        start = 0
        for part in self._parts:
            low, high = max(first, start), min(first + count, start + part.count)
            if low < high:
                arrays.append(part.read(low - start, high - low).cast(pa.binary()))
            start += part.count
        return pa.chunked_array(arrays, pa.binary())


def _probe(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], lengths: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Return for each bitset in memory whether it may contain one of the hashes."""
    mask = np.empty(len(offsets), np.bool_)
    if len(hashes) > _MANY_HASHES:
        for i, (start, length) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
            mask[i] = sbbf.check_hashes(data[start : start + length], hashes).any()
        return mask
    step = _ANSWERS_AT_ONCE // _MANY_HASHES
    for start in range(0, len(offsets), step):
        some = slice(start, start + step)
        mask[some] = sbbf.probe_filters(data, offsets[some], lengths[some], hashes).any(axis=1)
    return mask


def require_lengths(lengths: NDArray[np.int64], path: str | None) -> None:
    """Raise BrokenZonesError unless bitsets consist of whole blocks, from one to the maximum of a filter."""
    bad = (lengths < BLOCK_BYTES) | (lengths % BLOCK_BYTES != 0) | (lengths > MAX_BYTES)
    if bad.any():
        first = int(bad.argmax())
        problem = (
            f"zone {first}: a filter of {int(lengths[first])} bytes; filters have whole blocks of 32, up to 128 MiB"
        )
        raise BrokenZonesError(problem, path=path)


def _require_length(lengths: NDArray[np.int64], length: int, path: str | None) -> None:
    mismatch = lengths != length
    if mismatch.any():
        first = int(mismatch.argmax())
        problem = f"zone {first}: a filter of {int(lengths[first])} bytes; all have {length}"
        raise BrokenZonesError(problem, path=path)


def _binary_array(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> pa.BinaryArray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
