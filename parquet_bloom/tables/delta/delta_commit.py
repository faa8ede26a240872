"""Commit to a Delta table: a file of actions, which appears whole, and only if its version is not taken.

deltalake refuses to commit to tables with features that it does not know, and writes add actions without the members
that such features need. A commit that only exchanges files has to repeat these members, and needs to know no more.

Source: the Delta transaction log protocol, sections "Actions", "Row Tracking" and "In-Commit Timestamps".
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping

from ...errors import ParquetBloomError
from ...storage.index_folder import Folder
from .delta_log import Action, list_commits, read_commit_time
from .delta_properties import IN_COMMIT_TIMES, is_on

_OF_REMOVE = (
    *("path", "partitionValues", "size", "stats", "tags", "deletionVector"),
    *("baseRowId", "defaultRowCommitVersion"),
)


def make_commit_info(
    log: Folder, version: int, configuration: Mapping[str, str], operation: str, **members: object
) -> Action:
    """Return the action that describes a commit.

    Parameters
    ----------
    log : the folder of the table's log.
    version : of the commit.
    configuration : the table's properties.
    operation : what the table's history shows.
    members : more members.

    Raises
    ------
    ParquetBloomError
        The commit before has no time, which this one's must not precede.
    """
    now = time.time_ns() // 1_000_000
    info: Action = {"timestamp": now, "operation": operation, "operationParameters": {}, **members}
    package = __name__.partition(".")[0]
    info["engineInfo"] = f"{package}/{sys.modules[package].__version__}"
    if is_on(configuration, IN_COMMIT_TIMES):
        before = list_commits(log).get(version - 1)
        if before is None:
            problem = f"commit {version - 1} is missing, whose time the next one must not precede"
            raise ParquetBloomError(problem, path=log.path)
        info["timestamp"] = max(now, read_commit_time(log, before[0]) + 1)
        # Readers look for it in the first line, and those that read on do so from its beginning.
        info = {"inCommitTimestamp": info["timestamp"], **info}
    return {"commitInfo": info}


def make_remove(add: Action, deleted: int, *, changes_data: bool) -> Action:
    """Return the action that removes a file.

    Parameters
    ----------
    add : the file's add action.
    deleted : time in ms since 1970.
    changes_data : whether some of its rows are not added again by the same commit.
    """
    kept = {name: add[name] for name in _OF_REMOVE if name in add}
    changed = {"deletionTimestamp": deleted, "dataChange": changes_data, "extendedFileMetadata": True}
    return {"remove": {**kept, **changed}}


def write_commit(log: Folder, version: int, actions: Iterable[Action], check: Callable[[], None]) -> None:
    """Write a version of a table.

    Parameters
    ----------
    check : called as late as possible before the version is there, which it prevents by an error.

    Raises
    ------
    ConcurrentChangeError
        Another writer has committed this version.
    StorageError
        It cannot be written; in a store without an answer it may be written later.
    """
    lines = (json.dumps(action, separators=(",", ":")) for action in actions)
    with log.create(f"{version:020d}.json", new=True) as new:
        new.write("".join(f"{line}\n" for line in lines).encode())
        check()
        new.commit()
