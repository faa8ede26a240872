"""Builds an index while executors' Pythons are killed, and prints whether it has all values; for test_index."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from local_cluster import start
from pyspark import TaskContext, cloudpickle

from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.spark import build_index
from parquet_bloom.spark.jobs import index_job
from parquet_bloom.spark.jobs.index_job import HashTask, WriteTask


def die_at_first(batch: Any, number: int) -> None:
    """On its first attempt a task dies, most of them after something has come of it."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and number == context.partitionId() % 3:
        os.kill(os.getpid(), signal.SIGKILL)


class DyingHash(HashTask):
    def __call__(self, batches: Any) -> Any:
        for number, batch in enumerate(super().__call__(batches)):
            yield batch
            die_at_first(batch, number)


class DyingWrite(WriteTask):
    def __call__(self, batches: Any) -> Any:
        for number, batch in enumerate(super().__call__(batches)):
            yield batch
            die_at_first(batch, number)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    spark = start("local[2,4]", folder)
    spark.range(0, 24_000, 1, 24).selectExpr("id", "concat('u', id) s").write.parquet(str(folder / "lake"))
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    index_job.HashTask, index_job.WriteTask = DyingHash, DyingWrite  # type: ignore[misc]
    report = build_index(spark, folder / "lake", ["id", "s"], folder / "index", slices=6)
    spark.stop()
    own = LakeIndex.create(folder / "own", ["id", "s"])
    own.append(folder / "lake")
    index = LakeIndex.open(folder / "index")
    wrong = sum(
        sorted(one) != sorted(other)
        for column, values in (("id", [*range(24_000)]), ("s", [f"u{id}" for id in range(24_000)]))
        for one, other in zip(index.lookup(column, values), own.lookup(column, values), strict=True)
    )
    wrong += len(index.check(24).problems)
    print(f"{report.added} files added, {wrong} wrong")
