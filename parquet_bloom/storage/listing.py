"""Listing of data files from the paths, folders and patterns that callers give."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from ..errors import NoFilesError, StorageError
from ..util import threads
from ..util.lazy import late_module
from ..util.messages import logger
from .file_names import (
    Pattern,
    describe_table,
    find_local_table,
    find_remote_table,
    find_table_at,
    find_tables,
    is_hidden,
    refuse_managed_table,
)
from .objects.location import ListedObject, ObjectLocation, RequestCount
from .paths import find_places, normalize_path

if TYPE_CHECKING:
    import pyarrow.fs as fs

    from ..util.given_types import FilePath, FileSystem, Paths
    from .objects import object_listing
else:
    fs = late_module("pyarrow.fs")
    object_listing = late_module("parquet_bloom.storage.objects.object_listing")

log = logger("parquet_bloom.storage")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PARALLEL = 16
_NAME, _LOCATION = attrgetter("name"), attrgetter("location")
_COUNTING = threading.Lock()


class Entry(NamedTuple):
    """A file of a listing, and its description, which only listings of object stores have."""

    path: str
    known: ListedObject | None = None


def list_files(paths: Paths, filesystem: FileSystem | None = None, alone: bool | None = None) -> list[str]:
    """Return the data files for paths, folders and patterns, each once.

    Parameters
    ----------
    paths : a file, a folder, a glob pattern that is not the name of a file, or a list of these; each a local path or a
        URL of an object store. A folder means all files in and below it, in sorted order, except hidden ones as in
        Spark: names that begin with `.`, or with `_` unless it is the folder of a partition (`_k=v`), or that end in
        `._COPYING_`. Links to folders are followed. Pipes, sockets
        and devices are skipped, with a warning in the log. In object stores, empty objects that only mark a folder are
        skipped. `http://` and `https://` URLs are one file each; nothing in them is a pattern.
    filesystem : a pyarrow or fsspec file system; None for local paths and URLs.
    alone : False if the paths are part of a longer list; None decides by their number. In a list, an object store URL
        whose last part has a dot is taken for an object without a request; end the URL of such a folder with `/`.

    Returns
    -------
    Paths that begin as given, in the given order.

    Raises
    ------
    StorageError
        If there is no such path, or a folder below it cannot be listed.
    ManagedTableError
        If a folder or pattern leads into a Delta, Iceberg or Hudi table or a streaming sink, because the listing would
        include removed files. Files that are named one by one are accepted.
    """
    return [entry.path for entry in list_entries(paths, filesystem, alone)]


def as_path_list(paths: Paths) -> list[FilePath]:
    """Return one path or many as a list; a value that is neither a path nor iterable is a list of one."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
        return [paths]
    return [*paths]


def list_entries(
    paths: Paths,
    filesystem: FileSystem | None = None,
    alone: bool | None = None,
    requests: RequestCount | None = None,
) -> list[Entry]:
    """List files like `list_files`, with descriptions that save a request when a file is opened.

    Parameters
    ----------
    requests : counter for the requests that listing object stores takes.
    """
    path_list = as_path_list(paths)
    places = find_places(path_list, filesystem, for_reading=True)
    locations = list(filter(None, map(_LOCATION, places)))
    alone = len(path_list) == 1 if alone is None else alone
    requests = RequestCount() if requests is None else requests
    unique: dict[str, Entry] = {}
    nothing: AbstractContextManager[Iterator[list[Entry]]] = nullcontext(iter(()))
    with _list_objects(locations, alone, requests) if locations else nothing as listed:
        for given, (path, location, remote) in zip(path_list, places, strict=True):
            if location is not None:
                for entry in next(listed):
                    unique.setdefault(entry.path, entry)
            elif remote is not None:
                for file in _list_remote(path, remote, isinstance(given, str)):
                    unique.setdefault(file, Entry(file))
            else:
                for file in _list_local(path, isinstance(given, str)):
                    # `a/..` is not the folder of `a` where that is a link: such paths are compared as they are.
                    is_absolute = file[:1] == "/" and "//" not in file and "/." not in file  # as far as it can be
                    key = file if is_absolute or ".." in file else os.path.abspath(file)
                    unique.setdefault(key, Entry(file))
    return list(unique.values())


