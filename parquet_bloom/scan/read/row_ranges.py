"""Which rows of the surviving row groups can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE
from ..model.columns import FileResidualEvaluator
from ..model.decision import ScanPlan
from .open import open_file

RowRangesByGroup = dict[int, list[tuple[int, int]]]
"""{row group: [(first row, row behind the last one), ...]}"""


def ranges_of(
    report: ScanPlan,
    *,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, RowRangesByGroup]:
    """The rows that can match in the row groups that a report of `prune` has selected; see `row_ranges`.

    What is read of page indexes is added to the report's requests and bytes.

    Parameters
    ----------
    on_error : called with the error of a file that cannot be read any more, which is then left out; without it, the
        error is raised.
    progress : called after each file with (done, in all).
    """
    asked = report.asked
    assert asked is not None, "the report is not prune's"
    left = report.partitions.left_of(asked.node, asked.timezone, ignore_case=asked.ignore_case, strict=False)
    deciders = FileResidualEvaluator(left, asked.timezone, asked.ignore_case)
    found: dict[str, RowRangesByGroup] = {}
    decisions = [decision for decision in report.files if decision.selected]
    for done, decision in enumerate(decisions):
        try:
            with open_file(decision.path, report.filesystem, SHARED_CACHE) as file:
                requests, num_bytes = file.source.requests, file.source.bytes_read
                decider = deciders.of(file)
                of_file = {
                    row_group: file.rows_left(row_group, decider, zoned) for row_group, zoned in decision.left_in(file)
                }
                found[decision.path] = of_file
                report.requests += file.source.requests - requests
                report.bytes_read += file.source.bytes_read - num_bytes
        except ParquetBloomError as error:
            if on_error is None:
                raise
            on_error(error)
        if progress:
            progress(done + 1, len(decisions))
    return found
