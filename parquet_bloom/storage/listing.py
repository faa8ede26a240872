"""From paths as callers give them to the list of data files."""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from ..errors import ManagedTableError, StorageError
from . import location
from .tables import managed_table, table_among, table_at


def list_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], filesystem: object | None = None
) -> list[str]:
    """The data files that paths stand for, each once.

    Parameters
    ----------
    paths : a file, a folder, a glob pattern that is no file's name, or several of them. Of a folder all
        files in it and below it are taken, in sorted order, but for hidden ones as Spark understands that:
        names that begin with `.`, or with `_` unless it is a partition's folder (`_k=v`), or that end in
        `._COPYING_`. Links to folders are followed.
    filesystem : a pyarrow or fsspec file system (no patterns there); None for the local one.

    Returns
    -------
    Paths that begin as they were given, in the order given.

    Raises
    ------
    StorageError
        if there is no such path, or a folder below it cannot be listed.
    ManagedTableError
        if a folder or pattern leads into a Delta, Iceberg or Hudi table or below a streaming sink: it would
        also find removed files. Files named one by one are taken.
    """
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    remote = location.arrow_filesystem(filesystem)
    found: dict[str, str] = {}
    for path in several:
        if remote is not None:
            files = _remote(location.plain(path), remote)
        else:
            files = _local(location.local(path), isinstance(path, str))
        for file in files:
            # `a/..` is not the folder of `a` where that is a link: such paths are compared as they are.
            key = os.path.abspath(file) if remote is None and ".." not in file else file
            found.setdefault(key, file)
    return list(found.values())


def _local(path: str, may_be_pattern: bool) -> list[str]:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if os.path.lexists(path):
            raise StorageError.wrap(error, "the link cannot be followed", path) from error
        if may_be_pattern and glob.has_magic(path):
            return _matches(path)
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise StorageError("there is no such file or folder", path=path, errno=error.errno) from error
        raise StorageError.wrap(error, "cannot look at it", path) from error
    if stat.S_ISREG(mode):
        return [path]
    if stat.S_ISDIR(mode):
        return _folder(path)
    raise StorageError("it is neither a file nor a folder", path=path, errno=errno.EINVAL)


def _matches(pattern: str) -> list[str]:
    files: list[str] = []
    spelled_out = frozenset(pattern.split(os.sep))
    for match in sorted(glob.glob(pattern, recursive=True)):
        is_folder = os.path.isdir(match)
        *folders, name = match.rstrip(os.sep).split(os.sep)
        in_hidden = any(_hidden(folder, is_folder=True) for folder in {*folders} - spelled_out)
        if in_hidden or _hidden(name, is_folder):
            continue  # `*` does not mean `_SUCCESS`, nor what stands in `_temporary`
        if not is_folder:
            _refuse(managed_table(match), match)
        files += _local(match, may_be_pattern=False)
    if not files:
        raise StorageError("no file matches the pattern", path=pattern, errno=errno.ENOENT)
    return files


def _folder(path: str) -> list[str]:
    _refuse(managed_table(path), path)
    try:
        return sorted(_walk(path, frozenset()))
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError.wrap(error, "cannot list the folder", error.filename or path) from error


def _walk(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in above:
        return  # a link back to a folder that is being listed
    above |= {(status.st_dev, status.st_ino)}
    with os.scandir(folder) as listing:
        entries = list(listing)
    _refuse(table_at(folder, (entry.name for entry in entries)), folder)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        is_folder = entry.is_dir()
        if _hidden(entry.name, is_folder):
            continue
        if is_folder:
            yield from _walk(entry.path, above)
        elif entry.is_file():
            yield entry.path
        elif entry.is_symlink() and os.path.islink(entry.path):
            # Perhaps a disk that is not mounted: to leave it out would lose its rows without a word.
            raise StorageError("the link leads nowhere", path=entry.path, errno=errno.ENOENT)


def _remote(path: str, filesystem: FileSystem) -> list[str]:
    try:
        info = filesystem.get_file_info(path)
        if info.type == FileType.File:
            return [path]
        if info.type != FileType.Directory:
            raise StorageError("there is no such file or folder", path=path, errno=errno.ENOENT)
        _refuse(managed_table(path, filesystem), path)
        below = filesystem.get_file_info(FileSelector(path, recursive=True))
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError.wrap(error, "cannot list it", path) from error
    signs = (entry.path + "/." if entry.type == FileType.Directory else entry.path for entry in below)
    _refuse(table_among(info.path, signs), path)
    files = []
    for entry in below:
        *folders, name = entry.path[len(info.path) :].strip("/").split("/")
        hidden = any(_hidden(folder, is_folder=True) for folder in folders) or _hidden(name, is_folder=False)
        if entry.type == FileType.File and not hidden:
            files.append(entry.path)
    return sorted(files)


def _hidden(name: str, is_folder: bool) -> bool:
    if name.startswith(".") or name.endswith("._COPYING_"):
        return True
    return name.startswith("_") and not (is_folder and "=" in name)


def _refuse(reason: str | None, path: str) -> None:
    if reason:
        problem = f"{reason}: a listing would find removed files too; pass the list of the table's live files"
        raise ManagedTableError(problem, path=path)
