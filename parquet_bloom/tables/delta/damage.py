"""What is wrong with the log of a Delta table that deltalake cannot open: what writers leave that die.

deltalake passes over files that are no part of a log, such as temporary ones, empty checkpoints and those that lack
parts. It gives up at the others, without saying which file it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from ...errors import ParquetBloomError, StorageError
from ...storage.folder.folder import Folder
from .log import LOG_FOLDER, list_checkpoints, list_commits, read_checkpoint, read_lines

_HINT = "_last_checkpoint"
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_LONGEST_HINT = 1024 * 1024


class Damage(NamedTuple):
    """What is wrong with a log.

    Attributes
    ----------
    problem : the file, what is wrong with it, and what to do.
    start : a version that can be read in spite of it, and from which the commits lead to the latest one; None if there
        is none.
    """

    problem: str
    start: int | None = None


def find_damage(root: str, filesystem: object | None = None) -> Damage | None:
    """Return what is wrong with a table's log; None if nothing is found, or if it cannot be read.

    Parameters
    ----------
    root : the table's folder, or its URL.
    filesystem : what `storage.resolve_filesystem` returns.
    """
    with suppress(StorageError):
        return _find_damage(Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem))
    return None


def _find_damage(folder: Folder) -> Damage | None:
    commits, checkpoints = list_commits(folder), sorted(list_checkpoints(folder.names()))
    newest = checkpoints[-1].version if checkpoints else -1
    latest = max([newest, *commits])
    missing = _find_missing(commits, newest, latest)
    if missing is not None:
        return Damage(f"commit {missing} is missing in its log, and no checkpoint replaces it")
    for version in range(newest + 1, latest + 1):
        try:
            for _ in read_lines(folder, commits[version][0]):
                pass
        except StorageError:
            raise
        except ParquetBloomError as error:
            way_out = "delete the file if its writer died before it has reported the commit, or restore it"
            return Damage(f"{error}. It was cut short or damaged: {way_out}")
    if checkpoints:
        before = checkpoints[-2].version if len(checkpoints) > 1 else -1
        try:
            for _ in read_checkpoint(folder, checkpoints[-1], folder.path.rpartition("/")[0], ()):
                pass
        except ParquetBloomError as error:
            is_needed = _find_missing(commits, before, latest) is not None
            way_out = "restore it" if is_needed else f"delete it and {_HINT}, as the log has all that was before it"
            return Damage(f"{error}. It was cut short or damaged: {way_out}")
    stale = _find_stale_hint(folder, {one.version for one in checkpoints}, commits, latest)
    return stale or _find_checksum(folder, latest)


def _find_missing(commits: Collection[int], after: int, latest: int) -> int | None:
    return next((version for version in range(after + 1, latest + 1) if version not in commits), None)


def _find_stale_hint(
    folder: Folder, checkpoints: Collection[int], commits: Collection[int], latest: int
) -> Damage | None:
    """Return what is wrong with a hint of a checkpoint that is not there."""
    version = _read_hint(folder)
    if version is None or version in checkpoints:
        return None
    problem = f"{_HINT} names a checkpoint of version {version}, of which there is none that is whole: delete that file"
    start = min(version - 1, latest)
    first = max((one for one in checkpoints if one <= start), default=-1)
    return Damage(problem, start if start >= 0 and _find_missing(commits, first, latest) is None else None)


def _read_hint(folder: Folder) -> int | None:
    if _HINT not in folder.names():
        return None
    with folder.open(_HINT) as source:
        content = source.read_at(0, min(source.size, _LONGEST_HINT))
    try:
        hint: Any = json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):  # deltalake does without it
        return None
    version = hint.get("version") if isinstance(hint, dict) else None
    return version if type(version) is int else None


def _find_checksum(folder: Folder, latest: int) -> Damage | None:
    """Return a checksum of a version that is not there."""
    matches = map(_CHECKSUM.fullmatch, folder.names())
    later = [match[0] for match in matches if match is not None and int(match[1]) > latest]
    if not later:
        return None
    return Damage(f"{folder.path_of(max(later))} is of a version that its log does not have: delete that file")
