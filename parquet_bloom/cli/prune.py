"""`parquet-bloom prune`: which row groups a predicate has to read, and why not the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..file.reader import open
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
    help="The predicate: comparisons by = and IN, joined by AND and OR; dotted paths for nested columns.",
)
@click.option("--dialect", metavar="NAME", help="Read the predicate as this SQL dialect (sqlglot's names: spark, ...).")
@click.option("--timezone", default="UTC", show_default=True, help="Zone of timestamps that are written without one.")
@click.option("--ignore-case", is_flag=True, help="Match names of columns whatever their case, as Spark does.")
def prune(
    output: Output, paths: tuple[str, ...], where: str, dialect: str | None, timezone: str, ignore_case: bool
) -> int:
    """Say which files and row groups can hold a row that matches, and what rules out the others.

    Decided from statistics and Bloom filters alone. What is doubtful is read, and the doubt is told.
    """
    node = parse(where, dialect)
    files = [file.path for file in find_files(paths, output)]

    def plan(progress: Callable[[int, int], None]) -> PruneReport:
        return prune_files(files, node, timezone=timezone, ignore_case=ignore_case, progress=progress)

    with output.rows("row_groups", COLUMNS) as rows:
        with output.progress(len(files)) as bar, output.step("prune"):
            report = _of_readable(files, plan, bar.of, output)
        for file in report.files:
            for decision in file.row_groups:
                rows.add(_row(file.path, decision))
        rows.facts |= {"where": report.where, "totals": _totals(report)}
    skipped = ", ".join(f"{count:,} by {what}" for what, count in sorted(report.skipped_by.items()))
    output.summary(str(report) + (f"; skipped {skipped}" if skipped else ""))
    return output.exit_code(GOOD if report.selected_row_groups else BAD)


def _of_readable(
    files: list[str],
    plan: Callable[[Callable[[int, int], None]], PruneReport],
    progress: Callable[[int, int], None],
    output: Output,
) -> PruneReport:
    """The report on the files that can be read; the others are reported and taken out of `files`."""
    while True:
        try:
            return plan(progress)
        except (PredicateError, UnknownColumnError):
            raise
        except ParquetBloomError as error:
            if error.path not in files:
                raise
            files.remove(error.path)
            output.fail(error)
            for path in list(files):  # those that are broken alike, at once
                try:
                    with open(path) as file:
                        file.leaves  # noqa: B018
                except ParquetBloomError as other:
                    files.remove(path)
                    output.fail(other)


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
        "row_groups": report.total_row_groups,
        "selected_row_groups": report.selected_row_groups,
        "skipped_by": report.skipped_by,
    }
