"""SplitBlockBloomFilter: the compiled kernels over values of any Parquet type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from .core import sbbf, sizing
from .errors import FilterTypeError
from .hashing import arrays, literals
from .hashing.physical import ColumnType, Kind

__all__ = ["SplitBlockBloomFilter"]


class SplitBlockBloomFilter(sbbf.Bitset):
    """A split-block Bloom filter, as Parquet files carry them: XXH64, blocks of 256 bits.

    A probe answers True, "maybe", or False, "certainly absent". Values are hashed as Parquet stores them, so the type
    matters: 5 as INT32 and 5 as INT64 are different keys. A filter read from a file is bound to its column's type, one
    made here to the type of the first values inserted; values of another type are then converted exactly or refused.

    Parameters
    ----------
    num_bytes : size of the bitset in bytes: a multiple of 32, at least 32, below 2^36.

    See Also
    --------
    from_ndv : the size from a number of distinct values.
    from_bitset : a filter over bytes that exist.

    Notes
    -----
    Source: Parquet format, BloomFilter.md. Reading from several threads is safe; inserting is not.

    Examples
    --------
    >>> import pyarrow as pa
    >>> filter = SplitBlockBloomFilter.from_ndv(1000, fpp=0.01)
    >>> filter.insert(pa.array(["ada", "grace"]))
    >>> filter.check(pa.array(["ada", "edsger"])).tolist()
    [True, False]
    >>> "grace" in filter
    True
    """

    __slots__ = ("_column_type", "_measured")

    def __init__(self, num_bytes: int):
        if num_bytes < sbbf.BLOCK_BYTES or num_bytes % sbbf.BLOCK_BYTES or num_bytes // sbbf.BLOCK_BYTES >= 2**31:
            raise ValueError(f"a filter's size is a multiple of 32 bytes, from 32 up to 64 GiB, not {num_bytes}")
        self._bitset = np.zeros(num_bytes, dtype=np.uint8)
        self._column_type: ColumnType | None = None
        self._measured: tuple[int, float] | None = None

    @classmethod
    def from_ndv(cls, ndv: float, fpp: float = 0.01, power_of_two: bool = True) -> SplitBlockBloomFilter:
        """An empty filter large enough for `ndv` distinct values at a false-positive probability of `fpp`.

        `power_of_two=False` takes the smallest multiple of 32 bytes instead, which not every reader accepts.
        """
        return cls(sizing.size_for(ndv, fpp, power_of_two))

    @classmethod
    def from_bitset(cls, buffer: Any, column_type: ColumnType | None = None) -> SplitBlockBloomFilter:
        """A read-only filter over the bytes of `buffer`, which are not copied.

        Parameters
        ----------
        buffer : object with the buffer protocol, 32 bytes or more. Bytes past the last whole block are kept and never
            looked at: some writers leave them.
        column_type : type of the column that the filter stands for.
        """
        bitset = np.frombuffer(buffer, dtype=np.uint8)
        if len(bitset) < sbbf.BLOCK_BYTES:
            raise ValueError(f"a filter has at least 32 bytes, not {len(bitset)}")
        made = cls.__new__(cls)
        made._bitset = bitset.view()
        made._bitset.flags.writeable = False
        made._column_type = column_type
        made._measured = None
        return made

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def num_bytes(self) -> int:
        """Size of the bitset in bytes."""
        return len(self._bitset)

    @property
    def num_blocks(self) -> int:
        """Number of whole 32-byte blocks."""
        return len(self._bitset) // sbbf.BLOCK_BYTES

    @property
    def column_type(self) -> ColumnType | None:
        """The type that values are hashed as; None while the filter is not bound to one."""
        return self._column_type

    @property
    def readonly(self) -> bool:
        """True for a filter over a buffer that was given, False for one that values can be inserted into."""
        return not self._bitset.flags.writeable

    def _measure(self) -> tuple[int, float]:
        if self._measured is not None:
            return self._measured
        measured = sbbf.measure(self._bitset)
        if self.readonly:  # else the bits may change, through a memoryview too
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
        """How many distinct keys were inserted, estimated from the bits that are set; inf when all are."""
        return sizing.ndv_for(self._measure()[0], self.num_bytes)

    # ------------------------------------------------------------------------------------------------ keys

    def insert(self, values: Any, type: pa.DataType | None = None) -> None:
        """Insert values; nulls are left out.

        Parameters
        ----------
        values : pyarrow Array, ChunkedArray, Scalar; NumPy array; object with `__arrow_c_array__` or
            `__arrow_c_stream__`; list or tuple.
        type : Arrow type of Python values; inferred when None.

        Raises
        ------
        FilterTypeError
            The values are not of the filter's type and cannot be converted exactly.
        UnsupportedTypeError
            Booleans, and nested types.
        ValueError
            The filter is read-only.
        """
        bitset = self._writable()
        for array in arrays.chunks_of(values, type):
            if pa.types.is_null(array.type):
                continue  # an empty list, or one of nulls: no values, and no type to be bound to
            column_type = self._column_type or arrays.type_of(array)
            keys = arrays.keys_of(arrays.to_storage(array, column_type))
            self._column_type = column_type
            sbbf.insert_keys(bitset, keys)

    def check(self, values: Any, type: pa.DataType | None = None) -> np.ndarray:
        """Probe values: a bool array with one answer each, False only for a value that is certainly absent.

        Nulls and NaN answer True: a filter knows nothing of them. Zero is looked for under both signs.

        Parameters
        ----------
        values, type : as in `insert`. Values of another type than the filter's are converted exactly; one that no value
            of the filter's type can equal is absent.

        Raises
        ------
        FilterTypeError
            Whether the values are absent cannot be said, as they are of another kind than the filter's.
        """
        found = [self._check_array(array) for array in arrays.chunks_of(values, type)]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty(0, np.bool_)

    def _check_array(self, array: pa.Array) -> np.ndarray:
        column_type = self._column_type or arrays.type_of(array)
        try:
            storage = arrays.to_storage(array, column_type)
        except FilterTypeError:
            return self._check_slowly(array, column_type)
        if column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY":
            return self._check_slowly(array, column_type)  # each value has several stored forms
        found = sbbf.check_keys(self._bitset, arrays.keys_of(storage))
        if column_type.signed_zero and not found.all():
            floats = arrays.floats_of(storage)
            found |= np.isnan(floats)
            if (zeros := floats == 0).any():
                found |= zeros & self.check_hashes(literals.hashes((0.0,), column_type)).any()
        return found

    def _check_slowly(self, array: pa.Array, column_type: ColumnType) -> np.ndarray:
        """One value at a time, for arrays that are not of the column's own type."""
        found = np.empty(len(array), np.bool_)
        for i, (value, coerced) in enumerate(arrays.coerced_values(array, column_type)):
            if coerced.unknown is not None and not (isinstance(value, float) and math.isnan(value)):
                raise FilterTypeError(coerced.unknown)
            missing = value is None or coerced.unknown is not None
            found[i] = missing or self.check_hashes(literals.hashes(coerced.values, column_type)).any()
        return found

    def insert_hashes(self, hashes: np.ndarray) -> None:
        """Insert keys given by their XXH64 hashes (uint64 array)."""
        sbbf.insert_hashes(self._writable(), _as_hashes(hashes))

    def check_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """Probe keys given by their XXH64 hashes (uint64 array): a bool array."""
        return sbbf.check_hashes(self._bitset, _as_hashes(hashes))

    def __contains__(self, value: Any) -> bool:
        """Probe one value: a Python value or an Arrow scalar. False only when it is certainly absent."""
        if self._column_type is not None and not isinstance(value, pa.Scalar | np.generic):
            coerced = literals.coerce(value, self._column_type)
            if coerced.unknown is None:
                hashes = literals.hashes(coerced.values, self._column_type)
                return value is None or bool(sbbf.check_hashes(self._bitset, hashes).any())
        if isinstance(value, np.generic):
            value = np.array([value])
        return bool(self.check(value if isinstance(value, pa.Scalar | np.ndarray) else [value])[0])

    def _writable(self) -> np.ndarray:
        if self.readonly:
            raise ValueError("the filter is read-only: its bytes belong to the buffer it was made from")
        return self._bitset

    # ------------------------------------------------------------------------------------------------ whole filters

    def merge(self, other: SplitBlockBloomFilter) -> SplitBlockBloomFilter:
        """Take in every key of `other`, a filter of the same size and type, and return this filter."""
        bitset = self._writable()
        if None not in (self._column_type, other._column_type) and self._column_type != other._column_type:
            raise FilterTypeError(f"a filter of {other._column_type} cannot be merged into one of {self._column_type}")
        sbbf.merge(bitset, other._bitset)
        self._column_type = self._column_type or other._column_type
        return self

    def fold(self, fpp: float = 0.01) -> SplitBlockBloomFilter:
        """A new filter with the same keys, halved as often as its false-positive probability stays at most `fpp`.

        The filter itself stays as it is; one with an odd number of blocks cannot be halved.
        """
        if not 0 < fpp < 1:
            raise ValueError(f"fpp must lie between 0 and 1, not {fpp}")
        folded = self._like(self._bitset[: 32 * self.num_blocks].copy())
        while folded.num_blocks % 2 == 0:
            half = self._like(sbbf.fold(folded._bitset))
            if half.fpp > fpp:
                break
            folded = half
        return folded

    def _like(self, bitset: np.ndarray) -> SplitBlockBloomFilter:
        made = type(self).__new__(type(self))
        made._bitset, made._column_type, made._measured = bitset, self._column_type, None
        return made

    def to_bytes(self) -> bytes:
        """The bitset, as a Parquet file holds it behind the header."""
        return self._bitset.tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SplitBlockBloomFilter):
            return NotImplemented
        return np.array_equal(self._bitset, other._bitset)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.to_bytes(), self._column_type, self.readonly)

    def __repr__(self) -> str:
        bound = f" of {self._column_type}" if self._column_type else ""
        return f"<SplitBlockBloomFilter{bound}: {self.num_bytes} bytes, fill {self.fill:.3f}, fpp {self.fpp:.2g}>"


def _as_hashes(hashes: Any) -> np.ndarray:
    """Hashes as the kernels take them; NumPy would turn other numbers into hashes that were not meant."""
    array = np.asarray(hashes)
    if array.dtype != np.uint64 or array.ndim != 1:
        raise FilterTypeError(f"hashes are an array of uint64, not of {array.dtype} and shape {array.shape}")
    return np.ascontiguousarray(array)


def _unpickle(bitset: bytes, column_type: ColumnType | None, readonly: bool) -> SplitBlockBloomFilter:
    restored = SplitBlockBloomFilter.from_bitset(bitset, column_type)
    if not readonly:
        restored._bitset = restored._bitset.copy()
    return restored
