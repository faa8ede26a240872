"""A look at one file: what is asked of it, and what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ParquetBloomError
from ...file.statistics import FileStatistics
from ...predicate.pruning import PruningPredicate
from .decision import FilePlan

if TYPE_CHECKING:
    from .residual import Residuals


class ResidualEvaluator:
    """The decider of each file: what its folders have left of a predicate.

    Attributes
    ----------
    residuals : what they have left.
    of_all : the decider of all files, where folders have nothing to say.
    """

    def __init__(self, decider: PruningPredicate, residuals: Residuals, timezone: str):
        self.residuals = residuals
        self.of_all = decider if residuals.whole else None
        self._timezone = timezone
        self._known = {id(decider.node): decider}

    def of(self, path: str) -> PruningPredicate | bool:
        """True where every row of the file matches, False where none does."""
        left = self.residuals.of(path)
        if isinstance(left, bool):
            return left
        if id(left) not in self._known:
            self._known.setdefault(id(left), PruningPredicate(left, self._timezone))
        return self._known[id(left)]


@dataclass(slots=True)
class FileScanResult:
    """What a look at one file found: a decision, and what it was made of where that is known, or an error."""

    missing: tuple[str, ...] | None = None
    decision: FilePlan | None = None
    error: ParquetBloomError | None = None
    requests: int = 0
    bytes_read: int = 0
    facts: FileStatistics | None = None
