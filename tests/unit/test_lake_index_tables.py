"""An index over a Delta or Iceberg table: only files of its present version answer."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.index import LakeIndex
from parquet_bloom.lake.tables import delta_files, iceberg_files


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
    # At another version, if that is asked for.
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


def test_iceberg(tmp_path: Path) -> None:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    catalog = catalogs.load_catalog("c", type="in-memory", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([pa.field("id", pa.int64())]))
    for first in (0, 100):
        table.append(pa.table({"id": pa.array(range(first, first + 100))}))
    with LakeIndex.create(tmp_path / "index", "id") as index:
        assert index.append(iceberg_files(table)).added == 2
    with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as index:
        found = [names(answer) for answer in index.lookup("id", [5, 105, 205])]
        assert [len(some) for some in found] == [1, 1, 0]
        assert all(os.path.isfile(path) for some in found for path in some)
    table.delete("id < 100")
    with LakeIndex.open(tmp_path / "index", lake=iceberg_files(table)) as index:
        assert [len(names(answer)) for answer in index.lookup("id", [5, 105])] == [0, 1]
        assert index.stats().gone == 1
