"""One Parquet file: reading, verifying and writing its Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .bloom_file import BloomFile, detect_variant
    from .chunk_filter import ChunkFilter

__all__ = [
    "BloomFile",
    "ChunkFilter",
    "detect_variant",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "BloomFile": ".bloom_file",
    "ChunkFilter": ".chunk_filter",
    "detect_variant": ".bloom_file",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
