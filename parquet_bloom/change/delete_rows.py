"""`delete`: delete rows of a Delta or Iceberg table, by keys or by a predicate, in one commit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..errors import ConcurrentChangeError
from ..file.many_files import Progress
from ..redaction import shown_redacted
from ..scan.lookup.key_chunks import KeyCounts
from ..scan.scan_options import ScanOptions
from ..storage.paths import as_utf8
from ..tables.embed.embed_table import open_target
from ..tables.embed.new_files import NewFiles
from ..tables.embed.table_target import TableState
from ..util.arguments import require_choice, require_integer, require_threads
from ..util.messages import count
from .commit_rows import ChangeReport, DeletesPlanner, Mode, Planned, commit, make_source
from .find_rows import Find, FoundRows, RowsByPath, RowSearch
from .held_copies import HeldCopy, list_held_by_table, search_again

if TYPE_CHECKING:
    import os

    from pyiceberg.catalog import Catalog

    from ..util.given_types import Predicate, RowKeys, TableSource

Appended = Literal["take", "leave"]


@shown_redacted
@dataclass(frozen=True, kw_only=True)
class DeleteReport(ChangeReport):
    """The result of `delete`.

    Attributes
    ----------
    num_keys, num_null_keys : keys that were given, and how many of them are null, which no row has.
    rows_after : rows that a second search has found after the commit; None unless files were written anew or the mode
        is "rewrite", and if that search has failed, as `held` says then.
    num_later : files that other writers have added since the call began, and that were not searched, by
        `appended="leave"`.
    held : what may still hold the rows.
    """

    num_keys: int = 0
    num_null_keys: int = 0
    rows_after: int | None = None
    num_later: int = 0
    held: tuple[HeldCopy, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows that were deleted."""
        return self.num_deleted

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        keys = {"rows": self.num_rows, "keys": self.num_keys, "null_keys": self.num_null_keys}
        after = {"rows_after": self.rows_after, "later_files": self.num_later}
        return self.add_facts({**keys, **after}, {"still_held": [one.to_dict() for one in self.held]})

    @property
    def lines_after_files(self) -> list[str]:
        """What the text says after the summary."""
        lines = [] if self.rows_after is None else [f"searched again: {count(self.rows_after, 'row')}"]
        if self.num_later:
            lines.append(f"not searched: {count(self.num_later, 'file')} that other writers have added meanwhile")
        return [*lines, *map(str, self.held)]

    @property
    def summary(self) -> str:
        """One line of it, without the table."""
        text = f"{count(self.num_rows, 'row')} {'would be ' if self.dry_run else ''}deleted"
        text += f" in {count(len(self.files), 'file')}" if self.files else ""
        if self.num_null_keys:
            text += f"; {count(self.num_null_keys, 'key')} of {self.num_keys:,} null, which no row equals"
        text += f"; {self.bytes_written:,} bytes of new files" if self.bytes_written else ""
        return text


