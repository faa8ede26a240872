"""The only place that opens files: ranged reads, listings, and replacing a file whole or not at all."""

from __future__ import annotations

import os

from pyarrow.fs import FileSystem, LocalFileSystem

from ..errors import StorageError
from . import location
from .known import ClosedSource, read_ends, visit
from .listing import list_files
from .local import LocalRewrite
from .remote import RemoteRewrite
from .remote_source import RemoteIdentity, RemoteSource
from .rewrite import Rewrite
from .source import FileIdentity, LocalSource, Source
from .tables import managed_table
from .temporary import leftovers

__all__ = [
    "ClosedSource",
    "FileIdentity",
    "RemoteIdentity",
    "Rewrite",
    "Source",
    "arrow_filesystem",
    "create",
    "is_local",
    "leftovers",
    "list_files",
    "managed_table",
    "open_source",
    "read_ends",
    "rewrite",
    "same_place",
    "visit",
]


def is_local(filesystem: object | None) -> bool:
    """Whether a file system is the local one, as None is."""
    return location.arrow_filesystem(filesystem) is None


def open_source(path: str | os.PathLike[str], filesystem: object | None = None) -> Source:
    """Open a file for reading.

    Parameters
    ----------
    path : a path; on the local file system also a `file:` URI.
    filesystem : a pyarrow or fsspec file system; None for the local one.

    Raises
    ------
    StorageError
        if it is missing, not a regular file, or may not be read.
    """
    remote = location.arrow_filesystem(filesystem)
    if remote is None:
        return LocalSource(location.local(path))
    return RemoteSource(location.plain(path), remote)


def rewrite(
    source: Source,
    target: str | os.PathLike[str] | None = None,
    filesystem: object | None = None,
) -> Rewrite:
    """Write a file that begins as `source` does, and let it take the place of `source` or of `target`.

    Parameters
    ----------
    source : the file as it was opened; it stays open, and the caller's.
    target : the file to be written; None, or a path that leads to the source, replaces the source itself.
    filesystem : where `target` is: a pyarrow or fsspec file system; None for the local one.

    Returns
    -------
    A context manager; see `Rewrite`.

    Raises
    ------
    StorageError
        when it is entered: if the folder is missing, or it or the file may not be written. At once: if a file
        that is not on the local file system is to be replaced in place.
    """
    remote = location.arrow_filesystem(filesystem)
    if target is None:
        if not isinstance(source, LocalSource):
            raise _not_in_place(source)
        return LocalRewrite(source, None)
    if remote is None:
        return LocalRewrite(source, location.local(target))
    name = location.plain(target)
    same = isinstance(source, RemoteSource) and source.filesystem.equals(remote)
    if same and remote.normalize_path(name) == remote.normalize_path(source.name):
        raise _not_in_place(source)
    return RemoteRewrite(source, name, remote)


def create(path: str | os.PathLike[str], filesystem: object | None = None) -> Rewrite:
    """Write a file from nothing; it takes the place of what stands there, if anything does. See `rewrite`."""
    remote = location.arrow_filesystem(filesystem)
    if remote is None:
        return LocalRewrite(None, location.local(path))
    return RemoteRewrite(None, location.plain(path), remote)


def arrow_filesystem(filesystem: object | None = None) -> FileSystem:
    """The pyarrow file system on which pyarrow itself finds the paths that `list_files` gives."""
    return location.arrow_filesystem(filesystem) or LocalFileSystem()


def same_place(path: str | os.PathLike[str], other: str | os.PathLike[str], filesystem: object | None = None) -> bool:
    """Whether two paths of one file system lead to the same place, symbolic links resolved on the local one."""
    remote = location.arrow_filesystem(filesystem)
    if remote is None:
        return os.path.realpath(location.local(path)) == os.path.realpath(location.local(other))
    return bool(remote.normalize_path(location.plain(path)) == remote.normalize_path(location.plain(other)))


def _not_in_place(source: Source) -> StorageError:
    problem = "files are replaced in place on the local file system only; give an output elsewhere"
    return StorageError(problem, path=source.name)
