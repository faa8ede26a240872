"""Bloom filters for data lakes: embed them into existing Parquet files, read them, and skip what cannot match."""

from __future__ import annotations

import sys
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from .core.bloom.sizing import fpp_for, size_for
    from .core.bloom.variants import Variant
    from .file.advise.report import AdviceReport
    from .file.advise.verdict import ColumnAdvice
    from .file.cache.disk import DiskMetadataCache
    from .file.cache.memory import MetadataCache
    from .file.chunk_filter import ChunkFilter
    from .file.detect import detect_variant
    from .file.probe import Probed, probe
    from .file.reader import BloomFile, open
    from .file.verify import VerifyReport
    from .file.write.drop import DropReport, drop
    from .file.write.embed import EmbedReport, embed
    from .file.write.write_table import write_table
    from .filter import SplitBlockBloomFilter
    from .hashing.arrow import hash_values
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
    from .scan.advise import advise
    from .scan.api import dataset, prune, read_table, semi_join
    from .scan.engines.polars import scan_polars
    from .scan.report import PruneReport
    from .scan.verify import verify

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
    "dataset",
    "detect_variant",
    "drop",
    "embed",
    "errors",
    "fpp_for",
    "hash_values",
    "open",
    "probe",
    "prune",
    "read_table",
    "scan_polars",
    "semi_join",
    "size_for",
    "verify",
    "write_table",
]

# The module of each public name, imported at its first use: importing numpy and pyarrow alone would take too long for
# programs that import this package but do not use it at once.
_HOMES = {
    "AdviceReport": ".file.advise.report",
    "Answers": ".lake.reports",
    "AppendReport": ".lake.reports",
    "BloomFile": ".file.reader",
    "Candidate": ".lake.reports",
    "CheckReport": ".lake.reports",
    "ChunkFilter": ".file.chunk_filter",
    "ColumnAdvice": ".file.advise.verdict",
    "CompactReport": ".lake.reports",
    "DiskMetadataCache": ".file.cache.disk",
    "DropReport": ".file.write.drop",
    "EmbedReport": ".file.write.embed",
    "MetadataCache": ".file.cache.memory",
    "IndexSnapshot": ".lake.reports",
    "IndexStats": ".lake.reports",
    "LakeIndex": ".lake.index",
    "Probed": ".file.probe",
    "PruneReport": ".scan.report",
    "SplitBlockBloomFilter": ".filter",
    "Variant": ".core.bloom.variants",
    "VerifyReport": ".file.verify",
    "advise": ".scan.advise",
    "detect_variant": ".file.detect",
    "drop": ".file.write.drop",
    "embed": ".file.write.embed",
    "fpp_for": ".core.bloom.sizing",
    "hash_values": ".hashing.arrow",
    "dataset": ".scan.api",
    "open": ".file.reader",
    "probe": ".file.probe",
    "prune": ".scan.api",
    "read_table": ".scan.api",
    "semi_join": ".scan.api",
    "scan_polars": ".scan.engines.polars",
    "size_for": ".core.bloom.sizing",
    "verify": ".scan.verify",
    "write_table": ".file.write.write_table",
}

_importing = RLock()


def __getattr__(name: str) -> Any:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    # One thread at a time: if two threads import modules that depend on each other, Python avoids a deadlock by giving
    # one of them a partially initialized module.
    with _importing:
        value = globals()[name] = getattr(import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
