"""`parquet-bloom embed`: add filters to existing files, in place or into copies, or show what would be added."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...errors import ManagedTableError, ParquetBloomError
from ...file.many_files import Progress
from ...file.write.embed_filters import EmbedReport, embed_file
from ...file.write.filter_builder import FilterOptions, parse_columns
from ...util.messages import count
from ...util.threads import processors
from ..options.shared_options import (
    column_option,
    command,
    jobs_option,
    make_missing_path,
    require_target,
    skip_broken_option,
    target_options,
)
from ..options.table_options import TableRequest, catalog_options
from ..output.output import Output
from ..output.row_formats import Column, text_or_blank
from ..rewrite_files import RewriteCommand

if TYPE_CHECKING:
    from ...tables.embed.embed_table import EmbedTableReport


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
    from ...tables.embed.embed_table import embed_table

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


EMBED = RewriteCommand(
    "embed",
    "embedded",
    bytes="bytes_added",
    grows=True,
    columns=(
        Column("row_group", "row group", right=True),
        Column("column", "column", folds=True),
        Column("ndv", "ndv", right=True),
        Column("num_bytes", "bytes", right=True),
        Column("fpp", "fpp", right=True),
    ),
    make_row=asdict,
    way_out="; `parquet-bloom embed TABLE --commit` embeds filters into a Delta or Iceberg table",
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@command(
    "embed",
    example=(
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 --dry-run\n"
        "parquet-bloom embed lake/ --column user.id --column trace=0.001 -o filtered/\n"
        "parquet-bloom embed a.parquet --column user.id --in-place\n"
        "parquet-bloom embed events/ --commit --column user.id --where \"day >= DATE '2026-01-01'\" --max-files 100\n"
        "parquet-bloom embed --iceberg-catalog prod --table db.events --commit --column user.id --set-property"
    ),
    exit_codes=(
        "0 done, or there was nothing to add; 2 error in a file: the others were done, and the next run tries this one "
        "again; --skip-broken is for folders that others are writing to. With --commit: 0 committed, or "
        "there was nothing to commit, and the rows say which files stay as they are; 2 error: nothing was committed, "
        "unless the line says that this is unknown."
    ),
    optional_paths=True,
    about="With --commit the only PATH is the folder of a Delta table, or options name an Iceberg table of a catalog.",
)
@column_option(
    "Add filters to this column, a dotted path; NAME=FPP sets the fpp of the column. Repeatable. "
    "(A name that itself ends in = and a number must be followed by =FPP.)",
    required=True,
)
@click.option(
    "--fpp",
    metavar="FPP",
    type=float,
    default=0.01,
    show_default=True,
    help="False-positive probability: the share of absent keys that a filter may let pass.",
)
@target_options("the filters that would be written")
@click.option("--replace", is_flag=True, help="Rebuild existing filters; by default they are kept.")
@click.option(
    "--keep-footer",
    is_flag=True,
    help="Leave the old footer in the file, unused, so that running Spark queries that listed the file do not fail.",
)
@click.option(
    "--exact-size",
    is_flag=True,
    help="Size filters to the smallest multiple of 32 bytes instead of a power of two; not all readers accept that.",
)
@click.option(
    "--commit",
    is_flag=True,
    help="Embed into a Delta or Iceberg table: write new files beside the old ones, and exchange them by one commit. "
    "Its old version stays readable.",
)
@click.option(
    "--where",
    metavar="SQL",
    help="With --commit: only in files that match by the values of their partition columns.",
)
@click.option("--max-files", metavar="N", type=click.IntRange(min=1), help="With --commit: in N files at most.")
@click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(min=0),
    help="With --commit: how often to try again when other writers have committed meanwhile; 5 by default.",
)
@click.option(
    "--set-property",
    is_flag=True,
    help="With --commit, for Iceberg: also set write.parquet.bloom-filter-enabled.column.NAME of the table, so that "
    "Java writers give new files filters.",
)
@catalog_options
@skip_broken_option
@jobs_option
def embed(
    output: Output,
    paths: tuple[str, ...],
    table: TableRequest,
    columns: tuple[str, ...],
    fpp: float,
    target: str | None,
    in_place: bool,
    dry_run: bool,
    replace: bool,
    keep_footer: bool,
    exact_size: bool,
    commit: bool,
    where: str | None,
    max_files: int | None,
    retries: int | None,
    set_property: bool,
    jobs: int,
) -> int:
    """Embed Bloom filters into Parquet files.

    Filters are sized from the data; pages and all other metadata stay byte for byte. One of -o, --in-place and --commit
    is required, except with --dry-run. Files are replaced atomically.

    With --commit, filters are embedded into the files of a table that lack them: every filter is checked against its
    values, and the rows of the table stay as they are. Files with deleted rows, and others that cannot be exchanged,
    stay as they are, and rows say why. A second run commits nothing.
    """
    of_tables = {"--where": where, "--max-files": max_files, "--retries": retries, "--set-property": set_property}
    of_tables |= {"--iceberg-catalog": table.catalog, "--table": table.name}
    of_files = {"-o": target, "--in-place": in_place, "--replace": replace, "--keep-footer": keep_footer}
    requested = parse_column_arguments(columns)
    if commit:
        of_files |= {"--exact-size": exact_size, "--skip-broken": output.skips_broken}
        _refuse(of_files, "--commit and {} exclude each other")
        options: dict[str, Any] = {} if retries is None else {"retries": retries}
        if click.get_current_context().get_parameter_source("jobs") is not ParameterSource.DEFAULT:
            options["threads"] = jobs
        options |= {"where": where, "max_files": max_files, "set_property": set_property}
        return embed_into_table(output, paths, table, requested, fpp=fpp, dry_run=dry_run, **options)
    _refuse(of_tables, "{} is for a table: add --commit")
    if not paths:
        raise make_missing_path()
    require_target(target, in_place, dry_run)
    parse_columns(requested, FilterOptions(fpp, None, not exact_size))  # report invalid options once, not per file

    def embed_one(path: str, target: str | None, progress: Progress) -> EmbedReport:
        try:
            return embed_file(
                path,
                requested,
                fpp=fpp,
                power_of_two=not exact_size,
                output=target,
                replace=replace,
                keep_footer=keep_footer,
                dry_run=dry_run,
                filesystem=output.filesystem,
                progress=progress,
                threads=max(1, processors() // jobs),
            )
        except ManagedTableError as error:
            error.problem += EMBED.way_out
            raise

    return EMBED.run(output, paths, target, dry_run, jobs, embed_one)


def _refuse(options: Mapping[str, object], problem: str) -> None:
    """Raise click.UsageError for the first option that is given."""
    given = next((name for name, value in options.items() if value is not None and value is not False), None)
    if given is not None:
        raise click.UsageError(problem.format(given), click.get_current_context())


def parse_column_arguments(arguments: tuple[str, ...]) -> Mapping[str, float | None]:
    """Parse ("user.id", "trace=0.001") into {"user.id": None, "trace": 0.001}."""
    columns: dict[str, float | None] = {}
    for argument in arguments:
        name, equals, number = argument.rpartition("=")
        has_fpp = bool(equals and name and _NUMBER.fullmatch(number))
        column = name if has_fpp else argument
        if column in columns:
            raise ParquetBloomError("the column is named twice", column=column)
        columns[column] = float(number) if has_fpp else None
    return columns
