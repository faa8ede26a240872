"""Process files one by one or in parallel, with results in the order of the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from ...errors import ParquetBloomError
from ...util.progress import Bar
from ...util.threads import in_order
from ..options.paths import MatchedPaths
from ..output.output import Output

R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with (completed parts of a file, number of parts)."""

Work = Callable[[MatchedPaths, Progress], R]


class _StoppedError(Exception):
    """Raised by the progress function to end work on a file whose result is not needed any more."""


@contextmanager
def run_over_files(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], jobs: int
) -> Iterator[Iterator[R]]:
    """Yield an iterator over the results of `work` for each file; files that fail are reported and skipped.

    Parameters
    ----------
    output : shows the progress bar, adds up the time of step `what`, and takes the errors.
    work : called with a file and a progress function; in other threads if there are several `jobs`. When the `with`
        statement is left early, for example by Ctrl-C, the progress function raises, so that a file in progress is
        cleaned up at once.
    jobs : number of files processed at the same time.
    """
    with output.progress(len(files)) as bar:
        if jobs == 1 or len(files) < 2:
            yield _run_sequentially(output, what, files, work, bar)
            return
        with _run_in_parallel(output, what, files, work, jobs, bar) as results:
            yield results


def _run_sequentially(output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], bar: Bar) -> Iterator[R]:
    for file in bar.track(files):
        with output.collect_errors():
            with output.step(what):
                result = work(file, bar.update_file)
            yield result


@contextmanager
def _run_in_parallel(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], jobs: int, bar: Bar
) -> Iterator[Iterator[R]]:
    stopped = threading.Event()

    def one(file: MatchedPaths) -> R | ParquetBloomError:
        move = bar.make_file_updater()

        def progress(done: int, total: int) -> None:
            if stopped.is_set():
                raise _StoppedError
            move(done, total)

        try:
            return work(file, progress)
        except ParquetBloomError as error:
            return error
        finally:
            move(1, 1)

    def results(outcomes: Iterator[R | ParquetBloomError]) -> Iterator[R]:
        for outcome in outcomes:
            if isinstance(outcome, ParquetBloomError):
                output.fail(outcome)
            else:
                yield outcome

    with output.step(what), in_order(one, files, min(jobs, len(files))) as outcomes:
        try:
            yield results(outcomes)
        except BaseException:
            stopped.set()  # before waiting for the threads
            raise
