"""The interface of evaluators, each of which narrows what is read of files by one source of evidence."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Literal, Protocol

from ...predicate.pruning import PruningPredicate
from ..model.file_scan import FileScan
from ..model.plan import ScanPlan


class Evaluator(Protocol):
    """One link of the chain that plans a scan; `planner.plan_scan` puts the chain together."""

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
