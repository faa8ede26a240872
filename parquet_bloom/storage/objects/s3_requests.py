"""Requests through boto3 with time limits and retries, which can be cancelled at any time."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...util import threads
from ...util.lazy import late_module
from .request_limits import RequestLimits
from .s3_client import PARALLEL_REQUESTS, NoS3AnswerError, error_code, failure_types, http_status

if TYPE_CHECKING:
    import botocore.exceptions as boto_errors
    import botocore.parsers as boto_parsers
else:
    boto_errors, boto_parsers = late_module("botocore.exceptions"), late_module("botocore.parsers")

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


CLEARING_SECONDS = 0.4
"""Time for each cleanup step after the time of the failed request is over, or after an interrupt."""
_POLL_SECONDS = 0.1  # between checks whether the work was cancelled
_LATE_SECONDS = 0.2  # to wait for a response after an interrupt: it may show what must be cleaned up

_BUSY = frozenset((429, 500, 502, 503, 504))
_BUSY_CODES = frozenset(
    (
        "BandwidthLimitExceeded",
        "InternalError",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttled",
        "Throttling",
        "ThrottledException",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    )
)


class Requests:
    """Requests of one task to one store.

    Each runs in its own daemon thread. So waiting for a server that never responds ends at the limits, or at an
    interrupt. A request that was sent may still be executed.

    Parameters
    ----------
    limits : limits of each request: for one try, for the pauses, and for all tries.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._thread = threading.local()
        self._until = 0.0  # when the time of the last request is over

    def send(self, call: Callable[..., Any], late: Late | None = None, /, **arguments: Any) -> Any:
        """Make a request and return the response.

        Parameters
        ----------
        late : called with a response that arrives after the caller stopped waiting, usually in another thread.

        Raises
        ------
        Exception
            One of `failure_types()`: an error response, an unreadable response, or none in time.
        """
        self._until = time.monotonic() + self._limits.retry_timeout
        return self._try(call, arguments, self._until, late)

    def together(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run calls that send requests concurrently; the first error cancels the others."""
        if not calls:
            return []
        group = Group(calls)
        try:
            for _ in range(min(len(calls), PARALLEL_REQUESTS)):
                # Not a pool, which always waits for its threads.
                threading.Thread(target=self._work, args=(group,), name="parquet_bloom group", daemon=True).start()
            while not group.over.wait(_POLL_SECONDS):
                threads.raise_if_stopped()
        except BaseException:
            group.given_up.set()
            raise
        return group.results()

    def _work(self, group: Group) -> None:
        self._thread.given_up = group.given_up
        group.work()

    @property
    def _given_up(self) -> threading.Event:
        """Event that is set when the work of this thread is cancelled."""
        event: threading.Event = getattr(self._thread, "given_up", _NEVER)
        return event

    def end_of_clearing(self) -> float:
        """Return the deadline for a cleanup that begins now, while an error may be handled.

        It has the remaining time of the last request plus `CLEARING_SECONDS`; only the latter after an interrupt.
        """
        now = time.monotonic()
        return (now if _is_interrupt(sys.exception()) else max(now, self._until)) + CLEARING_SECONDS

    def clear_up(self, call: Callable[..., Any], end: float, /, **arguments: Any) -> Any:
        """Make a cleanup request, like `send`, until the deadline `end`."""
        return self._try(call, arguments, end, None, clearing=True)

    def _try(
        self,
        call: Callable[..., Any],
        arguments: dict[str, Any],
        until: float,
        late: Late | None,
        clearing: bool = False,
    ) -> Any:
        tries = 0
        while True:
            end = min(until, time.monotonic() + self._limits.timeout)
            try:
                return self._once(call, arguments, end, late, clearing)
            except failure_types() as error:
                tries += 1
                pause = self._limits.pause(tries) * random.uniform(0.5, 1.0)  # so that clients do not retry in step
                again = is_temporary(error) and tries <= self._limits.max_retries
                if not again or time.monotonic() + pause >= until:
                    raise
            end = time.monotonic() + pause
            while time.monotonic() < end:
                if self._given_up.wait(min(_POLL_SECONDS, max(0.0, end - time.monotonic()))):
                    raise NoS3AnswerError("it was given up")
                if not clearing:
                    threads.raise_if_stopped()

    def _once(
        self, call: Callable[..., Any], arguments: dict[str, Any], until: float, late: Late | None, clearing: bool
    ) -> Any:
        if self._given_up.is_set():
            raise NoS3AnswerError("it was given up")
        job = Job(call, arguments, late)
        try:
            begun = time.monotonic()
            job.start()
            while not job.done.wait(max(0.0, min(_POLL_SECONDS, until - time.monotonic()))):
                if time.monotonic() >= until:
                    raise NoS3AnswerError(f"no answer within {time.monotonic() - begun:.1f} s")
                if self._given_up.is_set():
                    raise NoS3AnswerError("it was given up")
                if not clearing:
                    threads.raise_if_stopped()
        except BaseException as error:
            if _is_interrupt(error):
                job.done.wait(_LATE_SECONDS)
            job.abandon()
            raise
        return job.result()


_NEVER = threading.Event()


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt of this thread, or of the thread that waits for it."""
    return error is not None and (not isinstance(error, Exception) or isinstance(error, threads.Stopped))


def is_temporary(error: Exception) -> bool:
    """Return whether a failed request may succeed when it is retried."""
    broken = (boto_errors.ConnectionError, boto_errors.HTTPClientError, boto_errors.IncompleteReadError)
    is_broken = isinstance(error, (*broken, boto_parsers.ResponseParserError, NoS3AnswerError))
    return is_broken or http_status(error) in _BUSY or error_code(error) in _BUSY_CODES
