"""Local files that lie in given folders, opened so that no link leads elsewhere, whenever it is made."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import ClassVar, NamedTuple

from ..errors import StorageError
from .local.source import FileIdentity
from .objects.location import ObjectStores
from .paths import as_arrow_filesystem, resolve_stores

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


def confine(filesystem: object | None, folders: ConfinedFolders) -> object | None:
    """Return a file system that opens local files as `ConfinedFiles` do; one without local paths as it is."""
    if as_arrow_filesystem(filesystem) is not None:
        return filesystem
    stores = resolve_stores(filesystem) or ObjectStores()  # which local file systems of pyarrow and fsspec are not
    return filesystem if stores.is_one_store else ConfinedFiles(stores, folders)


def find_folders(filesystem: object | None, path: str) -> ConfinedFolders | None:
    """Return the folders that a local path has to be in on a file system; None if it may be anywhere."""
    if isinstance(filesystem, ConfinedFiles) and filesystem.folders.concerns(path):
        return filesystem.folders
    return None


def leads_inside(path: str, filesystem: object | None) -> bool:
    """Return whether a local path leads to where `filesystem` opens files, as links are now."""
    folders = find_folders(filesystem, path)
    if folders is None:
        return True
    with suppress(StorageError):
        return folders.has_file(_find_end(path))
    return False


def is_in_place(path: str, filesystem: object | None, identity: object) -> bool:
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
