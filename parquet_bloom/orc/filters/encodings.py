"""All encodings of a value that a filter may contain, depending on the calendar, clock or padding of its writer.

One encoding too many may cause a needless read; one too few loses rows. Encodings are pairs of arrays: the index of the
value, and the number that is hashed.
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
    """Return the bits of doubles; for a zero, those of both signs."""
    bits = values.view(np.int64)
    zeros = np.flatnonzero(values == 0)
    return [(np.arange(len(values)), bits), (zeros, bits[zeros] ^ np.int64(-(1 << 63)))]


def encode_dates(days: NDArray[np.int64]) -> Numbers:
    """Return days since 1970; for dates before the Gregorian calendar also those of the date in the other calendar."""
    return _encode_in_both_calendars(days, days, 1)


def encode_timestamps(milliseconds: NDArray[np.int64], fractions: NDArray[np.bool_]) -> Numbers:
    """Return milliseconds since 1970, rounded down; `fractions` marks timestamps that are not whole seconds.

    Before 1970 writers rounded fractions of a second either way, and around 1970, in the writer's zone, shifted
    them by a second.
    """
    forms = _encode_in_both_calendars(milliseconds, milliseconds // DAY_MS, DAY_MS)
    early = fractions & (milliseconds < 2 * DAY_MS)
    if early.any():
        for owners, numbers in list(forms):
            selected = early[owners]
            forms += [(owners[selected], numbers[selected] + shift) for shift in (-1_000, -999, 1, 1_000, 1_001)]
    return forms


def _encode_in_both_calendars(numbers: NDArray[np.int64], days: NDArray[np.int64], unit: int) -> Numbers:
    forms = [(np.arange(len(numbers)), numbers)]
    early = np.flatnonzero(days < GREGORIAN_DAY)
    if len(early):
        years = 1970 + days[early] // 365
        between = years // 100 - years // 400 - 2  # days between the calendars, except at the turn of a century
        forms += [
            (early, numbers[early] + sign * (between + more) * unit) for sign in (-1, 1) for more in (-2, -1, 0, 1, 2)
        ]
    return forms


def encode_char(text: bytes, length: int | None) -> set[bytes]:
    """Return a CHAR value as it is, without trailing spaces, and padded with spaces to the length of the column."""
    stripped = text.rstrip(b" ")
    missing = (length or 0) - len(stripped.decode("utf-8", "replace"))
    return {text, stripped, stripped + b" " * max(0, missing)}


def encode_decimal(unscaled: int, scale: int) -> set[bytes]:
    """Return the digits of a decimal, with and without trailing zeros of its fraction."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    integer, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if unscaled < 0 else ""
    short = fraction.rstrip("0")
    return {f"{sign}{integer}{'.' * bool(part)}{part}".encode() for part in (short, fraction)}


def hash_numbers(forms: Numbers) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of numbers and the index of the value of each, ascending."""
    hashes = np.concatenate([hash_longs(np.ascontiguousarray(numbers, np.int64)) for _, numbers in forms])
    owners = np.concatenate([owners for owners, _ in forms])
    order = np.argsort(owners, kind="stable")
    return hashes[order], owners[order]


def hash_byte_sets(forms: Sequence[set[bytes]]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of values with sets of bytes as encodings, and the index of the value of each."""
    owners = np.repeat(np.arange(len(forms)), [len(each) for each in forms])
    return hash_texts(pa.array([form for each in forms for form in each], pa.large_binary())), owners


def hash_texts(array: pa.Array) -> NDArray[np.uint64]:
    """Return the hash of each value of a binary array; those of nulls are meaningless."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.empty(0, np.uint64)
    used = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return hash_bytes(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), used)
