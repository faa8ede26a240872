"""INT96 timestamps: eight bytes for the nanoseconds of a day, then four for the Julian day.

Nothing bounds either number: readers add the two, so that one instant has many forms, and instants exist that 64 bits
do not count in nanoseconds. pyarrow wraps those, and shows another date.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..util.arrow_values import to_numpy
from .arrow_keys import rows_of, validity_of
from .column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY

OUTSIDE_OF_UNIT = {
    "ns": (
        "holds INT96 timestamps before 1677 or after 2262, which nanoseconds of 64 bits cannot count; leave the column "
        "out, or open a dataset with a schema that has timestamps in microseconds"
    ),
    "us": "holds INT96 timestamps whose day or time of day is negative, or that microseconds of 64 bits cannot count",
}
"""What is wrong with a column of which some values are not shown, by the unit in which it is shown."""

_FORM = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_LARGEST = np.iinfo(np.int64).max
_FULL_DAYS = int(_LARGEST // NANOS_PER_DAY)  # before and after 1970 of which nanoseconds count every moment


class Moments(NamedTuple):
    """The instants of stored INT96 timestamps, with whatever for nulls.

    Attributes
    ----------
    days : int64, since 1970.
    nanos : int64, of the day, and within it.
    """

    days: NDArray[np.int64]
    nanos: NDArray[np.int64]


def read_moments(array: pa.Array) -> Moments:
    """Return the instants of an array of 12-byte values."""
    stored = _view(array)
    more, nanos = np.divmod(stored["nanos"], NANOS_PER_DAY)
    return Moments(stored["day"].astype(np.int64) - JULIAN_EPOCH_DAY + more, nanos)


def _are_usual(stored: np.ndarray, array: pa.Array) -> bool:
    """Return whether all times of day are within the day, and nanoseconds count all days: so it is nearly always."""
    if array.null_count:
        stored = stored[to_numpy(array.is_valid())]
    if not len(stored):
        return True
    days, nanos = stored["day"], stored["nanos"]
    first, last = JULIAN_EPOCH_DAY - _FULL_DAYS, JULIAN_EPOCH_DAY + _FULL_DAYS
    return bool(nanos.min() >= 0 and nanos.max() < NANOS_PER_DAY and days.min() >= first and days.max() < last)


def _view(array: pa.Array) -> np.ndarray:
    return np.ascontiguousarray(rows_of(array, _FORM.itemsize)).view(_FORM)[:, 0]


def _make(stored: np.ndarray, array: pa.Array) -> pa.Array:
    """Make an array of stored values with the nulls of another one."""
    data = pa.py_buffer(stored.view(np.uint8))
    return pa.Array.from_buffers(pa.binary(_FORM.itemsize), len(array), [validity_of(array), data])


def find_hidden(array: pa.Array, unit: str) -> NDArray[np.bool_]:
    """Return which stored values pyarrow shows as other instants.

    Parameters
    ----------
    unit : "ns" or "us", in which they are shown; of microseconds fractions are cut off.
    """
    stored = _view(array)
    if _are_usual(stored, array):
        return np.zeros(len(array), np.bool_)
    days, nanos = read_moments(array)
    per_day = NANOS_PER_DAY if unit == "ns" else NANOS_PER_DAY // 1000
    counts = nanos if unit == "ns" else nanos // 1000
    last, rest = divmod(_LARGEST, per_day)
    # The least number of 64 bits is one further from zero than the largest one.
    hidden = (days > last) | ((days == last) & (counts > rest))
    hidden |= (days < -last - 1) | ((days == -last - 1) & (counts < per_day - rest - 1))
    if unit == "us":  # pyarrow takes both numbers for unsigned, which shows where it divides, or does not wrap
        hidden |= (stored["nanos"] < 0) | (stored["day"] < 0)
    if array.null_count:
        hidden &= to_numpy(array.is_valid())
    return hidden


def to_shown(array: pa.Array, unit: str) -> pa.Array:
    """Convert stored values, of which none is hidden, to Arrow timestamps of a unit as pyarrow does."""
    days, nanos = read_moments(array)
    with np.errstate(over="ignore"):  # of nulls
        counts = days * NANOS_PER_DAY + nanos if unit == "ns" else days * (NANOS_PER_DAY // 1000) + nanos // 1000
    return pa.Array.from_buffers(pa.timestamp(unit), len(array), [validity_of(array), pa.py_buffer(counts)])


def make_other_forms(array: pa.Array) -> list[pa.Array]:
    """Return the other forms of values that `encode` gives besides these, whose time of day is within the day."""
    forms = []
    for days in (1, -1):
        stored = _view(array).copy()
        stored["day"] += days
        stored["nanos"] -= days * NANOS_PER_DAY
        forms.append(_make(stored, array))
    return forms


def normalize(array: pa.Array, unit: str) -> pa.Array:
    """Return stored values in the form that `encode` gives the instants that are shown in a unit.

    Raises
    ------
    OverflowError
        The day of an instant is none that the form has.
    """
    if unit == "ns" and _are_usual(_view(array), array):
        return array
    days, nanos = read_moments(array)
    stored = np.empty(len(array), _FORM)
    stored["nanos"] = nanos if unit == "ns" else nanos - nanos % 1000
    julian = days + JULIAN_EPOCH_DAY
    stored["day"] = julian
    is_other = stored["day"] != julian
    if is_other.any() and (is_other & to_numpy(array.is_valid())).any():
        raise OverflowError("a time of day leads to a day that INT96 does not have")
    return _make(stored, array)
