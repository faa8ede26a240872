"""Restrict the files that clients may name to those below the folders of the index's lake, or below allowed roots.

Clients must not make the service read arbitrary files of its machine or the network. So symbolic links of a path are
resolved before the file system is accessed there, and paths outside are rejected whether they exist or not.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from ...errors import ParquetBloomError
from ...lake.files.listing import name_of
from ...storage import is_url, list_files
from ..errors import ApiError

_FILE_URL = re.compile(r"file:(//(localhost)?(?=/))?(?=/)", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"%2e|%2f|%5c|[?#\\]", re.IGNORECASE)
_ANY_DEPTH = "**"
_MAX_DEPTHS = 2  # per pattern: each multiplies the number of folders that are listed


class AllowedPaths:
    """The paths that clients may name.

    Parameters
    ----------
    roots : folders, patterns and URLs; symbolic links of local ones are resolved.
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
        """Return the paths, if all files that they match are allowed.

        Raises
        ------
        ApiError
            A file is not allowed, or a path is invalid.
        ParquetBloomError
            An allowed folder or pattern cannot be listed.
        """
        folders: dict[str, bool] = {}
        for path in paths:
            if not path or "\0" in path:
                raise ApiError(422, f"files: {path!r} is not a path")
            if path[0] != "/":
                self._check_url(path)
                continue
            if ".." in path.split("/"):
                raise _outside(path)
            base, pattern = _split(path)
            if pattern.count(_ANY_DEPTH) > _MAX_DEPTHS:
                raise ApiError(422, f"files: {path[:200]!r} has more than {_MAX_DEPTHS} times {_ANY_DEPTH}")
            real = _parts(os.path.realpath(base))
            if not any(real[: len(root)] == root for root, _ in self._local):
                raise _outside(path)
            files = list_files(path, filesystem) if pattern or os.path.isdir(path) else [path]
            if not all(self._is_allowed_file(file, folders) for file in files):
                raise _outside(path)
        return list(paths)

    def _is_allowed_file(self, file: str, folders: dict[str, bool]) -> bool:
        """Return whether a file, with symbolic links resolved, is allowed; `folders` caches the result per folder."""
        if os.path.islink(file):
            return self._is_allowed(os.path.realpath(file))
        folder, name = os.path.split(file)
        if any(pattern for _, pattern in self._local):  # the pattern may restrict the file's name
            return self._is_allowed(os.path.join(os.path.realpath(folder), name))
        if folder not in folders:
            folders[folder] = self._is_allowed(os.path.join(os.path.realpath(folder), name))
        return folders[folder]

    def _is_allowed(self, real: str) -> bool:
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
        ambiguous = (
            _AMBIGUOUS.search(path) or any(part in ("", ".", "..") for part in parts[2:-1]) or parts[-1] in (".", "..")
        )
        if ambiguous or not any(_matches(parts, root) for root in self._urls):
            raise _outside(path)


def check_roots(roots: Iterable[str]) -> None:
    """Check that local roots exist.

    Raises
    ------
    ParquetBloomError
        A root does not exist.
    """
    for root in roots:
        local = _local_path(root)
        if local is not None and not os.path.isdir(local):
            raise ParquetBloomError("there is no such folder to append files from", path=root)


def _outside(path: str) -> ApiError:
    return ApiError(403, f"files: {path[:200]!r} is outside of the lake's folders and of the allowed roots")


def _local_path(root: str) -> str | None:
    return None if is_url(root) else _FILE_URL.sub("", root)


def _parts(path: str) -> list[str]:
    """Split a path; the first three parts of a URL are its scheme, an empty string, and its authority."""
    return path.rstrip("/").split("/")


def _split(path: str) -> tuple[str, list[str]]:
    """Split a pattern into its fixed folder and the parts with wildcards, of which an existing path has none."""
    if not glob.has_magic(path) or os.path.lexists(path):
        return path, []
    parts = _parts(path)
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/", parts[first:]


def _matches(parts: Sequence[str], root: Sequence[str]) -> bool:
    """Return whether a path is below a root, whose parts may be patterns."""
    for i, part in enumerate(root):
        if part == _ANY_DEPTH:
            return True
        if i >= len(parts) or not (parts[i] == part or (glob.has_magic(part) and fnmatchcase(parts[i], part))):
            return False
    return True
