"""File access for the whole package, which no other part does: ranged reads, listings, and atomic replacement."""

from __future__ import annotations

from .byte_ranges import Extents
from .filesystem_source import DATED, RemoteIdentity
from .listing import Entry, as_path_list, list_entries, list_files, managed_table
from .local.batch_probe import usual_header
from .local.batch_read import PathStates, read_ends
from .local.local_batch import OPEN_FILE_BUDGET, ClosedSource, FilterAnswers, LocalFileBatch, stat_files
from .local.local_source import FileIdentity
from .local.open_files import OpenFiles
from .new_file import Rewrite
from .objects.location import RequestCount
from .open_storage import arrow_filesystem, create, entry_for_identity, open_source, rewrite
from .paths import is_local, is_url, object_location, resolve_filesystem, same_place
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
