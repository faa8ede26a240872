"""How files are asked before a scan: where, with what memory, and when it is worth leaving some out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...lake.index import LakeIndex
from ...predicate.tree import Node
from ...scan.model.plan import INDEX, FilePlan
from ...scan.model.residual import Residuals
from ...scan.report import PruneReport
from ..session.fallback import log
from ..session.hadoop import HadoopFiles
from ..session.paths import find_scheme, listed_path
from ..session.storage import executor_storage, resolve_storage
from .distributed import scan_on_executors
from .lake_index import NOTHING, ruled_out
from .scan import Scan, scan_files
from .trust import SparkCompatibility

ProbeOn = Literal["auto", "driver", "executors"]
_REMOTE_THREADS = 32  # they wait for answers
_CHANGED = "it was changed while it was looked into"


@dataclass(frozen=True)
class ScanPlanner:
    """How the files of a scan are asked.

    Attributes
    ----------
    on : "driver", by threads; "executors", by a job of Spark's; "auto" takes the driver, unless it does not see the
        files.
    max_fraction : of the files; if more are left, all are read.
    cache : footers that are known; None for those that the process shares.
    storage_options : settings of the files' store.
    row_groups : whether exactly the row groups are read that can hold a match; "auto" where Spark cannot skip them
        itself, and few are left.
    fresh : whether Spark has listed the files just now, so that size and time of each need not be asked again.
    index : of the lake; files that it rules out are not looked into. None for none.
    """

    on: ProbeOn = "auto"
    max_fraction: float = 0.5
    cache: MetadataCache | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # secrets may be among them
    row_groups: bool | Literal["auto"] = "auto"
    fresh: bool = False
    index: LakeIndex | None = None

    def __post_init__(self) -> None:
        if self.on not in ("auto", "driver", "executors"):
            raise ParquetBloomError(f"probe_on is one of auto, driver, executors, not {self.on!r}")
        if not isinstance(self.max_fraction, int | float) or not 0 <= self.max_fraction <= 1:
            raise ParquetBloomError(f"max_fraction is between 0 and 1, not {self.max_fraction!r}")
        if self.row_groups not in (True, False, "auto"):
            raise ParquetBloomError(f"row_groups is True, False or 'auto', not {self.row_groups!r}")
        if not isinstance(self.cache, MetadataCache | None):
            raise ParquetBloomError(f"cache is a MetadataCache or None, not {self.cache!r}")
        if not isinstance(self.storage_options, Mapping | None):
            raise ParquetBloomError(f"storage_options is a mapping or None, not {self.storage_options!r}")

    @property
    def footers(self) -> MetadataCache:
        """The cache that is used; one without a footer in it is false."""
        return SHARED_CACHE if self.cache is None else self.cache

    def scan(
        self,
        spark: SparkSession,
        uris: Sequence[str],
        node: Node,
        trust: SparkCompatibility,
        *,
        options: Mapping[str, str],
        states: Callable[[], list[tuple[int, int]]] | None = None,
        left: Residuals | None = None,
    ) -> Scan:
        """Decide file by file, in the order given.

        Parameters
        ----------
        uris : the files as Spark lists them.
        options : the reader's.
        states : gives size and modification time (ms) of each file, if Spark tells.
        left : see `scan_files`, by paths with nothing encoded in them.

        Raises
        ------
        Doubt
            The files cannot be looked into.
        """
        ruled = NOTHING
        if self.index is not None and uris:
            ruled = ruled_out(self.index, uris, node, trust, self.storage_options, states)
        kept = [place for place in range(len(uris)) if place not in ruled.out]

        def states_of_kept() -> list[tuple[int, int]]:
            every = states() if states is not None else []
            return [every[place] for place in kept]

        of_kept = None if states is None else states_of_kept
        found = self._scan(spark, [uris[place] for place in kept], node, trust, options, of_kept, left)
        decisions = iter(found.report.files)
        found.report.files = [
            FilePlan(listed_path(uri), (), ruled.out[place], unopened_by=INDEX)
            if place in ruled.out
            else next(decisions)
            for place, uri in enumerate(uris)
        ]
        found.report.requests += ruled.requests
        found.report.bytes_read += ruled.bytes_read
        log.info("%s: %s", node, found)
        for file, problem in found.unreadable.items():
            log.warning("%s is left to Spark: %s", file, problem)
        return found

    def _scan(
        self,
        spark: SparkSession,
        uris: Sequence[str],
        node: Node,
        trust: SparkCompatibility,
        options: Mapping[str, str],
        states: Callable[[], list[tuple[int, int]]] | None,
        left: Residuals | None,
    ) -> Scan:
        if not uris:
            return Scan(PruneReport(str(node)))
        if self._on_executors(uris):
            storage = executor_storage(find_scheme(uris[0]), self.storage_options)
            return scan_on_executors(spark, list(map(listed_path, uris)), node, trust, storage, left)
        known = None
        if self.fresh and states is not None and find_scheme(uris[0]) != "file":
            known = {uri: (size, ms * 1_000_000) for uri, (size, ms) in zip(uris, states(), strict=True)}
        paths, filesystem = resolve_storage(spark, uris, self.storage_options, states=known, options=options)
        handler = getattr(filesystem, "handler", None)
        files = handler if isinstance(handler, HadoopFiles) else None
        if files is not None and known is None:
            files.load_states(paths)
        of_paths = None
        if left is not None:
            of_paths = Renamed(left, dict(zip(paths, map(listed_path, uris), strict=True)))
        threads = None if filesystem is None else _REMOTE_THREADS
        found = scan_files(
            paths, node, trust, filesystem=filesystem, left=of_paths, cache=self.footers, threads=threads
        )
        if files is not None:
            found.distrust(files.find_changed(file.path for file in found.report.files if not file.selected), _CHANGED)
        return found

    def _on_executors(self, uris: Sequence[str]) -> bool:
        if self.on != "auto":
            return self.on == "executors"
        return find_scheme(uris[0]) == "file" and not os.path.exists(listed_path(uris[0]))


@dataclass(frozen=True)
class Renamed:
    """`prune.plan.Left` for files under other paths than those that it knows.

    Attributes
    ----------
    names : {path: path that `left` knows}.
    """

    left: Residuals
    names: Mapping[str, str]

    @property
    def doubts(self) -> tuple[str, ...]:
        return self.left.doubts

    @property
    def whole(self) -> bool:
        return self.left.whole

    def of(self, path: str) -> Node | bool:
        return self.left.of(self.names[path])

    def told(self, path: str) -> str:
        return self.left.told(self.names[path])
