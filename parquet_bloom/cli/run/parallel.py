"""Files worked on one by one or several at once; either way results come in the order of the files."""

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
"""Called with (parts of a file done, parts in all)."""

Work = Callable[[MatchedPaths, Progress], R]


class _StoppedError(Exception):
    """Ends work on a file whose result nobody waits for any more."""


@contextmanager
def working(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], jobs: int
) -> Iterator[Iterator[R]]:
    """Results of `work` over files, while the `with` statement lasts; a file that fails is reported, the rest goes on.

    Parameters
    ----------
    output : shows the bar, counts the time for `what`, and takes the errors.
    work : called with a file and a function that is to be told how far it is; in other threads when there are several
        `jobs`. When the statement is left early, for example by Ctrl-C, that function raises, so that a file half done
        is cleared up at once.
    jobs : files that are worked on at once.
    """
    with output.progress(len(files)) as bar:
        if jobs == 1 or len(files) < 2:
            yield _one_by_one(output, what, files, work, bar)
            return
        with _side_by_side(output, what, files, work, jobs, bar) as results:
            yield results


def _one_by_one(output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], bar: Bar) -> Iterator[R]:
    for file in bar.over(files):
        with output.going_on():
            with output.step(what):
                result = work(file, bar.within)
            yield result


@contextmanager
def _side_by_side(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Work[R], jobs: int, bar: Bar
) -> Iterator[Iterator[R]]:
    stopped = threading.Event()

    def one(file: MatchedPaths) -> R | ParquetBloomError:
        move = bar.beside()

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
            stopped.set()  # before the threads are waited for
            raise