def delete(
    table: TableSource,
    keys: RowKeys | os.PathLike[str] | None = None,
    on: str | Sequence[str] | None = None,
    *,
    where: Predicate | None = None,
    dialect: str | None = None,
    mode: Mode = "hide",
    dry_run: bool = False,
    retries: int = 10,
    appended: Appended = "take",
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
    keys, on : the keys and their column, or columns, as for `Dataset.locate`; or `lower(column)`, `upper(column)`,
        `CAST(column AS STRING)` or a path of a Variant, `column:a.b::STRING`. A null key equals nothing, and is counted
        in the report. A stream or iterator of keys is read into memory; give a `pathlib.Path` of a Parquet file for
        more of them.
    where, dialect : a predicate that the rows meet as well, or instead of having keys; as for `prune`.
    mode : "hide" to leave the rows in their files, and have readers leave them out: by deletion vectors, or by
        position delete files in an Iceberg table of version 2. Where a table has neither (a Delta table without
        `delta.enableDeletionVectors`, an Iceberg table of version 1), the files are written anew. "rewrite" to do so in
        any case: row groups without such rows are copied as they are, the others encoded anew without them, and
        without those that were deleted before. Rows that stay keep their ids in Iceberg tables of version 3.
    dry_run : write and commit nothing; the report has rows and files.
    retries : how often to begin again when another writer has committed meanwhile. The rows are located anew in what
        the table consists of then.
    appended : what becomes of such rows in files that other writers add meanwhile: "take" to delete them as well,
        "leave" to let them stay: only rows of files that the table had when the call began are deleted then, and the
        report has the number of the others. If another writer replaces a file with such rows, that is an error, as the
        new file is not told from others.
    timezone, threads : as for `Dataset.scan`.
    progress : called with (done, total) after each file that is read.

    Raises
    ------
    ConcurrentChangeError
        Other writers have committed during each of the tries, or replaced a file of which rows would stay. Nothing was
        committed.
    ParquetBloomError
        The table does not allow it, a key does not fit its column, or a file cannot be read. Nothing was committed. Or
        it is not known whether the commit succeeded; the text says so.

    Examples
    --------
    >>> parquet_bloom.delete("events", [7, 8], on="user").num_rows
    2
    """
    check_arguments(mode, retries, appended, threads)
    search = RowSearch.make(keys, on, where, dialect, ScanOptions(timezone, threads=threads))
    target = open_target(table, catalog, storage_options)
    find = partial(search.find, progress=progress)
    deletes = DeletesPlanner(target, mode, dry_run, threads=threads)
    return delete_found(deletes, find, storage_options, retries, appended)


def check_arguments(mode: object, retries: object, appended: object, threads: object = None) -> None:
    """Raise ParquetBloomError for arguments of `delete` that are none."""
    require_choice("mode", mode, get_args(Mode))
    require_choice("appended", appended, get_args(Appended))
    require_integer("retries", retries, 0)
    require_threads(threads)


def delete_found(
    deletes: DeletesPlanner,
    find: Find,
    storage_options: Mapping[str, object] | None,
    retries: int,
    appended: Appended = "take",
) -> DeleteReport:
    """Delete the rows of a table that a search finds in the latest state, by one commit; see `delete`."""
    started = time.perf_counter()
    target, dry_run = deletes.target, deletes.dry_run
    counts = KeyCounts()
    held: list[HeldCopy] = []
    begun: tuple[set[str], set[str]] | None = None  # the files that the table had at first, and those that had rows
    num_later = 0

    def search(state: TableState) -> FoundRows:
        nonlocal counts
        source = make_source(target, state, storage_options)
        found = FoundRows({}) if source is None else find(source)
        counts = found.counts or counts
        return found

    def choose(state: TableState, rows: RowsByPath) -> RowsByPath:
        """Leave out rows of files that came later."""
        nonlocal begun, num_later
        if appended == "take":
            return rows
        live = {as_utf8(file.path) for file in state.files}
        known, had_rows = begun = begun or (live, {*rows})
        for path in sorted(had_rows - live):
            problem = "another writer has replaced it, and rows of later files are to be left: run again"
            raise ConcurrentChangeError(problem, path=path)
        num_later = len(live - known)
        return {path: each for path, each in rows.items() if path in known}

    def plan(state: TableState, new_files: NewFiles) -> Planned:
        planned = deletes.plan(state, choose(state, search(state).rows), "delete", new_files)
        if planned.files and not dry_run:
            held[:] = list_held_by_table(target, state, planned.change)
        return planned

    done = commit(target, plan, retries=retries, dry_run=dry_run)
    rows_after = None
    is_erased = deletes.mode == "rewrite" and bool(done.planned.files)  # files may have left the table instead
    if (is_erased or done.planned.change.rewritten) and not dry_run:
        rows_after, unknown = search_again(lambda: search(target.read_state()).num_rows)
        held += unknown
    return DeleteReport(
        **done.describe(target, dry_run, started),
        num_keys=counts.given,
        num_null_keys=counts.null,
        rows_after=rows_after,
        num_later=num_later,
        held=tuple(held),
    )
