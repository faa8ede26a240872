"""What is said when a table's files cannot be exchanged, and where its files may be."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ParquetBloomError
from ..locations import require_inside

WAY_OUT = "ask such a table by a lake index (`parquet-bloom index create`), which changes nothing in it"


def find_outside(paths: Sequence[str], root: str) -> set[str]:
    """Return the files outside of a table's folder: anyone who can write its metadata chooses them."""
    try:
        require_inside(paths, root)
        return set()
    except ParquetBloomError:
        return {path for path in paths if _is_outside(path, root)}


def _is_outside(path: str, root: str) -> bool:
    try:
        require_inside([path], root)
    except ParquetBloomError:
        return True
    return False
