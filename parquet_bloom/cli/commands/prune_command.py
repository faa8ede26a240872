"""`parquet-bloom prune`: show the row groups a predicate has to read, and what rules out the others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from ...predicate import parse
from ...scan.model.row_selection import RowRangesByGroup
from ...scan.model.scan_plan import RowGroupPlan
from ...scan.plan_report import PruneReport
from ...scan.scan import find_row_ranges
from ...util.messages import count
from ..command import CommandOptions, command, flag, group, option, usage_error
from ..options.path_options import check_output
from ..options.predicate_options import RequiredPredicate, describe_plan
from ..options.shared_options import OPTIONAL_PATHS
from ..output.output import BAD, GOOD, Output
from ..output.row_formats import STRIPE, Column, text_or_blank

_MAX_RANGES = 4  # shown per row group in a table


def _format_ranges(ranges: list[list[int]] | None) -> str:
    if ranges is None:
        return "-"
    first = [f"{start}-{stop - 1}" for start, stop in ranges[:_MAX_RANGES]]
    return ", ".join(first + [f"{len(ranges) - _MAX_RANGES:,} more"] * (len(ranges) > _MAX_RANGES)) or "none"


COLUMNS = (
    Column("file", "file"),
    Column("row_group", "row group", right=True),
    STRIPE,
    Column("read", "", text=lambda value: "read" if value else "skip"),
    Column("num_rows", "rows", right=True),
    Column("row_ranges", "row ranges", text=_format_ranges, usual=lambda row: row["row_ranges"] is None),
    Column("by", "by", text=lambda value: "+".join(value) or "-"),
    Column("reason", "reason", text=text_or_blank, usual=lambda row: not row["reason"], folds=True),
    Column("doubts", "doubts", text=text_or_blank, usual=lambda row: not row["doubts"], folds=True),
)


class PruneOptions(CommandOptions):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    predicate = group(RequiredPredicate)
    html: str | None = option(
        "FILE",
        "Also write a self-contained HTML page. It has a picture of files and row groups, and the quality of the "
        "filters. This reads the filters, at most 64 MiB of them.",
    )
    check: bool = flag(
        "With --html: read the predicate's columns where rows may match, and show where rows do match, and which row "
        "groups are read in vain."
    )
    asked_fpp: float | None = option(
        "FPP",
        "With --html: the false-positive probability the filters were embedded with, for comparison.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
    )


@command("prune", PruneOptions)
def prune(output: Output, given: PruneOptions) -> int:
    """Show which files and row groups can hold a matching row, and what rules out the others.

    The decision uses statistics and Bloom filters, partition folders such as day=2026-01-31, what a table's metadata
    says of its files, and an index of the lake. Files ruled out by folders ("partition"), the table's metadata
    ("table") or the index ("index") are not opened, and take one row of output. Row ranges are those that page
    indexes and zones do not rule out. Row groups of ORC files are numbered across stripes. When in doubt, a row group
    is read, and the doubt is reported.

    Exit codes: 0 rows may match, 1 no row can, 2 error: a file could not be read, so matches may be missing.

    Example:
      parquet-bloom prune lake/ --where "user_id = 42 AND day IN ('2024-01-01', '2024-01-02')"
      parquet-bloom prune lake/ --where "user_id = 42" --html prune.html --check
      parquet-bloom prune lake/ --where "trace = 'f00d'" --format csv | grep ,true,
      parquet-bloom prune --index lake.index --where "trace = 'f00d'"
    """
    predicate, html = given.predicate, given.html
    if html is None and (given.check or given.asked_fpp is not None):
        raise usage_error("--check and --asked-fpp are about the page of --html")
    node = parse(predicate.where, predicate.dialect)
    with ExitStack() as stack:
        inputs, index = stack.enter_context(predicate.resolve_files(given.paths, output))
        if html is not None:
            check_output(inputs.files, html)
        rows = stack.enter_context(output.rows("row_groups", COLUMNS))
        footers = stack.enter_context(predicate.open_footer_cache())
        report = predicate.prune(output, inputs, node, footers, index)
        with output.progress(report.selected_files) as bar, output.step("page indexes"):
            ranges = find_row_ranges(report, cache=footers, on_error=output.fail, progress=bar.update)
        if html is not None:
            with output.progress(len(inputs.files)) as bar, output.step("picture"):
                options: dict[str, Any] = {"check": given.check, "asked_fpp": given.asked_fpp}
                report.to_html(html, filesystem=output.filesystem, progress=bar.update, **options)
        for file in report.files:
            if file.unopened:
                file_plan = RowGroupPlan(-1, False, frozenset({file.unopened_by}), file.unopened)
                rows.add(_row(file.path, file_plan, None) | {"row_group": None, "num_rows": None})
            file_ranges = ranges.get(file.path, {})
            rows.add_all(_row(file.path, one, file_ranges.get(one.row_group)) for one in file.row_groups)
        rows.facts |= {"where": report.where, "totals": report.to_dict()} | inputs.facts
    output.summary(describe_plan(report))
    return output.exit_code(GOOD if _can_match(report, ranges) else BAD)


def _can_match(report: PruneReport, ranges: dict[str, RowRangesByGroup]) -> bool:
    """Return whether a row may match: a file is selected, and its page indexes, if read, do not rule out all rows."""
    return any(file.selected and any(ranges.get(file.path, {0: [(0, 1)]}).values()) for file in report.files)


def _row(path: str, decision: RowGroupPlan, ranges: list[tuple[int, int]] | None) -> dict[str, Any]:
    selected = None if ranges is None or ranges == [(0, decision.num_rows)] else ranges
    reason = decision.reason
    if selected is not None:
        num_selected = sum(stop - start for start, stop in selected)
        source = "pages" if decision.rows is None else "zones" if selected == [*decision.rows] else "pages and zones"
        reason = f"its {source} leave {num_selected:,} of {count(decision.num_rows, 'row')}"
    return {
        "file": path,
        "row_group": decision.row_group,
        "stripe": decision.stripe,
        "read": decision.read,
        "num_rows": decision.num_rows,
        "row_ranges": None if selected is None else [list(span) for span in selected],
        "by": sorted(decision.by),
        "reason": reason or None,
        "doubts": list(decision.doubts),
    }
