"""Values as ORC's filters take them: the hashes to probe."""

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
from . import encodings as forms

HashedForms = tuple[NDArray[np.uint64], NDArray[np.intp]]


def hash_values(values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
    """The hashes of all forms under which some values may stand in a filter (see `literal_lists.hash_all`)."""
    return _group_by_value(_hash_forms(values, column_type), len(values))


@dataclass(frozen=True)
class CharKeyHasher:
    """The same of a CHAR column, which pads its texts to its length in code points."""

    length: int | None

    def __call__(self, values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
        texts = [value if isinstance(value, bytes) else b"" for value in values]
        return _group_by_value(
            forms.hash_byte_sets([forms.encode_char(text, self.length) for text in texts]), len(values)
        )


_make_char_hasher = lru_cache(maxsize=256)(CharKeyHasher)


def keying_of(leaf: OrcLeaf) -> KeyHasher:
    """How filters of a column take values as keys: `hash_values`, or another function where the column needs more."""
    return _make_char_hasher(leaf.length) if leaf.kind == "CHAR" else hash_values


def _hash_forms(values: Sequence[Any], column_type: ColumnType) -> HashedForms:
    kind = column_type.kind
    if kind is Kind.FLOAT:
        return forms.hash_numbers(forms.encode_floats(np.array(values, np.float64)))
    if kind is Kind.DATE:
        return forms.hash_numbers(forms.encode_dates(np.array(values, np.int64)))
    if kind is Kind.TIMESTAMP and column_type.physical == "INT96":
        milliseconds = np.array([value // 1_000_000 for value in values], np.int64)
        fractions = np.array([value % 1_000_000_000 != 0 for value in values], np.bool_)
        return forms.hash_numbers(forms.encode_timestamps(milliseconds, fractions))
    if kind is Kind.DECIMAL:
        return forms.hash_byte_sets([forms.encode_decimal(value, column_type.scale) for value in values])
    if column_type.physical == "BYTE_ARRAY":
        return forms.hash_texts(pa.array(values, pa.large_binary())), np.arange(len(values))
    return forms.hash_numbers([(np.arange(len(values)), np.array(values, np.int64))])


def _group_by_value(hashed: HashedForms, count: int) -> HashedForms:
    hashes, owners = hashed
    return hashes, np.searchsorted(owners, np.arange(count + 1)).astype(np.intp)


@dataclass(frozen=True)
class Probes:
    """What is asked of a filter for an array of values.

    Attributes
    ----------
    count : how many values there are.
    hashes, owners : each form's hash, and which value it is one of.
    hidden : bool, values that filters do not tell of, NULL and NaN: they may be there whatever the bits say.
    """

    count: int
    hashes: NDArray[np.uint64]
    owners: NDArray[np.intp]
    hidden: NDArray[np.bool_]

    def answer(self, check: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Which values may be there."""
        found = self.hidden.copy()
        found[self.owners[check(self.hashes)]] = True
        return found


def make_probes(array: pa.Array, leaf: OrcLeaf) -> Probes:
    """What to ask the filters of a column for Arrow values, as pyarrow reads them from ORC files or as close as may be.

    Raises
    ------
    FilterTypeError
        The values are of another kind.
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
            return forms.hash_byte_sets([forms.encode_char(text or b"", leaf.length) for text in _to_bytes(array)])
        return forms.hash_texts(array), np.arange(len(array))
    if kind is Kind.FLOAT and (types.is_integer(given) or types.is_floating(given)):
        doubles = _to_numbers(array, pa.float64()).astype(np.float32 if leaf.kind == "FLOAT" else np.float64)
        hidden |= np.isnan(doubles)
        return forms.hash_numbers(forms.encode_floats(doubles.astype(np.float64)))
    if kind is Kind.DECIMAL and (types.is_decimal(given) or types.is_integer(given)):
        return forms.hash_byte_sets([_encode_decimal(value, column_type.scale) for value in array.to_pylist()])
    if types.is_integer(given) and column_type.physical in ("INT32", "INT64") and kind is not Kind.DATE:
        return forms.hash_numbers([(np.arange(len(array)), _to_numbers(array, pa.int64()))])
    if kind is Kind.DATE and types.is_date(given):
        return forms.hash_numbers(forms.encode_dates(_to_numbers(array.cast(pa.date32()).view(pa.int32()), pa.int64())))
    if kind is Kind.TIMESTAMP and types.is_date(given) and column_type.utc is False:
        array, given = array.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if kind is Kind.TIMESTAMP and types.is_timestamp(given) and (given.tz is None) == (column_type.utc is False):
        return _hash_timestamps(_to_numbers(array.view(pa.int64()), pa.int64()), given.unit, column_type)
    raise ValueError("they are of another kind")


def _to_bytes(array: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = array.cast(pa.large_binary()).to_pylist()
    return found


def _to_numbers(array: pa.Array, arrow_type: pa.DataType) -> NDArray[Any]:
    """The values without loss (ArrowInvalid otherwise), 0 for nulls."""
    wide = array.cast(arrow_type)
    return np.ascontiguousarray(pc.fill_null(wide, 0).to_numpy(zero_copy_only=False))


def _encode_decimal(value: Any, scale: int) -> set[bytes]:
    if value is None:
        return set()
    sign, digits, exponent = _split_decimal(value)
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    found = forms.encode_decimal(unscaled * 10 ** max(0, exponent), max(0, -exponent))
    if -exponent <= scale:
        found |= forms.encode_decimal(unscaled * 10 ** (scale + exponent), scale)
    return found


def _split_decimal(value: Any) -> tuple[int, Sequence[int], int]:
    if isinstance(value, int):
        return int(value < 0), [int(digit) for digit in str(abs(value))], 0
    sign, digits, exponent = value.as_tuple()
    return sign, digits, int(exponent)


def _hash_timestamps(counts: NDArray[np.int64], unit: str, column_type: ColumnType) -> HashedForms:
    per_second = UNITS_PER_SECOND[unit]
    if column_type.physical == "INT64":  # kept as microseconds
        if per_second > 1_000_000:
            counts, rest = np.divmod(counts, per_second // 1_000_000)
            counts = np.where(rest == 0, counts, np.iinfo(np.int64).max)  # no such value can be kept
        else:
            counts = _multiply(counts, 1_000_000 // per_second)
        return forms.hash_numbers([(np.arange(len(counts)), counts)])
    milliseconds = counts // (per_second // 1_000) if per_second >= 1_000 else _multiply(counts, 1_000)
    return forms.hash_numbers(forms.encode_timestamps(milliseconds, counts % per_second != 0))


def _multiply(counts: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    if len(counts) and int(np.abs(counts).max()) > np.iinfo(np.int64).max // factor - (1 << 40):
        raise OverflowError("a timestamp lies too far away")
    return counts * factor
