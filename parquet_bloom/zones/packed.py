"""The zones of an index at its end, so that opening it is one request: packed metadata, and a seal.

Beside its zones' table, which everybody can read, an index has its zones once more in the metadata: how many rows each
has, and which have nulls. What is said of files is packed: zlib, then base64, since metadata are text. Right before the
container's footer stand 16 bytes, the seal, which the metadata name. Another program that writes the table anew,
maybe with its rows in another order, keeps the metadata but not the seal, and then the table itself is read.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import BrokenZonesError
from ..storage import Source
from .manifest import KEY
from .schema import ZONE

SEAL_KEY = b"parquet_bloom.zones.seal"
SEAL_BYTES = 16

_PACKED = b"zlib:"
_MAX_BYTES = 1 << 31  # of what was packed
_SEAL_SEARCH_BYTES = 64  # bytes before a footer among which the seal is: Arrow has its end of stream between them


def make_seal(metadata: Mapping[bytes, bytes]) -> bytes:
    """16 bytes that stand before the footer of no other index, and are the same whenever one is built again."""
    return b"".join(hash_one(prefix + metadata[KEY]).to_bytes(8, "little") for prefix in (b"seal 0", b"seal 1"))


def pack_metadata(metadata: Mapping[bytes, bytes], seal: bytes) -> dict[bytes, bytes]:
    """Metadata as they are written into a file with a seal."""
    data = _PACKED + b64encode(zlib.compress(metadata[KEY], 9))
    return {**metadata, KEY: data, SEAL_KEY: seal.hex().encode()}


def unpack_metadata(metadata: Mapping[bytes, bytes], path: str | None) -> dict[bytes, bytes]:
    """Metadata as they were before they were packed, without the seal.

    Raises
    ------
    BrokenZonesError
        They were never packed like that.
    """
    found = {key: value for key, value in metadata.items() if key != SEAL_KEY}
    data = found.get(KEY, b"")
    if data.startswith(_PACKED):
        try:
            unpacking = zlib.decompressobj()
            found[KEY] = unpacking.decompress(b64decode(data[len(_PACKED) :], validate=True), _MAX_BYTES)
            if not unpacking.eof:
                raise ValueError("its end is missing")
        except (zlib.error, ValueError) as error:
            raise BrokenZonesError(f"metadata: what it says of files cannot be unpacked: {error}", path=path) from error
    return found


def cache_footer(source: Source, footer_start: int) -> None:
    """Have the whole footer of a distant file, and what is right before it, at hand; nothing of it is read twice."""
    if source.path is None:
        kept, kept_from = source.kept
        start = max(0, footer_start - _SEAL_SEARCH_BYTES)
        if not kept:
            kept_from = source.size
        if start < kept_from:
            source.keep(start, source.read_at(start, kept_from - start) + kept)


def is_sealed(source: Source, metadata: Mapping[bytes, bytes], footer_start: int) -> bool:
    """Whether a file is the very one that was written with its metadata."""
    try:
        seal = bytes.fromhex(metadata.get(SEAL_KEY, b"").decode("ascii"))
    except ValueError:
        return False
    start = max(0, footer_start - _SEAL_SEARCH_BYTES)
    return len(seal) == SEAL_BYTES and seal in source.read_at(start, footer_start - start)


class PackedZones(NamedTuple):
    """What metadata say of an index's zones.

    Attributes
    ----------
    zones : an array of ZONE.
    batch : how many of them are in each row group or batch of the container but the last.
    filter_bytes : of each.
    """

    zones: NDArray[np.void]
    batch: int
    filter_bytes: int


def describe_zones(zones: NDArray[np.void], rows_per_zone: int, batch: int) -> dict[str, Any]:
    """What is said of zones that divide row groups into so many rows each, but for the last of each."""
    return {
        "rows": rows_per_zone,
        "batch": batch,
        "has_null": b64encode(np.packbits(zones["has_null"]).tobytes()).decode(),
    }


def unpack_zones(data: bytes | None, most: int, path: str | None) -> PackedZones | None:
    """The zones of an index by its metadata (see `manifest`); None where they do not say.

    Parameters
    ----------
    most : how many there can be.

    Raises
    ------
    BrokenZonesError
        It says what cannot be.
    """
    try:
        told = json.loads(data or b"{}")
        if "zones" not in told:
            return None
        each, batch, filter_bytes = told["zones"]["rows"], told["zones"]["batch"], told["filter_bytes"]
        if not all(type(number) is int and 1 <= number < 1 << 62 for number in (each, batch, filter_bytes)):
            raise ValueError("numbers")
        rows = np.array(told["fragments"]["num_rows"], np.int64)
        if (rows < 0).any():
            raise ValueError("num_rows")
        counts = rows // each + (rows % each > 0)
        if (counts > most).any() or (count := int(counts.sum())) > most:
            raise ValueError("zones")
        bits = np.frombuffer(b64decode(told["zones"]["has_null"], validate=True), np.uint8)
        if len(bits) != -(-count // 8):
            raise ValueError("has_null")
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise BrokenZonesError("metadata: what it says of zones cannot be", path=path) from error
    zones = np.empty(count, ZONE)
    zones["fragment_id"] = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    zones["zone_start"] = within * each
    zones["zone_length"] = np.minimum(each, np.repeat(rows, counts) - within * each)
    zones["has_null"] = np.unpackbits(bits)[:count].astype(np.bool_)
    return PackedZones(zones, batch, filter_bytes)
