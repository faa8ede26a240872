"""Serialization of long lists of units: Roaring bitmaps in their portable format, followed by a checksum.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from ....core.hash.xxh64 import hash_one
from ....errors import BrokenIndexError

_SUM_BYTES = 4


def pack_units(units: NDArray[np.uint32]) -> bytes:
    """Serialize a list of distinct units."""
    bitmap = BitMap(array("I", np.ascontiguousarray(units, np.uint32).tobytes()))
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data + _checksum(data)


def unpack_units(data: bytes, num_units: int) -> NDArray[np.uint32]:
    """Deserialize a list of units, ascending.

    Raises
    ------
    BrokenIndexError
        It is damaged, or contains a unit out of range.
    """
    bitmap_bytes = data[:-_SUM_BYTES]
    if len(data) < _SUM_BYTES or data[-_SUM_BYTES:] != _checksum(bitmap_bytes):
        raise BrokenIndexError("a list of units does not fit its checksum")
    try:
        # BitMap.deserialize is bounds-checked and validates its result.
        bitmap = BitMap.deserialize(bitmap_bytes)
        if len(bitmap) and bitmap.max() >= num_units:
            raise BrokenIndexError(f"a list of units names unit {bitmap.max()}, there are {num_units}")
    except (ValueError, IndexError) as error:
        if isinstance(error, BrokenIndexError):
            raise
        raise BrokenIndexError(f"a list of units cannot be understood: {error}") from error
    return np.frombuffer(bitmap.to_array(), np.uint32)


def _checksum(data: bytes) -> bytes:
    return int(hash_one(data)).to_bytes(8, "little")[:_SUM_BYTES]
