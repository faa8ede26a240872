"""Asks a saved lake on a cluster of two executors, and prints what came of it as JSON; for test_equal.

`python equal_cluster.py LAKE FOLDER SEED COUNT`
"""

import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path

from local_cluster import start
from support.random_cases.random_queries import CLASSIC, Asking
from support.random_cases.spark_lakes import Lake
from support.spark.spark_settings import settings

import parquet_bloom.spark

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    spark = start(
        "local-cluster[2,1,1024]",
        folder,
        spark_executorEnv_PYTHONPATH=os.environ["PYTHONPATH"],
        spark_sql_codegen_wholeStage="false",
        spark_sql_codegen_factoryMode="NO_CODEGEN",
        spark_sql_shuffle_partitions="2",
        spark_sql_parquet_datetimeRebaseModeInRead="CORRECTED",
        spark_sql_parquet_int96RebaseModeInRead="CORRECTED",
    )
    parquet_bloom.spark.register(spark)
    rng = random.Random(int(sys.argv[3]))
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        asking = Asking(spark, rng, Lake.load(sys.argv[1]), (*CLASSIC, "source"), on_executors=0.3)
        print(json.dumps(asdict(asking.ask(int(sys.argv[4])))))
    spark.stop()
