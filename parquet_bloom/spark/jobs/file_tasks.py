"""What a Spark task does with its files: one outcome for each, whatever happens to another."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from ...errors import ParquetBloomError, printable
from ...storage import Entry, stat_files
from ...util.threads import in_order
from ..session.jvm import is_classic
from ..session.session_settings import setting

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


R = TypeVar("R")

_SECRET = re.compile("(?!.*_id$).*(secret|token|password|key|credential|signature|sas|auth|headers)", re.IGNORECASE)
_MIN_SECRET_CHARS = 6  # characters: shorter ones occur in any text
_HIDDEN = "***"

NumberedFile = tuple[int, str]
"""Position of a file in the job, and its path as it is valid on executors."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """Result of processing one file.

    Attributes
    ----------
    path : the file.
    result : the return value of the work; None if it failed.
    error : why it failed, in one line; None if it did not.
    seconds : time that the file took.
    """

    path: str
    result: R | None = None
    error: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class FileTask(Generic[R]):
    """Function that processes the files of a task: their pickled list to the pickled list of (number, outcome).

    Attributes
    ----------
    work : called with a path.
    secrets : texts that errors must not contain.
    threads : number of files at a time; more than one where a file mostly waits, for a disk or a store.
    """

    work: Callable[[str], R]
    secrets: Sequence[str] = field(default=(), repr=False)
    threads: int = 1

    def __call__(self, packed: bytes) -> bytes:
        context = TaskContext.get()
        files: list[NumberedFile] = pickle.loads(packed)
        # Every second attempt begins with the last file: if the first one is still running (speculation, an executor
        # wrongly considered lost), the two meet once instead of following each other from file to file.
        if context is not None and context.attemptNumber() % 2 == 1:
            files.reverse()
        return pickle.dumps([*self.process_files(files)])

    def process_files(self, files: Sequence[NumberedFile]) -> Iterator[tuple[int, Outcome[R]]]:
        """Process files in their order, `threads` of them at a time."""
        numbers, paths = [number for number, _ in files], [path for _, path in files]
        if self.threads == 1 or len(files) < 2:
            yield from zip(numbers, map(self.process, paths), strict=True)
            return
        with in_order(self.process, paths, min(self.threads, len(paths))) as outcomes:
            yield from zip(numbers, outcomes, strict=True)

    def process(self, path: str) -> Outcome[R]:
        """Process one file; any error becomes its outcome."""
        started = time.perf_counter()
        result, problem = None, None
        try:
            result = self.work(path)
        except ParquetBloomError as error:
            problem = str(error)
        except Exception as error:
            problem = printable(f"{path}: {type(error).__name__}: {' '.join(str(error).split())}")
        if problem is not None:
            problem = hide_secrets(self.secrets, problem)
        return Outcome(path, result, problem, time.perf_counter() - started)


@dataclass(frozen=True)
class ArrowTask:
    """Function for `mapInArrow` that gets the numbers of tasks, and yields what `task` returns for them.

    Attributes
    ----------
    task : called with what a task gets, returns bytes.
    packed : what each task gets.
    """

    task: Callable[[bytes], bytes]
    packed: Sequence[bytes] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in iter_numbers(batches):
            yield pa.RecordBatch.from_pydict({"data": pa.array([self.task(self.packed[number])], pa.binary())})


def iter_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Iterate over the numbers that a task gets as rows of one column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def find_secrets(storage_options: Mapping[str, Any] | None) -> list[str]:
    """Return the texts among the options that must not appear in errors."""
    values = [value for name, value in (storage_options or {}).items() if _SECRET.match(str(name))]
    texts = [str(text) for value in values for text in (value.values() if isinstance(value, Mapping) else [value])]
    return sorted((text for text in texts if len(text) >= _MIN_SECRET_CHARS), key=len, reverse=True)


def hide_secrets(secrets: Sequence[str], text: str) -> str:
    """Return a text with all secrets replaced."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text
