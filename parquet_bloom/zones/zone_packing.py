"""Packed metadata with the zones at the end of an index, so that opening it takes one request, and their seal.

Besides the table of zones, which any program can read, an index has its zones in the metadata: the number of rows of
each, and whether it has nulls. The manifest is packed by zlib and base64, since metadata are text. Right before the
container's footer are 16 bytes, the seal, which the metadata repeat. A program that rewrites the table, perhaps with
rows in another order, copies the metadata but not the seal, and in this case the table is read.
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
from .zone_manifest import KEY
from .zone_schema import ZONE

SEAL_KEY = b"parquet_bloom.zones.seal"
SEAL_BYTES = 16

_PACKED = b"zlib:"
_MAX_BYTES = 1 << 31  # of unpacked metadata
_SEAL_SEARCH_BYTES = 64  # before a footer: Arrow has an end-of-stream mark after the seal


def make_seal(metadata: Mapping[bytes, bytes]) -> bytes:
    """Return 16 bytes that are unique to an index, and the same when it is built again."""
    return b"".join(hash_one(prefix + metadata[KEY]).to_bytes(8, "little") for prefix in (b"seal 0", b"seal 1"))


def pack_metadata(metadata: Mapping[bytes, bytes], seal: bytes) -> dict[bytes, bytes]:
    """Return the metadata for a file with a seal."""
    data = _PACKED + b64encode(zlib.compress(metadata[KEY], 9))
    return {**metadata, KEY: data, SEAL_KEY: seal.hex().encode()}


def unpack_metadata(metadata: Mapping[bytes, bytes], path: str | None) -> dict[bytes, bytes]:
    """Return the metadata before packing, without the seal.

    Raises
    ------
    BrokenZonesError
        They cannot be unpacked.
    """
    result = {key: value for key, value in metadata.items() if key != SEAL_KEY}
    data = result.get(KEY, b"")
    if data.startswith(_PACKED):
        try:
            decompressor = zlib.decompressobj()
            result[KEY] = decompressor.decompress(b64decode(data[len(_PACKED) :], validate=True), _MAX_BYTES)
            if not decompressor.eof:
                raise ValueError("its end is missing")
        except (zlib.error, ValueError) as error:
            raise BrokenZonesError(f"metadata: the manifest cannot be unpacked: {error}", path=path) from error
    return result


def cache_footer(source: Source, footer_start: int) -> None:
    """Cache the footer of a remote file with the bytes before it, without reading anything twice."""
    if source.path is None:
        cached, cached_from = source.kept
        start = max(0, footer_start - _SEAL_SEARCH_BYTES)
        if not cached:
            cached_from = source.size
        if start < cached_from:
            source.keep(start, source.read_at(start, cached_from - start) + cached)


def is_sealed(source: Source, metadata: Mapping[bytes, bytes], footer_start: int) -> bool:
    """Return whether a file has the seal of its metadata, and so was not rewritten."""
    try:
        seal = bytes.fromhex(metadata.get(SEAL_KEY, b"").decode("ascii"))
    except ValueError:
        return False
    start = max(0, footer_start - _SEAL_SEARCH_BYTES)
    return len(seal) == SEAL_BYTES and seal in source.read_at(start, footer_start - start)


class PackedZones(NamedTuple):
    """The zones of an index in its metadata.

    Attributes
    ----------
    zones : an array of ZONE.
    batch : number of zones in each row group or batch of the container except the last.
    filter_bytes : size of each filter.
    """

    zones: NDArray[np.void]
    batch: int
    filter_bytes: int


def describe_zones(zones: NDArray[np.void], rows_per_zone: int, batch: int) -> dict[str, Any]:
    """Describe zones in JSON; each has `rows_per_zone` rows, except the last one of each row group."""
    return {
        "rows": rows_per_zone,
        "batch": batch,
        "has_null": b64encode(np.packbits(zones["has_null"]).tobytes()).decode(),
    }


def unpack_zones(data: bytes | None, most: int, path: str | None) -> PackedZones | None:
    """Read the zones of an index from its metadata (see `manifest`); None if they do not contain them.

    Parameters
    ----------
    most : maximum number of zones.

    Raises
    ------
    BrokenZonesError
        The description of zones is invalid.
    """
    try:
        document = json.loads(data or b"{}")
        if "zones" not in document:
            return None
        rows_per_zone, batch, filter_bytes = (
            document["zones"]["rows"],
            document["zones"]["batch"],
            document["filter_bytes"],
        )
        if not all(type(number) is int and 1 <= number < 1 << 62 for number in (rows_per_zone, batch, filter_bytes)):
            raise ValueError("numbers")
        rows = np.array(document["fragments"]["num_rows"], np.int64)
        if (rows < 0).any():
            raise ValueError("num_rows")
        counts = rows // rows_per_zone + (rows % rows_per_zone > 0)
        if (counts > most).any() or (count := int(counts.sum())) > most:
            raise ValueError("zones")
        bits = np.frombuffer(b64decode(document["zones"]["has_null"], validate=True), np.uint8)
        if len(bits) != -(-count // 8):
            raise ValueError("has_null")
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise BrokenZonesError("metadata: the description of zones is invalid", path=path) from error
    zones = np.empty(count, ZONE)
    zones["fragment_id"] = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    zones["zone_start"] = within * rows_per_zone
    zones["zone_length"] = np.minimum(rows_per_zone, np.repeat(rows, counts) - within * rows_per_zone)
    zones["has_null"] = np.unpackbits(bits)[:count].astype(np.bool_)
    return PackedZones(zones, batch, filter_bytes)
