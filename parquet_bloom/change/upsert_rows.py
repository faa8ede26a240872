"""`upsert`: put rows into a Delta or Iceberg table in place of those with the same keys, in one commit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..file.many_files import Progress
from ..redaction import shown_redacted
from ..scan.lookup.key_chunks import list_columns
from ..scan.lookup.key_lookups import KeyLookups
from ..scan.scan_options import ScanOptions
from ..tables.embed.embed_table import open_target
from ..tables.embed.new_files import NewFiles
from ..tables.embed.table_target import NewFile, TableState
from ..util.arguments import require_choice, require_integer, require_threads
from ..util.arrow_values import keep, take
from ..util.messages import count
from .commit_rows import ChangeReport, DeletesPlanner, Planned, commit, make_source
from .find_rows import RowsByPath, RowSearch, show_stored
from .fit_rows import fit

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from ..util.given_types import Rows, TableSource

WhenMatched = Literal["update", "keep"]

SHOWN_KEYS = 3


@shown_redacted
@dataclass(frozen=True, kw_only=True)
class UpsertReport(ChangeReport):
    """The result of `upsert`.

    Attributes
    ----------
    added : the files of the new rows; in a dry run none.
    num_added : rows that were added, those in place of others included.
    num_kept : rows that were given and not added, as the table has their keys.
    num_null_keys : rows that were given and have a null in their key, which equals no other; they are added.
    """

    added: tuple[str, ...] = ()
    num_added: int = 0
    num_kept: int = 0
    num_null_keys: int = 0

    @property
    def num_replaced(self) -> int:
        """Number of rows of the table that were deleted, as rows with their keys were given."""
        return self.num_deleted

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        rows = {"rows_added": self.num_added, "rows_replaced": self.num_replaced, "rows_kept": self.num_kept}
        return self.add_facts({**rows, "null_keys": self.num_null_keys}, {"added": list(self.added)})

    @property
    def summary(self) -> str:
        """One line of it, without the table."""
        text = f"{count(self.num_added, 'row')} {'would be ' if self.dry_run else ''}added"
        text += f", {self.num_replaced:,} of the table replaced"
        text += f", {self.num_kept:,} left out, as the table has their keys" if self.num_kept else ""
        null = f"; {self.num_null_keys:,} with a null in their key, which equals no other"
        return text + (null if self.num_null_keys else "")


def upsert(
    table: TableSource,
    rows: Rows,
    on: str | Sequence[str],
    *,
    when_matched: WhenMatched = "update",
    dry_run: bool = False,
    retries: int = 10,
    catalog: Catalog | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> UpsertReport:
    """Put rows into a Delta or Iceberg table, in place of those with the same keys, by one commit.

    The table's rows with these keys are located as by `Dataset.locate`, and deleted as by `delete`; the given rows are
    written into new files, with filters for the columns of the key. Readers see both or neither.

    Parameters
    ----------
    table, catalog, storage_options : as for `embed_table`; always the table's latest version.
    rows : an Arrow table, record batch or stream, or a DataFrame, with all columns of the table in any order. Values
        are converted to the table's types where that loses nothing; timestamps without a time zone are taken as UTC
        where the table has one. All rows are in memory at a time.
    on : the column of the key, or several columns that are the key together.
    when_matched : "update" to replace the table's rows with the same key, all of them; "keep" to leave these as they
        are, and add only the rows whose key the table has not.
    dry_run : write and commit nothing.
    retries, progress, threads : as for `delete`.

    Raises
    ------
    PredicateError
        Two of the rows have the same key; the text names it.
    UnknownColumnError
        A column is missing in the rows, or the table has no such column.
    ConcurrentChangeError
        Other writers have committed during each of the tries. Nothing was committed.
    ParquetBloomError
        The table does not allow it, or a value does not fit its column. Nothing was committed. Or it is not known
        whether the commit succeeded; the text says so.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"user": [7, 5000], "day": ["2026-02-01"] * 2, "text": ["new"] * 2})
    >>> report = parquet_bloom.upsert("events", rows, on="user")
    >>> report.num_added, report.num_replaced
    (2, 1)
    """
    started = time.perf_counter()
    names = check_arguments(on, when_matched, retries, threads)
    given = _read(rows)
    target = open_target(table, catalog, storage_options)
    deletes = DeletesPlanner(target, dry_run=dry_run, threads=threads)
    num_kept = num_null = 0

    def plan(state: TableState, new_files: NewFiles) -> Planned:
        nonlocal num_kept, num_null
        fitted = fit(given, state.snapshot.schema, target.name)
        keys = _select_keys(fitted, names, target.name)
        num_null = fitted.num_rows - keys.num_rows
        source = make_source(target, state, storage_options)
        found: RowsByPath = {}
        num_kept = 0
        key = names if len(names) > 1 else names[0]
        if source is not None and keys.num_rows and when_matched == "update":
            found = RowSearch(keys, key, options=ScanOptions(threads=threads)).find(source, progress).rows
        elif source is not None and keys.num_rows:
            locator = KeyLookups.open(source).make_locator(key, "UTC", threads, progress)
            is_new = _find_new(fitted, names, locator.read_table(keys)["key"])
            num_kept = fitted.num_rows - len(is_new)
            fitted = take(fitted, is_new)
        filters = select_filtered(fitted.schema, names)
        added: list[NewFile] = []
        if fitted.num_rows and dry_run:
            target.make_row_writer(state)  # refuses what it would refuse
        elif fitted.num_rows:
            added = target.write_rows(state, fitted, filters, new_files)
        return deletes.plan(state, found, "upsert", new_files, tuple(added))

    done = commit(target, plan, retries=retries, dry_run=dry_run)
    return UpsertReport(
        **done.describe(target, dry_run, started),
        added=tuple(file.path for file in done.planned.change.added),
        num_added=given.num_rows - num_kept,
        num_kept=num_kept,
        num_null_keys=num_null,
    )


def check_arguments(on: str | Sequence[str], when_matched: str, retries: object, threads: object = None) -> list[str]:
    """Return the names of the key's columns; raise ParquetBloomError for arguments that are none."""
    require_choice("when_matched", when_matched, get_args(WhenMatched))
    require_integer("retries", retries, 0)
    require_threads(threads)
    return list(list_columns(on))


