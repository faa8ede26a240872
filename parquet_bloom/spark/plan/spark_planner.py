"""Planner of a scan: where files are evaluated, with which cache, and when it is worth skipping some."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...file.metadata_cache import SHARED_CACHE, MetadataCache
from ...lake.lake_index import LakeIndex
from ...predicate.reason import MISSING, Reason
from ...predicate.tree import Node
from ...redaction import redacted, shown_redacted
from ...scan.model.folder_partitions import Partitions
from ...scan.model.scan_plan import INDEX, Evaluator, FilePlan, FileScan, RowGroupPlan, ScanPlan, SourceListing
from ...scan.plan.file_level import FileEvaluator
from ...scan.plan.plan_scan import NO_EVIDENCE, Evidence, plan_scan
from ...scan.plan_report import PruneReport
from ...scan.scan_options import ScanOptions
from ...storage import Entry
from ..jobs import run_files as jobs
from ..session.hadoop import ExecutorStorage, HadoopFiles, executor_storage, resolve_storage
from ..session.session_settings import CannotPush, find_scheme, listed_path, log
from .column_trust import SparkCompatibility
from .index_evidence import make_index_view

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


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


ProbeOn = Literal["auto", "driver", "executors"]
_REMOTE_THREADS = 32  # they mostly wait for responses
_CHANGED = "it was changed while it was planned"


@dataclass(frozen=True)
class ListedFiles:
    """The files of a scan.

    Attributes
    ----------
    uris : the files as Spark lists them.
    options : options of the reader.
    states : returns size and modification time (ms) of each file, if Spark reports them.
    """

    uris: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    states: Callable[[], list[tuple[int, int]]] | None = None


@dataclass(frozen=True)
class ScanPlanner:
    """Settings by which the files of a scan are evaluated.

    Attributes
    ----------
    probe_on : "driver", by threads; "executors", by a Spark job; "auto" takes the driver, unless it cannot see the
        files.
    max_fraction : if more than this fraction of the files remains, all are read.
    cache : cache of footers; None for the one that the process shares.
    storage_options : settings of the files' store.
    row_groups : whether exactly the row groups that can hold a match are read; "auto" where Spark cannot skip them
        itself, and few remain.
    fresh : whether Spark has just listed the files, so that size and time of each need not be requested again.
    index : index of the lake; files that it excludes are not opened. None for no index.
    """

    probe_on: ProbeOn = "auto"
    max_fraction: float = 0.5
    cache: MetadataCache | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # secrets may be among them
    row_groups: bool | Literal["auto"] = "auto"
    fresh: bool = False
    index: LakeIndex | None = None

    def __post_init__(self) -> None:
        if self.probe_on not in ("auto", "driver", "executors"):
            raise ParquetBloomError(f"probe_on must be one of auto, driver, executors, got {self.probe_on!r}")
        if not isinstance(self.max_fraction, int | float) or not 0 <= self.max_fraction <= 1:
            raise ParquetBloomError(f"max_fraction must be between 0 and 1, got {self.max_fraction!r}")
        if self.row_groups not in (True, False, "auto"):
            raise ParquetBloomError(f"row_groups must be True, False or 'auto', got {self.row_groups!r}")
        if not isinstance(self.cache, MetadataCache | None):
            raise ParquetBloomError(f"cache must be a MetadataCache or None, got {self.cache!r}")
        if not isinstance(self.storage_options, Mapping | None):
            raise ParquetBloomError(f"storage_options must be a mapping or None, got {self.storage_options!r}")

    @property
    def footers(self) -> MetadataCache:
        """The cache in use; the test is for None because an empty cache is false."""
        return SHARED_CACHE if self.cache is None else self.cache

    def scan(
        self,
        spark: SparkSession,
        listed: ListedFiles,
        node: Node,
        compatibility: SparkCompatibility,
        partition_values: pa.Table | None = None,
    ) -> PlannedScan:
        """Plan file by file, in the given order.

        Parameters
        ----------
        partition_values : see `scan_files`.

        Raises
        ------
        CannotPush
            The files cannot be evaluated.
        """
        uris = listed.uris
        if not uris:
            return PlannedScan(PruneReport(str(node)))
        paths, filesystem, footers = self._find_evaluator(spark, listed, compatibility)
        index = None
        if self.index is not None:
            uris_by_path = dict(zip(paths, uris, strict=True))
            index = make_index_view(self.index, uris_by_path, node, compatibility, self.storage_options, listed.states)
        scan = scan_files(
            paths,
            node,
            compatibility,
            filesystem=filesystem,
            partition_values=partition_values,
            evidence=Evidence(footers, index),
        )
        report = scan.report
        for note in report.index_notes:
            log.info("of the index: %s", note)
        for doubt in report.index_doubts:
            log.warning("the index is doubtful: %s", doubt)
        if index is not None:
            log.info("the index excludes %d of %d files", report.unopened_by.get(INDEX, 0), len(uris))
        if isinstance(footers, HadoopEvaluator):
            opened = (file.path for file in report.files if not file.selected and file.unopened_by != INDEX)
            scan.mark_unreadable(footers.files.find_changed(opened), _CHANGED)
        log.info("%s: %s", node, scan)
        for file, problem in scan.unreadable.items():
            log.warning("%s is left to Spark: %s", file, problem)
        return scan

    def _find_evaluator(
        self, spark: SparkSession, listed: ListedFiles, compatibility: SparkCompatibility
    ) -> tuple[list[str], FileSystem | None, Evaluator]:
        """Return the paths of the files, their file system, and what evaluates their footers."""
        uris, options, states = listed.uris, listed.options, listed.states
        if self._on_executors(uris):
            storage = executor_storage(find_scheme(uris[0]), self.storage_options)
            return list(map(listed_path, uris)), None, ExecutorEvaluator(spark, compatibility, storage)
        listed_states = None
        if self.fresh and states is not None and find_scheme(uris[0]) != "file":
            listed_states = {uri: (size, ms * 1_000_000) for uri, (size, ms) in zip(uris, states(), strict=True)}
        paths, filesystem = resolve_storage(spark, uris, self.storage_options, states=listed_states, options=options)
        threads = None if filesystem is None else _REMOTE_THREADS
        ignore_case, on_error = compatibility.rules.ignore_case, lambda _: None  # the scan keeps errors
        asked = ScanOptions(ignore_case=ignore_case, threads=threads, on_error=on_error, trust=compatibility)
        footers = FileEvaluator(filesystem, self.footers, asked)
        handler = getattr(filesystem, "handler", None)
        if isinstance(handler, HadoopFiles):
            return paths, filesystem, HadoopEvaluator(footers, handler, load_states=listed_states is None)
        return paths, filesystem, footers

    def _on_executors(self, uris: Sequence[str]) -> bool:
        if self.probe_on != "auto":
            return self.probe_on == "executors"
        return find_scheme(uris[0]) == "file" and not os.path.exists(listed_path(uris[0]))


@dataclass(frozen=True)
class HadoopEvaluator:
    """Evaluates the footers of files that the JVM reads, whose states it is asked for together.

    Attributes
    ----------
    footers : evaluates them.
    files : the JVM's files.
    load_states : whether their states are not known from a listing.
    """

    footers: FileEvaluator
    files: HadoopFiles
    load_states: bool

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `scan.model.plan.Evaluator`."""
        scans = [*files]
        if self.load_states:
            self.files.load_states(file.entry.path for file in scans if file.undecided)
        yield from self.footers.evaluate(iter(scans), plan)


