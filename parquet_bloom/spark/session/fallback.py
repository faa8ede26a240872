"""Doubts: why pruning was left to Spark."""

from __future__ import annotations

from ...util.logs import logger

log = logger("parquet_bloom.spark")


class CannotPush(Exception):
    """Something is not known well enough to skip files for it; everything is read, and the log says why."""
