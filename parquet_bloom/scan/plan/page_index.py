"""Evaluate page indexes: the rows of the selected row groups that can match, by the statistics of their pages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from ...errors import ParquetBloomError
from ..model.data_file import DataFile
from ..model.partitions import FileResidualEvaluator
from ..model.plan import FilePlan, FileScan, RowGroupPlan, ScanPlan
from ..model.row_selection import RowGroupSelections, RowSelection


@dataclass(frozen=True)
class PageIndexEvaluator:
    """Narrows the rows of selected row groups to the pages that can match; a file that has changed is selected whole.

    Attributes
    ----------
    open_file : opens the file of a path.
    predicates : the predicate of each open file.
    select_live : takes the rows that a table has deleted out of a selection; None for files of no table.
    """

    open_file: Callable[[str], DataFile]
    predicates: FileResidualEvaluator
    select_live: Callable[[DataFile, FilePlan, RowGroupSelections], RowGroupSelections] | None = None

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`; a file that can no longer be read has an error in place of its plan."""
        for file in files:
            if file.plan is not None and file.plan.selected:
                try:
                    file.plan = self._narrow(file, file.plan)
                except ParquetBloomError as error:
                    file.plan, file.error = None, error
            yield file

    def _narrow(self, file: FileScan, plan: FilePlan) -> FilePlan:
        with self.open_file(plan.path) as opened:
            source, predicate = opened.source, self.predicates.predicate_for(opened)
            requests, bytes_read = source.requests, source.bytes_read
            selections = plan.selections_in(opened)
            rows: dict[int, RowSelection] = {row_group: () for row_group, _ in selections}
            live = selections if self.select_live is None else self.select_live(opened, plan, selections)
            for row_group, selection in live:
                rows[row_group] = tuple(opened.select_rows(row_group, predicate, selection))
            file.requests += source.requests - requests
            file.bytes_read += source.bytes_read - bytes_read
            if plan.identity is None or source.identity == plan.identity:
                narrowed = [replace(one, rows=rows[one.row_group]) if one.read else one for one in plan.row_groups]
            else:
                narrowed = [
                    RowGroupPlan(row_group, True, num_rows=opened.num_rows_of(row_group), rows=selection)
                    for row_group, selection in rows.items()
                ]
            return replace(plan, row_groups=tuple(narrowed), identity=source.identity)
