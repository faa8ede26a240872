"""`SplitBlockBloomFilter`: the compiled kernels applied to values of any Parquet type."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from .core.bloom import memory, sbbf, sizing
from .core.bloom.variants import FINAL, MASK, Variant
from .errors import BrokenFilterError, FilterTypeError
from .hashing import int96
from .hashing.arrow_keys import chunks_of, hash_values, keys_of, to_floats, to_storage, type_of
from .hashing.coerce import coerce, hash_literals, list_literals, make_scalar_hasher, stored_forms
from .hashing.column_type import ColumnType, Kind
from .metadata.filter_header import read_header, write_header
from .util.arrow_values import make_array, to_numpy
from .util.threads import in_order, processors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from .util.given_types import ArrowScalar, Value, Values

__all__ = ["SplitBlockBloomFilter", "hash_values"]

# NumPy scalars that equal a Python number; timedelta64, to NumPy an integer, is not among them.
_NUMPY_NUMBERS = tuple(np.dtype(code).type for code in "bhilqBHILQefd")
_ARRAY_SCALARS = (pa.Scalar, np.generic)

_MIN_KEYS = 1 << 19  # per slice: with fewer, starting a thread does not pay
_KEYS_PER_BLOCK = 8  # per slice: with fewer, inserting into a separate bitset and merging it does not pay


class SplitBlockBloomFilter(sbbf.Bitset):
    """A split-block Bloom filter, as stored in Parquet files: XXH64, blocks of 256 bits.

    A probe answers True, "maybe", or False, "certainly absent". Values are hashed as Parquet stores them, so the type
    matters: 5 as INT32 and 5 as INT64 are different keys. A filter read from a file is bound to its column's type, a
    new filter to the type of the first values inserted; values of another type are then converted exactly or refused.

    Parameters
    ----------
    num_bytes : size of the bitset in bytes: a multiple of 32, at least 32, below 2^36.
    variant : today's format, or the name of a draft of it (see `core.bloom.variants`): another hash, or block choice.

    See Also
    --------
    from_ndv : compute the size from a number of distinct values.
    from_bitset, from_bytes : make a filter over existing bytes.

    Notes
    -----
    Source: Parquet format, BloomFilter.md.

    Threads may insert, merge and probe at the same time: changes wait for each other, and a probe meanwhile sees each
    bit as it was or as it will be, so that values inserted before are found. Writes through `memoryview(filter)`, which
    is the filter's own memory, are not guarded. A process forked while a thread changes a filter must not change it as
    well: the lock stays locked there.

    Examples
    --------
    >>> import pyarrow as pa
    >>> filter = parquet_bloom.SplitBlockBloomFilter.from_ndv(1000, fpp=0.01)
    >>> filter.insert(pa.array(["ada", "grace"]))
    >>> filter.check(pa.array(["ada", "edsger"])).tolist()
    [True, False]
    >>> "grace" in filter
    True
    """

    __slots__ = ("_column_type", "_measured", "_variant")

    _column_type: ColumnType | None
    _measured: tuple[int, float] | None
    _variant: Variant

    def __init__(self, num_bytes: int, *, variant: Variant | str | None = None):
        if num_bytes < sbbf.BLOCK_BYTES or num_bytes % sbbf.BLOCK_BYTES or num_bytes // sbbf.BLOCK_BYTES >= 2**31:
            raise ValueError(f"num_bytes must be a multiple of 32, from 32 up to 64 GiB, not {num_bytes}")
        self._set_bitset(memory.zeros(num_bytes), None, Variant.of(variant))

    def _set_bitset(self, bitset: np.ndarray, column_type: ColumnType | None, variant: Variant) -> None:
        self._bitset = bitset
        self._variant = variant
        self._column_type = self._measured = None
        if column_type is not None:
            self._bind(column_type)

    def _bind(self, column_type: ColumnType) -> None:
        """Interpret values as those of a type from now on, the most frequent types in compiled code."""
        self._column_type = column_type
        if self._variant.is_native:
            self._expect(make_scalar_hasher(column_type))

    @classmethod
    def from_ndv(
        cls, ndv: float, fpp: float = 0.01, power_of_two: bool = True, *, variant: Variant | str | None = None
    ) -> SplitBlockBloomFilter:
        """Make an empty filter large enough for `ndv` distinct values at a false-positive probability of `fpp`.

        `power_of_two=False` takes the smallest multiple of 32 bytes instead, which not every reader accepts. The size
        follows the exact model for every `variant`; `core.bloom.sizing.draft_size_for` returns the size that writers of
        drafts chose.
        """
        return cls(sizing.size_for(ndv, fpp, power_of_two), variant=variant)

    @classmethod
    def from_bitset(
        cls,
        buffer: Buffer | NDArray[Any],
        column_type: ColumnType | None = None,
        copy: bool = False,
        *,
        variant: Variant | str | None = None,
    ) -> SplitBlockBloomFilter:
        """Make a filter over the bytes of `buffer`: read-only and not copied, or writable over a copy.

        Parameters
        ----------
        buffer : object with the buffer protocol, 32 bytes or more. Bytes after the last complete block, which some
            writers leave, are preserved and ignored.
        column_type : type of the filter's column.
        copy : whether to copy the bytes into the filter's own memory, which is writable and faster to probe: no block
            spans two cache lines, and from 2 MiB on pages are huge. Pays off from about one probe per block on.
        variant : how keys were inserted; today's format, or the name of a draft of it.
        """
        bitset = np.frombuffer(cast(memoryview, buffer), dtype=np.uint8)
        if len(bitset) < sbbf.BLOCK_BYTES:
            raise ValueError(f"a filter has at least 32 bytes, not {len(bitset)}")
        if copy:
            bitset = memory.copied(bitset)
        else:
            bitset = bitset.view()
            bitset.flags.writeable = False
        return cls._make(bitset, column_type, Variant.of(variant))

    @classmethod
    def from_bytes(
        cls,
        data: Buffer | NDArray[Any],
        column_type: ColumnType | None = None,
        copy: bool = False,
        *,
        variant: Variant | str | None = None,
    ) -> SplitBlockBloomFilter:
        """Make a filter over a header followed by its bitset, as stored in a file; see `from_bitset`.

        Raises
        ------
        BrokenFilterError
            There is no header of the variant, or the bitset does not have the length given there.
        """
        view = memoryview(cast(memoryview, data)).cast("B")
        header = read_header(view, Variant.of(variant))
        remaining = len(view) - header.header_bytes
        if header.problem or header.num_bytes != remaining:
            problem = header.problem or f"header says {header.num_bytes} bytes, {remaining} follow it"
            raise BrokenFilterError(problem)
        return cls.from_bitset(view[header.header_bytes :], column_type, copy, variant=variant)

    @classmethod
    def _make(
        cls, bitset: np.ndarray, column_type: ColumnType | None, variant: Variant = FINAL
    ) -> SplitBlockBloomFilter:
        instance = cls.__new__(cls)
        instance._set_bitset(bitset, column_type, variant)
        return instance

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def num_bytes(self) -> int:
        """Size of the bitset in bytes."""
        return len(self._bitset)

    @property
    def num_blocks(self) -> int:
        """Number of complete 32-byte blocks."""
        return len(self._bitset) // sbbf.BLOCK_BYTES

    @property
    def column_type(self) -> ColumnType | None:
        """The type that values are hashed as; None while the filter is not bound to one."""
        return self._column_type

    @property
    def variant(self) -> Variant:
        """The way keys are hashed and placed: today's format, or a draft of it."""
        return self._variant

    @property
    def readonly(self) -> bool:
        """True for a filter over a buffer that was given, False for one that values can be inserted into."""
        return not self._bitset.flags.writeable

    def _measure(self) -> tuple[int, float]:
        if self._measured is not None:
            return self._measured
        measured = sbbf.measure(self._bitset)
        if self.readonly:  # otherwise the bits may change, through a memoryview too
            self._measured = measured
        return measured

    @property
    def fill(self) -> float:
        """Share of the bits that are set, 0 to 1."""
        return self._measure()[0] / (256 * self.num_blocks)

    @property
    def fpp(self) -> float:
        """The probability that a random absent key is answered "maybe", from the bits that are set."""
        return self._measure()[1]

    @property
    def ndv_estimate(self) -> float:
        """Number of distinct keys inserted, estimated from the bits that are set; inf when all are."""
        return sizing.ndv_for(self._measure()[0], self.num_bytes)

    # ------------------------------------------------------------------------------------------------ keys

    def insert(self, values: Values | ArrowScalar, type: pa.DataType | None = None, threads: int | None = 1) -> None:
        """Insert values; nulls are left out.

        Parameters
        ----------
        values : pyarrow Array, ChunkedArray, Scalar; NumPy array; object with `__arrow_c_array__` or
            `__arrow_c_stream__`; list or tuple.
        type : Arrow type of Python values; inferred when None.
        threads : most threads to use; None for one per processor. Each fills its own bitset, so that only as many are
            used as get at least half a million keys, and 8 keys per block of the filter.

        Raises
        ------
        FilterTypeError
            The values are not of the filter's type and cannot be converted exactly.
        UnsupportedTypeError
            Booleans, and nested types.
        ValueError
            The filter is read-only.
        """
        most = _resolve_threads(threads)
        bitset = self._writable()
        # An empty list, or one of nulls, has no values, and no type to bind the filter to.
        chunks: Iterable[pa.Array] = (array for array in chunks_of(values, type) if not pa.types.is_null(array.type))
        if most > 1:
            chunks = list(chunks)
            fewest = max(_MIN_KEYS, _KEYS_PER_BLOCK * self.num_blocks)
            builders = min(most, sum(map(len, chunks)) // fewest)
            if builders > 1:
                self._insert_shares(_split_evenly(chunks, builders))
                return
        for array in chunks:
            with self._lock:
                self._insert_array(array, bitset)

    def _insert_array(self, array: pa.Array, bitset: np.ndarray) -> None:
        column_type = self._column_type or type_of(array)
        keys = keys_of(to_storage(array, column_type))
        if self._column_type is None:
            self._bind(column_type)
        sbbf.insert_keys(bitset, self._variant.keys_for(keys, self.num_blocks))

    def _insert_shares(self, shares: list[list[pa.Array]]) -> None:
        """Insert each share in a thread: the first into this filter, the others into bitsets that are then merged."""

        def build(share: list[pa.Array]) -> np.ndarray:
            bitset = self._bitset if share is shares[0] else memory.zeros(self.num_bytes)
            for array in share:
                self._insert_array(array, bitset)
            return bitset

        with self._lock:
            if self._column_type is None:  # here, so that the threads agree
                self._bind(type_of(shares[0][0]))
            with in_order(build, shares, len(shares)) as built:
                for bitset in built:
                    if bitset is not self._bitset:
                        sbbf.merge(self._bitset, bitset)

    def check(
        self, values: Values | ArrowScalar, type: pa.DataType | None = None, threads: int | None = 1
    ) -> np.ndarray:
        """Probe values: return a bool array with one answer each, False only for a value that is certainly absent.

        Nulls and NaN answer True, since filters do not contain them. Zero is probed under both signs.

        Parameters
        ----------
        values, type : as in `insert`. Values of another type than the filter's are converted exactly; one that no value
            of the filter's type can equal is absent.
        threads : most threads to use; None for one per processor. Only as many are used as get half a million keys.

        Raises
        ------
        FilterTypeError
            The values are of another kind than the filter's, so that their absence cannot be determined.
        """
        chunks = list(chunks_of(values, type))
        probers = min(_resolve_threads(threads), sum(map(len, chunks)) // _MIN_KEYS)
        if probers > 1:
            pieces = [array for share in _split_evenly(chunks, probers) for array in share]
            with in_order(self._check_array, pieces, probers) as answers:
                return np.concatenate(list(answers))
        results = [self._check_array(array) for array in chunks]
        if len(results) == 1:
            return results[0]
        return np.concatenate(results) if results else np.empty(0, np.bool_)

    def _check_array(self, array: pa.Array) -> np.ndarray:
        column_type = self._column_type or type_of(array)
        try:
            storage = to_storage(array, column_type)
        except FilterTypeError:
            return self._check_slowly(array, column_type)
        if column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY":
            return self._check_slowly(array, column_type)  # a value has more than one stored form
        answers = self._check_storage(storage)
        if column_type.signed_zero and not answers.all():
            floats = to_floats(storage)
            answers |= np.isnan(floats)
            if (zeros := floats == 0).any():
                answers |= zeros & self._contains_any(stored_forms((0.0,), column_type))
        if column_type.physical == "INT96" and not answers.all():
            for forms in int96.make_other_forms(storage):
                answers |= self._check_storage(forms)
        return answers

    def _check_storage(self, storage: pa.Array) -> np.ndarray:
        keys = self._variant.keys_for(keys_of(storage), self.num_blocks)
        answers = sbbf.check_keys(self._bitset, keys)
        if len(answers) == len(storage):
            return answers
        with_nulls = np.ones(len(storage), np.bool_)  # a draft's keys are without nulls
        with_nulls[to_numpy(storage.is_valid())] = answers
        return with_nulls

    def _check_slowly(self, array: pa.Array, column_type: ColumnType) -> np.ndarray:
        """Check values as literals, for arrays whose type is not the column's."""
        literals = [None if isinstance(one, float) and math.isnan(one) else one for one in list_literals(array)]
        hashed = hash_literals(literals, column_type, hash_function=self._variant.hash_keys)
        for reason in hashed.reasons.values():
            raise FilterTypeError(reason)
        answers = np.array([literal is None for literal in literals], np.bool_)
        answers[hashed.literals[self.check_hashes(hashed.hashes)]] = True
        return answers

    def insert_hashes(self, hashes: np.ndarray) -> None:
        """Insert keys given by their hashes (uint64 array): XXH64, or the variant's."""
        with self._lock:
            sbbf.insert_hashes(self._writable(), self._variant.placed(_as_hashes(hashes), self.num_blocks))

    def check_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Probe keys given by their hashes (uint64 array): XXH64, or the variant's. Returns a bool array."""
        return sbbf.check_hashes(self._bitset, self._variant.placed(_as_hashes(hashes), self.num_blocks))

    # The compiled class implements `value in filter` and calls this for values that it does not handle itself, and for
    # all values of drafts.

    def _contains_slowly(self, value: object) -> bool:
        array_scalar = isinstance(value, _ARRAY_SCALARS) and not isinstance(value, str | bytes)
        literal = value.item() if array_scalar and isinstance(value, _NUMPY_NUMBERS) else value
        if self._column_type is not None and (not array_scalar or literal is not value):
            coerced = coerce([literal], self._column_type)
            if coerced.unknown is None:
                forms = stored_forms(coerced.values, self._column_type)
                return literal is None or self._contains_any(forms)
        if isinstance(value, np.generic):
            value = np.array([value])
        return bool(self.check(value if isinstance(value, pa.Scalar | np.ndarray) else [cast("Value", value)])[0])

    def _contains_any(self, keys: Iterable[bytes]) -> bool:
        if self._variant.is_native:
            return super()._contains_any(keys)
        forms = make_array(list(keys), pa.large_binary())
        return bool(self._check_storage(forms).any())

    def _writable(self) -> np.ndarray:
        if self.readonly:
            raise ValueError("the filter is read-only: its bytes belong to the buffer it was made from")
        return self._bitset

    # ------------------------------------------------------------------------------------------------ whole filters

    def merge(self, other: SplitBlockBloomFilter) -> SplitBlockBloomFilter:
        """Add every key of `other`, a filter of the same size, type and variant, and return this filter."""
        bitset = self._writable()
        if self._variant != other._variant:
            raise FilterTypeError(
                f"a filter of variant {other._variant} cannot be merged into one of variant {self._variant}"
            )
        with self._lock:
            theirs = other._column_type  # read once: another thread may bind it
            if None not in (self._column_type, theirs) and self._column_type != theirs:
                raise FilterTypeError(f"a filter of {theirs} cannot be merged into one of {self._column_type}")
            sbbf.merge(bitset, other._bitset)
            if self._column_type is None and theirs is not None:
                self._bind(theirs)
        return self

    def fold(self, fpp: float = 0.01) -> SplitBlockBloomFilter:
        """Return a new filter with the same keys, halved as long as its false-positive probability is at most `fpp`.

        The filter itself does not change; one with an odd number of blocks cannot be halved.
        """
        if not 0 < fpp < 1:
            raise ValueError(f"fpp must lie between 0 and 1, not {fpp}")
        cls, column_type = type(self), self._column_type
        halve = _fold_by_mask if self._variant.block == MASK else sbbf.fold
        folded = self._bitset[: sbbf.BLOCK_BYTES * self.num_blocks]
        while len(folded) // sbbf.BLOCK_BYTES % 2 == 0:
            half = halve(folded)
            if sbbf.measure(half)[1] > fpp:
                break
            folded = half
        bitset = memory.copied(folded) if np.may_share_memory(folded, self._bitset) else folded
        return cls._make(bitset, column_type, self._variant)

    def to_bytes(self, header: bool = False) -> bytes:
        """Return the bitset as bytes, as a Parquet file stores it; with `header`, preceded by its header."""
        return (write_header(self.num_bytes, self._variant) if header else b"") + self._bitset.tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SplitBlockBloomFilter):
            return NotImplemented
        return self._variant == other._variant and np.array_equal(self._bitset, other._bitset)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self.to_bytes(), self._column_type, self.readonly, self._variant)

    def __repr__(self) -> str:
        bound = f" of {self._column_type}" if self._column_type else ""
        bound += "" if self._variant == FINAL else f", variant {self._variant}"
        return f"<SplitBlockBloomFilter{bound}: {self.num_bytes} bytes, fill {self.fill:.3f}, fpp {self.fpp:.2g}>"


