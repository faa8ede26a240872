"""Write the new files of a table, and exchange them for the old ones by one commit, whatever other writers do."""

from __future__ import annotations

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import (
    BrokenFilterError,
    ConcurrentChangeError,
    ParquetBloomError,
    StorageError,
    UnknownColumnError,
    UnsupportedTypeError,
    first_line,
)
from ...file.bloom_file import BloomFile
from ...file.embed_filters import embed_in_table, lacks_filters
from ...file.file_columns import find_leaf, find_leaves
from ...file.filter_builder import FilterOptions
from ...file.many_files import Progress, process_files
from ...file.verify_file import verify_parquet
from ...metadata.footer_rewrite import RenamedFooter
from ...redaction import shown_redacted
from ...storage import is_url, stat_files
from ...storage.index_folder import Folder
from ...util.messages import count
from ...util.threads import in_order
from ..names_in_files import find_names
from ..table_locations import require_inside
from ..table_snapshot import TableColumn, TableSnapshot


class FilterColumns:
    """The columns of a table that get filters.

    Parameters
    ----------
    requested : {dotted name in the table: options}.
    state : the table.
    target : the same, for its name and file system.

    Raises
    ------
    UnknownColumnError, UnsupportedTypeError
        See `require_column`.
    """

    def __init__(self, requested: Mapping[str, FilterOptions], state: TableState, target: Target):
        self._requested, self._columns, self._filesystem = requested, state.columns, target.filesystem
        self._containers = {name: require_column(state, name, target.name) for name in requested}

    def choose(self, file: BloomFile, size: int) -> dict[str, FilterOptions]:
        """Return the columns that a file has, {dotted path in the file: options}.

        Raises
        ------
        UnknownColumnError
            Several leaves have the name of one.
        ParquetBloomError
            The file has another size than the table's metadata says, or it does not say which column is which.
        """
        if file.source.size != size:
            problem = f"it has {file.source.size:,} bytes, and {size:,} by the table's metadata"
            raise ParquetBloomError(problem, path=file.path)
        names = None if self._columns is None else find_names(file.footer, self._columns)
        leaves = file.leaves if names is None else RenamedFooter(file.footer, names).leaves
        chosen = {}
        for name, options in self._requested.items():
            if find_leaves(leaves, name):
                leaf = file.leaves[find_leaf(leaves, name, file.path).index]
                chosen[leaf.name] = options
                continue
            container = self._containers[name]
            others = [] if container is None else find_leaves(leaves, container)
            if others:  # not a column that was added later: writers name what is in lists and maps as they like
                problem = f"it has no such column, but {others[0].name}"
                raise ParquetBloomError(problem, path=file.path, column=name)
        return chosen

    def are_missing(self, file: LiveFile) -> bool:
        """Return whether a file lacks filters of these columns.

        Raises
        ------
        ParquetBloomError
            The file cannot get filters.
        """
        return lacks_filters(file.path, lambda opened: self.choose(opened, file.size), self._filesystem)


def require_column(state: TableState, name: str, table: str) -> str | None:
    """Return the name of the outermost list or map that a column is in, or is; None if it is in none.

    Raises
    ------
    UnknownColumnError
        There is no such column.
    UnsupportedTypeError
        It is a struct or BOOLEAN, or only the table's metadata has its values.
    """
    if name in state.not_in_files:
        problem = "a partition column: the table's metadata has its values, and its files do not"
        raise UnsupportedTypeError(problem, path=table, column=name)
    found, above = _find_type(list(state.schema), name)
    if found is None:
        names = [field.name for field in state.schema if field.name not in state.not_in_files]
        text = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise UnknownColumnError(f"the table has no such column; it has: {text}", path=table, column=name)
    if pa.types.is_struct(found):
        raise UnsupportedTypeError("the column is a struct: name one of its fields", path=table, column=name)
    if pa.types.is_boolean(found):
        problem = "BOOLEAN columns get no filter: there are two values to find"
        raise UnsupportedTypeError(problem, path=table, column=name)
    return above if pa.types.is_nested(found) else None


