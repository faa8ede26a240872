"""Resolution of paths and file systems as callers give them, and one canonical name for each file."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from ..errors import StorageError
from ..redaction import remember_filesystem
from ..util.lazy import late_module
from .objects.location import is_store, is_url, resolve_stores

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")

_FILE_URI = re.compile(r"file:(?://(?:localhost)?(?=/))?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def as_arrow_filesystem(filesystem: object | None) -> fs.FileSystem | None:
    """Return the pyarrow file system for what a caller gave, or None.

    None means the local file system, which is read without pyarrow, or object stores, if `object_location` finds an
    object for the path.
    """
    if filesystem is None or isinstance(filesystem, fs.LocalFileSystem) or resolve_stores(filesystem) is not None:
        return None
    if isinstance(filesystem, fs.FileSystem):
        remember_filesystem(filesystem)
        return filesystem
    fsspec = sys.modules.get("fsspec")  # a caller that has such an object has imported it
    if fsspec is not None and isinstance(filesystem, fsspec.AbstractFileSystem):
        protocol = filesystem.protocol
        if "file" in ((protocol,) if isinstance(protocol, str) else protocol):
            return None
        remember_filesystem(filesystem)
        return fs.PyFileSystem(fs.FSSpecHandler(filesystem))
    raise StorageError(f"{type(filesystem).__name__} is not a file system of pyarrow or fsspec, nor a store of obstore")


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as a string that can be passed to a system call."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
    except TypeError:
        raise StorageError(f"a path must be a string or a path object, not {type(path).__name__}") from None
    except UnicodeEncodeError:
        raise StorageError("the path holds characters that no file's name can", path=path, errno=errno.EINVAL) from None
    if "\0" in text:
        raise StorageError("the path holds a null character", path=text, errno=errno.EINVAL)
    return text


def as_utf8(path: str) -> str:
    """Return a path as text that any format can hold: as it is, or as a `file:` URI if its bytes are not UTF-8.

    Either is a path that can be given to this package: `resolve_local_path` decodes the URI.
    """
    if path.isascii():
        return path
    try:
        path.encode()
    except UnicodeEncodeError:
        return "file://" + quote(os.fsencode(os.path.abspath(path)))
    return path


def normalize_path(path: str, filesystem: fs.FileSystem) -> str:
    """Return a path in the normal form of its file system; fsspec also removes the protocol."""
    handler = filesystem.handler if isinstance(filesystem, fs.PyFileSystem) else None
    if isinstance(handler, fs.FSSpecHandler):
        path = handler.fs._strip_protocol(path)
    return str(filesystem.normalize_path(path))


def resolve_local_path(path: str | os.PathLike[str], filesystem: object | None = None) -> str:
    """Return the local path for a path or a `file:` URI, which is how Spark names its input files.

    Parameters
    ----------
    filesystem : the local one; some take no URIs.
    """
    text = path_text(path)
    if not text:  # elsewhere it is the root of the file system; here it would mean the working folder
        raise StorageError("there is no such file or folder: the path is empty", errno=errno.ENOENT)
    if ":" not in text or not _takes_uris(filesystem) or os.path.lexists(text):
        return text
    uri = _FILE_URI.match(text)
    if uri:
        return path_text("/".join(map(_unquote_name, text[uri.end() :].split("/"))))
    if _URL.match(text):
        known = "s3://, gs://, az://, abfss://, http:// and https:// are; in Python, filesystem= gives others"
        raise StorageError(f"URLs of this kind are not known: {known}", path=text, errno=errno.ENOENT)
    return text


def _takes_uris(filesystem: object | None) -> bool:
    stores = resolve_stores(filesystem)
    return stores is None or stores.takes_uris


def _unquote_name(part: str) -> str:
    """Decode the name of a file or folder in a path; as it is if that gives no name, but a way to somewhere else."""
    name = unquote(part, errors="surrogateescape")  # names need not be UTF-8
    return part if name in ("", ".", "..") or "/" in name or "\0" in name else name


def find_local_path(path: str | os.PathLike[str], filesystem: object | None = None) -> str:
    """Return the path of a local file or folder as libraries name it: a path or a `file:` URI, quoted or not.

    Some quote the path of a table but not what is in it, others nothing although they write a URI. So each part of the
    path may be quoted, but a plain path that exists is taken as it is, and in a URI a quoted name before one that is
    called like it literally. What does not exist is resolved as by `resolve_local_path`: this is for what is read.

    A plain path leads to where anyone who checks its text sees it lead: from its first quoted part on no link is
    followed, so that nothing outside of the folder that is named literally is found.
    """
    text = path_text(path)
    if "%" not in text or not _takes_uris(filesystem) or os.path.lexists(text):
        return resolve_local_path(path, filesystem)
    uri = _FILE_URI.match(text)
    if uri is None and (_URL.match(text) or not text.startswith("/")):
        return resolve_local_path(path)
    found, literal = "/", None
    for part in text[uri.end() if uri else 0 :].split("/"):
        name = _unquote_name(part)
        paths = (os.path.join(found, one) for one in ([part, name] if uri is None else [name, part]))
        existing = next(filter(os.path.lexists, paths), None)
        if existing is None:
            return resolve_local_path(path)
        if uri is None and literal is None and existing != os.path.join(found, part):
            literal = found
        found = existing
    if literal is not None:
        below = found.rstrip("/")[len(literal.rstrip("/")) :]
        if os.path.realpath(found) != os.path.realpath(literal).rstrip("/") + below:
            return resolve_local_path(path)
    return path_text(found)


def resolve_given_path(path: Any, filesystem: object | None = None) -> Any:
    """Return a path that a caller gives, with a local one that is written as libraries do resolved."""
    if not isinstance(path, str) or not (path[:5] == "file:" or ("%" in path and "://" not in path)):
        return path
    if is_url(path) or is_store(filesystem) or as_arrow_filesystem(filesystem) is not None:
        return path
    return find_local_path(path, filesystem)


_SCHEMES = {"s3a": "s3", "gcs": "gs", "azure": "az"}


def name_of(path: str, filesystem: object | None = None) -> str:
    """Return the canonical name of a file: an absolute local path, or a URL with the standard name of its scheme."""
    if is_url(path):
        scheme, colon, rest = path.partition(":")
        scheme = scheme.lower()
        return _SCHEMES.get(scheme, scheme) + colon + rest
    if as_arrow_filesystem(filesystem) is not None or is_store(filesystem):
        return path
    if path[:1] == "/" and "//" not in path and "/." not in path:
        return path
    folder, name = os.path.split(path)
    if ".." in folder.split(os.sep):  # after a link, `..` leads elsewhere than the text says
        return os.path.join(os.path.realpath(folder), name)
    return os.path.abspath(path)
