"""The planning of one file: what is known of it so far, and in the end its plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ...errors import ParquetBloomError
from ...file.statistics import FileStatistics
from ...predicate.pruning import PruningPredicate
from ...storage import Entry
from .plan import FilePlan


@dataclass(slots=True)
class FileScan:
    """One file on its way through the evaluators.

    Attributes
    ----------
    entry : the file.
    predicate : what remains of the scan's predicate, so that it is over columns of the file; True if all rows match.
    plan : the file's plan; None until an evaluator makes one.
    error : why the file could not be read.
    missing : columns of the predicate that the file does not have; None if that is unknown.
    requests, bytes_read : what was read of the file.
    statistics : the statistics that the plan was made from; None for ORC files and files that were not opened.
    narrow : what was learned of the row groups before the file was opened, to apply to its plan; None for nothing.
    """

    entry: Entry
    predicate: PruningPredicate | Literal[True] = True
    plan: FilePlan | None = None
    error: ParquetBloomError | None = None
    missing: tuple[str, ...] | None = None
    requests: int = 0
    bytes_read: int = 0
    statistics: FileStatistics | None = None
    narrow: Callable[[FilePlan], FilePlan] | None = None

    @property
    def undecided(self) -> bool:
        """Whether the file has neither a plan nor an error yet."""
        return self.plan is None and self.error is None

    def rule_out(self, reason: str, by: str) -> None:
        """Plan not to open the file; `by` is as in `FilePlan.unopened_by`."""
        self.missing = ()
        self.plan = FilePlan(self.entry.path, (), reason, unopened_by=by)

    def set_plan(self, plan: FilePlan) -> None:
        """Set the plan by the file's own evidence, narrowed by what was learned before."""
        self.plan = plan if self.narrow is None else self.narrow(plan)
