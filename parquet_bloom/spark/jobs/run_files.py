"""Process many files on Spark's executors: an error with one file becomes its outcome and does not fail the job."""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...errors import ParquetBloomError, StorageError
from ...redaction import remember, without_secrets
from ...storage import Entry, is_url, list_entries, resolve_filesystem
from ...util.progress import Bar
from ..session.jvm import is_classic
from ..session.session_settings import is_connect, is_local, local_path, path_list, use_driver_python
from .file_tasks import (
    ArrowTask,
    FileTask,
    NumberedFile,
    Outcome,
    TaskLimits,
    estimate_load,
    find_secrets,
    hide_secrets,
    pack,
)

R = TypeVar("R")

_POLL_SECONDS = 0.25
_CANCEL_SECONDS = 5.0  # longest that an interrupted caller waits for Spark to end the job
_FAILURES = (PySparkException, Py4JError, OSError)


def run_with_progress(spark: SparkSession, label: str, files: int, tasks: int, job: Callable[[], R]) -> R:
    """Run a job of a number of tasks, show its progress, and cancel it if the caller is interrupted.

    The bar appears after a second, on stderr if that is a terminal, unless Spark draws its own. It counts the
    completed tasks of the stage that has this number of tasks, each as an equal share of the files.

    The job runs in a separate thread: an interrupt in the middle of a call to the JVM would leave a response in the
    pipe, which the thread's next call would read as its own.
    """
    tag = f"parquet_bloom-{uuid.uuid4().hex}"
    control: _ClassicControl | _ConnectControl = _ConnectControl(spark) if is_connect(spark) else _ClassicControl(spark)
    visible = is_terminal() and not control.draws_progress
    results: list[R] = []
    problems: list[BaseException] = []
    done = threading.Event()  # an interrupted `join` would mark the thread as no longer alive
    settings = control.settings()

    def work() -> None:
        try:
            control.begin(tag, settings)
            results.append(job())
        except BaseException as error:
            problems.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work, name="parquet_bloom job", daemon=True)
    with make_bar(label, files, visible) as bar, ExitStack() as stack:
        if visible:
            stack.enter_context(
                control.report_progress(tag, tasks, lambda done: bar.update(files * done // tasks, files))
            )
        try:
            thread.start()
            done.wait()
        except BaseException:
            _cancel(control, tag, done)
            raise
    if problems:
        raise problems[0]
    return results[0]


def make_bar(label: str, files: int, visible: bool) -> Bar:
    """Make the progress bar of a number of files."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Bar(label, files, visible, not plain)


def _cancel(control: _ClassicControl | _ConnectControl, tag: str, done: threading.Event) -> None:
    """Cancel a job, which may not have started yet."""
    until = time.monotonic() + _CANCEL_SECONDS
    while not done.is_set() and time.monotonic() < until:
        with suppress(*_FAILURES):
            control.cancel(tag)
        done.wait(_POLL_SECONDS)


def is_terminal() -> bool:
    """Return True if stderr is a terminal."""
    stream = sys.stderr  # None where there is none
    return stream is not None and not stream.closed and stream.isatty()


class _ClassicControl:
    """Control of a classic session's job by a job tag, which leaves the caller's job group alone."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.draws_progress = self._context.getConf().get("spark.ui.showConsoleProgress", "false").lower() == "true"

    def settings(self) -> Any:
        """Return the caller's thread-local job settings: group, pool, description, tags."""
        return self._context._jsc.sc().getLocalProperties().clone()

    def begin(self, tag: str, settings: Any) -> None:
        """Give the jobs of this new thread the caller's settings and a tag."""
        self._context._jsc.sc().setLocalProperties(settings)
        self._context.addJobTag(tag)

    def cancel(self, tag: str) -> None:
        self._context.cancelJobsWithTag(tag)

    @contextmanager
    def report_progress(self, tag: str, tasks: int, on_progress: Any) -> Iterator[None]:
        """Call `on_progress(completed tasks)` periodically."""
        stopped = threading.Event()

        def poll() -> None:
            with suppress(*_FAILURES):
                while not stopped.wait(_POLL_SECONDS):
                    on_progress(self._count_completed(tag, tasks))

        thread = threading.Thread(target=poll, name="parquet_bloom progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _count_completed(self, tag: str, tasks: int) -> int:
        """Return the number of completed tasks. Python's own status tracker does not support tags."""
        tracker = self._context._jsc.sc().statusTracker()
        last, completed = -1, 0
        for job in tracker.getJobIdsForTag(tag):
            job_info = tracker.getJobInfo(job)
            for stage in job_info.get().stageIds() if job_info.isDefined() else ():
                info = tracker.getStageInfo(stage)
                if info.isDefined() and info.get().numTasks() == tasks and stage > last:
                    last, completed = stage, info.get().numCompletedTasks()
        return min(completed, tasks)


class _ConnectControl:
    """Control of a Connect session's job by an operation tag, and by the progress that the server reports."""

    draws_progress = False

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def settings(self) -> Any:
        """Return the tags of the caller's thread."""
        return self._spark.getTags()

    def begin(self, tag: str, settings: Any) -> None:
        """Give the operations of this new thread the caller's tags and one more."""
        for operation_tag in (*settings, tag):
            self._spark.addTag(operation_tag)

    def cancel(self, tag: str) -> None:
        self._spark.interruptTag(tag)

    @contextmanager
    def report_progress(self, tag: str, tasks: int, on_progress: Any) -> Iterator[None]:
        """Call `on_progress(completed tasks)` when the server reports progress, if this client supports that."""
        if not hasattr(self._spark, "registerProgressHandler"):
            yield
            return

        def handle(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            stages_of_job = [stage for stage in stages or () if stage.num_tasks == tasks]
            if stages_of_job:
                on_progress(min(tasks, max(stages_of_job, key=lambda stage: stage.stage_id).num_completed_tasks))

        session: Any = self._spark  # pyspark declares handlers as classes but calls them as functions
        session.registerProgressHandler(handle)
        try:
            yield
        finally:
            session.removeProgressHandler(handle)


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
    """Process many files in one job, several of them in each task (see `file_tasks.pack`).

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
