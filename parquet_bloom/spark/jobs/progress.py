"""A job that is watched while it runs: its progress on a terminal, and its end when the caller is interrupted."""

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

R = TypeVar("R")

_EVERY = 0.25  # seconds between two looks
_UNTIL_CANCELLED = 5.0  # seconds: an interrupted caller waits no longer for Spark to end the job
_FAILURES = (PySparkException, Py4JError, OSError)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to its server by Spark Connect, and has no JVM at hand."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def watched(spark: SparkSession, what: str, files: int, tasks: int, job: Callable[[], R]) -> R:
    """Run a job of so many tasks, show how it gets on, and cancel it if the caller is interrupted.

    The bar comes after a second, on stderr and if that is a terminal, but not where Spark draws one of its own. It
    counts the stage that has this number of tasks, and takes each for an equal share of the files.

    The job runs in a thread of its own: an interrupt in the middle of a call to the JVM would leave an answer in the
    pipe, which the thread's next call would take for its own.
    """
    tag = f"parquet_bloom-{uuid.uuid4().hex}"
    watch: _Classic | _Connect = _Connect(spark) if is_connect(spark) else _Classic(spark)
    visible = _is_terminal() and not watch.draws
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    results: list[R] = []
    problems: list[BaseException] = []
    done = threading.Event()  # a thread whose `join` was interrupted says that it is no longer alive
    settings = watch.settings()

    def work() -> None:
        try:
            watch.begin(tag, settings)
            results.append(job())
        except BaseException as error:
            problems.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=work, name="parquet_bloom job", daemon=True)
    with Bar(what, files, visible, not plain) as bar, ExitStack() as stack:
        if visible:
            stack.enter_context(watch.followed(tag, tasks, lambda done: bar.update(files * done // tasks, files)))
        try:
            thread.start()
            done.wait()
        except BaseException:
            _cancel(watch, tag, done)
            raise
    if problems:
        raise problems[0]
    return results[0]


def _cancel(watch: _Classic | _Connect, tag: str, done: threading.Event) -> None:
    """Cancel a job, which may be one that only comes to be while it is cancelled."""
    until = time.monotonic() + _UNTIL_CANCELLED
    while not done.is_set() and time.monotonic() < until:
        with suppress(*_FAILURES):
            watch.cancel(tag)
        done.wait(_EVERY)


def _is_terminal() -> bool:
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


class _Classic:
    """By tags of jobs, which leave the caller's job group alone."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.draws = self._context.getConf().get("spark.ui.showConsoleProgress", "false").lower() == "true"

    def settings(self) -> Any:
        """What the caller's thread has set for its jobs: their group, pool, description, tags."""
        return self._context._jsc.sc().getLocalProperties().clone()

    def begin(self, tag: str, settings: Any) -> None:
        """Let the jobs of this thread, which is new, be like the caller's, and known by a tag."""
        self._context._jsc.sc().setLocalProperties(settings)
        self._context.addJobTag(tag)

    def cancel(self, tag: str) -> None:
        self._context.cancelJobsWithTag(tag)

    @contextmanager
    def followed(self, tag: str, tasks: int, tell: Any) -> Iterator[None]:
        """Have `tell(tasks done)` called now and then."""
        over = threading.Event()

        def look() -> None:
            with suppress(*_FAILURES):
                while not over.wait(_EVERY):
                    tell(self._completed(tag, tasks))

        thread = threading.Thread(target=look, name="parquet_bloom progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _completed(self, tag: str, tasks: int) -> int:
        """Tasks that are done. Python's own tracker knows no tags."""
        tracker = self._context._jsc.sc().statusTracker()
        last, completed = -1, 0
        for job in tracker.getJobIdsForTag(tag):
            found = tracker.getJobInfo(job)
            for stage in found.get().stageIds() if found.isDefined() else ():
                info = tracker.getStageInfo(stage)
                if info.isDefined() and info.get().numTasks() == tasks and stage > last:
                    last, completed = stage, info.get().numCompletedTasks()
        return min(completed, tasks)


class _Connect:
    """By tags of operations, and by what the server tells while it sends its answer."""

    draws = False

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def settings(self) -> Any:
        """The tags that the caller's thread has set."""
        return self._spark.getTags()

    def begin(self, tag: str, settings: Any) -> None:
        """Let the operations of this thread, which is new, be like the caller's, and known by a tag."""
        for each in (*settings, tag):
            self._spark.addTag(each)

    def cancel(self, tag: str) -> None:
        self._spark.interruptTag(tag)

    @contextmanager
    def followed(self, tag: str, tasks: int, tell: Any) -> Iterator[None]:
        """Have `tell(tasks done)` called when the server tells, if this client can hear it."""
        if not hasattr(self._spark, "registerProgressHandler"):
            yield
            return

        def handle(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            ours = [stage for stage in stages or () if stage.num_tasks == tasks]
            if ours:
                tell(min(tasks, max(ours, key=lambda stage: stage.stage_id).num_completed_tasks))

        session: Any = self._spark  # its handlers are declared as classes, and called as functions
        session.registerProgressHandler(handle)
        try:
            yield
        finally:
            session.removeProgressHandler(handle)
