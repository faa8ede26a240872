"""Embeds on two executors of a cluster whose Python has nothing but an archive; for test_archive.

`python archive_cluster.py FOLDER SETTINGS`: prints where tasks have their modules from, and what became of the files.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from local_cluster import start
from pyspark import cloudpickle

import parquet_bloom.spark


def modules(_: Iterator[int]) -> Iterator[tuple[str, ...]]:
    import numpy
    import pyarrow

    import parquet_bloom
    from parquet_bloom.core.bloom import sbbf

    folder = os.path.realpath(os.curdir)
    files = (parquet_bloom.__file__, sbbf.__file__, pyarrow.__file__, numpy.__file__)
    yield tuple(os.path.relpath(os.path.realpath(file), folder) for file in files)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    # Their keys have dots.
    spark = start("local-cluster[2,1,1024]", folder, **json.loads(sys.argv[2]))
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    lake = str(folder / "lake")
    spark.range(0, 4000, 1, 4).selectExpr("id", "concat('u', id) user").write.parquet(lake)
    report = parquet_bloom.spark.embed(spark, lake, ["id", "user"])
    found = set(spark.sparkContext.parallelize(range(4), 4).mapPartitions(modules).collect())
    frame = parquet_bloom.spark.read_parquet(spark, lake, "user = 'u1234'")
    print(json.dumps({"status": [file.status for file in report.files], "rows": frame.count(), "modules": list(found)}))
    spark.stop()
