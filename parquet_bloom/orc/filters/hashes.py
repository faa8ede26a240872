"""Hashes of values in ORC's filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import FilterTypeError, first_line
from ...hashing.arrow import plain
from ...hashing.column_type import UNITS_PER_SECOND, ColumnType, Domain, Kind
from ...predicate.statistics import KeyHasher
from ..metadata.schema import OrcLeaf
from . import encodings

HashedForms = tuple[NDArray[np.uint64], NDArray[np.intp]]


def hash_values(values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
    """Return the hashes of all encodings of values that a filter may contain (see `coerce.hash_all`)."""
    return _group_by_value(_hash_forms(values, column_type), len(values))


@dataclass(frozen=True)
class CharKeyHasher:
    """`hash_values` for a CHAR column, which pads its strings to its length in code points."""

    length: int | None

    def __call__(self, values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
        texts = [value if isinstance(value, bytes) else b"" for value in values]
        return _group_by_value(
            encodings.hash_byte_sets([encodings.encode_char(text, self.length) for text in texts]), len(values)
        )


_make_char_hasher = lru_cache(maxsize=256)(CharKeyHasher)


def keying_of(leaf: OrcLeaf) -> KeyHasher:
    """Return the function that hashes values for filters of a column: `hash_values`, unless it is a CHAR column."""
    return _make_char_hasher(leaf.length) if leaf.kind == "CHAR" else hash_values


def _hash_forms(values: Sequence[Any], column_type: ColumnType) -> HashedForms:
    kind = column_type.kind
    if kind is Kind.FLOAT:
        return encodings.hash_numbers(encodings.encode_floats(np.array(values, np.float64)))
    if kind is Kind.DATE:
        return encodings.hash_numbers(encodings.encode_dates(np.array(values, np.int64)))
    if kind is Kind.TIMESTAMP and column_type.physical == "INT96":
        milliseconds = np.array([value // 1_000_000 for value in values], np.int64)
        fractions = np.array([value % 1_000_000_000 != 0 for value in values], np.bool_)
        return encodings.hash_numbers(encodings.encode_timestamps(milliseconds, fractions))
    if kind is Kind.DECIMAL:
        return encodings.hash_byte_sets([encodings.encode_decimal(value, column_type.scale) for value in values])
    if column_type.physical == "BYTE_ARRAY":
        return encodings.hash_texts(pa.array(values, pa.large_binary())), np.arange(len(values))
    return encodings.hash_numbers([(np.arange(len(values)), np.array(values, np.int64))])


def _group_by_value(hashed: HashedForms, count: int) -> HashedForms:
    hashes, owners = hashed
    return hashes, np.searchsorted(owners, np.arange(count + 1)).astype(np.intp)


@dataclass(frozen=True)
class Probes:
    """The hashes to look up in a filter for an array of values.

    Attributes
    ----------
    count : number of values.
    hashes, owners : hash of each encoding, and the index of its value.
    hidden : bool; values that filters do not contain, NULL and NaN, which may always be present.
    """

    count: int
    hashes: NDArray[np.uint64]
    owners: NDArray[np.intp]
    hidden: NDArray[np.bool_]

    def answer(self, check: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return which values may be present."""
        present = self.hidden.copy()
        present[self.owners[check(self.hashes)]] = True
        return present


def make_probes(array: pa.Array, leaf: OrcLeaf) -> Probes:
    """Make the probes of a column's filters for Arrow values, of the types that pyarrow reads from ORC or similar ones.

    Raises
    ------
    FilterTypeError
        The values are of another kind than those of the column.
    """
    array = plain(array)
    hidden = np.asarray(array.is_null(), np.bool_)
    try:
        hashes, owners = _hash_array(array, leaf, hidden)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        problem = f"values of {array.type} do not fit a column of {leaf.column_type.name}: {first_line(error)}"
        raise FilterTypeError(problem) from error
    return Probes(len(array), hashes, owners, hidden)


