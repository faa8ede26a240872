"""`parquet-bloom embed`: add filters to existing files, in place or into copies, or show what would be added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...errors import ManagedTableError, ParquetBloomError
from ...file.embed_filters import EmbedReport, RewriteOptions, embed_file
from ...file.filter_builder import FilterOptions, parse_columns
from ...file.many_files import Progress
from ...util.messages import count
from ...util.threads import processors
from ..command import POSITIVE, CommandOptions, command, flag, group, option, usage_error
from ..options.shared_options import (
    FILE_JOBS,
    OPTIONAL_PATHS,
    SKIP_BROKEN,
    RewriteTarget,
    columns_option,
    make_missing_path,
)
from ..options.table_options import TableRequest
from ..output.output import Output
from ..output.row_formats import Column, text_or_blank
from ..rewrite_files import RewriteCommand

if TYPE_CHECKING:
    from ...tables.embed.embed_table import EmbedTableReport


COLUMNS = (
    Column("file", "file"),
    Column("output", "new file"),
    Column("filters", "filters", right=True),
    Column("bytes_added", "bytes added", right=True),
    Column("new_size", "new size", right=True),
    Column("changed", "exchanged"),
    Column("reason", "why not", text=text_or_blank, usual=lambda row: not row["reason"], folds=True),
)


EMBED = RewriteCommand(
    "embed",
    "embedded",
    bytes="bytes_added",
    grows=True,
    columns=(
        Column("row_group", "row group", right=True),
        Column("column", "column"),
        Column("ndv", "ndv", right=True),
        Column("num_bytes", "bytes", right=True),
        Column("fpp", "fpp", right=True),
    ),
    way_out="; `parquet-bloom embed TABLE --commit` embeds filters into a Delta or Iceberg table",
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class EmbedOptions(CommandOptions):
    about = (
        "With --commit the only PATH is the folder of a Delta table, or its URL; or with --iceberg-catalog that of an "
        "Iceberg table, unless --table is its name there."
    )

    paths: tuple[str, ...] = OPTIONAL_PATHS
    columns: tuple[str, ...] = columns_option(
        "Add filters to this column, a dotted path. NAME=FPP sets the fpp of the column. Repeatable. "
        "(A name that itself ends in = and a number must be followed by =FPP.)",
        required=True,
    )
    fpp: float = option(
        "FPP",
        "False-positive probability: the share of absent keys that a filter may let pass.",
        type=float,
        default=0.01,
    )
    target = group(RewriteTarget)
    replace: bool = flag("Rebuild existing filters. By default they are kept.")
    keep_footer: bool = flag(
        "Leave the old footer in the file, unused, so that running Spark queries that listed the file do not fail.",
        rarely=True,
    )
    exact_size: bool = flag(
        "Size filters to the smallest multiple of 32 bytes instead of a power of two; not all readers accept that.",
        rarely=True,
    )
    commit: bool = flag(
        "Embed into a Delta or Iceberg table, by one commit. New files are written beside the old ones, and "
        "exchanged for them. Its old version stays readable."
    )
    where: str | None = option(
        "SQL",
        "With --commit: only in files that match by the values of their partition columns.",
        rarely=True,
    )
    max_files: int | None = option("N", "With --commit: in N files at most.", type=POSITIVE, rarely=True)
    max_bytes: int | None = option(
        "N", "With --commit: in files of N bytes at most, but at least one.", type=POSITIVE, rarely=True
    )
    commit_bytes: int | None = option(
        "N",
        "With --commit: commit after each N bytes of old files, 64 GiB by default; a run that is killed loses no more.",
        type=POSITIVE,
        rarely=True,
    )
    retries: int | None = option(
        "N",
        "With --commit: how often to try again when other writers have committed meanwhile; 5 by default.",
        type=click.IntRange(min=0),
        rarely=True,
    )
    set_property: bool = flag(
        "With --commit, for Iceberg: also set write.parquet.bloom-filter-enabled.column.NAME of the table, so that "
        "Java writers give new files filters.",
        rarely=True,
    )
    table = group(TableRequest)
    skip_broken: bool = SKIP_BROKEN
    jobs: int = FILE_JOBS


@command("embed", EmbedOptions)
def embed(output: Output, given: EmbedOptions) -> int:
    """Embed Bloom filters into Parquet files.

    Filters are sized from the data; pages and all other metadata stay byte for byte. One of -o, --in-place and --commit
    is required, except with --dry-run. Files are replaced atomically.

    With --commit, filters are embedded into the files of a table that lack them: every filter is checked against its
    values, and the rows of the table stay as they are. Files with deleted rows, and others that cannot be exchanged,
    stay as they are, and rows say why. A second run commits nothing.

    Exit codes: 0 done, or there was nothing to add; 2 error in a file: the others were done, and the next run tries
    this one again; --skip-broken is for folders that others are writing to. With --commit: 0 committed, or there was
    nothing to commit, and the rows say which files stay as they are; 2 error: nothing was committed, unless the line
    says that this is unknown.

    Example:
      parquet-bloom embed lake/ --column user.id --column trace=0.001 --dry-run
      parquet-bloom embed lake/ --column user.id --column trace=0.001 -o filtered/
      parquet-bloom embed a.parquet --column user.id --in-place
      parquet-bloom embed events/ --commit --column user.id --where "day >= DATE '2026-01-01'" --max-files 100
      parquet-bloom embed --iceberg-catalog prod --table db.events --commit --column user.id --set-property
      parquet-bloom embed s3://bucket/db/events --iceberg-catalog prod --commit --column user.id
    """
    requested = parse_column_arguments(given.columns)
    target, table, jobs = given.target, given.table, given.jobs
    of_files = {"-o": target.target, "--in-place": target.in_place, "--replace": given.replace}
    if given.commit:
        of_files |= {"--keep-footer": given.keep_footer, "--exact-size": given.exact_size}
        _refuse(of_files | {"--skip-broken": given.skip_broken}, "--commit and {} exclude each other")
        return _embed_into_table(output, given, requested)
    of_tables = {"--where": given.where, "--max-files": given.max_files, "--retries": given.retries}
    of_tables |= {"--max-bytes": given.max_bytes, "--commit-bytes": given.commit_bytes}
    of_tables |= {"--set-property": given.set_property, "--iceberg-catalog": table.catalog, "--table": table.name}
    _refuse(of_tables, "{} is for a table: add --commit")
    if not given.paths:
        raise make_missing_path()
    target.require_one("; for a Delta or Iceberg table --commit")
    filters = parse_columns(requested, FilterOptions(given.fpp, None, not given.exact_size))
    threads = max(1, processors() // jobs)

    def embed_one(path: str, output_path: str | None, progress: Progress) -> EmbedReport:
        try:
            options = RewriteOptions(output_path, given.replace, given.keep_footer, target.dry_run, output.filesystem)
            return embed_file(path, filters, options, progress, threads)
        except ManagedTableError as error:
            error.problem += EMBED.way_out
            raise

    return EMBED.run(output, given.paths, target, jobs, embed_one)


def _embed_into_table(output: Output, given: EmbedOptions, columns: Mapping[str, float | None]) -> int:
    """Embed filters into the table that the options or the only PATH name, and return the exit code.

    Raises
    ------
    click.UsageError
        Not just one table is named, or an option is for another kind of table.
    ParquetBloomError
        There is no such table, or nothing was committed.
    """
    # Not at the top: `embed` works on files as a rule.
    from ...tables.embed.embed_table import embed_table

    table = given.table.find_to_change(given.paths, output)
    if given.set_property and table.kind == "delta":
        raise usage_error("--set-property is for Iceberg: Delta has no property that makes writers add Bloom filters")
    options: dict[str, Any] = {} if given.retries is None else {"retries": given.retries}
    if click.get_current_context().get_parameter_source("jobs") is not ParameterSource.DEFAULT:
        options["threads"] = given.jobs
    options |= {} if given.commit_bytes is None else {"commit_bytes": given.commit_bytes}
    options |= {"where": given.where, "max_files": given.max_files, "max_bytes": given.max_bytes}
    options |= {"fpp": given.fpp, "dry_run": given.target.dry_run, "storage_options": output.storage_options}
    options |= {"set_property": given.set_property}
    with output.progress(0, "MB") as bar, output.step("embed"):
        report = embed_table(table, columns, progress=bar.update, **options)
    with output.rows("files", COLUMNS) as rows:
        rows.add_all(_make_rows(report))
        versions = {"old_version": report.old_version, "new_version": report.new_version}
        rows.facts |= {"dry_run": report.dry_run, "totals": _count(report), "properties": list(report.properties)}
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


def _refuse(options: Mapping[str, object], problem: str) -> None:
    """Raise click.UsageError for the first option that is given."""
    given = next((name for name, value in options.items() if value is not None and value is not False), None)
    if given is not None:
        raise usage_error(problem.format(given))


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
