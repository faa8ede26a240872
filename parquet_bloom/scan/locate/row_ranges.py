"""Find the rows of the selected row groups that can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate import tree
from ...storage import Entry
from ...tables.footers import as_table_footers
from ..compatibility import DatasetCompatibility
from ..decode.open import open_file
from ..model.partitions import FileResidualEvaluator
from ..model.plan import FileScan, ScanPlan
from ..model.row_selection import RowRangesByGroup
from ..plan.page_index import PageIndexEvaluator
from .deleted_rows import TableRows


def find_row_ranges(
    report: ScanPlan,
    *,
    cache: MetadataCache | None = SHARED_CACHE,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, RowRangesByGroup]:
    """Find the rows that can match in the row groups that a report of `prune` has selected; see `row_ranges`.

    The cost of reading page indexes is added to the report's requests and bytes.

    Parameters
    ----------
    cache : of footers.
    on_error : called with the error of a file that can no longer be read, which is then left out; without it, the
        error is raised.
    progress : called after each file with (done, in all).
    """
    request = report.asked
    assert request is not None, "the report is not prune's"
    table, trust, select_live = report.table, None, None
    if table is not None:
        rows = TableRows(table, request.node, request.timezone, None, report.partitions)
        select_live = rows.select_live
        cache = as_table_footers(cache, table.columns)
        trust = DatasetCompatibility.of(table.schema, [] if request.node is None else [*tree.columns(request.node)])
    evaluator = PageIndexEvaluator(
        lambda path: open_file(path, report.filesystem, cache),
        FileResidualEvaluator(request, report.partitions, trust, strict=False),
        select_live,
    )
    ranges: dict[str, RowRangesByGroup] = {}
    selected = [FileScan(Entry(plan.path), plan=plan) for plan in report.files if plan.selected]
    for done, file in enumerate(evaluator.evaluate(iter(selected), report)):
        report.requests += file.requests
        report.bytes_read += file.bytes_read
        if file.plan is not None:
            ranges[file.entry.path] = {one.row_group: [*(one.rows or ())] for one in file.plan.read_groups}
        elif file.error is not None:
            if on_error is None:
                raise file.error
            on_error(file.error)
        if progress:
            progress(done + 1, len(selected))
    return ranges
