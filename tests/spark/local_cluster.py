"""For the scripts that start sessions of their own: a cluster of two executors on this machine, or a local master."""

import os
from pathlib import Path
from typing import Any

import pyspark

SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start(master: str, folder: Path, **more: str) -> Any:
    """Start a small session, whose files are below a folder; `more` are settings with underscores for dots.

    What a cluster's workers write goes into a copy of Spark by links, `SPARK_HOME`: they write there whatever
    `SPARK_WORKER_DIR` says, which is else a folder beside Spark's own jars.
    """
    if "cluster" in master:
        home = folder / "spark"
        home.mkdir(parents=True)
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (home / entry.name).symlink_to(entry)
        os.environ["SPARK_HOME"] = str(home)
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": SMALL,
        "spark.executor.extraJavaOptions": SMALL,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "OFF",
    }
    builder = SparkSession.builder.master(master)
    for key, value in (settings | {name.replace("_", "."): value for name, value in more.items()}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
