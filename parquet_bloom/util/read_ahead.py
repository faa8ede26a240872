"""Run tasks in threads ahead of their consumer, within a bound on the bytes that are in memory because of them.

A task is a generator. Before each step that takes memory it yields `Need`, and goes on once there is room; each result
it yields as a `Piece`. A thread is never blocked by a task that waits for room, so a consumer that stops taking results
leaves no thread behind: threads without work end, and are started again when results are taken.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from .threads import AHEAD, POLL_SECONDS, Stop, raise_if_stopped

R = TypeVar("R")

_ALL = -1  # the queue of all tasks whose results come as they are
_LINGER = 0.5  # seconds that a thread without work waits for some


class Need(NamedTuple):
    """The next step of a task needs memory, in bytes, in place of what it asked for before."""

    num_bytes: int


@dataclass(slots=True)
class Piece(Generic[R]):
    """A result, and the bytes that it keeps in memory; they replace what the task asked for."""

    value: R
    num_bytes: int


Steps = Iterator[Need | Piece[R]]
"""What a task yields."""


@dataclass(slots=True)
class Event(Generic[R]):
    """A result of a task, or its end.

    Attributes
    ----------
    task : its number.
    value : a result; None at the end.
    error : the exception that ended the task.
    is_end : whether no event of this task follows.
    """

    task: int
    value: R | None = None
    error: BaseException | None = None
    is_end: bool = False


def _advance(steps: Steps[R]) -> tuple[Need | Piece[R] | None, BaseException | None]:
    """Return the next step of a task; None at its end, with the exception that ended it."""
    try:
        return next(steps, None), None
    except BaseException as error:  # the consumer raises it
        return None, error


@dataclass(slots=True, eq=False)
class _Task:
    """A task that has been started.

    Attributes
    ----------
    steps : the rest of it.
    held : bytes in flight on its account, besides those of its results.
    need : bytes that its next step needs.
    runs : whether a thread is at it.
    """

    number: int
    steps: Any
    held: int = 0
    need: int = 0
    runs: bool = True


@dataclass
class ReadAhead(Generic[R]):
    """The events of some tasks. Iterate over it once; leaving the iteration early ends the threads.

    Parameters
    ----------
    tasks : functions that start the tasks, each once; see also `add`.
    threads : number of threads; with one, or for one task, steps are run as their results are requested.
    max_bytes : bound on `in_flight`. It is exceeded by one step at most, the one that the consumer waits for.
    in_order : give all results of a task before any of the next one; otherwise as they come.

    Attributes
    ----------
    in_flight : bytes of results that the consumer has not finished with, and of steps that are running.
    most_in_flight : the largest value that it has had.
    """

    tasks: list[Callable[[], Steps[R]]]
    threads: int
    max_bytes: int
    in_order: bool = True
    in_flight: int = 0
    most_in_flight: int = 0
    _stop: Stop = field(default_factory=Stop)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _running: list[threading.Thread] = field(default_factory=list)
    _waiting: deque[int] = field(default_factory=deque)  # tasks to be started, in this order
    _started: dict[int, _Task] = field(default_factory=dict)  # tasks that have not ended, by number
    _order: deque[int] = field(default_factory=deque)  # tasks whose end the consumer has not seen, if in order
    _events: dict[int, deque[tuple[Event[R], int]]] = field(default_factory=dict)  # with their bytes, by task in order
    _num_started: int = 0
    _ended: int = 0  # tasks whose end the consumer has seen
    _taken: int = 0  # bytes of the result that the consumer has
    _is_waiting: bool = False  # whether the consumer waits for an event that is not there

    def __iter__(self) -> Generator[Event[R], None, None]:
        self._wait_for(0)
        while self._waiting and (self.threads < 2 or len(self._waiting) < 2):
            number = self._waiting.popleft()
            self._order.popleft()
            yield from self._run_here(number, self.tasks[number])
        self._num_started = self._ended = len(self.tasks) - len(self._waiting)
        try:
            while self._ended < len(self.tasks):
                event = self._take()
                self._ended += event.is_end
                yield event
                del event
        finally:
            self._close()

    def add(self, tasks: Sequence[Callable[[], Steps[R]]]) -> None:
        """Run more tasks, before those that have not been started; for the consumer, at the end of a task.

        Their results come in place of more of that task, if results come in order. They are numbered on.
        """
        with self._changed:
            first = len(self.tasks)
            self.tasks += tasks
            self._wait_for(first)

    def _wait_for(self, first: int) -> None:
        """Let the tasks from one on be the next ones."""
        new = range(len(self.tasks) - 1, first - 1, -1)
        self._waiting.extendleft(new)
        self._order.extendleft(new)

    def _run_here(self, number: int, task: Callable[[], Steps[R]]) -> Iterator[Event[R]]:
        with closing(task()) as steps:  # type: ignore[type-var]
            while True:
                step, error = _advance(steps)
                if step is None:
                    break
                self._hold(step.num_bytes - self.in_flight)
                if isinstance(step, Piece):
                    yield Event(number, step.value)
                del step
            if error is None:
                self._hold(-self.in_flight)
        yield Event(number, error=error, is_end=True)

    # ---------------------------------------------------------------------------------------------- the consumer

    def _take(self) -> Event[R]:
        """Wait for the next event, polling: polars catches signals, so that they do not interrupt a wait."""
        with self._changed:
            self._hold(-self._taken)
            self._taken = 0
            while True:
                queue = self._events.get(self._order[0] if self.in_order else _ALL)
                if queue:
                    event, self._taken = queue.popleft()
                    if event.is_end and self.in_order:
                        del self._events[self._order.popleft()]
                    self._is_waiting = False
                    self._start_threads()
                    self._changed.notify_all()
                    return event
                self._is_waiting = True
                self._start_threads()
                self._changed.notify_all()
                self._changed.wait(POLL_SECONDS)
                raise_if_stopped()

    def _start_threads(self) -> None:
        """Start threads for work that there is room for."""
        work = len(self._started) + min(len(self._waiting), self._room_for_tasks())
        while len(self._running) < min(self.threads, work):
            thread = threading.Thread(target=self._work, name="parquet_bloom")
            self._running.append(thread)
            thread.start()

    def _close(self) -> None:
        with self._changed:
            self._stop.set()
            self._changed.notify_all()
            threads = list(self._running)
        for thread in threads:
            if thread is not threading.current_thread():  # garbage may be collected in any thread
                thread.join()
        for task in self._started.values():
            if not task.runs:
                task.steps.close()
        self._started.clear()
        self._events.clear()
        self.in_flight = 0

    # ------------------------------------------------------------------------------------------------ the threads

    def _work(self) -> None:
        self._stop.govern()
        task: _Task | None = None
        while (task := self._choose(task)) is not None:
            step, error = _advance(task.steps)
            with self._changed:
                if isinstance(step, Need):
                    task.need = max(step.num_bytes, 0)
                elif step is not None:
                    self._hold(step.num_bytes - task.held)
                    task.held = task.need = 0
                    self._put(Event(task.number, step.value), step.num_bytes)
                else:
                    self._hold(-task.held)
                    del self._started[task.number]
                    self._put(Event(task.number, error=error, is_end=True), 0)
                    task.steps = None
            del step, error

    def _choose(self, last: _Task | None) -> _Task | None:
        """Return a task to take a step of, and hold the bytes that it needs; None if the thread should end.

        Parameters
        ----------
        last : the task that this thread has taken a step of.
        """
        with self._changed:
            if last is not None:
                last.runs = False
            while not self._stop.is_set():
                for task in self._started.values():
                    if not task.runs and self._has_room(task):
                        self._hold(task.need - task.held)
                        task.held, task.runs = task.need, True
                        return task
                if self._waiting and self._room_for_tasks() > 0:
                    number = self._waiting.popleft()
                    task = self._started[number] = _Task(number, self.tasks[number]())
                    self._num_started += 1
                    return task
                if not self._changed.wait(_LINGER):
                    break
            self._running.remove(threading.current_thread())
            return None

    def _has_room(self, task: _Task) -> bool:
        others = self.in_flight - task.held
        if task.need <= task.held or others <= 0 or others + task.need <= self.max_bytes:
            return True
        head = self._order[0] if self.in_order else next(iter(self._started))
        return self._is_waiting and task.number == head

    def _room_for_tasks(self) -> int:
        """Return how many more tasks may be started: few, as a consumer may stop at any result."""
        room = AHEAD * self.threads - (self._num_started - self._ended)
        return max(room, 1) if self.in_order and self._waiting and self._waiting[0] == self._order[0] else room

    def _put(self, event: Event[R], num_bytes: int) -> None:
        self._events.setdefault(event.task if self.in_order else _ALL, deque()).append((event, num_bytes))
        if not self.in_order or event.task == self._order[0]:
            self._is_waiting = False
        self._changed.notify_all()

    def _hold(self, num_bytes: int) -> None:
        self.in_flight += num_bytes
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
