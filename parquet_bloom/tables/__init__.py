"""Delta and Iceberg tables: what a table consists of at a version, and filters for its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .delta.delta_table import delta_files
    from .embed.embed_table import EmbedTableReport, ExchangedFile, embed_table
    from .embed.table_target import SkippedFile
    from .iceberg.iceberg_table import iceberg_files
    from .position_files import write_positions
    from .table_snapshot import TableFile, TableFiles

__all__ = [
    "EmbedTableReport",
    "ExchangedFile",
    "SkippedFile",
    "TableFile",
    "TableFiles",
    "delta_files",
    "embed_table",
    "iceberg_files",
    "write_positions",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "EmbedTableReport": ".embed.embed_table",
    "ExchangedFile": ".embed.embed_table",
    "SkippedFile": ".embed.table_target",
    "TableFile": ".table_snapshot",
    "TableFiles": ".table_snapshot",
    "delta_files": ".delta.delta_table",
    "embed_table": ".embed.embed_table",
    "iceberg_files": ".iceberg.iceberg_table",
    "write_positions": ".position_files",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
