"""A progress bar on stderr, for terminals only, shown when work takes longer than a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

PATIENCE = 1.0  # seconds; work completed by then shows no bar

_ROUNDING = 1e-6  # rounding error of a sum of fractions of a file


class Bar:
    """Shows how much of the work is done. In the first second nothing is drawn, nor is `rich` imported.

    Parameters
    ----------
    what : description of the work.
    total : number of files, or bytes.
    visible : False for a bar that is never drawn.
    color : whether to use colors.
    unit : what is counted; "MB" for bytes.
    """

    def __init__(
        self, what: str, total: int, visible: bool, color: bool, unit: Literal["files", "MB"] = "files"
    ) -> None:
        self._what = what
        self._total = total
        self._color, self._unit, self._divisor = color, unit, 1 if unit == "files" else 1_000_000
        self._done = 0.0
        self._lock = threading.Lock()
        self._moving = threading.Lock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._timer = threading.Timer(PATIENCE, self._appear) if visible else None
        if self._timer is not None:
            self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def track(self, files: Iterable[T]) -> Iterator[T]:
        """Yield the files, counting each as completed when the next one is requested."""
        for done, file in enumerate(files):
            self._move(done)
            yield file
        self._move(self._total)

    def make_file_updater(self) -> Callable[[int, int], None]:
        """Make a function that sets the completed part of one file; several may be in work in different threads."""
        before = 0.0

        def move(done: int, total: int) -> None:
            nonlocal before
            part = done / max(total, 1)
            with self._moving:
                self._done += part - before
                before = part
                self._move(self._done)

        return move

    def update(self, done: int, total: int) -> None:
        """Set what is done and the total, without `track`."""
        self._total = total
        self._move(done)

    def say(self, text: str) -> bool:
        """Print a line above the bar; return False if there is no bar, so that the caller has to print it."""
        with self._lock:
            if self._progress is None:
                return False
            from rich.text import Text

            self._progress.console.print(Text.from_ansi(text), soft_wrap=True)
            return True

    def close(self) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._progress is not None:
                self._progress.stop()
                self._progress = None

    def _move(self, done: float) -> None:
        self._done = done
        progress, task = self._progress, self._task
        if progress is not None and task is not None:
            progress.update(task, completed=done, total=self._total, amount=self._describe(done))

    def _describe(self, done: float) -> str:
        return f"{int(done + _ROUNDING) // self._divisor:,}/{self._total // self._divisor:,} {self._unit}"

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        with self._lock:
            if self._timer is None:  # closed meanwhile
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[amount]}"),
                TimeRemainingColumn(),
                TextColumn("left"),
            )
            # Data printed on stdout must not pass through the bar's console.
            progress = Progress(
                *columns,
                console=Console(stderr=True, no_color=not self._color),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = progress.add_task(self._what, total=self._total, amount=self._describe(0))
            progress.start()
            self._progress = progress
        self._move(self._done)
