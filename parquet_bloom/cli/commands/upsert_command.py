"""`parquet-bloom upsert`: put rows into a Delta or Iceberg table in place of those with the same keys."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ...change import upsert_rows
from ...change.upsert_rows import UpsertReport, WhenMatched
from ...errors import ParquetBloomError, first_line
from ...storage import open_source
from ...util.messages import count
from ..command import CommandOptions, command, group, option
from ..options.choice_options import RowCommit, is_confirmed, require_terminal
from ..options.name_completion import complete_columns
from ..options.shared_options import OPTIONAL_PATHS
from ..options.table_options import RowsTable
from ..output.output import BAD, Output
from .delete_command import COLUMNS

_PARQUET, _ARROW = b"PAR1", b"ARROW1"


class UpsertOptions(CommandOptions):
    about = (
        "PATH is the folder of a Delta table, or its URL; or, with --iceberg-catalog, that of an Iceberg table, unless "
        "--table is its name there."
    )

    paths: tuple[str, ...] = OPTIONAL_PATHS
    rows: str = option("FILE", "The rows: a Parquet or Arrow file with the columns of the table.", required=True)
    on: tuple[str, ...] = option(
        "NAME",
        "The column of the key; repeatable, for several columns that are the key together.",
        "--key-column",
        multiple=True,
        required=True,
        shell_complete=complete_columns,
    )
    when_matched: WhenMatched = option(
        None,
        "update: rows of the table with the same key are replaced; keep: they stay, and only rows with other keys are "
        "added.",
        type=click.Choice(("update", "keep")),
        default="update",
    )
    change = group(RowCommit)
    table = group(RowsTable)


@command("upsert", UpsertOptions)
def upsert(output: Output, given: UpsertOptions) -> int:
    """Put rows into a Delta or Iceberg table in place of those with the same keys, in one commit.

    The table's rows with these keys are located and deleted, as `delete` does, and the rows of the file are written
    into new files. No key may be in the file twice. A null in a key equals no other: such rows are added.

    Exit codes: 0 done, or there was nothing to do; 1 not confirmed, nothing was changed; 2 error: nothing was
    committed, unless the line says that this is unknown.

    Example:
      parquet-bloom upsert events/ --rows changes.parquet --key-column id --dry-run
      parquet-bloom upsert events/ --rows changes.parquet --key-column tenant --key-column id --commit --yes
      parquet-bloom upsert --iceberg-catalog prod --table db.a --rows new.parquet --key-column id --commit
    """
    change = given.change
    change.require_one()
    if change.asks:
        require_terminal()
    table = given.table.find_to_change(given.paths, output)
    options: dict[str, Any] = change.arguments | {
        "when_matched": given.when_matched,
        "storage_options": output.storage_options,
    }
    with output.step("read"):
        rows = _read_rows(given.rows, output)
    if change.dry_run or change.asks:
        with output.progress(0) as bar, output.step("locate"):
            report = upsert_rows.upsert(table, rows, list(given.on), dry_run=True, progress=bar.update, **options)
    if change.asks and report.num_added:
        what = f"{count(report.num_added, 'row')} into {table.name}, and replace {report.num_replaced:,} of it"
        if not is_confirmed(f"put {what}?", output):
            return output.exit_code(BAD)
    if change.commit:
        with output.progress(0) as bar, output.step("upsert"):
            report = upsert_rows.upsert(table, rows, list(given.on), progress=bar.update, **options)
    with output.rows("files", COLUMNS) as printed:
        printed.add_all(file.to_dict() for file in report.files)
        versions = {"old_version": report.old_version, "new_version": report.new_version}
        printed.facts |= {"dry_run": report.dry_run, "totals": _count(report), "attempts": report.attempts}
        printed.facts |= {"added": list(report.added)}
        printed.facts |= {"table": {"kind": table.kind, "name": table.name} | versions}
    output.summary(report.summary + report.versions)
    return output.exit_code()


def _read_rows(path: str, output: Output) -> pa.Table:
    """Return the rows of a Parquet or Arrow file; raise ParquetBloomError if it is neither, or cannot be read."""
    with open_source(path, output.filesystem) as source:
        start = bytes(source.read_at(0, min(source.size, len(_ARROW)))) if source.size else b""
        if not start.startswith((_PARQUET, _ARROW)):
            problem = "its rows cannot be read: it is neither a Parquet nor an Arrow file; an Arrow stream is none"
            raise ParquetBloomError(problem, path=path)
        try:
            with source.arrow_file() as file:
                if start == _ARROW:
                    return pa.ipc.open_file(file).read_all()
                return pq.ParquetFile(file).read()
        except (pa.ArrowException, OSError) as error:
            raise ParquetBloomError(f"its rows cannot be read: {first_line(error)}", path=path) from error


def _count(report: UpsertReport) -> dict[str, int]:
    return {
        "files": len(report.files),
        "rows_added": report.num_added,
        "rows_replaced": report.num_replaced,
        "rows_kept": report.num_kept,
        "null_keys": report.num_null_keys,
    }
