"""Listing of files in given folders, for paths whose author must not learn what is outside."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import translate

from ..errors import StorageError
from .confined import ANY_DEPTH, ConfinedFolders
from .names import find_local_table, find_table_at, is_hidden, refuse_managed_table

_Above = frozenset[tuple[int, int]]
"""Folders that are being listed, by device and inode."""


def list_confined(path: str, folders: ConfinedFolders) -> list[str]:
    """Return the data files for a path, a folder or a pattern, like `list_files`, which all are in some folders.

    Links are followed where they stay inside. What is outside is neither opened nor listed, so that the result for a
    path that leads there, or a pattern that would, does not depend on it.

    Parameters
    ----------
    path : absolute, without `.`, `..` and empty parts. A pattern finds only what is in the folders.

    Raises
    ------
    StorageError
        A link, or the path itself, leads out of the folders, with the error number EXDEV; or there is no such path, or
        it cannot be listed.
    ManagedTableError
        As in `list_files`.
    """
    listing = _Listing(folders)
    parts = path.strip("/").split("/")
    first = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    if first == len(parts) or listing.is_there("/" + "/".join(parts[:first]), parts[first:]):
        return listing.find_files(path)
    found = listing.expand("/" + "/".join(parts[:first]), parts[first:], frozenset(parts), frozenset())
    files = dict.fromkeys(sorted(found))
    if not files:
        raise StorageError("no file matches the pattern", path=path, errno=errno.ENOENT)
    return list(files)


class _Listing:
    def __init__(self, folders: ConfinedFolders):
        self._folders = folders

    def is_there(self, folder: str, parts: Sequence[str]) -> bool:
        """Return whether something below a folder is called like a pattern; each part is looked at by itself."""
        for part in parts:
            above, folder = self._folders.find_real(folder), os.path.join(folder, part)
            if not self._folders.may_hold(os.path.join(above, part)) or self._folders.stat(folder) is None:
                return False
        return True

    def find_files(self, path: str) -> list[str]:
        """Return a file, or the files in and below a folder in sorted order."""
        status = self._folders.stat(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            refuse_managed_table(find_local_table(path), path)
            return sorted(self._walk(path, frozenset()))
        if status is None or not self._folders.has_file(self._folders.find_real(path)):
            raise StorageError("there is no such file or folder", path=path, errno=errno.ENOENT)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError("it is neither a file nor a folder", path=path, errno=errno.EINVAL)
        return [path]

    def expand(self, path: str, parts: Sequence[str], spelled_out: frozenset[str], above: _Above) -> Iterator[str]:
        """Yield the files that match a pattern below a folder, and those in and below folders that do.

        Parameters
        ----------
        parts : the rest of the pattern.
        spelled_out : parts of the pattern, which may be hidden folders.
        above : folders above that `**` was expanded in.
        """
        if not parts:
            yield from self._list_match(path)
            return
        first, *others = parts
        if not glob.has_magic(first):
            if self._folders.stat(f"{path}/{first}") is not None:
                yield from self.expand(f"{path}/{first}", others, spelled_out, above)
            return
        status = self._folders.stat(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return
        is_deep, key = first == ANY_DEPTH, (status.st_dev, status.st_ino)
        if is_deep and key in above:
            return  # a link back to a folder that is being listed
        if is_deep and others:
            yield from self.expand(path, others, spelled_out, frozenset())
        matches = re.compile("[^.].*" if is_deep else translate(first), re.DOTALL).match
        for name, mode in self._scan(path, lambda name: bool(matches(name))):
            if not others:
                yield from self._list_match(f"{path}/{name}")
            elif stat.S_ISDIR(mode) and (name in spelled_out or not is_hidden(name, is_folder=True)):
                deeper = (parts, above | {key}) if is_deep else (others, above)
                yield from self.expand(f"{path}/{name}", deeper[0], spelled_out, deeper[1])

    def _list_match(self, path: str) -> list[str]:
        status = self._folders.stat(path)
        is_folder = status is not None and stat.S_ISDIR(status.st_mode)
        if is_hidden(os.path.basename(path), is_folder):
            return []
        if not is_folder:
            if not self._folders.has_file(self._folders.find_real(path)):
                return []
            refuse_managed_table(find_local_table(path), path)
        return self.find_files(path)

    def _walk(self, path: str, above: _Above) -> Iterator[str]:
        real, entries, key = self._read(path)
        if key in above:
            return  # a link back to a folder that is being listed
        refuse_managed_table(find_table_at(path, entries), path)
        for name, mode in self._follow(path, real, entries):
            if is_hidden(name, stat.S_ISDIR(mode)):
                continue
            file = f"{path}/{name}"
            if stat.S_ISDIR(mode):
                yield from self._walk(file, above | {key})
            elif stat.S_ISREG(mode):
                is_link = stat.S_ISLNK(entries[name])
                if self._folders.has_file(self._folders.find_real(file) if is_link else f"{real}/{name}"):
                    yield file

    def _scan(self, path: str, takes: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
        """Yield the names in a folder that are taken, and the modes of what is there, links followed."""
        real, entries, _ = self._read(path)
        return self._follow(path, real, {name: kind for name, kind in sorted(entries.items()) if takes(name)})

    def _follow(self, path: str, real: str, entries: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """Yield what is in the folders, or leads there; a link that leads out is an error."""
        for name, kind in entries.items():
            if is_hidden(name, is_folder=False) and is_hidden(name, is_folder=True):
                continue  # whatever it is, and wherever it leads
            if not stat.S_ISLNK(kind):
                if self._folders.may_hold(f"{real}/{name}"):
                    yield name, kind
                continue
            status = self._folders.stat(f"{path}/{name}")
            if status is None:  # perhaps a disk is not mounted: skipping the link would lose rows silently
                raise StorageError("the link leads nowhere", path=f"{path}/{name}", errno=errno.ENOENT)
            yield name, status.st_mode

    def _read(self, path: str) -> tuple[str, dict[str, int], tuple[int, int]]:
        """Return the real path of a folder, the names in it with their kinds, and its device and inode."""
        real, descriptor = self._folders.open_folder(path)
        try:
            status = os.fstat(descriptor)
            with os.scandir(descriptor) as listing:
                entries = {entry.name: _kind_of(entry) for entry in listing}
        except OSError as error:
            raise StorageError.wrap(error, "cannot list the folder", path) from error
        finally:
            os.close(descriptor)
        return real.rstrip("/"), entries, (status.st_dev, status.st_ino)


def _kind_of(entry: os.DirEntry[str]) -> int:
    """Return the bits of a mode that say what an entry itself is; 0 for what is no file, folder or link."""
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0
