"""A progress bar on stderr, for terminals only, shown when work takes longer than a second."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

PATIENCE = 1.0  # seconds; work completed by then shows no bar

_PAUSE = 0.1  # seconds between two drawings
_WIDTH, _MIN_WIDTH = 40, 5  # cells of the bar
_COLUMNS = 80  # of a terminal that does not say how many it has
_STYLE, _PLAIN = "\x1b[32m", "\x1b[0m"
_ROUNDING = 1e-6  # rounding error of a sum of fractions of a file


class Bar:
    """Shows the number of completed files, and about how long the rest takes; in the first second nothing is drawn.

    Drawing needs no escape sequence but those of colors: the line is written again over itself.

    Parameters
    ----------
    what : description of the work.
    total : number of files.
    visible : False for a bar that is never drawn.
    color : whether to use colors.
    """

    def __init__(self, what: str, total: int, visible: bool, color: bool) -> None:
        self._what = what
        self._total = total
        self._color = color and os.name != "nt"
        self._done = 0.0
        self._lock = threading.Lock()
        self._moving = threading.Lock()
        self._start = time.monotonic()
        self._drawn = 0  # cells of the line that is on the terminal
        self._shown = False
        self._next = 0.0  # time before which nothing is drawn again
        self._timer = threading.Timer(PATIENCE, self._appear) if visible else None
        if self._timer is not None:
            self._timer.daemon = True

    def __enter__(self) -> Self:
        self._start = time.monotonic()
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
        """Set the number of completed files and their total, without `track`."""
        self._total = total
        self._move(done)

    def say(self, text: str) -> bool:
        """Print a line above the bar; return False if there is no bar, so that the caller has to print it."""
        with self._lock:
            if not self._shown:
                return False
            self._clear()
            _write(text + "\n")
            self._draw()
            return True

    def close(self) -> None:
        """Remove the bar."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._shown:
                self._clear()
                self._shown = False

    def _move(self, done: float) -> None:
        self._done = done
        if self._shown and time.monotonic() >= self._next:
            with self._lock:
                if self._shown:
                    self._draw()

    def _appear(self) -> None:
        with self._lock:
            if self._timer is not None:  # not closed meanwhile
                self._shown = True
                self._draw()

    def _draw(self) -> None:
        self._next = time.monotonic() + _PAUSE
        columns = _terminal_columns()
        done, total = self._done, self._total
        part = min(1.0, done / max(total, 1))
        count = f"{int(done + _ROUNDING):,}/{total:,} files"
        left = f"{_format_seconds((time.monotonic() - self._start) * (1 / part - 1) if part else None)} left"
        width = min(_WIDTH, columns - 1 - len(f"{self._what}  {count} {left}"))
        if width < _MIN_WIDTH:
            line = f"{self._what} {count}"[: max(0, columns - 1)]
            self._replace_line(line, len(line))
            return
        full, empty = ("━", "─") if _can_write("━─") else ("#", "-")
        filled = int(part * width)
        bar = full * filled + empty * (width - filled)
        if self._color:
            bar = f"{_STYLE}{bar}{_PLAIN}"
        text = f"{self._what} {bar} {count} {left}"
        self._replace_line(text, len(f"{self._what}  {count} {left}") + width)

    def _replace_line(self, text: str, cells: int) -> None:
        _write(f"\r{text}{' ' * (self._drawn - cells)}")
        self._drawn = cells

    def _clear(self) -> None:
        _write(f"\r{' ' * self._drawn}\r")
        self._drawn = 0


def _terminal_columns() -> int:
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS


def _can_write(text: str) -> bool:
    try:
        text.encode(getattr(sys.stderr, "encoding", None) or "ascii")
    except UnicodeError:
        return False
    return True


def _format_seconds(seconds: float | None) -> str:
    """Format a time as hours, minutes and seconds; None for one that is not known yet."""
    if seconds is None:
        return "-:--:--"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # the terminal is gone; the work goes on
        sys.stderr.write(text)
        sys.stderr.flush()
