"""The numbers above the picture, and the sentences below it: what was measured, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...util.wording import format_bytes, truncate_list
from ..model.decision import ScanPlan
from ..model.wording import describe_unopened
from .details import PlanDetails

_LEAST_BYTES, _LEAST_SECONDS = 1_000_000, 0.02  # from so much on a rate was measured


class Totals(NamedTuple):
    """Bytes and rows of all row groups that are known, and of those that are read.

    Attributes
    ----------
    num_bytes, read_bytes : of all columns.
    asked_bytes, asked_read : of the predicate's columns.
    matches, matched, vain : rows that match, row groups that have some, and those that were read and have none.
    """

    num_bytes: int
    read_bytes: int
    asked_bytes: int
    asked_read: int
    matches: int
    matched: int
    vain: int


def totals_of(report: ScanPlan, look: PlanDetails) -> Totals:
    """Add up what a look at the files found."""
    num_bytes = read_bytes = asked_bytes = asked_read = matches = matched = vain = 0
    for file in report.files:
        for decision, group in zip(file.row_groups, look.files.get(file.path, ()), strict=False):
            num_bytes += group.num_bytes
            asked_bytes += group.asked_bytes
            if decision.read:
                read_bytes += group.num_bytes
                asked_read += group.asked_bytes
                matches += group.matches or 0
                matched += bool(group.matches)
                vain += group.matches == 0
    return Totals(num_bytes, read_bytes, asked_bytes, asked_read, matches, matched, vain)


def summary_facts(report: ScanPlan, look: PlanDetails | None) -> Iterator[tuple[str, str, str]]:
    """What stands above the picture: (what, how much, of how much)."""
    yield "files read", f"{report.selected_files:,}", f"of {report.total_files:,}"
    yield "row groups read", f"{report.selected_row_groups:,}", f"of {report.total_row_groups:,}"
    if look is not None:
        totals = totals_of(report, look)
        if totals.num_bytes:
            skipped = totals.num_bytes - totals.read_bytes
            yield (
                "bytes skipped",
                share(skipped, totals.num_bytes),
                f"{format_bytes(skipped)} of {format_bytes(totals.num_bytes)}",
            )
        if look.checked:
            yield "rows that match", f"{totals.matches:,}", f"in {_groups(totals.matched)}"
            yield "read in vain", f"{totals.vain:,}", f"of {_groups(totals.matched + totals.vain)}"
    if report.requests:
        yield (
            "cost of deciding",
            format_bytes(report.bytes_read),
            f"in {report.requests:,} request{'' if report.requests == 1 else 's'}",
        )


def _groups(count: int) -> str:
    return f"{count:,} row group{'' if count == 1 else 's'}"


def share(part: int, whole: int) -> str:
    """A percentage that is never rounded up to all, or down to nothing."""
    if part in (0, whole):
        return f"{100 * part // whole} %"
    return f"{min(99.99, max(0.01, 100 * part / whole)):.{1 if part / whole < 0.99 else 2}f} %"


def remarks(report: ScanPlan, look: PlanDetails) -> Iterator[str]:
    """What a reader should know of the numbers."""
    totals = totals_of(report, look)
    yield "Bytes are those of the column chunks as the footers give them, compressed, all columns together."
    if report.unopened_files:
        causes = "; ".join(describe_unopened(report))
        yield f"{report.unopened_files:,} files were not opened ({causes}): what they hold is not counted."
    for doubt in report.index_doubts:
        yield f"The index is doubtful, and so more may be read than need be: {doubt}"
    for doubt in truncate_list(report.zone_doubts):
        yield f"Zones are not used, and so more may be read than need be: {doubt}"
    if look.checked:
        yield _time(totals, look.seconds)
    else:
        yield "No data was read: whether rows match in the row groups that are read is not known."
    if look.problems:
        more = f"; {len(look.problems) - 3:,} more" if len(look.problems) > 3 else ""
        yield f"Without details, as files could not be read again: {'; '.join(look.problems[:3])}{more}."


def _time(totals: Totals, seconds: float) -> str:
    read, skipped = totals.asked_read, totals.asked_bytes - totals.asked_read
    told = f"To look for matches, {format_bytes(read)} of the predicate's columns took {seconds:.2f} s."
    if read < _LEAST_BYTES or seconds < _LEAST_SECONDS:
        return f"{told} That is too little to tell a rate by, and so what time was saved."
    more = skipped / read * seconds
    return (
        f"{told} At that rate, the {format_bytes(skipped)} of these columns that were skipped would have taken about "
        f"{more:,.{0 if more >= 10 else 1}f} s more: an estimate, for this predicate and this machine."
    )
