"""Work in daemon threads that can be abandoned: they end with the process, and can be cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

Late = Callable[[Any], None]


class Job:
    """One try of a request; if the caller stops waiting, its response is passed to `late`."""

    def __init__(self, call: Callable[..., Any], arguments: dict[str, Any], late: Late | None) -> None:
        self.done = threading.Event()
        self._call, self._arguments, self._late = call, arguments, late
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._abandoned = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the request."""
        # Not a thread of a pool: the interpreter would wait for it at exit.
        threading.Thread(target=self._run, name="parquet_bloom request", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer = self._call(**self._arguments)
        except BaseException as error:
            self._failure = error
        with self._lock:
            self.done.set()
            abandoned = self._abandoned
        if abandoned:
            self._hand_on()

    def abandon(self) -> None:
        """Stop waiting for the response."""
        with self._lock:
            self._abandoned = True
            done = self.done.is_set()
        if done:
            self._hand_on()

    def _hand_on(self) -> None:
        if self._late is not None and self._failure is None:
            with suppress(Exception):
                self._late(self._answer)

    def result(self) -> Any:
        """Return the response, or raise the error of the request."""
        if self._failure is not None:
            raise self._failure
        return self._answer


class Group:
    """Calls that are distributed over several threads.

    Attributes
    ----------
    over : set when all calls are done, or one has failed.
    given_up : set to cancel the remaining calls, also when one has failed.
    """

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.over, self.given_up = threading.Event(), threading.Event()
        self._waiting = iter(list(enumerate(calls)))
        self._answers: dict[int, Any] = {}
        self._failure: BaseException | None = None
        self._count = len(calls)
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run the remaining calls, one after the other."""
        while not self.given_up.is_set():
            with self._lock:
                number, call = next(self._waiting, (-1, None))
            if call is None:
                return
            try:
                answer = call()
            except BaseException as error:
                with self._lock:
                    self._failure = self._failure or error
                self.given_up.set()
                self.over.set()
                return
            with self._lock:
                self._answers[number] = answer
                if len(self._answers) == self._count:
                    self.over.set()

    def results(self) -> list[Any]:
        """Return the results of the calls, or raise the first error."""
        if self._failure is not None:
            raise self._failure
        return [self._answers[number] for number in range(self._count)]
