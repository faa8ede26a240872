"""All forms under which a value may stand in a filter: what its writer's calendar, clock or padding make of it.

A form too many costs a chance of a needless read; one too few loses a row. A list of forms is made of pairs: which
value, and the number (or bytes) that is hashed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.hash.orc_murmur3 import hash_bytes, hash_longs
from ..metadata.statistics import GREGORIAN_DAY

DAY_MS = 86_400_000

Numbers = list[tuple[NDArray[np.intp], NDArray[np.int64]]]


def encode_floats(values: NDArray[np.float64]) -> Numbers:
    """The bits of doubles; of a zero, those of both signs."""
    bits = values.view(np.int64)
    zeros = np.flatnonzero(values == 0)
    return [(np.arange(len(values)), bits), (zeros, bits[zeros] ^ np.int64(-(1 << 63)))]


def encode_dates(days: NDArray[np.int64]) -> Numbers:
    """Days since 1970; of one before the Gregorian calendar also those of its name in the Julian one, and back."""
    return _encode_in_both_calendars(days, days, 1)


def encode_timestamps(milliseconds: NDArray[np.int64], fractions: NDArray[np.bool_]) -> Numbers:
    """Milliseconds since 1970, rounded down; `fractions` tells which timestamps are no whole second.

    Before 1970 parts of a second were rounded either way, and around 1970, in the writer's zone, shifted by a second.
    """
    found = _encode_in_both_calendars(milliseconds, milliseconds // DAY_MS, DAY_MS)
    early = fractions & (milliseconds < 2 * DAY_MS)
    if early.any():
        for owners, numbers in list(found):
            wanted = early[owners]
            found += [(owners[wanted], numbers[wanted] + shift) for shift in (-1_000, -999, 1, 1_000, 1_001)]
    return found


def _encode_in_both_calendars(numbers: NDArray[np.int64], days: NDArray[np.int64], unit: int) -> Numbers:
    found = [(np.arange(len(numbers)), numbers)]
    old = np.flatnonzero(days < GREGORIAN_DAY)
    if len(old):
        years = 1970 + days[old] // 365
        between = years // 100 - years // 400 - 2  # days between the calendars, but for the ends of a century
        found += [
            (old, numbers[old] + sign * (between + more) * unit) for sign in (-1, 1) for more in (-2, -1, 0, 1, 2)
        ]
    return found


def encode_char(text: bytes, length: int | None) -> set[bytes]:
    """A text of a CHAR column: as it is, without spaces at its end, and with as many as the column's length takes."""
    bare = text.rstrip(b" ")
    missing = (length or 0) - len(bare.decode("utf-8", "replace"))
    return {text, bare, bare + b" " * max(0, missing)}


def encode_decimal(unscaled: int, scale: int) -> set[bytes]:
    """A decimal's digits, with and without zeros at the end of its fraction."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if unscaled < 0 else ""
    short = fraction.rstrip("0")
    return {f"{sign}{whole}{'.' * bool(part)}{part}".encode() for part in (short, fraction)}


def hash_numbers(forms: Numbers) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The hashes of numbers, and which value each belongs to, ascending."""
    hashes = np.concatenate([hash_longs(np.ascontiguousarray(numbers, np.int64)) for _, numbers in forms])
    owners = np.concatenate([owners for owners, _ in forms])
    order = np.argsort(owners, kind="stable")
    return hashes[order], owners[order]


def hash_byte_sets(forms: Sequence[set[bytes]]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The same of values that have sets of bytes for forms."""
    owners = np.repeat(np.arange(len(forms)), [len(each) for each in forms])
    return hash_texts(pa.array([form for each in forms for form in each], pa.large_binary())), owners


def hash_texts(array: pa.Array) -> NDArray[np.uint64]:
    """The hashes of an array of binary values, one each; those of nulls mean nothing."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.empty(0, np.uint64)
    wanted = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return hash_bytes(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), wanted)