def _hash_array(array: pa.Array, leaf: OrcLeaf, hidden: NDArray[np.bool_]) -> HashedForms:
    column_type, given = leaf.column_type, array.type
    types, kind = pa.types, leaf.column_type.kind
    texts = types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)
    blobs = types.is_binary(given) or types.is_large_binary(given) or types.is_binary_view(given)
    if types.is_null(given):
        return np.empty(0, np.uint64), np.empty(0, np.intp)
    if column_type.physical == "BYTE_ARRAY" and kind in (Kind.STRING, Kind.BYTES) and (texts or blobs):
        if leaf.kind == "CHAR":
            return encodings.hash_byte_sets(
                [encodings.encode_char(text or b"", leaf.length) for text in _to_bytes(array)]
            )
        return encodings.hash_texts(array), np.arange(len(array))
    if kind is Kind.FLOAT and (types.is_integer(given) or types.is_floating(given)):
        doubles = _to_numbers(array, pa.float64()).astype(np.float32 if leaf.kind == "FLOAT" else np.float64)
        hidden |= np.isnan(doubles)
        return encodings.hash_numbers(encodings.encode_floats(doubles.astype(np.float64)))
    if kind is Kind.DECIMAL and (types.is_decimal(given) or types.is_integer(given)):
        return encodings.hash_byte_sets([_encode_decimal(value, column_type.scale) for value in array.to_pylist()])
    if types.is_integer(given) and column_type.physical in ("INT32", "INT64") and kind is not Kind.DATE:
        return encodings.hash_numbers([(np.arange(len(array)), _to_numbers(array, pa.int64()))])
    if kind is Kind.DATE and types.is_date(given):
        return encodings.hash_numbers(
            encodings.encode_dates(_to_numbers(array.cast(pa.date32()).view(pa.int32()), pa.int64()))
        )
    if kind is Kind.TIMESTAMP and types.is_date(given) and column_type.utc is False:
        array, given = array.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if kind is Kind.TIMESTAMP and types.is_timestamp(given) and (given.tz is None) == (column_type.utc is False):
        return _hash_timestamps(_to_numbers(array.view(pa.int64()), pa.int64()), given.unit, column_type)
    raise ValueError("they are of another kind")


def _to_bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.cast(pa.large_binary()).to_pylist()
    return values


def _to_numbers(array: pa.Array, arrow_type: pa.DataType) -> NDArray[Any]:
    """Cast without loss (ArrowInvalid otherwise), with 0 for nulls."""
    wide = array.cast(arrow_type)
    return np.ascontiguousarray(pc.fill_null(wide, 0).to_numpy(zero_copy_only=False))


def _encode_decimal(value: Any, scale: int) -> set[bytes]:
    if value is None:
        return set()
    sign, digits, exponent = _split_decimal(value)
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    encoded = encodings.encode_decimal(unscaled * 10 ** max(0, exponent), max(0, -exponent))
    if -exponent <= scale:
        encoded |= encodings.encode_decimal(unscaled * 10 ** (scale + exponent), scale)
    return encoded


def _split_decimal(value: Any) -> tuple[int, Sequence[int], int]:
    if isinstance(value, int):
        return int(value < 0), [int(digit) for digit in str(abs(value))], 0
    sign, digits, exponent = value.as_tuple()
    return sign, digits, int(exponent)


def _hash_timestamps(counts: NDArray[np.int64], unit: str, column_type: ColumnType) -> HashedForms:
    per_second = UNITS_PER_SECOND[unit]
    if column_type.physical == "INT64":  # stored as microseconds
        if per_second > 1_000_000:
            counts, remainder = np.divmod(counts, per_second // 1_000_000)
            counts = np.where(remainder == 0, counts, np.iinfo(np.int64).max)  # the column cannot store such a value
        else:
            counts = _multiply(counts, 1_000_000 // per_second)
        return encodings.hash_numbers([(np.arange(len(counts)), counts)])
    milliseconds = counts // (per_second // 1_000) if per_second >= 1_000 else _multiply(counts, 1_000)
    return encodings.hash_numbers(encodings.encode_timestamps(milliseconds, counts % per_second != 0))


def _multiply(counts: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    if len(counts) and int(np.abs(counts).max()) > np.iinfo(np.int64).max // factor - (1 << 40):
        raise OverflowError("a timestamp is out of range")
    return counts * factor
