"""`parquet-bloom delete`: delete rows of a Delta or Iceberg table by one commit."""

from __future__ import annotations

from typing import Any

import click

from ...change import delete_rows
from ...change.commit_rows import Mode
from ...change.delete_rows import Appended, DeleteReport
from ...util.messages import count
from ..command import CommandOptions, command, group, option
from ..options.choice_options import ChosenRows, RowCommit, is_confirmed, require_terminal
from ..options.shared_options import OPTIONAL_PATHS
from ..options.table_options import RowsTable
from ..output.output import BAD, Output
from ..output.row_formats import Column, text_or_blank

COLUMNS = (
    Column("file", "file"),
    Column("rows", "rows", right=True),
    Column("how", "how"),
    Column("output", "new file", text=text_or_blank, usual=lambda row: row["output"] is None),
    Column("new_size", "new size", right=True, text=text_or_blank, usual=lambda row: row["new_size"] is None),
)


class DeleteOptions(CommandOptions):
    about = (
        "The only PATH is the folder of a Delta table, or its URL; or, with --iceberg-catalog, that of an Iceberg "
        "table, unless --table is its name there."
    )

    paths: tuple[str, ...] = OPTIONAL_PATHS
    rows = group(ChosenRows)
    mode: Mode = option(
        None,
        "hide: leave the rows in their files, and have readers leave them out, where the table can; rewrite: write the "
        "files anew without them.",
        type=click.Choice(("hide", "rewrite")),
        default="hide",
    )
    change = group(RowCommit)
    appended: Appended = option(
        None,
        "What becomes of such rows in files that other writers add meanwhile. take: they are deleted as well; leave: "
        "they stay, and the number of these files is printed.",
        type=click.Choice(("take", "leave")),
        default="take",
    )
    table = group(RowsTable)


@command("delete", DeleteOptions)
def delete(output: Output, given: DeleteOptions) -> int:
    """Delete rows of a Delta or Iceberg table, by keys or by a predicate, in one commit.

    Rows are located by what is known of the files, and their values are compared. Each file with such rows is a row of
    the result. The table's older versions still have the rows, until they are expired and vacuumed.

    Exit codes: 0 done, or there was nothing to delete; 1 not confirmed, nothing was changed; 2 error: nothing was
    committed, unless the line says that this is unknown.

    Example:
      parquet-bloom delete events/ --key user_id=42 --dry-run
      parquet-bloom delete events/ --keys erase.csv --key-column user_id --commit
      parquet-bloom delete events/ --keys erase.csv --key-column user_id --mode rewrite --commit
      parquet-bloom delete events/ --where "day < DATE '2020-01-01'" --commit --yes
      parquet-bloom delete --iceberg-catalog prod --table db.events --key "lower(email)=a@b.org" --commit
    """
    change = given.change
    change.require_one()
    table = given.table.find_to_change(given.paths, output)
    options: dict[str, Any] = change.arguments | {"mode": given.mode, "appended": given.appended}
    options |= {"storage_options": output.storage_options}
    with given.rows.open(given.paths, output) as rows:
        if change.asks:
            require_terminal()
        schema = None if rows.keys is None else table.read_snapshot().schema
        if change.dry_run or change.asks:
            with output.progress(0) as bar, output.step("locate"):
                report = delete_rows.delete(table, **rows.parse(schema), **options, dry_run=True, progress=bar.update)
        if change.asks and report.num_rows:
            what = f"{count(report.num_rows, 'row')} in {count(len(report.files), 'file')}"
            if not is_confirmed(f"delete {what} of {table.name}?", output):
                return output.exit_code(BAD)
        if change.commit:
            with output.progress(0) as bar, output.step("delete"):
                report = delete_rows.delete(table, **rows.parse(schema), **options, progress=bar.update)
    with output.rows("files", COLUMNS) as printed:
        printed.add_all(file.to_dict() for file in report.files)
        versions = {"old_version": report.old_version, "new_version": report.new_version}
        printed.facts |= {"dry_run": report.dry_run, "totals": _count(report), "attempts": report.attempts}
        printed.facts |= {"table": {"kind": table.kind, "name": table.name} | versions}
        document = report.to_dict()
        printed.facts |= {name: document[name] for name in ("rows_after", "later_files", "still_held")}
    output.summary(_summarize(report, table.kind))
    say = output.detail if report.rows_after is None else output.remark  # a request to erase ends with its report
    for line in report.lines_after_files:
        say(line)
    return output.exit_code()


def _count(report: DeleteReport) -> dict[str, int]:
    return {
        "files": len(report.files),
        "rows": report.num_rows,
        "bytes_written": report.bytes_written,
        "keys": report.num_keys,
        "null_keys": report.num_null_keys,
    }


def _summarize(report: DeleteReport, kind: str) -> str:
    head = "would delete" if report.dry_run else "deleted"
    text = f"{head} {count(report.num_rows, 'row')} in {count(len(report.files), 'file')}"
    if report.num_keys:
        text += f", of {count(report.num_keys, 'key')}"
    if report.num_null_keys:
        text += f", {report.num_null_keys:,} of them null, which no row equals"
    if report.bytes_written:
        text += f"; {report.bytes_written:,} bytes of new files"
    name = "version" if kind == "delta" else "snapshot"
    if report.changed:
        return f"{text}; {name} {report.old_version} -> {report.new_version}"
    return text if report.dry_run else f"{text}; nothing committed, {name} {report.old_version}"
