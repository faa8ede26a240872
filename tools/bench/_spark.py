"""Spark in the process of the benchmark: a session, ways to query it, and the metrics of its plans."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import _common  # noqa: F401  (first, to import the package of this checkout)

import parquet_bloom.spark
from parquet_bloom.file.metadata_cache import SHARED_CACHE

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}


BY_HAND = "surviving files by hand"
"""Name of the way that has Spark read a list of files that the caller gives."""


@contextmanager
def session() -> Iterator[Any]:
    """Start Spark with two task slots."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise SystemExit("there is no Java; on Debian: apt-get install openjdk-17-jdk-headless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("parquet_bloom benchmark")
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


Ask = Callable[[str], Any]
"""Makes a DataFrame from a condition."""


@dataclass
class Way:
    """A way to query, and its results.

    Attributes
    ----------
    ask : makes the DataFrame; included in the time.
    prepare : called with the condition before the time is taken; None for nothing.
    cold : whether to clear footers cached in memory before each run.
    seconds, files, rows, extra : {kind of query: a value per run}; files and rows read are Spark's own metrics.
    planning, scanning : {kind of query: a count per run} of requests until Spark has a plan, and after that.
    """

    name: str
    ask: Ask
    cold: bool = False
    prepare: Callable[[str], Any] | None = None
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    files: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    extra: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    planning: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    scanning: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def median(self, what: str, kind: str) -> float:
        return statistics.median(getattr(self, what)[kind])

    def run(
        self,
        where: str,
        kind: str | None,
        expected: Sequence[Any] | None = None,
        count: Callable[[], int] | None = None,
    ) -> list[Any]:
        """Query once, and return the rows; without a kind, only to warm up. `count` returns the requests since."""
        if self.prepare is not None:
            self.prepare(where)
        if self.cold:
            SHARED_CACHE.clear()
        if count is not None:
            count()
        started = time.perf_counter()
        frame = self.ask(where)
        planned = files = 0
        if count is not None:
            for scan in [plan for kind, plan in _scans(frame) if kind == "FileSourceScanExec"]:
                scan.selectedPartitions()  # makes the plan list its files
            planned = count()
            files, _ = scanned(frame)  # before the run, which resets it, as a plan lists its files only once
        rows = frame.collect()
        seconds = time.perf_counter() - started
        result = [row.asDict() for row in rows]
        if expected is not None and result != expected:
            raise SystemExit(f"{self.name} returned {result} for {where}, expected {expected}")
        if kind is not None:
            listed, read = scanned(frame)
            files = files or listed
            self.seconds[kind].append(seconds)
            self.files[kind].append(files)
            self.rows[kind].append(read)
            if count is not None:
                self.planning[kind].append(planned)
                self.scanning[kind].append(count())
        return result


def ways_of(spark: Any, path: str) -> list[Way]:
    """Return native Spark and ours, on an existing DataFrame and from a path; ours both cold and warm."""
    frame = spark.read.parquet(path)
    ways = [
        Way("native, DataFrame at hand", frame.where),
        Way("native, from the path", lambda where: spark.read.parquet(path).where(where)),
    ]
    ours: list[tuple[str, Ask]] = [
        ("read_parquet", lambda where: parquet_bloom.spark.read_parquet(spark, path, where)),
        ("pruned", lambda where: parquet_bloom.spark.pruned(frame, where)),
        ("install", parquet_bloom.spark.install(spark.read.parquet(path)).where),
    ]
    return ways + [Way(f"{name}, {case}", ask, case == "cold") for name, ask in ours for case in ("cold", "warm")]


def by_hand(spark: Any, path: str) -> list[Way]:
    """Return Spark on a list of the files that can hold a match, which the caller knows: with and without a schema."""
    frame = spark.read.parquet(path)

    @cache
    def survivors(where: str) -> list[str]:
        files = [*parquet_bloom.spark.explain_prune(frame, where).selected]
        return files or frame.inputFiles()[:1]  # Spark reads no empty list

    return [
        Way(BY_HAND, lambda where: spark.read.parquet(*survivors(where)).where(where), prepare=survivors),
        Way(
            f"{BY_HAND}, schema given",
            lambda where: spark.read.schema(frame.schema).parquet(*survivors(where)).where(where),
            prepare=survivors,
        ),
    ]


def scanned(frame: Any) -> tuple[int, int]:
    """Return the files and rows that a DataFrame's scans read when it was collected, by Spark's own metrics.

    Row groups that were selected individually are not read by a scan: they count as no file, and by their rows.
    """
    files = rows = 0
    for kind, plan in _scans(frame):
        files += _metric(plan, "numFiles") if kind == "FileSourceScanExec" else 0
        rows += _metric(plan, _ROWS[kind])
    return files, rows


_ROWS = {
    "FileSourceScanExec": "numOutputRows",
    "RDDScanExec": "numOutputRows",
    "MapInArrowExec": "pythonNumRowsReceived",
}


def _scans(frame: Any) -> Iterator[tuple[str, Any]]:
    """Return the nodes of a DataFrame's plan that read files, by kind."""
    plans = [frame._jdf.queryExecution().executedPlan()]
    while plans:
        plan = plans.pop()
        kind = plan.getClass().getSimpleName()
        if kind == "AdaptiveSparkPlanExec":
            plans.append(plan.executedPlan())
            continue
        if kind.endswith("QueryStageExec"):
            plans.append(plan.plan())
            continue
        children = plan.children()
        plans += [children.apply(number) for number in range(children.size())]
        if kind in _ROWS:
            yield kind, plan


def _metric(plan: Any, name: str) -> int:
    metric = plan.metrics().get(name)
    return int(metric.get().value()) if metric.isDefined() else 0
