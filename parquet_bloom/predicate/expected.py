"""What a column of each type can be compared with, in words, for messages about literals that it cannot."""

from __future__ import annotations

from ..errors import PredicateError
from ..hashing.column_type import ColumnType, Kind

_EXPECTED = {
    Kind.BOOLEAN: "true or false",
    Kind.INTEGER: "an integer",
    Kind.DECIMAL: "a number such as 1.50",
    Kind.FLOAT: "a number such as 1.5",
    Kind.DATE: "a date such as 2026-01-31",
    Kind.TIME: "a time such as 12:30:15.25",
    Kind.TIMESTAMP: "a timestamp such as 2026-01-31 12:30:15.25Z",
    Kind.STRING: "a string",
    Kind.BYTES: "bytes or a string",
    Kind.UUID: "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}


def describe_expected(column_type: ColumnType) -> str | None:
    """Return what a column can be compared with; None if nothing."""
    if column_type.kind is Kind.TIMESTAMP and column_type.utc is False:
        return "a timestamp without time zone such as 2026-01-31 12:30:15.25"
    return _EXPECTED.get(column_type.kind)


def make_mismatch_error(problem: str, column_type: ColumnType, column: str) -> PredicateError:
    """Return the error for a literal that cannot be compared with a column, with what can be."""
    expected = describe_expected(column_type)
    return PredicateError(problem if expected is None else f"{problem}; give {expected}", column=column)
