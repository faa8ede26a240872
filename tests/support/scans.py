"""Scans with other limits than the public functions have, so that a small file is read as a large one is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parquet_bloom.file.pages.page_lookup import PageCosts
from parquet_bloom.predicate import parse
from parquet_bloom.scan.scan import Scan
from parquet_bloom.scan.scan_options import LIMITS, Limits, ScanOptions
from parquet_bloom.scan.scan_source import ScanSource

ALL_PAGES = PageCosts(small_bytes=0, most_share=10.0, request_bytes=0)
"""Pages are read however small their column chunk is, and whatever that takes."""

BY_PAGES = Limits(page_costs=ALL_PAGES)


def scan(paths: Any, where: Any, columns: Sequence[str] | None = None, limits: Limits = LIMITS, **source: Any) -> Scan:
    """Return a scan as `Dataset.scan` does, with the options of `ScanSource`."""
    return Scan(ScanSource(paths, **source).resolve(), parse(where), columns, ScanOptions(limits=limits))
