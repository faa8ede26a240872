"""Which files and row groups can hold a match: footers and filters, held against what Spark makes of the files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate.tree import Node
from ...redaction import redacted, shown_redacted
from ...scan.evaluate.planner import plan_scan
from ...scan.model.partitions import Partitions
from ...scan.model.plan import FilePlan, RowGroupPlan
from ...scan.model.residual import Residuals
from ...scan.report import PruneReport
from ...storage import Entry
from .parquet_columns import NO_COLUMN
from .trust import SparkCompatibility


@shown_redacted
@dataclass
class Scan:
    """What pruning found.

    Attributes
    ----------
    report : a decision for each file, in the order given.
    unreadable : {file: problem} of files that are left to Spark.
    """

    report: PruneReport
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def untrusted(self) -> bool:
        """Whether filters among the selected row groups may mislead Spark's own tasks.

        They are broken, or their column is shown as something else than it is stored as. All filters that have a say
        on a row group were asked, so its doubts tell.
        """
        return any(not doubt.endswith(NO_COLUMN) for _, _, doubt in self.report.doubts)

    def distrust(self, files: Collection[str], problem: str) -> None:
        """Leave files to Spark about which nothing is known after all."""
        self.unreadable.update(dict.fromkeys(files, problem))
        decisions = self.report.files
        self.report.files = [_unknown(one.path, self.unreadable) if one.path in files else one for one in decisions]

    def __str__(self) -> str:
        return str(self.report)


def scan_files(
    files: Sequence[str],
    node: Node,
    trust: SparkCompatibility,
    *,
    filesystem: Any = None,
    left: Residuals | None = None,
    cache: MetadataCache | None = SHARED_CACHE,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Scan:
    """Decide file by file; a file that cannot be read is selected, so that Spark says what is wrong.

    Parameters
    ----------
    files : paths, as `filesystem` takes them.
    node : the predicate, with the values that Spark compares the columns with.
    trust : what Spark makes of a file's columns.
    filesystem : as `parquet_bloom.prune` takes it.
    left : what the files' folders have left of the predicate; None for all.
    cache, threads, progress : as for `parquet_bloom.prune`.
    """
    problems: dict[str, str] = {}

    def note(error: ParquetBloomError) -> None:
        problems[error.path or ""] = error.problem  # of which the path is redacted

    plan = plan_scan(
        [Entry(file) for file in files],
        node,
        Partitions(()),
        filesystem=filesystem,
        timezone="UTC",  # literals without a zone are of columns without one
        cache=cache,
        ignore_case=trust.rules.ignore_case,
        progress=progress,
        on_error=note,
        threads=threads,
        named=lambda _: True,
        trust=trust,
        left=left,
    )
    decided = {decision.path: decision for decision in plan.files}
    plan.files = [decided.get(file) or _unknown(file, problems) for file in files]
    unreadable = {file: problems.get(redacted(file), "it cannot be read") for file in files if file not in decided}
    return Scan(PruneReport.of(plan), unreadable)


def _unknown(file: str, problems: dict[str, str]) -> FilePlan:
    """A file that could not be read is one unknown row group."""
    return FilePlan(file, (RowGroupPlan(0, True, doubts=(problems.get(redacted(file), "it cannot be read"),)),))
