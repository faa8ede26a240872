"""A column's statistics, of a stripe or a row group, as evidence: what is sure, and nothing else.

Source: ORC specification v1, "Column Statistics"; writers' faults as said at each.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from typing import Any

from ...hashing.column_type import ColumnType, Domain, Kind, integer_range
from ...metadata.protobuf import read_message
from ...predicate.statistics import PruningStatistics
from .messages import COLUMN_STATISTICS
from .schema import OrcLeaf
from .tail import Tail

Bounds = tuple[Domain | None, Domain | None]

NOTHING: Bounds = (None, None)

GREGORIAN_DAY = -141_427
"""1582-10-15, counted from 1970: before, a day's number depends on the calendar."""

ZONED_MS = -2_208_902_400_000
"""1900-01-02: before, the zones of Java and those of other programs differ by minutes, and wall clocks with them."""

SETTLED_MS = 946_771_200_000, 2_145_830_400_000
"""2000-01-02 and 2037-12-31: between them programs agree on zones, but for laws that came later. Before, Java's local
mean times, of some zones far into the 20th century, are not those of ORC's C++ library, and databases differ."""

_DAY_MS = 86_400_000
_MS = 1_000_000
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()

OTHER_ROWS = "its statistics count more values than there are rows"
"""The doubt about statistics that are of other rows than asked for."""


def read_statistics(data: bytes, start: int, end: int, leaf: OrcLeaf, tail: Tail, num_rows: int) -> PruningStatistics:
    """What the message ColumnStatistics in [start, end) of `data` says of a column in so many rows.

    Raises
    ------
    MalformedOrcError
        It is no such message.
    """
    found = read_message(data, COLUMN_STATISTICS, start, end)
    count, has_null = found.get("num_values"), found.get("has_null")
    has_values = has_nulls = None
    if count is not None:
        has_values = count > 0
        if not leaf.repeated and count > num_rows:
            return PruningStatistics(leaf.column_type, doubt=OTHER_ROWS)
        if count == 0 and has_null is False and not leaf.repeated and len(leaf.path) == 1:
            return PruningStatistics(leaf.column_type)  # these are statistics of something else
    if has_null:
        has_nulls = True if count != num_rows or leaf.repeated else None
    elif not leaf.repeated and count == num_rows:
        has_nulls = False
    low, high = _read_bounds(found, leaf, tail) if has_values else NOTHING
    return PruningStatistics(leaf.column_type, has_values, low, high, has_nulls=has_nulls)


def _read_bounds(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    read = _READERS.get(leaf.column_type.kind)
    # The first writers' statistics are not merged rightly (HIVE-8732).
    if read is None or (tail.writer == "java" and tail.writer_version < 1):
        return NOTHING
    low, high = read(found, leaf, tail)
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return NOTHING
    return low, high


def _read_integers(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    said = found.get("integers", {})
    return _require_in_range(said.get("low"), said.get("high"), leaf.column_type)


def _require_in_range(low: int | None, high: int | None, column_type: ColumnType) -> Bounds:
    least, most = integer_range(column_type)
    if any(bound is not None and not least <= bound <= most for bound in (low, high)):
        return NOTHING
    return low, high


def _read_floats(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    said = found.get("doubles", {})
    low, high, total = said.get("low"), said.get("high"), said.get("sum")
    # Where NaN comes first it stands for all bounds; merged with others, its row group's values are in none. The sum
    # tells. Presto and Trino write no sum, and no bounds where there is a NaN.
    if total is None and tail.writer not in ("presto", "trino"):
        return NOTHING
    if any(bound is not None and math.isnan(bound) for bound in (low, high, total)):
        return NOTHING
    return low, high


def _read_strings(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    # CHAR's are padded or not; others' were in another order first.
    if leaf.kind == "CHAR" or (tail.writer == "java" and tail.writer_version < 2):
        return NOTHING
    said = found.get("strings", {})
    low, high = said.get("low", said.get("lower")), said.get("high", said.get("upper"))
    # Java writes bytes that are no UTF-8 as U+FFFD, which stands elsewhere in order.
    if tail.writer != "c++":
        low = None if low is not None and _REPLACED in low else low
        high = None if high is not None and _REPLACED in high else high
    return low, high


def _read_decimals(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    said = found.get("decimals", {})
    low, high = (_parse_unscaled(said.get(name), leaf.column_type) for name in ("low", "high"))
    return _require_in_range(low, high, leaf.column_type)


def _parse_unscaled(text: bytes | None, column_type: ColumnType) -> int | None:
    if text is None or len(text) > 100:
        return None
    try:
        value = decimal.Decimal(text.decode("ascii"))
        if not value.is_finite() or abs(value.adjusted()) > 100:
            return None
        unscaled = value.scaleb(column_type.scale, decimal.Context(prec=300))
        return int(unscaled) if unscaled == unscaled.to_integral_value() else None
    except (UnicodeDecodeError, decimal.DecimalException):
        return None


def _read_dates(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    said = found.get("dates", {})
    low, high = said.get("low"), said.get("high")
    if tail.calendar != "proleptic" and (low is None or low < GREGORIAN_DAY):
        return NOTHING
    return _require_in_range(low, high, leaf.column_type)


def _read_timestamps(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    said = found.get("timestamps", {})
    low, high = said.get("low"), said.get("high")
    if leaf.kind not in ("TIMESTAMP", "TIMESTAMP_INSTANT"):  # a wall clock kept as a number, in microseconds
        return _read_integers(found, leaf, tail)
    # Before ORC-135 bounds are of the writer's zone, and bounds of wall clocks that another clock shows are none.
    least = ZONED_MS if leaf.kind == "TIMESTAMP" else GREGORIAN_DAY * _DAY_MS
    if (tail.writer == "java" and tail.writer_version < 6) or low is None or low < least:
        return NOTHING
    if leaf.kind == "TIMESTAMP" and tail.writer != "c++":  # the zone is not known here
        low = low if SETTLED_MS[0] <= low <= SETTLED_MS[1] else low - _DAY_MS
        high = high if high is None or SETTLED_MS[0] <= high <= SETTLED_MS[1] else high + _DAY_MS
    # Before 1970 writers and readers do not agree on how parts of seconds count: by up to a second.
    low = low - 1_001 if low <= 2 * _DAY_MS else low
    if high is not None:
        high = high + 1_001 if high <= 2 * _DAY_MS else high
    # Digits below milliseconds are not looked at: some writers leave them out, and little is lost.
    return low * _MS, None if high is None else high * _MS + _MS - 1


def _read_booleans(found: Mapping[str, Any], leaf: OrcLeaf, tail: Tail) -> Bounds:
    counts, count = found.get("buckets", {}).get("counts", []), found.get("num_values", 0)
    if len(counts) != 1 or counts[0] > count:
        return NOTHING
    return counts[0] == count, counts[0] > 0


_READERS = {
    Kind.INTEGER: _read_integers,
    Kind.FLOAT: _read_floats,
    Kind.STRING: _read_strings,
    Kind.DECIMAL: _read_decimals,
    Kind.DATE: _read_dates,
    Kind.TIMESTAMP: _read_timestamps,
    Kind.BOOLEAN: _read_booleans,
}
