"""Paths: as callers write them, as Spark takes them, and as its lists of files give them back."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote

from ...errors import ParquetBloomError
from .fallback import CannotPush

_FILE_URI = re.compile(r"file:(?://(?:localhost)?)?(?=/)")
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*|(?=/(?!/)))")  # scheme and host, if there is one
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
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


def find_scheme(uri: str) -> str:
    """The scheme of a URI in a list that Spark gave, in small letters; empty if there is none."""
    found = _URL.match(uri)
    return found[1].lower() if found else ""


def listed_path(uri: str) -> str:
    """A URI in a list that Spark gave, with nothing encoded in it: a local path, or `hdfs://host/a b`.

    Raises
    ------
    Doubt
        It is none.
    """
    found = _FILE_URI.match(uri)
    if found is not None:
        return unquote(uri[found.end() :])
    place = _PLACE.match(uri)
    if place is None or find_scheme(uri) == "file":
        raise CannotPush(f"it is not known which file {uri} is")
    return place[0] + unquote(uri[place.end() :])


def normalize_path(path: str, place: str = "") -> str:
    """A caller's path without what may stand there or not, as it begins what `listed_path` gives.

    Parameters
    ----------
    place : scheme and host of the files, for URIs that leave the host out.
    """
    local = local_path(path)
    if local is not None:
        return os.path.normpath(local)
    found = _PLACE.match(path)
    if found is None:
        return path
    start = found[0].removesuffix("//")
    start = place if start.endswith(":") and place.startswith(start) else start
    return start + os.path.normpath(re.sub("/+", "/", "/" + path[found.end() :]))


def place_of(path: str) -> str:
    """Scheme and host of what `listed_path` gives; empty if it is local."""
    found = _PLACE.match(path)
    return found[0] if found else ""


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
    """A local path, or what `listed_path` gives, as Spark's reader takes it, whatever signs are in it."""
    place = place_of(path)
    return (place or "file://") + re.sub(r"[{}\[\]*?,\\]", r"\\\g<0>", path[len(place) :])
