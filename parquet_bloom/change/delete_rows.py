"""`delete`: delete rows of a Delta or Iceberg table, by keys or by a predicate, in one commit."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..errors import ConcurrentChangeError, ParquetBloomError, printable, shortened
from ..file.bloom_file import BloomFile
from ..file.metadata_cache import SHARED_CACHE
from ..redaction import shown_redacted
from ..scan.lookup.key_lookups import KeyLookups
from ..scan.scan_source import ScanSource
from ..storage import open_source
from ..tables.embed.embed_table import open_target
from ..tables.embed.exchange_files import (
    CommitConflict,
    HiddenRows,
    RowChange,
    TableState,
    Target,
    settle,
)
from ..tables.table_snapshot import ReadTable
from ..util.messages import count
from .chosen_rows import FoundRows, Progress, RowChoice

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ..tables.embed.embed_table import GivenTable

Mode = Literal["hide", "rewrite"]

_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.02, 2.0  # before another try: other writers are busy
_SHOWN = 20  # files that the text of a report lists


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


@shown_redacted
@dataclass(frozen=True)
class DeleteReport:
    """The result of `delete`.

    Attributes
    ----------
    table : the table's folder, or its name in a catalog.
    old_version, new_version : Delta's version or Iceberg's snapshot id, before the commit and by it; equal if nothing
        was committed.
    files : the files of which rows were deleted; in a dry run, would be.
    num_keys, num_null_keys : keys that were given, and how many of them are null, which no row has.
    dry_run : whether nothing was written.
    attempts : number of commits that were tried.
    seconds : time taken.
    """

    table: str
    old_version: int | None
    new_version: int | None
    files: tuple[ChangedFile, ...] = field(default=())
    num_keys: int = 0
    num_null_keys: int = 0
    dry_run: bool = False
    attempts: int = 0
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether a commit was made."""
        return self.old_version != self.new_version

    @property
    def num_rows(self) -> int:
        """Number of rows that were deleted."""
        return sum(file.num_rows for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {
            "table": self.table,
            "old_version": self.old_version,
            "new_version": self.new_version,
            "rows": self.num_rows,
            "keys": self.num_keys,
            "null_keys": self.num_null_keys,
            "dry_run": self.dry_run,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
            "files": [{"path": file.path, "rows": file.num_rows, "how": file.how} for file in self.files],
        }

    def __str__(self) -> str:
        lines = [f"{file.how}: {file.num_rows:,} of {printable(shortened(file.path))}" for file in self.files[:_SHOWN]]
        if len(self.files) > _SHOWN:
            lines.append(f"... and {count(len(self.files) - _SHOWN, 'more file')}")
        return "\n".join([*lines, f"{printable(self.table)}: {self._summarize()}"])

    def _summarize(self) -> str:
        text = f"{count(self.num_rows, 'row')} {'would be ' if self.dry_run else ''}deleted"
        text += f" in {count(len(self.files), 'file')}" if self.files else ""
        if self.num_null_keys:
            text += f"; {count(self.num_null_keys, 'key')} of {self.num_keys:,} null, which no row equals"
        if self.changed:
            text += f"; version {self.old_version} -> {self.new_version}"
        return text


class _Planned(NamedTuple):
    """What is to be committed on a state of the table."""

    change: RowChange
    files: tuple[ChangedFile, ...]


def delete(
    table: GivenTable,
    keys: object = None,
    on: str | Sequence[str] | None = None,
    *,
    where: object = None,
    mode: Mode = "hide",
    dry_run: bool = False,
    retries: int = 10,
    catalog: Catalog | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
    progress: Progress | None = None,
    threads: int | None = None,
) -> DeleteReport:
    """Delete the rows of a Delta or Iceberg table that have one of some keys, or meet a predicate, by one commit.

    The rows are located as by `Dataset.locate`, without reading the other files; the values are compared. Rows that are
    deleted already are left out, so that a second run deletes nothing. After the commit readers do not show them. In
    the table's older versions they stay, until these are expired.

    Parameters
    ----------
    table, catalog, storage_options : as for `embed_table`; always the table's latest version.
    keys, on : the keys and their column, or columns, as for `Dataset.locate`; or `lower(column)`, `upper(column)` or
        `CAST(column AS STRING)`. A null key equals nothing, and is counted in the report. A stream of keys is read into
        memory; give a `pathlib.Path` of a Parquet file for more of them.
    where : a predicate that the rows meet as well, or instead of having keys.
    mode : "hide" to leave the rows in their files, and have readers leave them out: by deletion vectors, or by
        position delete files in an Iceberg table of version 2.
    dry_run : write and commit nothing; the report has rows and files.
    retries : how often to begin again when another writer has committed meanwhile. The rows are located anew in what
        the table consists of then, so that rows which were added meanwhile are deleted as well.
    timezone, threads : as for `Dataset.scan`.
    progress : called with (done, total) after each file that is read.

    Raises
    ------
    ConcurrentChangeError
        Other writers have committed during each of the tries. Nothing was committed.
    ParquetBloomError
        The table does not allow it, a key does not fit its column, or a file cannot be read. Nothing was committed. Or
        it is not known whether the commit succeeded; the text says so.
    """
    started = time.perf_counter()
    if mode != "hide":
        raise ParquetBloomError(f"mode must be 'hide', got {mode!r}")
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ParquetBloomError(f"retries must be an integer of at least 0, got {retries!r}")
    choice = RowChoice.make(keys, on, where, timezone=timezone, threads=threads)
    target = open_target(table, catalog, storage_options)
    report = _delete(target, choice, storage_options, retries, dry_run, progress)
    if choice.keys is not None:
        report = replace(report, num_keys=choice.keys.num_keys, num_null_keys=choice.keys.num_null)
    return replace(report, seconds=time.perf_counter() - started)


def _delete(
    target: Target,
    choice: RowChoice,
    storage_options: Mapping[str, object] | None,
    retries: int,
    dry_run: bool,
    progress: Progress | None,
) -> DeleteReport:
    attempts, table_id = 0, None
    while True:
        state = target.read_state()
        if table_id not in (None, state.table_id):
            raise ConcurrentChangeError("another table has taken its place meanwhile", path=target.name)
        table_id = state.table_id
        planned = _plan(target, state, choice, storage_options, progress)
        report = DeleteReport(target.name, state.version, state.version, planned.files, dry_run=dry_run)
        if dry_run or not planned.files:
            return replace(report, attempts=attempts)
        attempts += 1
        try:
            version = target.commit_rows(state, planned.change)
        except CommitConflict:
            version = None
        except BaseException as error:
            version = settle(target, state, [], error)
            if version is None or not isinstance(error, Exception):
                raise
        if version is not None:
            return replace(report, new_version=version, attempts=attempts)
        if attempts > retries:
            problem = f"other writers have committed during each of {count(attempts, 'attempt')}; nothing was changed"
            raise ConcurrentChangeError(f"{problem}. Run it again, or with more retries", path=target.name)
        time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _WAIT_SECONDS * 2**attempts)))


