"""Notice that the files of a lake have changed since an index was checked for them, while they are already read."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from ...errors import ParquetBloomError
from ...file.cache.memory import distinct
from ...storage import Entry, FileIdentity, PathStates

_FEW = 128  # local files are compared faster than by two threads
_POOL = ThreadPoolExecutor(4, "parquet-bloom-watch")


class LakeWatch(Protocol):
    """The state of a lake's files, taken before an index is checked for them: whatever changes later differs from it.

    Attributes
    ----------
    is_settled : whether every later change will show; what changed just now may change again within the same tick.
    """

    @property
    def is_settled(self) -> bool: ...

    def begin_check(self) -> Callable[[], bool]:
        """Begin to compare the files with this state, in another thread.

        Returns
        -------
        A function that waits for the result: whether nothing has changed.
        """


class LocalWatch:
    """The state of local files, and of all folders in which others may appear.

    Parameters
    ----------
    roots : the folders, patterns and files of the lake: absolute paths.
    list_files : lists the files, and other files or folders to watch.
    """

    def __init__(self, roots: Sequence[str], list_files: Callable[[], Sequence[str]]):
        started = time.time_ns()
        folders = _list_all_folders(roots)
        # Before the files are listed: one that appears meanwhile is among them, or its folder differs.
        states = [PathStates([os.fsencode(path) for path in folders])]
        are_all = _list_all_folders(roots) == folders  # a new one is not watched yet
        states.append(PathStates([os.fsencode(path) for path in list_files()]))
        self._states = states
        identities = [FileIdentity(*state[:5]) for one in states for state in one.states.tolist()]
        self.is_settled = are_all and all(one.inode >= 0 and distinct(one, started) for one in identities)

    def begin_check(self) -> Callable[[], bool]:
        """See `LakeWatch.begin_check`: the thread that waits takes part in the comparison."""
        checks = [states.begin_check() for states in self._states]

        def check() -> bool:
            return all(one.run() for one in checks)

        other: Future[bool] | None = _POOL.submit(check) if sum(map(len, self._states)) > _FEW else None
        return lambda: check() and (other is None or other.result())


class ListedWatch:
    """The state of objects in a store as listings give it.

    Parameters
    ----------
    list_files : lists the files.
    """

    def __init__(self, list_files: Callable[[], Sequence[Entry]]):
        self._list_files = list_files
        self._files = self._describe()
        self.is_settled = all(e_tag is not None for _, _, e_tag in self._files)

    def _describe(self) -> list[tuple[str, int | None, str | None]]:
        known = [(entry.path, entry.known) for entry in self._list_files()]
        return [(path, None if one is None else one.size, None if one is None else one.e_tag) for path, one in known]

    def begin_check(self) -> Callable[[], bool]:
        """See `LakeWatch.begin_check`."""
        future = _POOL.submit(self._describe)

        def is_same() -> bool:
            try:
                return future.result() == self._files
            except ParquetBloomError:  # which the next listing raises
                return False

        return is_same


def _list_all_folders(roots: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(folder for root in roots for folder in _list_folders(_fixed_folder(root))))


def _fixed_folder(root: str) -> str:
    """Return the folder below which a root's files are."""
    parts = root.split("/")
    while len(parts) > 1 and (any(map(glob.has_magic, parts)) or not os.path.isdir("/".join(parts) or "/")):
        parts.pop()
    return "/".join(parts) or "/"


def _list_folders(folder: str, above: Iterable[tuple[int, int]] = ()) -> Iterator[str]:
    """Yield a folder and all below it, by links too, but none that leads back to one above."""
    try:
        status = os.stat(folder)
        key = status.st_dev, status.st_ino
        if key in above:
            return
        with os.scandir(folder) as listing:
            below = [entry.path for entry in listing if entry.is_dir()]
    except OSError:
        yield folder  # its state says that there is nothing, which counts as a change
        return
    yield folder
    for path in below:
        yield from _list_folders(path, {*above, key})
