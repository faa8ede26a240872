"""Notice that the local files of a lake have changed, without listing them again."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from ...file.cache.memory import distinct
from ...storage import FileIdentity, PathStates

_FEW = 128  # are compared faster than by two threads
_POOL = ThreadPoolExecutor(1, "parquet-bloom-watch")


class LakeWatch:
    """The state of folders and files when they were listed.

    It is taken before an index checks the files, so that whatever changes later differs from it.

    Parameters
    ----------
    roots : the folders, patterns and files that were listed: absolute local paths.
    files : the files that were listed.
    """

    def __init__(self, roots: Sequence[str], files: Sequence[str]):
        folders = dict.fromkeys(folder for root in roots for folder in _list_folders(_fixed_folder(root)))
        self._states = PathStates([os.fsencode(path) for path in (*folders, *files)])
        identities = [FileIdentity(*state[:5]) for state in self._states.states.tolist()]
        # What changed just now may change again without another time.
        self._is_settled = all(identity.inode >= 0 and distinct(identity) for identity in identities)

    def is_current(self) -> bool:
        """Return whether everything is as it was, and would differ if it were not."""
        return self._is_settled and self._states.begin_check().run()

    @contextmanager
    def check(self) -> Iterator[WatchCheck]:
        """Find out in another thread, and at the end in this one too, whether everything is as it was."""
        check = WatchCheck(self._is_settled, self._states)
        try:
            yield check
        finally:
            check.finish()


class WatchCheck:
    """A comparison of files and folders with what they were."""

    def __init__(self, is_settled: bool, states: PathStates):
        self._is_settled = is_settled
        self._check = states.begin_check()
        self._other = _POOL.submit(self._check.run) if is_settled and len(states) > _FEW else None

    def finish(self) -> None:
        """Take part in the comparison, until all is compared."""
        if self._is_settled:
            self._is_settled = self._check.run()
        if self._other is not None:
            self._is_settled &= self._other.result()

    def is_current(self) -> bool:
        """Return whether nothing has changed, once the check is finished."""
        return self._is_settled


def _fixed_folder(root: str) -> str:
    """Return the folder below which a root's files are."""
    parts = root.split("/")
    while any(map(glob.has_magic, parts)) or not os.path.isdir("/".join(parts) or "/"):
        if len(parts) <= 1:
            break
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
