"""File access for the whole package, which no other part does: ranged reads, listings, and atomic replacement.

`source` and `rewrite` are the interfaces, `local`, `filesystems` and `objects` implement them for the local disk,
pyarrow and fsspec file systems, and object stores, and `listing`, `open`, `spill`, `sqlite_store` and `folder` build on
these. What only some callers need, such as `folder` and `tree_state`, is imported from its module.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import StorageError
from ..util.lazy import late_module
from .extents import Extents
from .filesystems.source import DATED, RemoteIdentity, RemoteSource
from .listing import Entry, as_path_list, list_entries, list_files
from .local.batch import (
    OPEN_FILE_BUDGET,
    ClosedSource,
    FilterAnswers,
    LocalFileBatch,
    make_open_files,
    read_file_ends,
    stat_files,
)
from .local.batch_probe import usual_header
from .local.batch_read import PathStates
from .local.open_files import OpenFiles
from .local.source import FileIdentity, LocalSource
from .managed_tables import managed_table
from .objects.location import ListedObject, RequestCount, is_store, is_url, object_location, resolve_filesystem
from .open import create, open_source
from .paths import as_arrow_filesystem, normalize_path, path_text, resolve_local_path
from .rewrite import Rewrite
from .source import Source

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")

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
    "make_open_files",
    "managed_table",
    "object_location",
    "open_source",
    "read_file_ends",
    "resolve_filesystem",
    "rewrite",
    "same_place",
    "stat_files",
    "usual_header",
]


def is_local(filesystem: object | None, paths: Iterable[str] = ()) -> bool:
    """Return whether files are on the local file system."""
    if as_arrow_filesystem(filesystem) is not None or is_store(filesystem):
        return False
    return not any(map(is_url, paths))


def entry_for_identity(path: str, filesystem: object | None, identity: object) -> Entry | None:
    """Return a listing entry for an object that was opened before, or None if the path is not that object.

    No request is made, neither here nor when the entry is opened. A change of the object is noticed when it is read.
    """
    if not isinstance(identity, RemoteIdentity) or identity.etag is None:
        return None
    location = object_location(path, filesystem)
    if location is None or (location.label, location.key) != (identity.filesystem, identity.path):
        return None
    return Entry(path, ListedObject(location, identity.size, identity.etag.decode()))


def rewrite(
    source: Source,
    target: str | os.PathLike[str] | None = None,
    filesystem: object | None = None,
) -> Rewrite:
    """Write a file that begins like `source`, and replace `source` or `target` with it.

    Parameters
    ----------
    source : the opened file; it stays open, and the caller closes it.
    target : the file to write; None, or a path that leads to the source, replaces the source itself.
    filesystem : where `target` is: a pyarrow or fsspec file system, or what `resolve_filesystem` returns; None for
        local paths and URLs.

    Returns
    -------
    A context manager; see `Rewrite`.

    Raises
    ------
    StorageError
        On entering it: if the folder is missing, or it or the file may not be written. At once: if the source is to be
        replaced in place but is neither a local file nor an object on S3.
    """
    remote = as_arrow_filesystem(filesystem)
    if target is None:
        return _in_place(source)
    location = object_location(target, filesystem)
    if location is not None:
        from .objects.rewrite import ObjectRewrite
        from .objects.s3.rewrite import rewrite_elsewhere
        from .objects.source import ObjectSource

        same = isinstance(source, ObjectSource) and location.same(source.location)
        return _in_place(source) if same else rewrite_elsewhere(source, location) or ObjectRewrite(source, location)
    if remote is None:
        from .local.rewrite import LocalRewrite

        return LocalRewrite(source, resolve_local_path(target))
    name = path_text(target)
    same = isinstance(source, RemoteSource) and source.filesystem.equals(remote)
    if same and normalize_path(name, remote) == normalize_path(source.name, remote):
        raise _not_in_place(source)
    from .filesystems.rewrite import RemoteRewrite

    return RemoteRewrite(source, name, remote)


def _in_place(source: Source) -> Rewrite:
    """Return the rewrite that replaces the source itself."""
    if isinstance(source, LocalSource):
        from .local.rewrite import LocalRewrite

        return LocalRewrite(source, None)
    from .objects.source import ObjectSource

    if isinstance(source, ObjectSource):
        from .objects.s3.rewrite import rewrite_in_place

        return rewrite_in_place(source)
    raise _not_in_place(source)


def arrow_filesystem(filesystem: object | None = None, paths: Iterable[str] = ()) -> fs.FileSystem:
    """Return the pyarrow file system on which pyarrow can open the paths that `list_files` returns.

    Parameters
    ----------
    filesystem : a pyarrow or fsspec file system, or what `resolve_filesystem` gives; None for local paths and URLs.
    paths : the paths to open; without `filesystem` the result is the local file system only if none of them is a URL.
    """
    if is_local(filesystem, paths):
        return fs.LocalFileSystem()
    from .objects.arrow_filesystem import make_filesystem

    return as_arrow_filesystem(filesystem) or make_filesystem(filesystem)


def same_place(path: str | os.PathLike[str], other: str | os.PathLike[str], filesystem: object | None = None) -> bool:
    """Return whether two paths of one file system lead to the same file; local symbolic links are resolved."""
    locations = object_location(path, filesystem), object_location(other, filesystem)
    if any(locations):
        return locations[0] is not None and locations[1] is not None and locations[0].same(locations[1])
    remote = as_arrow_filesystem(filesystem)
    if remote is None:
        return os.path.realpath(resolve_local_path(path)) == os.path.realpath(resolve_local_path(other))
    return normalize_path(path_text(path), remote) == normalize_path(path_text(other), remote)


def _not_in_place(source: Source) -> StorageError:
    problem = "files are replaced in place on the local file system, and on S3 by URL, only; give an output elsewhere"
    return StorageError(problem, path=source.name)
