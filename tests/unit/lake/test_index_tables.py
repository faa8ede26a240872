"""An index over a Delta or Iceberg table: only files of its present version answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from support.writers.delta_log import add_vector, inline_vector
from support.writers.iceberg_deletes import delete_positions

import parquet_bloom
from parquet_bloom import cli
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.tables.delta.delta_table import delta_files
from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files


def names(answer: list) -> set[str]:
    return {candidate.path for candidate in answer}


def test_delta(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    root = str(tmp_path / "a table")
    for first in (0, 100, 200):
        deltalake.write_deltalake(root, pa.table({"id": pa.array(range(first, first + 100))}), mode="append")
    old = delta_files(root)
    assert len(old.files) == 3
    with LakeIndex.create(tmp_path / "index", "id", lake=old) as index:
        assert index.append().added == 3
        assert index.snapshot().table == {"kind": "delta", "table_id": old.table_id, "version": 2}
        holders = [names(answer) for answer in index.lookup("id", [5, 105, 205, 305])]
        assert [len(some) for some in holders] == [1, 1, 1, 0]
        # All rows move to one new file; the old ones stay in the folder.
        deltalake.DeltaTable(root).optimize.compact()
        new = delta_files(root)
        assert len(new.files) == 1
        index.refresh()
        assert index.unindexed == [new.files[0].path]
        assert all(names(answer) == {new.files[0].path} for answer in index.lookup("id", [5, 305]))
        assert index.stats().gone == 3
        assert index.append().added == 1
        assert [names(answer) for answer in index.lookup("id", [5, 305])] == [{new.files[0].path}, set()]
        assert index.compact().dropped == 3
        assert len(list((tmp_path / "a table").glob("*.parquet"))) == 4
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.snapshot().table["version"] == 3
        assert index.unindexed == []
        assert len(index.lookup("id", [105])[0]) == 1
    # At another version, if requested.
    with LakeIndex.open(tmp_path / "index", lake=delta_files(root, version=0)) as index:
        assert index.unindexed == [old.files[0].path] or len(index.unindexed) == 1
        assert len(names(index.lookup("id", [105])[0])) == 1
    other = str(tmp_path / "other")
    deltalake.write_deltalake(other, pa.table({"id": [1]}))
    with (
        LakeIndex.open(tmp_path / "index") as index,
        pytest.raises(ParquetBloomError, match="an index is of one table"),
    ):
        index.append(delta_files(other))


def iceberg_table(tmp_path: Path) -> Any:
    """A table of two files, with ids from 0 and from 100 on."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([pa.field("id", pa.int64())]))
    for first in (0, 100):
        table.append(pa.table({"id": pa.array(range(first, first + 100))}))
    return table


def test_iceberg(tmp_path: Path) -> None:
    table = iceberg_table(tmp_path)
    with LakeIndex.create(tmp_path / "index", "id") as index:
        assert index.append(iceberg_files(table)).added == 2
    with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as index:
        matches = [names(answer) for answer in index.lookup("id", [5, 105, 205])]
        assert [len(some) for some in matches] == [1, 1, 0]
        assert all(os.path.isfile(path) for some in matches for path in some)
    table.delete("id < 100")
    with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as index:
        assert [len(names(answer)) for answer in index.lookup("id", [5, 105])] == [0, 1]
        assert index.stats().gone == 1


def shows(index: Any, where: str, path: str, ids: list[int]) -> None:
    """What says where matching rows can be names the file; what shows rows shows those that are not deleted."""
    assert list(parquet_bloom.prune(None, where, index=index).selected) == [path]
    assert parquet_bloom.read_table(None, where, index=index)["id"].to_pylist() == ids
    scan = parquet_bloom.dataset(None, index=index).scan(where)
    assert (scan.to_reader().read_all()["id"].to_pylist(), scan.count_rows()) == (ids, len(ids))
    frame = parquet_bloom.scan_polars(None, index=index).sql(f"SELECT * FROM self WHERE {where}").collect()
    assert frame["id"].to_list() == ids
    assert parquet_bloom.read_table(path, where).num_rows == 1  # naming the file selects all of it


def test_rows_that_an_iceberg_table_has_deleted_are_not_shown(tmp_path: Path) -> None:
    table = iceberg_table(tmp_path)
    with LakeIndex.create(tmp_path / "index", "id") as index:
        index.append(iceberg_files(table))
    (file,) = (task.file.file_path for task in table.scan("id = 5").plan_files())
    path = file.removeprefix("file://")
    with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as index:
        assert parquet_bloom.read_table(None, "id = 5", index=index).num_rows == 1
    delete_positions(table, file, [5])
    assert table.scan("id IN (5, 6)").to_arrow()["id"].to_pylist() == [6]
    table_files = iceberg_files(table)
    assert table_files.deletes == {path}
    with LakeIndex.open(tmp_path / "index", lake=table_files) as index:
        shows(index, "id = 5", path, [])
        shows(index, "id = 6", path, [6])
        assert parquet_bloom.read_table(None, "id = 105", index=index)["id"].to_pylist() == [105]
        assert parquet_bloom.scan_polars(None, index=index).filter(pl.col("id") == 105).collect().height == 1
        assert parquet_bloom.read_table(None, "id = 205", index=index).num_rows == 0


def test_rows_that_a_delta_table_has_deleted_are_not_shown(tmp_path: Path, capsys: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, pa.table({"id": range(100)}))
    with LakeIndex.create(tmp_path / "index", "id", lake={"delta": root}) as index:
        index.append()
        assert parquet_bloom.read_table(None, "id = 5", index=index).num_rows == 1
    vectors = deltalake.TableFeatures.DeletionVectors
    deltalake.DeltaTable(root).alter.add_feature(vectors, allow_protocol_versions_increase=True)
    assert delta_files(root).deletes == frozenset()
    add_vector(tmp_path / "t", inline_vector([5]))
    table_files = delta_files(root)
    assert table_files.deletes == {file.path for file in table_files.files}
    with LakeIndex.open(tmp_path / "index") as index:
        shows(index, "id = 5", table_files.files[0].path, [])
        shows(index, "id = 7", table_files.files[0].path, [7])
        assert parquet_bloom.read_table(None, "id = 500", index=index).num_rows == 0
    for path in (str(tmp_path / "index"), tmp_path / "index"):
        shows(path, "id = 7", table_files.files[0].path, [7])
    for where, rows in (("id = 5", ""), ("id = 7", '{"id": 7}\n')):
        assert cli.main(["find", "--where", where, "--index", str(tmp_path / "index"), "--format=ndjson"]) == (not rows)
        assert capsys.readouterr().out.startswith(rows)
