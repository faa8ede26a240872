"""Process many files on Spark's executors: an error with one file becomes its outcome and does not fail the job."""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import ParquetBloomError, StorageError
from ...redaction import remember, without_secrets
from ...storage import Entry, is_url, list_entries, resolve_filesystem
from ..session.driver_python import is_local, use_driver_python
from ..session.jvm import is_classic
from ..session.paths import local_path, path_list
from .file_tasks import ArrowTask, FileTask, NumberedFile, Outcome, find_secrets, hide_secrets
from .packing import TaskLimits, estimate_load, pack
from .progress import is_terminal, make_bar, run_with_progress

R = TypeVar("R")
T = TypeVar("T")

_THREADS_PER_TASK = 12  # where files are small: a file mostly waits for the disk to flush it, or to answer
_REMOTE_THREADS_PER_TASK = 8
_BYTES_AT_A_TIME = 64 << 20  # of the files that a task processes at a time
MAX_DRIVER_LOAD = 32 << 20  # bytes, see `estimate_load`: measured, a job takes longer to start than the driver for it


def find_files(paths: Any, storage_options: Mapping[str, Any] | None) -> tuple[list[str], list[Entry]]:
    """Resolve a caller's paths and list their data files, as absolute paths that are valid on executors.

    Raises
    ------
    StorageError
        The path does not exist, or Python on the executors cannot access its file system.
    ManagedTableError
        A folder is in a table or below a streaming sink.
    """
    resolved = resolve_paths(paths)
    entries = list_entries(resolved, resolve_filesystem(None, storage_options))
    return resolved, [entry if is_url(entry.path) else Entry(os.path.abspath(entry.path)) for entry in entries]


def resolve_paths(paths: Any) -> list[str]:
    """Resolve a caller's paths to absolute local paths and URLs.

    Raises
    ------
    StorageError
        Python on the executors cannot access the file system of a path.
    """
    resolved = []
    for path in path_list(paths):
        location = path if is_url(path) else local_path(path)
        if location is None:
            raise StorageError("only local files, and objects by their URLs, can be reached", path=path)
        resolved.append(location)
    return resolved


def run(
    spark: SparkSession,
    label: str,
    files: Sequence[str],
    work: Callable[[str], R],
    storage_options: Mapping[str, Any] | None = None,
    sizes: Sequence[int] | None = None,
    *,
    on_executors: bool = False,
) -> list[Outcome[R]]:
    """Process many files in one job, several of them in each task (see `packing`).

    No lazy DataFrame remains that a later action could run again. Tasks may run more than once, also concurrently
    (retries, speculation, executors considered lost): the work must tolerate that for each of a task's files.

    In local mode, where the driver is the executor, it processes a few files itself: that takes less than a job.

    Parameters
    ----------
    spark : the session, classic or Connect.
    label : text of the progress bar.
    files : paths that are valid on the executors.
    work : called with a path, in several threads. It is pickled, and so is its result.
    storage_options : values that look like secrets are removed from errors.
    sizes : bytes that are read of each file; None if only footers are read.
    on_executors : never process files in the driver.

    Returns
    -------
    One outcome per file, in the order of `files`.

    Raises
    ------
    ParquetBloomError
        The job failed. An interrupt cancels it.
    """
    if not files:
        return []
    remember(storage_options)
    sizes = [0] * len(files) if sizes is None else sizes
    secrets = find_secrets(storage_options)
    file_task = FileTask(work, secrets, _count_threads(files, sizes))
    numbered = [*enumerate(files)]
    if not on_executors and estimate_load(sizes) <= MAX_DRIVER_LOAD and _is_executor(spark, files):
        return _run_in_driver(label, numbered, file_task)
    packed = [pickle.dumps(task) for task in pack(numbered, sizes, TaskLimits.of(spark))]

    def job() -> list[bytes]:
        return run_with_progress(spark, label, len(files), len(packed), lambda: _run_tasks(spark, file_task, packed))

    results = collect_results([file_task], secrets, job)
    outcomes = dict(outcome for result in results for outcome in pickle.loads(result))
    if len(outcomes) != len(files):
        raise ParquetBloomError(f"the Spark job returned results for {len(outcomes):,} of {len(files):,} files")
    return [outcomes[number] for number in range(len(files))]


def _is_executor(spark: SparkSession, files: Sequence[str]) -> bool:
    """Return True if this process reaches the files as the executors do.

    In local mode there is one machine; environment variables with a store's secrets may still be set for workers only.
    """
    return is_local(spark) and not any(map(is_url, files))


def _count_threads(files: Sequence[str], sizes: Sequence[int]) -> int:
    """Return how many files a task processes at a time."""
    threads = _REMOTE_THREADS_PER_TASK if is_url(files[0]) else _THREADS_PER_TASK
    return max(1, min(threads, _BYTES_AT_A_TIME // max(*sizes, 1)))


def _run_tasks(spark: SparkSession, task: FileTask[R], packed: Sequence[bytes]) -> list[bytes]:
    """Run a job and return the results of its tasks; `packed` is what each of them gets."""
    if is_classic(spark):  # Spark plans no query for an RDD, which takes a third of the time
        with use_driver_python(spark):
            rdd = spark.sparkContext.parallelize(packed, len(packed))
            return [*map(bytes, rdd.map(task).collect())]
    frame = spark.range(0, len(packed), 1, len(packed)).mapInArrow(ArrowTask(task, packed), "data BINARY")
    return [bytes(row["data"]) for row in frame.collect()]


def _run_in_driver(label: str, files: Sequence[NumberedFile], task: FileTask[R]) -> list[Outcome[R]]:
    """Process files in this process, as one task would."""
    with make_bar(label, len(files), is_terminal()) as bar:
        outcomes: dict[int, Outcome[R]] = {}
        for number, outcome in task.process_files(files):
            outcomes[number] = outcome
            bar.update(len(outcomes), len(files))
    return [outcomes[number] for number in range(len(files))]


def collect_results(tasks: Iterable[Any], secrets: Sequence[str], job: Callable[[], list[T]]) -> list[T]:
    """Return the results of a job.

    Parameters
    ----------
    tasks : objects that are sent to the executors.
    secrets : texts that errors must not contain.

    Raises
    ------
    ParquetBloomError
        The job failed.
    """
    try:
        for task in tasks:
            cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    except Exception as error:
        problem = f"the job cannot be sent to the executors: {type(error).__name__}: {error}"
        raise ParquetBloomError(hide_secrets(secrets, problem)) from None
    try:
        return job()
    except (PySparkException, Py4JError, OSError) as error:
        raise ParquetBloomError(hide_secrets(secrets, describe_failure(str(error)))) from without_secrets(error)


def describe_failure(text: str) -> str:
    """Return why a job failed, in one line of an error's many, with a remedy for common causes."""
    python = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)\b.*)", text.partition("Traceback")[2], re.MULTILINE)
    java = re.search(r"most recent failure: .*?\): (.+)", text) or re.search(r"(\S+(?:Error|Exception)\b.*)", text)
    reason = python[0] if python else java[1] if java else text.strip().partition("\n")[0] or "no reason was given"
    if any(sign in text for sign in ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH", "Cannot run program")):
        reason = (
            f"{reason.rstrip('.')}; the executors need a Python of the driver's version that has this package: name it "
            f"in PYSPARK_PYTHON (or spark.pyspark.python) before the session starts; the driver runs {sys.executable}"
        )
    return f"the Spark job failed: {reason}"
