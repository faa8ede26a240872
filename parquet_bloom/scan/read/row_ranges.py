"""Find the rows of the selected row groups that can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE
from ..model.columns import FileResidualEvaluator
from ..model.plan import ScanPlan
from ..model.row_selection import RowRangesByGroup
from .open import open_file


def find_row_ranges(
    report: ScanPlan,
    *,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, RowRangesByGroup]:
    """Find the rows that can match in the row groups that a report of `prune` has selected; see `row_ranges`.

    The cost of reading page indexes is added to the report's requests and bytes.

    Parameters
    ----------
    on_error : called with the error of a file that can no longer be read, which is then left out; without it, the
        error is raised.
    progress : called after each file with (done, in all).
    """
    request = report.asked
    assert request is not None, "the report is not prune's"
    residuals = report.partitions.make_residuals(
        request.node, request.timezone, ignore_case=request.ignore_case, strict=False
    )
    evaluator = FileResidualEvaluator(residuals, request.timezone, request.ignore_case)
    ranges: dict[str, RowRangesByGroup] = {}
    plans = [plan for plan in report.files if plan.selected]
    for done, plan in enumerate(plans):
        try:
            with open_file(plan.path, report.filesystem, SHARED_CACHE) as file:
                requests, num_bytes = file.source.requests, file.source.bytes_read
                predicate = evaluator.predicate_for(file)
                ranges[plan.path] = {
                    row_group: file.select_rows(row_group, predicate, selection)
                    for row_group, selection in plan.selections_in(file)
                }
                report.requests += file.source.requests - requests
                report.bytes_read += file.source.bytes_read - num_bytes
        except ParquetBloomError as error:
            if on_error is None:
                raise
            on_error(error)
        if progress:
            progress(done + 1, len(plans))
    return ranges
