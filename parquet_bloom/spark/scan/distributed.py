"""Evaluation of files on Spark's executors, for storage that only they can access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...predicate.reason import Reason
from ...predicate.tree import Node
from ...scan.model.plan import FilePlan
from ...scan.model.residual import Residuals
from ...scan.report import PruneReport
from ..jobs import run as jobs
from ..session.fallback import CannotPush
from ..session.storage import ExecutorStorage
from .scan import Scan, scan_files
from .trust import SparkCompatibility


def scan_on_executors(
    spark: SparkSession,
    files: Sequence[str],
    node: Node,
    compatibility: SparkCompatibility,
    storage: ExecutorStorage,
    residuals: Residuals | None = None,
) -> Scan:
    """Run `scan_files` as a Spark job.

    Parameters
    ----------
    files : decoded paths.
    storage : how the tasks read the files.
    residuals : see `scan_files`.

    Raises
    ------
    CannotPush
        The job failed.
    """
    residual_by_file = {} if residuals is None or residuals.whole else {file: residuals.of(file) for file in files}
    candidates = [file for file in files if residual_by_file.get(file) is not False]
    task = _ScanTask(node, compatibility, storage, residual_by_file)
    try:
        outcomes = jobs.run(spark, "pruning", candidates, task, storage.options)
    except ParquetBloomError as error:
        raise CannotPush(str(error)) from error
    report, unreadable = PruneReport(str(node)), {}
    outcome_by_file = {outcome.path: outcome for outcome in outcomes}
    for file in files:
        outcome = outcome_by_file.get(file)
        if outcome is None:
            report.files.append(FilePlan(file, (), residuals.told(file) if residuals else ""))
            continue
        if outcome.result is None:
            raise CannotPush(outcome.error or "a task returned no result")
        file_plan, problem = outcome.result
        report.files.append(file_plan)
        if problem is not None:
            unreadable[file] = problem
    return Scan(report, unreadable)


@dataclass(frozen=True)
class _ScanTask:
    """Task that plans one file, and reports why a file could not be read."""

    node: Node
    compatibility: SparkCompatibility
    storage: ExecutorStorage
    residual_by_file: dict[str, Node | bool]

    def __call__(self, path: str) -> tuple[FilePlan, str | None]:
        located, filesystem = self.storage.locate(path)
        residual = _FileResidual(self.residual_by_file[path]) if path in self.residual_by_file else None
        scan = scan_files([located], self.node, self.compatibility, filesystem=filesystem, residuals=residual)
        (file_plan,) = scan.report.files
        return replace(file_plan, path=path, identity=None), scan.unreadable.get(located)


@dataclass(frozen=True)
class _FileResidual:
    """`scan.model.residual.Residuals` of one file."""

    residual: Node | bool
    doubts: tuple[Reason, ...] = ()
    whole: bool = False

    def of(self, path: str) -> Node | bool:
        return self.residual

    def told(self, path: str) -> str:
        return ""
