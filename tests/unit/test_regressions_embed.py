"""What went wrong once when filters were embedded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import BrokenFilterError, NotParquetError, ParquetBloomError, StorageError
from parquet_bloom.file import embed as module

TABLE = pa.table({"id": pa.array(range(100), pa.int32()), "name": [f"n{i}" for i in range(100)]})


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path / "a.parquet"


def test_one_reader_a_column(path, monkeypatch):
    """One a chunk took minutes for 2,000 row groups: each describes all of them."""
    made = []

    class Counted(module.ColumnReader):
        def __init__(self, source, footer, leaf):
            made.append(leaf.name)
            super().__init__(source, footer, leaf)

    monkeypatch.setattr(module, "ColumnReader", Counted)
    assert parquet_bloom.embed(path, ["id", "name"]).num_filters == 20
    assert sorted(made) == ["id", "name"]


def file_of_nulls(path, values):
    """Filters without a bit set, and no statistics that count nulls (pyarrow and DataFusion write such)."""
    options = {"write_statistics": False, "bloom_filter_options": {"id": {"ndv": 10}}}
    pq.write_table(pa.table({"id": pa.array(values, pa.int32())}), path, **options)
    return path


def test_empty_filter_of_nulls_alone_is_kept(tmp_path):
    path = file_of_nulls(tmp_path / "nulls.parquet", [None] * 10)
    before = path.read_bytes()
    assert parquet_bloom.embed(path, ["id"]).kept == 1
    assert path.read_bytes() == before
    report = parquet_bloom.verify(path, data=True)
    assert report.ok
    assert [chunk.num_values for chunk in report.chunks] == [0]
    assert not parquet_bloom.verify(path).ok  # without the data nobody knows


def test_empty_filter_of_values_is_not(tmp_path):
    path = file_of_nulls(tmp_path / "values.parquet", [None, 1])
    with parquet_bloom.open(path) as file:
        chunk = file.chunk(0, "id")
        start, length = chunk.offset + chunk.header.header_bytes, chunk.num_bytes
    data = bytearray(path.read_bytes())
    data[start : start + length] = bytes(length)
    path.write_bytes(data)
    with pytest.raises(BrokenFilterError, match="no bit is set"):
        parquet_bloom.embed(path, ["id"])
    assert not parquet_bloom.verify(path, data=True).ok
    assert path.read_bytes() == data


def test_output_without_a_name_is_not_the_file_itself(path):
    before = path.read_bytes()
    with pytest.raises(StorageError, match="the path is empty"):
        parquet_bloom.embed(path, ["id"], output="")
    assert path.read_bytes() == before


def test_beginning_is_looked_at(path):
    path.write_bytes(b"XXXX" + path.read_bytes()[4:])
    with pytest.raises(NotParquetError, match="does not begin with PAR1"):
        parquet_bloom.embed(path, ["id"])


@pytest.mark.parametrize("columns", [None, 5, object(), [["id"]], [{"id": 1}]])
def test_columns_that_are_none(path, columns):
    with pytest.raises(ParquetBloomError, match="columns are dotted paths"):
        parquet_bloom.embed(path, columns)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_odd_threads(path, threads):
    with pytest.raises(ParquetBloomError, match="threads must be"):
        parquet_bloom.embed(path, ["id"], threads=threads)


def test_odd_power_of_two(path):
    with pytest.raises(ParquetBloomError, match="power_of_two must be"):
        parquet_bloom.embed(path, ["id"], power_of_two="no")


def test_numbers_of_numpy(path):
    columns = {"id": {"fpp": np.float32(0.01), "ndv": np.int64(1000)}}
    assert parquet_bloom.embed(path, columns).filters[0].num_bytes == 2048