def _plan(
    target: Target,
    state: TableState,
    choice: RowChoice,
    storage_options: Mapping[str, object] | None,
    progress: Progress | None,
) -> _Planned:
    """Locate the rows in a state of the table, and decide what becomes of each file."""
    found = find_rows(target, state, choice, storage_options, progress)
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
    return _Planned(RowChange(hidden, removed, "delete"), tuple(files))


def find_rows(
    target: Target,
    state: TableState,
    choice: RowChoice,
    storage_options: Mapping[str, object] | None,
    progress: Progress | None,
) -> FoundRows:
    """Locate rows of a table in one of its states.

    Raises
    ------
    ParquetBloomError
        The table has files outside of its folder, which are not read; or as `RowChoice.find`.
    """
    outside = next((file for file in state.files if not file.may_open), None)
    if outside is not None:
        raise ParquetBloomError(f"rows of it may not be deleted: {outside.reason}", path=outside.path)
    if not state.files:
        return {}
    settings = storage_options or state.snapshot.storage_options
    source = ScanSource(ReadTable(state.snapshot), storage_options=settings)
    return choice.find(KeyLookups.open(source.resolve()), progress)


def _is_emptied(file: HiddenRows, state: TableState, filesystem: object | None) -> bool:
    """Return whether a file has no other rows than those that are deleted now, and those that were before."""
    with open_source(file.old.path, filesystem) as source:
        num_rows = BloomFile(source, SHARED_CACHE).footer.num_rows
    deletes = state.snapshot.deletes.get(file.old.path)
    if deletes is None or deletes.values is not None:
        return len(file.rows) == num_rows
    return len(file.rows) + len(deletes.find_positions(range(num_rows))) == num_rows
