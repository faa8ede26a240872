"""Work without the collector of reference cycles."""

from __future__ import annotations

import gc
import weakref

import pytest

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


def test_garbage_is_collected_by_the_next_full_collection():
    with paused_collection():
        cycle = weakref.ref(Cycle())
    gc.collect(0)
    assert cycle() is not None  # it counts as old, which is what makes young collections cheap
    gc.collect()
    assert cycle() is None


def test_what_a_program_has_frozen_stays_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    with paused_collection():
        lasting = [[] for _ in range(1_000)]
    assert gc.get_freeze_count() == frozen > 0
    del lasting
