"""Embeds into a new lake while executors' Pythons are killed, and prints what became of the files; for test_retries."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from local_cluster import start
from pyspark import TaskContext, cloudpickle

from parquet_bloom.file.filter_builder import FilterOptions
from parquet_bloom.spark.job_report import FileResult
from parquet_bloom.spark.jobs import run_files as job_runner
from parquet_bloom.spark.lake_jobs import _Embed
from parquet_bloom.storage.local.local_rewrite import LocalRewrite


class Dying(_Embed):
    """Task 0 dies at its third file; task 1 before its first, then in the middle of one, then after one is replaced."""

    attempt = (-1, -1)  # the last one in this process, which may be another task's
    done = 0  # files of it

    def __call__(self, path: str) -> FileResult:
        context = TaskContext.get()
        assert context is not None
        attempt = (context.partitionId(), context.attemptNumber())
        if Dying.attempt != attempt:
            Dying.attempt, Dying.done = attempt, 0
        moment = (*attempt, Dying.done)

        def die(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if moment in ((0, 0, 2), (1, 0, 0)):
            die()
        if moment == (1, 1, 0):
            LocalRewrite._commit = die  # type: ignore[method-assign]
        result = super().__call__(path)
        Dying.done += 1
        if moment == (1, 2, 0):
            die()
        return replace(result, missing=(str(Dying.done),))


if __name__ == "__main__":
    lake, scratch = sys.argv[1:]
    spark = start("local[2,4]", Path(scratch))
    spark.range(0, 8000, 1, 8).write.parquet(lake)
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    files = sorted(map(str, Path(lake).glob("*.parquet")))
    job_runner._THREADS_PER_TASK = 1  # so that it is known which files are done when a worker dies
    task = Dying({"id": FilterOptions()}, False, True)
    outcomes = job_runner.run(spark, "embed", files, task, on_executors=True)
    # Beside each file's status: as which of its task's it was done.
    print(
        *(
            f"{outcome.result.status} {outcome.result.missing[0]}" if outcome.result else outcome.error
            for outcome in outcomes
        ),
        sep="\n",
    )
    print(spark.read.parquet(lake).where("id = 4321").count(), spark.read.parquet(lake).count())
    spark.stop()
