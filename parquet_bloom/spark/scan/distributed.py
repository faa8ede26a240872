"""Evaluation of files on Spark's executors, for storage that only they can access."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...predicate.tree import Node
from ...scan.model.plan import FilePlan, FileScan, ScanPlan
from ..jobs import run as jobs
from ..session.fallback import CannotPush
from ..session.storage import ExecutorStorage
from .scan import scan_files
from .trust import SparkCompatibility


@dataclass(frozen=True)
class ExecutorEvaluator:
    """Plans files, given by their decoded paths, by what is in them, in a Spark job.

    Attributes
    ----------
    compatibility : see `scan_files`.
    storage : how the tasks read the files.
    """

    spark: SparkSession
    compatibility: SparkCompatibility
    storage: ExecutorStorage

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `scan.model.plan.Evaluator`.

        Raises
        ------
        CannotPush
            The job failed.
        """
        scans = [*files]
        nodes = {
            file.entry.path: None if file.predicate is True else file.predicate.node for file in scans if file.undecided
        }
        node = None if plan.asked is None else plan.asked.node
        residuals = {path: residual for path, residual in nodes.items() if residual is not node}
        task = _ScanTask(node, self.compatibility, self.storage, residuals)
        try:
            outcomes = jobs.run(self.spark, "pruning", list(nodes), task, self.storage.options, on_executors=True)
        except ParquetBloomError as error:
            raise CannotPush(str(error)) from error
        outcome_by_file = {outcome.path: outcome for outcome in outcomes}
        for file in scans:
            outcome = outcome_by_file.get(file.entry.path)
            if outcome is not None:
                if outcome.result is None:
                    raise CannotPush(outcome.error or "a task returned no result")
                file_plan, problem = outcome.result
                if problem is None:
                    file.set_plan(file_plan)
                else:
                    file.error = ParquetBloomError(problem, path=file.entry.path)
            yield file


@dataclass(frozen=True)
class _ScanTask:
    """Task that plans one file, and reports why a file could not be read.

    Attributes
    ----------
    node : the predicate; None if all rows match.
    residuals : {path: what remains of it} where it is another one.
    """

    node: Node | None
    compatibility: SparkCompatibility
    storage: ExecutorStorage
    residuals: Mapping[str, Node | None]

    def __call__(self, path: str) -> tuple[FilePlan, str | None]:
        located, filesystem = self.storage.locate(path)
        node = self.residuals.get(path, self.node)
        scan = scan_files([located], node, self.compatibility, filesystem=filesystem)
        (file_plan,) = scan.report.files
        return replace(file_plan, path=path, identity=None), scan.unreadable.get(located)
