"""Test scans and fragments that are split for other processes: all rows once, in order, sent with their own files."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.scan.dataset import Dataset

FILES, ROWS = 10, 100


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    for number in range(FILES):
        path = tmp_path / f"day=2026-01-{number % 3 + 1:02}" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"row": rows, "id": [row * 7919 % 1000 for row in rows]})
        pq.write_table(table, path, row_group_size=30)
    return parquet_bloom.dataset(tmp_path)


def send(part):
    return pickle.loads(pickle.dumps(part))


@pytest.mark.parametrize("num_parts", [1, 3, FILES, 99])
def test_fragments_have_all_rows_in_order(dataset, num_parts):
    for filter in (None, pc.field("id") < 300, pc.field("day") == pa.scalar("2026-01-02").cast(pa.date32())):
        parts = dataset.split(num_parts, filter)
        assert 1 <= len(parts) <= num_parts
        tables = [send(part).to_table(columns=["day", "row"]) for part in parts]
        assert pa.concat_tables(tables).equals(dataset.to_table(["day", "row"], filter))
    assert dataset.split(num_parts, pc.field("id") == -1) == []


@pytest.mark.parametrize("num_parts", [1, 3, FILES, 99])
def test_scans_have_all_rows_in_order(dataset, num_parts):
    scan = dataset.scan("id < 300 AND day >= DATE '2026-01-02'", ["day", "row"])
    parts = scan.split(num_parts)
    assert 1 <= len(parts) <= num_parts
    assert pa.concat_tables([send(part).to_arrow() for part in parts]).equals(scan.to_arrow())
    assert sum(send(part).count_rows() for part in parts) == scan.count_rows()
    assert dataset.scan("id = -1").split(num_parts) == []


def test_a_part_is_sent_with_its_own_files_alone(dataset):
    parts = dataset.split(FILES)
    assert len(parts) > FILES // 2
    sent = [[path for path in dataset.files if path.encode() in pickle.dumps(part)] for part in parts]
    assert all(sent)
    assert [path for paths in sent for path in paths] == dataset.files
    with pytest.raises(ParquetBloomError, match="num_parts must be at least 1, got 0"):
        dataset.split(0)


def test_parts_are_of_about_as_many_bytes(tmp_path):
    for number, rows in enumerate([1_000_000, 10, 10, 10, 1_000_000]):
        pq.write_table(pa.table({"id": range(rows)}), tmp_path / f"{number}.parquet")
    first, second = parquet_bloom.dataset(tmp_path).split(2)
    assert len(first.plan().files) in (2, 3)
    assert len(first.plan().files) + len(second.plan().files) == 5


def test_a_file_that_changes_meanwhile_is_read_as_it_is_and_once(dataset):
    parts = [send(part) for part in dataset.split(3, pc.field("id") < 300)]
    path = parts[1].path
    changed = pa.table({"row": range(5000, 5100), "id": range(250, 350)})
    pq.write_table(changed, path, row_group_size=20)
    rows = pa.concat_tables([part.to_table() for part in parts])
    assert rows.sort_by("row").equals(dataset.to_table(filter=pc.field("id") < 300).sort_by("row"))
    assert sum(row >= 5000 for row in rows["row"].to_pylist()) == 50


def test_a_part_of_a_table_leaves_deleted_rows_out(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "table")
    for start in range(0, 300, 100):
        rows = pa.table({"id": range(start, start + 100), "part": [start // 200] * 100})
        deltalake.write_deltalake(path, rows, mode="append", partition_by=["part"])
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "true"}, False)
    parquet_bloom.delete(path, range(50, 250), on="id")
    dataset = parquet_bloom.dataset(path)
    parts = [send(part).to_table() for part in dataset.split(9, pc.field("part") >= 0)]
    assert sorted(pa.concat_tables(parts)["id"].to_pylist()) == [*range(50), *range(250, 300)]
    scans = [send(part).to_arrow() for part in dataset.scan("part = 1").split(9)]
    assert pa.concat_tables(scans)["id"].to_pylist() == [*range(250, 300)]
