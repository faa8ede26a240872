"""Assignment of files to Spark's tasks, by bytes and cores, as Spark packs the splits of a scan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TypeVar

from pyspark.sql import SparkSession

from ...storage import Entry, stat_files
from ..session.jvm import is_classic
from ..session.settings import setting

T = TypeVar("T")

OPEN_COST_BYTES = 1 << 20
"""Bytes that opening a file counts for, as Spark's `openCostInBytes`. Measured: embedding into a small file takes 5 ms,
in which a core does 650 KB of a large one."""

MAX_TASK_BYTES = 128 << 20
"""Default of `spark.sql.files.maxPartitionBytes`."""

MAX_TASKS = 4096
"""More tasks would take longer to start than they save."""

_CORES_UNKNOWN = 16  # Spark Connect does not report how many tasks run at a time
_UNKNOWN_SIZE = 64 << 20
_BYTES = re.compile(r"(\d{1,18})\s*([kmgtp]?)i?b?", re.IGNORECASE)
_COUNT = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class TaskLimits:
    """How much a session has a task do.

    Attributes
    ----------
    cores : number of tasks that run at a time.
    max_bytes : approximate bytes of a task: the work that is repeated when a task is lost.
    max_tasks : number of tasks of a job at most.
    """

    cores: int
    max_bytes: int = MAX_TASK_BYTES
    max_tasks: int = MAX_TASKS

    @classmethod
    def of(cls, spark: SparkSession) -> TaskLimits:
        """Read the settings by which Spark packs the splits of a scan."""
        cores = _read_count(spark, "spark.sql.files.minPartitionNum") or count_cores(spark)
        max_tasks = min(_read_count(spark, "spark.sql.files.maxPartitionNum") or MAX_TASKS, MAX_TASKS)
        max_bytes = _parse_bytes(setting(spark, "spark.sql.files.maxPartitionBytes"))
        return cls(cores, max(OPEN_COST_BYTES, max_bytes or MAX_TASK_BYTES), max_tasks)


def pack(items: Sequence[T], sizes: Sequence[int], limits: TaskLimits) -> list[list[T]]:
    """Return the items of each task; within a task they keep their order."""
    tasks = assign_tasks(sizes, limits)
    packed: list[list[T]] = [[] for _ in range(max(tasks, default=-1) + 1)]
    for item, task in zip(items, tasks, strict=True):
        packed[task].append(item)
    return packed


def assign_tasks(sizes: Sequence[int], limits: TaskLimits) -> list[int]:
    """Assign files to tasks so that all tasks take about as long.

    Spark takes milliseconds to start a task, tens of them where the machine is busy, a small file takes a few: so there
    is one task per core, in as many rounds as keep each task below the limit. The largest files are assigned first,
    each to the task with the fewest bytes so far.

    Parameters
    ----------
    sizes : bytes that are read of each file; 0 if only the footer is read.

    Returns
    -------
    The number of each file's task, from 0. No task is empty.
    """
    rounds = -(-estimate_load(sizes) // (limits.max_bytes * limits.cores))
    num_tasks = min(len(sizes), limits.max_tasks, rounds * limits.cores)
    loads = [(0, task) for task in range(num_tasks)]
    heapify(loads)
    tasks = [0] * len(sizes)
    for file in sorted(range(len(sizes)), key=lambda file: -sizes[file]):
        load, task = loads[0]
        tasks[file] = task
        heapreplace(loads, (load + sizes[file] + OPEN_COST_BYTES, task))
    return tasks


def estimate_load(sizes: Sequence[int]) -> int:
    """Return the bytes of some files, with those that opening them counts for."""
    return sum(sizes) + OPEN_COST_BYTES * len(sizes)


def count_cores(spark: SparkSession) -> int:
    """Return about how many tasks a session runs at a time."""
    parallelism = _read_count(spark, "spark.sql.leafNodeDefaultParallelism")
    if parallelism:
        return parallelism
    return max(1, spark.sparkContext.defaultParallelism) if is_classic(spark) else _CORES_UNKNOWN


def find_sizes(entries: Sequence[Entry]) -> list[int]:
    """Return the sizes of files in bytes as far as they are known without a request per file, and else 64 MiB."""
    local = stat_files([entry.path if entry.known is None else "" for entry in entries])
    return [
        (source.size if source is not None else _UNKNOWN_SIZE) if entry.known is None else entry.known.size or 0
        for entry, source in zip(entries, local, strict=True)
    ]


def _read_count(spark: SparkSession, key: str) -> int:
    """Return a setting that is a number, or 0 if it is not set."""
    text = setting(spark, key)
    return int(text) if _COUNT.fullmatch(text) else 0


def _parse_bytes(text: str) -> int:
    """Parse a number of bytes as Spark writes it (`134217728b`, `128MB`); 0 if it is not one."""
    match = _BYTES.fullmatch(text.strip())
    return int(match[1]) << 10 * " kmgtp".index(match[2].lower() or " ") if match else 0