def _find_type(fields: Sequence[pa.Field], name: str, above: str = "") -> tuple[pa.DataType | None, str]:
    """Return type and name of a column, or of the outermost list or map around it; None if there is none."""
    for column in fields:
        if column.name == name:
            return column.type, above + name
        if name.startswith(f"{column.name}.") and pa.types.is_nested(column.type):
            if not pa.types.is_struct(column.type):
                return column.type, above + column.name
            found = _find_type(list(column.type), name[len(column.name) + 1 :], f"{above}{column.name}.")
            if found[0] is not None:
                return found
    return None, ""


_LISTINGS = 16  # requests at a time


class NewFiles:
    """The new files of a table, as a context manager: those that are not kept are deleted on leaving it.

    Parameters
    ----------
    filesystem : of the table, resolved.
    """

    def __init__(self, filesystem: object | None = None) -> None:
        self._filesystem = filesystem
        self._paths: set[str] = set()
        self._kept: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete(self._paths - self._kept)

    def write(
        self,
        old: LiveFile,
        path: str,
        columns: FilterColumns,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        threads: int | None = None,
    ) -> Exchange | None:
        """Write a file with filters and verify it; return None if there was nothing to add.

        Raises
        ------
        ParquetBloomError
            The file cannot get filters, or the new one has a filter that denies a value.
        """
        with self._lock:
            self._paths.add(path)  # before there is a file, as an interrupt may follow its creation
        names: list[str] = []

        def choose(file: BloomFile) -> dict[str, FilterOptions]:
            chosen = columns.choose(file, old.size)
            names.extend(chosen)
            return chosen

        report = embed_in_table(
            *(old.path, path, choose),
            filesystem=self._filesystem,
            dry_run=dry_run,
            progress=progress,
            threads=threads,
        )
        if not report.filters or not (dry_run or report.changed):
            return None
        if not dry_run:
            _verify(path, old.path, names, report.num_filters + report.kept, self._filesystem)
        return Exchange(old, path, report.new_size, report.num_filters)

    def expect(self, paths: Iterable[str]) -> None:
        """Note files that other processes may write."""
        self._paths.update(paths)

    def keep(self, exchanges: Iterable[Exchange | NewFile | RewrittenFile]) -> None:
        """Do not delete files on leaving the context, as they are committed, or may be."""
        self._kept.update(exchange.path for exchange in exchanges)

    def release(self, exchanges: Iterable[Exchange | NewFile | RewrittenFile]) -> None:
        """Take `keep` back: the files are not committed."""
        self._kept.difference_update(exchange.path for exchange in exchanges)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete uncommitted files now, as far as that is possible."""
        for path in sorted(paths):
            folder, name = os.path.split(path)
            with suppress(StorageError):  # a vacuum deletes it
                Folder(folder, self._filesystem).delete([name, f".{name}.crc"])
                self._paths.discard(path)

    def find_missing(self, exchanges: Sequence[Exchange]) -> set[str]:
        """Return the new files that are gone, or are not as they were written: an unlucky vacuum deletes them."""
        sizes: dict[str, int] = {}
        local = [exchange.path for exchange in exchanges if not is_url(exchange.path)]
        for path, source in zip(local, stat_files(local), strict=True):
            if source is not None:
                sizes[path] = source.size
        # Some layouts have a folder for each file.
        folders = sorted({os.path.dirname(exchange.path) for exchange in exchanges if is_url(exchange.path)})
        with in_order(lambda folder: Folder(folder, self._filesystem).names(), folders, _LISTINGS) as listings:
            for folder, listed in zip(folders, listings, strict=True):
                sizes |= {f"{folder}/{name}": size for name, (size, _) in listed.items()}
        return {exchange.path for exchange in exchanges if sizes.get(exchange.path) != exchange.size}


def _verify(path: str, old: str, names: Sequence[str], num_filters: int, filesystem: object | None) -> None:
    """Raise unless a new file has at least so many filters and none of them denies a value.

    deltalake's `delete` and `update` ask filters, so that one that denies a value would leave rows as they are.
    """
    verified = verify_parquet(path, data=True, columns=names, filesystem=filesystem)
    if verified.problems:
        chunk = verified.problems[0]
        problem = f"the new file was not committed: its filter is wrong: {chunk.problem}"
        raise BrokenFilterError(problem, path=old, row_group=chunk.row_group, column=chunk.column)
    if len(verified.chunks) < num_filters:
        raise BrokenFilterError("the new file was not committed: it lacks filters that were written", path=old)


_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.02, 2.0  # before another try: other writers are busy


@dataclass
class Candidates:
    """What was found in the footers of a table's files.

    Attributes
    ----------
    lacking : files that lack filters and can get them.
    skipped : files that lack filters and cannot get them, as far as that is known.
    num_complete : files with nothing to add.
    """

    lacking: list[LiveFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    num_complete: int = 0


@dataclass
class Written:
    """The new files that were written, and why others were not."""

    exchanges: list[Exchange] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    num_complete: int = 0


@dataclass
class Committed:
    """How a commit ended.

    Attributes
    ----------
    exchanges : the files that were exchanged.
    lost : new files that were not needed any more, with the reasons.
    old_version, new_version : equal if there was nothing left to commit.
    attempts : number of tries.
    """

    exchanges: list[Exchange]
    lost: list[tuple[Exchange, str]]
    old_version: int | None
    new_version: int | None
    attempts: int


def find_candidates(files: Sequence[LiveFile], columns: FilterColumns, threads: int) -> Candidates:
    """Find the files that lack filters, by their footers.

    Raises
    ------
    UnsupportedTypeError, UnknownColumnError
        A column's type cannot have filters, or its name is that of several.
    """
    found = Candidates()

    def lacks(file: LiveFile, progress: Progress) -> bool:
        return not file.may_open or columns.are_missing(file)

    with process_files(files, lacks, threads) as outcomes:
        for file, outcome in zip(files, outcomes, strict=True):
            if isinstance(outcome, UnsupportedTypeError | UnknownColumnError):
                raise outcome
            if isinstance(outcome, ParquetBloomError):
                found.skipped.append(SkippedFile(file.path, file.reason or _explain(outcome)))
            elif not outcome:
                found.num_complete += 1
            elif file.reason is not None:
                found.skipped.append(SkippedFile(file.path, file.reason))
            else:
                found.lacking.append(file)
    return found


def write_exchanges(
    target: Target,
    files: Sequence[LiveFile],
    columns: FilterColumns,
    new_files: NewFiles,
    *,
    dry_run: bool,
    progress: Progress | None,
    threads: int,
) -> Written:
    """Write new files with filters beside those of a table.

    Parameters
    ----------
    progress : called with (done, total) after each file, in bytes of the files.

    Raises
    ------
    StorageError
        A file cannot be written, for example because the disk is full.
    """
    jobs = max(1, min(threads, len(files)))
    per_file = max(1, threads // jobs)

    def write(file: LiveFile, progress: Progress) -> Exchange | None:
        path = target.name_new_file(file)
        return new_files.write(file, path, columns, dry_run=dry_run, progress=progress, threads=per_file)

    with process_files(files, write, jobs) as outcomes:
        return collect_exchanges(files, outcomes, progress)


def collect_exchanges(
    files: Sequence[LiveFile], outcomes: Iterable[Exchange | Exception | None], progress: Progress | None = None
) -> Written:
    """Return what was written, given the outcome of each file.

    Raises
    ------
    StorageError, UnsupportedTypeError
        The outcome of a file which the others would have as well.
    """
    written = Written()
    done, total = 0, sum(file.size for file in files)
    for file, outcome in zip(files, outcomes, strict=True):
        if isinstance(outcome, StorageError | UnsupportedTypeError):
            raise outcome
        if isinstance(outcome, ParquetBloomError):
            written.skipped.append(SkippedFile(file.path, _explain(outcome)))
        elif isinstance(outcome, Exception):
            raise outcome
        elif outcome is None:
            written.num_complete += 1
        else:
            written.exchanges.append(outcome)
        done += file.size
        if progress:
            progress(done, total)
    return written


def commit_exchanges(
    target: Target,
    state: TableState,
    exchanges: Sequence[Exchange],
    new_files: NewFiles,
    columns: Sequence[str],
    properties: Mapping[str, str],
    *,
    retries: int,
) -> Committed:
    """Commit new files; after a conflict without those whose old file is gone or has deleted rows by now.

    Raises
    ------
    ConcurrentChangeError
        Other writers have committed during each try, or there is another table in place of this one.
    ParquetBloomError
        The table refuses the commit; or it is not known whether it succeeded, then all new files are kept.
    """
    done = Committed(list(exchanges), [], state.version, state.version, 0)
    table_id = state.table_id
    while True:
        missing = new_files.find_missing(done.exchanges)
        _drop(done, missing, "another process, perhaps a vacuum, has deleted the new file", new_files)
        done.old_version = done.new_version = state.version
        if not done.exchanges and not properties:
            return done
        done.attempts += 1
        # Until the outcome is known the new files may be the table's.
        new_files.keep(done.exchanges)
        try:
            done.new_version = target.commit(state, done.exchanges, columns, properties)
            return done
        except CommitConflict:
            new_files.release(done.exchanges)
        except UnfitFiles as unfit:
            new_files.release(done.exchanges)
            done.attempts -= 1
            for old, reason in unfit.reasons.items():
                new = {exchange.path for exchange in done.exchanges if exchange.old.entry == old}
                _drop(done, new, reason, new_files)
            continue
        except BaseException as error:
            version = settle(target, state, [exchange.path for exchange in done.exchanges], error)
            if version is None:
                new_files.release(done.exchanges)
                raise
            if not isinstance(error, Exception):
                raise
            done.new_version = version
            return done
        if done.attempts > retries:
            problem = (
                f"other writers have committed during each of {count(done.attempts, 'attempt')}; nothing was changed"
            )
            raise ConcurrentChangeError(f"{problem}. Run it again, or with more retries", path=target.name)
        time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _WAIT_SECONDS * 2**done.attempts)))
        state = target.read_state()
        if state.table_id != table_id:
            raise ConcurrentChangeError("another table has taken its place meanwhile", path=target.name)
        done.exchanges = _renew(state, done, new_files)


def settle(target: Target, state: TableState, new_files: Sequence[str], error: BaseException) -> int | None:
    """Return the version that a commit has made though it has raised an error; None if it has made none.

    Parameters
    ----------
    new_files : what is kept if that cannot be told.
    """
    try:
        return target.find_commit(state)
    except BaseException as reason:
        problem = f"it is not known whether the commit succeeded ({first_line(error)}; then: {first_line(reason)})"
        if new_files:
            problem += f"; its {count(len(new_files), 'new file')} were kept, {new_files[0]} among them"
        problem += "; run it again: what was committed is not done twice, and a vacuum deletes what was not"
        if isinstance(error, Exception) and isinstance(reason, Exception):
            raise ParquetBloomError(problem, path=target.name) from error
        interrupt = reason if isinstance(error, Exception) else error
        interrupt.add_note(f"{target.name}: {problem}")
        raise interrupt from None


_GONE = "another writer has removed it from the table meanwhile"
_CHANGED = "another writer has deleted rows of it meanwhile"


def find_live(state: TableState, files: Iterable[LiveFile]) -> tuple[list[LiveFile], list[SkippedFile]]:
    """Return files of an earlier state as they are in a state, and those that cannot be exchanged any more."""
    live = {file.path: file for file in state.files}
    found, lost = [], []
    for file in files:
        now = live.get(file.path)
        if now is None:
            lost.append(SkippedFile(file.path, _GONE))
        elif now.reason is not None or now.size != file.size:
            lost.append(SkippedFile(file.path, _CHANGED))
        else:
            found.append(now)
    return found, lost


def _renew(state: TableState, done: Committed, new_files: NewFiles) -> list[Exchange]:
    """Return the exchanges that are still due, with what the metadata says of the old files now."""
    found, lost = find_live(state, (exchange.old for exchange in done.exchanges))
    reasons = {file.path: file.reason for file in lost}
    for reason in (_GONE, _CHANGED):
        paths = {exchange.path for exchange in done.exchanges if reasons.get(exchange.old.path) == reason}
        _drop(done, paths, reason, new_files)
    live = {file.path: file for file in found}
    return [exchange._replace(old=live[exchange.old.path]) for exchange in done.exchanges]


def _drop(done: Committed, paths: set[str], reason: str, new_files: NewFiles) -> None:
    """Leave out exchanges by the paths of their new files, which are deleted."""
    if paths:
        done.lost += [(exchange, reason) for exchange in done.exchanges if exchange.path in paths]
        done.exchanges = [exchange for exchange in done.exchanges if exchange.path not in paths]
        new_files.delete(paths)


def _explain(error: ParquetBloomError) -> str:
    """Return what is wrong with a file, without its path."""
    text = str(error)
    return text.removeprefix(f"{error.path}: ") if error.path else text


class CommitConflict(Exception):
    """Another writer has changed the table since it was read; nothing was committed."""


class UnfitFiles(Exception):
    """Some of the files cannot be exchanged, as was found before anything was committed.

    Attributes
    ----------
    reasons : {entry of a file: why}.
    """

    def __init__(self, reasons: Mapping[Any, str]):
        super().__init__(reasons)
        self.reasons = reasons


class LiveFile(NamedTuple):
    """A data file of a table at one version.

    Attributes
    ----------
    path, size : the file, by the table's metadata.
    entry : what the metadata says of it; its meaning is the target's.
    reason : why it cannot be exchanged; None if it can.
    may_open : whether it may be read: False for files outside of the table's folder.
    """

    path: str
    size: int
    entry: Any
    reason: str | None = None
    may_open: bool = True


class Exchange(NamedTuple):
    """A new file that holds the rows of a table's file and takes its place."""

    old: LiveFile
    path: str
    size: int
    num_filters: int


