"""Zone indexes: a Bloom filter for every few thousand rows, in the schema of Lance's index.

`hashes`, `sizing` and `schema` come first, then `filters`, `collect` and `manifest`, then `packed`, `index` and
`write`, then `containers`, and `open` and `build` last.
"""

from .build import build
from .filters import lance_filter
from .hashes import hash_values as keying
from .index import FileZones, ZoneIndex
from .open import open
from .reports import Fragment, ZoneBuildReport, ZonedFile
from .sizing import lance_num_bytes

__all__ = [
    "FileZones",
    "Fragment",
    "ZoneBuildReport",
    "ZoneIndex",
    "ZonedFile",
    "build",
    "keying",
    "lance_filter",
    "lance_num_bytes",
    "open",
]
