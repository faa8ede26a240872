"""Embed filters into the files of a lake: `spark.embed` against a loop in one process, and Spark's own rewrite.

python tools/bench/spark_embed.py [--repeat N] [--lakes small,large]

Two lakes with a random int64 `id` and a text `key`, filters on both at an fpp of 0.01: 400 files of 10,000 rows, and 40
of 250,000. The loop is `parquet_bloom.embed` file by file in the driver's process; the rewrite reads and rewrites
everything with filters (`parquet.bloom.filter.enabled`). All run interleaved, each on a fresh copy of the lake, in one
session of two task slots that is warmed up first; figures are medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _spark
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, in_turn, positive

import parquet_bloom

LAKES = {"small": (400, 10_000), "large": (40, 250_000)}
COLUMNS = ["id", "key"]
FPP = 0.01
MOST_OF_LOOP = 1.7
LEAST_GAIN = 3


def make(lake: Path, files: int, rows: int) -> None:
    rng = np.random.default_rng(5)
    lake.mkdir()
    for number in range(files):
        ids = rng.integers(-(2**63), 2**63, rows)
        keys = pa.array(rng.integers(0, 2**63, rows)).cast(pa.string())
        table = pa.table({"id": ids, "key": keys, "amount": rng.random(rows)})
        pq.write_table(table, lake / f"{number:05}.parquet", use_dictionary=False)


def num_tasks(spark: Any, run: Callable[[], object]) -> int:
    """Return the tasks of the largest stage of a run."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    run()
    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return max(stage.numTasks for stage in stages if stage is not None)


def measure(spark: Any, name: str, folder: Path, repeat: int) -> None:
    files, rows = LAKES[name]
    lake, copy, output = folder / name, folder / "copy", folder / "output"
    make(lake, files, rows)

    def fresh() -> None:
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(lake, copy)
        os.sync()  # a lake's files are on disk; else whoever flushes first would wait for the copy, too

    def embed() -> None:
        report = parquet_bloom.spark.embed(spark, copy, COLUMNS, fpp=FPP)
        assert report.embedded_files == files, report

    def loop() -> None:
        for file in sorted(copy.iterdir()):
            parquet_bloom.embed(file, COLUMNS, fpp=FPP)

    def rewrite() -> None:
        options = {f"parquet.bloom.filter.enabled#{column}": "true" for column in COLUMNS}
        options |= {f"parquet.bloom.filter.expected.ndv#{column}": str(rows) for column in COLUMNS}
        spark.read.parquet(str(copy)).write.options(**options).parquet(str(output))

    fresh()
    tasks = num_tasks(spark, embed)
    for run in (loop, rewrite):
        fresh()
        run()
    runs: dict[str, Callable[[], object]] = {
        "parquet_bloom.spark.embed": embed,
        "parquet_bloom.embed, a loop": loop,
        "Spark's rewrite": rewrite,
    }
    seconds = in_turn(runs, repeat, fresh)
    ours, local, theirs = seconds.values()
    num_bytes = sum(file.stat().st_size for file in lake.iterdir())
    print(f"{name}: {files} files of {rows:,} rows, {num_bytes / 1e6:.0f} MB; {tasks} tasks")
    for what, taken in seconds.items():
        print(f"  {what:<30}{taken:8.2f} s")
    print(f"  of the loop's time   {ours / local:5.2f} x  (asked: at most {MOST_OF_LOOP})")
    print(f"  against the rewrite  {theirs / ours:5.1f} x faster  (asked: at least {LEAST_GAIN})\n")
    shutil.rmtree(lake)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--lakes", default=",".join(LAKES), help="comma-separated names")
    options = parser.parse_args()
    header("filters embedded by Spark's executors, local[2]", f"pyspark  {version('pyspark')}")
    with _spark.session() as spark, tempfile.TemporaryDirectory(prefix="spark_embed") as folder:
        for name in options.lakes.split(","):
            measure(spark, name, Path(folder), options.repeat)


if __name__ == "__main__":
    main()