class HiddenRows(NamedTuple):
    """Rows of a table's file that a commit deletes though they stay in the file.

    Attributes
    ----------
    old : the file.
    rows : their numbers in the file, ascending, none of them deleted so far (int64).
    """

    old: LiveFile
    rows: NDArray[np.int64]


class RewrittenFile(NamedTuple):
    """A new file in place of one of a table, in its folder.

    It lacks all rows that are deleted, those of before as well: what has deleted them, be it by their positions or by
    values, does not apply to the new file.

    Attributes
    ----------
    old : the file.
    rows : the numbers in it of the rows that the commit deletes, ascending (int64).
    path, size : the new file.
    num_rows : its rows.
    """

    old: LiveFile
    rows: NDArray[np.int64]
    path: str
    size: int
    num_rows: int


class NewFile(NamedTuple):
    """A file of new rows.

    Attributes
    ----------
    path, size : the file.
    num_rows : its rows.
    entry : what the metadata is to say of it; its meaning is the target's.
    """

    path: str
    size: int
    num_rows: int
    entry: Any


RowFileWriter = Callable[[pa.Table, Sequence[str]], Iterator[tuple[str, NewFile | None]]]
"""Writes rows, in the columns and types of a table, into files that have filters for some top-level columns. Yields the
path of each file before it is written, and once more with the file after that. Other processes may call it. Raises
ParquetBloomError if a value cannot be written."""


