"""Which Python runs tasks: in local mode the driver's own."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from .jvm import is_classic

_lock = threading.Lock()
_before: dict[int, str] = {}  # by context, what it had before the first of the blocks that run now
_running: Counter[int] = Counter()


def is_local(spark: SparkSession) -> bool:
    """Return True if the driver of a classic session is its only executor: the master is `local` or `local[...]`."""
    return is_classic(spark) and re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master or "") is not None


@contextmanager
def use_driver_python(spark: SparkSession) -> Iterator[None]:
    """Run the Python functions that are made in the block in the driver's own Python, if the master is local.

    Spark runs `python3`, or what PYSPARK_PYTHON names. If a virtual environment is not activated, neither has this
    package. On a cluster, where executors have paths of their own, and in programs that embed Python, nothing changes.
    """
    if not is_local(spark) or not os.path.basename(sys.executable or "").startswith("python"):
        yield
        return
    context = spark.sparkContext
    key = id(context)
    with _lock:
        if not _running[key]:
            _before[key] = context.pythonExec
        _running[key] += 1
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        with _lock:
            _running[key] -= 1
            if not _running[key]:
                context.pythonExec = _before.pop(key)
                del _running[key]
