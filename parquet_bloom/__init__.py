"""Bloom filters for data lakes: embed them into existing Parquet files, read them, and skip what cannot match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors, types
from .util.lazy import make_lazy

if TYPE_CHECKING:
    from .change.delete_rows import delete
    from .change.erase_files import erase
    from .change.upsert_rows import upsert
    from .core.bloom.sizing import fpp_for, size_for
    from .file.bloom_file import open
    from .file.disk_cache import DiskMetadataCache
    from .file.drop_filters import drop
    from .file.embed_filters import embed
    from .file.metadata_cache import MetadataCache
    from .file.probe_file import probe
    from .file.write_table import write_table
    from .filter import SplitBlockBloomFilter
    from .lake.lake_index import LakeIndex
    from .scan.dataset import dataset, semi_join
    from .scan.polars_frame import scan_polars
    from .scan.scan_functions import prune, read_table
    from .scan.survey_files import advise, verify
    from .tables.delta.delta_table import delta
    from .tables.embed.embed_table import embed_table
    from .tables.iceberg.iceberg_table import iceberg

__version__ = "0.1.0"

__all__ = [
    "DiskMetadataCache",
    "LakeIndex",
    "MetadataCache",
    "SplitBlockBloomFilter",
    "advise",
    "dataset",
    "delete",
    "delta",
    "drop",
    "embed",
    "embed_table",
    "erase",
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
    "upsert",
    "verify",
    "write_table",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "DiskMetadataCache": ".file.disk_cache",
    "LakeIndex": ".lake.lake_index",
    "MetadataCache": ".file.metadata_cache",
    "SplitBlockBloomFilter": ".filter",
    "advise": ".scan.survey_files",
    "dataset": ".scan.dataset",
    "delete": ".change.delete_rows",
    "delta": ".tables.delta.delta_table",
    "drop": ".file.drop_filters",
    "embed": ".file.embed_filters",
    "embed_table": ".tables.embed.embed_table",
    "erase": ".change.erase_files",
    "fpp_for": ".core.bloom.sizing",
    "iceberg": ".tables.iceberg.iceberg_table",
    "open": ".file.bloom_file",
    "probe": ".file.probe_file",
    "prune": ".scan.scan_functions",
    "read_table": ".scan.scan_functions",
    "scan_polars": ".scan.polars_frame",
    "semi_join": ".scan.dataset",
    "size_for": ".core.bloom.sizing",
    "upsert": ".change.upsert_rows",
    "verify": ".scan.survey_files",
    "write_table": ".file.write_table",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
