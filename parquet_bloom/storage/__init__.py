"""File access for the whole package, which no other part does: ranged reads, listings, and atomic replacement.

`source` and `rewrite` are the interfaces, `local`, `filesystems` and `objects` implement them for the local disk,
pyarrow and fsspec file systems, and object stores, and `listing`, `open`, `spill`, `sqlite_store` and `folder` build on
these. What only some callers need, such as `folder` and `tree_state`, is imported from its module.
"""

from __future__ import annotations

from .extents import Extents
from .filesystems.source import DATED, RemoteIdentity
from .listing import Entry, as_path_list, list_entries, list_files, managed_table
from .local.batch import OPEN_FILE_BUDGET, ClosedSource, FilterAnswers, LocalFileBatch, stat_files
from .local.batch_probe import usual_header
from .local.batch_read import PathStates, read_ends
from .local.open_files import OpenFiles
from .local.source import FileIdentity
from .objects.location import RequestCount
from .open import arrow_filesystem, create, entry_for_identity, open_source, rewrite
from .paths import is_local, is_url, object_location, resolve_filesystem, same_place
from .rewrite import Rewrite
from .source import Source

__all__ = [
    "DATED",
    "OPEN_FILE_BUDGET",
    "ClosedSource",
    "Entry",
    "Extents",
    "FileIdentity",
    "FilterAnswers",
    "LocalFileBatch",
    "OpenFiles",
    "PathStates",
    "RemoteIdentity",
    "RequestCount",
    "Rewrite",
    "Source",
    "arrow_filesystem",
    "as_path_list",
    "create",
    "entry_for_identity",
    "is_local",
    "is_url",
    "list_entries",
    "list_files",
    "managed_table",
    "object_location",
    "open_source",
    "read_ends",
    "resolve_filesystem",
    "rewrite",
    "same_place",
    "stat_files",
    "usual_header",
]
