"""From a path and a file system to a file that is read, or to one that comes to be."""

from __future__ import annotations

import errno
import os

from ..errors import StorageError
from .filesystems.rewrite import RemoteRewrite
from .filesystems.source import RemoteSource
from .listing import Entry
from .local.rewrite import LocalRewrite
from .local.source import LocalSource
from .objects.location import object_location
from .objects.rewrite import ObjectRewrite
from .objects.source import ObjectSource
from .paths import as_arrow_filesystem, path_text, resolve_local_path
from .rewrite import Rewrite
from .source import Source


def open_source(path: str | os.PathLike[str], filesystem: object | None = None, entry: Entry | None = None) -> Source:
    """Open a file for reading.

    Parameters
    ----------
    path : a path; on the local file system also a `file:` URI. Without a file system also a URL of an object store.
    filesystem : a pyarrow or fsspec file system, or what `file_system` gives; None for local paths and URLs.
    known : what a listing told of the file, which saves a request.

    Raises
    ------
    StorageError
        if it is missing, not a regular file, or may not be read.
    """
    listed = None if entry is None else entry.known
    location = object_location(path, filesystem) if listed is None else listed.location
    if location is not None:
        return ObjectSource(location, listed)
    remote = as_arrow_filesystem(filesystem)
    if remote is None:
        return LocalSource(resolve_local_path(path))
    return RemoteSource(path_text(path), remote)


def create(path: str | os.PathLike[str], filesystem: object | None = None, new: bool = False) -> Rewrite:
    """Write a file from nothing.

    Parameters
    ----------
    path, filesystem : the file, as in `rewrite`.
    new : whether it must not take the place of another one, which without it does; decided in the step that puts it
        there, so that of several who write one name at the same time only one succeeds. Such an object is held in
        memory and sent in one request, and can have `put_if_absent.NEW_BYTES`.

    Returns
    -------
    A context manager; see `Rewrite`. `commit` (or entering it) raises ConcurrentChangeError if `new` and there is one.

    Raises
    ------
    StorageError
        As in `rewrite`. At once: if `new` and the file system has no such step, as those of pyarrow and fsspec.
    """
    location = object_location(path, filesystem)
    if location is not None:
        return ObjectRewrite(None, location, new)
    remote = as_arrow_filesystem(filesystem)
    if remote is None:
        return LocalRewrite(None, resolve_local_path(path), new)
    if new:
        problem = "the file system cannot write a file only if there is none; give a local path or a URL"
        raise StorageError(problem, path=path, errno=errno.EOPNOTSUPP)
    return RemoteRewrite(None, path_text(path), remote)
