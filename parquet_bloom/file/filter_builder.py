"""Building the filter of one column chunk: count distinct values, choose the size, insert the hashes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.bloom import memory, sbbf, sizing
from ..core.bloom.distinct import HashSet
from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import ParquetBloomError, UnknownColumnError, UnsupportedTypeError
from ..filter import SplitBlockBloomFilter
from ..hashing.arrow_keys import hash_array, keys_of, to_floats
from ..hashing.coerce import hash_all
from ..hashing.column_type import ColumnType, Kind
from ..metadata.footer import SchemaLeaf
from ..util.arrow_values import from_numpy
from .file_columns import find_leaf, type_of


@dataclass(frozen=True)
class FilterOptions:
    """Options for the size of a column's filters.

    Attributes
    ----------
    fpp : target false-positive probability.
    ndv : distinct values to size for; None counts them in each row group.
    power_of_two : whether sizes are powers of two, which every reader accepts.
    """

    fpp: float = 0.01
    ndv: int | None = None
    power_of_two: bool = True

    def __post_init__(self) -> None:
        # Real and Integral include NumPy's numbers.
        if isinstance(self.fpp, bool) or not isinstance(self.fpp, Real) or not 0 < self.fpp < 1:
            raise ParquetBloomError(f"fpp must be a number between 0 and 1, not {self.fpp!r}")
        if self.ndv is not None and (isinstance(self.ndv, bool) or not isinstance(self.ndv, Integral) or self.ndv < 0):
            raise ParquetBloomError(f"ndv must be a whole number of distinct values, not {self.ndv!r}")
        if not isinstance(self.power_of_two, bool):
            raise ParquetBloomError(f"power_of_two must be True or False, not {self.power_of_two!r}")

    def num_bytes(self, distinct: int) -> int:
        """Return the size in bytes of a filter for a column chunk with `distinct` distinct values."""
        return sizing.size_for(distinct if self.ndv is None else self.ndv, self.fpp, self.power_of_two)


@dataclass(frozen=True)
class ExactSize(FilterOptions):
    """A filter of `size` bytes, a multiple of 32, whatever it holds; its values are not counted."""

    ndv: int | None = 0
    size: int = sizing.BLOCK_BYTES

    def num_bytes(self, distinct: int) -> int:
        return self.size


Columns = str | Iterable[str] | Mapping[str, float | Mapping[str, object] | FilterOptions | None]


@dataclass(frozen=True)
class ColumnPlan:
    """One column that gets filters."""

    leaf: SchemaLeaf
    column_type: ColumnType
    options: FilterOptions


def parse_columns(columns: Columns, default: FilterOptions) -> dict[str, FilterOptions]:
    """Parse `["a", "b.c"]`, `{"a": 0.001}` or `{"a": {"fpp": 0.01, "ndv": 1000}}` into {name: options}.

    Raises
    ------
    ParquetBloomError
        A setting is unknown or out of range, or no column is given.
    """
    if isinstance(columns, str):
        columns = [columns]
    try:
        settings = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    except TypeError:  # not a collection, or one of unhashable objects
        raise ParquetBloomError(f"columns must be a list or mapping of dotted paths, not {columns!r}") from None
    if not settings:
        raise ParquetBloomError("no columns given that should get a filter")
    parsed = {}
    for name, setting in settings.items():
        if not isinstance(name, str):
            hint = "; only an index takes several columns together" if isinstance(name, tuple) else ""
            raise ParquetBloomError(f"a column must be given as a dotted path, not {name!r}{hint}")
        try:
            parsed[name] = _parse_options(setting, default)
        except ParquetBloomError as error:
            raise ParquetBloomError(error.problem, column=name) from None
    return parsed


def _parse_options(setting: float | Mapping[str, Any] | FilterOptions | None, default: FilterOptions) -> FilterOptions:
    if setting is None:
        return default
    if isinstance(setting, FilterOptions):
        return setting
    if not isinstance(setting, Mapping):
        return FilterOptions(setting, default.ndv, default.power_of_two)
    unknown = set(setting) - {"fpp", "ndv", "power_of_two"}
    if unknown:
        raise ParquetBloomError(f"unknown setting {sorted(map(str, unknown))[0]!r}; there are: fpp, ndv, power_of_two")
    settings = {"fpp": default.fpp, "ndv": default.ndv, "power_of_two": default.power_of_two, **setting}
    return FilterOptions(**settings)


def plan_columns(leaves: Sequence[SchemaLeaf], requested: Mapping[str, FilterOptions], path: str) -> list[ColumnPlan]:
    """Resolve the columns, check that they can have filters, and return them in schema order.

    Raises
    ------
    UnknownColumnError, UnsupportedTypeError
    """
    plans: dict[int, ColumnPlan] = {}
    exact: dict[str, list[SchemaLeaf]] = {}  # a search per name would be slow for thousands of names
    for leaf in leaves:
        exact.setdefault(leaf.name, []).append(leaf)
    for name, options in requested.items():
        matches = exact.get(name, [])
        leaf = matches[0] if len(matches) == 1 else find_leaf(leaves, name, path)
        column_type = type_of(leaf)
        if not column_type.hashable:
            problem = "BOOLEAN columns get no filter: there are two values to find"
            raise UnsupportedTypeError(problem, path=path, column=leaf.name)
        if leaf.index in plans:
            raise UnknownColumnError("the column is named twice", path=path, column=leaf.name)
        plans[leaf.index] = ColumnPlan(leaf, column_type, options)
    return [plans[index] for index in sorted(plans)]


PIECE_ROWS = 1 << 15  # inserted at once: few enough that their hashes are still in a fast cache when they are counted
FEW_KEYS = 1 << 16  # up to which a set in fast caches counts
MOST_EXPECTED = 1 << 22  # keys for which memory is allocated in advance: 32 MiB, and a filter of 8 MiB


@dataclass(frozen=True)
class BuiltFilter:
    """A filter and what it was built from.

    Attributes
    ----------
    filter : the filter.
    ndv : distinct stored values of the column chunk; None when the caller gave a number and they were not counted.
    fpp : false-positive probability that the exact model gives for its size and keys.
    """

    filter: SplitBlockBloomFilter
    ndv: int | None
    fpp: float

    @property
    def empty(self) -> bool:
        """True when it was built from no values."""
        return not (self.filter.fill if self.ndv is None else self.ndv)


class FilterBuilder:
    """Builds filters, one after the other, reusing the memory in which it counts values.

    The size of a filter is known only after counting its keys. A few distinct keys are counted in a set. When there are
    more, they are inserted into a filter large enough for all expected keys: a key that sets a bit there is new. Only
    keys that set none, repetitions and a few collisions, have to be looked up in the set. Finally that filter is folded
    to the required size.
    """

    def __init__(self) -> None:
        self._set = HashSet()
        self._bitset: np.ndarray | None = None
        self._fresh = np.empty(0, np.uint64)  # hashes of the keys that set a bit: all different
        self._num_fresh = 0
        self._seen = np.empty(PIECE_ROWS, np.uint64)

    def build(
        self, batches: Iterable[pa.Array | Keys], column_type: ColumnType, options: FilterOptions, num_values: int = 0
    ) -> BuiltFilter:
        """Build the filter of a column chunk.

        Parameters
        ----------
        batches : its stored values, as storage arrays (see `hashing.arrow`), or keys unless they are floats.
        column_type, options : its type, and the options for the filter's size.
        num_values : the approximate number of values, if known.

        Notes
        -----
        The bits are those that any writer sets for the same values and size, plus additions for columns of floats that
        keep other readers from losing rows; see `_alternative_hashes`.
        """
        expected = min(max(num_values, 0), MOST_EXPECTED)
        count_keys = options.ndv is None
        alternatives = HashSet()
        self._set.clear(expected)
        self._num_fresh = 0
        self._bitset = None if count_keys else memory.zeros(options.num_bytes(0))
        for array in _split_batches(batches):
            keys = keys_of(array)
            if column_type.kind is Kind.FLOAT and not isinstance(array, Keys):
                alternatives.add(_alternative_hashes(array, column_type))
            if not count_keys:
                sbbf.insert_keys(self._bitset, keys)
            elif self._bitset is not None:
                self._insert(self._bitset, keys)
            else:
                self._set.add(hash_keys(keys))
                if self._set.at_most > FEW_KEYS and len(self._set) > FEW_KEYS:
                    self._switch_to_filter(max(expected, 4 * FEW_KEYS), options)
        ndv = self._set.count_with(self._fresh[: self._num_fresh]) if count_keys else None
        if ndv is not None:
            self._resize(options.num_bytes(ndv + len(alternatives) if column_type.length == 2 else ndv))
        assert self._bitset is not None  # by now
        alternatives.fill(self._bitset)
        result, self._bitset = SplitBlockBloomFilter.from_bitset(self._bitset), None
        fpp = result.fpp if ndv is None else sizing.fpp_for(ndv + len(alternatives), result.num_bytes)
        return BuiltFilter(result, ndv, fpp)

    def _switch_to_filter(self, expected: int, options: FilterOptions) -> None:
        """Count with a filter from now on."""
        hashes = self._set.to_array()
        self._num_fresh = len(hashes)
        self._make_room(max(expected, len(hashes)))
        self._fresh[: len(hashes)] = hashes
        self._bitset = memory.zeros(options.num_bytes(expected))
        self._set.fill(self._bitset)
        self._set.clear(expected)

    def _make_room(self, num_hashes: int) -> None:
        if len(self._fresh) < num_hashes:
            larger = memory.zeros(8 * num_hashes).view(np.uint64)
            larger[: len(self._fresh)] = self._fresh
            self._fresh = larger

    def _insert(self, bitset: np.ndarray, keys: Keys) -> None:
        if len(self._fresh) < self._num_fresh + len(keys):
            self._make_room(2 * (self._num_fresh + len(keys)))
        num_fresh, num_seen = sbbf.insert_new(bitset, keys, self._fresh[self._num_fresh :], self._seen)
        self._num_fresh += num_fresh
        self._set.add(self._seen[:num_seen])

    def _resize(self, size: int) -> None:
        """Turn the bitset into one of `size` bytes with the same keys."""
        bitset = self._bitset
        # Folding merges the two blocks that a key of one block of the smaller filter can fall into, so the bits are the
        # same as if the filter had been filled at the smaller size.
        while bitset is not None and len(bitset) > size and len(bitset) % (2 * size) == 0:
            bitset = sbbf.fold(bitset)
        if bitset is None or len(bitset) != size:
            bitset = memory.zeros(size)
            sbbf.insert_hashes(bitset, self._fresh[: self._num_fresh])
            self._set.fill(bitset)
        self._bitset = bitset


def _split_batches(batches: Iterable[pa.Array | Keys]) -> Iterator[pa.Array | Keys]:
    """Yield the same values, at most PIECE_ROWS of an array at once."""
    for array in batches:
        if len(array) <= PIECE_ROWS or isinstance(array, Keys):
            yield array
        else:
            yield from (array.slice(start, PIECE_ROWS) for start in range(0, len(array), PIECE_ROWS))


def _alternative_hashes(array: pa.Array, column_type: ColumnType) -> np.ndarray:
    """Return the hashes that other readers probe for the floats of an array, besides those of the stored values.

    Both zeros are equal, but DataFusion and Spark probe only for the literal's sign: both are added when one occurs.
    NaN has many encodings, and Spark probes for the canonical one. DuckDB probes for a float16 as a float32.
    """
    floats = to_floats(array.drop_null())
    if column_type.length == 2:
        # By their bits: sorting floats rewrites NaNs, differently on each processor.
        wide = np.unique(floats.astype(np.float32).view(np.uint32)).view(np.float32)
        hashes = [hash_array(from_numpy(wide)), _special_hashes(floats, ColumnType("FLOAT", Kind.FLOAT, 4))]
    else:
        hashes = []
    return np.concatenate([*hashes, _special_hashes(floats, column_type)])


def _special_hashes(floats: np.ndarray, column_type: ColumnType) -> np.ndarray:
    """Return the hashes of both zeros if the floats contain a zero, and of the canonical NaN if they contain a NaN."""
    values = ([0.0] if (floats == 0).any() else []) + ([math.nan] if np.isnan(floats).any() else [])
    return hash_all(values, column_type)[0]
