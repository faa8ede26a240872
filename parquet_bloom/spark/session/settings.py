"""Settings of the session that determine the meaning of names and values."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def setting(spark: SparkSession, key: str) -> str:
    """Return a setting, or Spark's default for it; an empty text if this version of Spark does not have it."""
    try:
        return spark.conf.get(key) or ""
    except PySparkException:
        return ""


def is_set(spark: SparkSession, key: str) -> bool:
    """Return True if a boolean setting is on."""
    return setting(spark, key).lower() == "true"


def ignores_case(spark: SparkSession) -> bool:
    """Return True if names match regardless of case."""
    return not is_set(spark, "spark.sql.caseSensitive")
