"""Asks a lake through the data source over Spark Connect, and prints what came back; for test_datasource."""

import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    import parquet_bloom.spark

    lake, *wheres = sys.argv[1:]
    builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g").config("spark.log.level", "OFF")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    parquet_bloom.spark.register(spark)
    native = spark.read.option("parquet.filter.bloom.enabled", "false").parquet(lake)
    print("connect" in type(spark).__module__)
    for where in wheres:
        found = spark.read.format("parquet_bloom").option("prune", where).load(lake)
        ours, theirs = (sorted(map(repr, frame.where(where).toArrow().to_pylist())) for frame in (found, native))
        print(found.schema == native.schema, ours == theirs, len(ours))
    spark.stop()
