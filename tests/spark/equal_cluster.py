"""Asks a saved lake on a cluster of two executors, and prints what came of it as JSON; for test_equal.

`python equal_cluster.py LAKE FOLDER SEED COUNT`
"""

import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path

from archive_cluster import spark_home

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    os.environ["SPARK_HOME"] = str(spark_home(folder))
    from pyspark.sql import SparkSession
    from support.random_cases.random_queries import CLASSIC, Asking
    from support.random_cases.spark_lakes import Lake
    from support.spark.spark_settings import settings

    import parquet_bloom.spark

    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    parquet_bloom.spark.register(spark)
    rng = random.Random(int(sys.argv[3]))
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        asking = Asking(spark, rng, Lake.load(sys.argv[1]), (*CLASSIC, "source"), on_executors=0.3)
        print(json.dumps(asdict(asking.ask(int(sys.argv[4])))))
    spark.stop()
