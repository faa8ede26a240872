"""The session's settings that decide what names and values mean."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def setting(spark: SparkSession, key: str) -> str:
    """A setting, or Spark's own default for it; empty where this Spark does not know it."""
    try:
        return spark.conf.get(key) or ""
    except PySparkException:
        return ""


def is_set(spark: SparkSession, key: str) -> bool:
    """Whether a switch is on."""
    return setting(spark, key).lower() == "true"


def ignores_case(spark: SparkSession) -> bool:
    """Whether names match whatever their case."""
    return not is_set(spark, "spark.sql.caseSensitive")
