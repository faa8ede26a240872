"""`parquet-bloom prune`: which row groups a predicate has to read, and why not the others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from ...predicate import parse
from ...scan.model.plan import RowGroupPlan
from ...scan.model.row_selection import RowRangesByGroup
from ...scan.read.row_ranges import find_row_ranges
from ...scan.report import PruneReport
from ..options.common import command
from ..options.paths import check_output
from ..options.predicate import describe_plan, files_asked, pruned, totals_of, where_options
from ..output.orc_rows import STRIPE
from ..output.output import BAD, GOOD, Output
from ..output.table import Column, counted, or_blank

_SHOWN = 4  # ranges that a table shows of a row group


def _ranges_text(ranges: list[list[int]] | None) -> str:
    if ranges is None:
        return "-"
    shown = [f"{start}-{stop - 1}" for start, stop in ranges[:_SHOWN]]
    return ", ".join(shown + [f"{len(ranges) - _SHOWN:,} more"] * (len(ranges) > _SHOWN)) or "none"


COLUMNS = (
    Column("file", "file", folds=True),
    Column("row_group", "row group", right=True),
    STRIPE,
    Column("read", "", text=lambda value: "read" if value else "skip"),
    Column("num_rows", "rows", right=True),
    Column("row_ranges", "row ranges", text=_ranges_text, usual=lambda row: row["row_ranges"] is None, folds=True),
    Column("by", "by", text=lambda value: "+".join(value) or "-"),
    Column("reason", "reason", text=or_blank, usual=lambda row: not row["reason"], folds=True),
    Column("doubts", "doubts", text=or_blank, usual=lambda row: not row["doubts"], folds=True),
)


@command(
    "prune",
    example=(
        "parquet-bloom prune lake/ --where \"user_id = 42 AND day IN ('2024-01-01', '2024-01-02')\"\n"
        'parquet-bloom prune lake/ --where "user_id = 42" --html prune.html --check\n'
        "parquet-bloom prune lake/ --where \"trace = 'f00d'\" --format csv | grep ,true,\n"
        "parquet-bloom prune --index lake.index --where \"trace = 'f00d'\""
    ),
    exit_codes="0 something may match, 1 nothing can, 2 error: a file could not be read, so matches may be missing.",
    index=True,
)
@where_options
@click.option(
    "--html",
    metavar="FILE",
    help="Also draw it: a page that stands alone, a heat map of files and row groups, and how good filters are. "
    "For that, filters are read, 64 MiB of them at most.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With --html: read the predicate's columns where something may match, and show where rows do, and which row "
    "groups are read in vain.",
)
@click.option(
    "--asked-fpp",
    metavar="FPP",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="With --html: the false-positive probability that the filters were embedded with, to compare with.",
)
def prune(
    output: Output,
    paths: tuple[str, ...],
    where: str,
    dialect: str | None,
    timezone: str,
    ignore_case: bool,
    cache: str | None,
    index: str | None,
    zones: tuple[str, ...],
    html: str | None,
    check: bool,
    asked_fpp: float | None,
) -> int:
    """Say which files and row groups can hold a row that matches, and what rules out the others.

    Decided from statistics and Bloom filters alone, and from folders named like day=2026-01-31 and an index of the
    lake: files that these rule out are not opened, and are one row. Of row groups with a page index, or zones, row
    ranges are those that these leave. Row groups of ORC files are numbered through all stripes. What is doubtful is
    read, and the doubt is told.
    """
    if html is None and (check or asked_fpp is not None):
        raise click.UsageError("--check and --asked-fpp are about the page of --html", click.get_current_context())
    node = parse(where, dialect)
    with ExitStack() as stack:
        files, asked = stack.enter_context(files_asked(paths, index, output))
        if html is not None:
            check_output(files, html)
        rows = stack.enter_context(output.rows("row_groups", COLUMNS))
        report = pruned(output, files, node, timezone, ignore_case, cache, asked, zones)
        with output.progress(report.selected_files) as bar, output.step("page indexes"):
            ranges = find_row_ranges(report, on_error=output.fail, progress=bar.of)
        if html is not None:
            with output.progress(len(files)) as bar, output.step("picture"):
                report.to_html(html, check=check, asked_fpp=asked_fpp, filesystem=output.filesystem, progress=bar.of)
        for file in report.files:
            if file.unopened:
                whole = RowGroupPlan(-1, False, frozenset({file.unopened_by}), file.unopened)
                rows.add(_row(file.path, whole, None) | {"row_group": None, "num_rows": None})
            of_file = ranges.get(file.path, {})
            rows.add_all(_row(file.path, one, of_file.get(one.row_group)) for one in file.row_groups)
        rows.facts |= {"where": report.where, "totals": totals_of(report)}
    output.summary(describe_plan(report))
    return output.exit_code(GOOD if _something(report, ranges) else BAD)


def _something(report: PruneReport, ranges: dict[str, RowRangesByGroup]) -> bool:
    """Whether a row may match: one that the pages leave, or of a file whose page indexes are not known."""
    return any(file.selected and any(ranges.get(file.path, {0: [(0, 1)]}).values()) for file in report.files)


def _row(path: str, decision: RowGroupPlan, ranges: list[tuple[int, int]] | None) -> dict[str, Any]:
    left = None if ranges is None or ranges == [(0, decision.num_rows)] else ranges
    reason = decision.reason
    if left is not None:
        num_left = sum(stop - start for start, stop in left)
        whose = "pages" if decision.rows is None else "zones" if left == [*decision.rows] else "pages and zones"
        reason = f"its {whose} leave {num_left:,} of {counted(decision.num_rows, 'row')}"
    return {
        "file": path,
        "row_group": decision.row_group,
        "stripe": decision.stripe,
        "read": decision.read,
        "num_rows": decision.num_rows,
        "row_ranges": None if left is None else [list(span) for span in left],
        "by": sorted(decision.by),
        "reason": reason or None,
        "doubts": list(decision.doubts),
    }