@shown_redacted
@dataclass
class PlannedScan:
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
    filesystem: FileSystem | None = None,
    partition_values: pa.Table | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> PlannedScan:
    """Plan a scan of files; a file that cannot be read is selected, so that Spark reports the error.

    Parameters
    ----------
    files : paths on `filesystem`.
    node : the predicate, with the literals that Spark compares the columns with; None if all rows match.
    compatibility : decides which columns Spark reads as they are stored.
    filesystem : as for `parquet_bloom.prune`.
    partition_values : a row for each file, a column for each name in the predicate that is a partition column.
    evidence : as for `plan_scan`.
    """
    partitions = Partitions(())
    if partition_values is not None:
        partitions = Partitions.of_table(files, partition_values, "its folder")
    problems: dict[str, str] = {}

    def record(error: ParquetBloomError) -> None:
        problems[error.path or ""] = error.problem  # its path is redacted

    plan = plan_scan(
        SourceListing([Entry(file) for file in files], filesystem, partitions),
        node,
        ScanOptions(
            "UTC",  # literals without a time zone are compared with columns without one
            compatibility.rules.ignore_case,
            on_error=record,
            named=lambda _: True,
            trust=compatibility,
        ),
        PruneReport,
        SHARED_CACHE,
        evidence,
    )
    file_plans = {file_plan.path: file_plan for file_plan in plan.files}
    plan.files = [file_plans.get(file) or _make_unreadable_plan(file, problems) for file in files]
    unreadable = {file: problems.get(redacted(file), "it cannot be read") for file in files if file not in file_plans}
    return PlannedScan(plan, unreadable)


def _make_unreadable_plan(file: str, problems: dict[str, str]) -> FilePlan:
    """Return the plan of a file that could not be read: one unknown row group."""
    return FilePlan(file, (RowGroupPlan(0, True, doubts=(Reason(problems.get(redacted(file), "it cannot be read")),)),))
