"""`embed --commit`: embed filters into the files of a table, by one commit; what was done with each of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...errors import ParquetBloomError
from ...util.wording import count
from ..options.tables import TableRequest
from ..output.output import Output
from ..output.table import Column, text_or_blank

if TYPE_CHECKING:
    from ...tables.embed.report import EmbedTableReport

COLUMNS = (
    Column("file", "file", folds=True),
    Column("output", "new file", folds=True),
    Column("filters", "filters", right=True),
    Column("bytes_added", "bytes added", right=True),
    Column("new_size", "new size", right=True),
    Column("changed", "exchanged"),
    Column("reason", "why not", text=text_or_blank, usual=lambda row: not row["reason"], folds=True),
)


def embed_into_table(
    output: Output,
    paths: Sequence[str],
    request: TableRequest,
    columns: Mapping[str, float | None],
    *,
    dry_run: bool,
    set_property: bool,
    **options: Any,
) -> int:
    """Embed filters into the table that the options or the only PATH name, and return the exit code.

    Parameters
    ----------
    columns, dry_run, set_property, options : as in `embed_table`.

    Raises
    ------
    click.UsageError
        Not just one table is named, or an option is for another kind of table.
    ParquetBloomError
        There is no such table, or nothing was committed.
    """
    # Not at the top: `embed` works on files as a rule.
    from ...tables.embed.api import embed_table

    request.require_valid(paths)
    if len(paths) > 1 or (not paths and not request.in_catalog):
        problem = "--commit is for one table: its folder is the only PATH, or --iceberg-catalog and --table name it"
        raise click.UsageError(problem, click.get_current_context())
    table = request.find(paths, output, certain=True)
    if table is None:
        raise ParquetBloomError("--commit is for a Delta or Iceberg table, and this is none", path=paths[0])
    if set_property and table.kind == "delta":
        problem = "--set-property is for Iceberg: Delta has no property that makes writers add Bloom filters"
        raise click.UsageError(problem, click.get_current_context())
    options |= {"dry_run": dry_run, "set_property": set_property}
    with output.progress(0) as bar, output.step("embed"):
        report = embed_table(table, columns, progress=bar.update, **options)
    with output.rows("files", COLUMNS) as rows:
        rows.add_all(_make_rows(report))
        versions = {"old_version": report.old_version, "new_version": report.new_version}
        rows.facts |= {"dry_run": dry_run, "totals": _count(report), "properties": list(report.properties)}
        rows.facts |= {"attempts": report.attempts, "table": {"kind": table.kind, "name": table.name} | versions}
    output.summary(_summarize(report, table.kind))
    return output.exit_code()


def _make_rows(report: EmbedTableReport) -> list[dict[str, Any]]:
    """Make a row for each file that was or would be exchanged, or stays as it is though it lacks filters, by path."""
    rows: list[dict[str, Any]] = [
        {
            "file": file.old,
            "output": None if report.dry_run else file.new,
            "filters": file.num_filters,
            "bytes_added": file.new_size - file.old_size,
            "new_size": file.new_size,
            "changed": not report.dry_run,
            "reason": None,
        }
        for file in report.files
    ]
    rows += [
        dict.fromkeys(column.key for column in COLUMNS)
        | {"file": file.path, "filters": 0, "bytes_added": 0, "changed": False, "reason": file.reason}
        for file in report.skipped
    ]
    return sorted(rows, key=lambda row: str(row["file"]))


def _count(report: EmbedTableReport) -> dict[str, int]:
    return {
        "files": len(report.files),
        "changed": 0 if report.dry_run else len(report.files),
        "filters": report.num_filters,
        "bytes_added": report.bytes_added,
        "skipped": len(report.skipped),
        "complete": report.num_complete,
        "left": report.num_left,
    }


def _summarize(report: EmbedTableReport, kind: str) -> str:
    head = "would embed" if report.dry_run else "embedded"
    filters, files = count(report.num_filters, "filter"), count(len(report.files), "file")
    text = f"{head} {filters} in {files}, {report.bytes_added:+,} bytes"
    text += f"; {count(report.num_complete, 'file')} had nothing to add" if report.num_complete else ""
    text += f"; {count(len(report.skipped), 'file')} skipped" if report.skipped else ""
    text += f"; {count(report.num_left, 'file')} left for another run" if report.num_left else ""
    text += f"; {report.properties_set}" if report.properties else ""
    name = "version" if kind == "delta" else "snapshot"
    if report.old_version == report.new_version and report.changed:
        return f"{text}; {name} {report.old_version} stays"
    if report.changed:
        return f"{text}; {name} {report.old_version} -> {report.new_version}"
    return text if report.dry_run else f"{text}; nothing committed, {name} {report.old_version}"
