"""Bloom filters for data lakes: embed them into Parquet files that exist, read them, and skip what cannot match."""

from __future__ import annotations

import sys
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from .core.sizing import fpp_for, size_for
    from .core.variants import Variant
    from .file.advice import ColumnAdvice
    from .file.advise import AdviceReport
    from .file.cache.disk import DiskMetadataCache
    from .file.cache.memory import MetadataCache
    from .file.detection import detect_variant
    from .file.drop import DropReport, drop
    from .file.embed import EmbedReport, embed
    from .file.probing import Probed, probe
    from .file.reader import BloomFile, ChunkFilter, open
    from .file.verify import VerifyReport, verify
    from .file.write import write_table
    from .filter import SplitBlockBloomFilter
    from .hashing.arrays import hash_values
    from .lake.index import LakeIndex
    from .lake.reports import (
        Answers,
        AppendReport,
        Candidate,
        CheckReport,
        CompactReport,
        IndexSnapshot,
        IndexStats,
    )
    from .prune.advise import advise
    from .prune.plan import prune
    from .prune.polars import scan_polars
    from .prune.read import iter_batches, read_table
    from .prune.report import PruneReport
    from .prune.row_ranges import row_ranges

__version__ = "0.1.0"

__all__ = [
    "AdviceReport",
    "Answers",
    "AppendReport",
    "BloomFile",
    "Candidate",
    "CheckReport",
    "ChunkFilter",
    "ColumnAdvice",
    "CompactReport",
    "DiskMetadataCache",
    "DropReport",
    "EmbedReport",
    "IndexSnapshot",
    "IndexStats",
    "LakeIndex",
    "MetadataCache",
    "Probed",
    "PruneReport",
    "SplitBlockBloomFilter",
    "Variant",
    "VerifyReport",
    "advise",
    "detect_variant",
    "drop",
    "embed",
    "errors",
    "fpp_for",
    "hash_values",
    "iter_batches",
    "open",
    "probe",
    "prune",
    "read_table",
    "row_ranges",
    "scan_polars",
    "size_for",
    "verify",
    "write_table",
]

# Where each public name stands. It is imported when it is first asked for: numpy and pyarrow alone take longer than a
# program may that imports this package and does not use it at once.
_HOMES = {
    "AdviceReport": ".file.advise",
    "Answers": ".lake.reports",
    "AppendReport": ".lake.reports",
    "BloomFile": ".file.reader",
    "Candidate": ".lake.reports",
    "CheckReport": ".lake.reports",
    "ChunkFilter": ".file.reader",
    "ColumnAdvice": ".file.advice",
    "CompactReport": ".lake.reports",
    "DiskMetadataCache": ".file.cache.disk",
    "DropReport": ".file.drop",
    "EmbedReport": ".file.embed",
    "MetadataCache": ".file.cache.memory",
    "IndexSnapshot": ".lake.reports",
    "IndexStats": ".lake.reports",
    "LakeIndex": ".lake.index",
    "Probed": ".file.probing",
    "PruneReport": ".prune.report",
    "SplitBlockBloomFilter": ".filter",
    "Variant": ".core.variants",
    "VerifyReport": ".file.verify",
    "advise": ".prune.advise",
    "detect_variant": ".file.detection",
    "drop": ".file.drop",
    "embed": ".file.embed",
    "fpp_for": ".core.sizing",
    "hash_values": ".hashing.arrays",
    "iter_batches": ".prune.read",
    "open": ".file.reader",
    "probe": ".file.probing",
    "prune": ".prune.plan",
    "read_table": ".prune.read",
    "row_ranges": ".prune.row_ranges",
    "scan_polars": ".prune.polars",
    "size_for": ".core.sizing",
    "verify": ".file.verify",
    "write_table": ".file.write",
}

_importing = RLock()


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    # One thread at a time: where two import modules of which each needs one that the other has begun, Python gives one
    # of them half a module rather than wait for ever.
    with _importing:
        value = globals()[name] = getattr(import_module(home, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `parquet_bloom.prune` the function: when the folder of that name is imported, Python would set it here."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
