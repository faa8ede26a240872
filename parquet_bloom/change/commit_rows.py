"""Commit what is done to the rows of a table, and begin again when another writer was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..errors import ConcurrentChangeError, ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import SHARED_CACHE
from ..redaction import shown_redacted
from ..scan.scan_source import ScanSource
from ..storage import open_source
from ..tables.embed.exchange_files import (
    CommitConflict,
    HiddenRows,
    NewFile,
    NewFiles,
    RowChange,
    TableState,
    Target,
    settle,
)
from ..tables.table_snapshot import ReadTable
from ..util.messages import count
from .find_rows import RowsByPath

_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.02, 2.0  # before another try: other writers are busy


@shown_redacted
@dataclass(frozen=True)
class ChangedFile:
    """A file of a table of which rows were deleted.

    Attributes
    ----------
    path : the file.
    num_rows : rows that were deleted by this commit.
    how : "hidden", they stay in the file and readers leave them out; "removed", the file has left the table.
    """

    path: str
    num_rows: int
    how: Literal["hidden", "removed"]


class Planned(NamedTuple):
    """What is to be committed on a state of a table.

    Attributes
    ----------
    change : the change.
    files : the files of which rows are deleted.
    """

    change: RowChange
    files: tuple[ChangedFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.files and not self.change.added


class CommittedRows(NamedTuple):
    """How a commit has ended.

    Attributes
    ----------
    old_version, new_version : before it and by it; equal if nothing was committed.
    planned : what was committed, or would be.
    attempts : number of tries.
    """

    old_version: int | None
    new_version: int | None
    planned: Planned
    attempts: int


Planner = Callable[[TableState, NewFiles], Planned]
"""Decides what is to be committed on a state of a table; what it writes for that goes into the new files."""


def commit(target: Target, plan: Planner, *, retries: int, dry_run: bool) -> CommittedRows:
    """Commit what is planned on the latest state of a table; plan anew when another writer has committed meanwhile.

    Parameters
    ----------
    retries : how often to plan anew.
    dry_run : plan, and commit nothing.

    Raises
    ------
    ConcurrentChangeError
        Other writers have committed during each of the tries. Nothing was committed.
    ParquetBloomError
        The table refuses the commit. Nothing was committed. Or it is not known whether the commit succeeded.
    """
    attempts, table_id = 0, None
    while True:
        state = target.read_state()
        if table_id not in (None, state.table_id):
            raise ConcurrentChangeError("another table has taken its place meanwhile", path=target.name)
        table_id = state.table_id
        with NewFiles(target.filesystem) as new_files:
            planned = plan(state, new_files)
            if dry_run or planned.is_empty:
                return CommittedRows(state.version, state.version, planned, attempts)
            attempts += 1
            version = _try(target, state, planned.change, new_files)
        if version is not None:
            return CommittedRows(state.version, version, planned, attempts)
        if attempts > retries:
            problem = f"other writers have committed during each of {count(attempts, 'attempt')}; nothing was changed"
            raise ConcurrentChangeError(f"{problem}. Run it again, or with more retries", path=target.name)
        time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _WAIT_SECONDS * 2**attempts)))


def require_retries(retries: object) -> None:
    """Raise ParquetBloomError unless a caller gives a number of retries."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ParquetBloomError(f"retries must be an integer of at least 0, got {retries!r}")


def _try(target: Target, state: TableState, change: RowChange, new_files: NewFiles) -> int | None:
    """Commit a change, and return its version; None if another writer was faster."""
    new_files.keep(change.added)  # until the outcome is known they may be the table's
    version = None
    try:
        version = target.commit_rows(state, change)
    except CommitConflict:
        pass
    except BaseException as error:
        version = settle(target, state, [file.path for file in change.added], error)
        if version is None:
            new_files.release(change.added)
        if version is None or not isinstance(error, Exception):
            raise
    if version is None:
        new_files.release(change.added)
    return version


def make_source(target: Target, state: TableState, storage_options: Mapping[str, object] | None) -> ScanSource | None:
    """Return what finds the rows of a table in one of its states; None if it has no files.

    Raises
    ------
    ParquetBloomError
        The table has files outside of its folder, which are not read.
    """
    outside = next((file for file in state.files if not file.may_open), None)
    if outside is not None:
        raise ParquetBloomError(f"rows of it may not be deleted: {outside.reason}", path=outside.path)
    if not state.files:
        return None
    settings = storage_options or state.snapshot.storage_options
    return ScanSource(ReadTable(state.snapshot), storage_options=settings).resolve()


def plan_deletes(
    target: Target, state: TableState, found: RowsByPath, operation: str, added: tuple[NewFile, ...] = ()
) -> Planned:
    """Decide what becomes of each file that has rows which are to be deleted.

    Parameters
    ----------
    added : files of new rows.

    Raises
    ------
    ParquetBloomError
        Rows of one of the files cannot be deleted.
    """
    live = {file.path: file for file in state.files}
    hidden: list[HiddenRows] = []
    removed: list[HiddenRows] = []
    files = []
    for path in sorted(found):
        rows = HiddenRows(live[path], found[path])
        if rows.old.reason is not None:
            raise ParquetBloomError(f"rows of it cannot be deleted: {rows.old.reason}", path=path)
        is_emptied = _is_emptied(rows, state, target.filesystem)
        (removed if is_emptied else hidden).append(rows)
        files.append(ChangedFile(path, len(rows.rows), "removed" if is_emptied else "hidden"))
    if hidden and state.hiding_problem is not None:
        raise ParquetBloomError(f"its rows cannot be hidden: {state.hiding_problem}", path=target.name)
    return Planned(RowChange(hidden, removed, operation, added=added), tuple(files))


def _is_emptied(file: HiddenRows, state: TableState, filesystem: object | None) -> bool:
    """Return whether a file has no other rows than those that are deleted now, and those that were before."""
    with open_source(file.old.path, filesystem) as source:
        num_rows = BloomFile(source, SHARED_CACHE).footer.num_rows
    deletes = state.snapshot.deletes.get(file.old.path)
    if deletes is None or deletes.values is not None:
        return len(file.rows) == num_rows
    return len(file.rows) + len(deletes.find_positions(range(num_rows))) == num_rows