@contextmanager
def _list_objects(
    locations: Sequence[ObjectLocation], alone: bool, requests: RequestCount
) -> Iterator[Iterator[list[Entry]]]:
    """Yield an iterator over the entries of each location; listings run concurrently."""

    def list_one(location: ObjectLocation) -> list[Entry]:
        counted = RequestCount()
        files = [Entry(known.location.name, known) for known in object_listing.list_objects(location, alone, counted)]
        with _COUNTING:
            requests.number += counted.number
        return files

    to_list = list(filter(object_listing.needs_requests, locations))
    listings = threads.in_order(list_one, to_list, min(_PARALLEL, len(to_list))) if len(to_list) > 1 else None
    with listings or nullcontext(map(list_one, to_list)) as listed:
        yield (
            next(listed) if object_listing.needs_requests(location) else list_one(location) for location in locations
        )


def managed_table(path: str | os.PathLike[str], filesystem: FileSystem | None = None) -> str | None:
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
        location = place.location
        return object_listing.find_table_above(location, location.key, itself=True) if location.can_list else None
    if place.filesystem is not None:
        return find_remote_table(place.path, place.filesystem)
    return find_local_table(place.path)


def _list_local(path: str, may_be_pattern: bool) -> list[str]:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if os.path.lexists(path):
            raise StorageError.wrap(error, "the link cannot be followed", path) from error
        if may_be_pattern and glob.has_magic(path):
            return _expand_pattern(path)
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise StorageError("there is no such file or folder", path=path, errno=error.errno) from error
        raise StorageError.wrap(error, "cannot stat it", path) from error
    if stat.S_ISREG(mode):
        return [path]
    if stat.S_ISDIR(mode):
        refuse_managed_table(find_local_table(path), path)
        try:
            return sorted(_walk(path, frozenset()))
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError.wrap(error, "cannot list the folder", error.filename or path) from error
    problem = f"it is {_describe_kind(mode)}, neither a file nor a folder"
    raise StorageError(problem, path=path, errno=errno.EINVAL)


def _describe_kind(mode: int) -> str:
    """Return what a file is that is neither a regular one nor a folder."""
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "of an unknown kind"


def _expand_pattern(pattern: str) -> list[str]:
    files: list[str] = []
    spelled_out = frozenset(pattern.split(os.sep))
    for match in sorted(glob.glob(pattern, recursive=True)):
        is_folder = os.path.isdir(match)
        *folders, name = match.rstrip(os.sep).split(os.sep)
        in_hidden = any(is_hidden(folder, is_folder=True) for folder in {*folders} - spelled_out)
        if in_hidden or is_hidden(name, is_folder):
            continue  # `*` matches neither `_SUCCESS` nor the files in `_temporary`
        if os.path.isfile(match):
            refuse_managed_table(find_local_table(match), match)
        files += _list_local(match, may_be_pattern=False)
    if not files:
        raise NoFilesError("no file matches the pattern", path=pattern, errno=errno.ENOENT)
    return files


