"""Opening of files for reading, and creation of new files, on any file system."""

from __future__ import annotations

import errno
import os

from ..errors import StorageError
from .confined import find_folders
from .filesystems.source import RemoteSource
from .listing import Entry
from .local.source import LocalSource
from .objects.location import object_location
from .paths import as_arrow_filesystem, path_text, resolve_local_path
from .rewrite import Rewrite
from .source import Source


def open_source(path: str | os.PathLike[str], filesystem: object | None = None, entry: Entry | None = None) -> Source:
    """Open a file for reading.

    Parameters
    ----------
    path : a path; on the local file system also a `file:` URI. Without a file system also a URL of an object store.
    filesystem : a pyarrow or fsspec file system, or what `resolve_filesystem` returns; None for local paths and URLs.
    entry : the file in a listing, which saves a request.

    Raises
    ------
    StorageError
        If it is missing, not a regular file, or may not be read.
    """
    listed = None if entry is None else entry.known
    location = object_location(path, filesystem) if listed is None else listed.location
    if location is not None:
        from .objects.source import ObjectSource

        return ObjectSource(location, listed)
    remote = as_arrow_filesystem(filesystem)
    if remote is None:
        name = resolve_local_path(path, filesystem)
        folders = find_folders(filesystem, name)
        return LocalSource(name, None if folders is None else folders.open(name))
    return RemoteSource(path_text(path), remote)


def create(path: str | os.PathLike[str], filesystem: object | None = None, new: bool = False) -> Rewrite:
    """Write a file from nothing.

    Parameters
    ----------
    path, filesystem : the file, as in `rewrite`.
    new : fail if the file exists, instead of replacing it. The step that creates the name decides, so that only one of
        several concurrent writers succeeds. Such an object is buffered in memory and sent in one request, so it can
        have at most `put_if_absent.NEW_BYTES`.

    Returns
    -------
    A context manager; see `Rewrite`. `commit`, or entering it, raises ConcurrentChangeError if `new` and the file
    exists.

    Raises
    ------
    StorageError
        As in `rewrite`. At once: if `new` and the file system has no such step, as for pyarrow and fsspec.
    """
    location = object_location(path, filesystem)
    if location is not None:
        from .objects.rewrite import ObjectRewrite

        return ObjectRewrite(None, location, new)
    remote = as_arrow_filesystem(filesystem)
    if remote is None:
        from .local.rewrite import LocalRewrite

        return LocalRewrite(None, resolve_local_path(path), new)
    if new:
        problem = "the file system cannot create a file only if it does not exist; give a local path or a URL"
        raise StorageError(problem, path=path, errno=errno.EOPNOTSUPP)
    from .filesystems.rewrite import RemoteRewrite

    return RemoteRewrite(None, path_text(path), remote)
