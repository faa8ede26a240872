"""`parquet-bloom erase`: write files anew without the rows of keys, or of a predicate."""

from __future__ import annotations

from typing import Any

import click

from ...change.erase_files import erase as erase_rows
from ...change.erase_report import EraseReport
from ...errors import ManagedTableError
from ...scan.lookup.key_lookups import KeyLookups
from ...scan.scan_source import ScanSource
from ...util.messages import count
from ..command import CommandOptions, command, flag, group, option
from ..options.choice_options import YES, ChosenRows, require_terminal
from ..options.path_options import STDIN, expand_stdin
from ..options.shared_options import PATHS, RewriteTarget
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import Column

COLUMNS = (
    Column("file", "file"),
    Column("output", "output", usual=lambda row: row["output"] == row["file"]),
    Column("rows", "rows", right=True),
    Column("rows_left", "rows left", right=True),
    Column("row_groups_rewritten", "row groups rewritten", right=True),
    Column("row_groups_copied", "copied", right=True),
    Column("row_groups_removed", "removed", right=True, usual=lambda row: not row["row_groups_removed"]),
    Column("chunks_trimmed", "dictionaries", right=True, usual=lambda row: not row["chunks_trimmed"]),
    Column("old_size", "old size", right=True),
    Column("new_size", "new size", right=True),
    Column("lost", "lost", text=lambda lost: f"{len(lost):,}", usual=lambda row: not row["lost"]),
)


class EraseTarget(RewriteTarget):
    """Where files are written anew, or that they are not."""

    dry_run: bool = flag("Write nothing, print the files that would be written. All figures are exact.")


class EraseOptions(CommandOptions):
    paths: tuple[str, ...] = PATHS
    rows = group(ChosenRows)
    index: str | None = option("FOLDER", "The index of the lake that says which files may have a key.")
    target = group(EraseTarget)
    yes: bool = YES


@command("erase", EraseOptions)
def erase(output: Output, given: EraseOptions) -> int:
    """Erase rows from Parquet files: those of keys, those that match a predicate, or those that do both.

    Only files that have such a row are written anew, and only their row groups that do are encoded anew; the others are
    copied byte for byte, but for dictionaries that have values of these rows. Nothing of the rows is left in a new
    file. One of -o, --in-place and --dry-run is required; with -o the files that have such rows are written below a
    folder, at the same relative paths, and no others. Files are replaced atomically, and a killed run can be run again.
    The JSON document is fit to be kept with the request: it says what was erased, what may still hold it, and how many
    rows a second search has found.

    Exit codes: 0 done, or there was nothing to erase; 1 not confirmed, nothing was changed, or rows that came meanwhile
    are there now, or may be, as the files could not be searched again, so run it again; 2 error in a file, which is as
    it was: the others were done, and the next run tries this one again.

    Example:
      parquet-bloom erase events/ --key user_id=912284217 --dry-run
      parquet-bloom erase events/ --keys ids.txt --key-column user_id --in-place --yes --format json
      parquet-bloom erase events/ --keys gone.parquet --key-column user_id --index ids.index --in-place
      parquet-bloom erase events/ --where "lower(email) = 'jane@example.org'" -o erased/
    """
    target = given.target
    target.require_one()
    asks = target.in_place and not target.dry_run and not given.yes
    lake: Any = given.paths[0] if len(given.paths) == 1 and given.paths[0] != STDIN else [*expand_stdin(given.paths)]
    options: dict[str, Any] = {"output": target.target, "dry_run": target.dry_run, "index": given.index}
    options |= {"filesystem": output.filesystem, "on_error": "report"}
    with given.rows.open(given.paths, output) as rows:
        if asks:
            require_terminal()
        with output.step("open"):
            options |= rows.parse(None if rows.keys is None else _read_schema(lake, given.index, output))
        with output.step("erase"), output.progress(0, "MB") as bar:

            def confirm(num_rows: int, num_files: int) -> bool:
                bar.close()
                text = f"Erase {count(num_rows, 'row')} from {count(num_files, 'file')}, which are replaced?"
                return click.confirm(text, err=True)

            report = erase_rows(lake, progress=bar.update, confirm=confirm if asks else None, **options)
    for error in report.errors.values():
        output.fail(error)
    _print(output, report)
    is_declined = asks and report.num_located > 0 and not report.files and not report.errors
    is_unknown = bool(report.files) and not report.dry_run and report.rows_after is None
    return output.exit_code(BAD if is_declined or is_unknown or report.rows_after else GOOD)


def _read_schema(lake: Any, index: str | None, output: Output) -> Any:
    """Return the schema of the files, by which keys that are texts become values."""
    try:
        return KeyLookups.open(ScanSource(lake, output.filesystem, index=index).resolve()).schema
    except ManagedTableError as error:
        error.problem += "; rows of a table are erased through the table"
        raise


def _print(output: Output, report: EraseReport) -> None:
    document = report.to_dict()
    totals = {"files": len(report.files), "searched": report.num_searched, "rows": report.num_rows}
    totals |= {"bytes_written": report.bytes_written, "bytes_encoded": report.bytes_encoded}
    with output.rows("files", COLUMNS) as rows:
        rows.add_all(document["files"])
        names = ("lake", "on", "where", "keys", "dry_run", "started", "seconds", "rows_after", "still_held")
        rows.facts |= {"totals": totals} | {name: document[name] for name in names}
    summary, *more = report.lines_after_files
    output.summary(summary)
    for line in more:
        output.remark(line)
