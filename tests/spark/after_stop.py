"""Asks an installed DataFrame before and after its session's end, then ends without stopping; for test_install."""

import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from local_cluster import start
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import parquet_bloom.spark
from parquet_bloom.spark.plan import classic_session


def ids(frame: DataFrame) -> list[int]:
    return [row["id"] for row in frame.where("k = 7919").select("id").collect()]


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    lake, scratch = sys.argv[1:]
    module: Any = classic_session
    first = start("local[1]", Path(scratch), spark_sql_codegen_wholeStage="false")
    old = parquet_bloom.spark.install(first.read.parquet(lake))
    print(ids(old))
    evaluate_files, module.evaluate_files = module.evaluate_files, interrupted
    try:
        print(ids(old))
    except (Py4JError, PySparkException) as error:
        print("interrupted by KeyboardInterrupt" in str(error))
    module.evaluate_files = evaluate_files
    print(ids(old))
    first.stop()
    with suppress(Py4JError, PySparkException):
        print(ids(old))
    new = parquet_bloom.spark.install(
        start("local[1]", Path(scratch), spark_sql_codegen_wholeStage="false").read.parquet(lake)
    )
    print(ids(new))
    thread = threading.Thread(target=lambda: print(ids(new)))
    thread.start()
    thread.join()
    gateway: Any = new.sparkSession.sparkContext._gateway
    print(gateway.proc.pid)
