"""What a path and a file system are, as callers give them, and one canonical name for each file."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from ..errors import StorageError
from ..redaction import remember_filesystem
from ..util.lazy import late_module
from .objects.location import URL, ObjectLocation, ObjectStores

if TYPE_CHECKING:
    import pyarrow.fs as fs

    from ..util.given_types import FileSystem
else:
    fs = late_module("pyarrow.fs")

T = TypeVar("T")

_FILE_URI = re.compile(r"file:(?://(?:localhost)?(?=/))?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class Place(NamedTuple):
    """Where a path leads: to an object of a store, on a file system of pyarrow, or else on the local disk.

    Attributes
    ----------
    path : as the object's name, on the file system of pyarrow, or as a local path, which is no URI any more.
    location : of an object, or of a prefix of keys.
    filesystem : of pyarrow.
    """

    path: str
    location: ObjectLocation | None = None
    filesystem: fs.FileSystem | None = None


_FROM_ENVIRONMENT = ObjectStores()


def is_url(path: object) -> bool:
    """Return whether a path is a URL of an object store or a web server, by its scheme."""
    return isinstance(path, str) and URL.match(path) is not None


def resolve_stores(filesystem: FileSystem | None) -> ObjectStores | None:
    """Return the object stores for a file system as callers give it; None for other file systems."""
    if filesystem is None:
        return _FROM_ENVIRONMENT
    if isinstance(filesystem, ObjectStores):
        return filesystem
    module = sys.modules.get("obstore.store")  # a caller that has such a store has imported it
    if module is not None and isinstance(filesystem, module.ObjectStoreMethods):
        return ObjectStores(store=filesystem)
    return None


def resolve_filesystem(
    filesystem: FileSystem | None, storage_options: Mapping[str, object] | None
) -> FileSystem | None:
    """Combine the parameters `filesystem` and `storage_options` into one file system.

    Raises
    ------
    StorageError
        If both are given, or the options are not a mapping.
    """
    if not storage_options:
        return filesystem
    if not isinstance(storage_options, Mapping):
        raise StorageError(f"storage_options must be a mapping, not {type(storage_options).__name__}")
    if filesystem is not None:
        raise StorageError("storage_options cannot be combined with filesystem=: give one of the two")
    return ObjectStores(storage_options)


def as_arrow_filesystem(filesystem: FileSystem | None) -> fs.FileSystem | None:
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


def is_local(filesystem: FileSystem | None, paths: Iterable[object] = ()) -> bool:
    """Return whether files are on the local file system."""
    stores = resolve_stores(filesystem)
    is_elsewhere = as_arrow_filesystem(filesystem) is not None if stores is None else stores.is_one_store
    return not is_elsewhere and not any(map(is_url, paths))


def find_places(
    paths: Sequence[str | os.PathLike[str]], filesystem: FileSystem | None = None, *, for_reading: bool = False
) -> list[Place]:
    """Return where paths lead on a file system, as callers give both.

    Parameters
    ----------
    for_reading : as in `resolve_local_path`.

    Raises
    ------
    StorageError
        A path or the file system is none, or a URL is invalid.
    """
    stores = resolve_stores(filesystem)
    remote = as_arrow_filesystem(filesystem) if stores is None else None
    if remote is not None:
        return [Place(path_text(path), filesystem=remote) for path in paths]
    locations: list[ObjectLocation | None] = [None] * len(paths)
    if stores is not None and (stores.is_one_store or any(map(is_url, paths))):
        locations = stores.locate_all(paths)
    places = []
    for path, location in zip(paths, locations, strict=True):
        name = resolve_local_path(path, filesystem, for_reading) if location is None else location.name
        places.append(Place(name, location))
    return places


def object_location(path: str | os.PathLike[str], filesystem: FileSystem | None) -> ObjectLocation | None:
    """Return the object location of a path on a file system, or None."""
    stores = resolve_stores(filesystem)
    return None if stores is None else stores.locate(path)


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


def resolve_local_path(
    path: str | os.PathLike[str], filesystem: FileSystem | None = None, for_reading: bool = False
) -> str:
    """Return the local path for a path or a `file:` URI, which is how Spark names its input files.

    Parameters
    ----------
    filesystem : the local one; some take no URIs.
    for_reading : whether parts of the path may be quoted, as libraries name local files: some quote the path of a table
        but not what is in it, others nothing although they write a URI. A plain path that exists is taken as it is, and
        in a URI a quoted name before one that is called like it literally. What does not exist is resolved as without.
    """
    text = path_text(path)
    if not text:  # elsewhere it is the root of the file system; here it would mean the working folder
        raise StorageError("there is no such file or folder: the path is empty", errno=errno.ENOENT)
    is_quoted = for_reading and "%" in text
    if (":" not in text and not is_quoted) or os.path.lexists(text):
        return text
    stores = resolve_stores(filesystem)
    if stores is not None and not stores.takes_uris:
        return text
    uri = _FILE_URI.match(text)
    found = _find_quoted(text, uri) if is_quoted else None
    if found is not None:
        return path_text(found)
    if uri:
        return path_text("/".join(map(_unquote_name, text[uri.end() :].split("/"))))
    if _URL.match(text):
        known = "s3://, gs://, az://, abfss://, http:// and https:// are; in Python, filesystem= gives others"
        raise StorageError(f"URLs of this kind are not known: {known}", path=text, errno=errno.ENOENT)
    return text


def _find_quoted(text: str, uri: re.Match[str] | None) -> str | None:
    """Return the existing file or folder that a path or URI names whose parts may be quoted.

    A plain path leads to where anyone who checks its text sees it lead: from its first quoted part on no link is
    followed, so that nothing outside of the folder that is named literally is found.
    """
    if uri is None and (_URL.match(text) or not text.startswith("/")):
        return None
    found, literal = "/", None
    for part in text[uri.end() if uri else 0 :].split("/"):
        name = _unquote_name(part)
        paths = (os.path.join(found, one) for one in ([part, name] if uri is None else [name, part]))
        existing = next(filter(os.path.lexists, paths), None)
        if existing is None:
            return None
        if uri is None and literal is None and existing != os.path.join(found, part):
            literal = found
        found = existing
    if literal is not None:
        below = found.rstrip("/")[len(literal.rstrip("/")) :]
        if os.path.realpath(found) != os.path.realpath(literal).rstrip("/") + below:
            return None
    return found


def _unquote_name(part: str) -> str:
    """Decode the name of a file or folder in a path; as it is if that gives no name, but a way to somewhere else."""
    name = unquote(part, errors="surrogateescape")  # names need not be UTF-8
    return part if name in ("", ".", "..") or "/" in name or "\0" in name else name


def resolve_given_path(path: T, filesystem: FileSystem | None = None) -> T | str:
    """Return a path that a caller gives, with a local one that is written as libraries do resolved."""
    if not isinstance(path, str) or not (path[:5] == "file:" or ("%" in path and "://" not in path)):
        return path
    return resolve_local_path(path, filesystem, for_reading=True) if is_local(filesystem, [path]) else path


_SCHEMES = {"s3a": "s3", "gcs": "gs", "azure": "az"}


def name_of(path: str, filesystem: FileSystem | None = None) -> str:
    """Return the canonical name of a file: an absolute local path, or a URL with the standard name of its scheme."""
    if is_url(path):
        scheme, colon, rest = path.partition(":")
        scheme = scheme.lower()
        return _SCHEMES.get(scheme, scheme) + colon + rest
    if not is_local(filesystem):
        return path
    if path[:1] == "/" and "//" not in path and "/." not in path:
        return path
    folder, name = os.path.split(path)
    if ".." in folder.split(os.sep):  # after a link, `..` leads elsewhere than the text says
        return os.path.join(os.path.realpath(folder), name)
    return os.path.abspath(path)


def same_place(
    path: str | os.PathLike[str], other: str | os.PathLike[str], filesystem: FileSystem | None = None
) -> bool:
    """Return whether two paths of one file system lead to the same file; local symbolic links are resolved."""
    one, two = find_places([path, other], filesystem)
    if one.location is not None or two.location is not None:
        return one.location is not None and two.location is not None and one.location.same(two.location)
    if one.filesystem is None:
        return os.path.realpath(one.path) == os.path.realpath(two.path)
    return normalize_path(one.path, one.filesystem) == normalize_path(two.path, one.filesystem)