def _read(rows: object) -> pa.Table:
    """Return what a caller gives as a table; raise ParquetBloomError if it is none."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if hasattr(rows, "__arrow_c_stream__"):  # polars, pandas, DuckDB and others
        return pa.RecordBatchReader.from_stream(rows).read_all()
    problem = "rows are an Arrow table, record batch or stream, or a DataFrame that exports one"
    raise ParquetBloomError(f"{problem}, not {type(rows).__name__}")


def _select_keys(rows: pa.Table, names: Sequence[str], path: str) -> pa.Table:
    """Return the keys of rows, without those that have a null.

    Raises
    ------
    UnknownColumnError
        There is no such column.
    PredicateError
        Two rows have the same key, or a column has no values that are equal or not.
    """
    require_keys(rows.schema, names, path)
    keys = rows.select(list(names))
    for name in names:
        if keys[name].null_count:
            keys = keep(keys, keys[name].is_valid())
    counted = show_stored(keys).group_by(list(names)).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1))
    if twice.num_rows:
        shown = [tuple(row[name] for name in names) for row in twice.slice(0, SHOWN_KEYS).to_pylist()]
        raise make_twice_error(shown, twice.num_rows, names, path)
    return keys


def require_keys(schema: pa.Schema, names: Sequence[str], path: str) -> None:
    """Raise UnknownColumnError or PredicateError unless columns of a table can be a key."""
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError("the table has no such column", path=path, column=name)
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise PredicateError(f"a column of the type {kind} cannot be a key", path=path, column=name)


def make_twice_error(
    shown: Sequence[tuple[object, ...]], number: int, names: Sequence[str], path: str
) -> PredicateError:
    """Return the error for rows with the same key; `shown` are the first of a number of such keys."""
    text = ", ".join(str(key[0]) if len(key) == 1 else str(key) for key in shown)
    more = f" and {number - len(shown):,} more" if number > len(shown) else ""
    return PredicateError(f"several of the rows have the same key: {text}{more}", path=path, column=names[0])


def select_filtered(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """Return the columns of a key that get filters in new files."""
    return [name for name in names if not pa.types.is_boolean(schema.field(name).type)]


def _find_new(rows: pa.Table, names: Sequence[str], known: pa.ChunkedArray) -> np.ndarray:
    """Return the positions of the rows whose keys are not among known ones, ascending; those of null keys are new."""
    columns = [known] if len(names) == 1 else [pc.struct_field(known, [number]) for number in range(len(names))]
    keys, there = (show_stored(each) for each in (rows.select(list(names)), pa.table(columns, names=list(names))))
    there = there.cast(keys.schema).group_by(keys.column_names).aggregate([])
    numbered = keys.append_column("\0row", pa.array(np.arange(rows.num_rows)))
    left = numbered.join(there, keys=keys.column_names, join_type="left anti", use_threads=False)
    return np.sort(np.asarray(left["\0row"], np.int64))
