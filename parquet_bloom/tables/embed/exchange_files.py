"""Write the new files of a table, and exchange them for the old ones by one commit, whatever other writers do."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

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
from ...util.messages import count
from ...variant.variant_type import find_variant
from ..names_in_files import find_names
from .new_files import NewFiles, find_missing
from .table_target import CommitConflict, Exchange, LiveFile, SkippedFile, TableState, Target, UnfitFiles

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


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
        It is a struct, BOOLEAN, or of a Variant, or only the table's metadata has its values.
    """
    if name in state.not_in_files:
        problem = "a partition column: the table's metadata has its values, and its files do not"
        raise UnsupportedTypeError(problem, path=table, column=name)
    if find_variant(state.schema, name) is not None:
        raise UnsupportedTypeError("a Variant gets no filter", path=table, column=name)
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


def write_exchange(
    new_files: NewFiles,
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
    new_files.expect([path])  # before there is a file, as an interrupt may follow its creation
    names: list[str] = []

    def choose(file: BloomFile) -> dict[str, FilterOptions]:
        chosen = columns.choose(file, old.size)
        names.extend(chosen)
        return chosen

    report = embed_in_table(
        *(old.path, path, choose),
        filesystem=new_files.filesystem,
        dry_run=dry_run,
        progress=progress,
        threads=threads,
    )
    if not report.filters or not (dry_run or report.changed):
        return None
    if not dry_run:
        _verify(path, old.path, names, report.num_filters + report.kept, new_files.filesystem)
    return Exchange(old, path, report.new_size, report.num_filters)


def _verify(path: str, old: str, names: Sequence[str], num_filters: int, filesystem: FileSystem | None) -> None:
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
        return write_exchange(new_files, file, path, columns, dry_run=dry_run, progress=progress, threads=per_file)

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
        missing = find_missing(done.exchanges, new_files.filesystem)
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
        state = read_again(target, table_id, done.attempts, retries)
        done.exchanges = _renew(state, done, new_files)


def read_again(target: Target, table_id: str, attempts: int, retries: int) -> TableState:
    """Return the latest state of a table after a conflict, once other writers had some time.

    Raises
    ------
    ConcurrentChangeError
        There were more attempts than may be made again, or another table is in its place.
    """
    if attempts > retries:
        problem = f"other writers have committed during each of {count(attempts, 'attempt')}; nothing was changed"
        raise ConcurrentChangeError(f"{problem}. Run it again, or with more retries", path=target.name)
    time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _WAIT_SECONDS * 2**attempts)))
    state = target.read_state()
    if state.table_id != table_id:
        raise ConcurrentChangeError("another table has taken its place meanwhile", path=target.name)
    return state


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
