"""Evaluate partition values: they rule files out unopened, and leave each other file a part of the predicate."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Literal

from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ..model.file_scan import FileScan
from ..model.plan import PARTITION, ScanPlan
from ..model.residual import Residuals


class PartitionEvaluator:
    """Gives each file its residual as a predicate; files with the same residual share one object.

    Parameters
    ----------
    node : the predicate of the scan; None if all rows match.
    residuals : what partition values leave of it.
    timezone : zone of literals without one.
    """

    def __init__(self, node: Node | None, residuals: Residuals, timezone: str):
        self._residuals = residuals
        self._timezone = timezone
        self._predicate = None if node is None else PruningPredicate(node, timezone)
        self._predicates = {} if self._predicate is None else {id(node): self._predicate}

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`."""
        common: PruningPredicate | Literal[True] | None = None
        if self._predicate is None or self._residuals.is_unchanged:
            common = True if self._predicate is None else self._predicate
        for file in files:
            predicate = common or self._predicate_for(file.entry.path)
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
