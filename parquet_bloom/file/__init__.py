"""One Parquet file: reading, verifying and writing its Bloom filters.

`columns` and `cache` come first, then `chunk_filter`, which reads one filter, then `reader`, which opens a file;
`probe`, `identity`, `statistics`, `pages` and `values` build on these, and `write`, `verify`, `detect` and `advise` on
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .chunk_filter import ChunkFilter
    from .detect import detect_variant
    from .reader import BloomFile

__all__ = [
    "BloomFile",
    "ChunkFilter",
    "detect_variant",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "BloomFile": ".reader",
    "ChunkFilter": ".chunk_filter",
    "detect_variant": ".detect",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
