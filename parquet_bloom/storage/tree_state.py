"""The state of a local file or folder with all that is in it, which shows whether anything there has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable
from typing import NamedTuple

MAX_ENTRIES = 20_000
"""More take longer than what knowing them saves, and memory."""


class TreeState(NamedTuple):
    """The files and folders below a path at one time; equal states are of a tree in which nothing has changed.

    Attributes
    ----------
    entries : what identifies each of them, with its size and times.
    newest_ns : latest time of a change among them; one within the same tick of the clock would not show.
    """

    entries: Hashable
    newest_ns: int


def read_tree_state(path: str, max_entries: int = MAX_ENTRIES) -> TreeState | None:
    """Read the state of a file or folder.

    Hidden files count, too.

    Returns
    -------
    TreeState
        None if it cannot be read, has more entries, or has links or other special files in it, whose targets would have
        states of their own.
    """
    root = os.path.realpath(path)
    newest = 0
    try:
        status = os.lstat(root)
        entries: list[tuple[str | int, ...]] = [(root, *_identify(status))]
        newest = max(status.st_mtime_ns, status.st_ctime_ns)
        folders = [root] if stat.S_ISDIR(status.st_mode) else []
        while folders:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.path)
                    elif not stat.S_ISREG(status.st_mode):
                        return None
                    if len(entries) >= max_entries:
                        return None
                    newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
                    entries.append((entry.path, *_identify(status)))
    except OSError:
        return None
    return TreeState(tuple(entries), newest)


def _identify(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_mode,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
