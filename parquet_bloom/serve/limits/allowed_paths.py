"""Restrict the files that clients may name to those below the folders of the index's lake, or below allowed roots.

Clients must not make the service read arbitrary files of its machine or the network, nor learn what is there. So a path
is resolved once, before anything is looked at; what it resolves to is checked, and the files that it means are named
one by one, as `storage.confined` opens them. Nothing is decoded.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence

from ...errors import ParquetBloomError, StorageError
from ...lake.files.listing import name_of
from ...storage import Entry, is_local, is_url, list_entries
from ...storage.confined import ANY_DEPTH, ConfinedFolders, matches_parts, split_path
from ...storage.confined_listing import list_confined
from ..errors import ApiError

_FILE_URL = re.compile(r"file:(//(localhost)?(?=/))?(?=/)", re.IGNORECASE)
_AMBIGUOUS = re.compile(r"%2e|%2f|%5c|[?#\\\x00-\x1f\x7f]", re.IGNORECASE)  # URL parsers drop line breaks and tabs
_MAX_DEPTHS = 2  # per pattern: each multiplies the number of folders that are listed


class AllowedPaths:
    """The paths that clients may name.

    Parameters
    ----------
    roots : folders, patterns and URLs; symbolic links of local ones are resolved.

    Attributes
    ----------
    folders : the local ones.
    """

    def __init__(self, roots: Iterable[str]):
        local = [(root, _local_path(root)) for root in roots]
        self.folders = ConfinedFolders(path for _, path in local if path is not None)
        self._urls = [split_path(name_of(root)) for root, path in local if path is None]

    def find_files(self, paths: Sequence[str], filesystem: object | None) -> list[Entry]:
        """Return the files that paths mean, if all of them are allowed.

        Raises
        ------
        ApiError
            A file is not allowed, or a path is invalid.
        ParquetBloomError
            There is no such path in the allowed folders, or it cannot be listed.
        """
        entries: dict[str, Entry] = {}
        for path in paths:
            if not path or "\0" in path:
                raise ApiError(422, f"files: {path!r} is not a path")
            if path[0] != "/":
                self._check_url(path)
                entries |= {one.path: one for one in list_entries(path, filesystem, alone=len(paths) == 1)}
            else:
                entries |= {one.path: one for one in self._list_local(path, filesystem)}
        return list(entries.values())

    def _list_local(self, path: str, filesystem: object | None) -> Iterable[Entry]:
        if ".." in path.split("/"):
            raise outside(path)
        if path.split("/").count(ANY_DEPTH) > _MAX_DEPTHS:
            raise ApiError(422, f"files: {path[:200]!r} has more than {_MAX_DEPTHS} times {ANY_DEPTH}")
        name = "/" + os.path.normpath(path).strip("/")
        if not is_local(filesystem):
            entries = list_entries(name, filesystem)
            if not all(self.folders.has_file(entry.path) for entry in entries):
                raise outside(path)
            return entries
        try:
            self.folders.check_way(name)
            # A file that is indexed by two names would give its rows twice.
            return [Entry(self.folders.name_file(file)) for file in list_confined(name, self.folders)]
        except StorageError as error:
            if error.errno == errno.EXDEV:
                raise outside(path) from error
            raise

    def _check_url(self, path: str) -> None:
        if _FILE_URL.match(path):
            raise outside(path)
        if not is_url(path):
            raise ApiError(422, f"files: {path[:200]!r} is not absolute")
        parts = split_path(name_of(path))
        ambiguous = (
            _AMBIGUOUS.search(path) or any(part in ("", ".", "..") for part in parts[2:-1]) or parts[-1] in (".", "..")
        )
        if ambiguous or not any(matches_parts(parts, root) for root in self._urls):
            raise outside(path)


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


def outside(path: str) -> ApiError:
    """Return the answer to a path that leads elsewhere, whether there is anything or not."""
    return ApiError(403, f"files: {path[:200]!r} is outside of the lake's folders and of the allowed roots")


def _local_path(root: str) -> str | None:
    return None if is_url(root) else _FILE_URL.sub("", root)
