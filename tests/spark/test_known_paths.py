"""Paths that Spark has opened before are opened again as soon as anything about them, or the session, is different."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.spark import read_parquet

pytestmark = pytest.mark.spark

SETTLED = 2.1  # seconds, after which files' times show every later change


def _write(path: Path, ids: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".{path.name}.new"
    pq.write_table(pa.table({"id": ids, "name": [f"n{one}".encode() for one in ids]}), new)
    parquet_bloom.embed(new, ["id"])
    os.replace(new, path)


def _make(lake: Path) -> Path:
    for number in range(4):
        _write(lake / f"k={number % 2}" / f"{number}.parquet", [number, 10 + number])
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that stays as it is."""
    lake = _make(tmp_path_factory.mktemp("known") / "lake")
    time.sleep(SETTLED)
    return lake


@pytest.fixture
def jobs(spark: Any) -> Callable[..., Any]:
    """``with jobs() as counted:``: Spark's jobs meanwhile. To open a path it starts one, which reads a schema."""

    @contextmanager
    def count() -> Iterator[list[int]]:
        context, group, counted = spark.sparkContext, uuid.uuid4().hex, [0]
        context.setJobGroup(group, "counted")
        try:
            yield counted
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        counted[0] = len(context.statusTracker().getJobIdsForGroup(group))

    return count


def _ids(spark: Any, lake: Path, where: str = "id >= 0", **options: Any) -> list[int]:
    return sorted(row.id for row in read_parquet(spark, lake, where, **options).collect())


def test_a_path_is_opened_once_while_files_and_settings_are_the_same(
    spark: Any, lake: Path, jobs: Any, conf: Any
) -> None:
    with jobs() as first:
        schema = read_parquet(spark, lake).schema
    with jobs() as again:
        assert read_parquet(spark, lake, "id = 12").schema == schema == read_parquet(spark, lake).schema
    assert (first, again) == ([1], [0])
    assert schema == spark.read.parquet(str(lake)).schema
    assert _ids(spark, lake, "id = 13 AND k = 1") == [13]
    assert _ids(spark, lake, "id = 99") == []
    # Each read has columns of its own.
    one, two = read_parquet(spark, lake, "id < 2"), read_parquet(spark, lake, "id >= 10")
    rows = one.join(two, one.id + 10 == two.id).select(one.id, two.id).collect()
    assert sorted(map(tuple, rows)) == [(0, 10), (1, 11)]
    # Other options, schemas, settings and sessions.
    assert _ids(spark, lake, pathGlobFilter="2*") == [2, 12]
    assert _ids(spark, lake / "k=0") == [0, 2, 10, 12]
    assert read_parquet(spark, lake, schema="id long").columns == ["id", "k"]
    with conf({"spark.sql.parquet.binaryAsString": "true"}):
        assert dict(read_parquet(spark, lake).dtypes)["name"] == "string"
    assert dict(read_parquet(spark, lake).dtypes)["name"] == "binary"
    with jobs() as other:
        read_parquet(spark.newSession(), lake, "id = 12")
    assert other == [1]


def test_changed_files(spark: Any, tmp_path: Path, jobs: Any) -> None:
    _write(tmp_path / "outside" / "8.parquet", [8])
    changes: list[tuple[Callable[[Path], object], list[int]]] = [
        (lambda lake: _write(lake / "k=1" / "9.parquet", [12]), [12, 12]),
        (lambda lake: _write(lake / "k=7" / "9.parquet", [12]), [12, 12]),
        (lambda lake: _write(lake / "k=1" / "3.parquet", [12]), [12, 12]),
        (lambda lake: (lake / "k=0" / "2.parquet").unlink(), []),
        (lambda lake: (lake / "k=1").rename(lake / "k=8"), [12]),
        (lambda lake: _write(lake / "k=1" / "_common_metadata", [12]), [12]),
        (lambda _: _write(tmp_path / "outside" / "8.parquet", [12]), [12, 12]),  # which a link leads to
    ]
    template = _make(tmp_path / "template")
    lakes = [Path(shutil.copytree(template, tmp_path / str(number))) for number in range(len(changes))]
    (lakes[-1] / "k=1" / "8.parquet").symlink_to(tmp_path / "outside" / "8.parquet")
    # Files that were changed just now are opened each time: a clock that ticks slowly might not show a further change.
    with jobs() as fresh:
        assert [read_parquet(spark, lakes[0], "id = 12").columns for _ in range(2)] == [["id", "name", "k"]] * 2
    assert fresh == [2]
    time.sleep(SETTLED)
    for lake in lakes:
        read_parquet(spark, lake, "id = 12")
    for lake, (change, _) in zip(lakes, changes, strict=True):
        change(lake)
    time.sleep(SETTLED)
    for number, (lake, (_, expected)) in enumerate(zip(lakes, changes, strict=True)):
        with jobs() as opened:
            frame = read_parquet(spark, lake, "id = 12")
        assert opened == [1], number
        assert [row.id for row in frame.collect()] == expected, number