def _as_hashes(hashes: object) -> np.ndarray:
    """Check that hashes are uint64; NumPy would silently convert other numbers into unintended hashes."""
    array = np.asarray(hashes)
    if array.dtype != np.uint64 or array.ndim != 1:
        raise FilterTypeError(
            f"hashes must be a one-dimensional array of uint64, not of {array.dtype} and shape {array.shape}"
        )
    return np.ascontiguousarray(array)


def _fold_by_mask(bitset: np.ndarray) -> np.ndarray:
    """Fold the bitset: OR the upper half into the lower one, where the mask of half the blocks sends its keys."""
    lower, upper = np.split(bitset, 2)
    return memory.copied(lower | upper)


def _unpickle(
    bitset: bytes, column_type: ColumnType | None, readonly: bool, variant: Variant = FINAL
) -> SplitBlockBloomFilter:
    return SplitBlockBloomFilter.from_bitset(bitset, column_type, copy=not readonly, variant=variant)


def _resolve_threads(threads: int | None) -> int:
    if threads is None:
        return processors()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be an integer of at least 1, got {threads!r}")
    return threads


def _split_evenly(chunks: list[pa.Array], count: int) -> list[list[pa.Array]]:
    """Split arrays, in order, into at most `count` lists of about the same number of values."""
    size = -(-sum(map(len, chunks)) // count)
    size += -size % 64  # slices begin at whole bytes of a validity bitmap, and at cache lines
    shares: list[list[pa.Array]] = [[]]
    room = size
    for array in chunks:
        start = 0
        while start < len(array):
            if room == 0:
                shares.append([])
                room = size
            piece = array.slice(start, room)
            shares[-1].append(piece)
            start += len(piece)
            room -= len(piece)
    return shares
