"""Phrases about plans that several outputs share."""

from __future__ import annotations

from ...util.wording import count, count_of, format_bytes
from .plan import INDEX, PARTITION, TABLE, ScanPlan


def summarize(plan: ScanPlan, *, is_complete: bool = True) -> str:
    """Return a plan in one line: what is read, what is skipped unopened, and what planning cost.

    Parameters
    ----------
    is_complete : False if not all that was planned was read.
    """
    parts = [
        f"{'read' if is_complete else 'planned to read'} {count_of(plan.selected_files, plan.total_files, 'file')}, "
        f"{count_of(plan.selected_row_groups, plan.total_row_groups, 'row group')}"
    ]
    parts += describe_unopened(plan)
    if plan.index_doubts:
        parts.append("the index is doubtful")
    parts += describe_zones(plan)
    parts += describe_cost(plan)
    return "; ".join(parts)


def describe_cost(plan: ScanPlan) -> list[str]:
    """Return what was read to make a plan, and of the data by it so far."""
    costs = [(plan.requests, plan.bytes_read, ""), (plan.data_requests, plan.data_bytes_read, " of data")]
    phrases = [
        f"{count(requests, 'request')}, {format_bytes(size)}{what}" for requests, size, what in costs if requests
    ]
    if plan.requests and plan.data_requests:
        phrases[0] += " to plan"
    return phrases


def describe_unopened(plan: ScanPlan) -> list[str]:
    """Return how many files were not opened, a phrase for each cause."""
    causes = {
        PARTITION: "in other partitions",
        TABLE: "ruled out by the table's metadata",
        INDEX: "ruled out by the index",
    }
    counts = plan.unopened_by
    return [f"{count(counts[cause], 'file')} {phrase}" for cause, phrase in causes.items() if cause in counts]


def describe_zones(plan: ScanPlan) -> list[str]:
    """Return what the zone indexes contributed; empty if no zones were used."""
    zoned = [group for file in plan.files for group in file.row_groups if group.read and group.rows is not None]
    phrases = []
    if zoned:
        num_rows = sum(group.num_rows for group in zoned)
        phrases.append(f"zones leave {count_of(sum(group.num_left for group in zoned), num_rows, 'row')} of these")
    return phrases + ["zones are not used" for _ in plan.zone_doubts[:1]]
