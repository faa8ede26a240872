"""Assignment of files to Spark's tasks, by bytes and cores, as Spark packs the splits of a scan."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from pyspark.sql import SparkSession

from ...storage import Entry, stat_files
from ..session.jvm import is_classic

OPEN_COST_BYTES = 1 << 20
"""Bytes that opening a file counts for, as Spark's `openCostInBytes`. Measured: embedding into a small file takes 5 ms,
in which a core does 650 KB of a large one."""

MAX_TASK_BYTES = 128 << 20
"""Approximate bytes of a task, as Spark's `maxPartitionBytes`: the work that is repeated when a task is lost."""

MAX_TASKS = 4096
"""More tasks would take longer to start than they save."""

_CORES_UNKNOWN = 16  # Spark Connect does not report how many tasks run at a time
_UNKNOWN_SIZE = 64 << 20


def assign_tasks(sizes: Sequence[int], cores: int) -> list[int]:
    """Assign files to tasks so that all tasks take about as long.

    An empty Python task costs Spark 55 to 110 ms, a small file a few: so there is one task per core, in as many rounds
    as keep each task below `MAX_TASK_BYTES`. The largest files are assigned first, each to the task with the fewest
    bytes so far.

    Parameters
    ----------
    sizes : bytes that are read of each file; 0 if only the footer is read.
    cores : number of tasks that run at a time.

    Returns
    -------
    The number of each file's task, from 0. No task is empty.
    """
    total = sum(sizes) + OPEN_COST_BYTES * len(sizes)
    rounds = -(-total // (MAX_TASK_BYTES * cores))
    num_tasks = min(len(sizes), MAX_TASKS, rounds * cores)
    loads = [(0, task) for task in range(num_tasks)]
    heapify(loads)
    tasks = [0] * len(sizes)
    for file in sorted(range(len(sizes)), key=lambda file: -sizes[file]):
        load, task = loads[0]
        tasks[file] = task
        heapreplace(loads, (load + sizes[file] + OPEN_COST_BYTES, task))
    return tasks


def count_cores(spark: SparkSession) -> int:
    """Return about how many tasks a session runs at a time."""
    return max(1, spark.sparkContext.defaultParallelism) if is_classic(spark) else _CORES_UNKNOWN


def find_sizes(entries: Sequence[Entry]) -> list[int]:
    """Return the sizes of files in bytes as far as they are known without a request per file, and else 64 MiB."""
    local = stat_files([entry.path if entry.known is None else "" for entry in entries])
    return [
        (source.size if source is not None else _UNKNOWN_SIZE) if entry.known is None else entry.known.size or 0
        for entry, source in zip(entries, local, strict=True)
    ]
