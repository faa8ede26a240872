"""The same done to many files by Spark's executors: what goes wrong with one is its outcome, and ends no job."""

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
from .packing import cores_of, packed
from .progress import watched

R = TypeVar("R")

_SECRET = re.compile("(?!.*_id$).*(secret|token|password|key|credential|signature|sas|auth|headers)", re.IGNORECASE)
_SHORTEST_SECRET = 6  # characters: shorter ones occur in any text
_HIDDEN = "***"


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What became of one file.

    Attributes
    ----------
    path : the file.
    result : what the work gave back; None if it failed.
    error : why it failed, on one line; None if it did not.
    seconds : time that the file took.
    """

    path: str
    result: R | None = None
    error: str | None = None
    seconds: float = 0.0


def find_files(paths: Any, storage_options: Mapping[str, Any] | None) -> tuple[list[str], list[Entry]]:
    """What a caller's paths name, and the data files there: absolute, as an executor's working folder is another.

    Raises
    ------
    StorageError
        There is no such path, or it is on a file system that Python on the executors has no way to.
    ManagedTableError
        A folder leads into a table or below a streaming sink.
    """
    named = named_paths(paths)
    entries = list_entries(named, resolve_filesystem(None, storage_options))
    return named, [entry if is_url(entry.path) else Entry(os.path.abspath(entry.path)) for entry in entries]


def named_paths(paths: Any) -> list[str]:
    """What a caller's paths name: absolute local paths, and URLs.

    Raises
    ------
    StorageError
        One is on a file system that Python on the executors has no way to.
    """
    named = []
    for path in path_list(paths):
        found = path if is_url(path) else local_path(path)
        if found is None:
            raise StorageError("only local files, and objects by their URLs, can be reached", path=path)
        named.append(found)
    return named


@dataclass(frozen=True)
class _Tasks(Generic[R]):
    """What every task knows and runs. Files are not in it: each task is given its own as rows."""

    work: Callable[[str], R]
    secrets: Sequence[str] = field(default=(), repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        # Every second attempt begins with the last file: where the first one lives on (speculation, an executor that
        # was only lost from sight) the two meet once, and neither follows the other from file to file.
        backwards = context is not None and context.attemptNumber() % 2 == 1
        for batch in batches:
            files = sorted(zip(*(batch.column(name).to_pylist() for name in ("number", "path")), strict=True))
            if backwards:
                files.reverse()
            # Told at once: batches of a row each would take longer than many a file does.
            outcomes = [pickle.dumps(self.outcome(decoded(path))) for _, path in files]
            numbers = pa.array([number for number, _ in files], pa.int64())
            yield pa.RecordBatch.from_pydict({"number": numbers, "outcome": pa.array(outcomes, pa.binary())})

    def outcome(self, path: str) -> Outcome[R]:
        """One file; whatever goes wrong with it is its outcome."""
        started = time.perf_counter()
        result, problem = None, None
        try:
            result = self.work(path)
        except ParquetBloomError as error:
            problem = str(error)
        except Exception as error:
            problem = printable(f"{path}: {type(error).__name__}: {' '.join(str(error).split())}")
        if problem is not None:
            problem = without(self.secrets, problem)
        return Outcome(path, result, problem, time.perf_counter() - started)


def run(
    spark: SparkSession,
    what: str,
    files: Sequence[str],
    work: Callable[[str], R],
    storage_options: Mapping[str, Any] | None = None,
    sizes: Sequence[int] | None = None,
) -> list[Outcome[R]]:
    """Do the same to many files, some of them in each task (see `packing`).

    Nothing of it is left behind that a later action could run again. Tasks may run more than once, also side by side
    (retries, speculation, executors that are lost and live on): the work must bear that, for any of a task's files.

    Parameters
    ----------
    spark : the session, classic or Connect.
    what : what is being done, for the progress bar.
    files : their paths, which the executors understand as well.
    work : called with a path. It is pickled, and so is what it gives back.
    storage_options : what of them looks like a secret is shown in no error's text.
    sizes : bytes that are read of each file; None where it is footers alone.

    Returns
    -------
    An outcome a file, in the order of `files`.

    Raises
    ------
    ParquetBloomError
        The job itself failed. When it is interrupted, it is cancelled.
    """
    if not files:
        return []
    remember(storage_options)
    secrets = secrets_of(storage_options)
    tasks = _Tasks(work, secrets)
    shares = packed([0] * len(files) if sizes is None else sizes, cores_of(spark))

    def job() -> list[Any]:
        asked = given_out(spark, files, shares).mapInArrow(tasks, "number BIGINT, outcome BINARY")
        return watched(spark, what, len(files), max(shares) + 1, asked.collect)

    rows = collected([tasks], secrets, job)
    found = {int(row["number"]): bytes(row["outcome"]) for row in rows}
    if len(found) != len(files):
        raise ParquetBloomError(f"the Spark job told of {len(found):,} files instead of {len(files):,}")
    return [pickle.loads(found[number]) for number in range(len(files))]


def collected(tasks: Iterable[Any], secrets: Sequence[str], job: Callable[[], list[Any]]) -> list[Any]:
    """The rows of a job.

    Parameters
    ----------
    tasks : what is sent to the executors.
    secrets : what no error's text may show.

    Raises
    ------
    ParquetBloomError
        The job failed.
    """
    try:
        for each in tasks:
            cloudpickle.dumps(each)  # type: ignore[no-untyped-call]
    except Exception as error:
        problem = f"the job cannot be sent to the executors: {type(error).__name__}: {error}"
        raise ParquetBloomError(without(secrets, problem)) from None
    try:
        return job()
    except (PySparkException, Py4JError, OSError) as error:
        raise ParquetBloomError(without(secrets, job_problem(str(error)))) from without_secrets(error)


def given_out(
    spark: SparkSession, files: Sequence[str], shares: Sequence[int], more: Mapping[str, Sequence[int]] | None = None
) -> Any:
    """The files as rows, and each task's in a partition of its own, without a shuffle that a lost executor could lose.

    They have columns `number`, `task` (of `shares`, see `packed`), `path` (see `decoded`), and of `more` whole numbers
    of each file.

    Rows of a local table come in as many partitions as there are cores, but those of a range in as many as one likes:
    the table is broadcast, and joined to a range of one row a task.
    """
    num_tasks = max(shares) + 1
    table = pa.table(
        {
            "number": pa.array(range(len(files)), pa.int64()),
            "task": pa.array(shares, pa.int64()),
            "path": pa.array([_encoded(file) for file in files], pa.binary()),
            **{name: pa.array(values, pa.int64()) for name, values in (more or {}).items()},
        }
    )
    tasks = spark.range(0, num_tasks, 1, num_tasks).withColumnRenamed("id", "task")
    return tasks.join(F.broadcast(spark.createDataFrame(table)), "task").select(table.column_names)


def _encoded(path: str) -> bytes:
    """Any path as bytes: not every file's name is text, and what executors take for their encoding is not sure."""
    return path.encode("utf-8", "surrogateescape")


