"""Where files may be that a client names: below the folders of the index's lake, or below those that were allowed.

A service must not be made to read any file of its machine, nor of the network. So a path is followed to where it leads
before anything is looked at there, and what lies outside is refused whether it exists or not.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ...errors import ParquetBloomError
from ...lake.files.listing import name_of
from ...storage import is_url, list_files
from ..errors import ApiError

_FILE_URL = re.compile(r"file:(//(localhost)?(?=/))?(?=/)", re.IGNORECASE)
_HIDING = re.compile(r"%2e|%2f|%5c|[?#\\]", re.IGNORECASE)
_ANY_DEPTH = "**"
_MOST_DEPTHS = 2  # in a pattern: each goes through all folders again for every one that those before it have found


class AllowedPaths:
    """The places that files may be at.

    Parameters
    ----------
    roots : folders, patterns and URLs; of local ones, links are followed.
    """

    def __init__(self, roots: Iterable[str]):
        self._local: list[tuple[list[str], list[str]]] = []
        self._urls: list[list[str]] = []
        for root in roots:
            local = _local_path(root)
            if local is None:
                self._urls.append(_parts(name_of(root)))
            else:
                base, pattern = _split(os.path.abspath(local))
                self._local.append((_parts(os.path.realpath(base)), pattern))

    def __bool__(self) -> bool:
        return bool(self._local or self._urls)

    def check(self, paths: Sequence[str], filesystem: object | None) -> list[str]:
        """The paths, if all files that they stand for are where they may be.

        Raises
        ------
        Refused
            One is not, or it is no path.
        ParquetBloomError
            A folder or pattern, of an allowed place, cannot be listed.
        """
        folders: dict[str, bool] = {}
        for path in paths:
            if not path or "\0" in path:
                raise ApiError(422, f"files: {path!r} is no path")
            if path[0] != "/":
                self._check_url(path)
                continue
            if ".." in path.split("/"):
                raise _outside(path)
            base, pattern = _split(path)
            if pattern.count(_ANY_DEPTH) > _MOST_DEPTHS:
                raise ApiError(422, f"files: {path[:200]!r} has more than {_MOST_DEPTHS} times {_ANY_DEPTH}")
            real = _parts(os.path.realpath(base))
            if not any(real[: len(root)] == root for root, _ in self._local):
                raise _outside(path)
            files = list_files(path, filesystem) if pattern or os.path.isdir(path) else [path]
            if not all(self._holds(file, folders) for file in files):
                raise _outside(path)
        return list(paths)

    def _holds(self, file: str, folders: dict[str, bool]) -> bool:
        """Whether a file leads to a place that is allowed; of what `folders` holds, that is known."""
        if os.path.islink(file):
            return self._allowed(os.path.realpath(file))
        folder, name = os.path.split(file)
        if any(pattern for _, pattern in self._local):  # which may be about the file's name
            return self._allowed(os.path.join(os.path.realpath(folder), name))
        if folder not in folders:
            folders[folder] = self._allowed(os.path.join(os.path.realpath(folder), name))
        return folders[folder]

    def _allowed(self, real: str) -> bool:
        parts = _parts(real)
        return any(
            parts[: len(root)] == root and _matches(parts[len(root) :], pattern) for root, pattern in self._local
        )

    def _check_url(self, path: str) -> None:
        if _FILE_URL.match(path):
            raise _outside(path)
        if not is_url(path):
            raise ApiError(422, f"files: {path[:200]!r} is not absolute")
        parts = _parts(name_of(path))
        hiding = (
            _HIDING.search(path) or any(part in ("", ".", "..") for part in parts[2:-1]) or parts[-1] in (".", "..")
        )
        if hiding or not any(_matches(parts, root) for root in self._urls):
            raise _outside(path)


def lake_roots(lake: Mapping[str, Any]) -> list[str]:
    """The folders and patterns that an index's manifest says its lake is in."""
    found: list[str] = []
    for value in lake.values():
        if not isinstance(value, bool):  # a setting
            found += [value] if isinstance(value, str) else map(str, value)
    return found


def check_roots(roots: Iterable[str]) -> None:
    """Refuse roots that do not exist, which would only refuse everything.

    Raises
    ------
    ParquetBloomError
        One is not there.
    """
    for root in roots:
        local = _local_path(root)
        if local is not None and not os.path.isdir(local):
            raise ParquetBloomError("there is no such folder, below which files could be appended", path=root)


def _outside(path: str) -> ApiError:
    return ApiError(
        403, f"files: {path[:200]!r} is outside of the lake's folders, and of those that the service allows"
    )


def _local_path(root: str) -> str | None:
    return None if is_url(root) else _FILE_URL.sub("", root)


def _parts(path: str) -> list[str]:
    """A path's parts; of a URL the first three are its scheme, nothing, and its authority."""
    return path.rstrip("/").split("/")


def _split(path: str) -> tuple[str, list[str]]:
    """The folder that a pattern begins with, and the parts that are the pattern; of a path that is there, none are."""
    if not glob.has_magic(path) or os.path.lexists(path):
        return path, []
    parts = _parts(path)
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/", parts[first:]


def _matches(parts: Sequence[str], root: Sequence[str]) -> bool:
    """Whether a path is below a root, whose parts may be patterns."""
    for at, part in enumerate(root):
        if part == _ANY_DEPTH:
            return True
        if at >= len(parts) or not (parts[at] == part or (glob.has_magic(part) and fnmatchcase(parts[at], part))):
            return False
    return True