class RowChange(NamedTuple):
    """What a commit does to a table's rows.

    Attributes
    ----------
    hidden : rows that are deleted and stay in their files.
    removed : files that leave the table, with the rows by which they lose their last ones.
    operation : "delete" or "upsert".
    rewritten : files in place of others, without the rows that are deleted.
    added : files of new rows.
    """

    hidden: Sequence[HiddenRows]
    removed: Sequence[HiddenRows]
    operation: str
    rewritten: Sequence[RewrittenFile] = ()
    added: Sequence[NewFile] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows that are deleted."""
        of_files = [*(file.rows for file in (*self.hidden, *self.removed)), *(file.rows for file in self.rewritten)]
        return sum(map(len, of_files))


@shown_redacted
@dataclass(frozen=True)
class SkippedFile:
    """A file of a table that stays as it is though it lacks filters.

    Attributes
    ----------
    path : the file.
    reason : why.
    """

    path: str
    reason: str


@dataclass(frozen=True)
class TableState:
    """A table at its latest version.

    Attributes
    ----------
    version : Delta's version or Iceberg's snapshot id.
    table_id : the identifier, which does not change with the table's name or place.
    files : the live files, sorted by path.
    schema : of the table's rows.
    columns : how files name the table's columns; None if as the table does.
    not_in_files : the columns of which files have no values.
    partition_values : the columns that the metadata has the values of, with a row for each file.
    properties : the table's.
    handle : the library's table at this version; its meaning is the target's.
    snapshot : what readers show of this version.
    hiding_problem : why rows cannot be deleted that stay in their files; None if they can.
    """

    version: int | None
    table_id: str
    files: tuple[LiveFile, ...]
    schema: pa.Schema
    columns: tuple[TableColumn, ...] | None
    not_in_files: frozenset[str]
    partition_values: pa.Table
    properties: Mapping[str, str]
    handle: Any
    snapshot: TableSnapshot
    hiding_problem: str | None


class Target(ABC):
    """A table in which files can be exchanged.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    name : the table's folder or its name in a catalog, for reports and errors.
    filesystem : of its files, as `storage.resolve_filesystem` returns it; None for local files.
    """

    kind: Literal["delta", "iceberg"]
    name: str
    filesystem: object | None = None

    @abstractmethod
    def read_state(self) -> TableState:
        """Read the latest version.

        Raises
        ------
        ParquetBloomError
            It cannot be read, or files of such a table cannot be exchanged.
        """

    @abstractmethod
    def name_new_file(self, old: LiveFile) -> str:
        """Return the path of a new file in the folder of an old one, named as the format's writers do."""

    def find_unfit(self, state: TableState, exchanges: Sequence[Exchange]) -> Mapping[Any, str]:
        """Return what `commit` would raise as `UnfitFiles.reasons`, without writing or committing anything."""
        return {}

    @abstractmethod
    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        """Exchange files of a state by one commit, and return its version.

        Parameters
        ----------
        state : the version that the commit follows directly.
        columns : the columns that got filters, to be noted in the commit.
        properties : properties of the table to be set by the same commit.

        Raises
        ------
        CommitConflict
            Nothing was committed, as the table has a newer version by now.
        UnfitFiles
            Nothing was committed, as some of the files have to stay as they are.
        BaseException
            Whether it was committed is to be found out by `find_commit`.
        """

    @abstractmethod
    def make_row_writer(self, state: TableState) -> RowFileWriter:
        """Return what writes new rows into files, to be added by `commit_rows`.

        Raises
        ------
        ParquetBloomError
            Rows cannot be added to such a table.
        """

    def write_rows(
        self, state: TableState, rows: pa.Table, filters: Sequence[str], new_files: NewFiles
    ) -> list[NewFile]:
        """Write new rows into files; see `make_row_writer`. `new_files` gets the files."""
        written = []
        for path, file in self.make_row_writer(state)(rows, filters):
            new_files.expect([path])
            if file is not None:
                written.append(file)
        return written

    @abstractmethod
    def commit_rows(self, state: TableState, change: RowChange) -> int | None:
        """Delete and add rows by one commit, and return its version.

        Raises
        ------
        CommitConflict
            Nothing was committed, as the table has a newer version by now.
        ParquetBloomError
            The table does not allow it; or as `commit`.
        BaseException
            Whether it was committed is to be found out by `find_commit`.
        """

    @abstractmethod
    def find_commit(self, state: TableState) -> int | None:
        """Return the version that the last commit has made after all; None if it has not and cannot any more.

        Raises
        ------
        Exception
            It cannot be told.
        """


WAY_OUT = "ask such a table by a lake index (`parquet-bloom index create`), which changes nothing in it"


def find_outside(paths: Sequence[str], root: str) -> set[str]:
    """Return the files outside of a table's folder: anyone who can write its metadata chooses them."""
    try:
        require_inside(paths, root)
        return set()
    except ParquetBloomError:
        return {path for path in paths if _is_outside(path, root)}


def _is_outside(path: str, root: str) -> bool:
    try:
        require_inside([path], root)
    except ParquetBloomError:
        return True
    return False
