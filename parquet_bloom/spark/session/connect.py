"""Recognise sessions of Spark Connect."""

from __future__ import annotations

from pyspark.sql import SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Return True if a session is a client of a Spark Connect server, without a JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
