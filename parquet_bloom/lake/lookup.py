"""Hashes of looked-up values in a column's type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import ParquetBloomError, PredicateError
from ..hashing.coerce_many import coerce_all, hash_all
from ..hashing.column_type import ColumnType, Kind, integer_range
from ..predicate.literal import from_collection


class Probes(NamedTuple):
    """Hashes of values in one type.

    Attributes
    ----------
    hashes : uint64, those of the first value first.
    values : intp, of the same length: the position of the value that each hash belongs to, ascending.
    unknown : {position of a value: reason why its hashes are unknown}.
    """

    hashes: NDArray[np.uint64]
    values: NDArray[np.intp]
    unknown: dict[int, str]


def quick_hash(column_type: ColumnType) -> Callable[[Any], int | None]:
    """Return a fast function from a literal to its only hash in a column type.

    The function returns None for literals that have to take the slower path.
    """
    if column_type.kind is Kind.INTEGER and column_type.length is not None:
        low, high = integer_range(column_type)
        width, mask = column_type.length, 2 ** (8 * column_type.length) - 1

        def hash_integer(literal: Any) -> int | None:
            if type(literal) is not int or not low <= literal <= high:
                return None
            return int(hash_one((literal & mask).to_bytes(width, "little")))

        return hash_integer
    if column_type.kind is Kind.STRING:

        def hash_text(literal: Any) -> int | None:
            try:
                return int(hash_one(literal.encode())) if type(literal) is str else None
            except UnicodeEncodeError:
                return None

        return hash_text
    return lambda literal: None


def parse_literals(values: Any, column: str) -> list[Any]:
    """Return a caller's values as literals.

    Raises
    ------
    PredicateError
        The argument is not a list of values, or contains a null: nulls are not indexed.
    """
    if type(values) is list and len(values) == 1 and type(values[0]) in (int, str):
        return values
    try:
        literals = list(from_collection(values))
    except PredicateError as error:
        problem = error.problem.replace("'in' takes", "values are")
        raise PredicateError(problem, column=column) from None
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise PredicateError(f"values are not literals: {error}", column=column) from None
    if None in literals:
        raise PredicateError("nulls are not indexed: a null is in no list of values", column=column)
    return literals


_NO_HASH = "a value cannot be distinguished from others"


def hash_literals(literals: Sequence[Any], column_type: ColumnType, timezone: str) -> Probes:
    """Return the hashes of literals in a column type."""
    # Datetimes are their instants: before and after a clock change Python takes two for the same.
    literals = [_in_utc(one) for one in literals] if dt.datetime in set(map(type, literals)) else literals
    numbers: dict[tuple[type, Any], int] = {}
    try:
        positions = [numbers.setdefault((type(literal), literal), len(numbers)) for literal in literals]
    except TypeError:  # Decimal("sNaN") equals nothing, not even itself
        return Probes(np.empty(0, np.uint64), np.empty(0, np.intp), dict.fromkeys(range(len(literals)), _NO_HASH))
    if len(numbers) == len(literals):
        return _hash_distinct(literals, column_type, timezone)
    probes = _hash_distinct([literal for _, literal in numbers], column_type, timezone)
    first = np.searchsorted(probes.values, np.arange(len(numbers) + 1))
    unknown = {
        position: probes.unknown[number] for position, number in enumerate(positions) if number in probes.unknown
    }
    return _spread(probes.hashes, first, np.array(positions, np.intp))._replace(unknown=unknown)


def _in_utc(literal: Any) -> Any:
    if type(literal) is not dt.datetime or literal.utcoffset() is None:
        return literal
    try:
        return literal.astimezone(dt.UTC)
    except OverflowError:  # at the ends of the years 1 to 9999
        return literal


def _hash_distinct(literals: Sequence[Any], column_type: ColumnType, timezone: str) -> Probes:
    unknown: dict[int, str] = {}
    if not literals:
        return Probes(np.empty(0, np.uint64), np.empty(0, np.intp), unknown)
    try:
        all_values, why = coerce_all(literals, column_type, timezone)
    except ParquetBloomError as error:
        all_values, why = [], error.problem
    if why is None and len(literals) == 1:
        hashes, _ = hash_all(all_values, column_type)
        return Probes(hashes, np.zeros(len(hashes), np.intp), {})
    if why is None and len(all_values) == len(literals):
        positions = _find_positions(literals, all_values)
        if positions is not None:
            hashes, first = hash_all(all_values, column_type)
            return _spread(hashes, first, positions)
    domain_values: list[list[Any]] = []
    for number, literal in enumerate(literals):
        coerced, why = coerce_all([literal], column_type, timezone)
        domain_values.append(coerced)
        if why is not None:
            unknown[number] = why
    distinct = sorted({value for coerced in domain_values for value in coerced})
    hashes, first = hash_all(distinct, column_type)
    position_by_value = {value: position for position, value in enumerate(distinct)}
    pairs = [(number, position_by_value[value]) for number, coerced in enumerate(domain_values) for value in coerced]
    numbers = np.array([number for number, _ in pairs], np.intp)
    probes = _spread(hashes, first, np.array([position for _, position in pairs], np.intp))
    return Probes(probes.hashes, numbers[probes.values], unknown)


def _find_positions(literals: Sequence[Any], domain: Sequence[Any]) -> NDArray[np.intp] | None:
    """Return the position of each literal among sorted distinct domain values; None if any is not found directly."""
    position_by_value = {value: position for position, value in enumerate(domain)}
    positions = [
        position_by_value.get(literal.encode("utf-8", "replace") if isinstance(literal, str) else literal)
        for literal in literals
    ]
    return None if None in positions else np.array(positions, np.intp)


def _spread(hashes: NDArray[np.uint64], first: NDArray[np.intp], positions: NDArray[np.intp]) -> Probes:
    """Return the hashes of values that are given by their positions."""
    counts = np.diff(first)[positions]
    values = np.repeat(np.arange(len(positions)), counts)
    starts = np.repeat(first[:-1][positions] - (np.cumsum(counts) - counts), counts)
    return Probes(hashes[starts + np.arange(len(values))], values, {})
