"""Spark beside `embed`: scans of files that are rewritten, and files that are appended while filters are embedded."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.processes import churn
from support.processes.churn import FILES, ROWS, name_of, value_of

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.storage.local.local_rewrite import leftovers

pytestmark = [pytest.mark.spark, pytest.mark.long]

# What Spark says of a file that is another one than the one that it listed: all of it loud, none of it a wrong answer.
LOUD = (
    "is not a Parquet file",
    "Cannot seek after EOF",
    "FAILED_READ_FILE",
    "FileNotFoundException",
    "does not exist",
    "it was changed",
)


def require_loud(error: Exception) -> None:
    """Raise an error of Spark again that a file which changes does not explain."""
    if not any(text in str(error) for text in LOUD):
        raise error


def answers(queried: Callable[[int], list[str]], lake: Any, rewrites: int) -> Counter[str]:
    """Count a reader's right answers and its failures; a wrong answer fails the test."""
    counts: Counter[str] = Counter()
    chance = random.Random(6)
    until = lake.rewritten + rewrites
    while lake.rewritten < until:
        value = value_of(chance.randrange(FILES), chance.randrange(ROWS))
        try:
            answer = queried(value)
        except Exception as error:
            require_loud(error)
            counts["loud"] += 1
            continue
        assert answer == [name_of(value)]
        counts["right"] += 1
    return counts


@pytest.fixture(scope="module")
def lake(churned: Any) -> Any:
    return churned("id", "name", pause=0.5)


SCHEMA = "id BIGINT, name STRING, value DOUBLE"


def test_scans_are_right_or_loud(lake: Any, spark: Any) -> None:
    """Listed anew for each query: what is left is the time between Spark's list and its tasks."""

    def query(value: int) -> list[str]:
        frame = spark.read.schema(SCHEMA).parquet(str(lake.folder))
        return [row.name for row in frame.where(f"id = {value}").collect()]

    assert sum(answers(query, lake, 8).values())


def test_our_readers_are_right_or_loud(lake: Any, spark: Any) -> None:
    def read(value: int) -> list[str]:
        frame = parquet_bloom.spark.read_parquet(spark, str(lake.folder), f"id = {value}")
        return [row.name for row in frame.collect()]

    def pruned(value: int) -> list[str]:
        frame = parquet_bloom.spark.pruned(spark.read.schema(SCHEMA).parquet(str(lake.folder)), f"id = {value}")
        return [row.name for row in frame.collect()]

    assert sum(answers(read, lake, 5).values())
    assert sum(answers(pruned, lake, 5).values())


def test_a_list_from_before_is_right_or_loud(tmp_path: Path, spark: Any) -> None:
    """Spark's list has the lengths of files that were shorter then, or longer."""
    churn.write_lake(tmp_path)
    frame = spark.read.schema(SCHEMA).parquet(str(tmp_path))
    assert frame.count() == FILES * ROWS

    def query(value: int) -> list[str]:
        try:
            return [row.name for row in frame.where(f"id = {value}").collect()]
        except Exception as error:
            require_loud(error)
            spark.catalog.refreshByPath(str(tmp_path))
            return [row.name for row in frame.where(f"id = {value}").collect()]

    for change in (parquet_bloom.embed, parquet_bloom.drop):
        for path in sorted(tmp_path.glob("*.parquet")):
            change(path, ["id"])
        assert query(value_of(2, 7)) == [name_of(value_of(2, 7))]
        assert query(3) == []


def test_no_query_fails_where_footers_are_kept(tmp_path: Path, spark: Any) -> None:
    """Neither with lists from before nor with those that are made while files change."""
    churn.write_lake(tmp_path)
    listed = spark.read.schema(SCHEMA).parquet(str(tmp_path))
    assert listed.count() == FILES * ROWS
    stopped = threading.Event()
    rewritten = 0

    def rewrite() -> None:
        nonlocal rewritten
        while not stopped.wait(0.1):
            for path in sorted(tmp_path.glob("*.parquet")):
                rewritten += parquet_bloom.embed(path, ["id", "name"], replace=True, keep_footer=True).changed

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for number in range(12):
            value = value_of(number % FILES, 7)
            anew = spark.read.parquet(str(tmp_path))
            through = parquet_bloom.spark.read_parquet(spark, str(tmp_path), f"id = {value}")
            for frame in (listed, anew, through):
                assert [row.name for row in frame.where(f"id = {value}").collect()] == [name_of(value)]
    finally:
        stopped.set()
        thread.join()
    assert rewritten > 2 * FILES


def test_embedding_while_spark_appends(tmp_path: Path, spark: Any) -> None:
    """Files that are not finished are below `_temporary`, and not touched; those that came are found the next time."""
    lake = tmp_path / "lake"
    stopped = threading.Event()
    failures: list[str] = []
    program = "import sys; from parquet_bloom import cli; sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "embed", str(lake), "--column=id", "--in-place", "--jobs=2"]

    def append(number: int) -> None:
        spark.range(number * 100, (number + 1) * 100, 1, 2).write.mode("append").parquet(str(lake))

    def embed() -> None:
        while not stopped.is_set():
            done = subprocess.run(command, cwd=churn.PROJECT, capture_output=True, text=True)
            if done.returncode:
                failures.append(done.stderr)

    append(0)
    thread = threading.Thread(target=embed)
    thread.start()
    try:
        for number in range(1, 5):
            append(number)
    finally:
        stopped.set()
        thread.join()
    assert failures == []
    assert (lake / "_SUCCESS").exists()
    assert leftovers(lake) == []
    subprocess.run(command, cwd=churn.PROJECT, check=True, capture_output=True)
    assert sorted(row.id for row in spark.read.parquet(str(lake)).collect()) == list(range(500))
    files = sorted(lake.glob("*.parquet"))
    assert len(files) == 10
    for path in files:
        report = parquet_bloom.verify(path, data=True)
        assert report.ok
        assert [chunk.column for chunk in report.chunks] == ["id"]
