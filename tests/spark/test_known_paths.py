"""Paths that Spark has opened before are opened again as soon as anything about them, or the session, is different."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.file import metadata_cache
from parquet_bloom.spark import read_parquet
from parquet_bloom.spark.plan import lake_paths

pytestmark = pytest.mark.spark


def _write(path: Path, ids: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.parent / f".{path.name}.new"
    pq.write_table(pa.table({"id": ids, "name": [f"n{one}".encode() for one in ids]}), new)
    parquet_bloom.embed(new, ["id"])
    os.replace(new, path)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for number in range(4):
        _write(tmp_path / "lake" / f"k={number % 2}" / f"{number}.parquet", [number, 10 + number])
    return tmp_path / "lake"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Spark has opened; files that were written just now count as settled."""
    frames: list[Any] = []
    monkeypatch.setattr(metadata_cache, "SETTLED_NS", 0)
    analyze = lake_paths.analyze
    monkeypatch.setattr(lake_paths, "analyze", lambda frame: frames.append(frame) or analyze(frame))
    return frames


def _ids(spark: Any, lake: Path, where: str = "id >= 0", **options: Any) -> list[int]:
    return sorted(row.id for row in read_parquet(spark, lake, where, **options).collect())


def test_opened_once(spark: Any, lake: Path, opened: list[Any]) -> None:
    schemas = [read_parquet(spark, lake).schema for _ in range(2)]
    assert _ids(spark, lake, "id = 12") == [12]
    assert _ids(spark, lake, "id = 13 AND k = 1") == [13]
    assert _ids(spark, lake, "id = 99") == []
    assert len(opened) == 1
    assert schemas[0] == schemas[1] == spark.read.parquet(str(lake)).schema


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lake: _write(lake / "k=1" / "9.parquet", [12]), [12, 12]),
        (lambda lake: _write(lake / "k=7" / "9.parquet", [12]), [12, 12]),
        (lambda lake: _write(lake / "k=1" / "3.parquet", [12]), [12, 12]),
        (lambda lake: (lake / "k=0" / "2.parquet").unlink(), []),
        (lambda lake: (lake / "k=1").rename(lake / "k=8"), [12]),
        (lambda lake: _write(lake / "k=1" / "_common_metadata", [12]), [12]),
    ],
)
def test_changed_files(
    spark: Any, lake: Path, opened: list[Any], change: Callable[[Path], object], expected: list[int]
) -> None:
    assert _ids(spark, lake, "id = 12") == [12]
    change(lake)
    assert _ids(spark, lake, "id = 12") == expected
    assert len(opened) == 2


def test_files_changed_just_now(spark: Any, lake: Path, opened: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a file system ticks slowly, so that a further change might not show."""
    monkeypatch.setattr(metadata_cache, "SETTLED_NS", 10**18)
    assert _ids(spark, lake, "id = 12") == _ids(spark, lake, "id = 12") == [12]
    assert len(opened) == 2


def test_other_settings_and_options(spark: Any, lake: Path, opened: list[Any], conf: Any) -> None:
    assert _ids(spark, lake) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert _ids(spark, lake, pathGlobFilter="2*") == [2, 12]
    assert _ids(spark, lake / "k=0") == [0, 2, 10, 12]
    assert read_parquet(spark, lake, schema="id long").columns == ["id", "k"]
    with conf({"spark.sql.parquet.binaryAsString": "true"}):
        assert dict(read_parquet(spark, lake).dtypes)["name"] == "string"
    assert dict(read_parquet(spark, lake).dtypes)["name"] == "binary"
    assert len(opened) == 5
    other = spark.newSession()
    assert _ids(other, lake, "id = 12") == [12]
    assert len(opened) == 6


def test_two_reads_have_columns_of_their_own(spark: Any, lake: Path, opened: list[Any]) -> None:
    one, two = read_parquet(spark, lake, "id < 2"), read_parquet(spark, lake, "id >= 10")
    rows = one.join(two, one.id + 10 == two.id).select(one.id, two.id).collect()
    assert sorted(map(tuple, rows)) == [(0, 10), (1, 11)]
    assert len(opened) == 1


def test_files_that_links_lead_to(spark: Any, lake: Path, opened: list[Any], tmp_path: Path) -> None:
    _write(tmp_path / "outside" / "8.parquet", [8])
    (lake / "k=1" / "8.parquet").symlink_to(tmp_path / "outside" / "8.parquet")
    assert _ids(spark, lake, "id = 8") == [8]
    _write(tmp_path / "outside" / "8.parquet", [8, 8])
    assert _ids(spark, lake, "id = 8") == [8, 8]
    assert len(opened) == 2
