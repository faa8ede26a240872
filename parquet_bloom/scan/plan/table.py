"""Evaluate what a table's metadata says of its files: bounds and null counts, before any file is opened."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..model.plan import TABLE, FileScan, ScanPlan, group_by_predicate

if TYPE_CHECKING:
    from ...tables.snapshot import TableSnapshot


class TableEvaluator:
    """Rules out files by the statistics in the metadata of their table.

    Parameters
    ----------
    table : the table whose files are scanned.
    """

    def __init__(self, table: TableSnapshot):
        self._table = table

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`: all files are evaluated at once."""
        scans = [*files]
        positions: dict[str, int] = {}
        for predicate, members in group_by_predicate(scans):
            if predicate is True:
                continue
            columns = {name: self._table.find_statistics(name) for name in predicate.columns}
            if all(column is None for column in columns.values()):
                continue
            positions = positions or {file.path: i for i, file in enumerate(self._table.files)}
            rows = np.array([positions[file.entry.path] for file in members], np.intp)
            evidence = {name: None if column is None else column.at(rows) for name, column in columns.items()}
            verdicts = predicate.decide_all(evidence, len(members))
            for i in np.flatnonzero(~predicate.possible(verdicts)).tolist():
                members[i].rule_out(f"its table says: {predicate.verdicts[int(verdicts[i])].reason}", TABLE)
        yield from scans
