"""Convert column statistics of stripes and row groups to pruning statistics, leaving out what may be wrong.

Source: ORC specification v1, "Column Statistics"; for bugs of writers see the comments.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from typing import NamedTuple

from ..hashing.column_type import ColumnType, Domain, Kind, integer_range
from ..metadata.protobuf import read_message
from ..predicate.pruning_statistics import CutBound, PruningStatistics
from .orc_schema import KINDS, OrcLeaf
from .orc_tail import COLUMN_STATISTICS, Message, OrcTail

Bounds = tuple[Domain | None, Domain | None]

NOTHING: Bounds = (None, None)

GREGORIAN_DAY = -141_427
"""1582-10-15, in days from 1970: for earlier dates, the number of a day depends on the calendar."""

ZONED_MS = -2_208_902_400_000
"""1900-01-02: earlier, time zones of Java and of other programs differ by minutes, and so do wall clock times."""

SETTLED_MS = 946_771_200_000, 2_145_830_400_000
"""2000-01-02 and 2037-12-31: between them programs agree about time zones, except for later laws. Earlier, local mean
times of Java, in some zones far into the 20th century, differ from those of ORC's C++ library, as do databases."""

_DAY_MS = 86_400_000
_MS = 1_000_000
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()

_STRUCT = KINDS.index("STRUCT")

OTHER_ROWS = "its statistics count more values than there are rows"
"""The doubt about statistics of other rows than those of the row group."""


class Counts(NamedTuple):
    """What statistics count of a column.

    Attributes
    ----------
    num_values : values that are not null; None where the statistics do not say.
    has_null : whether there are nulls; None where the statistics do not say.
    """

    num_values: int | None
    has_null: bool | None


def read_statistics(
    data: bytes,
    start: int,
    end: int,
    leaf: OrcLeaf,
    tail: OrcTail,
    num_rows: int,
    parents: Sequence[Counts | None] | None = None,
) -> PruningStatistics:
    """Read the message ColumnStatistics in [start, end) of `data` for a column in `num_rows` rows.

    Parameters
    ----------
    parents : what the statistics of each column of `leaf.parents` count in these rows; None where nothing is known.

    Raises
    ------
    MalformedOrcError
        The message is invalid.
    """
    message = read_message(data, COLUMN_STATISTICS, start, end)
    count, has_null = message.get("num_values"), message.get("has_null")
    counts = Counts(count, has_null)
    has_values = has_nulls = None
    if count is not None:
        has_values = count > 0
        if not leaf.repeated and count > num_rows:
            return PruningStatistics(leaf.column_type, doubt=OTHER_ROWS)
        if _contradict([*(parents or [None] * len(leaf.parents)), counts], leaf, tail, num_rows):
            return PruningStatistics(leaf.column_type)  # these statistics belong to something else
    if has_null:
        has_nulls = True if count != num_rows or leaf.repeated else None
    elif not leaf.repeated and count == num_rows:
        has_nulls = False
    low, high = _read_bounds(message, leaf, tail) if has_values else NOTHING
    return PruningStatistics(leaf.column_type, has_values, low, high, has_nulls=has_nulls)


def read_counts(data: bytes, start: int, end: int) -> Counts:
    """Read what a message ColumnStatistics counts."""
    message = read_message(data, COLUMN_STATISTICS, start, end)
    return Counts(message.get("num_values"), message.get("has_null"))


def _contradict(path: Sequence[Counts | None], leaf: OrcLeaf, tail: OrcTail, num_rows: int) -> bool:
    """Return whether what is counted of a column, and of those that it is in, does not fit the number of rows.

    Hive's streaming ingest and its ACID tables count 0 values of every column, and no nulls. A column without nulls has
    as many values as what it is in: the rows, or a struct. In a list, map or union any number may be right. If nothing
    is known of what a column is in, 0 values without nulls are not believed.

    Parameters
    ----------
    path : of the columns that it is in, the outermost first, and of itself.
    """
    types = tail.footer.get("types", [])
    expected: int | None = num_rows
    is_known = True
    for counts, column in zip(path, (*leaf.parents, leaf.column_id), strict=True):
        if counts is None or counts.num_values is None:
            expected, is_known = None, False
            continue
        count = counts.num_values
        if expected is not None and (count > expected or (counts.has_null is False and count != expected)):
            return True
        if not is_known and count == 0 and counts.has_null is False:
            return True
        is_struct = column < len(types) and types[column].get("kind", 0) == _STRUCT
        expected = count if is_struct else None
    return False


