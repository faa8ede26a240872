"""What the names in folders say: which files are hidden, what a pattern matches, and what belongs to a table.

Files are hidden as in Spark, and patterns mean the same on every file system. Tables and sinks are known by the folder
of the log in which they track their files: it records their sizes, and old versions lie among them.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import ManagedTableError, StorageError
from ..util.lazy import late_module

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")

LOGS = {
    "_delta_log": "the Delta table",
    "_spark_metadata": "the streaming sink",
    ".hoodie": "the Hudi table",
}
ICEBERG = "metadata"
ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
PAIMON = "schema"
_IN_FOLDERS: dict[str, tuple[str, str, Callable[[str], object]]] = {
    ICEBERG: ("Iceberg table", "metadata/*.metadata.json", lambda name: name.endswith(ICEBERG_FILES)),
    PAIMON: ("Paimon table", "schema/schema-*", re.compile(r"schema-\d+").fullmatch),
}
"""The tables of which a folder has files of certain names: what they are, the marker in errors, and these names."""

TABLE_WAY_OUT = "give the table itself (parquet_bloom.delta, parquet_bloom.iceberg) or the list of its live files"
"""How the error of a path that belongs to a table ends."""

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*(?=/)")  # the root of a URL: there is no folder above it


def find_tables(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (table folder, marker) for each path that has a marker of a table in it; parts are separated by `/`."""
    for file in files:
        parts = file.split("/")
        for depth, part in enumerate(parts[:-1]):
            is_last = depth == len(parts) - 2
            if part in LOGS or (is_last and part in _IN_FOLDERS and _IN_FOLDERS[part][2](parts[-1])):
                yield "/".join(parts[:depth]), part
                break


def describe_table(marker: str, folder: str) -> str:
    """Return the reason why a folder belongs to a table; the marker is one of `LOGS`, `ICEBERG` or `PAIMON`."""
    if marker in _IN_FOLDERS:
        what, shown, _ = _IN_FOLDERS[marker]
        return format_reason(f"the {what}", folder, shown)
    return format_reason(LOGS[marker], folder, marker + "/")


def format_reason(what: str, folder: str, marker: str) -> str:
    """Return a reason that names another kind of table or marker."""
    return f"belongs to {what} {folder} (it has {marker})"


def refuse_managed_table(reason: str | None, path: str) -> None:
    """Raise ManagedTableError if `reason` says that a path belongs to a table."""
    if reason:
        problem = f"{reason}: a listing would find removed files too; {TABLE_WAY_OUT}"
        raise ManagedTableError(problem, path=path)


def find_local_table(path: str) -> str | None:
    """Return what `managed_table` does for a local path."""
    checked = set()
    for folder in (os.path.abspath(path), os.path.realpath(path)):
        while folder not in checked:
            checked.add(folder)
            reason = find_table_at(folder)
            if reason:
                return reason
            folder = os.path.dirname(folder)
    return None


def find_table_at(folder: str, names: Iterable[str] | None = None) -> str | None:
    """Return the reason if this folder itself is the root of a table; `names`, the entries in it, save system calls."""
    entry_names = None if names is None else set(names)
    for log in LOGS:
        if (entry_names is None or log in entry_names) and os.path.isdir(os.path.join(folder, log)):
            return describe_table(log, folder)
    for marker, (what, _, is_named) in _IN_FOLDERS.items():
        if entry_names is not None and marker not in entry_names:
            continue
        try:
            with os.scandir(os.path.join(folder, marker)) as entries:
                if any(is_named(entry.name) for entry in entries):
                    return describe_table(marker, folder)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:  # it cannot be ruled out
            _require_searchable(folder)
            why = os.strerror(error.errno or errno.EIO)
            a = "an" if marker == ICEBERG else "a"
            return format_reason(f"{a} {what}, perhaps:", folder, f"{marker}/, which cannot be listed: {why}")
    return None


def _require_searchable(folder: str) -> None:
    """Raise StorageError if it cannot be told what is in a folder."""
    try:
        os.lstat(os.path.join(folder, ICEBERG))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StorageError.wrap(error, "cannot look into the folder", folder) from error


def find_remote_table(path: str, filesystem: fs.FileSystem) -> str | None:
    """Return what `managed_table` does for a path on a file system of pyarrow."""
    authority = _AUTHORITY.match(path)
    start = authority[0] if authority else ""
    folders, folder = [], path[len(start) :]
    while folder.strip("/"):
        folders.append(start + folder)
        folder = os.path.dirname(folder)
    try:
        for folder in folders:
            candidates = [f"{folder.rstrip('/')}/{name}" for name in (*LOGS, *_IN_FOLDERS)]
            for info in filesystem.get_file_info(candidates):
                if info.type != fs.FileType.Directory:
                    continue
                if info.base_name in LOGS:
                    return describe_table(info.base_name, folder)
                entries = filesystem.get_file_info(fs.FileSelector(info.path))
                if any(_IN_FOLDERS[info.base_name][2](entry.base_name) for entry in entries):
                    return describe_table(info.base_name, folder)
    except (OSError, pa.ArrowException) as error:
        raise StorageError.wrap(error, "cannot check whether it belongs to a table", path) from error
    return None


def is_hidden(name: str, is_folder: bool) -> bool:
    """Return whether listings skip a file or folder of this name; `_k=v` is the folder of a partition."""
    if name.startswith(".") or name.endswith("._COPYING_"):
        return True
    return name.startswith("_") and not (is_folder and "=" in name)


class Pattern:
    """A glob pattern of keys or paths, with the meaning of local paths: a matching folder includes all its files.

    Parameters
    ----------
    parts : the parts of the pattern between slashes; `**` matches any number of folders.
    folders_only : match folders only, as for a pattern that ends in a slash.
    """

    def __init__(self, parts: Sequence[str], folders_only: bool):
        self._spelled_out = frozenset(parts)
        self._parts = [None if part == "**" else re.compile(translate(part)).match for part in parts]
        self._folders_only = folders_only
        self._folder_taken = lru_cache(maxsize=4096)(self._takes_folder)

    def takes(self, key: str) -> bool:
        """Return whether the pattern matches a key or a folder above it."""
        *folders, name = key.split("/")
        if is_hidden(name, is_folder=False):
            return False
        if not self._folders_only and self._means([*folders, name]):
            return True
        return self._folder_taken(tuple(folders))

    def _takes_folder(self, folders: tuple[str, ...]) -> bool:
        """Return whether a folder or one above it matches, with nothing hidden between."""
        for depth in range(len(folders), 0, -1):
            if self._means(folders[:depth]) and not is_hidden(folders[depth - 1], is_folder=True):
                return True
            if is_hidden(folders[depth - 1], is_folder=True):
                return False
        return False

    def _means(self, parts: Sequence[str]) -> bool:
        above = {*parts[:-1]} - self._spelled_out
        return _fits(parts, self._parts) and not any(is_hidden(folder, is_folder=True) for folder in above)


def _fits(parts: Sequence[str], pattern: Sequence[Callable[[str], object] | None]) -> bool:
    if not pattern:
        return not parts
    first, *rest = pattern
    if first is None:  # any number of folders
        return any(_fits(parts[skipped:], rest) for skipped in range(len(parts) + 1))
    return bool(parts) and bool(first(parts[0])) and _fits(parts[1:], rest)
