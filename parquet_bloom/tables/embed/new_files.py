"""The new files of a table until they are committed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from ...errors import StorageError
from ...storage import is_url, stat_files
from ...storage.index_folder import Folder
from ...util.threads import in_order

_LISTINGS = 16  # requests at a time


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

    def __init__(self, filesystem: object | None = None) -> None:
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

    def find_missing(self, exchanges: Sequence[WrittenFile]) -> set[str]:
        """Return the new files that are gone, or are not as they were written: an unlucky vacuum deletes them."""
        sizes: dict[str, int] = {}
        local = [exchange.path for exchange in exchanges if not is_url(exchange.path)]
        for path, source in zip(local, stat_files(local), strict=True):
            if source is not None:
                sizes[path] = source.size
        # Some layouts have a folder for each file.
        folders = sorted({os.path.dirname(exchange.path) for exchange in exchanges if is_url(exchange.path)})
        with in_order(lambda folder: Folder(folder, self.filesystem).names(), folders, _LISTINGS) as listings:
            for folder, listed in zip(folders, listings, strict=True):
                sizes |= {f"{folder}/{name}": size for name, (size, _) in listed.items()}
        return {exchange.path for exchange in exchanges if sizes.get(exchange.path) != exchange.size}
