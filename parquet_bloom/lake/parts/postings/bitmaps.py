"""Long lists of units as bytes: Roaring bitmaps in their portable form, and a checksum behind.

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
    """The bytes of a list of distinct units."""
    bitmap = BitMap(array("I", np.ascontiguousarray(units, np.uint32).tobytes()))
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data + _checksum(data)


def unpack_units(data: bytes, num_units: int) -> NDArray[np.uint32]:
    """The units of a list, ascending.

    Raises
    ------
    BrokenIndexError
        It is not as it was written, or names a unit that there is none of.
    """
    bitmap_bytes = data[:-_SUM_BYTES]
    if len(data) < _SUM_BYTES or data[-_SUM_BYTES:] != _checksum(bitmap_bytes):
        raise BrokenIndexError("a list of units does not fit its checksum")
    try:
        # It stays inside of the bytes, and looks at what came of them before it hands that out.
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
