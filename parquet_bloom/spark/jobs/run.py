"""Process many files on Spark's executors: an error with one file becomes its outcome and does not fail the job."""

from __future__ import annotations

import os
import pickle
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...errors import ParquetBloomError, StorageError, printable
from ...redaction import remember, without_secrets
from ...storage import Entry, is_url, list_entries, resolve_filesystem
from ..session.paths import local_path, path_list
from .packing import assign_tasks, count_cores
from .progress import run_with_progress

R = TypeVar("R")

_SECRET = re.compile("(?!.*_id$).*(secret|token|password|key|credential|signature|sas|auth|headers)", re.IGNORECASE)
_MIN_SECRET_CHARS = 6  # characters: shorter ones occur in any text
_HIDDEN = "***"


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


@dataclass(frozen=True)
class _FileTask(Generic[R]):
    """Function that Spark runs in each task. The files are passed as rows, not as attributes."""

    work: Callable[[str], R]
    secrets: Sequence[str] = field(default=(), repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        # Every second attempt begins with the last file: if the first one is still running (speculation, an executor
        # wrongly considered lost), the two meet once instead of following each other from file to file.
        backwards = context is not None and context.attemptNumber() % 2 == 1
        for batch in batches:
            files = sorted(zip(*(batch.column(name).to_pylist() for name in ("number", "path")), strict=True))
            if backwards:
                files.reverse()
            # One batch for all files: batches of one row would take longer than many a file does.
            outcomes = [pickle.dumps(self.process(decode_path(path))) for _, path in files]
            numbers = pa.array([number for number, _ in files], pa.int64())
            yield pa.RecordBatch.from_pydict({"number": numbers, "outcome": pa.array(outcomes, pa.binary())})

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


def run(
    spark: SparkSession,
    label: str,
    files: Sequence[str],
    work: Callable[[str], R],
    storage_options: Mapping[str, Any] | None = None,
    sizes: Sequence[int] | None = None,
) -> list[Outcome[R]]:
    """Process many files in one job, several of them in each task (see `packing`).

    No lazy DataFrame remains that a later action could run again. Tasks may run more than once, also concurrently
    (retries, speculation, executors considered lost): the work must tolerate that for each of a task's files.

    Parameters
    ----------
    spark : the session, classic or Connect.
    label : text of the progress bar.
    files : paths that are valid on the executors.
    work : called with a path. It is pickled, and so is its result.
    storage_options : values that look like secrets are removed from errors.
    sizes : bytes that are read of each file; None if only footers are read.

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
    secrets = find_secrets(storage_options)
    file_task = _FileTask(work, secrets)
    tasks_of_files = assign_tasks([0] * len(files) if sizes is None else sizes, count_cores(spark))

    def job() -> list[Any]:
        frame = distribute_files(spark, files, tasks_of_files).mapInArrow(file_task, "number BIGINT, outcome BINARY")
        return run_with_progress(spark, label, len(files), max(tasks_of_files) + 1, frame.collect)

    rows = collect_rows([file_task], secrets, job)
    outcomes = {int(row["number"]): bytes(row["outcome"]) for row in rows}
    if len(outcomes) != len(files):
        raise ParquetBloomError(f"the Spark job returned results for {len(outcomes):,} of {len(files):,} files")
    return [pickle.loads(outcomes[number]) for number in range(len(files))]


def collect_rows(tasks: Iterable[Any], secrets: Sequence[str], job: Callable[[], list[Any]]) -> list[Any]:
    """Return the rows of a job.

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


def distribute_files(
    spark: SparkSession,
    files: Sequence[str],
    tasks_of_files: Sequence[int],
    extra_columns: Mapping[str, Sequence[int]] | None = None,
) -> Any:
    """Return the files as rows, each task's in one partition, without a shuffle whose output an executor could lose.

    They have the columns `number`, `task` (from `tasks_of_files`, see `assign_tasks`), `path` (see `decode_path`),
    and the integer `extra_columns`.

    Spark splits a local table into one partition per core, but a range into any number of partitions: so the table is
    broadcast and joined to a range of one row per task.
    """
    num_tasks = max(tasks_of_files) + 1
    table = pa.table(
        {
            "number": pa.array(range(len(files)), pa.int64()),
            "task": pa.array(tasks_of_files, pa.int64()),
            "path": pa.array([_encode_path(file) for file in files], pa.binary()),
            **{name: pa.array(values, pa.int64()) for name, values in (extra_columns or {}).items()},
        }
    )
    task_range = spark.range(0, num_tasks, 1, num_tasks).withColumnRenamed("id", "task")
    return task_range.join(F.broadcast(spark.createDataFrame(table)), "task").select(table.column_names)


def _encode_path(path: str) -> bytes:
    """Return a path as bytes: not every file name is valid text, and executors may use another encoding."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """Return the path that `_encode_path` has encoded."""
    return bytes(path).decode("utf-8", "surrogateescape")


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
