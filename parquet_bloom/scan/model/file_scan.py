"""The scan of one file: the predicate to evaluate, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...errors import ParquetBloomError
from ...file.statistics import FileStatistics
from ...predicate.pruning import PruningPredicate
from .plan import FilePlan

if TYPE_CHECKING:
    from .residual import Residuals


class ResidualEvaluator:
    """The pruning predicate of each file: of its residual, which its partition values leave of the scan's predicate.

    Attributes
    ----------
    residuals : the residuals.
    common : the predicate of all files, if partition values decide nothing; True if there is no predicate; else None.

    Parameters
    ----------
    predicate : of the scan; None if all rows match.
    """

    def __init__(self, predicate: PruningPredicate | None, residuals: Residuals, timezone: str):
        self.residuals = residuals
        self.common: PruningPredicate | Literal[True] | None = None
        if predicate is None or residuals.whole:
            self.common = True if predicate is None else predicate
        self._timezone = timezone
        self._predicates = {} if predicate is None else {id(predicate.node): predicate}

    def predicate_for(self, path: str) -> PruningPredicate | bool:
        """Return the predicate of a file; True if all of its rows match, False if none does."""
        if self.common is not None:
            return self.common
        residual = self.residuals.of(path)
        if isinstance(residual, bool):
            return residual
        if id(residual) not in self._predicates:
            self._predicates.setdefault(id(residual), PruningPredicate(residual, self._timezone))
        return self._predicates[id(residual)]


@dataclass(slots=True)
class FileScanResult:
    """The result of planning one file: a plan, or an error.

    Attributes
    ----------
    missing : columns of the predicate that the file does not have; None if that is unknown.
    plan : the file's plan.
    error : why the file could not be read.
    requests, bytes_read : what was read of the file.
    statistics : the statistics that the plan was made from; None for ORC files and files that were not opened.
    """

    missing: tuple[str, ...] | None = None
    plan: FilePlan | None = None
    error: ParquetBloomError | None = None
    requests: int = 0
    bytes_read: int = 0
    statistics: FileStatistics | None = None
