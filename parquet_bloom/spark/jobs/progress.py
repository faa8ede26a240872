"""Run a job with its progress shown on a terminal, and cancel it when the caller is interrupted."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...util.progress import Bar
from ..session.connect import is_connect

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
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # no stderr, or a closed one
        return False


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
