"""Shell completion of the columns of tables, and of the names of catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa

from ...errors import ParquetBloomError
from ...tables.open import find_table


def list_table_columns(folder: str) -> list[str] | None:
    """Return the leaf columns of a table of which a local folder is the root; None for any other folder."""
    try:
        table = find_table(folder)
        return None if table is None else [*_list_leaves(table.read_snapshot().schema)]
    except ParquetBloomError:
        return []


def _list_leaves(fields: Any, before: str = "") -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _list_leaves(field.type, f"{before}{field.name}.")
        else:
            yield before + field.name


def complete_catalogs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the catalogs of pyiceberg's configuration; none if there is no pyiceberg."""
    try:
        from pyiceberg.utils.config import Config

        names = sorted(Config().config.get("catalog") or {})
    except Exception:  # a configuration that cannot be read is an error of the command, not of the key press
        return []
    return [name for name in names if name.startswith(incomplete)]
