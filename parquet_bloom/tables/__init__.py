"""Delta and Iceberg tables: what a table consists of at a version, and filters for its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .embed.embed_report import EmbedTableReport, ExchangedFile, SkippedFile
    from .embed.embed_table import embed_table
    from .iceberg.iceberg_table import iceberg_files
    from .position_files import write_positions
    from .table_files import TableFiles, delta_files
    from .table_snapshot import TableFile

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
    "EmbedTableReport": ".embed.embed_report",
    "ExchangedFile": ".embed.embed_report",
    "SkippedFile": ".embed.embed_report",
    "TableFile": ".table_snapshot",
    "TableFiles": ".table_files",
    "delta_files": ".table_files",
    "embed_table": ".embed.embed_table",
    "iceberg_files": ".iceberg.iceberg_table",
    "write_positions": ".position_files",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