def _read_bounds(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    read = _READERS.get(leaf.column_type.kind)
    # The first Java writers merged statistics wrongly (HIVE-8732).
    if read is None or (tail.writer == "java" and tail.writer_version < 1):
        return NOTHING
    low, high = read(message, leaf, tail)
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return NOTHING
    return low, high


def _read_integers(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    bounds = message.get("integers", {})
    return _require_in_range(bounds.get("low"), bounds.get("high"), leaf.column_type)


def _require_in_range(low: int | None, high: int | None, column_type: ColumnType) -> Bounds:
    least, most = integer_range(column_type)
    if any(bound is not None and not least <= bound <= most for bound in (low, high)):
        return NOTHING
    return low, high


def _read_floats(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    bounds = message.get("doubles", {})
    low, high, total = bounds.get("low"), bounds.get("high"), bounds.get("sum")
    # If the first value is NaN, both bounds are NaN; when merged with others, they do not include the values of its row
    # group. The sum is NaN then. Presto and Trino write no sum, and no bounds if there is a NaN.
    if total is None and tail.writer not in ("presto", "trino"):
        return NOTHING
    if any(bound is not None and math.isnan(bound) for bound in (low, high, total)):
        return NOTHING
    return low, high


def _read_strings(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    # Bounds of CHAR are padded or not; those of early Java writers have another order.
    if leaf.kind == "CHAR" or (tail.writer == "java" and tail.writer_version < 2):
        return NOTHING
    bounds = message.get("strings", {})
    low, high = bounds.get("low", bounds.get("lower")), bounds.get("high")
    if high is None and "upper" in bounds:
        high = CutBound(bounds["upper"])
    # Java replaces invalid UTF-8 by U+FFFD, which sorts differently.
    if tail.writer != "c++":
        low = None if low is not None and _REPLACED in low else low
        high = None if high is not None and _REPLACED in high else high
    return low, high


def _read_decimals(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    bounds = message.get("decimals", {})
    low, high = (_parse_unscaled(bounds.get(name), leaf.column_type) for name in ("low", "high"))
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


def _read_dates(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    bounds = message.get("dates", {})
    low, high = bounds.get("low"), bounds.get("high")
    if tail.calendar != "proleptic" and (low is None or low < GREGORIAN_DAY):
        return NOTHING
    return _require_in_range(low, high, leaf.column_type)


def _read_timestamps(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    bounds = message.get("timestamps", {})
    low, high = bounds.get("low"), bounds.get("high")
    if leaf.kind not in ("TIMESTAMP", "TIMESTAMP_INSTANT"):  # a wall clock time stored as an integer, in microseconds
        return _read_integers(message, leaf, tail)
    # Before ORC-135 bounds are in the writer's zone, and so are not bounds of wall clock times elsewhere.
    least = ZONED_MS if leaf.kind == "TIMESTAMP" else GREGORIAN_DAY * _DAY_MS
    if (tail.writer == "java" and tail.writer_version < 6) or low is None or low < least:
        return NOTHING
    if leaf.kind == "TIMESTAMP" and tail.writer != "c++":  # the zone is not known here
        low = low if SETTLED_MS[0] <= low <= SETTLED_MS[1] else low - _DAY_MS
        high = high if high is None or SETTLED_MS[0] <= high <= SETTLED_MS[1] else high + _DAY_MS
    # Before 1970 writers and readers disagree about fractions of a second, by up to a second.
    low = low - 1_001 if low <= 2 * _DAY_MS else low
    if high is not None:
        high = high + 1_001 if high <= 2 * _DAY_MS else high
    # Digits below milliseconds are ignored: some writers omit them, and little is lost.
    return low * _MS, None if high is None else high * _MS + _MS - 1


def _read_booleans(message: Message, leaf: OrcLeaf, tail: OrcTail) -> Bounds:
    counts, count = message.get("buckets", {}).get("counts", []), message.get("num_values", 0)
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
