"""Opening of files for reading, and creation and replacement of files, on any file system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import StorageError
from ..util.lazy import late_module
from .confined import ConfinedFiles, find_folders
from .filesystem_source import RemoteIdentity, RemoteSource
from .listing import Entry
from .local.local_source import LocalSource
from .new_file import Rewrite
from .objects.location import ListedObject
from .paths import as_arrow_filesystem, find_places, is_local, normalize_path, object_location
from .source import Source

if TYPE_CHECKING:
    import pyarrow.fs as fs

    from ..util.given_types import FileSystem
    from . import filesystem_rewrite
    from .local import local_rewrite
    from .objects import arrow_filesystem as object_filesystem
    from .objects import object_rewrite, object_source, s3_rewrite
else:
    fs = late_module("pyarrow.fs")
    filesystem_rewrite = late_module("parquet_bloom.storage.filesystem_rewrite")
    local_rewrite = late_module("parquet_bloom.storage.local.local_rewrite")
    object_filesystem = late_module("parquet_bloom.storage.objects.arrow_filesystem")
    object_rewrite = late_module("parquet_bloom.storage.objects.object_rewrite")
    object_source = late_module("parquet_bloom.storage.objects.object_source")
    s3_rewrite = late_module("parquet_bloom.storage.objects.s3_rewrite")


def open_source(
    path: str | os.PathLike[str], filesystem: FileSystem | None = None, entry: Entry | None = None
) -> Source:
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
    if entry is not None and entry.known is not None:
        return object_source.ObjectSource(entry.known.location, entry.known)
    [place] = find_places([path], filesystem)
    if place.location is not None:
        return object_source.ObjectSource(place.location)
    if place.filesystem is not None:
        return RemoteSource(place.path, place.filesystem)
    folders = find_folders(filesystem, place.path) if isinstance(filesystem, ConfinedFiles) else None
    return LocalSource(place.path, None if folders is None else folders.open(place.path))


def entry_for_identity(path: str, filesystem: FileSystem | None, identity: object) -> Entry | None:
    """Return a listing entry for an object that was opened before, or None if the path is not that object.

    No request is made, neither here nor when the entry is opened. A change of the object is noticed when it is read.
    """
    if not isinstance(identity, RemoteIdentity) or identity.etag is None:
        return None
    location = object_location(path, filesystem)
    if location is None or (location.label, location.key) != (identity.filesystem, identity.path):
        return None
    return Entry(path, ListedObject(location, identity.size, identity.etag.decode()))


def create(path: str | os.PathLike[str], filesystem: FileSystem | None = None, new: bool = False) -> Rewrite:
    """Write a file from nothing.

    Parameters
    ----------
    path, filesystem : the file, as in `rewrite`.
    new : fail if the file exists, instead of replacing it. The step that creates the name decides, so that only one of
        several concurrent writers succeeds. Such an object is buffered in memory and sent in one request, so it can
        have at most `object_rewrite.NEW_BYTES`.

    Returns
    -------
    A context manager; see `Rewrite`. `commit`, or entering it, raises ConcurrentChangeError if `new` and the file
    exists.

    Raises
    ------
    StorageError
        As in `rewrite`. At once: if `new` and the file system has no such step, as for pyarrow and fsspec.
    """
    [place] = find_places([path], filesystem)
    if place.location is not None:
        return object_rewrite.ObjectRewrite(None, place.location, new)
    if place.filesystem is None:
        return local_rewrite.LocalRewrite(None, place.path, new)
    if new:
        problem = "the file system cannot create a file only if it does not exist; give a local path or a URL"
        raise StorageError(problem, path=path, errno=errno.EOPNOTSUPP)
    return filesystem_rewrite.RemoteRewrite(None, place.path, place.filesystem)


def rewrite(
    source: Source,
    target: str | os.PathLike[str] | None = None,
    filesystem: FileSystem | None = None,
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
    if target is None:
        return _in_place(source)
    name, location, remote = find_places([target], filesystem)[0]
    if location is not None:
        same = isinstance(source, object_source.ObjectSource) and location.same(source.location)
        return (
            _in_place(source)
            if same
            else s3_rewrite.rewrite_elsewhere(source, location) or object_rewrite.ObjectRewrite(source, location)
        )
    if remote is None:
        return local_rewrite.LocalRewrite(source, name)
    same = isinstance(source, RemoteSource) and source.filesystem.equals(remote)
    if same and normalize_path(name, remote) == normalize_path(source.name, remote):
        raise _not_in_place(source)
    return filesystem_rewrite.RemoteRewrite(source, name, remote)


def _in_place(source: Source) -> Rewrite:
    """Return the rewrite that replaces the source itself."""
    if isinstance(source, LocalSource):
        return local_rewrite.LocalRewrite(source, None)
    if isinstance(source, object_source.ObjectSource):
        return s3_rewrite.rewrite_in_place(source)
    raise _not_in_place(source)


def _not_in_place(source: Source) -> StorageError:
    problem = "files are replaced in place on the local file system, and on S3 by URL, only; give an output elsewhere"
    return StorageError(problem, path=source.name)


def arrow_filesystem(filesystem: FileSystem | None = None, paths: Iterable[str] = ()) -> fs.FileSystem:
    """Return the pyarrow file system on which pyarrow can open the paths that `list_files` returns.

    Parameters
    ----------
    filesystem : a pyarrow or fsspec file system, or what `resolve_filesystem` gives; None for local paths and URLs.
    paths : the paths to open; without `filesystem` the result is the local file system only if none of them is a URL.
    """
    if is_local(filesystem, paths):
        return fs.LocalFileSystem()
    return as_arrow_filesystem(filesystem) or object_filesystem.make_filesystem(filesystem)
