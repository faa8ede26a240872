"""Evaluation of footers and filters for a scan, as far as Spark reads a file's columns as they are stored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE
from ...predicate.reason import MISSING, Reason
from ...predicate.tree import Node
from ...redaction import redacted, shown_redacted
from ...scan.model.partitions import Partitions, Residuals
from ...scan.model.plan import Evaluator, FilePlan, RowGroupPlan
from ...scan.options import ScanOptions
from ...scan.plan.planner import plan_scan
from ...scan.report import PruneReport
from ...storage import Entry
from .trust import SparkCompatibility


@shown_redacted
@dataclass
class Scan:
    """Result of pruning the files of a scan.

    Attributes
    ----------
    report : a plan for each file, in the given order.
    unreadable : {file: problem} of files that are left to Spark.
    """

    report: PruneReport
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def untrusted(self) -> bool:
        """Return whether filters among the selected row groups may mislead Spark's own tasks.

        They are broken, or Spark shows their column as another value than is stored. All filters that matter to a row
        group were probed, so its warnings are complete.
        """
        return any(doubt.kind != MISSING for _, _, doubt in self.report.doubts)

    def mark_unreadable(self, files: Collection[str], problem: str) -> None:
        """Leave files to Spark about which nothing reliable is known after all."""
        self.unreadable.update(dict.fromkeys(files, problem))
        file_plans = self.report.files
        self.report.files = [
            _make_unreadable_plan(file_plan.path, self.unreadable) if file_plan.path in files else file_plan
            for file_plan in file_plans
        ]

    def __str__(self) -> str:
        return str(self.report)


def scan_files(
    files: Sequence[str],
    node: Node | None,
    compatibility: SparkCompatibility,
    *,
    filesystem: Any = None,
    residuals: Residuals | None = None,
    footers: Evaluator | None = None,
    index: Evaluator | None = None,
) -> Scan:
    """Plan a scan of files; a file that cannot be read is selected, so that Spark reports the error.

    Parameters
    ----------
    files : paths on `filesystem`.
    node : the predicate, with the literals that Spark compares the columns with; None if all rows match.
    compatibility : decides which columns Spark reads as they are stored.
    filesystem : as for `parquet_bloom.prune`.
    residuals : what partition values leave of the predicate for each file; None for the whole predicate.
    footers, index : as for `plan_scan`.
    """
    problems: dict[str, str] = {}

    def record(error: ParquetBloomError) -> None:
        problems[error.path or ""] = error.problem  # its path is redacted

    plan = plan_scan(
        [Entry(file) for file in files],
        node,
        Partitions(()),
        ScanOptions(
            "UTC",  # literals without a time zone are compared with columns without one
            compatibility.rules.ignore_case,
            on_error=record,
            named=lambda _: True,
            trust=compatibility,
        ),
        PruneReport,
        filesystem=filesystem,
        cache=SHARED_CACHE,
        residuals=residuals,
        footers=footers,
        index=index,
    )
    file_plans = {file_plan.path: file_plan for file_plan in plan.files}
    plan.files = [file_plans.get(file) or _make_unreadable_plan(file, problems) for file in files]
    unreadable = {file: problems.get(redacted(file), "it cannot be read") for file in files if file not in file_plans}
    return Scan(plan, unreadable)


def _make_unreadable_plan(file: str, problems: dict[str, str]) -> FilePlan:
    """Return the plan of a file that could not be read: one unknown row group."""
    return FilePlan(file, (RowGroupPlan(0, True, doubts=(Reason(problems.get(redacted(file), "it cannot be read")),)),))
