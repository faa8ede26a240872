"""Files that killed writers left are deleted where nothing can be lost with them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import StorageError
from parquet_bloom.file.file_rewrite import sweep
from parquet_bloom.storage import create, open_source
from parquet_bloom.storage.local.local_rewrite import displaced_name

DIGITS = "0123456789abcdef"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": range(100), "name": ["x"] * 100}), path)
    return path


def leftover_path(path: Path, ending: str = "old") -> Path:
    return path.with_name(f".{path.name}.{DIGITS}.parquet_bloom.{ending}")


def test_an_old_file_goes_if_its_rows_are_there(file: Path) -> None:
    shutil.copy(file, leftover_path(file))
    parquet_bloom.embed(file, ["id"])
    (planned,) = sweep(file.parent.parent, dry_run=True)
    assert leftover_path(file).exists()
    (done,) = sweep(file.parent.parent)
    assert planned == done
    assert (done.path, done.deleted, done.reason) == (str(leftover_path(file)), True, None)
    assert not leftover_path(file).exists()


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_file_goes_if_its_writer_had_read_the_other(file: Path, exchanged: bool) -> None:
    """Though it holds other rows, as after an erasure that was killed before or after the exchange."""
    with open_source(file) as source:
        old = Path(displaced_name(str(leftover_path(file, "tmp")), source.identity))
    if exchanged:
        file.rename(old)
    pq.write_table(pa.table({"id": range(1, 100), "name": ["x"] * 99}), file if exchanged else old)
    (done,) = sweep(file.parent)
    assert (done.path, done.deleted) == (str(old), True)
    assert pq.read_metadata(file).num_rows == (99 if exchanged else 100)
    for other in (old, file):  # by another writer in the meantime
        pq.write_table(pa.table({"id": range(2, 100), "name": ["x"] * 98}), other)
    pq.write_table(pa.table({"id": range(3, 100), "name": ["x"] * 97}), file)
    (remaining,) = sweep(file.parent)
    assert not remaining.deleted


def test_another_writers_file_stays(file: Path) -> None:
    pq.write_table(pa.table({"id": range(100), "name": ["y"] * 100}), leftover_path(file))
    (remaining,) = sweep(file.parent)
    assert (remaining.deleted, remaining.reason) == (False, "it holds other rows than a.parquet")
    file.write_bytes(b"")
    (remaining,) = sweep(file.parent)
    assert (remaining.deleted, remaining.reason) == (
        False,
        "a.parquet cannot be read: not a Parquet file: 0 bytes are too few",
    )
    file.unlink()
    (remaining,) = sweep(file.parent)
    assert (remaining.deleted, remaining.reason) == (False, "there is no a.parquet beside it")
    leftover_path(file).write_bytes(b"being written")
    (remaining,) = sweep(file.parent)
    assert not remaining.deleted
    assert remaining.reason is not None
    assert remaining.reason.startswith("it may be another writer's, and cannot be read: ")
    assert leftover_path(file).exists()


def test_files_of_writers_at_work_stay(file: Path) -> None:
    leftover_path(file, "tmp").write_bytes(b"of a dead one")
    with create(file.with_name("b.parquet")) as new:
        new.write(b"more to come")
        (done,) = sweep(file.parent)
        assert (Path(done.path), done.deleted) == (leftover_path(file, "tmp"), True)
        new.commit()
    assert sorted(path.name for path in file.parent.iterdir()) == ["a.parquet", "b.parquet"]


def test_paths_that_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot list the folder"):
        list(sweep(tmp_path / "missing"))


def test_no_reader_takes_leftovers_for_data(file: Path) -> None:
    """Neither Arrow's datasets, DuckDB's and polars' patterns, nor this package list them."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    for ending in ("old", "tmp"):
        shutil.copy(file, leftover_path(file, ending))
    folder = file.parent
    assert pq.read_table(folder).num_rows == 100
    assert duckdb.sql(f"SELECT count(*) FROM '{folder}/*.parquet'").fetchall() == [(100,)]
    assert duckdb.sql(f"SELECT count(*) FROM '{folder.parent}/**/*.parquet'").fetchall() == [(100,)]
    assert polars.scan_parquet(f"{folder}/*.parquet").collect().height == 100
    assert [os.path.basename(each.path) for each in parquet_bloom.prune(folder, "id < 1000").files] == ["a.parquet"]
