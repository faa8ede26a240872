"""Time travel: the version of a Delta table at a time.

deltalake goes by the times of the commits' files, takes the first version for any time before it, and knows nothing of
in-commit timestamps. Source: the Delta transaction log protocol, "In-Commit Timestamps".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from ...errors import ParquetBloomError
from ...storage.folder.folder import Folder
from .log import LOG_FOLDER, list_commits

_LONGEST_INFO = 16 * 1024 * 1024  # bytes of a commit's first line


def parse_time(as_of: datetime | str) -> int:
    """Return a time in milliseconds since 1970; one without a zone is in UTC.

    Raises
    ------
    ParquetBloomError
        It is not a time.
    """
    if isinstance(as_of, str):
        try:
            as_of = datetime.fromisoformat(as_of)
        except ValueError:
            raise ParquetBloomError(f"as_of is {as_of!r}, which is not a time such as 2024-01-31T12:00:00Z") from None
    if not isinstance(as_of, datetime):
        raise ParquetBloomError(f"as_of is a datetime or a text, not {type(as_of).__name__}; version= takes a number")
    as_of = as_of if as_of.tzinfo is not None else as_of.replace(tzinfo=UTC)
    since = as_of - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def find_version(root: str, as_of: datetime | str, filesystem: object | None, configuration: Mapping[str, Any]) -> int:
    """Return the last version that was committed at a time or before it.

    Parameters
    ----------
    root : the table's folder, or its URL.
    as_of : the time, see `parse_time`.
    filesystem : what `storage.resolve_filesystem` returns.
    configuration : of the table's latest version.

    Raises
    ------
    StorageError
        The log cannot be read.
    ParquetBloomError
        The time is before the first commit in the log, or the log is not understood.
    """
    time = parse_time(as_of)
    folder = Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem)
    commits = list_commits(folder)
    if configuration.get("delta.enableInCommitTimestamps") == "true":
        text = configuration.get("delta.inCommitTimestampEnablementVersion") or "0"
        try:
            first = int(text)
        except ValueError:
            raise ParquetBloomError(f"in-commit timestamps are enabled from version {text!r} on", path=root) from None
        found = _find_last(folder, commits, [version for version in commits if version >= first], time)
        if found is not None:
            return found
        commits = {version: commit for version, commit in commits.items() if version < first}
    # The times of files may go back; those of versions do not.
    modified = (nanoseconds // 1_000_000 for _, nanoseconds in commits.values())
    times = accumulate(modified, lambda before, after: max(before + 1, after))
    found = max((version for version, at in zip(commits, times, strict=True) if at <= time), default=None)
    if found is None:
        raise ParquetBloomError(f"as_of is {as_of}, which is before the first commit in its log", path=root)
    return found


def _find_last(folder: Folder, commits: Mapping[int, tuple[str, int]], versions: list[int], time: int) -> int | None:
    """Return the last of some versions whose in-commit timestamp is not after a time; None if all are."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if _read_time(folder, commits[versions[middle]][0]) <= time:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


def _read_time(folder: Folder, name: str) -> int:
    """Return the in-commit timestamp of a commit, which its first line has."""
    with folder.open(name) as source:
        length, line = 64 * 1024, b""
        while b"\n" not in line and len(line) < source.size:
            if length > _LONGEST_INFO:
                break
            line = source.read_at(0, min(length, source.size))
            length *= 4
    try:
        time = json.loads(line.split(b"\n", 1)[0])["commitInfo"]["inCommitTimestamp"]
    except (ValueError, KeyError, TypeError, RecursionError):
        time = None
    if type(time) is not int:
        raise ParquetBloomError("the commit has no in-commit timestamp in its first line", path=folder.path_of(name))
    return time
