"""For the scripts that start a local cluster."""

from pathlib import Path

import pyspark


def spark_home(folder: Path) -> Path:
    """A copy of Spark by links, for `SPARK_HOME`: what a local cluster's workers write goes into `work` in it.

    They write there whatever `SPARK_WORKER_DIR` says, which is else a folder beside Spark's own jars.
    """
    home = folder / "spark"
    home.mkdir(parents=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home
