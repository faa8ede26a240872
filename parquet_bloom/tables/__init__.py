"""Delta and Iceberg tables: the files that a version of a table consists of.

`snapshot` is the interface of a table at one version, which `delta` and `iceberg` implement; `open` recognises what
callers give. `locations` checks where files may be, `column_names` and `footers` show data files as the table names
their columns, `column_identity` says which stored columns these are. `files` is for callers that want the list alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .files import TableFiles, delta_files
    from .iceberg.files import iceberg_files
    from .snapshot import TableFile

__all__ = [
    "TableFile",
    "TableFiles",
    "delta_files",
    "iceberg_files",
]

# The module of each public name, imported at its first use.
_HOMES = {
    "TableFile": ".snapshot",
    "TableFiles": ".files",
    "delta_files": ".files",
    "iceberg_files": ".iceberg.files",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)
