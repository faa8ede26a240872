"""Files on their way through the levels of evidence: what is known of each so far, and in the end its plan."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from ...errors import ParquetBloomError
from ...file.statistics import FileStatistics
from ...predicate.pruning import PruningPredicate
from ...storage import Entry
from .plan import FilePlan, ScanPlan


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


class Evaluator(Protocol):
    """One level of evidence; `plan.planner.plan_scan` has the list of them."""

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """Yield the same files in the same order, each narrowed by this evidence.

        An evaluator that needs no open file passes over files that have a plan already, and either rules a file out
        (`FileScan.rule_out`), or leaves it what it has learned of its row groups (`FileScan.narrow`). A later one
        replaces the plan of a file by one that reads less. On doubt a file stays as it is.

        Parameters
        ----------
        files : taken as they are needed; several may be taken ahead to be evaluated together.
        plan : of the scan, with its request and file system. Cost and doubts of the evidence itself are added to it.
        """


def group_by_predicate(files: Iterable[FileScan]) -> list[tuple[PruningPredicate | Literal[True], list[FileScan]]]:
    """Return the files without a plan by their predicates, to evaluate each of these once."""
    groups: dict[int, tuple[PruningPredicate | Literal[True], list[FileScan]]] = {}
    for file in files:
        if file.plan is None and file.error is None:
            predicate = file.predicate
            group = groups.get(id(predicate))
            if group is None:
                group = groups[id(predicate)] = predicate, []
            group[1].append(file)
    return [*groups.values()]
