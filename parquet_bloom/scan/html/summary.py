"""The figures above the heat map, and the notes below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...util.messages import count, format_bytes, truncate_list
from ..model.scan_plan import ScanPlan, describe_unopened
from .details import PlanDetails

_MIN_BYTES, _MIN_SECONDS = 1_000_000, 0.02  # less does not give a rate


class Totals(NamedTuple):
    """Bytes and rows of all known row groups, and of those that are read.

    Attributes
    ----------
    num_bytes, read_bytes : of all columns.
    predicate_bytes, predicate_bytes_read : of the predicate's columns.
    matches, matched, vain : matching rows, row groups with some, and row groups that were read and have none.
    """

    num_bytes: int
    read_bytes: int
    predicate_bytes: int
    predicate_bytes_read: int
    matches: int
    matched: int
    vain: int


def sum_totals(report: ScanPlan, details: PlanDetails) -> Totals:
    """Sum up the details of all files."""
    num_bytes = read_bytes = predicate_bytes = predicate_bytes_read = matches = matched = vain = 0
    for file in report.files:
        for plan, group in zip(file.row_groups, details.files.get(file.path, ()), strict=False):
            num_bytes += group.num_bytes
            predicate_bytes += group.predicate_bytes
            if plan.read:
                read_bytes += group.num_bytes
                predicate_bytes_read += group.predicate_bytes
                matches += group.matches or 0
                matched += bool(group.matches)
                vain += group.matches == 0
    return Totals(num_bytes, read_bytes, predicate_bytes, predicate_bytes_read, matches, matched, vain)


def summary_figures(report: ScanPlan, details: PlanDetails | None) -> Iterator[tuple[str, str, str]]:
    """Yield the figures above the heat map: (label, number, remark)."""
    yield "files read", f"{report.selected_files:,}", f"of {report.total_files:,}"
    yield "row groups read", f"{report.selected_row_groups:,}", f"of {report.total_row_groups:,}"
    if details is not None:
        totals = sum_totals(report, details)
        if totals.num_bytes:
            skipped = totals.num_bytes - totals.read_bytes
            yield (
                "bytes skipped",
                format_share(skipped, totals.num_bytes),
                f"{format_bytes(skipped)} of {format_bytes(totals.num_bytes)}",
            )
        if details.checked:
            yield "rows that match", f"{totals.matches:,}", f"in {count(totals.matched, 'row group')}"
            yield "read in vain", f"{totals.vain:,}", f"of {count(totals.matched + totals.vain, 'row group')}"
    if report.requests:
        yield (
            "cost of deciding",
            format_bytes(report.bytes_read),
            f"in {count(report.requests, 'request')}",
        )


def format_share(part: int, total: int) -> str:
    """Format a percentage that is never rounded up to 100, or down to 0."""
    if part in (0, total):
        return f"{100 * part // total} %"
    return f"{min(99.99, max(0.01, 100 * part / total)):.{1 if part / total < 0.99 else 2}f} %"


def describe_notes(report: ScanPlan, details: PlanDetails) -> Iterator[str]:
    """Yield notes on how to read the figures."""
    totals = sum_totals(report, details)
    yield "Bytes are those of the column chunks as the footers give them, compressed, all columns together."
    if report.unopened_files:
        causes = "; ".join(describe_unopened(report))
        yield f"{report.unopened_files:,} files were not opened ({causes}): their row groups are not counted."
    for doubt in report.index_doubts:
        yield f"The index is doubtful, so more may be read than necessary: {doubt}"
    for doubt in truncate_list(report.zone_doubts):
        yield f"Zones are not used, so more may be read than necessary: {doubt}"
    if details.checked:
        yield _describe_time(totals, details.seconds)
    else:
        yield "No data was read: whether rows match in the row groups that are read is not known."
    if details.problems:
        more = f"; {len(details.problems) - 3:,} more" if len(details.problems) > 3 else ""
        yield f"Without details, as files could not be read again: {'; '.join(details.problems[:3])}{more}."


def _describe_time(totals: Totals, seconds: float) -> str:
    read, skipped = totals.predicate_bytes_read, totals.predicate_bytes - totals.predicate_bytes_read
    cost = f"To look for matches, {format_bytes(read)} of the predicate's columns took {seconds:.2f} s."
    if read < _MIN_BYTES or seconds < _MIN_SECONDS:
        return f"{cost} That is too little to estimate a rate, and the time saved."
    more = skipped / read * seconds
    return (
        f"{cost} At that rate, the {format_bytes(skipped)} of these columns that were skipped would have taken about "
        f"{more:,.{0 if more >= 10 else 1}f} s more: an estimate, for this predicate and this machine."
    )
