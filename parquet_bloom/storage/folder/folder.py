"""A folder for the files of an index, on disk or in an object store."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from urllib.parse import quote

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from ...errors import StorageError
from ..listing import Entry
from ..local import temporary
from ..local.rewrite import flush
from ..objects.location import ListedObject, ObjectLocation
from ..open import create, open_source
from ..paths import as_arrow_filesystem, find_places, object_location, path_text
from ..rewrite import Rewrite
from ..source import Source
from . import lock as folder_lock
from . import objects as folder_objects


class Folder:
    """Files directly in a folder, by name.

    Parameters
    ----------
    path : the folder: a local path, a `file:` URI or a URL of an object store; it need not exist.
    filesystem : a pyarrow or fsspec file system, which is read-only here, or what `resolve_filesystem` returns; None
        for local paths and URLs.

    Attributes
    ----------
    path, filesystem : as given, without a slash at the end.

    Raises
    ------
    StorageError
        If the path is invalid, or the file system is unknown.
    """

    def __init__(self, path: str | os.PathLike[str], filesystem: object | None = None):
        self.filesystem = filesystem
        given = find_places([path_text(path)], filesystem)[0].path
        self.path = given.rstrip("/") or given[:1]
        self._listed: dict[str, ListedObject] = {}  # by the last listing

    def path_of(self, name: str) -> str:
        """Return the path of a file on the file system of this folder.

        Raises
        ------
        StorageError
            If the name is empty or a path.
        """
        name = path_text(name)
        if name in ("", ".", "..") or "/" in name:
            raise StorageError(f"{name!r} is not a file name", path=self.path, errno=errno.EINVAL)
        location = self._location()
        if location is not None and location.kind == "HTTP":
            name = quote(name)
        return f"{self.path.rstrip('/')}/{name}" if self.path else name

    def names(self) -> dict[str, tuple[int, int]]:
        """Return {name: (size in bytes, modification time in ns)} of the files, except the lock and temporary files.

        A missing time is 0. Sub-folders are skipped; names that begin with a dot are included.

        Raises
        ------
        StorageError
            If it cannot be listed. In object stores a missing folder cannot be distinguished from an empty one.
        """
        location, remote = self._location(), self._remote()
        if location is not None:
            listed = folder_objects.list_names(location)
            self._listed = {name: listed_object for name, (_, _, listed_object) in listed.items()}
            files = {name: (size, modified_ns) for name, (size, modified_ns, _) in listed.items()}
        elif remote is not None:
            files = self._list_remote(remote)
        else:
            files = self._list_local()
        return {
            name: file for name, file in files.items() if name != folder_lock.NAME and not temporary.is_temporary(name)
        }

    def open(self, name: str) -> Source:
        """Open a file for reading; see `open_source` and `to_read`.

        An object that the last listing of the folder included is opened without a request, as it was then; reading it
        raises ConcurrentChangeError if it has been replaced.
        """
        return open_source(self.to_read(name), self.filesystem, self.entry(name))

    def entry(self, name: str) -> Entry:
        """Return a file with its description in the last listing of the folder."""
        return Entry(self.path_of(name), self._listed.get(name))

    def to_read(self, name: str) -> str:
        """Return the path of a file like `path_of`, and refuse links that lead out of the folder.

        Raises
        ------
        StorageError
            If it is such a link, or not a file name.
        """
        path = self.path_of(name)
        if self._location() is None and self._remote() is None and os.path.islink(path):
            inside = os.path.join(os.path.realpath(self.path), "")
            if not os.path.realpath(path).startswith(inside):
                raise StorageError("it is a link that leads out of its folder", path=path, errno=errno.ELOOP)
        return path

    def create(self, name: str, new: bool = False) -> Rewrite:
        """Write a file; if `new`, only if there is none. See `create` of this package."""
        self._require_writable()
        self._listed.pop(name, None)
        return create(self.path_of(name), self.filesystem, new)

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; missing files are ignored.

        Raises
        ------
        StorageError
            If a file cannot be deleted; others may have been deleted.
        """
        self._require_writable()
        paths = {name: self.path_of(name) for name in names}
        for name in paths:
            self._listed.pop(name, None)
        location = self._location()
        if location is not None:
            folder_objects.delete(location, list(paths))
            return
        for path in paths.values():
            try:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            except OSError as error:
                raise StorageError.wrap(error, "cannot delete it", path) from error

    def make(self) -> list[str]:
        """Create the folder and its parents if missing, and return those that were, parents first; stores need none.

        Raises
        ------
        StorageError
            If it cannot be created, or is not a folder; then none is.
        """
        self._require_writable()
        if self._location() is not None:
            return []
        missing = [os.path.abspath(self.path)]
        while not os.path.lexists(missing[-1]):
            missing.append(os.path.dirname(missing[-1]))
        made = missing[-2::-1]
        try:
            os.makedirs(self.path, exist_ok=True)
            for above in missing[1:]:
                flush(above)
        except OSError as error:
            self.unmake(made)
            raise StorageError.wrap(error, "cannot create the folder", self.path) from error
        return made

    @staticmethod
    def unmake(folders: Sequence[str]) -> None:
        """Delete folders that `make` created, as far as they are empty."""
        with suppress(OSError):
            for folder in reversed(folders):
                with suppress(FileNotFoundError):
                    os.rmdir(folder)

    def lock(self, name: str = folder_lock.NAME, undo: bool = False) -> AbstractContextManager[None]:
        """Return a context manager that holds an exclusive lock, within this process too; it ends with the process.

        Object stores have no locks: there, writers rely on `create` with `new` alone.

        Parameters
        ----------
        undo : delete the lock's file after an error if it is new; nothing may be done in the folder after that.

        Raises
        ------
        IndexInUseError
            If another writer holds it; there is no waiting.
        StorageError
            If the folder is missing or not writable, or its file system has no locks.
        """
        self._require_writable()
        path = self.path_of(name)
        return nullcontext() if self._location() is not None else folder_lock.hold_lock(self.path, path, undo)

    def sweep_temporary(self) -> list[str]:
        """Delete temporary files of killed writers and return their names; only call this under the lock.

        Object stores clean up themselves: parts of an upload are not objects.

        Raises
        ------
        StorageError
            If the folder cannot be listed, or a file cannot be deleted.
        """
        self._require_writable()
        if self._location() is not None:
            return []
        names = map(os.path.basename, temporary.leftovers(self.path))
        leftover = [name for name in names if temporary.displaced_from(name) is None]
        self.delete(leftover)
        return leftover

    def _location(self) -> ObjectLocation | None:
        return object_location(self.path, self.filesystem)

    def _remote(self) -> FileSystem | None:
        return as_arrow_filesystem(self.filesystem)

    def _require_writable(self) -> None:
        if self._location() is None and self._remote() is not None:
            problem = "an index cannot be written there: the file system cannot create a file only if it does not exist"
            raise StorageError(f"{problem}; give a local path or a URL", path=self.path, errno=errno.EOPNOTSUPP)

    def _list_local(self) -> dict[str, tuple[int, int]]:
        files = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # deleted meanwhile, or a link that leads nowhere
                        if entry.is_file():
                            status = entry.stat()
                            files[entry.name] = status.st_size, status.st_mtime_ns
        except OSError as error:
            raise StorageError.wrap(error, "cannot list the folder", self.path) from error
        return files

    def _list_remote(self, filesystem: FileSystem) -> dict[str, tuple[int, int]]:
        try:
            infos = filesystem.get_file_info(FileSelector(self.path))
        except (OSError, pa.ArrowException) as error:
            raise StorageError.wrap(error, "cannot list the folder", self.path) from error
        return {info.base_name: (info.size, info.mtime_ns or 0) for info in infos if info.type == FileType.File}
