"""Delta and Iceberg tables: what a table consists of at a version, and filters for its files.

`snapshot` is the interface of a table at one version, which `delta` and `iceberg` implement; `open` recognises what
callers give. `locations` checks where files may be, `column_names` and `footers` show data files as the table names
their columns, `column_identity` says which stored columns these are. `embed` writes
filters into a table, `positions` the positions of rows as tables name these, `files` is for callers that want the list
of files alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .embed.api import embed_table
    from .embed.report import EmbedTableReport, ExchangedFile, SkippedFile
    from .files import TableFiles, delta_files
    from .iceberg.files import iceberg_files
    from .positions import write_positions
    from .snapshot import TableFile

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
    "EmbedTableReport": ".embed.report",
    "ExchangedFile": ".embed.report",
    "SkippedFile": ".embed.report",
    "TableFile": ".snapshot",
    "TableFiles": ".files",
    "delta_files": ".files",
    "embed_table": ".embed.api",
    "iceberg_files": ".iceberg.files",
    "write_positions": ".positions",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
