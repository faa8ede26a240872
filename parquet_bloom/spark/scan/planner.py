"""Planner of a scan: where files are evaluated, with which cache, and when it is worth skipping some."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...lake.index import LakeIndex
from ...predicate.tree import Node
from ...scan.model.plan import INDEX, Evaluator, FileScan, ScanPlan
from ...scan.options import ScanOptions
from ...scan.plan.files import FileEvaluator
from ...scan.report import PruneReport
from ..partitions.layout import FolderResiduals
from ..session.fallback import log
from ..session.hadoop import HadoopFiles
from ..session.paths import find_scheme, listed_path
from ..session.storage import executor_storage, resolve_storage
from .distributed import ExecutorEvaluator
from .lake_index import make_index_view
from .scan import Scan, scan_files
from .trust import SparkCompatibility

ProbeOn = Literal["auto", "driver", "executors"]
_REMOTE_THREADS = 32  # they mostly wait for responses
_CHANGED = "it was changed while it was planned"


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
        uris: Sequence[str],
        node: Node,
        compatibility: SparkCompatibility,
        *,
        options: Mapping[str, str],
        states: Callable[[], list[tuple[int, int]]] | None = None,
        residuals: FolderResiduals | None = None,
    ) -> Scan:
        """Plan file by file, in the given order.

        Parameters
        ----------
        uris : the files as Spark lists them.
        options : options of the reader.
        states : returns size and modification time (ms) of each file, if Spark reports them.
        residuals : see `scan_files`, by decoded paths.

        Raises
        ------
        CannotPush
            The files cannot be evaluated.
        """
        if not uris:
            return Scan(PruneReport(str(node)))
        paths, filesystem, footers = self._find_evaluator(spark, uris, compatibility, options, states)
        index = None
        if residuals is not None:
            residuals = residuals.renamed(dict(zip(paths, map(listed_path, uris), strict=True)))
        if self.index is not None:
            uris_by_path = dict(zip(paths, uris, strict=True))
            index = make_index_view(self.index, uris_by_path, node, compatibility, self.storage_options, states)
        scan = scan_files(
            paths, node, compatibility, filesystem=filesystem, residuals=residuals, footers=footers, index=index
        )
        report = scan.report
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
        self,
        spark: SparkSession,
        uris: Sequence[str],
        compatibility: SparkCompatibility,
        options: Mapping[str, str],
        states: Callable[[], list[tuple[int, int]]] | None,
    ) -> tuple[list[str], Any, Evaluator]:
        """Return the paths of the files, their file system, and what evaluates their footers."""
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
