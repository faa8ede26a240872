"""Scans with other limits than the public functions have, so that a small file is read as a large one is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from parquet_bloom.file.pages.page_lookup import PageCosts
from parquet_bloom.predicate import parse
from parquet_bloom.scan.lookup.key_lookups import KeyLookups
from parquet_bloom.scan.lookup.locate_keys import Locator
from parquet_bloom.scan.scan import Scan
from parquet_bloom.scan.scan_options import LIMITS, Limits, ScanOptions
from parquet_bloom.scan.scan_source import ScanSource, fix_schema

ALL_PAGES = PageCosts(small_bytes=0, most_share=10.0, request_bytes=0)
"""Pages are read however small their column chunk is, and whatever that takes."""

BY_PAGES = Limits(page_costs=ALL_PAGES)


def scan(paths: Any, where: Any, columns: Sequence[str] | None = None, limits: Limits = LIMITS, **source: Any) -> Scan:
    """Return a scan as `Dataset.scan` does, with the options of `ScanSource`."""
    return Scan(ScanSource(paths, **source).resolve(), parse(where), columns, ScanOptions(limits=limits))


def elsewhere(folder: Path) -> pafs.FileSystem:
    """Return a file system of a folder's files that is not known to be local: each file is read by itself."""
    return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())


def make_locator(
    paths: Any, column: Any, limits: Limits, progress: Callable[[int, int], None] | None = None, **source: Any
) -> Locator:
    """Return what `Dataset.locate` finds positions with."""
    lookups = KeyLookups(*fix_schema(ScanSource(paths, **source).resolve()))
    options = ScanOptions(limits=limits)
    return Locator(lookups.source, lookups.schema, lookups.session, column, options, progress)
