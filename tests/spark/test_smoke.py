"""Each of Spark's ways once: what the default tier runs of Spark; the other files of the folder are CI's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.spark.spark_metrics import planned_files

import parquet_bloom
import parquet_bloom.spark

pytestmark = [pytest.mark.spark, pytest.mark.default]

WHERE = "name = 'u77'"


@pytest.fixture(scope="module")
def small(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of 100 rows, ids spread over all of them, with filters on both columns."""
    path = tmp_path_factory.mktemp("smoke") / "lake"
    spark.range(0, 400, 1, 4).selectExpr("id * 7919 % 400 id", "concat('u', id * 7919 % 400) name").write.parquet(
        str(path)
    )
    report = parquet_bloom.spark.embed(spark, path, ["id", "name"])
    assert report.ok
    assert (report.embedded_files, report.num_filters) == (4, 8)
    return path


def test_files_are_judged_before_the_scan(small: Path, ask_spark: Callable[..., Any]) -> None:
    answer = ask_spark(small, WHERE)
    assert (answer.rows, answer.files, answer.doubts) == (1, 1, "")
    assert ask_spark(small, "id in (5, 6, 100000)").files <= 2


def test_row_groups_are_judged_too(small: Path, ask_spark: Callable[..., Any]) -> None:
    assert ask_spark(small, WHERE, row_groups=True).rows == 1


def test_a_query_that_is_there_is_pruned(spark: Any, small: Path) -> None:
    frame = parquet_bloom.spark.pruned(spark.read.parquet(str(small)), WHERE).where(WHERE)
    assert len(planned_files(frame)) == 1
    assert [row.id for row in frame.collect()] == [77]


def test_the_planner_prunes_by_itself(spark: Any, small: Path) -> None:
    frame = parquet_bloom.spark.install(spark.read.parquet(str(small))).where(WHERE)
    assert [row.id for row in frame.collect()] == [77]


def test_the_data_source(spark: Any, small: Path) -> None:
    parquet_bloom.spark.register(spark)
    frame = spark.read.format("parquet_bloom").option("prune", WHERE).load(str(small)).where(WHERE)
    assert [row.id for row in frame.collect()] == [77]


def test_an_index_of_the_lake(spark: Any, small: Path, tmp_path: Path, ask_spark: Callable[..., Any]) -> None:
    index = tmp_path / "index"
    assert parquet_bloom.spark.build_index(spark, small, ["name"], index).added == 4
    assert ask_spark(small, WHERE, index=str(index)).files == 1


def test_verify(spark: Any, small: Path) -> None:
    assert parquet_bloom.spark.verify(spark, small).ok


@pytest.mark.ci
def test_a_table(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    deltalake = pytest.importorskip("deltalake")
    for start in (0, 100):
        rows = pa.table({"id": range(start, start + 100), "part": [str(start)] * 100})
        deltalake.write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["part"])
    with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
        frame = parquet_bloom.spark.read_table(spark, tmp_path / "t", "id = 77")
    assert "read 1 of 2 files" in caplog.text
    assert [tuple(row) for row in frame.collect()] == [(77, "0")]
