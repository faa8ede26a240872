"""Fallback to Spark: the exception for what pruning cannot decide, and the log that reports it."""

from __future__ import annotations

from ...util.logs import logger

log = logger("parquet_bloom.spark")


class CannotPush(Exception):
    """Pruning cannot be sure of a part of the query, so all files are read and the log reports the reason."""
