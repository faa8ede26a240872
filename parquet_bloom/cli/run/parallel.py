"""Process files one by one or in parallel, with a progress bar, and report the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from ...errors import ParquetBloomError
from ...file.many import Progress, process_files
from ..options.paths import MatchedPaths
from ..output.output import Output

R = TypeVar("R")


@contextmanager
def run_over_files(
    output: Output, what: str, files: Sequence[MatchedPaths], work: Callable[[MatchedPaths, Progress], R], jobs: int
) -> Iterator[Iterator[R]]:
    """Yield an iterator over the results of `work` for each file; files that fail are reported and skipped.

    Parameters
    ----------
    output : shows the progress bar, adds up the time of step `what`, and takes the errors.
    work, jobs : as in `process_files`, which also says what happens when the `with` statement is left early.
    """
    one_by_one = jobs == 1 or len(files) < 2

    def one(file: MatchedPaths, progress: Progress) -> R:
        with output.step(what) if one_by_one else nullcontext():
            return work(file, progress)

    def results(outcomes: Iterator[R | ParquetBloomError]) -> Iterator[R]:
        for outcome in outcomes:
            if isinstance(outcome, ParquetBloomError):
                output.fail(outcome)
            else:
                yield outcome

    with (
        output.progress(len(files)) as bar,
        nullcontext() if one_by_one else output.step(what),
        process_files(files, one, jobs, bar.make_file_updater) as outcomes,
    ):
        yield results(outcomes)
