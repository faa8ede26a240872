"""Embeds into a new lake while executors' Pythons are killed, and prints what became of the files; for test_retries."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

from parquet_bloom.file.options import FilterOptions
from parquet_bloom.spark.embed import _Embed
from parquet_bloom.spark.jobs import run
from parquet_bloom.spark.report import FileResult
from parquet_bloom.storage.local import LocalRewrite


class Dying(_Embed):
    """On its first attempt a worker dies before, in the middle of, or after every fourth file."""

    def __call__(self, path: str) -> FileResult:
        context = TaskContext.get()
        assert context is not None
        moment = context.partitionId() % 4 if context.attemptNumber() == 0 else 0

        def die(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if moment == 1:
            die()
        if moment == 2:
            LocalRewrite._commit = die  # type: ignore[method-assign]
        result = super().__call__(path)
        if moment == 3:
            die()
        return result


if __name__ == "__main__":
    lake, scratch = sys.argv[1:]
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.local.dir", scratch).config("spark.log.level", "OFF").getOrCreate()
    spark.range(0, 8000, 1, 8).write.parquet(lake)
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    files = sorted(map(str, Path(lake).glob("*.parquet")))
    outcomes = run(spark, "embed", files, Dying({"id": FilterOptions()}, False, True))
    print(*(outcome.result.status if outcome.result else outcome.error for outcome in outcomes))
    print(spark.read.parquet(lake).where("id = 4321").count(), spark.read.parquet(lake).count())
    spark.stop()
