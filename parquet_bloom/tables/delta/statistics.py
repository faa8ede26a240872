"""What the log of a Delta table says of the values in each data file, as far as it is to be believed.

Bounds are taken from deltalake's typed form of them. Not all writers write bounds of every value:

- Timestamps are cut to milliseconds, so that the largest value may lie above its bound. A writer that gives some files
  one bound alone has taken the bounds of others from the wrong rows (delta-rs#1374).
- Floats: NaN is in the bounds of some writers only (`PruningPredicate` leaves comparisons with it alone), and not every
  JSON parser rounds right, which two units in the last place make up for.
- Decimals go through doubles in some writers, and lose digits there: their bounds are not used.
- Strings are cut, and a bound that was cut ends with a character that is meant to be above what was cut off. Delta Lake
  before 2.4 took U+FFFD for it, which is below U+10000 and the characters after it. Other writers may leave it out.
- In a column whose type was changed, bounds may be of values of the old type.
- Spark may store dates before the Gregorian calendar, and times before time zones, otherwise than as text.
- Where rows were deleted, null counts may be of fewer rows than bounds: only "no nulls" and "all null" say anything.
  Not every writer may count the nulls of a struct among those of its fields.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import UnsupportedTypeError
from ...hashing.column_type import ColumnType, Kind, from_arrow, make_domain_array
from ...metadata.writer_rules import SHORTEST_CUT
from ...predicate.statistics import NO, UNKNOWN, CutBound, PruningStatisticsArray, split_cut
from .schema import DeltaLeaf

_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_FIRST_SURE = {Kind.DATE: date(1582, 10, 15), Kind.TIMESTAMP: date(1900, 1, 1)}
_CUT = b"\xef\xbf\xbd"  # U+FFFD
_ABOVE_ALL = b"\xff"  # no UTF-8 text has this byte


def make_statistics(actions: pa.Table, leaf: DeltaLeaf) -> PruningStatisticsArray | None:
    """Return the statistics of a column in all files; None if the log says nothing of it.

    Parameters
    ----------
    actions : deltalake's add actions, a row for each file: of its columns `num_records`, `null_count`, `min`, `max`.
    leaf : the column.
    """
    try:
        column_type = from_arrow(leaf.arrow_type)
    except UnsupportedTypeError:
        return None
    nulls, low, high = (_find(actions, name, leaf.physical) for name in ("null_count", "min", "max"))
    if nulls is None and low is None and high is None:
        return None
    has_values, has_nulls = _count_nulls(nulls, _find(actions, "num_records", ()), actions.num_rows)
    if len(leaf.physical) > 1:
        has_nulls[:] = UNKNOWN
    believed = not leaf.widened and not _is_one_sided(low, high, column_type)
    lows, low_known = _make_bounds(low if believed else None, leaf, column_type, actions.num_rows, upper=False)
    highs, high_known = _make_bounds(high if believed else None, leaf, column_type, actions.num_rows, upper=True)
    cut = None
    if column_type.kind is Kind.STRING:
        highs, cut = split_cut(highs.tolist(), column_type)
    no_filter = np.zeros(actions.num_rows, np.bool_)
    return PruningStatisticsArray(
        column_type, has_values, has_nulls, lows, low_known, highs, high_known, no_filter, cut=cut
    )


def _is_one_sided(low: pa.Array | None, high: pa.Array | None, column_type: ColumnType) -> bool:
    """Return whether some file has one bound of a timestamp column alone: its writer took others from single values."""
    if column_type.kind is not Kind.TIMESTAMP or low is None or high is None:
        return False
    return bool(pc.any(pc.not_equal(low.is_null(), high.is_null())).as_py())


def _find(actions: pa.Table, name: str, path: tuple[str, ...]) -> pa.Array | None:
    """Return a column of the actions, or a field of it; None if there is none."""
    if name not in actions.column_names:
        return None
    array = actions[name].combine_chunks()
    for part in path:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(part) < 0:
            return None
        array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array


def _count_nulls(
    nulls: pa.Array | None, records: pa.Array | None, count: int
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return whether each file has values, and whether it has nulls."""
    has_values, has_nulls = np.full(count, UNKNOWN, np.int8), np.full(count, UNKNOWN, np.int8)
    if nulls is None or not pa.types.is_integer(nulls.type):
        return has_values, has_nulls
    counted, nums = _to_numpy(nulls), np.full(count, -1) if records is None else _to_numpy(records)
    has_nulls[counted == 0] = NO
    has_values[(counted == nums) & (counted >= 0)] = NO
    return has_values, has_nulls


def _to_numpy(numbers: pa.Array) -> NDArray[np.int64]:
    return numbers.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _make_bounds(
    bounds: pa.Array | None, leaf: DeltaLeaf, column_type: ColumnType, count: int, upper: bool
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return lower or upper bounds as domain values, and which of them are known."""
    kind = column_type.kind
    if bounds is None or bounds.type != leaf.arrow_type or kind not in _BELIEVED:
        return make_domain_array([None] * count, column_type), np.zeros(count, np.bool_)
    known = bounds.is_valid().to_numpy(zero_copy_only=False)
    if kind is Kind.FLOAT:
        return _widen_floats(bounds, known, upper)
    if kind is Kind.STRING:
        return _make_texts(bounds, upper, column_type), known
    if kind is Kind.BOOLEAN:
        return make_domain_array(bounds.to_pylist(), column_type), known
    if kind is Kind.DATE:
        bounds = bounds.cast(pa.int32())
    values = bounds.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if kind in _FIRST_SURE:
        days = (_FIRST_SURE[kind] - date(1970, 1, 1)).days
        step = _PER_MILLISECOND.get(column_type.unit or "", 0)
        known = known & (values >= days * (86_400_000 * step or 1))
    if kind is Kind.TIMESTAMP:
        known = known & (values <= np.iinfo(np.int64).max - step)
        # Before 1970 a writer may also cut towards zero, which is upwards.
        values = np.where(known, values + step if upper else np.where(values <= 0, values - step, values), 0)
    return values, known


_BELIEVED = (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.BOOLEAN, Kind.FLOAT)


def _widen_floats(
    bounds: pa.Array, known: NDArray[np.bool_], upper: bool
) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return bounds of floats, two representable values further out."""
    values = bounds.fill_null(0).to_numpy(zero_copy_only=False)
    known = known & ~np.isnan(values)
    outwards = values.dtype.type(np.inf if upper else -np.inf)
    values = np.nextafter(np.nextafter(values, outwards), outwards)
    return np.where(known, values, 0).astype(np.float64), known


def _make_texts(bounds: pa.Array, upper: bool, column_type: ColumnType) -> NDArray[np.generic]:
    texts = bounds.cast(pa.binary()).to_pylist()
    if upper:
        texts = [None if text is None else _raise_cut(text) for text in texts]
    return make_domain_array([b"" if text is None else text for text in texts], column_type)


def _raise_cut(text: bytes) -> bytes:
    """Return an upper bound for texts that were cut before U+FFFD, or where they are so long, without a sign of it.

    Between the halves of a surrogate pair the cut left a question mark, or U+FFFD again.
    """
    if not text.endswith(_CUT):
        return CutBound(text) if len(text) >= SHORTEST_CUT else text
    while text.endswith(_CUT):
        text = text.removesuffix(_CUT)
    return text.removesuffix(b"?") + _ABOVE_ALL
