"""Regressions in embedding filters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import I64, OFFSET, footer_start
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import BrokenFilterError, NotParquetError, ParquetBloomError, StorageError
from parquet_bloom.file import embed_filters as embed_module

TABLE = pa.table({"id": pa.array(range(100), pa.int32()), "name": [f"n{i}" for i in range(100)]})


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path / "a.parquet"


def test_one_reader_a_column(path, monkeypatch):
    """One a chunk took minutes for 2,000 row groups: each describes all of them."""
    created = []

    class Counted(embed_module.ColumnReader):
        def __init__(self, source, footer, leaf):
            created.append(leaf.name)
            super().__init__(source, footer, leaf)

    monkeypatch.setattr(embed_module, "ColumnReader", Counted)
    assert parquet_bloom.embed(path, ["id", "name"]).num_filters == 20
    assert sorted(created) == ["id", "name"]


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
    with pytest.raises(ParquetBloomError, match="columns must be a list or mapping"):
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


@pytest.mark.parametrize("columns", [["id"], ["name", "id"]], ids=["one", "both"])
@pytest.mark.parametrize("first", [True, False], ids=["kept first", "kept later"])
def test_replaced_filters_of_kept_footers_go_with_them(path, columns, first):
    """A filter that only a kept footer points to stood in the way of those before it, for ever."""
    before = path.read_bytes()
    parquet_bloom.embed(path, ["id", "name"], keep_footer=first)
    for keep_footer in (True, True, False, True):
        parquet_bloom.embed(path, columns, replace=True, keep_footer=keep_footer)
        assert parquet_bloom.verify(path, data=True).ok
    report = parquet_bloom.drop(path)
    assert (path.read_bytes() == before, report.dead_bytes) == (True, 0)


def test_a_footer_that_says_other_things_is_not_one_that_was_kept(path):
    """One of the same column chunks, with other metadata beside them: `drop` took it for `embed`'s own."""
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[:start] + data[start:].replace(b"parquet-cpp-arrow", b"parquet-cpp-ARROW") + data[start:])
    before = path.read_bytes()
    parquet_bloom.embed(path, ["id"])
    parquet_bloom.drop(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("lengths", [True, False], ids=["with lengths", "without"])
@pytest.mark.parametrize("keep_footer", [True, False])
def test_a_filter_that_was_cut_short_is_not_made_whole(path, keep_footer, lengths):
    """A kept footer in the place of the missing bytes made it one that denied values: rows were lost."""
    parquet_bloom.embed(path, ["name"])
    if not lengths:
        surgery.without_lengths(path)
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[: start - 16] + data[start:])
    before = path.read_bytes()
    with pytest.raises(BrokenFilterError, match="reach beyond the footer's beginning; drop it, or replace it"):
        parquet_bloom.embed(path, ["id"], keep_footer=keep_footer)
    assert path.read_bytes() == before
    parquet_bloom.embed(path, ["id", "name"], replace=True, keep_footer=keep_footer)
    assert parquet_bloom.verify(path, data=True).ok
    assert [parquet_bloom.read_table(path, f"name = 'n{i}'").num_rows for i in range(100)] == [1] * 100


def test_nothing_comes_to_stand_where_a_broken_filter_is_said_to_be(path):
    """A place in a kept footer: the footer went, and another column's filter began there."""
    retained = footer_start(path.read_bytes())
    parquet_bloom.embed(path, ["id"], keep_footer=True)

    def point_into_the_kept_footer(struct):
        _, metadata = next(iter(surgery.each_chunk(struct, "name")))
        metadata.set(OFFSET, I64, retained)

    surgery.rewrite_footer(path, point_into_the_kept_footer)
    parquet_bloom.embed(path, ["id"], replace=True)
    with parquet_bloom.open(path) as file:
        assert min(chunk.offset for chunk in file.chunks() if chunk.column == "id") > retained
    assert parquet_bloom.read_table(path, "name = 'n3'").num_rows == 1


def test_a_file_of_nothing_but_footers_takes_no_hours(tmp_path):
    """Each of them was parsed: eight megabytes took half a minute."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), path, store_schema=False)
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[:start] + data[start:] * 1500)
    assert parquet_bloom.drop(path).changed
    assert len(path.read_bytes()) == start + 500 * (len(data) - start)
    parquet_bloom.drop(path)
    assert path.read_bytes() == data
