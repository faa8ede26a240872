"""Which of Spark's tasks does which files: by bytes and by cores, as Spark packs the splits of a scan."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from pyspark.sql import SparkSession

from ...storage import Entry, stat_files
from ..session.jvm import is_classic

OPENING = 1 << 20
"""Bytes that opening a file counts for, as Spark's `openCostInBytes`. Measured: embedding into a small file takes 5 ms,
in which a core does 650 KB of a large one."""

LARGEST_TASK = 128 << 20
"""Bytes of a task, about, as Spark's `maxPartitionBytes`: so much is done again where a task is lost."""

MOST_TASKS = 4096
"""More of them would take longer to start than they save."""

_CORES_UNKNOWN = 16  # Spark Connect does not tell how many tasks run at a time
_UNKNOWN_SIZE = 64 << 20


def packed(sizes: Sequence[int], cores: int) -> list[int]:
    """Share files out among tasks, so that all take about as long.

    A Python task that does nothing costs Spark 55 to 110 ms, a small file a few: as many tasks run as there are cores,
    and in as many rounds as keep a task below `LARGEST_TASK`. The largest files are given out first, each to the task
    that has the fewest bytes so far.

    Parameters
    ----------
    sizes : bytes that are read of each file; 0 where it is the footer alone.
    cores : how many tasks run at a time.

    Returns
    -------
    The number of each file's task. They count from 0, and each has a file.
    """
    total = sum(sizes) + OPENING * len(sizes)
    rounds = -(-total // (LARGEST_TASK * cores))
    num_tasks = min(len(sizes), MOST_TASKS, rounds * cores)
    loads = [(0, task) for task in range(num_tasks)]
    heapify(loads)
    tasks = [0] * len(sizes)
    for file in sorted(range(len(sizes)), key=lambda file: -sizes[file]):
        load, task = loads[0]
        tasks[file] = task
        heapreplace(loads, (load + sizes[file] + OPENING, task))
    return tasks


def cores_of(spark: SparkSession) -> int:
    """Return about how many tasks a session runs at a time."""
    return max(1, spark.sparkContext.defaultParallelism) if is_classic(spark) else _CORES_UNKNOWN


def sizes_of(entries: Sequence[Entry]) -> list[int]:
    """Return the bytes of files as far as they are known without asking for each; others count as 64 MiB."""
    local = stat_files([entry.path if entry.known is None else "" for entry in entries])
    return [
        (source.size if source is not None else _UNKNOWN_SIZE) if entry.known is None else entry.known.size or 0
        for entry, source in zip(entries, local, strict=True)
    ]
