"""A folder for the files of an index, on disk or in an object store."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType

from ..errors import IndexInUseError, StorageError
from .listing import Entry
from .local import local_rewrite
from .local.local_rewrite import flush, require_writable
from .local.system_calls import fcntl
from .new_file import Rewrite
from .objects.location import ListedObject, ObjectLocation
from .objects.object_listing import make_listed_object
from .objects.object_source import to_nanoseconds
from .objects.store_errors import is_missing, translate_errors
from .open_storage import create, open_source
from .paths import as_arrow_filesystem, find_places, object_location, path_text
from .source import Source

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

NAME = "writer.lock"
_MAX_HOLDER_BYTES = 300


@contextmanager
def hold_lock(folder: str, path: str, undo: bool = False) -> Iterator[None]:
    """Hold the lock; see `Folder.lock`. The file names the holder and stays, as deleting it could let two writers in.

    If this process is killed, processes that were forked meanwhile keep the lock; spawned ones do not.

    Parameters
    ----------
    undo : delete the file after an error, if this call has made it. Nothing may be done in the folder after that.
    """
    try:
        require_writable(folder, "the folder", os.stat(folder), folder)
        descriptor, is_new = _open_locked(folder, path)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError.wrap(error, "cannot lock the folder", folder) from error
    process = os.getpid()
    try:
        with suppress(OSError):  # the disk may be full; that it is locked counts
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {process} on {socket.gethostname()}\n".encode(), 0)
        yield
    except BaseException:
        if undo and is_new and os.getpid() == process:  # still locked: who waits for it notices that it is gone
            with suppress(OSError):
                os.unlink(path)
        raise
    finally:
        # A forked process must not release the lock of its parent.
        if os.getpid() == process:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _open_locked(folder: str, path: str) -> tuple[int, bool]:
    """Return the descriptor of the lock file, locked, and whether it was made here."""
    while True:
        # The holder is written into this file: it must not be a link, of either kind, to another file.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor, is_new = os.open(path, flags | os.O_EXCL, 0o666), True
        except FileExistsError:
            descriptor, is_new = os.open(path, flags, 0o666), False
        try:
            _require_regular(descriptor, path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(descriptor, path):
                return descriptor, is_new
        except OSError as error:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                problem = f"another writer is at work{holder and ': '}{holder}"
                raise IndexInUseError(problem, path=folder) from None
            raise
        os.close(descriptor)  # the file was deleted before it was locked


def _require_regular(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        problem = "it is not a file of the index, and is not written to"
        raise StorageError(problem, path=path, errno=errno.EINVAL)


def _is_current(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> str:
    """Return the text that the holder wrote; "" if there is none."""
    try:
        return os.pread(descriptor, _MAX_HOLDER_BYTES, 0).decode(errors="replace").strip()
    except OSError:
        return ""


def list_names(location: ObjectLocation) -> dict[str, tuple[int, int, ListedObject]]:
    """Return {name: (size in bytes, modification time in ns, description)} of the objects directly in a folder.

    This takes one request per thousand objects.

    Raises
    ------
    StorageError
        If it cannot be listed.
    """
    if not location.can_list:
        problem = "a web server cannot list files"
        raise StorageError(problem, path=location.name, errno=errno.EOPNOTSUPP)
    with translate_errors("cannot list it", location.name):
        listed = location.client.list_folder(location.key or None)
    start = len(location.key) + 1 if location.key else 0
    # The marker of the folder itself is listed as the key of the folder, without the slash.
    return {
        item["path"][start:]: (
            item["size"],
            to_nanoseconds(item["last_modified"]),
            make_listed_object(location, item["path"], item["size"], item["e_tag"]),
        )
        for item in listed
        if item["path"][start:]
    }


def delete(location: ObjectLocation, names: Sequence[str]) -> None:
    """Delete objects of a folder; missing objects are ignored.

    Raises
    ------
    StorageError
        If an object cannot be deleted.
    """
    keys = [f"{location.key}/{name}" if location.key else name for name in names]
    try:
        with translate_errors("cannot delete objects", location.name):
            location.client.delete(keys)
    except StorageError as error:
        if not is_missing(error):
            raise
        # Such a store stops at the first missing object.
        for key in keys:
            _delete_one(location.at(key))


def _delete_one(location: ObjectLocation) -> None:
    try:
        with translate_errors("cannot delete it", location.name):
            location.client.delete([location.key])
    except StorageError as error:
        if not is_missing(error):
            raise


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

    def __init__(self, path: str | os.PathLike[str], filesystem: FileSystem | None = None):
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
            listed = list_names(location)
            self._listed = {name: listed_object for name, (_, _, listed_object) in listed.items()}
            files = {name: (size, modified_ns) for name, (size, modified_ns, _) in listed.items()}
        elif remote is not None:
            files = self._list_remote(remote)
        else:
            files = self._list_local()
        return {name: file for name, file in files.items() if name != NAME and not local_rewrite.is_temporary(name)}

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
            delete(location, list(paths))
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

    def lock(self, name: str = NAME, undo: bool = False) -> AbstractContextManager[None]:
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
        return nullcontext() if self._location() is not None else hold_lock(self.path, path, undo)

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
        names = map(os.path.basename, local_rewrite.leftovers(self.path))
        leftover = [name for name in names if local_rewrite.displaced_from(name) is None]
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
