"""Files given to tasks by bytes and by cores."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from parquet_bloom.spark.jobs.packing import MAX_TASK_BYTES, MAX_TASKS, OPEN_COST_BYTES, assign_tasks, find_sizes
from parquet_bloom.storage import Entry, object_location
from parquet_bloom.storage.objects.location import ListedObject

pytestmark = pytest.mark.spark


def loads(sizes: list[int], cores: int) -> list[int]:
    """Return the work of each task."""
    tasks = assign_tasks(sizes, cores)
    result = [0] * (max(tasks) + 1)
    for task, size in zip(tasks, sizes, strict=True):
        result[task] += size + OPEN_COST_BYTES
    return result


def test_small_files_share_as_many_tasks_as_there_are_cores() -> None:
    assert assign_tasks([0] * 5, 2) == [0, 1, 0, 1, 0]
    assert assign_tasks([10_000] * 3, 16) == [0, 1, 2]
    assert assign_tasks([], 2) == []
    assert len(loads([100_000] * 400, 2)) == 4  # so many rounds that no task opens more than 128 files
    assert len(loads([100_000] * 400, 16)) == 16
    assert len(loads([0] * 1_000_000, 2)) == MAX_TASKS


def test_large_files_have_tasks_of_their_own() -> None:
    sizes = [1 << 30, 1 << 20, 1 << 30, 1 << 20, 1 << 20]
    tasks = assign_tasks(sizes, 2)
    assert len({tasks[0], tasks[2]}) == 2
    assert not {tasks[0], tasks[2]} & {tasks[n] for n in (1, 3, 4)}


def test_no_task_has_much_more_than_another() -> None:
    rng = random.Random(3)
    for _ in range(200):
        sizes = [int(rng.expovariate(1e-7)) for _ in range(rng.randrange(1, 300))]
        cores = rng.randrange(1, 40)
        result = loads(sizes, cores)
        assert min(result) > 0
        assert len(result) % cores == 0 or len(result) == len(sizes)
        largest = max(sizes) + OPEN_COST_BYTES
        assert max(result) <= -(-sum(result) // len(result)) + largest
        assert max(result) <= MAX_TASK_BYTES + largest


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(bytes(1234))
    location = object_location("s3://lake/a", None)
    assert location is not None
    entries = [Entry(str(path)), Entry("s3://lake/a", ListedObject(location, 77)), Entry(str(tmp_path / "none"))]
    assert find_sizes(entries) == [1234, 77, 64 << 20]
