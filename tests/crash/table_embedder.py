"""Puts filters into the files of a table; run by `faulty`, which kills it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.writers import changing_tables as tables

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.embed.embed_table import embed_table


def open_table(kind: str, folder: Path) -> Any:
    """Return what `embed_table` takes."""
    return str(folder / "table") if kind == "delta" else tables.make_catalog(folder).load_table("db.events")


def main(arguments: Sequence[str]) -> int:
    kind, folder = arguments
    warnings.simplefilter("ignore")
    try:
        print(embed_table(open_table(kind, Path(folder)), ["id", "s"], threads=1))
    except Exception as error:
        if not isinstance(error, ParquetBloomError) and kind == "delta":
            raise
        print(error, file=sys.stderr)  # or pyiceberg's, as the table was opened
        return 1
    return 0
