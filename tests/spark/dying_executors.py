"""Embeds into a lake on a cluster of two executors, kills one of them in the middle, and prints the outcome as JSON."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from local_cluster import start

import parquet_bloom.spark

PROJECT = Path(parquet_bloom.__file__).parents[1]


def executors() -> list[int]:
    """Process ids of the executors that this process's JVM has started."""
    results = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                grandparent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it is gone
            if b"CoarseGrainedExecutorBackend" in command and os.getpid() in (parent, grandparent):
                results.append(int(entry.name))
    return results


def kill_one(lake: Path, num_rewritten: int, outcome: dict[str, Any]) -> None:
    """Wait until so many files are done, and kill an executor as nothing else would."""
    before = {file: file.stat().st_size for file in lake.rglob("part-*.parquet")}
    while outcome.get("done", 0) < num_rewritten:
        time.sleep(0.02)
        outcome["done"] = sum(file.stat().st_size > size for file, size in before.items())
    outcome["killed"] = executors()[0]
    os.kill(outcome["killed"], signal.SIGKILL)


if __name__ == "__main__":
    lake, scratch = map(Path, sys.argv[1:])
    paths = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    spark = start("local-cluster[2,1,1024]", scratch, spark_executorEnv_PYTHONPATH=paths)
    outcome: dict[str, Any] = {}
    killer = threading.Thread(target=kill_one, args=(lake, 60, outcome), daemon=True)
    killer.start()
    report = parquet_bloom.spark.embed(spark, lake, ["id", "name"])
    killer.join(1)
    outcome["files"] = report.rows()
    outcome["again"] = str(parquet_bloom.spark.embed(spark, lake / "p=0", ["id", "name"]))
    frame = spark.read.parquet(str(lake))
    outcome["rows"] = [frame.count(), frame.selectExpr("sum(id)").first()[0], frame.where("id = 4321").count()]
    print(json.dumps(outcome))
    spark.stop()
