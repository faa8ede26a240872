"""Files asked by Spark's executors: for storage that only they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
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
    trust: SparkCompatibility,
    storage: ExecutorStorage,
    left: Residuals | None = None,
) -> Scan:
    """`scan_files` as a job of Spark's.

    Parameters
    ----------
    files : paths with nothing encoded in them.
    storage : how the tasks read them.

    Raises
    ------
    Doubt
        The job failed.
    """
    of_files = {} if left is None or left.whole else {file: left.of(file) for file in files}
    inside = [file for file in files if of_files.get(file) is not False]
    work = _Work(node, trust, storage, of_files)
    try:
        outcomes = jobs.run(spark, "pruning", inside, work, storage.options)
    except ParquetBloomError as error:
        raise CannotPush(str(error)) from error
    report, unreadable = PruneReport(str(node)), {}
    asked = {outcome.path: outcome for outcome in outcomes}
    for file in files:
        outcome = asked.get(file)
        if outcome is None:
            report.files.append(FilePlan(file, (), left.told(file) if left else ""))
            continue
        if outcome.result is None:
            raise CannotPush(outcome.error or "a task told nothing")
        decision, problem = outcome.result
        report.files.append(decision)
        if problem is not None:
            unreadable[file] = problem
    return Scan(report, unreadable)


@dataclass(frozen=True)
class _Work:
    """What a task runs: a decision on a file, and why it could not be read."""

    node: Node
    trust: SparkCompatibility
    storage: ExecutorStorage
    of_files: dict[str, Node | bool]

    def __call__(self, path: str) -> tuple[FilePlan, str | None]:
        located, filesystem = self.storage.locate(path)
        known = _Known(self.of_files[path]) if path in self.of_files else None
        scan = scan_files([located], self.node, self.trust, filesystem=filesystem, left=known)
        (decision,) = scan.report.files
        return replace(decision, path=path, identity=None), scan.unreadable.get(located)


@dataclass(frozen=True)
class _Known:
    """`prune.plan.Left` of one file."""

    left: Node | bool
    doubts: tuple[str, ...] = ()
    whole: bool = False

    def of(self, path: str) -> Node | bool:
        return self.left

    def told(self, path: str) -> str:
        return ""