def decoded(path: bytes) -> str:
    return bytes(path).decode("utf-8", "surrogateescape")


def secrets_of(storage_options: Mapping[str, Any] | None) -> list[str]:
    """What among the options should not be read by others, as texts that could come up in an error's."""
    found = [value for name, value in (storage_options or {}).items() if _SECRET.match(str(name))]
    texts = [str(text) for value in found for text in (value.values() if isinstance(value, Mapping) else [value])]
    return sorted((text for text in texts if len(text) >= _SHORTEST_SECRET), key=len, reverse=True)


def without(secrets: Sequence[str], text: str) -> str:
    """A text with what is secret taken out."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def job_problem(text: str) -> str:
    """Why a job failed, from an error's many lines, and what helps where that is known."""
    python = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)\b.*)", text.partition("Traceback")[2], re.MULTILINE)
    java = re.search(r"most recent failure: .*?\): (.+)", text) or re.search(r"(\S+(?:Error|Exception)\b.*)", text)
    reason = python[0] if python else java[1] if java else text.strip().partition("\n")[0] or "no reason was given"
    if any(sign in text for sign in ("ModuleNotFoundError", "PYTHON_VERSION_MISMATCH", "Cannot run program")):
        reason = (
            f"{reason.rstrip('.')}; the executors need a Python of the driver's version that has this package: name it "
            f"in PYSPARK_PYTHON (or spark.pyspark.python) before the session starts; the driver runs {sys.executable}"
        )
    return f"the Spark job failed: {reason}"
