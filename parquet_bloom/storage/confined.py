"""Local files that lie in given folders, opened so that no link leads elsewhere, whenever it is made."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ..errors import NoFilesError, StorageError
from .file_names import find_local_table, find_table_at, is_hidden, refuse_managed_table
from .local.local_source import FileIdentity
from .objects.location import ObjectStores
from .paths import as_arrow_filesystem, resolve_stores

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

ANY_DEPTH = "**"
"""The part of a pattern that stands for any number of folders."""

_O_DIRECTORY, _O_NOFOLLOW = getattr(os, "O_DIRECTORY", 0), getattr(os, "O_NOFOLLOW", 0)  # Windows opens nothing
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | _O_DIRECTORY  # O_PATH needs no right to list it
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe without a writer would block for ever
_ESCAPED = re.compile(r"\[([*?[])\]")


class _Root(NamedTuple):
    """A folder, or a pattern.

    Attributes
    ----------
    given : the folder as it was given, absolute.
    real : its parts, links resolved.
    pattern : parts of the pattern below it.
    """

    given: str
    real: list[str]
    pattern: list[str]


class ConfinedFolders:
    """Folders, or patterns, in which local files have to be.

    Where a path leads is found out once, without looking at what is there, and exactly that is opened, folder by
    folder from the root, following no link: who swaps a folder for a link meanwhile gets an error. So no answer that is
    made with it depends on what is outside.

    Parameters
    ----------
    roots : absolute paths; links of them are resolved now.
    """

    def __init__(self, roots: Iterable[str]):
        self._roots: list[_Root] = []
        for root in roots:
            base, pattern = _split_root(os.path.abspath(root))
            self._roots.append(_Root(base, split_path(os.path.realpath(base)), pattern))

    def __bool__(self) -> bool:
        return bool(self._roots)

    def concerns(self, path: str) -> bool:
        """Return whether a path, as it is written, is one in the folders; where others lead is not checked."""
        parts = split_path(os.path.abspath(path))
        return any(
            _holds(root, folder, parts) for root in self._roots for folder in (split_path(root.given), root.real)
        )

    def check_way(self, path: str) -> None:
        """Check that a path, and each folder on it, is in the folders both as it is written and with links resolved.

        Elsewhere may be links into the folders, and a path that takes one would tell whether it is there.

        Parameters
        ----------
        path : absolute, without `.`, `..` and empty parts.

        Raises
        ------
        StorageError
            As `find_real`.
        """
        parts = split_path(path)
        for root in self._roots:
            for folder in (split_path(root.given), root.real):
                if parts[: len(folder)] == folder and _fits(parts[len(folder) :], root.pattern):
                    for end in range(len(folder), len(parts) + 1):
                        self.find_real("/".join(parts[:end]) or "/")
                    return
        raise outside_error(path)

    def has_file(self, real: str) -> bool:
        """Return whether a file of a real path is one in the folders."""
        parts = split_path(real)
        return any(_holds(root, root.real, parts) for root in self._roots)

    def may_hold(self, real: str) -> bool:
        """Return whether there may be files in the folders at or below a real path."""
        parts = split_path(real)
        return any(_may_hold(root, parts) for root in self._roots)

    def find_real(self, path: str) -> str:
        """Return where a path leads, which need not exist.

        Raises
        ------
        StorageError
            Neither a file in the folders nor a folder with such files can be there; with the error number EXDEV.
        """
        real = _find_end(path)
        self._find_root(real, path)
        return real

    def name_file(self, path: str) -> str:
        """Return the name of a file: one for each, however it is reached by links within a folder.

        It begins with the folder as it was given, as names do that are listed there. Raises as `find_real`.
        """
        real, parts = split_path(self.find_real(path)), split_path(path)
        for root in self._roots:
            given = split_path(root.given)
            if _holds(root, root.real, real) and (parts[: len(given)] == given or _holds(root, root.real, parts)):
                return "/".join([*given, *real[len(root.real) :]])
        return path if self.concerns(path) else "/".join(real)

    def stat(self, path: str) -> os.stat_result | None:
        """Return the state of what a path leads to; None if there is nothing. Raises as `open_folder`."""
        with self._open_parent(self.find_real(path), path) as (folder, name):
            if folder is None:
                return None
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                raise StorageError.wrap(error, "cannot stat it", path) from error
        if stat.S_ISLNK(status.st_mode):
            raise outside_error(path)
        return status

    def open(self, path: str) -> tuple[str, int]:
        """Open a file for reading; return its real path, and the descriptor.

        Raises
        ------
        StorageError
            The file is none in the folders, with the error number EXDEV; or it cannot be opened.
        """
        real = _find_end(path)
        if not self.has_file(real):
            raise outside_error(path)
        return real, self._open(real, path, os.O_RDONLY | _NONBLOCK)

    def open_folder(self, path: str) -> tuple[str, int]:
        """Open a folder to list it; return its real path, and the descriptor.

        Raises
        ------
        StorageError
            As `find_real`; or it cannot be opened.
        """
        real = self.find_real(path)
        return real, self._open(real, path, os.O_RDONLY | _O_DIRECTORY)

    def holds(self, path: str, identity: object) -> bool:
        """Return whether a file that was opened by its path is the one in the folders."""
        try:
            _, descriptor = self.open(path)
        except StorageError:
            return False
        try:
            return isinstance(identity, FileIdentity) and FileIdentity.from_stat(os.fstat(descriptor)) == identity
        finally:
            os.close(descriptor)

    def _find_root(self, real: str, path: str) -> _Root:
        parts = split_path(real)
        for root in self._roots:
            if _may_hold(root, parts):
                return root
        raise outside_error(path)

    def _open(self, real: str, path: str, flags: int) -> int:
        with self._open_parent(real, path) as (folder, name):
            if folder is None:
                raise StorageError("there is no such file or folder", path=path, errno=errno.ENOENT)
            try:
                return _open_part(name, flags, folder, path)
            except OSError as error:
                raise _wrap(error, path) from error

    @contextmanager
    def _open_parent(self, real: str, path: str) -> Iterator[tuple[int | None, str]]:
        """Open the folder of a real path, from a root on, none of whose parts may be a link by now.

        Yields its descriptor, or None if it does not exist, and the name in it.
        """
        root = self._find_root(real, path)
        *folders, name = split_path(real)[len(root.real) :] or ["."]
        folder = -1
        try:
            try:
                folder = os.open("/".join(root.real) or "/", _FOLDER | os.O_CLOEXEC)
                for part in folders:
                    above, folder = folder, _open_part(part, _FOLDER, folder, path)
                    os.close(above)
            except (FileNotFoundError, NotADirectoryError):
                found = None
            except OSError as error:
                raise _wrap(error, path) from error
            else:
                found = folder
            yield found, name
        finally:
            if folder >= 0:
                os.close(folder)


def _find_end(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a link that is replaced between two looks at it
        raise outside_error(path) from None


def _open_part(name: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(name, flags | _O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise outside_error(path) from None
        raise


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _wrap(error: OSError, path: str) -> StorageError:
    return error if isinstance(error, StorageError) else StorageError.wrap(error, "cannot open", path)


def outside_error(path: str) -> StorageError:
    """Return the error of a path that leads out of the folders, whether anything is there or not."""
    return StorageError("it leads out of the folders whose files may be opened", path=path, errno=errno.EXDEV)


class ConfinedFiles(ObjectStores):
    """A file system whose local files are opened only if they are in some folders; URLs are those of any object store.

    What opens local files by their paths has to ask, by `leads_inside` and `is_in_place`.

    A local path is taken as it is, never for a URI. Those that are not below the folders as they are written are opened
    as elsewhere.

    Parameters
    ----------
    stores : what the settings of object stores are from.
    folders : where local files are.
    """

    takes_uris: ClassVar[bool] = False

    def __init__(self, stores: ObjectStores, folders: ConfinedFolders):
        super().__init__(stores.options)
        self.folders = folders


def confine(filesystem: FileSystem | None, folders: ConfinedFolders) -> FileSystem | None:
    """Return a file system that opens local files as `ConfinedFiles` do; one without local paths as it is."""
    if as_arrow_filesystem(filesystem) is not None:
        return filesystem
    stores = resolve_stores(filesystem) or ObjectStores()  # which local file systems of pyarrow and fsspec are not
    return filesystem if stores.is_one_store else ConfinedFiles(stores, folders)


def find_folders(filesystem: FileSystem | None, path: str) -> ConfinedFolders | None:
    """Return the folders that a local path has to be in on a file system; None if it may be anywhere."""
    if isinstance(filesystem, ConfinedFiles) and filesystem.folders.concerns(path):
        return filesystem.folders
    return None


def leads_inside(path: str, filesystem: FileSystem | None) -> bool:
    """Return whether a local path leads to where `filesystem` opens files, as links are now."""
    folders = find_folders(filesystem, path)
    if folders is None:
        return True
    with suppress(StorageError):
        return folders.has_file(_find_end(path))
    return False


def is_in_place(path: str, filesystem: FileSystem | None, identity: object) -> bool:
    """Return whether a local file that was opened by its path alone is the one that `filesystem` would open."""
    folders = find_folders(filesystem, path)
    return folders is None or folders.holds(path, identity)


def split_path(path: str) -> list[str]:
    """Split a path; the first three parts of a URL are its scheme, an empty string, and its authority."""
    return path.rstrip("/").split("/")


def matches_parts(parts: Sequence[str], root: Sequence[str]) -> bool:
    """Return whether a path is below a root, whose parts may be patterns."""
    return _fits(parts, root) and (len(parts) >= len(root) or ANY_DEPTH in root[: len(parts) + 1])


def _fits(parts: Sequence[str], root: Sequence[str]) -> bool:
    """Return whether a path is below a root, or a folder in which such paths may be."""
    for part, pattern in zip(parts, root, strict=False):
        if pattern == ANY_DEPTH:
            return True
        if part != pattern and not (glob.has_magic(pattern) and fnmatchcase(part, pattern)):
            return False
    return True


def _holds(root: _Root, folder: Sequence[str], parts: Sequence[str]) -> bool:
    return parts[: len(folder)] == folder and matches_parts(parts[len(folder) :], root.pattern)


def _may_hold(root: _Root, parts: Sequence[str]) -> bool:
    return parts[: len(root.real)] == root.real and _fits(parts[len(root.real) :], root.pattern)


def _split_root(path: str) -> tuple[str, list[str]]:
    """Split a pattern into its fixed folder and the parts from the first one with wildcards on.

    A folder, which may be escaped as lakes have it, has none of those.
    """
    plain = _ESCAPED.sub(r"\1", path)
    if glob.escape(plain) == path or os.path.lexists(path):
        return (plain if glob.escape(plain) == path else path), []
    parts = split_path(path)
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/", parts[first:]


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
        raise NoFilesError("no file matches the pattern", path=path, errno=errno.ENOENT)
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