def _walk(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in above:
        return  # a link back to a folder that is being listed
    above |= {(status.st_dev, status.st_ino)}
    with os.scandir(folder) as listing:
        entries = list(listing)
    refuse_managed_table(find_table_at(folder, map(_NAME, entries)), folder)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            is_folder = entry.is_dir()
            if is_hidden(entry.name, is_folder):
                continue
            is_file = not is_folder and entry.is_file()
        except OSError as error:
            action = "the link cannot be followed" if entry.is_symlink() else "cannot stat it"
            raise StorageError.wrap(error, action, entry.path) from error
        if is_folder:
            yield from _walk(entry.path, above)
        elif is_file:
            yield entry.path
        else:
            _pass_over(entry)


def _pass_over(entry: os.DirEntry[str]) -> None:
    """Say that a pipe, socket or device in a folder is not read; raise StorageError for a link to no file."""
    is_link = entry.is_symlink()
    try:
        mode = os.stat(entry.path).st_mode
    except FileNotFoundError:
        if os.path.islink(entry.path):
            # Perhaps a disk is not mounted: skipping the link would lose rows silently.
            raise StorageError("the link leads nowhere", path=entry.path, errno=errno.ENOENT) from None
        return  # it has been deleted
    except OSError as error:
        raise StorageError.wrap(error, "cannot stat it", entry.path) from error
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        raise StorageError(
            "it was replaced while its folder was listed; try again", path=entry.path, errno=errno.ESTALE
        )
    if is_link:
        problem = f"the link leads to {_describe_kind(mode)}, not to a file"
        raise StorageError(problem, path=entry.path, errno=errno.EINVAL)
    _say_skipped(entry.path, _describe_kind(mode))


@lru_cache(maxsize=1024)  # a folder may be listed for each of many queries
def _say_skipped(path: str, kind: str) -> None:
    log.warning("%s: skipped, as it is %s, not a file", path, kind)


def _list_remote(path: str, filesystem: fs.FileSystem, may_be_pattern: bool) -> list[str]:
    is_pattern = may_be_pattern and glob.has_magic(path)
    try:
        try:
            info = filesystem.get_file_info(path)
        except (OSError, pa.ArrowException):
            if not is_pattern:
                raise
            return _expand_remote_pattern(path, filesystem)  # some file systems reject names with such characters
        if is_pattern and info.type not in (fs.FileType.File, fs.FileType.Directory):
            return _expand_remote_pattern(path, filesystem)
        if info.type == fs.FileType.File:
            return [path]
        if info.type != fs.FileType.Directory:
            raise StorageError("there is no such file or folder", path=path, errno=errno.ENOENT)
        refuse_managed_table(find_remote_table(path, filesystem), path)
        below = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError.wrap(error, "cannot list it", path) from error
    inside = _relative_names(path, below, filesystem)
    for folder, marker in _find_tables_in(inside):
        refuse_managed_table(describe_table(marker, "/".join(filter(None, (info.path.rstrip("/"), folder)))), path)
    files = []
    for entry, relative in inside:
        *folders, name = relative.split("/")
        skipped = any(is_hidden(folder, is_folder=True) for folder in folders) or is_hidden(name, is_folder=False)
        if entry.type == fs.FileType.File and not skipped:
            files.append(entry.path)
    return sorted(files)


def _relative_names(
    root: str, below: Iterable[fs.FileInfo], filesystem: fs.FileSystem
) -> list[tuple[fs.FileInfo, str]]:
    """Return each entry below a folder with its path relative to it; entries lack the scheme that the root may have."""
    start = len(normalize_path(root, filesystem).strip("/"))
    return [(entry, entry.path.strip("/")[start:].strip("/")) for entry in below]


def _find_tables_in(inside: Iterable[tuple[fs.FileInfo, str]]) -> Iterator[tuple[str, str]]:
    return find_tables(relative + "/." * (entry.type == fs.FileType.Directory) for entry, relative in inside)


def _expand_remote_pattern(path: str, filesystem: fs.FileSystem) -> list[str]:
    """Return the files that match a pattern, from a listing of everything below its fixed folder."""
    scheme = _SCHEME.match(path)
    start = scheme[0] if scheme else ""
    parts = path[len(start) :].strip("/").split("/")
    fixed = [*takewhile(lambda part: not glob.has_magic(part), parts)]
    root = start + ("/" if path.startswith("/") else "") + "/".join(fixed)
    pattern = Pattern(parts[len(fixed) :], folders_only=path.endswith("/"))
    try:
        below = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    except (OSError, pa.ArrowException) as error:
        raise StorageError.wrap(error, "cannot list it", path) from error
    inside = _relative_names(root, below, filesystem)
    matches = {name: entry.path for entry, name in inside if entry.type == fs.FileType.File and pattern.takes(name)}
    if not matches:
        raise NoFilesError("no file matches the pattern", path=path, errno=errno.ENOENT)
    refuse_managed_table(find_remote_table(root, filesystem), path)
    for folder, marker in _find_tables_in(inside):
        if not folder or any(name.startswith(folder + "/") for name in matches):
            refuse_managed_table(describe_table(marker, "/".join(filter(None, (root.rstrip("/"), folder)))), path)
    return [matches[name] for name in sorted(matches)]
