"""Work without the collector of reference cycles."""

from __future__ import annotations

import gc
import weakref

import pytest

from parquet_bloom.util import collector as collector_module
from parquet_bloom.util.collector import paused_collection


class Cycle:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def collector():
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


def test_the_collector_runs_again_after_the_last_of_nested_blocks():
    with paused_collection():
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_is_disabled_stays_so():
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()


def test_errors_resume_the_collector():
    with pytest.raises(ValueError, match="whatever"), paused_collection():
        raise ValueError("whatever")
    assert gc.isenabled()


def make_many() -> list[list[int]]:
    return [[] for _ in range(collector_module._MANY)]


def test_many_objects_count_as_old():
    with paused_collection():
        cycle = weakref.ref(Cycle())
        lasting = make_many()
    gc.collect(0)
    assert cycle() is not None  # which is what makes young collections cheap
    gc.collect()
    assert cycle() is None
    del lasting


def test_few_objects_stay_young():
    gc.collect()
    with paused_collection():
        cycle = weakref.ref(Cycle())
    gc.collect(0)
    assert cycle() is None


def test_garbage_does_not_pile_up(monkeypatch):
    monkeypatch.setattr(collector_module, "_MOST", 10 * collector_module._MANY)
    alive, lasting = [], []
    for _ in range(30):
        alive.append(weakref.ref(Cycle()))
        with paused_collection():
            lasting.append(make_many())
    assert sum(one() is not None for one in alive) <= 20
    del lasting


def test_what_a_program_has_frozen_stays_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    with paused_collection():
        lasting = make_many()
    assert frozen // 2 < gc.get_freeze_count() <= frozen  # some may be deleted meanwhile
    del lasting
