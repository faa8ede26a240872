"""Files that somebody keeps books on: their sizes are recorded elsewhere, and old versions lie among them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from ..errors import StorageError
from . import location

_LOGS = {
    "_delta_log": "the Delta table",
    "_spark_metadata": "the streaming sink",
    ".hoodie": "the Hudi table",
}
_ICEBERG = "metadata"
_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")


def managed_table(path: str | os.PathLike[str], filesystem: object | None = None) -> str | None:
    """Say which table or sink keeps books on a file or folder, or None if no folder above shows any.

    Parameters
    ----------
    path : a file or folder; it need not exist. Of a symbolic link both are looked at, the path as given and
        the real one.
    filesystem : a pyarrow or fsspec file system; None for the local one.

    Returns
    -------
    The reason, fit to follow the path in a message: `belongs to the Delta table /t (it has _delta_log/)`.
    """
    remote = location.arrow_filesystem(filesystem)
    if remote is not None:
        return _remote(location.plain(path), remote)
    name = location.local(path)
    folders = [*_upwards(os.path.abspath(name)), *_upwards(os.path.realpath(name))]
    for folder in dict.fromkeys(folders):
        reason = table_at(folder)
        if reason:
            return reason
    return None


def table_at(folder: str, names: Iterable[str] | None = None) -> str | None:
    """The reason if this very folder is a table's root; the `names` in it, if known, save looking."""
    known = None if names is None else set(names)
    for log, what in _LOGS.items():
        if (known is None or log in known) and os.path.isdir(os.path.join(folder, log)):
            return _reason(what, folder, log + "/")
    if known is None or _ICEBERG in known:
        try:
            with os.scandir(os.path.join(folder, _ICEBERG)) as entries:
                if any(entry.name.endswith(_ICEBERG_FILES) for entry in entries):
                    return _reason("the Iceberg table", folder, "metadata/*.metadata.json")
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:  # it cannot be ruled out
            why = os.strerror(error.errno or errno.EIO)
            return _reason("an Iceberg table, perhaps:", folder, f"metadata/, which cannot be listed: {why}")
    return None


def table_among(root: str, files: Iterable[str]) -> str | None:
    """The reason if paths found below `root`, `/` between their parts, show a table anywhere in it."""
    for file in files:
        parts = file[len(root) :].strip("/").split("/")
        for depth, part in enumerate(parts[:-1]):
            folder = "/".join([root.rstrip("/"), *parts[:depth]])
            if part in _LOGS:
                return _reason(_LOGS[part], folder, part + "/")
            if part == _ICEBERG and depth == len(parts) - 2 and parts[-1].endswith(_ICEBERG_FILES):
                return _reason("the Iceberg table", folder, "metadata/*.metadata.json")
    return None


def _remote(path: str, filesystem: FileSystem) -> str | None:
    folders = [folder for folder in _upwards(path) if folder.strip("/")]
    try:
        for folder in folders:
            candidates = [f"{folder.rstrip('/')}/{name}" for name in (*_LOGS, _ICEBERG)]
            for info in filesystem.get_file_info(candidates):
                if info.type != FileType.Directory:
                    continue
                if info.base_name in _LOGS:
                    return _reason(_LOGS[info.base_name], folder, info.base_name + "/")
                entries = filesystem.get_file_info(FileSelector(info.path))
                if any(entry.base_name.endswith(_ICEBERG_FILES) for entry in entries):
                    return _reason("the Iceberg table", folder, "metadata/*.metadata.json")
    except (OSError, pa.ArrowException) as error:
        raise StorageError.wrap(error, "cannot look for a table around it", path) from error
    return None


def _reason(what: str, folder: str, sign: str) -> str:
    return f"belongs to {what} {folder} (it has {sign})"


def _upwards(path: str) -> list[str]:
    folders = [path]
    while os.path.dirname(path) not in ("", path):
        path = os.path.dirname(path)
        folders.append(path)
    return folders
