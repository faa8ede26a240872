"""The new files of a table until they are committed."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from ...errors import StorageError
from ...storage import is_url, open_source, stat_files
from ...storage.index_folder import Folder
from ...util.threads import in_order

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

_REQUESTS = 16  # at a time
_ASKED = 16  # files of a folder, up to which they are asked for one by one, without listing it


class WrittenFile(Protocol):
    """A new file, at a path and of a size in bytes."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...


class NewFiles:
    """The new files of a table, as a context manager: those that are not kept are deleted on leaving it.

    Parameters
    ----------
    filesystem : of the table, resolved.
    """

    def __init__(self, filesystem: FileSystem | None = None) -> None:
        self.filesystem = filesystem
        self._paths: set[str] = set()
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete(self._paths - self._kept)

    def expect(self, paths: Iterable[str]) -> None:
        """Note files that other processes may write."""
        with self._lock:
            self._paths.update(paths)

    def keep(self, exchanges: Iterable[WrittenFile]) -> None:
        """Do not delete files on leaving the context, as they are committed, or may be."""
        self._kept.update(exchange.path for exchange in exchanges)

    def release(self, exchanges: Iterable[WrittenFile]) -> None:
        """Take `keep` back: the files are not committed."""
        self._kept.difference_update(exchange.path for exchange in exchanges)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete uncommitted files now, as far as that is possible."""
        for path in sorted(paths):
            folder, name = os.path.split(path)
            with suppress(StorageError):  # a vacuum deletes it
                Folder(folder, self.filesystem).delete([name, f".{name}.crc"])
                self._paths.discard(path)


def find_missing(files: Sequence[WrittenFile], filesystem: FileSystem | None) -> set[str]:
    """Return the new files that are gone, or are not as they were written: an unlucky vacuum deletes them."""
    sizes: dict[str, int] = {}
    local = [file.path for file in files if not is_url(file.path)]
    for path, source in zip(local, stat_files(local), strict=True):
        if source is not None:
            sizes[path] = source.size
    # Some layouts have a folder for each file, and some folders have many other files.
    of_folders = Counter(os.path.dirname(file.path) for file in files if is_url(file.path))
    folders = [folder for folder, number in of_folders.items() if number > _ASKED]
    with in_order(lambda folder: Folder(folder, filesystem).names(), folders, _REQUESTS) as listings:
        for folder, listed in zip(folders, listings, strict=True):
            sizes |= {f"{folder}/{name}": size for name, (size, _) in listed.items()}
    asked = [file.path for file in files if 0 < of_folders[os.path.dirname(file.path)] <= _ASKED]
    with in_order(lambda path: _find_size(path, filesystem), asked, _REQUESTS) as found:
        sizes |= {path: size for path, size in zip(asked, found, strict=True) if size is not None}
    return {file.path for file in files if sizes.get(file.path) != file.size}


def _find_size(path: str, filesystem: FileSystem | None) -> int | None:
    """Return the size of a file in bytes; None if there is none."""
    try:
        with open_source(path, filesystem) as source:
            return source.size
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
