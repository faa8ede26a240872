"""Detection of files that belong to a table: its metadata records their sizes, and old versions lie among them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import StorageError
from ..util.lazy import late_module
from .names import ICEBERG, ICEBERG_FILES, LOGS, describe_table, format_reason
from .paths import find_places

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")

_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*(?=/)")  # the root of a URL: there is no folder above it


def managed_table(path: str | os.PathLike[str], filesystem: object | None = None) -> str | None:
    """Return which table or sink tracks a file or folder, or None if no folder above has the marker of one.

    Parameters
    ----------
    path : a file or folder; it need not exist. For a symbolic link both the given and the real path are checked.
    filesystem : a pyarrow or fsspec file system; None for local paths and URLs of object stores.

    Returns
    -------
    The reason, to follow the path in a message: `belongs to the Delta table /t (it has _delta_log/)`.
    """
    [place] = find_places([path], filesystem)
    if place.location is not None:
        from .objects.managed_tables import find_table_above

        return find_table_above(place.location, place.location.key, itself=True) if place.location.can_list else None
    if place.filesystem is not None:
        return _find_remote_table(place.path, place.filesystem)
    return find_local_table(place.path)


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
    if entry_names is None or ICEBERG in entry_names:
        try:
            with os.scandir(os.path.join(folder, ICEBERG)) as entries:
                if any(entry.name.endswith(ICEBERG_FILES) for entry in entries):
                    return describe_table(ICEBERG, folder)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:  # it cannot be ruled out
            _require_searchable(folder)
            why = os.strerror(error.errno or errno.EIO)
            return format_reason("an Iceberg table, perhaps:", folder, f"metadata/, which cannot be listed: {why}")
    return None


def _require_searchable(folder: str) -> None:
    """Raise StorageError if it cannot be told what is in a folder."""
    try:
        os.lstat(os.path.join(folder, ICEBERG))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise StorageError.wrap(error, "cannot look into the folder", folder) from error


def _find_remote_table(path: str, filesystem: fs.FileSystem) -> str | None:
    authority = _AUTHORITY.match(path)
    start = authority[0] if authority else ""
    folders, folder = [], path[len(start) :]
    while folder.strip("/"):
        folders.append(start + folder)
        folder = os.path.dirname(folder)
    try:
        for folder in folders:
            candidates = [f"{folder.rstrip('/')}/{name}" for name in (*LOGS, ICEBERG)]
            for info in filesystem.get_file_info(candidates):
                if info.type != fs.FileType.Directory:
                    continue
                if info.base_name in LOGS:
                    return describe_table(info.base_name, folder)
                entries = filesystem.get_file_info(fs.FileSelector(info.path))
                if any(entry.base_name.endswith(ICEBERG_FILES) for entry in entries):
                    return describe_table(ICEBERG, folder)
    except (OSError, pa.ArrowException) as error:
        raise StorageError.wrap(error, "cannot check whether it belongs to a table", path) from error
    return None
