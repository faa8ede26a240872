"""From raw events to a lake with Bloom filters to one needle, in PySpark. Read it from top to bottom.

    python examples/events_pipeline.py [FOLDER]

1. raw events as services log them: a JSON object a line, a file an hour
2. a lake of Parquet files by day, whose writer is told to add filters for request ids
3. a column that nobody thought of then: filters for user ids, embedded into the files that are there
4. two questions, asked in three ways, and what each of them had to read

FOLDER keeps what is made; without it a temporary one is used. Needs Java 17 and `pip install ".[spark]"`.
"""

import json
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import parquet_bloom
import parquet_bloom.spark

DAYS, HOURS, EVENTS_PER_HOUR = 6, 24, 1_000
USERS = 40_000
FILES_PER_DAY = 4
ROWS_PER_ROW_GROUP = 3_000  # real ones have a million rows; these are small, as this lake is
SCHEMA = "at TIMESTAMP, request_id STRING, user_id BIGINT, path STRING, status INT, bytes BIGINT"


# 1. Raw events. Yours come from somewhere; these are made up, with ids that are random as real ones are.


def write_raw_events(folder: Path) -> None:
    dice = random.Random(2026)
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    folder.mkdir(parents=True)
    for hour in range(DAYS * HOURS):
        lines = []
        for number in range(EVENTS_PER_HOUR):
            at = begin + timedelta(hours=hour, seconds=3600 * number / EVENTS_PER_HOUR)
            event = {
                "at": at.isoformat(),
                "request_id": str(uuid.UUID(int=dice.getrandbits(128), version=4)),
                "user_id": dice.randrange(USERS) * 7919,
                "path": f"/shop/item/{dice.randrange(5_000)}",
                "status": dice.choice([200, 200, 200, 304, 404, 500]),
                "bytes": dice.randrange(100_000),
            }
            lines.append(json.dumps(event))
        (folder / f"{begin + timedelta(hours=hour):%Y-%m-%dT%H}.json").write_text("\n".join(lines) + "\n")


# 2. The lake. `write_options` has parquet-java write filters as it writes the files. The number of distinct values in a
#    row group makes them as large as they have to be: every request has an id of its own.


def write_lake(spark: SparkSession, raw: str, lake: str) -> None:
    events = spark.read.schema(SCHEMA).json(raw).withColumn("day", F.to_date("at"))
    filters = parquet_bloom.spark.write_options({"request_id": 1e-4}, ndv=ROWS_PER_ROW_GROUP)
    writer = events.repartition(FILES_PER_DAY).write.partitionBy("day").options(**filters)
    writer.option("parquet.block.row.count.limit", ROWS_PER_ROW_GROUP).parquet(lake)


# 3. Filters afterwards. Data pages stay as they are; each file is replaced whole, by one task.


def add_filters(spark: SparkSession, lake: str) -> None:
    report = parquet_bloom.spark.embed(spark, lake, ["user_id"], fpp=1e-3)
    print(f"   {report}")
    if not report.ok:
        raise SystemExit(f"{len(report.failures)} files failed")


# 4. Needles. Each way gives a DataFrame with the same rows; how much it reads is what differs.


def without_filters(spark: SparkSession, lake: str, where: str) -> DataFrame:
    return spark.read.option("parquet.filter.bloom.enabled", "false").parquet(lake).where(where)


def spark_alone(spark: SparkSession, lake: str, where: str) -> DataFrame:
    return spark.read.parquet(lake).where(where)  # opens every file; skips row groups in it


def pruned_before(spark: SparkSession, lake: str, where: str) -> DataFrame:
    return parquet_bloom.spark.read_parquet(spark, lake, where)  # asks the filters before Spark plans a scan


def by_the_planner(spark: SparkSession, lake: str, where: str) -> DataFrame:
    parquet_bloom.spark.install(spark.read.parquet(lake)).createOrReplaceTempView("events")
    return spark.sql(f"SELECT * FROM events WHERE {where}")  # any query on the view asks the filters when it is planned


WAYS: dict[str, Callable[[SparkSession, str, str], DataFrame]] = {
    "Spark, no filters": without_filters,
    "Spark alone": spark_alone,
    "read_parquet": pruned_before,
    "install": by_the_planner,
}


def ask(spark: SparkSession, lake: str, where: str) -> None:
    report = parquet_bloom.prune(lake, where)
    print(f"\n   SELECT * WHERE {where}")
    print(f"   can hold a match: {report}\n")
    print(f"   {'way':<20} {'rows':>5} {'files':>6} {'rows read':>10} {'ms':>6}")
    answers = set()
    for name, way in WAYS.items():
        seconds = []
        for _ in range(3):  # the first time is for Java to warm up
            start = time.perf_counter()
            frame = way(spark, lake, where)
            rows = frame.collect()
            seconds.append(time.perf_counter() - start)
        best = min(seconds) * 1000
        print(f"   {name:<20} {len(rows):5,} {files_opened(frame):6,} {rows_read(frame):10,} {best:6.0f}")
        answers.add(tuple(sorted(map(repr, rows))))
    if len(answers) != 1:
        raise SystemExit("the answers differ")


def files_opened(frame: DataFrame) -> int:
    return metric(frame, "numFiles")


def rows_read(frame: DataFrame) -> int:
    return metric(frame, "numOutputRows")


def metric(frame: DataFrame, name: str) -> int:
    """What Spark itself counted when it ran the scan."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [leaves.apply(i).metrics() for i in range(leaves.size())]
    return sum(int(found.apply(name).value()) for found in metrics if found.contains(name))


def main(folder: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the one that has parquet_bloom
    builder = SparkSession.builder.master("local[*]").appName("events pipeline").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    raw, lake = folder / "raw", folder / "lake"

    print(f"1. raw events: {DAYS * HOURS * EVENTS_PER_HOUR:,} in {DAYS * HOURS} JSON files")
    write_raw_events(raw)

    print(f"2. the lake: {DAYS} days of {FILES_PER_DAY} Parquet files, written with filters for request_id")
    write_lake(spark, str(raw), str(lake))

    print("3. filters for user_id, embedded into those files")
    add_filters(spark, str(lake))

    print("4. needles")
    some = json.loads((raw / "2026-03-04T07.json").read_text().splitlines()[123])
    ask(spark, str(lake), f"request_id = '{some['request_id']}'")
    ask(spark, str(lake), f"user_id = {some['user_id']} AND day >= '2026-03-04' AND status <> 304")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="events ") as name:
            main(Path(name))
