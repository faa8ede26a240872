"""Zone indexes: a Bloom filter for every few thousand rows, in the schema of Lance's index."""

from .zone_builder import ZoneBuildReport, build
from .zone_filters import lance_filter, lance_num_bytes
from .zone_hashes import hash_values as keying
from .zone_index import FileZones, ZoneIndex, open
from .zone_manifest import ZonedFile, ZonedFragment

__all__ = [
    "FileZones",
    "ZoneBuildReport",
    "ZoneIndex",
    "ZonedFile",
    "ZonedFragment",
    "build",
    "keying",
    "lance_filter",
    "lance_num_bytes",
    "open",
]
