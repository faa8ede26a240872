"""Commit what is done to the rows of a table, and begin again when another writer was faster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError, printable, shortened
from ..file.bloom_file import BloomFile
from ..file.drop_rows import DroppedRows, write_without_rows
from ..file.many_files import process_files
from ..file.metadata_cache import SHARED_CACHE
from ..file.numbered_column import NumberedColumn
from ..file.tabular_report import Kind, TabularReport
from ..redaction import shown_redacted
from ..scan.scan_source import ScanSource
from ..storage import open_source
from ..storage.paths import as_utf8
from ..tables.embed.exchange_files import read_again, settle
from ..tables.embed.new_files import NewFiles
from ..tables.embed.table_target import (
    CommitConflict,
    HiddenRows,
    LiveFile,
    NewFile,
    RewrittenFile,
    RowChange,
    TableState,
    Target,
)
from ..tables.table_snapshot import ReadTable
from ..util.messages import count
from ..util.threads import processors
from .erase_files import Outcomes
from .find_rows import RowsByPath, find_live_rows

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

Mode = Literal["hide", "rewrite"]

_WAY_OUT = "; `parquet_bloom.iceberg(..., outside=True)`, or --outside, is a table whose files may lie elsewhere"
_SHOWN = 20  # files that the text of a report lists


@shown_redacted
@dataclass(frozen=True)
class ChangedFile:
    """A file of a table of which rows were deleted.

    Attributes
    ----------
    path : the file.
    num_rows : rows that were deleted by this commit.
    how : "hidden", they stay in the file and readers leave them out; "removed", the file has left the table;
        "rewritten", another one without them has taken its place.
    output : that other file; None in a dry run, and if there is none.
    new_size : bytes of that other file; None if there is none.
    """

    path: str
    num_rows: int
    how: Literal["hidden", "removed", "rewritten"]
    output: str | None = None
    new_size: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        new = {"output": self.output, "new_size": self.new_size}
        return {"file": self.path, "rows": self.num_rows, "how": self.how, **new}


@shown_redacted
@dataclass(frozen=True, kw_only=True)
class ChangeReport(TabularReport):
    """How the rows of a table were changed by one commit.

    Attributes
    ----------
    table : the table's folder, or its name in a catalog.
    old_version, new_version : Delta's version or Iceberg's snapshot id, before the commit and by it; equal if nothing
        was committed.
    files : the files of which rows were deleted; in a dry run, would be.
    dry_run : whether nothing was written.
    attempts : number of commits that were tried.
    seconds : time taken.

    As a table it has a row for each file of which rows were deleted.
    """

    table: str
    old_version: int | None
    new_version: int | None
    files: tuple[ChangedFile, ...] = ()
    dry_run: bool = False
    attempts: int = 0
    seconds: float = 0.0

    _columns: ClassVar[Mapping[str, Kind]] = {
        "path": "path",
        "num_rows": "int",
        "how": "text",
        "output": "path",
        "new_size": "int",
    }

    def _make_rows(self) -> Iterator[tuple[object, ...]]:
        return map(attrgetter(*self._columns), self.files)

    @property
    def changed(self) -> bool:
        """Whether a commit was made."""
        return self.old_version != self.new_version

    @property
    def versions(self) -> str:
        """Text that says which version was made, to be put behind the summary; empty if none was."""
        return f"; version {self.old_version} -> {self.new_version}" if self.changed else ""

    @property
    def num_deleted(self) -> int:
        """Number of rows that were deleted."""
        return sum(file.num_rows for file in self.files)

    @property
    def bytes_written(self) -> int:
        """Bytes of the files that were written anew without rows, or in a dry run would be."""
        return sum(file.new_size or 0 for file in self.files)

    @property
    def summary(self) -> str:
        """One line of it, without the table."""
        raise NotImplementedError

    @property
    def lines_after_files(self) -> list[str]:
        """What the text says after the summary."""
        return []

    def add_facts(self, facts: Mapping[str, object], lists: Mapping[str, object]) -> dict[str, Any]:
        """Return the figures as JSON can hold them, with those of a kind of change."""
        return {
            "table": self.table,
            "old_version": self.old_version,
            "new_version": self.new_version,
            **facts,
            "bytes_written": self.bytes_written,
            "dry_run": self.dry_run,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
            "files": [file.to_dict() for file in self.files],
            **lists,
        }

    def __str__(self) -> str:
        lines = [f"{file.how}: {file.num_rows:,} of {printable(shortened(file.path))}" for file in self.files[:_SHOWN]]
        if len(self.files) > _SHOWN:
            lines.append(f"... and {count(len(self.files) - _SHOWN, 'more file')}")
        return "\n".join([*lines, f"{printable(self.table)}: {self.summary}{self.versions}", *self.lines_after_files])


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

    def describe(self, target: Target, dry_run: bool, started: float) -> dict[str, Any]:
        """Return the attributes of a `ChangeReport`; `started` is by `time.perf_counter`."""
        return {
            "table": target.name,
            "old_version": self.old_version,
            "new_version": self.new_version,
            "files": self.planned.files,
            "dry_run": dry_run,
            "attempts": self.attempts,
            "seconds": time.perf_counter() - started,
        }


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
    attempts, state = 0, target.read_state()
    while True:
        with NewFiles(target.filesystem) as new_files:
            planned = plan(state, new_files)
            if dry_run or planned.is_empty:
                return CommittedRows(state.version, state.version, planned, attempts)
            attempts += 1
            version = _try(target, state, planned.change, new_files)
        if version is not None:
            return CommittedRows(state.version, version, planned, attempts)
        state = read_again(target, state.table_id, attempts, retries)


def _try(target: Target, state: TableState, change: RowChange, new_files: NewFiles) -> int | None:
    """Commit a change, and return its version; None if another writer was faster."""
    kept: list[NewFile | RewrittenFile] = [*change.added, *change.rewritten]
    new_files.keep(kept)  # until the outcome is known they may be the table's
    version = None
    try:
        version = target.commit_rows(state, change)
    except CommitConflict:
        pass
    except BaseException as error:
        version = settle(target, state, [file.path for file in kept], error)
        if version is None:
            new_files.release(kept)
        if version is None or not isinstance(error, Exception):
            raise
    if version is None:
        new_files.release(kept)
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
        way_out = _WAY_OUT if target.kind == "iceberg" else ""
        raise ParquetBloomError(f"rows of it may not be deleted: {outside.reason}{way_out}", path=outside.path)
    if not state.files:
        return None
    settings = storage_options or state.snapshot.storage_options or target.storage_options
    return ScanSource(ReadTable(state.snapshot), storage_options=settings).resolve()


@dataclass(frozen=True)
class FileRewriter:
    """Writes files of a table anew without some of their rows; other processes may call it.

    Attributes
    ----------
    rows : {path: numbers of rows that go}.
    outputs : {path: the new file}.
    numbered : {path: columns that the new file gets}, see `Target.number_rows`.
    filesystem : of the files, resolved.
    threads : for each file.
    """

    rows: RowsByPath
    outputs: Mapping[str, str]
    numbered: Mapping[str, Sequence[NumberedColumn]]
    filesystem: FileSystem | None
    dry_run: bool
    threads: int = 1

    def __call__(self, path: str) -> DroppedRows:
        return write_without_rows(
            *(path, self.rows[path], self.outputs[path]),
            filesystem=self.filesystem,
            in_table=True,
            numbered=self.numbered.get(path, ()),
            dry_run=self.dry_run,
            threads=self.threads,
        )


WriteAnew = Callable[[Sequence[LiveFile], FileRewriter], Outcomes]
"""Calls the second argument with the path of each of some files; the outcomes are in their order."""


@dataclass(frozen=True)
class DeletesPlanner:
    """Decides what becomes of the files of which rows are to be deleted, and writes some of them anew.

    Attributes
    ----------
    target : the table.
    mode : whether rows may stay in their files. In tables that cannot hide rows, files are written anew in any case.
    dry_run : write nothing.
    threads : files at a time; None for one per processor.
    write : writes files anew; None for threads of this process.
    """

    target: Target
    mode: Mode = "hide"
    dry_run: bool = False
    threads: int | None = None
    write: WriteAnew | None = None

    def plan(
        self,
        state: TableState,
        found: RowsByPath,
        operation: str,
        new_files: NewFiles,
        added: tuple[NewFile, ...] = (),
    ) -> Planned:
        """Plan a commit that deletes rows.

        Parameters
        ----------
        found : the rows of each file.
        added : files of new rows.

        Raises
        ------
        ParquetBloomError
            Rows of one of the files cannot be deleted.
        """
        if found and state.deleting_problem is not None:
            raise ParquetBloomError(state.deleting_problem, path=self.target.name)
        live = {as_utf8(file.path): file for file in state.files}
        todo: list[HiddenRows] = []
        removed: list[HiddenRows] = []
        hides = self.mode == "hide" and state.hiding_problem is None
        gone: RowsByPath = {}
        for path in sorted(found):
            rows = HiddenRows(live[path], found[path])
            if rows.old.reason is not None and not (hides and rows.old.may_hide):
                raise ParquetBloomError(f"rows of it cannot be deleted: {rows.old.reason}", path=path)
            all_deleted = self._add_deleted(rows, state, by_values=not hides)
            if len(all_deleted) == _count_rows(rows.old.path, self.target.filesystem):
                removed.append(rows)
                continue
            todo.append(rows)
            if not hides:
                gone[rows.old.path] = all_deleted
        files = [ChangedFile(file.old.path, len(file.rows), "removed") for file in removed]
        if hides:
            files += [ChangedFile(file.old.path, len(file.rows), "hidden") for file in todo]
            change = RowChange(todo, removed, operation, added=added)
        else:
            rewritten = self._rewrite(state, todo, gone, new_files)
            files += [
                ChangedFile(new.old.path, len(new.rows), "rewritten", None if self.dry_run else new.path, new.size)
                for new in rewritten
            ]
            change = RowChange((), removed, operation, rewritten, added)
        return Planned(change, tuple(sorted(files, key=lambda file: file.path)))

    def _add_deleted(self, file: HiddenRows, state: TableState, *, by_values: bool) -> NDArray[np.int64]:
        """Return the rows of a file that are deleted now or were before, ascending.

        Parameters
        ----------
        by_values : also those that are deleted by their values, for which these are read.
        """
        deletes = state.snapshot.deletes.get(file.old.path)
        if deletes is None:
            return file.rows
        all_rows = range(_count_rows(file.old.path, self.target.filesystem))
        if deletes.values is None or not by_values:
            return np.union1d(file.rows, deletes.find_positions(all_rows))
        source = ScanSource(ReadTable(state.snapshot), self.target.filesystem).resolve()
        path = as_utf8(file.old.path)
        live = find_live_rows(replace(source, paths=[path])).get(path, np.empty(0, np.int64))
        return np.union1d(file.rows, np.setdiff1d(np.array(all_rows), live))

    def _rewrite(
        self, state: TableState, todo: Sequence[HiddenRows], gone: RowsByPath, new_files: NewFiles
    ) -> list[RewrittenFile]:
        """Write files without rows that are to be deleted, and without those that were deleted before.

        Parameters
        ----------
        gone : these rows.
        """
        if todo and state.rewriting_problem is not None:
            also = f"; {state.hiding_problem}" if state.hiding_problem else ""
            problem = f"its files cannot be written anew without rows: {state.rewriting_problem}{also}"
            raise ParquetBloomError(problem, path=self.target.name)
        filesystem = self.target.filesystem
        files, number = [file.old for file in todo], self.threads or processors()
        outputs = {old.path: self.target.name_new_file(old) for old in files}
        new_files.expect(outputs.values())
        per_file = 1 if self.write else max(1, number // max(1, min(number, len(todo))))
        numbered = self.target.number_rows(state, files)
        rewriter = FileRewriter(gone, outputs, numbered, filesystem, self.dry_run, per_file)
        written = []
        with closing((self.write or self._write_in_threads)(files, rewriter)) as outcomes:
            for file, done in zip(todo, outcomes, strict=True):
                if isinstance(done, Exception):
                    raise done
                if done.old_size != file.old.size:
                    problem = f"it has {done.old_size:,} bytes, and {file.old.size:,} by the table's metadata"
                    raise ParquetBloomError(problem, path=file.old.path)
                path = outputs[file.old.path]
                written.append(RewrittenFile(file.old, file.rows, path, done.new_size, done.rows_left, done.shared))
        return written

    def _write_in_threads(self, files: Sequence[LiveFile], rewriter: FileRewriter) -> Outcomes:
        jobs = max(1, min(self.threads or processors(), len(files)))
        with process_files(files, lambda file, _: rewriter(file.path), jobs) as outcomes:
            yield from outcomes


def _count_rows(path: str, filesystem: FileSystem | None) -> int:
    """Return the number of rows in a file, deleted ones included."""
    with open_source(path, filesystem) as source:
        return BloomFile(source, SHARED_CACHE).footer.num_rows
