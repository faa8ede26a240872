"""Evaluate partition values: they rule files out unopened, and leave each other file a part of the predicate."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Literal

from ...predicate.pruning import PruningPredicate
from ..model.partitions import Residuals
from ..model.plan import PARTITION, FileScan, ScanPlan


class PartitionEvaluator:
    """Gives each file its residual as a predicate; files with the same residual share one object.

    Parameters
    ----------
    predicate : the predicate of the scan, which all files have so far; True if all rows match.
    residuals : what partition values leave of it.
    timezone : zone of literals without one.
    """

    def __init__(self, predicate: PruningPredicate | Literal[True], residuals: Residuals, timezone: str):
        self._residuals = residuals
        self._timezone = timezone
        self._is_unchanged = predicate is True or residuals.is_unchanged
        self._predicates = {} if predicate is True else {id(predicate.node): predicate}

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        for file in files:
            if not self._is_unchanged:
                predicate = self._predicate_for(file.entry.path)
                if predicate is False:
                    file.rule_out(self._residuals.describe(file.entry.path), PARTITION)
                else:
                    file.predicate = predicate
            yield file

    def _predicate_for(self, path: str) -> PruningPredicate | bool:
        residual = self._residuals.find_residual(path)
        if isinstance(residual, bool):
            return residual
        if id(residual) not in self._predicates:
            self._predicates[id(residual)] = PruningPredicate(residual, self._timezone)
        return self._predicates[id(residual)]
