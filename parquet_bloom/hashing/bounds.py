"""A predicate's literal -> its exact position in the order of one column's values, or a reason why it has none.

Values are ordered as the column's domain values (see `column_type`): numbers by size, texts and bytes as unsigned
bytes, dates and times by time. NaN is excluded; it compares greater than all other values, as in Spark and DuckDB.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .coerce import coerce
from .column_type import NANOS_PER_DAY, UNITS_PER_SECOND, ColumnType, Domain, Kind, integer_range

if TYPE_CHECKING:
    from fractions import Fraction

_NANOS = 10**9
_NO_ORDER = "values of {} have no order to compare by"


@dataclass(frozen=True, slots=True)
class LiteralBounds:
    """Nearest values of a column on either side of a literal.

    Attributes
    ----------
    at_most : the largest value <= the literal; None when there is none.
    at_least : the smallest value >= the literal; None when there is none.
    unknown : reason why the bounds are unknown; None when they are exact.
    """

    at_most: Domain | None = None
    at_least: Domain | None = None
    unknown: str | None = None


def make_bounds(literal: Any, column_type: ColumnType, timezone: str = "UTC") -> LiteralBounds:
    """Return the bounds of a literal (see `coerce.coerce`; neither NULL nor NaN) among a column's values.

    The literal is interpreted as in an equality: as the nearest float in a float column, as an instant in `timezone`
    where it has no zone. A literal that equality cannot compare exactly has no bounds either.
    """
    kind = column_type.kind
    if kind in (Kind.BOOLEAN, Kind.UNKNOWN) or (kind is Kind.BYTES and isinstance(literal, str) and "\\" in literal):
        return LiteralBounds(
            unknown=_NO_ORDER.format(column_type) if kind is not Kind.BYTES else "a text with a backslash"
        )
    if kind in (Kind.TIMESTAMP, Kind.TIME, Kind.DATE):
        return _temporal(literal, column_type, timezone)
    if kind in (Kind.INTEGER, Kind.DECIMAL):
        return _number(literal, column_type, timezone)
    if kind in (Kind.STRING, Kind.BYTES):
        # A literal of another length than the column's fixed length still has a position in the order.
        column_type = replace(column_type, physical="BYTE_ARRAY", length=None)
    return _exactly(literal, column_type, timezone)


def _exactly(literal: Any, column_type: ColumnType, timezone: str) -> LiteralBounds:
    coerced = coerce([literal], column_type, timezone)
    if coerced.unknown is not None:
        return LiteralBounds(unknown=coerced.unknown)
    if not coerced.values:
        return LiteralBounds(unknown=f"{type(literal).__name__} cannot be ordered among values of {column_type}")
    return LiteralBounds(coerced.values[0], coerced.values[0])


def _number(literal: Any, column_type: ColumnType, timezone: str) -> LiteralBounds:
    scale = column_type.scale or 0 if column_type.kind is Kind.DECIMAL else 0
    if isinstance(literal, bool) or not isinstance(literal, int | float | decimal.Decimal):
        return _exactly(literal, column_type, timezone)
    if isinstance(literal, float):
        if math.isinf(literal):
            low, high = integer_range(column_type)
            return LiteralBounds(None, low) if literal < 0 else LiteralBounds(high, None)
        coerced = coerce([literal], column_type, timezone)
        if coerced.unknown is not None or (not coerced.values and column_type.kind is Kind.DECIMAL):
            # Engines compare decimals with doubles as doubles, each in a different way.
            return LiteralBounds(unknown=coerced.unknown or f"{literal!r} lies between decimals of {column_type}")
        if coerced.values:
            return LiteralBounds(coerced.values[0], coerced.values[0])
    elif isinstance(literal, decimal.Decimal) and not (literal.is_finite() and -400 < literal.adjusted() < 400):
        return LiteralBounds(unknown=f"this Decimal cannot be ordered among values of {column_type}")
    if isinstance(literal, int):
        return _between(literal * 10**scale, column_type)
    from fractions import Fraction

    return _between(Fraction(literal) * 10**scale, column_type)


def _between(exact: Fraction | int, column_type: ColumnType) -> LiteralBounds:
    """Return the integers of the column's range on either side of a number, or the number itself."""
    low, high = integer_range(column_type)
    below, above = math.floor(exact), math.ceil(exact)
    return LiteralBounds(
        None if below < low else min(below, high),
        None if above > high else max(above, low),
    )


def _temporal(literal: Any, column_type: ColumnType, timezone: str) -> LiteralBounds:
    """Return the bounds of dates and times, by way of a column of the same kind in nanoseconds."""
    if column_type.kind is Kind.DATE:
        fine, per_value = ColumnType("INT64", Kind.TIMESTAMP, 8, unit="ns", utc=False), NANOS_PER_DAY
    else:
        fine = replace(column_type, physical="INT64", length=8, unit="ns")
        per_value = _NANOS // UNITS_PER_SECOND[column_type.unit or "ns"]
    wide = coerce([literal], fine, timezone)
    if not wide.values:
        return _exactly(literal, column_type, timezone)
    nanos = wide.values[0]
    assert isinstance(nanos, int)
    below, rest = divmod(nanos, per_value)
    if rest and isinstance(literal, str):  # some engines truncate such digits before they compare
        return LiteralBounds(unknown=f"{literal!r} has digits below the unit of {column_type}")
    return LiteralBounds(below, below + bool(rest))
