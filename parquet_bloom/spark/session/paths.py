"""Paths: as callers write them, as Spark's reader accepts them, and as its lists of files return them."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from ...errors import ParquetBloomError
from .fallback import CannotPush

_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*|(?=/(?!/)))")  # scheme and host, if there is one
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_GLOB = frozenset("{}[]*?\\")


def path_list(paths: Any) -> list[str]:
    """Convert a path, or a list of paths, to a list of texts."""
    items = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not items:
        raise ParquetBloomError("no path is given")
    return [os.fsdecode(path) for path in items]


def local_path(path: str) -> str | None:
    """Return the local path of a path or a `file:` URI, or None if it is on another file system.

    Spark does not decode a URI's path, but writes `%20` for a blank in its lists of files; the form that exists counts.
    """
    uri = _FILE_URI.match(path)
    if uri is None or os.path.lexists(path):
        return None if _URL.match(path) and not os.path.lexists(path) else os.path.abspath(path)
    literal = path[uri.end() :]
    decoded = unquote(literal)
    return decoded if os.path.lexists(decoded) and not os.path.lexists(literal) else literal


def find_scheme(uri: str) -> str:
    """Return the scheme of a URI from Spark's lists, in lower case; empty if there is none."""
    match = _URL.match(uri)
    return match[1].lower() if match else ""


def listed_path(uri: str) -> str:
    """Decode a URI from Spark's lists of files to a local path or, say, `hdfs://host/a b`.

    Raises
    ------
    CannotPush
        It is not such a URI.
    """
    file_prefix = _FILE_URI.match(uri)
    if file_prefix is not None:
        return unquote(uri[file_prefix.end() :])
    authority = _AUTHORITY.match(uri)
    if authority is None or find_scheme(uri) == "file":
        raise CannotPush(f"it is not known which file {uri} is")
    return authority[0] + unquote(uri[authority.end() :])


def normalize_path(path: str, authority: str = "") -> str:
    """Normalize a path of the caller, so that it is a prefix of the results of `listed_path` for files below it.

    Parameters
    ----------
    authority : scheme and host of the files, for URIs without a host.
    """
    local = local_path(path)
    if local is not None:
        return os.path.normpath(local)
    match = _AUTHORITY.match(path)
    if match is None:
        return path
    start = match[0].removesuffix("//")
    start = authority if start.endswith(":") and authority.startswith(start) else start
    return start + os.path.normpath(re.sub("/+", "/", "/" + path[match.end() :]))


def find_authority(path: str) -> str:
    """Return scheme and host of a result of `listed_path`; empty if it is a local path."""
    match = _AUTHORITY.match(path)
    return match[0] if match else ""


def is_pattern(path: str) -> bool:
    """Return True if Spark treats a path as a glob pattern."""
    return not _GLOB.isdisjoint(path)


def to_reader_path(path: str) -> str:
    """Convert a path of the caller for Spark's reader, with special characters of existing names escaped."""
    local = local_path(path)
    if local is None or not os.path.lexists(local):
        return path
    uri = _FILE_URI.match(path)
    is_decoded = uri is not None and path[uri.end() :] != local
    return file_uri(local) if is_pattern(path) or is_decoded else path


def file_uri(path: str) -> str:
    """Convert a local path, or a result of `listed_path`, for Spark's reader; special characters are escaped."""
    authority = find_authority(path)
    return (authority or "file://") + re.sub(r"[{}\[\]*?,\\]", r"\\\g<0>", path[len(authority) :])
