"""Test that scans, datasets and reports are tables to whatever knows Arrow's PyCapsule interface."""

from __future__ import annotations

import os
from pathlib import Path

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

TABLE = pa.table({"k": range(100), "text": [f"t{i}" for i in range(100)]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for part in range(2):
        pq.write_table(TABLE.slice(50 * part, 50), folder / f"{part}.parquet", row_group_size=10)
    return folder


def test_scans_are_tables(lake):
    scan = parquet_bloom.dataset(lake).scan("k IN (5, 77)", ["text", "k"])
    expected = {"text": ["t5", "t77"], "k": [5, 77]}
    assert pa.table(scan).to_pydict() == expected
    assert pa.table(scan).to_pydict() == expected  # any number of times
    assert pl.DataFrame(scan).to_dict(as_series=False) == expected
    assert pa.RecordBatchReader.from_stream(scan).read_all().to_pydict() == expected
    assert pa.schema(scan) == pa.schema([("text", pa.string()), ("k", pa.int64())])


def test_scans_without_rows_have_their_columns(lake):
    scan = parquet_bloom.dataset(lake).scan("k = -1")
    assert pa.table(scan).schema.names == ["k", "text"]
    assert pl.DataFrame(scan).shape == (0, 2)


def test_the_caller_may_ask_for_other_types(lake):
    scan = parquet_bloom.dataset(lake).scan("k = 5", ["text"])
    wanted = pa.schema([("text", pa.large_string())])
    assert pa.RecordBatchReader.from_stream(scan, schema=wanted).read_all().schema == wanted


def test_duckdb_finds_scans_by_the_name_of_a_variable(lake):
    dataset = parquet_bloom.dataset(lake)
    one, many = dataset.scan("k < 20"), parquet_bloom.semi_join(dataset, [5, 99, 500], "k")  # noqa: F841  # found by its name
    assert duckdb.sql("SELECT k, text FROM one JOIN many USING (k, text)").fetchall() == [(5, "t5")]
    assert duckdb.sql("SELECT text FROM many WHERE k > 5 ORDER BY k").fetchall() == [("t99",)]


def test_keys_of_a_join_come_from_whatever_exports_rows(lake):
    dataset = parquet_bloom.dataset(lake)
    rows = pa.table({"text": ["a", "b", "c"], "k": [5, 99, None]})
    small = {
        "scan": dataset.scan("k IN (5, 99)", ["k"]),
        "reader": rows.to_reader(),
        "relation": duckdb.sql("SELECT * FROM rows"),
        "polars": pl.DataFrame(rows),
        "table": rows,
    }
    for name, keys in small.items():
        found = parquet_bloom.semi_join(dataset, keys, "k").to_arrow()
        assert found["k"].to_pylist() == [5, 99], name
    assert dataset.locate("k", dataset.scan("k IN (5, 99)", ["text", "k"]))["key"].to_pylist() == [5, 99]
    assert dataset.locate(["k", "text"], dataset.scan("k = 5")).num_rows == 1
    with pytest.raises(ParquetBloomError, match="the table of keys has no column 'x'"):
        parquet_bloom.semi_join(dataset, dataset.scan(), "x")


def test_duckdb_still_hands_its_filters_to_a_dataset(lake):
    parquet_bloom.embed(lake, ["k"])
    dataset = parquet_bloom.dataset(lake)  # noqa: F841  # found by its name
    (lake / "1.parquet").write_bytes(b"PAR1 damaged")  # is not opened for a value of the other file
    with pytest.raises(duckdb.Error, match=r"1\.parquet"):
        duckdb.sql("SELECT count(*) FROM dataset").fetchall()
    plan = duckdb.sql("EXPLAIN SELECT text FROM dataset WHERE k = 5").fetchall()[0][1]
    assert "Filters" in plan


def test_datasets_are_tables(lake):
    dataset = parquet_bloom.dataset(lake)
    assert pa.table(dataset).equals(TABLE)
    assert pl.DataFrame(dataset).height == 100
    assert pa.schema(dataset) == dataset.schema
    kept = dataset.filter(pa.compute.field("k") >= 98)
    assert pl.DataFrame(kept)["k"].to_list() == [98, 99]


@pytest.mark.parametrize("consume", [pa.table, pl.DataFrame])
def test_an_error_while_rows_are_read_names_the_file(lake, consume):
    scan = parquet_bloom.dataset(lake).scan("k >= 0")
    scan.plan()
    path = lake / "1.parquet"
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"1\.parquet"):
        consume(scan)


def test_reports_are_tables(lake, tmp_path):
    embedded = parquet_bloom.embed(lake, ["k"])
    rows = pl.DataFrame(embedded)
    assert rows.columns == ["path", "output", "row_group", "column", "ndv", "num_bytes", "fpp"]
    assert rows["row_group"].to_list() == [0, 1, 2, 3, 4] * 2
    assert set(rows["ndv"]) == {10}
    plan = parquet_bloom.prune(lake, "k = 5")  # noqa: F841  # found by its name
    assert duckdb.sql("SELECT row_group, num_rows FROM plan WHERE read").fetchall() == [(0, 10)]
    assert duckdb.sql("SELECT sum(num_left) FROM plan").fetchall() == [(10,)]
    verified = pl.DataFrame(parquet_bloom.verify(lake, data=True))
    assert verified["ok"].all()
    assert set(verified["num_values"]) == {10}
    advice = pl.DataFrame(parquet_bloom.advise(lake))
    assert advice["column"].to_list() == ["k", "text"]
    assert pl.DataFrame(parquet_bloom.drop(lake))["freed"].to_list() == [True] * 10


def test_reports_of_nothing_have_their_columns(lake):
    report = parquet_bloom.drop(lake)
    assert pa.table(report).num_rows == 0
    assert pa.schema(report).names == ["path", "output", "row_group", "column", "num_bytes", "freed"]


def test_files_that_are_not_opened_have_a_row_without_a_row_group(tmp_path):
    for part in range(2):
        folder = tmp_path / f"p={part}"
        folder.mkdir()
        pq.write_table(TABLE, folder / "a.parquet")
    rows = pl.DataFrame(parquet_bloom.prune(tmp_path, "p = 1"))
    assert rows.select("row_group", "read", "by").rows() == [(None, False, "partition"), (0, True, None)]


def test_reports_of_changed_tables(tmp_path, lake):
    folder = tmp_path / "table"
    deltalake.write_deltalake(folder, TABLE)
    exchanged = pl.DataFrame(parquet_bloom.embed_table(folder, ["k"]))
    assert exchanged["num_filters"].to_list() == [1]
    deleted = pl.DataFrame(parquet_bloom.delete(folder, [5, 6], on="k"))
    assert deleted.select("num_rows", "how").rows() == [(2, "rewritten")]
    replaced = pl.DataFrame(parquet_bloom.upsert(folder, TABLE.slice(7, 1), on="k"))
    assert replaced["num_rows"].to_list() == [1]
    erased = pl.DataFrame(parquet_bloom.erase(lake, [5, 99], on="k"))
    assert erased.select("rows", "rows_left").rows() == [(1, 49), (1, 49)]
    assert [Path(path).name for path in erased["path"]] == ["0.parquet", "1.parquet"]


def test_a_path_that_is_not_utf8_is_a_uri(tmp_path):
    folder = bytes(tmp_path) + b"/\xff"
    os.mkdir(folder)
    path = os.fsdecode(folder + b"/a.parquet")
    with open(path, "wb") as file:
        pq.write_table(TABLE, file)
    shown = pl.DataFrame(parquet_bloom.prune(path, "k = 5"))["path"][0]
    assert shown.startswith("file://")
    assert parquet_bloom.read_table(shown, "k = 5").num_rows == 1
