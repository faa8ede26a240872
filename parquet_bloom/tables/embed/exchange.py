"""Write the new files of a table, and exchange them for the old ones by one commit, whatever other writers do."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import (
    ConcurrentChangeError,
    ParquetBloomError,
    StorageError,
    UnknownColumnError,
    UnsupportedTypeError,
    first_line,
)
from ...file.many import Progress, process_files
from ...util.wording import count
from .columns import FilterColumns
from .new_files import NewFiles, find_missing
from .report import SkippedFile
from .target import CommitConflict, Exchange, LiveFile, TableState, Target

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

    Raises
    ------
    StorageError
        A file cannot be written, for example because the disk is full.
    """
    written = Written()
    jobs = max(1, min(threads, len(files)))
    per_file = max(1, threads // jobs)

    def write(file: LiveFile, progress: Progress) -> Exchange | None:
        path = target.name_new_file(file)
        return new_files.write(file, path, columns, dry_run=dry_run, progress=progress, threads=per_file)

    with process_files(files, write, jobs) as outcomes:
        for done, (file, outcome) in enumerate(zip(files, outcomes, strict=True), 1):
            if isinstance(outcome, StorageError | UnsupportedTypeError):
                raise outcome
            if isinstance(outcome, ParquetBloomError):
                written.skipped.append(SkippedFile(file.path, _explain(outcome)))
            elif outcome is None:
                written.num_complete += 1
            else:
                written.exchanges.append(outcome)
            if progress:
                progress(done, len(files))
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
        _drop(
            done, find_missing(done.exchanges), "another process, perhaps a vacuum, has deleted the new file", new_files
        )
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
        except BaseException as error:
            version = _settle(target, state, done.exchanges, error)
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


def _settle(target: Target, state: TableState, exchanges: Sequence[Exchange], error: BaseException) -> int | None:
    """Return the version by which files were exchanged though the commit has raised an error; None if they were not."""
    try:
        return target.find_commit(state, exchanges)
    except BaseException as reason:
        problem = f"it is not known whether the commit succeeded ({first_line(error)}; then: {first_line(reason)})"
        if exchanges:
            problem += f"; its {count(len(exchanges), 'new file')} were kept, {exchanges[0].path} among them"
        problem += "; run it again: what was committed is not done twice, and a vacuum deletes what was not"
        if isinstance(error, Exception) and isinstance(reason, Exception):
            raise ParquetBloomError(problem, path=target.name) from error
        interrupt = reason if isinstance(error, Exception) else error
        interrupt.add_note(f"{target.name}: {problem}")
        raise interrupt from None


def _renew(state: TableState, done: Committed, new_files: NewFiles) -> list[Exchange]:
    """Return the exchanges that are still due, with what the metadata says of the old files now."""
    live = {file.path: file for file in state.files}
    gone, changed = set(), set()
    for exchange in done.exchanges:
        file = live.get(exchange.old.path)
        if file is None:
            gone.add(exchange.path)
        elif file.reason is not None or file.size != exchange.old.size:
            changed.add(exchange.path)
    _drop(done, gone, "another writer has removed it from the table meanwhile", new_files)
    _drop(done, changed, "another writer has deleted rows of it meanwhile", new_files)
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
