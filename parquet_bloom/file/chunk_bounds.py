"""The bounds that the statistics of one column chunk have, as domain values."""

from __future__ import annotations

from ..hashing.column_type import (
    ColumnType,
    Domain,
    Kind,
    decimal_length,
    decode_bound,
    integer_range,
    is_legacy_ordered,
    is_nan,
    is_ordered,
    may_wrap,
)
from ..metadata.footer import Footer, SchemaLeaf, Statistics
from ..metadata.writer_rules import SHORTEST_CUT
from ..predicate.pruning_statistics import CutBound
from .file_columns import type_of


def decode_leaf_bounds(footer: Footer, leaf: SchemaLeaf, statistics: Statistics) -> tuple[Domain | None, Domain | None]:
    """Return the bounds that statistics of a column of a file have, as `decode_bounds` does."""
    return decode_bounds(statistics, type_of(leaf), footer.order_of(leaf), footer.writer_rules.shortest_cut)


def may_be_cut(column_type: ColumnType) -> bool:
    """Return whether upper bounds of a column may be cut: of texts and bytes of any length.

    Those of a fixed length are not used if they are shorter.
    """
    return column_type.physical == "BYTE_ARRAY" and column_type.kind in (Kind.STRING, Kind.BYTES)


def decode_bounds(
    statistics: Statistics, column_type: ColumnType, order: int, shortest_cut: int = 1
) -> tuple[Domain | None, Domain | None]:
    """Return the bounds of a column chunk's values, as domain values; None where nothing is known.

    Statistics are used only where the format defines their order: one that is declared and supported, or for signed
    numbers without one, also in the deprecated fields. NaN and bounds in the wrong order are ignored, and those that do
    not bound what is shown.

    Parameters
    ----------
    order : the declared order, see `column_type.Order`.
    shortest_cut : length from which on an upper bound may be cut, unless it is declared exact, or not to be.
    """
    low_stored, high_stored = statistics.min_value, statistics.max_value
    if not is_ordered(column_type, order):
        return None, None
    if low_stored is None and high_stored is None and is_legacy_ordered(column_type):
        low_stored, high_stored = statistics.legacy_min, statistics.legacy_max
    low = None if low_stored is None else decode_bound(low_stored, column_type)
    high = None if high_stored is None else decode_bound(high_stored, column_type)
    if not statistics.max_is_exact:
        shortest = shortest_cut if statistics.max_is_exact is None else 1
        if isinstance(high, bytes) and len(high) >= shortest and may_be_cut(column_type):
            high = CutBound(high)
        elif may_be_cut_decimals(column_type) and max(len(low_stored or b""), len(high_stored or b"")) >= SHORTEST_CUT:
            return None, None
    if any(bound is not None and is_nan(bound) for bound in (low, high)):
        return None, None
    if column_type.physical == "INT96" and None in (low, high):  # one shows that the other may be none, either
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    if may_wrap(column_type):  # both bounds are needed to know that no value is shown as another one
        least, largest = integer_range(column_type)
        if low is None or high is None or low < least or high > largest:  # type: ignore[operator]
            return None, None
    return low, high


def may_be_cut_decimals(column_type: ColumnType) -> bool:
    """Return whether a column has decimals so long that their bounds may be cut, and then are other numbers."""
    is_text = column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY"
    return is_text and decimal_length(column_type.precision or 0) > SHORTEST_CUT
