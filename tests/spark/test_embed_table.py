"""embed_table on Spark: executors write the files of a table, the driver commits them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.writers import changing_tables as tables

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError, PredicateError
from parquet_bloom.spark.jobs import run_files

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


@pytest.fixture(autouse=True)
def _on_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few small files would be processed by the driver itself."""
    monkeypatch.setattr(run_files, "MAX_DRIVER_LOAD", 0)


def test_delta(spark: Any, tmp_path: Path) -> None:
    root = tables.make_delta(tmp_path / "a table", 2)
    before = tables.read_delta(root)
    report = parquet_bloom.spark.embed_table(spark, root, ["id", "s"], where="p = 'x/y'", dry_run=True)
    assert (len(report.files), report.num_filters, report.changed) == (2, 4, False)
    assert deltalake.DeltaTable(root).version() == 1
    report = parquet_bloom.spark.embed_table(spark, root, ["id", "s"], max_files=7)
    assert (len(report.files), report.num_left, report.num_filters, report.new_version) == (7, 3, 14, 2)
    report = parquet_bloom.spark.embed_table(spark, parquet_bloom.delta(root), ["id", "s"])
    assert (len(report.files), report.num_complete) == (3, 7)
    assert tables.read_delta(root) == before
    assert not parquet_bloom.embed_table(root, ["id", "s"]).changed
    assert parquet_bloom.prune(parquet_bloom.delta(root), "id = 57").skipped_by["filter"]


def test_iceberg(spark: Any, tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 2)
    before = tables.read_iceberg(table)
    report = parquet_bloom.spark.embed_table(spark, table, ["id"])
    assert len(report.files) == 2
    assert tables.read_iceberg(table) == before
    assert not parquet_bloom.embed_table(tables.reload(table), ["id"]).changed


def test_object_store(spark: Any, tmp_path: Path, s3: Any) -> None:
    root = Path(tables.make_delta(tmp_path / "t", 1))
    for path in root.rglob("*"):
        if path.is_file():
            s3.put(f"t/{path.relative_to(root)}", path.read_bytes())
    before = tables.read_delta(str(root))
    report = parquet_bloom.spark.embed_table(spark, s3.url("t"), ["id"], storage_options=s3.storage_options)
    assert (len(report.files), report.skipped) == (5, ())
    table = parquet_bloom.delta(s3.url("t"), storage_options=s3.storage_options)
    assert tables.contents(parquet_bloom.read_table(table, "id >= 0")) == before


def test_file_that_fails_is_named_and_the_others_are_committed(spark: Any, tmp_path: Path) -> None:
    root = tables.make_delta(tmp_path / "t", 3, partitioned=False)
    log = [json.loads(line) for line in Path(root, "_delta_log", f"{1:020}.json").read_text().splitlines()]
    broken = Path(root, next(action["add"]["path"] for action in log if "add" in action))
    data = bytearray(broken.read_bytes())
    data[4:40] = bytes(36)  # the first page
    broken.write_bytes(data)
    report = parquet_bloom.spark.embed_table(spark, root, ["id"])
    assert len(report.files) == 2
    assert [one.path for one in report.skipped] == [str(broken)]
    assert str(broken) not in report.skipped[0].reason
    left = {path.name for path in Path(root).glob("*.parquet")}
    assert left == {Path(file).name for one in report.files for file in (one.old, one.new)} | {broken.name}


def test_bad_arguments_are_refused_before_a_job_starts(spark: Any, tmp_path: Path) -> None:
    root = tables.make_delta(tmp_path / "t", 1)
    with pytest.raises(PredicateError, match="partition columns, of p"):
        parquet_bloom.spark.embed_table(spark, root, ["id"], where="s = 'v1'")
    with pytest.raises(ParquetBloomError, match="max_bytes must be an integer of at least 1"):
        parquet_bloom.spark.embed_table(spark, root, ["id"], max_bytes=0)
