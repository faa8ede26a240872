"""Check serialized bitmaps of 64-bit positions before CRoaring reads them.

Its bitmaps are undefined where containers are not sorted or have other counts than they claim, and a few bytes may
claim all of 2^64 positions. The format is RoaringFormatSpec's "64-bit portable" one.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NO_RUNS, _RUNS = 12346, 12347  # the cookies
_LARGEST_ARRAY = 4096  # values; more are a bitset
_BITSET = 8192  # bytes
_FEWEST_WITH_OFFSETS = 4  # containers, of a bitmap with runs
_HIGHEST_KEY = (1 << 31) - 1  # positions are signed 64-bit numbers


def parse_bitmap(data: bytes) -> Any:
    """Return the bitmap as a `pyroaring.BitMap64`.

    Raises
    ------
    ValueError
        It is malformed.
    """
    from pyroaring import BitMap64

    _check_all(data)
    return BitMap64.deserialize(data)


def _check_all(data: bytes) -> None:
    (count,) = _unpack("<Q", data, 0)
    at, last = 8, -1
    for _ in range(count):
        (key,) = _unpack("<I", data, at)
        if key <= last or key > _HIGHEST_KEY:
            raise ValueError(f"its key {key} comes after {last}")
        at, last = _check_bitmap(data, at + 4), key
    if at != len(data):
        raise ValueError(f"it has {len(data) - at} bytes after its end")


def _check_bitmap(data: bytes, at: int) -> int:
    """Check a bitmap of 32-bit values, and return where it ends."""
    start = at
    (cookie,) = _unpack("<I", data, at)
    at += 4
    is_run = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = _take(data, at, (count + 7) // 8)
        is_run = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")[:count].astype(np.bool_)
        at += len(flags)
        has_offsets = count >= _FEWEST_WITH_OFFSETS
    elif cookie == _NO_RUNS:
        (count,) = _unpack("<I", data, at)
        at += 4
        if count > 1 << 16:
            raise ValueError(f"it has {count} containers")
        is_run, has_offsets = np.zeros(count, np.bool_), True
    else:
        raise ValueError(f"it begins with {cookie} instead of a cookie")
    heads = np.frombuffer(_take(data, at, 4 * count), "<u2").reshape(-1, 2).astype(np.int64)
    at += 4 * count
    if (np.diff(heads[:, 0]) <= 0).any():
        raise ValueError("its containers are not in order")
    offsets = np.frombuffer(_take(data, at, 4 * count if has_offsets else 0), "<u4")
    at += offsets.nbytes
    for number, size in enumerate((heads[:, 1] + 1).tolist()):
        if has_offsets and offsets[number] != at - start:
            raise ValueError("a container does not lie where it should")
        at += _check_container(data, at, size, bool(is_run[number]))
    return at


def _check_container(data: bytes, at: int, size: int, is_run: bool) -> int:
    """Check a container of so many values, and return its size in bytes."""
    if is_run:
        (count,) = _unpack("<H", data, at)
        runs = np.frombuffer(_take(data, at + 2, 4 * count), "<u2").reshape(-1, 2).astype(np.int64)
        first, last = runs[:, 0], runs[:, 0] + runs[:, 1]
        if (first[1:] <= last[:-1]).any() or (last > 0xFFFF).any() or (runs[:, 1] + 1).sum() != size:
            raise ValueError("its runs are not in order, or not as many values as they claim")
        return 2 + 4 * count
    if size > _LARGEST_ARRAY:
        bits = np.frombuffer(_take(data, at, _BITSET), np.uint8)
        if int(np.bitwise_count(bits).sum()) != size:
            raise ValueError("a bitset has another number of values than it claims")
        return _BITSET
    values = np.frombuffer(_take(data, at, 2 * size), "<u2")
    if (values[1:] <= values[:-1]).any():
        raise ValueError("its values are not in order")
    return 2 * size


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    return struct.unpack(form, _take(data, at, struct.calcsize(form)))


def _take(data: bytes, at: int, size: int) -> bytes:
    taken = data[at : at + size]
    if len(taken) != size:
        raise ValueError("it is cut short")
    return taken
