"""What a caller's path and file system mean: a local path, or a path on a pyarrow file system."""

from __future__ import annotations

import errno
import os
import re
import sys
from urllib.parse import unquote

from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem

from ..errors import StorageError
from ..redaction import remember_filesystem
from .objects.location import is_store, is_url, resolve_stores

_FILE_URI = re.compile(r"file:(?://(?:localhost)?(?=/))?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def as_arrow_filesystem(filesystem: object | None) -> FileSystem | None:
    """The pyarrow file system that is meant.

    None means the local one, for which plain Python is used, unless `place_of` finds an object for the path.
    """
    if filesystem is None or isinstance(filesystem, LocalFileSystem) or resolve_stores(filesystem) is not None:
        return None
    if isinstance(filesystem, FileSystem):
        remember_filesystem(filesystem)
        return filesystem
    fsspec = sys.modules.get("fsspec")  # whoever has an object of it has imported it
    if fsspec is not None and isinstance(filesystem, fsspec.AbstractFileSystem):
        protocol = filesystem.protocol
        if "file" in ((protocol,) if isinstance(protocol, str) else protocol):
            return None
        remember_filesystem(filesystem)
        return PyFileSystem(FSSpecHandler(filesystem))
    raise StorageError(f"{type(filesystem).__name__} is not a file system of pyarrow or fsspec, nor a store of obstore")


def path_text(path: str | os.PathLike[str]) -> str:
    """The path as a string, fit to be handed to a system call."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
    except TypeError:
        raise StorageError(f"a path is a string or a path object, not {type(path).__name__}") from None
    except UnicodeEncodeError:
        raise StorageError("the path holds characters that no file's name can", path=path, errno=errno.EINVAL) from None
    if "\0" in text:
        raise StorageError("the path holds a null character", path=text, errno=errno.EINVAL)
    return text


def normalize_path(path: str, filesystem: FileSystem) -> str:
    """A path on a file system without what may stand there or not; of fsspec's, its protocol is such a thing."""
    handler = filesystem.handler if isinstance(filesystem, PyFileSystem) else None
    if isinstance(handler, FSSpecHandler):
        path = handler.fs._strip_protocol(path)
    return str(filesystem.normalize_path(path))


def resolve_local_path(path: str | os.PathLike[str]) -> str:
    """The local path meant by a path or by a `file:` URI, as Spark names its input files."""
    text = path_text(path)
    if not text:  # the file system's root elsewhere; here it would stand for the working folder
        raise StorageError("there is no such file or folder: the path is empty", errno=errno.ENOENT)
    if ":" not in text or os.path.lexists(text):
        return text
    uri = _FILE_URI.match(text)
    if uri:
        return path_text(unquote(text[uri.end() :]))
    if _URL.match(text):
        raise StorageError("a URL needs a file system: pass filesystem=", path=text, errno=errno.ENOENT)
    return text


_SCHEMES = {"s3a": "s3", "gcs": "gs", "azure": "az"}


def name_of(path: str, filesystem: object | None = None) -> str:
    """The name of a file: absolute on the local file system, and whichever way S3's scheme was written."""
    if is_url(path):
        scheme, colon, rest = path.partition(":")
        scheme = scheme.lower()
        return _SCHEMES.get(scheme, scheme) + colon + rest
    if as_arrow_filesystem(filesystem) is not None or is_store(filesystem):
        return path
    if path[:1] == "/" and "//" not in path and "/." not in path:
        return path
    folder, name = os.path.split(path)
    if ".." in folder.split(os.sep):  # behind a link it leads elsewhere than its name says
        return os.path.join(os.path.realpath(folder), name)
    return os.path.abspath(path)
