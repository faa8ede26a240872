"""Doubts: why pruning was left to Spark."""

from __future__ import annotations

from ..logs import logger

log = logger("parquet_bloom.spark")


def first_line(error: Exception) -> str:
    """The first line of an error that says anything."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


class Doubt(Exception):
    """Something is not known well enough to skip files for it; everything is read, and the log says why."""
