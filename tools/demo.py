"""The main job, shown: a lake that Spark wrote, one request looked for in it, with and without filters.

Makes 40 files of 4 row groups with random request ids and no filters, embeds filters with Spark, and asks for one id
through Spark's plain scan and through parquet_bloom. Exits with an error when the answers differ.
"""

import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

import parquet_bloom
import parquet_bloom.spark

NUM_FILES = 40
ROW_GROUPS_PER_FILE = 4
NUM_ROWS = 4_000_000
FPP = 1e-4  # of 159 row groups without the id, hardly ever one is read in vain
COLUMN = "request_id"

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
    (folder / "log4j2.properties").write_text(QUIET_LOG)
    os.environ["SPARK_CONF_DIR"] = str(folder)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    return SparkSession.builder.master("local[*]").appName("parquet_bloom demo").config(map=options).getOrCreate()


def make_lake(spark: SparkSession, lake: Path) -> None:
    rows = spark.range(0, NUM_ROWS, 1, NUM_FILES).selectExpr(
        "id AS sequence",
        f"uuid() AS {COLUMN}",
        "CAST(rand() * 1e6 AS INT) AS user_id",
        "rand() * 100 AS amount",
        "timestamp_micros(1700000000000000 + id * 1000) AS at",
    )
    rows_per_group = NUM_ROWS // NUM_FILES // ROW_GROUPS_PER_FILE
    rows.write.option("parquet.block.row.count.limit", rows_per_group).parquet(str(lake))


def best_time(query: Callable[[], DataFrame], repeats: int = 5) -> tuple[list[Row], float]:
    """Return a query's rows and the best of its times, planning included; the first run only warms up."""
    query().collect()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        rows = query().collect()
        times.append(time.perf_counter() - start)
    return rows, min(times)


def num_bytes(lake: Path) -> int:
    return sum(path.stat().st_size for path in lake.glob("*.parquet"))


def demo(folder: Path) -> str | None:
    """Run the demo in an empty folder; return what went wrong, if anything did."""
    lake = folder / "lake"
    path = str(lake)
    spark = start_spark(folder)

    start = time.perf_counter()
    make_lake(spark, lake)
    size = num_bytes(lake)
    print(
        f"lake: {NUM_ROWS:,} rows with random {COLUMN}, {NUM_FILES} files of {ROW_GROUPS_PER_FILE} row groups, "
        f"{size / 1e6:.0f} MB, written by Spark in {time.perf_counter() - start:.1f} s"
    )
    wanted = spark.read.parquet(path).where(f"sequence = {random.randrange(NUM_ROWS)}").first()[COLUMN]
    where = f"{COLUMN} = '{wanted}'"

    plain, plain_time = best_time(lambda: spark.read.parquet(path).where(where))

    start = time.perf_counter()
    parquet_bloom.spark.embed(spark, path, [COLUMN], fpp=FPP)
    print(
        f"embed: filters of {COLUMN} at fpp {FPP:g}, {(num_bytes(lake) - size) / 1e6:.0f} MB, "
        f"embedded by Spark in {time.perf_counter() - start:.1f} s"
    )

    native, native_time = best_time(lambda: spark.read.parquet(path).where(where))
    pruned, pruned_time = best_time(lambda: parquet_bloom.spark.read_parquet(spark, path, where))
    files_read = len(parquet_bloom.spark.read_parquet(spark, path, where).inputFiles())
    report = parquet_bloom.prune(path, where)
    print(f"query: SELECT * WHERE {where}")
    print(
        f"read {files_read} of {report.total_files} files, "
        f"{report.selected_row_groups} of {report.total_row_groups} row groups"
    )
    print(f"Spark, plain scan without filters      {plain_time * 1000:6.0f} ms")
    for who, seconds in (("alone, using the filters", native_time), ("with parquet_bloom", pruned_time)):
        print(f"Spark {who:<32} {seconds * 1000:6.0f} ms  ({plain_time / seconds:.1f} x faster)")
    print(*(f"  {name} = {value}" for name, value in pruned[0].asDict().items()) if pruned else (), sep="\n")
    spark.stop()

    if not plain == native == pruned:
        return f"the answers differ: {plain} without filters, {native} by Spark with them, {pruned} by parquet_bloom"
    if len(plain) != 1:
        return f"{len(plain)} rows instead of one"
    if (report.total_files, report.total_row_groups) != (NUM_FILES, NUM_FILES * ROW_GROUPS_PER_FILE):
        return f"the lake has {report.total_files} files and {report.total_row_groups} row groups"
    if files_read != report.selected_files or files_read > NUM_FILES // 2:
        return f"{files_read} files were read, {report.selected_files} planned: filters skipped too little"
    return None


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    with tempfile.TemporaryDirectory(prefix="parquet_bloom demo ", ignore_cleanup_errors=True) as name:
        sys.exit(demo(Path(name)))
