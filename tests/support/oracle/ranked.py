"""SQL's comparisons over whole columns, by rank: Python puts a column's distinct values in order, NumPy compares ranks.

An oracle that is as plain as one that goes row by row, and hundreds of times faster. It knows nothing of files, of
Arrow's kernels or of the code under test. NaN equals NaN and is above all numbers; both zeros are one; texts are in the
order of their UTF-8; moments are nanoseconds since 1970, whatever their column's unit.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from support.oracle import oracle

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NANOS_PER_DAY = 86_400 * 10**9


@dataclass(frozen=True)
class Answer:
    """For each row, whether a predicate is true, and whether it is false; it is null where it is neither."""

    true: np.ndarray
    false: np.ndarray

    def __invert__(self) -> Answer:
        return Answer(self.false, self.true)

    def __and__(self, other: Answer) -> Answer:
        return Answer(self.true & other.true, self.false | other.false)

    def __or__(self, other: Answer) -> Answer:
        return Answer(self.true | other.true, self.false & other.false)


def key(value: Any, arrow: pa.DataType) -> Any:
    """Return the sort key of a value (not null), or of a literal that is compared with such values."""
    if isinstance(value, float) and math.isnan(value):
        return (1, 0.0)
    if pa.types.is_temporal(arrow):
        return moment(value, arrow)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, bool | bytes):
        return value
    return (0, nearest(value, arrow))


def text(item: Any, arrow: pa.DataType) -> str:
    """Return what CAST AS VARCHAR makes of a text, integer, date, boolean or UUID, given its sort key."""
    if pa.types.is_date(arrow):
        return (oracle.EPOCH + datetime.timedelta(days=item // NANOS_PER_DAY)).date().isoformat()
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(arrow, pa.UuidType):
        return str(uuid.UUID(bytes=item))
    return item.decode() if isinstance(item, bytes) else str(item[1])


def nearest(value: Any, arrow: pa.DataType) -> Any:
    """A number; for a column of narrow floats the float that is nearest to it."""
    if arrow not in (pa.float16(), pa.float32()):
        return value
    code = "<e" if arrow == pa.float16() else "<f"
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def moment(value: Any, arrow: pa.DataType) -> int:
    """Nanoseconds since 1970, or since midnight; an integer counts the column's units."""
    if isinstance(value, int):
        return value * NANOS[arrow.unit]
    if isinstance(value, datetime.datetime):
        naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - oracle.EPOCH) // datetime.timedelta(microseconds=1) * 1000
    if isinstance(value, datetime.date):
        return (value - oracle.EPOCH.date()).days * NANOS_PER_DAY
    return oracle.stored(value, "INT64", unit="ns")


class Ranked:
    """A column as values that it may have, and for each row which of them it has.

    Parameters
    ----------
    name : its dotted path.
    kind : its name in `peers.VALUES`.
    arrow : the type that its values were made for.
    pool : values, None among them where rows are null; they may stand there several times.
    picks : for each row, an index into the pool.
    """

    def __init__(self, name: str, kind: str, arrow: pa.DataType, pool: Sequence[Any], picks: np.ndarray):
        self.name, self.kind, self.arrow, self.pool = name, kind, arrow, pool
        keys = [None if value is None else key(value, arrow) for value in pool]
        self._order = sorted({item for item in keys if item is not None})
        ranks = {item: rank for rank, item in enumerate(self._order)}
        self._ranks = np.array([-1 if item is None else ranks[item] for item in keys], np.int64)[picks]
        self.values = [value for value in pool if value is not None]  # to draw literals from

    def keys(self, rows: np.ndarray) -> list[Any]:
        """The keys of some rows, None for null."""
        return [None if rank < 0 else self._order[rank] for rank in self._ranks[rows]]

    def is_null(self) -> Answer:
        return Answer(self._ranks < 0, self._ranks >= 0)

    def compare(self, operator: str, literal: Any) -> Answer:
        """`column operator literal`, by the literal's `key`; None for NULL."""
        if literal is None:
            return self._constant(False, False)
        low, high = bisect_left(self._order, literal), bisect_right(self._order, literal)
        return self._where(COMPARED[operator](self._ranks, low, high))

    def among(self, literals: Sequence[Any]) -> Answer:
        """`column IN (literals)`, by their keys: true for those, null for the others if NULL is one of them."""
        if not literals:
            return self._constant(False, True)
        expected = set(literals)
        result = np.array([item in expected for item in self._order] + [False], np.bool_)[self._ranks]
        return Answer(result, np.zeros_like(result)) if None in expected else self._where(result)

    def matching(self, test: Callable[[str], bool]) -> Answer:
        """Return for which values a test of their texts holds (see `text`)."""
        return self._where(np.array([test(text(item, self.arrow)) for item in self._order] + [False])[self._ranks])

    def _where(self, result: np.ndarray) -> Answer:
        is_valid = self._ranks >= 0
        return Answer(result & is_valid, ~result & is_valid)

    def _constant(self, true: bool, false: bool) -> Answer:
        return Answer(np.full(len(self._ranks), true), np.full(len(self._ranks), false))


# Ranks from `low` up to `high` are the literal's own: one, or none if no row has it.
COMPARED: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "=": lambda ranks, low, high: (ranks >= low) & (ranks < high),
    "<>": lambda ranks, low, high: (ranks < low) | (ranks >= high),
    "<": lambda ranks, low, high: ranks < low,
    "<=": lambda ranks, low, high: ranks < high,
    ">": lambda ranks, low, high: ranks >= high,
    ">=": lambda ranks, low, high: ranks >= low,
}


def scaled(value: decimal.Decimal, digits: int) -> decimal.Decimal:
    """Return a decimal with so many more digits after the point, the last of which is not zero."""
    sign, figures, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return decimal.Decimal((sign, (*figures, *[0] * (digits - 1), 5), exponent - digits))
