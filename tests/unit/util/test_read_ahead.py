"""Test tasks that run ahead of their consumer: order, the bound on bytes, errors, and that no thread stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from parquet_bloom.util.read_ahead import Event, Need, Piece, ReadAhead
from parquet_bloom.util.threads import Stopped, raise_if_stopped, stoppable_pool

SIZE = 100


def make_task(number: int, pieces: int = 3, size: int = SIZE) -> Iterator[Need | Piece[tuple[int, int]]]:
    for piece in range(pieces):
        yield Need(size)
        yield Piece((number, piece), size)


def make_tasks(count: int, **options: Any) -> list[Callable[[], Iterator[Any]]]:
    return [partial(make_task, number, **options) for number in range(count)]


def values(events: Any) -> list[Any]:
    return [event.value for event in events if not event.is_end]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("max_bytes", [1, SIZE, 3 * SIZE, 10**9])
def test_results_are_in_order_within_the_bound(threads: int, max_bytes: int) -> None:
    ahead = ReadAhead(make_tasks(20), threads, max_bytes)
    assert values(ahead) == [(number, piece) for number in range(20) for piece in range(3)]
    assert ahead.in_flight == 0
    assert ahead.most_in_flight <= max(max_bytes, SIZE) + SIZE


@pytest.mark.parametrize("max_bytes", [1, 3 * SIZE, 10**9])
def test_results_out_of_order_are_all_there(max_bytes: int) -> None:
    ahead = ReadAhead(make_tasks(20), 4, max_bytes, in_order=False)
    found = values(ahead)
    assert sorted(found) == [(number, piece) for number in range(20) for piece in range(3)]
    assert all(found.index((number, 0)) < found.index((number, 2)) for number in range(20))
    assert ahead.most_in_flight <= max(max_bytes, SIZE) + SIZE


def test_a_task_that_takes_long_does_not_hold_up_others_out_of_order() -> None:
    gate = threading.Event()

    def slow() -> Iterator[Any]:
        assert gate.wait(300)
        yield Piece("slow", 0)

    found = []
    for event in ReadAhead([slow, *make_tasks(3)], 2, 10**9, in_order=False):
        if not event.is_end:
            found.append(event.value)
        if len(found) == 9:
            gate.set()
    assert found[-1] == "slow"


def test_an_error_ends_its_task_only() -> None:
    def fail() -> Iterator[Any]:
        yield Piece("before", 1)
        raise ValueError("broken")

    for threads in (1, 3):
        events = list(ReadAhead([make_tasks(1)[0], fail, *make_tasks(1)], threads, 10**9))
        assert [type(event.error) for event in events if event.error] == [ValueError]
        assert sum(event.is_end for event in events) == 3
        assert values(events)[3] == "before"


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("max_bytes", [1, 3 * SIZE, 10**9])
def test_tasks_that_follow_one_take_its_place(threads: int, max_bytes: int) -> None:
    """Those that read what is left of a task that has failed, within the same bound."""

    def fail() -> Iterator[Any]:
        yield Piece("before", 0)
        raise ValueError("broken")

    ahead = ReadAhead([make_tasks(1)[0], fail, *make_tasks(20)[2:]], threads, max_bytes)
    found, numbers = [], []
    for event in ahead:
        if event.error is not None:
            ahead.add([partial(make_task, 100), partial(make_task, 101)])
        elif not event.is_end:
            found.append(event.value)
        if event.is_end:
            numbers.append(event.task)
    expected = [(number, piece) for number in [100, 101, *range(2, 20)] for piece in range(3)]
    assert found == [(0, 0), (0, 1), (0, 2), "before", *expected]
    assert numbers == [0, 1, 20, 21, *range(2, 20)]
    assert ahead.in_flight == 0
    assert ahead.most_in_flight <= max(max_bytes, SIZE) + SIZE


def test_tasks_that_follow_one_are_run_out_of_order_too() -> None:
    ahead = ReadAhead(make_tasks(6), 3, 10**9, in_order=False)
    found = []
    for event in ahead:
        if event.is_end and event.task < 6:
            ahead.add([partial(make_task, event.task + 100)])
        elif not event.is_end:
            found.append(event.value)
    assert sorted(found) == [(number, piece) for number in [*range(6), *range(100, 106)] for piece in range(3)]


def test_leaving_early_ends_threads_and_closes_tasks() -> None:
    closed: list[int] = []

    def task(number: int) -> Iterator[Any]:
        try:
            yield from make_task(number, pieces=1000)
        finally:
            closed.append(number)

    ahead = ReadAhead([partial(task, number) for number in range(100)], 3, 5 * SIZE)
    with closing(iter(ahead)) as events:
        first = next(events)
        assert first == Event(0, (0, 0))
        threads = list(ahead._running)
    assert not any(thread.is_alive() for thread in threads)
    assert 0 in closed
    assert len(closed) <= 6


def test_a_consumer_that_takes_nothing_leaves_no_thread() -> None:
    ahead = ReadAhead(make_tasks(50), 3, 5 * SIZE)
    events = iter(ahead)
    next(events)
    for thread in list(ahead._running):
        thread.join(300)
        assert not thread.is_alive()
    assert ahead.in_flight <= 6 * SIZE
    assert len(values(events)) == 149  # and they are started again


def test_waiting_tasks_are_stopped_with_an_outer_pool() -> None:
    waits = threading.Event()

    def wait() -> Iterator[Any]:
        waits.set()
        while True:
            raise_if_stopped()
            threading.Event().wait(0.01)
        yield

    def consume() -> None:
        list(ReadAhead([wait, wait], 2, 1))

    with stoppable_pool(1) as pool:
        future = pool.submit(consume)
        assert waits.wait(300)
    assert isinstance(future.exception(300), Stopped)
