"""The main job, shown: a lake that Spark wrote, one request looked for in it, with and without filters.

Makes 100 files with random request ids and no filters, embeds filters with Spark, and asks for one request by its id,
and by a timestamp of the kind that Spark never skips by: without filters, by Spark alone, and through parquet_bloom.
Exits with an error when the answers differ.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import parquet_bloom

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    import parquet_bloom.spark

NUM_FILES = 100
ROW_GROUPS_PER_FILE = 2
NUM_ROWS = 1_600_000
FPP = 1e-4  # of 199 row groups without the id, hardly ever one is read in vain
COLUMNS = ["request_id", "created"]
FIRST, STEP = datetime(2026, 1, 1, tzinfo=UTC), timedelta(microseconds=7919)
LEAST_REPEATS, MOST_REPEATS, ENOUGH_SECONDS = 2, 5, 1.0

NEXT = """
Next, your own files, which stay as they are until you say --in-place:
    . .venv/bin/activate
    parquet-bloom advise LAKE                              # which columns deserve filters
    parquet-bloom embed LAKE --column NAME --in-place      # embed them
    parquet-bloom find LAKE --where "NAME = 'value'"       # look a value up
docs/tutorial/first-lookup.md goes through it with Python, docs/README.md has all pages."""

QUIET_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


def start_spark(folder: Path) -> SparkSession:
    """Start a local Spark that keeps everything it writes in a folder, and logs errors only."""
    # Not at the top: what pip has just installed is compiled by its first import, which takes seconds.
    from pyspark.sql import SparkSession

    import parquet_bloom.spark  # noqa: F401  # for the other functions

    (folder / "log4j2.properties").write_text(QUIET_LOG)
    os.environ["SPARK_CONF_DIR"] = str(folder)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        # The best code takes longer to compile than a minute of it saves: with this each way took less CPU
        # time, that of Spark alone included.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[*]").appName("parquet_bloom demo").config(map=options)  # type: ignore[arg-type]
    # In the main thread Spark would handle Ctrl-C by a call within the call that goes on, and print hundreds of lines.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(builder.getOrCreate).result()


def end(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C: end this process, and Spark before, which else writes on while its folder is deleted."""
    context = sys.modules.get("pyspark.core.context")
    gateway = context and context.SparkContext._gateway
    if gateway:
        gateway.proc.kill()
        gateway.proc.wait()
    print(" interrupted")
    sys.exit(130)


def make_lake(spark: SparkSession, lake: Path) -> None:
    rows = spark.range(0, NUM_ROWS, 1, NUM_FILES).selectExpr(
        "id AS sequence",
        "uuid() AS request_id",
        "CAST(rand() * 1e6 AS INT) AS user_id",
        "rand() * 100 AS amount",
        # Stored as INT96, for which Spark does not use filters.
        f"timestamp_micros({int(FIRST.timestamp()) * 1_000_000} + id * {STEP.microseconds}) AS created",
    )
    rows_per_group = NUM_ROWS // NUM_FILES // ROW_GROUPS_PER_FILE
    rows.write.option("parquet.block.row.count.limit", rows_per_group).parquet(str(lake))


def best_time(query: Callable[[], DataFrame]) -> tuple[list[Row], int, float]:
    """Return a query's rows, how many rows Spark read for them, and the best of its times, planning included.

    The first run only warms up; slow queries are repeated less often.
    """
    query().collect()
    times: list[float] = []
    while len(times) < LEAST_REPEATS or (len(times) < MOST_REPEATS and sum(times) < ENOUGH_SECONDS):
        start = time.perf_counter()
        frame = query()
        rows = frame.collect()
        times.append(time.perf_counter() - start)
    return rows, rows_read(frame), min(times)


@contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Print what is done now, a dot for each 5 s, its result, which the caller appends, and how long it took."""
    print(f"{what} ...", end="", flush=True)
    start, result, done = time.perf_counter(), list[str](), threading.Event()

    def print_dots() -> None:
        while not done.wait(5):
            print(".", end="", flush=True)

    dots = threading.Thread(target=print_dots)
    dots.start()
    try:
        yield result
    finally:
        done.set()
        dots.join()
    print("", *result, f"{time.perf_counter() - start:.1f} s")


def num_bytes(lake: Path) -> int:
    return sum(path.stat().st_size for path in lake.glob("*.parquet"))


def demo(folder: Path) -> str | None:
    """Run the demo in an empty folder; return a description of the problem, or None."""
    lake = folder / "lake"
    path = str(lake)
    with step("start Spark"):
        spark = start_spark(folder)
    with step(f"write {NUM_ROWS:,} rows to {NUM_FILES} files of {ROW_GROUPS_PER_FILE} row groups, by Spark") as result:
        make_lake(spark, lake)
        size = num_bytes(lake)
        result.append(f"{size / 1e6:.0f} MB,")
    row = spark.read.parquet(path).where(f"sequence = {random.randrange(NUM_ROWS)}").first()
    assert row is not None
    with step(f"embed filters of {' and '.join(COLUMNS)} with an fpp of {FPP:g}, by Spark") as result:
        parquet_bloom.spark.embed(spark, path, COLUMNS, fpp=FPP)
        added = num_bytes(lake) - size
        result.append(f"{added / 1e6:.0f} MB, {added / size:.0%} of the lake,")
    created = FIRST + row["sequence"] * STEP
    for where in (f"request_id = '{row['request_id']}'", f"created = TIMESTAMP '{created:%Y-%m-%d %H:%M:%S.%f}'"):
        problem = compare(spark, path, where)
        if problem:
            return f"{where}: {problem}"
    spark.stop()
    return None


def compare(spark: SparkSession, path: str, where: str) -> str | None:
    """Query in four ways and print the cost of each; return a description of the problem, or None."""
    installed = parquet_bloom.spark.install(spark.read.parquet(path))
    ways: dict[str, Callable[[], DataFrame]] = {
        "Spark, filters not used": lambda: plain(spark, path).where(where),
        "Spark alone, using filters": lambda: spark.read.parquet(path).where(where),
        "parquet_bloom.spark.read_parquet": lambda: parquet_bloom.spark.read_parquet(spark, path, where),
        "parquet_bloom.spark.install": lambda: installed.where(where),
    }
    print(f"query: SELECT * WHERE {where}\n  {'':<34}{'rows read':>12}{'time':>12}")
    answers, base = {}, 0.0
    for name, way in ways.items():
        answers[name], read, seconds = best_time(way)
        base = base or seconds
        gain = f"  ({base / seconds:.1f} x faster)" if seconds < base else ""
        print(f"  {name:<34}{read:12,}{seconds * 1000:9.0f} ms{gain}")
    if any(rows != answers["Spark, filters not used"] for rows in answers.values()):
        return f"the answers differ: {answers}"
    report = parquet_bloom.spark.explain_prune(spark.read.parquet(path), where)
    print(f"  {report}")
    if report.total_files != NUM_FILES or not 0 < report.selected_files <= NUM_FILES // 20:
        return f"{report.selected_files} of {report.total_files} files: filters skipped too little"
    return None


def plain(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.option("parquet.filter.bloom.enabled", "false").parquet(path)


def rows_read(frame: DataFrame) -> int:
    """Return the number of rows that Spark's scan passed to its filter when a DataFrame was collected."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    return int(plan.metrics().apply("numOutputRows").value())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, end)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # through a pipe, too
    with tempfile.TemporaryDirectory(prefix="parquet_bloom demo ", ignore_cleanup_errors=True) as name:
        problem = demo(Path(name))
    if problem:
        sys.exit(problem)
    print(NEXT)
