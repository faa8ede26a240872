"""Files given to tasks by bytes and by cores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from parquet_bloom.spark.jobs.file_tasks import (
    MAX_TASK_BYTES,
    MAX_TASKS,
    OPEN_COST_BYTES,
    TaskLimits,
    _parse_bytes,
    assign_tasks,
    find_sizes,
    pack,
)
from parquet_bloom.storage import Entry, object_location
from parquet_bloom.storage.objects.location import ListedObject

pytestmark = pytest.mark.spark


def loads(sizes: list[int], cores: int) -> list[int]:
    """Return the work of each task."""
    tasks = assign_tasks(sizes, TaskLimits(cores))
    result = [0] * (max(tasks) + 1)
    for task, size in zip(tasks, sizes, strict=True):
        result[task] += size + OPEN_COST_BYTES
    return result


def test_small_files_share_as_many_tasks_as_there_are_cores() -> None:
    assert assign_tasks([0] * 5, TaskLimits(2)) == [0, 1, 0, 1, 0]
    assert assign_tasks([10_000] * 3, TaskLimits(16)) == [0, 1, 2]
    assert assign_tasks([], TaskLimits(2)) == []
    assert pack([0][:0], [], TaskLimits(2)) == []
    assert len(loads([100_000] * 400, 2)) == 4  # so many rounds that no task opens more than 128 files
    assert len(loads([100_000] * 400, 16)) == 16
    assert len(loads([0] * 1_000_000, 2)) == MAX_TASKS


def test_large_files_have_tasks_of_their_own() -> None:
    sizes = [1 << 30, 1 << 20, 1 << 30, 1 << 20, 1 << 20]
    tasks = assign_tasks(sizes, TaskLimits(2))
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


def test_every_item_is_packed_once_and_in_order() -> None:
    rng = random.Random(7)
    for _ in range(200):
        sizes = [rng.choice([0, 1, 10_000, 1 << 20, 300 << 20]) for _ in range(rng.randrange(0, 200))]
        limits = TaskLimits(rng.randrange(1, 9), rng.choice([1 << 20, 5 << 20, MAX_TASK_BYTES]), rng.choice([1, 3, 99]))
        packed = pack(range(len(sizes)), sizes, limits)
        assert sorted(item for task in packed for item in task) == list(range(len(sizes)))
        assert all(task == sorted(task) for task in packed)
        assert all(packed)
        assert len(packed) <= limits.max_tasks


def test_limits_are_those_of_spark_for_its_own_splits(spark: Any) -> None:
    assert TaskLimits.of(spark) == TaskLimits(spark.sparkContext.defaultParallelism)
    settings = {
        "spark.sql.files.maxPartitionBytes": "5MB",
        "spark.sql.leafNodeDefaultParallelism": "7",
        "spark.sql.files.maxPartitionNum": "11",
    }
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        assert TaskLimits.of(spark) == TaskLimits(7, 5 << 20, 11)
        spark.conf.set("spark.sql.files.minPartitionNum", "3")
        assert TaskLimits.of(spark).cores == 3
    finally:
        for key in (*settings, "spark.sql.files.minPartitionNum"):
            spark.conf.unset(key)


def test_bytes_as_spark_writes_them() -> None:
    texts = {"134217728b": 128 << 20, "128MB": 128 << 20, "2g": 2 << 30, "77": 77, "1 KiB": 1024, "3T": 3 << 40}
    assert {text: _parse_bytes(text) for text in texts} == texts
    assert [_parse_bytes(text) for text in ("", "-1", "1.5g", "9" * 30, "12x")] == [0] * 5


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(bytes(1234))
    location = object_location("s3://lake/a", None)
    assert location is not None
    entries = [Entry(str(path)), Entry("s3://lake/a", ListedObject(location, 77)), Entry(str(tmp_path / "none"))]
    assert find_sizes(entries) == [1234, 77, 64 << 20]
