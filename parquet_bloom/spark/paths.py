"""Paths: as callers write them, as Spark takes them, and as its lists of files give them back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from ..errors import ParquetBloomError
from .doubt import Doubt

_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_GLOB = frozenset("{}[]*?\\")


def path_list(paths: Any) -> list[str]:
    """One path or several, as texts."""
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not several:
        raise ParquetBloomError("no path is given")
    return [os.fsdecode(path) for path in several]


def local_path(path: str) -> str | None:
    """The local path that is meant by a path or a `file:` URI; None if it is on another file system.

    Spark takes a URI's path as it stands, but writes `%20` for a blank in its lists of files: what exists is meant.
    """
    uri = _FILE_URI.match(path)
    if uri is None or os.path.lexists(path):
        return None if _URL.match(path) and not os.path.lexists(path) else os.path.abspath(path)
    literal = path[uri.end() :]
    decoded = unquote(literal)
    return decoded if os.path.lexists(decoded) and not os.path.lexists(literal) else literal


def listed_files(uris: Iterable[str]) -> list[str]:
    """The local files in a list that Spark gave, sorted.

    Raises
    ------
    Doubt
        Some are on another file system.
    """
    files = []
    for uri in uris:
        found = _FILE_URI.match(uri)
        if found is None:
            raise Doubt(f"only files of the local file system are looked into, not {uri}")
        files.append(unquote(uri[found.end() :]))
    return sorted(files)


def is_pattern(path: str) -> bool:
    """Whether Spark takes a path for a pattern."""
    return not _GLOB.isdisjoint(path)


def for_reader(path: str) -> str:
    """A caller's path as Spark's reader takes it: signs and escapes in the name of what exists mean themselves."""
    local = local_path(path)
    if local is None or not os.path.lexists(local):
        return path
    uri = _FILE_URI.match(path)
    is_decoded = uri is not None and path[uri.end() :] != local
    return file_uri(local) if is_pattern(path) or is_decoded else path


def file_uri(path: str) -> str:
    """A local path as Spark's reader takes it, whatever signs are in it."""
    return "file://" + re.sub(r"[{}\[\]*?,\\]", r"\\\g<0>", path)
