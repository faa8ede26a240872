"""Bloom filters for data lakes: embed them into existing Parquet files, read them, and skip what cannot match.

`util`, `core`, `metadata`, `hashing` and `storage` are the lower layers, `predicate`, `file`, `orc`, `zones`, `tables`
and `lake` build on them, `scan` builds on these, and `serve`, `spark` and `cli` on all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors, types
from .util.lazy import make_lazy

if TYPE_CHECKING:
    from .core.bloom.sizing import fpp_for, size_for
    from .file.cache.disk import DiskMetadataCache
    from .file.cache.memory import MetadataCache
    from .file.probe import probe
    from .file.reader import open
    from .file.write.drop import drop
    from .file.write.embed import embed
    from .file.write.write_table import write_table
    from .filter import SplitBlockBloomFilter
    from .lake.index import LakeIndex
    from .scan.advise import advise
    from .scan.api import prune, read_table
    from .scan.engines.api import dataset, semi_join
    from .scan.engines.polars import scan_polars
    from .scan.verify import verify
    from .tables.delta.open import delta
    from .tables.embed.api import embed_table
    from .tables.iceberg.open import iceberg

__version__ = "0.1.0"

__all__ = [
    "DiskMetadataCache",
    "LakeIndex",
    "MetadataCache",
    "SplitBlockBloomFilter",
    "advise",
    "dataset",
    "delta",
    "drop",
    "embed",
    "embed_table",
    "errors",
    "fpp_for",
    "iceberg",
    "open",
    "probe",
    "prune",
    "read_table",
    "scan_polars",
    "semi_join",
    "size_for",
    "types",
    "verify",
    "write_table",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "DiskMetadataCache": ".file.cache.disk",
    "LakeIndex": ".lake.index",
    "MetadataCache": ".file.cache.memory",
    "SplitBlockBloomFilter": ".filter",
    "advise": ".scan.advise",
    "dataset": ".scan.engines.api",
    "delta": ".tables.delta.open",
    "drop": ".file.write.drop",
    "embed": ".file.write.embed",
    "embed_table": ".tables.embed.api",
    "fpp_for": ".core.bloom.sizing",
    "iceberg": ".tables.iceberg.open",
    "open": ".file.reader",
    "probe": ".file.probe",
    "prune": ".scan.api",
    "read_table": ".scan.api",
    "scan_polars": ".scan.engines.polars",
    "semi_join": ".scan.engines.api",
    "size_for": ".core.bloom.sizing",
    "verify": ".scan.verify",
    "write_table": ".file.write.write_table",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
