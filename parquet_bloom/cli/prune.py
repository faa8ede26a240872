"""`parquet-bloom prune`: which row groups a predicate has to read, and why not the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click
import pyarrow as pa

from ..hashing.literals import coerce
from ..hashing.physical import from_arrow
from ..predicate import parse
from ..prune.plan import prune as prune_files
from ..prune.report import PruneReport, RowGroupDecision
from .options import command
from .output import BAD, GOOD, Output
from .paths import find_files
from .table import Column, or_blank

COLUMNS = (
    Column("file", "file", folds=True),
    Column("row_group", "row group", right=True),
    Column("read", "", text=lambda value: "read" if value else "skip"),
    Column("num_rows", "rows", right=True),
    Column("by", "by", text=lambda value: "+".join(value) or "-"),
    Column("reason", "reason", text=or_blank, usual=lambda row: not row["reason"], folds=True),
    Column("doubts", "doubts", text=or_blank, usual=lambda row: not row["doubts"], folds=True),
)


def _known_zone(context: click.Context, parameter: click.Parameter, zone: str) -> str:
    """Refuse a mistyped zone, which would only make predicates doubtful, and everything be read."""
    instants = from_arrow(pa.timestamp("us", "UTC"))
    if coerce(dt.datetime(2000, 1, 1), instants, zone).unknown is not None:
        raise click.BadParameter(f"{zone!r} is no time zone that is known here", context, parameter)
    return zone


@command(
    "prune",
    example=(
        "parquet-bloom prune lake/ --where \"user_id = 42 AND day IN ('2024-01-01', '2024-01-02')\"\n"
        "parquet-bloom prune lake/ --where \"trace = 'f00d'\" --format csv | grep ,true,"
    ),
    exit_codes="0 something may match, 1 nothing can, 2 error: a file could not be read, so matches may be missing.",
)
@click.option(
    "--where",
    metavar="SQL",
    required=True,
    help="The predicate, as behind SQL's WHERE: columns compared with literals; dotted paths for nested columns.",
)
@click.option("--dialect", metavar="NAME", help="Read the predicate as this SQL dialect (sqlglot's names: spark, ...).")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    callback=_known_zone,
    help="Zone of timestamps that are written without one, such as Europe/Berlin or +01:00.",
)
@click.option("--ignore-case", is_flag=True, help="Match names of columns whatever their case, as Spark does.")
def prune(
    output: Output, paths: tuple[str, ...], where: str, dialect: str | None, timezone: str, ignore_case: bool
) -> int:
    """Say which files and row groups can hold a row that matches, and what rules out the others.

    Decided from statistics and Bloom filters alone, and from folders named like day=2026-01-31: files that these rule
    out are not opened, and are one row. What is doubtful is read, and the doubt is told.
    """
    node = parse(where, dialect)
    files = [file.path for file in find_files(paths, output)]

    with output.rows("row_groups", COLUMNS) as rows:
        with output.progress(len(files)) as bar, output.step("prune"):
            report = prune_files(
                files,
                node,
                filesystem=output.filesystem,
                timezone=timezone,
                ignore_case=ignore_case,
                progress=bar.of,
                on_error=output.fail,
                cache=None,  # it would be gone with the process
            )
        for file in report.files:
            if file.unopened:
                whole = RowGroupDecision(-1, False, frozenset({"partition"}), file.unopened)
                rows.add(_row(file.path, whole) | {"row_group": None, "num_rows": None})
            for decision in file.row_groups:
                rows.add(_row(file.path, decision))
        rows.facts |= {"where": report.where, "totals": _totals(report)}
    skipped = ", ".join(f"{count:,} by {what}" for what, count in sorted(report.skipped_by.items()))
    output.summary(str(report) + (f"; skipped {skipped}" if skipped else ""))
    return output.exit_code(GOOD if report.selected_row_groups else BAD)


def _row(path: str, decision: RowGroupDecision) -> dict[str, Any]:
    return {
        "file": path,
        "row_group": decision.row_group,
        "read": decision.read,
        "num_rows": decision.num_rows,
        "by": sorted(decision.by),
        "reason": decision.reason or None,
        "doubts": list(decision.doubts),
    }


def _totals(report: PruneReport) -> dict[str, Any]:
    return {
        "files": report.total_files,
        "selected_files": report.selected_files,
        "unopened_files": report.unopened_files,
        "row_groups": report.total_row_groups,
        "selected_row_groups": report.selected_row_groups,
        "skipped_by": report.skipped_by,
        "requests": report.requests,
        "bytes_read": report.bytes_read,
    }
