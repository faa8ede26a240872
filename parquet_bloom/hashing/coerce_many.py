"""Coercion and hashing of many literals of one comparison at once.

`coerce` defines what a single literal means; here the common lists (integers, texts, floats) are handled by list
rather than by value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.hash.xxh64 import Keys, hash_keys
from ..util.arrow_values import make_array
from .arrow import keys_of
from .coerce import coerce
from .column_type import ColumnType, Domain, Kind, encode, integer_range


def coerce_all(literals: Sequence[Any], column_type: ColumnType, timezone: str) -> tuple[list[Any], str | None]:
    """Return the distinct domain values that equal one of the literals, ascending; or the reason why they are unknown.

    Parameters
    ----------
    literals, column_type, timezone : as in `coerce.coerce`.
    """
    coerced_values = _at_once(literals, column_type) if len(literals) > 1 else None
    if coerced_values is None:
        coerced_values = set()
        for literal in literals:
            coerced = coerce(literal, column_type, timezone)
            if coerced.unknown is not None:
                return [], coerced.unknown
            coerced_values.update(coerced.values)
    return sorted(coerced_values), None


def _at_once(given: Sequence[Any], column_type: ColumnType) -> set[Any] | None:
    """Return the values of literals of one simple type; None where each literal must be coerced by itself."""
    types = set(map(type, given)) - {type(None)}  # of the list: a set takes 1, 1.0 and True for the same
    literals = set(given)
    literals.discard(None)
    if types == {int} and column_type.kind is Kind.INTEGER:
        low, high = integer_range(column_type)
        if low <= min(literals) and max(literals) <= high:
            return literals
        return {literal for literal in literals if low <= literal <= high}
    if types == {str} and column_type.kind is Kind.STRING:
        try:
            return set(map(str.encode, literals))
        except UnicodeEncodeError:
            return None
    if types == {bytes} and column_type.kind is Kind.STRING:
        return literals
    if types == {float} and column_type.physical == "DOUBLE":
        return literals if all(literal == literal for literal in literals) else None
    return None


def hash_all(values: Sequence[Any], column_type: ColumnType) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of every stored form of some values.

    Parameters
    ----------
    values : domain values, ascending and distinct.
    column_type : the column's type, which is hashable.

    Returns
    -------
    hashes : uint64, those of the first value first.
    first_hash : intp of length `len(values) + 1`; `hashes[first_hash[i]:first_hash[i + 1]]` belong to `values[i]`.
    """
    physical = column_type.physical
    counts = np.ones(len(values), np.intp)
    if column_type.kind is Kind.FLOAT and physical in _FLOATS:
        zero = bisect_left(values, 0.0)
        forms = list(values)
        if zero < len(values) and values[zero] == 0:
            forms[zero : zero + 1] = [0.0, -0.0]
            counts[zero] = 2
        hashes = _hash_fixed(np.array(forms, _FLOATS[physical]))
    elif physical in _INTEGERS:
        wide = np.array(values, np.int64 if column_type.signed else np.uint64)
        hashes = _hash_fixed(wide.astype(_INTEGERS[physical]))  # narrow integers are stored extended, by their sign
    elif physical == "BYTE_ARRAY" and column_type.kind is not Kind.DECIMAL:
        hashes = _hash_variable(values)
    else:
        of_each: list[list[bytes]] = [encode(value, column_type) for value in values]
        counts = np.array([len(forms) for forms in of_each], np.intp)
        hashes = _hash_variable([form for forms in of_each for form in forms])
    first_hash = np.zeros(len(values) + 1, np.intp)
    np.cumsum(counts, out=first_hash[1:])
    return hashes, first_hash


_FLOATS = {"FLOAT": "<f4", "DOUBLE": "<f8"}
_INTEGERS = {"INT32": "<i4", "INT64": "<i8"}


def _hash_fixed(values: np.ndarray) -> np.ndarray:
    return hash_keys(Keys.fixed(values, values.itemsize, len(values)))


def _hash_variable(forms: Sequence[Domain]) -> np.ndarray:
    if len(forms) == 1 and forms[0]:  # the most common case, which takes a third of the time this way
        (form,) = forms
        assert isinstance(form, bytes)
        return hash_keys(Keys.fixed(np.frombuffer(form, np.uint8), len(form), 1))
    return hash_keys(keys_of(make_array(forms, pa.large_binary())))
