"""Bloom filters for data lakes: embed them into Parquet files that exist, read them, and skip what cannot match."""

from . import errors
from .core.sizing import fpp_for, size_for
from .file.advice import ColumnAdvice
from .file.advise import AdviceReport, advise
from .file.embed import EmbedReport, embed
from .file.footer_cache import FooterCache
from .file.footer_store import DiskFooterCache
from .file.probing import Probed, probe
from .file.reader import BloomFile, ChunkFilter, open
from .file.verify import VerifyReport, verify
from .file.write import write_table
from .filter import SplitBlockBloomFilter
from .hashing.arrays import hash_values
from .prune.plan import prune
from .prune.polars import scan_polars
from .prune.read import iter_batches, read_table
from .prune.report import PruneReport
from .prune.row_ranges import row_ranges

__version__ = "0.1.0"

__all__ = [
    "AdviceReport",
    "BloomFile",
    "ChunkFilter",
    "ColumnAdvice",
    "DiskFooterCache",
    "EmbedReport",
    "FooterCache",
    "Probed",
    "PruneReport",
    "SplitBlockBloomFilter",
    "VerifyReport",
    "advise",
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
