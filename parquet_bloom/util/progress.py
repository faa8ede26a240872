"""The progress bar: on stderr, only for terminals, and only when there is something to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

PATIENCE = 1.0  # seconds; what is done by then needs no bar

_ROUNDING = 1e-6  # what a sum of parts may fall short of a whole file


class Bar:
    """Shows how many files of all are done. Nothing is drawn, nor is `rich` imported, within the first second.

    Parameters
    ----------
    what : what is being done.
    total : number of files.
    visible : False for a bar that is never drawn.
    color : whether it is colored.
    """

    def __init__(self, what: str, total: int, visible: bool, color: bool) -> None:
        self._what = what
        self._total = total
        self._color = color
        self._before = 0
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

    def over(self, files: Iterable[T]) -> Iterator[T]:
        """The files one by one, each counted when the next is asked for."""
        for self._before, file in enumerate(files):
            self._move(self._before)
            yield file
        self._move(self._total)

    def within(self, done: int, total: int) -> None:
        """Move on inside the current file of `over`."""
        self._move(self._before + done / max(total, 1))

    def beside(self) -> Callable[[int, int], None]:
        """A `within` for one of several files that are in work at once, each called by a thread of its own."""
        before = 0.0

        def move(done: int, total: int) -> None:
            nonlocal before
            part = done / max(total, 1)
            with self._moving:
                self._done += part - before
                before = part
                self._move(self._done)

        return move

    def of(self, done: int, total: int) -> None:
        """Move to `done` files of `total`, without `over`."""
        self._total = total
        self._move(done)

    def say(self, text: str) -> bool:
        """Print a line above the bar; False if no bar is there, so that anyone can print it."""
        with self._lock:
            if self._progress is None:
                return False
            from rich.text import Text

            self._progress.console.print(Text.from_ansi(text), soft_wrap=True)
            return True

    def close(self) -> None:
        """Take the bar away."""
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
            progress.update(task, completed=done, total=self._total, files=f"{int(done + _ROUNDING):,}/{self._total:,}")

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        with self._lock:
            if self._timer is None:  # closed meanwhile
                return
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[files]} files"),
                TimeRemainingColumn(),
                TextColumn("left"),
            )
            # What is printed goes where it goes: on stdout, data must not pass through the bar's console.
            progress = Progress(
                *columns,
                console=Console(stderr=True, no_color=not self._color),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = progress.add_task(self._what, total=self._total, files=f"0/{self._total:,}")
            progress.start()
            self._progress = progress
        self._move(self._done)
