"""Hashes of looked-up values in a column's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ..core.hash.xxh64 import hash_one
from ..errors import PredicateError
from ..hashing.column_type import ColumnType, Kind, integer_range
from ..predicate.literal import from_collection


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
